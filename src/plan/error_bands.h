/* error_bands.h - how far predictions were off where somebody measured.
 *
 * The cases are in measured_cases.def, which `make bench-plan` writes from measurements on a GPU.
 * A plan's band is that of the cases of the same family and class with settings of the same kind;
 * without such cases there is no band, and the plan says so. How large the measured models were is
 * said with it. */
#ifndef VW_PLAN_ERROR_BANDS_H
#define VW_PLAN_ERROR_BANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/plan.h"
#include "base/arena.h"

typedef struct vw__plan_measured_case {
    const char *family;
    vw_plan_head head;
    uint64_t parameters;
    vw_plan_mode mode;
    vw_precision precision;
    vw_optimizer optimizer;
    vw_checkpointing checkpointing;
    vw_attention attention;
    vw_offload offload;
    vw_sharding sharding;
    bool has_master_weights, has_chunks, has_lora, is_quantized, is_generating;
    double error; /* of the peak: predicted / measured - 1 */
} vw__plan_measured_case;

extern const vw__plan_measured_case vw__plan_measured_cases[];
extern const size_t vw__plan_measured_case_count;

typedef struct vw__plan_error_band {
    size_t case_count; /* 0: nothing of the kind was measured */
    double low, high;
    uint64_t most_parameters; /* of those cases */
} vw__plan_error_band;

/* Of checked settings. */
vw__plan_error_band vw__plan_error_band_of(const vw_plan_model *model,
                                           const vw_plan_settings *settings);

/* In words: which cases, and how much larger this model is. NULL: no memory. */
const char *vw__plan_error_basis(vw__arena *arena, vw__plan_error_band band,
                                 const vw_plan_model *model, const vw_plan *plan);

/* The same among other cases. */
vw__plan_error_band vw__plan_error_band_among(const vw__plan_measured_case *cases,
                                              size_t case_count, const char *family,
                                              const vw_plan_settings *settings);

#endif /* VW_PLAN_ERROR_BANDS_H */
