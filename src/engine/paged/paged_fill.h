/* paged_fill.h - a range of addresses gets memory, for a request that found no free block. */
#ifndef VW_ENGINE_PAGED_PAGED_FILL_H
#define VW_ENGINE_PAGED_PAGED_FILL_H

#include "engine/paged/paged_engine.h"
#include "engine/paged/paged_survey.h" /* vw__paged_window */

/* A request that found no free block, on its way. */
typedef struct vw__paged_miss {
    vw__paged_engine *engine;
    vw__lane *lane;
    uint64_t size_bytes;
    uint64_t allowed_bytes; /* the growth limit */
    uint64_t most_bytes;    /* what the pool's limit and the device allow */
    unsigned operations;    /* handles made or moved so far */
    bool is_capturing;      /* its stream was captured when it came: nothing moves, nobody waits */
    bool is_optional;       /* only memory that is free serves it */
    bool takes_all;         /* what is kept for copying, too */
    bool keeps_limit;       /* the growth limit holds in any case */
    bool was_forced;        /* it grew beyond it */
} vw__paged_miss;

/* Gives every part of the window memory, after a survey. `*out` is the free block around it.
 * VW_ERR_OUT_OF_MEMORY: not all of it; pieces filled so far are free memory. */
vw_status vw__paged_fill(vw__paged_miss *request, const vw__paged_window *window, vw__block **out);

#endif /* VW_ENGINE_PAGED_PAGED_FILL_H */
