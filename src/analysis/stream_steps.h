/* stream_steps.h - the training steps of a recording, as streams see them: see stream_steps.c. */
#ifndef VW_ANALYSIS_STREAM_STEPS_H
#define VW_ANALYSIS_STREAM_STEPS_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/roles.h"
#include "analysis/steps.h"
#include "analysis/stream_cost.h"
#include "analysis/timeline.h"

/* What streams look at: requests and blocks of at least so many bytes, and of a step so many blocks
 * that are saved. */
#define VW__STREAM_STEPS_LEAST_BYTES (UINT64_C(1) << 20)
#define VW__STREAM_STEPS_MOST_ITEMS 4096

/* A block that can leave. */
typedef struct vw__stream_steps_block {
    uint32_t lifetime; /* of the timeline */
    uint32_t begin;    /* its */
} vw__stream_steps_block;

/* All steps but the first, which makes the optimizer's state. */
typedef struct vw__stream_steps {
    const vw__timeline *timeline; /* borrowed, and so the next two */
    const vw__steps *steps;
    const vw__roles *roles;
    int64_t *live_line;            /* owned; vw__timeline_live_line() */
    vw__stream_steps_block *state; /* owned; of an optimizer's state, by their begin */
    size_t state_count;
    vw__stream_steps_block *saved; /* owned; the same, that may be saved for a backward pass */
    size_t saved_count;
    uint64_t step_ns; /* that a step takes, by the recorded times; VW_UNKNOWN */
} vw__stream_steps;

/* VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__stream_steps_init(vw__stream_steps *all, const vw__timeline *timeline,
                                              const vw__steps *steps, const vw__roles *roles);
void vw__stream_steps_deinit(vw__stream_steps *all);

/* One of them. */
typedef struct vw__stream_steps_one {
    vw__stream_cost_step step;
    uint64_t *live_bytes; /* owned; the step's, and so the next two */
    uint64_t *gpu_ns;
    vw_saved_item *items; /* the first VW__STREAM_STEPS_MOST_ITEMS, by their begin */
    size_t per_mark;      /* requests that one mark stands for */
} vw__stream_steps_one;

/* `index` is from 1 on and below steps->end_count: what lies between two ends.
 * VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__stream_steps_take(const vw__stream_steps *all, size_t index,
                                              vw__stream_steps_one *out);
void vw__stream_steps_one_deinit(vw__stream_steps_one *one);

/* The step with the highest peak of live bytes, the last one among equals; 0: there is none. */
size_t vw__stream_steps_highest(const vw__stream_steps *all);

#endif /* VW_ANALYSIS_STREAM_STEPS_H */
