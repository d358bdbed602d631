/* verify_reading.c - events that can be read in more than one way, and which way to try next.
 *
 * A first reading is the likeliest one. Each other one is asked for by a difference, is about the
 * operation that differed, and is tried once (docs/design/003). */
#include "analysis/verify_parts.h"

#include "analysis/script_events.h"
#include "base/error.h"
#include "base/host_memory.h"

/* ---- scripts --------------------------------------------------------------------------------- */

void vw__reading_deinit(vw__reading *reading)
{
    vw__host_free(reading->is_unsplit);
    *reading = (vw__reading){.flip_count = 0};
}

void vw__reading_drop_captures(vw__reading *reading)
{
    vw__reading_deinit(reading);
    reading->has_no_captures = true;
}

/* Pools that the expectation names; what was concluded about others is lost with their numbers. */
static vw_status make_room_for_pools(vw__reading *reading, const vw__expectation *expectation,
                                     const vw__script *script)
{
    if (reading->is_unsplit != NULL && reading->pool_count == script->pool_count)
        return VW_OK;
    bool *is_unsplit = vw__host_alloc_zeroed(script->pool_count, sizeof *is_unsplit);
    if (is_unsplit == NULL)
        return vw__fail_host_memory(script->pool_count, "private pools");
    for (size_t i = 1; expectation != NULL && i < script->pool_count; i++)
        for (size_t k = 0; k < expectation->no_split_pool_count; k++)
            if (expectation->no_split_pools[k].first == script->pools[i].first &&
                expectation->no_split_pools[k].second == script->pools[i].second)
                is_unsplit[i] = true;
    vw__host_free(reading->is_unsplit);
    reading->is_unsplit = is_unsplit;
    reading->pool_count = script->pool_count;
    reading->has_unsplit = false;
    return VW_OK;
}

vw_status vw__reading_make_script(vw__reading *reading, const vw__model *model,
                                  const vw__model_trace *trace, const vw__expectation *expectation,
                                  vw__script *script)
{
    const vw__script_guide guide = {.flips = reading->flips,
                                    .flip_count = reading->flip_count,
                                    .hints = reading->pools.hints,
                                    .hint_count = reading->pools.hint_count,
                                    .has_no_captures = reading->has_no_captures};
    vw__script_deinit(script);
    VW__TRY(vw__script_make_guided(model, trace, &guide, script));
    return make_room_for_pools(reading, expectation, script);
}

/* ---- what the last difference asks for ------------------------------------------------------- */

static bool is_flipped(const vw__reading *reading, uint32_t event)
{
    for (size_t i = 0; i < reading->flip_count; i++)
        if (reading->flips[i] == event)
            return true;
    return false;
}

/* The last release inside the operation that differed, before it grew; or none. */
static bool find_guessed_release(const vw__reading *reading, const vw__model_event *events,
                                 const vw__trial_result *last, uint32_t *out)
{
    bool is_found = false;
    for (uint32_t i = last->first_event; i < last->end_event; i++)
        if (vw__is_release(events[i].action)) {
            *out = i;
            is_found = true;
        }
    return is_found && !is_flipped(reading, *out);
}

/* Did the operation that differed give memory back, or fail? */
static bool has_pressure(const vw__model_event *events, const vw__trial_result *last)
{
    for (uint32_t i = last->first_event; i < last->end_event; i++)
        if (vw__is_release(events[i].action) || events[i].action == VW_ACTION_OOM)
            return true;
    return false;
}

/* And did it find frees complete? */
static bool has_frees_under_pressure(const vw__model_event *events, const vw__trial_result *last)
{
    bool has_frees = false;
    for (uint32_t i = last->first_event; i < last->end_event; i++)
        has_frees = has_frees || events[i].action == VW_ACTION_FREE_COMPLETED;
    return has_frees && has_pressure(events, last);
}

/* A free right before a request that found no room: was it complete, or did other streams still
 * hold it up, and the request waited for it? Both leave the same events. */
static bool find_late_free(const vw__reading *reading, const vw__model_event *events,
                           const vw__trial_result *last, uint32_t *out)
{
    uint32_t first = last->first_event;
    if (!has_pressure(events, last) || first < 2 ||
        events[first - 1].action != VW_ACTION_FREE_COMPLETED ||
        events[first - 2].action != VW_ACTION_FREE_REQUESTED ||
        events[first - 1].address != events[first - 2].address)
        return false;
    *out = first - 2;
    return !is_flipped(reading, *out);
}

static bool find_flip(vw__reading *reading, const vw__script *script, const vw__trial_result *last)
{
    const vw__model_event *events = script->trace->events;
    uint32_t event;
    if (reading->flip_count == VW__MOST_FLIPS)
        return false;
    if (find_late_free(reading, events, last, &event))
        reading->has_late_frees = true;
    else if (!script->has_guessed_releases || !find_guessed_release(reading, events, last, &event))
        return false;
    reading->flips[reading->flip_count++] = event;
    return true;
}

vw_status vw__reading_revise(vw__reading *reading, const vw__script *script,
                             const vw__trial_result *last, bool *has_more)
{
    *has_more = false;
    if (!last->difference.is_found || last->difference.event == VW_UNKNOWN)
        return VW_OK;
    if (last->pool < reading->pool_count && !reading->is_unsplit[last->pool]) {
        VW__TRY(vw__script_may_be_unsplit(script, last->pool, has_more));
        if (*has_more) {
            reading->is_unsplit[last->pool] = reading->has_unsplit = true;
            return VW_OK;
        }
    }
    if (!reading->has_other_waits && has_frees_under_pressure(script->trace->events, last)) {
        reading->has_other_waits = *has_more = true;
        return VW_OK;
    }
    *has_more = find_flip(reading, script, last);
    return *has_more ? VW_OK : vw__pool_search_step(&reading->pools, script, last, has_more);
}
