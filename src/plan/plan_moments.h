/* plan_moments.h - two moments of a planned run, looked at closely: its peak, and the end of the
 * last forward pass. */
#ifndef HR_PLAN_PLAN_MOMENTS_H
#define HR_PLAN_PLAN_MOMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "headroom/status.h"
#include "plan/plan_events.h"

/* What kind of layer made it. */
typedef enum hr__layer_kind {
    HR__LAYER_ATTENTION,
    HR__LAYER_MLP,
    HR__LAYER_NORM,
    HR__LAYER_EMBEDDING,
    HR__LAYER_CONVOLUTION,
    HR__LAYER_LOSS,
    HR__LAYER_OTHER, /* what blocks hand on: sums, checkpoints */
    HR__LAYER_COUNT
} hr__layer_kind;

const char *hr__layer_kind_name(hr__layer_kind kind);

typedef struct hr__plan_moments {
    uint64_t kept_bytes[HR__LAYER_COUNT]; /* activations and the loss's, for the backward pass */
    hr__plan_origin peak;                 /* of the request that made the last step's peak */
} hr__plan_moments;

/* HR_ERR_HOST_MEMORY */
HR_MUST_CHECK hr_status hr__plan_moments_find(const hr__plan_events *events, hr__plan_moments *out);

/* Is one of the place's scopes called so? */
bool hr__plan_is_inside(const hr__tape *tape, uint32_t place, const char *name);

#endif /* HR_PLAN_PLAN_MOMENTS_H */
