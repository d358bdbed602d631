/* view_growth.h - what stacks hold step after step, and which of them leak by the doctor's word.
 *
 * Looked at only where steps end: what comes and goes within one does not count. The samples are
 * spread over the steps, the last included. */
#ifndef VW_VIEW_VIEW_GROWTH_H
#define VW_VIEW_VIEW_GROWTH_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/steps.h"
#include "doctor/diagnosis.h" /* vw__diagnosis_found_growth */
#include "view/view_blocks.h"
#include "view/view_columns.h"

enum { VW__VIEW_MOST_SAMPLES = 64, VW__VIEW_MOST_GROWING = 256 };

/* The doctor's answer for a device. */
typedef struct vw__view_leaks {
    vw__diagnosis_found_growth growth; /* its stacks are the model's */
    const uint32_t *number_of; /* borrowed; by the model's stack: the view's, or VW__VIEW_NONE */
    const char *reason;        /* why there is no answer; NULL. Static */
} vw__view_leaks;

typedef struct vw__view_growth {
    uint32_t steps[VW__VIEW_MOST_SAMPLES]; /* place in vw__steps.ends, rising */
    uint32_t instants[VW__VIEW_MOST_SAMPLES];
    size_t sample_count;
    uint32_t *stacks;         /* owned; as in the blocks, VW__VIEW_NONE included; leaks first */
    uint64_t *bytes_per_step; /* owned; by stack; 0: it does not leak */
    size_t stack_count;
    uint64_t *bytes;    /* owned; [stack][sample] */
    const char *reason; /* why nothing is known, static; or NULL */
} vw__view_growth;

/* `stack_count`: of the run, so far. */
VW_MUST_CHECK vw_status vw__view_growth_make(const vw__view_blocks *blocks, size_t stack_count,
                                             const vw__steps *steps, const vw__view_leaks *leaks,
                                             vw__view_growth *out);
void vw__view_growth_deinit(vw__view_growth *growth);

VW_MUST_CHECK vw_status vw__view_growth_write(const vw__view_growth *growth,
                                              vw__view_columns *columns);

#endif /* VW_VIEW_VIEW_GROWTH_H */
