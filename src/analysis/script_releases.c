/* script_releases.c - which memory was given back by empty_cache(), and which inside a request.
 *
 * The two look alike in a trace, and differ in a replay: a request releases because it found no
 * room, and counts as a retry; an empty_cache() is the program's own doing. Where stacks were
 * recorded they tell: whatever a request causes carries the request's own capture of the stack, the
 * same one, not merely an equal one.
 *
 * Without stacks only the place is left. A release right before a request that then took new
 * memory, or failed, may be the request's; with no limit on splitting both readings lead to the
 * same layout, so it is taken for the request's, and verify tries the other where that differs. Any
 * other release cannot have been inside a request. */
#include "analysis/script_parts.h"

/* Going backwards: what comes after the event being looked at. */
typedef struct following {
    uint32_t context;   /* of the next request */
    bool is_in_request; /* nothing but a request's own events up to it */
    bool is_growing;    /* it takes memory, or fails */
    bool is_flipped;    /* the release behind was said to be a trim's: so is this one */
} following;

bool vw__script_is_flipped(const vw__script_guide *guide, size_t event)
{
    for (size_t i = 0; i < guide->flip_count; i++)
        if (guide->flips[i] == event)
            return true;
    return false;
}

void vw__script_find_trims(const vw__model *model, const vw__model_trace *trace,
                           const vw__script_guide *guide, bool *is_trim, bool *has_guesses)
{
    bool has_identity = model->features.has_contexts && model->features.has_identity;
    following next = {.context = VW__NO_CONTEXT};
    *has_guesses = false;
    for (size_t i = trace->event_count; i-- > 0;) {
        const vw__model_event *event = &trace->events[i];
        is_trim[i] = false;
        if (vw__is_remark(event->action) || event->action == VW_ACTION_FREE_COMPLETED)
            continue;
        if (event->action == VW_ACTION_ALLOC || event->action == VW_ACTION_OOM) {
            next = (following){.context = event->context,
                               .is_in_request = true,
                               .is_growing = event->action == VW_ACTION_OOM};
        } else if (vw__is_growth(event->action)) {
            next.is_growing = true;
        } else if (!vw__is_release(event->action)) {
            next.is_in_request = false;
        } else {
            is_trim[i] = !next.is_in_request;
            if (!is_trim[i] && has_identity) {
                is_trim[i] = event->context == VW__NO_CONTEXT || event->context != next.context;
            } else if (!is_trim[i]) {
                next.is_flipped = next.is_flipped || vw__script_is_flipped(guide, i);
                is_trim[i] = !next.is_growing || next.is_flipped;
                *has_guesses = *has_guesses || next.is_growing;
            }
        }
    }
}
