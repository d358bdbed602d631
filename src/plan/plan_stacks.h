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
#ifndef VW_PLAN_PLAN_STACKS_H
#define VW_PLAN_PLAN_STACKS_H

#include "base/byte_buffer.h"
#include "model/model_build.h"
#include "plan/plan_events.h"

typedef struct vw__plan_stacks {
    const vw__plan_events *events; /* borrowed */
    vw__model_builder *builder;    /* borrowed */
    const char *program;           /* function of the outermost frame: "train", "evaluate" */
    struct vw__plan_stack *known;  /* owned; by place and pass */
    vw__byte_buffer path;
} vw__plan_stacks;

/* VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_stacks_init(vw__plan_stacks *stacks, const vw__plan_events *events,
                                             const char *program, vw__model_builder *builder);
void vw__plan_stacks_deinit(vw__plan_stacks *stacks);

/* The stack of a request, as vw__model_add_stack() says. */
VW_MUST_CHECK vw_status vw__plan_stack_of(vw__plan_stacks *stacks, const vw__plan_origin *origin,
                                          uint32_t *id);

#endif /* VW_PLAN_PLAN_STACKS_H */
