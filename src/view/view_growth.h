/* view_growth.h - which stacks hold more and more, step after step.
 *
 * Looked at only where steps end: what comes and goes within one does not count. The samples are
 * spread over the steps, the last included. */
#ifndef HR_VIEW_VIEW_GROWTH_H
#define HR_VIEW_VIEW_GROWTH_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/steps.h"
#include "view/view_blocks.h"
#include "view/view_columns.h"

enum { HR__VIEW_MOST_SAMPLES = 64, HR__VIEW_MOST_GROWING = 256, HR__VIEW_FEWEST_STEPS = 4 };

typedef struct hr__view_growth {
    uint32_t steps[HR__VIEW_MOST_SAMPLES]; /* place in hr__steps.ends, rising */
    uint32_t instants[HR__VIEW_MOST_SAMPLES];
    size_t sample_count;
    uint32_t *stacks; /* owned; as in the blocks, HR__VIEW_NONE included; most growth first */
    size_t stack_count;
    uint64_t *bytes;    /* owned; [stack][sample] */
    const char *reason; /* why there is none; NULL. Static */
} hr__view_growth;

/* `stack_count`: of the run, so far. */
HR_MUST_CHECK hr_status hr__view_growth_make(const hr__view_blocks *blocks, size_t stack_count,
                                             const hr__steps *steps, hr__view_growth *out);
void hr__view_growth_deinit(hr__view_growth *growth);

HR_MUST_CHECK hr_status hr__view_growth_write(const hr__view_growth *growth,
                                              hr__view_columns *columns);

#endif /* HR_VIEW_VIEW_GROWTH_H */
