/* view_growth.h - which stacks hold more and more, step after step.
 *
 * Looked at only where steps end: what comes and goes within one does not count. The samples are
 * spread over the steps, the last included. */
#ifndef VW_VIEW_VIEW_GROWTH_H
#define VW_VIEW_VIEW_GROWTH_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/steps.h"
#include "view/view_blocks.h"
#include "view/view_columns.h"

enum { VW__VIEW_MOST_SAMPLES = 64, VW__VIEW_MOST_GROWING = 256, VW__VIEW_FEWEST_STEPS = 4 };

typedef struct vw__view_growth {
    uint32_t steps[VW__VIEW_MOST_SAMPLES]; /* place in vw__steps.ends, rising */
    uint32_t instants[VW__VIEW_MOST_SAMPLES];
    size_t sample_count;
    uint32_t *stacks; /* owned; as in the blocks, VW__VIEW_NONE included; most growth first */
    size_t stack_count;
    uint64_t *bytes;    /* owned; [stack][sample] */
    const char *reason; /* why there is none; NULL. Static */
} vw__view_growth;

/* `stack_count`: of the run, so far. */
VW_MUST_CHECK vw_status vw__view_growth_make(const vw__view_blocks *blocks, size_t stack_count,
                                             const vw__steps *steps, vw__view_growth *out);
void vw__view_growth_deinit(vw__view_growth *growth);

VW_MUST_CHECK vw_status vw__view_growth_write(const vw__view_growth *growth,
                                              vw__view_columns *columns);

#endif /* VW_VIEW_VIEW_GROWTH_H */
