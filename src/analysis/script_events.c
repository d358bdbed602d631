/* script_events.c - segments of the end state by address, and which releases were an
 * empty_cache()'s.
 *
 * Releases by empty_cache() and releases inside a request look alike in a trace, and differ in a
 * replay: a request releases because it found no room, and counts as a retry; the program itself
 * calls empty_cache(). Recorded stacks decide: every event that a request causes carries the
 * request's own capture of the stack, the same one, not merely an equal one.
 *
 * Without stacks only the place is left. A release right before a request that then took new
 * memory, or failed, may be the request's; with no limit on splitting both readings lead to the
 * same layout, so it is taken for the request's, and verify tries the other where that differs. Any
 * other release cannot have been inside a request. */
#include "analysis/script_events.h"

#include <limits.h>

#include "analysis/script_parts.h" /* vw__script_is_flipped */

/* ---- segments at the end --------------------------------------------------------------------- */

/* Devices rise, the host's comes last. */
static unsigned rank_of(int device)
{
    return device < 0 ? UINT_MAX : (unsigned)device;
}

static size_t count_below(const vw__model *model, unsigned rank)
{
    size_t low = 0, high = model->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (rank_of(model->segments[middle].device) < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void vw__script_segments_of(const vw__model *model, int device, size_t *first, size_t *end)
{
    unsigned rank = rank_of(device);
    *first = count_below(model, rank);
    *end = rank == UINT_MAX ? model->segment_count : count_below(model, rank + 1);
}

const vw__model_segment *vw__script_segment_at(const vw__model *model, int device, uint64_t address)
{
    size_t first, end;
    vw__script_segments_of(model, device, &first, &end);
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        const vw__model_segment *segment = &model->segments[middle];
        if (address < segment->address)
            end = middle;
        else if (address - segment->address >= segment->total_bytes)
            first = middle + 1;
        else
            return segment;
    }
    return NULL;
}

/* ---- releases -------------------------------------------------------------------------------- */

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
    following next = {.context = VW__MODEL_NO_CONTEXT};
    *has_guesses = false;
    for (size_t i = trace->event_count; i-- > 0;) {
        const vw__model_event *event = &trace->events[i];
        is_trim[i] = false;
        if (vw__script_is_remark(event->action) || event->action == VW_ACTION_FREE_COMPLETED)
            continue;
        if (event->action == VW_ACTION_ALLOC || event->action == VW_ACTION_OOM) {
            next = (following){.context = event->context,
                               .is_in_request = true,
                               .is_growing = event->action == VW_ACTION_OOM};
        } else if (vw__script_is_growth(event->action)) {
            next.is_growing = true;
        } else if (!vw__script_is_release(event->action)) {
            next.is_in_request = false;
        } else {
            is_trim[i] = !next.is_in_request;
            if (!is_trim[i] && has_identity) {
                is_trim[i] =
                    event->context == VW__MODEL_NO_CONTEXT || event->context != next.context;
            } else if (!is_trim[i]) {
                next.is_flipped = next.is_flipped || vw__script_is_flipped(guide, i);
                is_trim[i] = !next.is_growing || next.is_flipped;
                *has_guesses = *has_guesses || next.is_growing;
            }
        }
    }
}
