/* plan_moments.h - two moments of a planned run, looked at closely: its peak, and the end of the
 * last forward pass. */
#ifndef VW_PLAN_PLAN_MOMENTS_H
#define VW_PLAN_PLAN_MOMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "plan/plan_events.h"

/* What kind of layer made it. */
typedef enum vw__layer_kind {
    VW__LAYER_ATTENTION,
    VW__LAYER_MLP,
    VW__LAYER_NORM,
    VW__LAYER_EMBEDDING,
    VW__LAYER_CONVOLUTION,
    VW__LAYER_LOSS,
    VW__LAYER_OTHER, /* what blocks hand on: sums, checkpoints */
    VW__LAYER_COUNT
} vw__layer_kind;

const char *vw__layer_kind_name(vw__layer_kind kind);

typedef struct vw__plan_moments {
    uint64_t kept_bytes[VW__LAYER_COUNT]; /* activations and the loss's, for the backward pass */
    vw__plan_origin peak;                 /* of the request that made the last step's peak */
} vw__plan_moments;

/* VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__plan_moments_find(const vw__plan_events *events, vw__plan_moments *out);

/* Is one of the place's scopes called so? */
bool vw__plan_is_inside(const vw__tape *tape, uint32_t place, const char *name);

#endif /* VW_PLAN_PLAN_MOMENTS_H */
