/* stream_cost.h - the time that streams cost a step: see stream_cost.c. */
#ifndef VW_ANALYSIS_STREAM_COST_H
#define VW_ANALYSIS_STREAM_COST_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "vramwise/vramwise.h" /* vw_saved_item */

/* The assumptions in words, for reports. */
#define VW__STREAM_COST_WORDS                                                                      \
    "one step is scheduled as in a running program; copies take 20 ms a GiB each way, beside a "   \
    "forward pass of a third of the step and a backward pass of the rest"

/* The forward pass's part of both passes: the backward pass makes two matrix products for one. */
#define VW__STREAM_COST_FORWARD_SHARE (1.0 / 3)

/* One training step. Its marks are its large requests, in order. */
typedef struct vw__stream_cost_step {
    const uint64_t *live_bytes; /* by mark: live then, counting everything that is away */
    const uint64_t *gpu_ns;     /* by mark: the GPU's work from there to the next */
    size_t mark_count;
    uint64_t hidden_bytes;         /* vw_schedule_hidden_bytes() */
    size_t optimizer_mark;         /* the first of the optimizer's step; mark_count: it has none */
    uint64_t optimizer_live_bytes; /* when that step begins */
    uint64_t state_bytes;          /* of the optimizer: what can leave */
    size_t state_count;            /* tensors that it is in */
    uint64_t idle_ns;              /* the program waits for the GPU so long, without streams */
    const vw_saved_item *items; /* what the forward pass saves: size_bytes, from_mark, until_mark */
    size_t item_count;
} vw__stream_cost_step;

/* When what leaves, and when it may return, as production schedules it from a step like this. */
typedef struct vw__stream_cost_plan {
    uint64_t host_bytes;  /* host memory that it takes */
    uint64_t leave_bytes; /* of the state */
    uint64_t stay_bytes;  /* of those: that are used on the host, since the passes hide no more */
    uint64_t *back_bytes; /* owned; by mark: how much of it may be back */
    vw_saved_item *items; /* owned; those of the step, with `leaves` and `back_mark` */
} vw__stream_cost_plan;

/* For a device of `limit_bytes`, with up to `host_bytes` of host memory. VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__stream_cost_plan_make(const vw__stream_cost_step *step,
                                                  uint64_t limit_bytes, uint64_t host_bytes,
                                                  vw__stream_cost_plan *out);
void vw__stream_cost_plan_deinit(vw__stream_cost_plan *plan);

/* What a step comes to, once the first ones are over. */
typedef struct vw__stream_cost {
    uint64_t state_bytes;   /* of the optimizer's state that leave */
    uint64_t saved_bytes;   /* of saved tensors that leave */
    uint64_t stayed_bytes;  /* of the state that the optimizer finds in host memory */
    uint64_t short_bytes;   /* the most that a mark lacks though all that can be is away */
    uint64_t room_wait_ns;  /* requests wait for copies to the host */
    uint64_t saved_wait_ns; /* the backward pass waits for saved tensors */
    uint64_t state_wait_ns; /* the optimizer waits for its state */
    uint64_t touch_ns;      /* it reads and writes stayed_bytes over the bus */
    uint64_t map_ns;        /* memory that changes hands is mapped elsewhere */
    uint64_t call_ns;       /* the program's own calls for all of this, if it cannot hide them */
} vw__stream_cost;

/* How much longer the step takes. */
static inline uint64_t vw__stream_cost_ns(const vw__stream_cost *cost)
{
    return cost->room_wait_ns + cost->saved_wait_ns + cost->state_wait_ns + cost->touch_ns +
           cost->map_ns + cost->call_ns;
}

/* Plays the planned step on a device of `limit_bytes`. A pure function, but for host memory:
 * VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__stream_cost_find(const vw__stream_cost_step *step,
                                             const vw__stream_cost_plan *plan, uint64_t limit_bytes,
                                             vw__stream_cost *out);

#endif /* VW_ANALYSIS_STREAM_COST_H */
