/* steps.h - where the training steps of a trace end, and where its phases do.
 *
 * A recording does not say. Found, in this order: by annotations (ProfilerStep#n, or what PyTorch's
 * optimizers announce of themselves), by stacks (an optimizer's step() in torch/optim ends a step),
 * by the rhythm of live bytes (a low that comes back again and again). A phase ends where the kind
 * of step changes: training to evaluation, and back. Never invented: a trace without a rhythm has
 * no steps, and without stacks there are no phases. */
#ifndef VW_ANALYSIS_STEPS_H
#define VW_ANALYSIS_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/attribution.h"
#include "analysis/timeline.h"
#include "model/memory_model.h"

typedef struct vw__steps {
    uint32_t *ends; /* owned; rising: event indices, each the first event after a step */
    size_t end_count;
    uint32_t *phase_ends; /* owned; the same for phases */
    size_t phase_end_count;
    const char *basis; /* "annotations", "optimizer stacks", "rhythm of live bytes"; NULL: no
                          steps */
} vw__steps;

VW_MUST_CHECK vw_status vw__steps_find(const vw__model *model, const vw__model_trace *trace,
                                       vw__steps *out);

/* The same for those who have these at hand. */
VW_MUST_CHECK vw_status vw__steps_find_in(const vw__timeline *timeline,
                                          const vw__attribution *attribution, vw__steps *out);
void vw__steps_deinit(vw__steps *steps);

/* The time from the end of a step to that of the next, by the recorded times: the median of all.
 * VW_UNKNOWN without two ends, or without times. VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__steps_usual_ns(const vw__model_trace *trace, const vw__steps *steps,
                                           uint64_t *out);

#endif /* VW_ANALYSIS_STEPS_H */
