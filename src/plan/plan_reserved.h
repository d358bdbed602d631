/* plan_reserved.h - what a planned run makes an allocator hold: not estimated, but replayed. */
#ifndef HR_PLAN_PLAN_RESERVED_H
#define HR_PLAN_PLAN_RESERVED_H

#include <stdint.h>

#include "headroom/plan.h"
#include "plan/plan_events.h"

/* More than any card has; what an allocator would make of it is nobody's question. */
#define HR__MOST_REPLAYED_BYTES (UINT64_C(1) << 40)

enum { HR__PLAN_POLICIES = 3 }; /* native, expandable, headroom */

typedef struct hr__plan_replayed {
    uint64_t reserved_bytes[HR__PLAN_POLICIES]; /* peak; HR_UNKNOWN: more than such a card has */

    /* Of the last step, with PyTorch's defaults, as max_memory_allocated() counts: a block that is
     * not worth splitting counts whole. HR_UNKNOWN as above. */
    uint64_t peak_allocated_bytes;
} hr__plan_replayed;

/* Plays the requests of two steps, or forward passes, or of one generation, through each of the
 * three. The settings must have been checked. Of many accumulated batches the first few are played:
 * the others are as the last of these. Where there are more requests than can be listed, nothing is
 * known. HR_ERR_HOST_MEMORY, and what hr__plan_simulate() says. */
HR_MUST_CHECK hr_status hr__plan_replay(const hr_plan_model *model,
                                        const hr_plan_settings *settings, hr__plan_replayed *out);

/* Of many accumulated batches so many are played. */
enum { HR__PLAN_PLAYED_ACCUMULATION = 3 };

/* The same of requests that are there already. */
HR_MUST_CHECK hr_status hr__plan_replay_events(const hr__plan_events *events,
                                               hr__plan_replayed *out);

/* The first part of it: hr_plan.reserved_bytes. */
HR_MUST_CHECK hr_status hr__plan_reserved(const hr_plan_model *model,
                                          const hr_plan_settings *settings,
                                          uint64_t reserved_bytes[HR__PLAN_POLICIES]);

#endif /* HR_PLAN_PLAN_RESERVED_H */
