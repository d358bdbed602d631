/* model_check.h - does a model hold what memory_model.h promises?
 *
 * Whoever reads a model may use any index in it without looking, and may subtract addresses; so
 * everything is looked at once, here, before a model is handed over. */
#ifndef HR_MODEL_MODEL_CHECK_H
#define HR_MODEL_MODEL_CHECK_H

#include "headroom/status.h"
#include "model/memory_model.h"

/* HR_ERR_CORRUPT_FILE: the first thing that is wrong, with its numbers in words. One pass over
 * everything, no memory. */
HR_MUST_CHECK hr_status hr__model_check(const hr__model *model);

/* The highest numbers of many events; an _end is one more than the highest, and 0 where all have
 * none. Whoever makes events can keep them while an event is at hand, and save the pass over all
 * of them afterwards. Zeroed at first. */
typedef struct hr__model_event_bounds {
    uint32_t context_end;
    uint32_t note_end;
    uint16_t pool_end;
    uint16_t highest_stream;
    uint8_t highest_action;
} hr__model_event_bounds;

static inline void hr__model_event_bounds_add(hr__model_event_bounds *bounds,
                                              const hr__model_event *event)
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

/* The same check for one who knows the bounds of all events. */
HR_MUST_CHECK hr_status hr__model_check_bounded(const hr__model *model,
                                                const hr__model_event_bounds *bounds);

#endif /* HR_MODEL_MODEL_CHECK_H */
