/* steps.h - where the training steps of a trace end, and where its phases do.
 *
 * A recording does not say. Found, in this order: by annotations (ProfilerStep#n, or what PyTorch's
 * optimizers announce of themselves), by stacks (an optimizer's step() in torch/optim ends a step),
 * by the rhythm of live bytes (a low that comes back again and again). A phase ends where the kind
 * of step changes: training to evaluation, and back. Never invented: a trace without a rhythm has
 * no steps, and without stacks there are no phases. */
#ifndef HR_ANALYSIS_STEPS_H
#define HR_ANALYSIS_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/attribution.h"
#include "analysis/timeline.h"
#include "model/memory_model.h"

typedef struct hr__steps {
    uint32_t *ends; /* owned; rising: event indices, each the first event after a step */
    size_t end_count;
    uint32_t *phase_ends; /* owned; the same for phases */
    size_t phase_end_count;
    const char *basis; /* "annotations", "optimizer stacks", "rhythm of live bytes"; NULL = none */
} hr__steps;

HR_MUST_CHECK hr_status hr__steps_find(const hr__model *model, const hr__model_trace *trace,
                                       hr__steps *out);

/* The same for those who have these at hand. */
HR_MUST_CHECK hr_status hr__steps_find_in(const hr__timeline *timeline,
                                          const hr__attribution *attribution, hr__steps *out);
void hr__steps_deinit(hr__steps *steps);

#endif /* HR_ANALYSIS_STEPS_H */
