/* view_stacks.h - the stacks of a run that its page shows, numbered as they are met.
 *
 * A recording has stacks of frees and segments too; the page gets those of requests alone. Equal
 * stacks are one, as in moment.h. */
#ifndef HR_VIEW_VIEW_STACKS_H
#define HR_VIEW_VIEW_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/attribution.h"
#include "view/view_columns.h"

typedef struct hr__view_stacks {
    const hr__attribution *attribution; /* borrowed */
    uint32_t *number_of;                /* owned; by the model's stack: ours, or HR__VIEW_NONE */
    uint32_t *stacks;                   /* owned; the model's, by our number */
    size_t stack_count;
    size_t frame_count; /* known once written */
} hr__view_stacks;

HR_MUST_CHECK hr_status hr__view_stacks_init(hr__view_stacks *stacks,
                                             const hr__attribution *attribution);
void hr__view_stacks_deinit(hr__view_stacks *stacks);

/* Our number of the stack of a context; HR__VIEW_NONE for HR__NO_CONTEXT. */
uint32_t hr__view_stacks_number(hr__view_stacks *stacks, uint32_t context);

/* strings, frame.*, stack.* */
HR_MUST_CHECK hr_status hr__view_stacks_write(hr__view_stacks *stacks, hr__view_columns *columns);

#endif /* HR_VIEW_VIEW_STACKS_H */
