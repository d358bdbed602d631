/* model_check.h - checks that a model keeps the invariants of memory_model.h.
 *
 * Readers of a model use its indices and subtract its addresses without checking them. So
 * everything is checked once, here, before a model is handed over. */
#ifndef VW_MODEL_MODEL_CHECK_H
#define VW_MODEL_MODEL_CHECK_H

#include "vramwise/status.h"
#include "model/memory_model.h"

/* The highest numbers among many events; an _end is one more than the highest, and 0 where no event
 * has one. Whoever makes events can gather them on the way and save a pass over all events. Zeroed
 * at first. */
typedef struct vw__model_event_bounds {
    uint32_t context_end;
    uint32_t note_end;
    uint16_t pool_end;
    uint16_t highest_stream;
    uint8_t highest_action;
} vw__model_event_bounds;

static inline void vw__model_event_bounds_add(vw__model_event_bounds *bounds,
                                              const vw__model_event *event)
{
    uint32_t context_end = event->context + 1, note_end = event->note + 1; /* none becomes 0 */
    uint16_t pool_end = (uint16_t)(event->pool + 1);
    bounds->context_end = context_end > bounds->context_end ? context_end : bounds->context_end;
    bounds->note_end = note_end > bounds->note_end ? note_end : bounds->note_end;
    bounds->pool_end = pool_end > bounds->pool_end ? pool_end : bounds->pool_end;
    bounds->highest_stream =
        event->stream > bounds->highest_stream ? event->stream : bounds->highest_stream;
    bounds->highest_action =
        event->action > bounds->highest_action ? event->action : bounds->highest_action;
}

/* VW_ERR_CORRUPT_FILE: the first contradiction, with its numbers in words. One pass over
 * everything, no memory. `bounds` are those of all events; NULL: the events are read. */
VW_MUST_CHECK vw_status vw__model_check(const vw__model *model,
                                        const vw__model_event_bounds *bounds);

#endif /* VW_MODEL_MODEL_CHECK_H */
