/* error_bands.h - how far predictions were off where somebody measured.
 *
 * The cases are in measured_cases.c, which `make bench-plan` writes from measurements on a GPU. A
 * plan's band is that of the cases of the same family with settings of the same kind; where there
 * are none, there is no band, and the plan says so. */
#ifndef HR_PLAN_ERROR_BANDS_H
#define HR_PLAN_ERROR_BANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/plan.h"

typedef struct hr__measured_case {
    const char *family;
    hr_plan_mode mode;
    hr_precision precision;
    hr_optimizer optimizer;
    hr_checkpointing checkpointing;
    hr_attention attention;
    hr_offload offload;
    hr_sharding sharding;
    bool has_master_weights, has_chunks, has_lora, is_quantized, is_generating;
    double error; /* of the peak: predicted / measured - 1 */
} hr__measured_case;

extern const hr__measured_case hr__measured_cases[];
extern const size_t hr__measured_case_count;

typedef struct hr__error_band {
    size_t case_count; /* 0: nothing of the kind was measured */
    double low, high;
} hr__error_band;

hr__error_band hr__error_band_of(const char *family, const hr_plan_settings *settings);

/* The same among other cases. */
hr__error_band hr__error_band_among(const hr__measured_case *cases, size_t case_count,
                                    const char *family, const hr_plan_settings *settings);

#endif /* HR_PLAN_ERROR_BANDS_H */
