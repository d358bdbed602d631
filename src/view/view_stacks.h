/* view_stacks.h - the stacks of a run that its page shows, numbered as they are met.
 *
 * A recording has stacks of frees and segments too; the page gets those of requests alone. Equal
 * stacks are one, as in moment.h. */
#ifndef VW_VIEW_VIEW_STACKS_H
#define VW_VIEW_VIEW_STACKS_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/attribution.h"
#include "view/view_columns.h"

typedef struct vw__view_stacks {
    const vw__attribution *attribution; /* borrowed */
    uint32_t *number_of;                /* owned; by the model's stack: ours, or VW__VIEW_NONE */
    uint32_t *stacks;                   /* owned; the model's, by our number */
    size_t stack_count;
    size_t frame_count; /* known once written */
} vw__view_stacks;

VW_MUST_CHECK vw_status vw__view_stacks_init(vw__view_stacks *stacks,
                                             const vw__attribution *attribution);
void vw__view_stacks_deinit(vw__view_stacks *stacks);

/* Our number of the stack of a context; VW__VIEW_NONE for VW__MODEL_NO_CONTEXT. */
uint32_t vw__view_stacks_number(vw__view_stacks *stacks, uint32_t context);

/* strings, frame.*, stack.* */
VW_MUST_CHECK vw_status vw__view_stacks_write(vw__view_stacks *stacks, vw__view_columns *columns);

#endif /* VW_VIEW_VIEW_STACKS_H */
