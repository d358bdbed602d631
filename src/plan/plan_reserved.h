/* plan_reserved.h - what a planned run makes an allocator hold: not estimated, but replayed. */
#ifndef VW_PLAN_PLAN_RESERVED_H
#define VW_PLAN_PLAN_RESERVED_H

#include <stdint.h>

#include "vramwise/plan.h"
#include "plan/plan_events.h"

/* More than any card has; what an allocator would make of it is nobody's question. */
#define VW__MOST_REPLAYED_BYTES (UINT64_C(1) << 40)

/* native, expandable, vramwise: the rows of settings/setting_table.h that are for the planner. */
enum { VW__PLAN_POLICIES = 3 };

typedef struct vw__plan_replayed {
    uint64_t reserved_bytes[VW__PLAN_POLICIES]; /* peak; VW_UNKNOWN: more than such a card has */

    /* Of the last step, with PyTorch's defaults, as max_memory_allocated() counts: a block that is
     * not worth splitting counts whole. VW_UNKNOWN as above. */
    uint64_t peak_allocated_bytes;
} vw__plan_replayed;

/* Plays the requests of two steps, or forward passes, or of one generation, through each of the
 * three. The settings must have been checked. Of many accumulated batches the first few are played:
 * the others are as the last of these. Where there are more requests than can be listed, nothing is
 * known. VW_ERR_HOST_MEMORY, and what vw__plan_simulate() says. */
VW_MUST_CHECK vw_status vw__plan_replay(const vw_plan_model *model,
                                        const vw_plan_settings *settings, vw__plan_replayed *out);

/* Of many accumulated batches so many are played. */
enum { VW__PLAN_PLAYED_ACCUMULATION = 3 };

/* The same of requests that are there already. */
VW_MUST_CHECK vw_status vw__plan_replay_events(const vw__plan_events *events,
                                               vw__plan_replayed *out);

/* The first part of it: vw_plan.reserved_bytes. */
VW_MUST_CHECK vw_status vw__plan_reserved(const vw_plan_model *model,
                                          const vw_plan_settings *settings,
                                          uint64_t reserved_bytes[VW__PLAN_POLICIES]);

#endif /* VW_PLAN_PLAN_RESERVED_H */
