/* plan_stacks.h - stacks for a planned run, that read like those of a program.
 *
 * A place of the tape ("layer 7", "attention", "q_proj") becomes frames, the innermost first:
 *
 *   layer 7 / attention / q_proj   forward
 *   layer 7 / attention            forward
 *   layer 7                        forward
 *   torch/nn/modules/module.py     _call_impl
 *   plan                           train
 *
 * The frames of torch are those that a recording would have there: by them everything that reads
 * stacks (analysis/attribution.h) tells weights, forward, backward and optimizer apart, and needs
 * to know nothing of plans. */
#ifndef HR_PLAN_PLAN_STACKS_H
#define HR_PLAN_PLAN_STACKS_H

#include "base/byte_buffer.h"
#include "model/model_build.h"
#include "plan/plan_events.h"

typedef struct hr__plan_stacks {
    const hr__plan_events *events; /* borrowed */
    hr__model_builder *builder;    /* borrowed */
    const char *program;           /* function of the outermost frame: "train", "evaluate" */
    struct hr__plan_stack *known;  /* owned; by place and pass */
    hr__byte_buffer path;
} hr__plan_stacks;

/* HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__plan_stacks_init(hr__plan_stacks *stacks, const hr__plan_events *events,
                                             const char *program, hr__model_builder *builder);
void hr__plan_stacks_deinit(hr__plan_stacks *stacks);

/* The stack of a request, as hr__model_add_stack() says. */
HR_MUST_CHECK hr_status hr__plan_stack_of(hr__plan_stacks *stacks, const hr__plan_origin *origin,
                                          uint32_t *id);

#endif /* HR_PLAN_PLAN_STACKS_H */
