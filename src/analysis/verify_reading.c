/* verify_reading.c - events that can be read in more than one way, and which way to try next.
 *
 * A first reading is the likeliest one. Each other one is asked for by a difference, is about the
 * operation that differed, and is tried once (docs/design/003).
 *
 * Private pools that nothing names are found by what the rules cannot explain. Before 2.12 a
 * recording names the private pools of the segments that are there at the end. A MemPool that was
 * destroyed before left none. It was used on any stream, between ordinary requests; but its
 * requests do not look where the default pool has room, and the default pool's do not look in its
 * memory. So by the default pool's rules alone, some request must differ: where PyTorch took new
 * memory although a block was free, or passed over the better fit.
 *
 * One of two regions is to blame, the one that PyTorch used or the one that we did: each can be a
 * private pool's only if it was given back before the end, by an empty_cache(), since a pool that
 * is in use gives nothing back. The region is made a private pool's, and everything is played
 * again: the difference must then be a later one, or the other region is tried. Regions that went
 * in the same call were of the same pool, which was destroyed there.
 *
 * On a stream that graphs were captured on, the first reading takes regions for a graph's pool;
 * there, a region to blame goes back to the default pool.
 *
 * What keeps this from explaining everything away: a region changes pools once, placement within a
 * pool follows the rules as ever, and unless *everything* comes out in the end, nothing of it
 * counts and the difference of the first reading is reported. */
#include "analysis/verify_parts.h"

#include "analysis/regions.h"
#include "analysis/script_events.h"
#include "base/error.h"
#include "base/host_memory.h"

#define NOT_THERE UINT32_MAX

/* A region that may be to blame. */
typedef struct suspect {
    uint32_t number;      /* of the region, or NOT_THERE */
    uint32_t first_event; /* that took its first memory */
    uint32_t last_event;  /* that gave back its last; NOT_THERE = it was there at the end */
    bool is_named;        /* its pool is on record */
    uint16_t pool;        /* of the script, that its blocks were taken to be of */
} suspect;

/* Looks at everything that happened in regions, for the two that a difference is about. */
typedef struct inquiry {
    const vw__script *script;
    const vw__verify_trial_result *last;
    vw__regions regions;
    uint32_t *first_events; /* owned; by number of the region */
    suspect theirs, ours;
} inquiry;

/* ---- the regions of a difference ------------------------------------------------------------- */

static void meet(const inquiry *of, suspect *who, uint64_t address)
{
    const vw__regions_entry *region = vw__regions_find(&of->regions, address);
    if (who->number != NOT_THERE || address == 0 || region == NULL)
        return;
    who->number = region->number;
    who->first_event = of->first_events[region->number];
    who->is_named = of->script->trace->events[who->first_event].pool != VW__MODEL_UNKNOWN_POOL;
}

static void note_end(suspect *who, uint32_t number, uint32_t event)
{
    if (who->number == number)
        who->last_event = event;
}

/* The address at which the recording differs; or the next release, if an empty_cache() ended too
 * soon. */
static uint64_t their_address(const inquiry *of)
{
    const vw__model_trace *trace = of->script->trace;
    uint64_t event = of->last->difference.event;
    if (of->last->recorded_address == 0 && event < trace->event_count &&
        vw__script_is_release(trace->events[event].action))
        return trace->events[event].address;
    return of->last->recorded_address;
}

static vw_status follow_event(inquiry *of, uint32_t index)
{
    const vw__model_event *event = &of->script->trace->events[index];
    bool is_the_event = index == of->last->difference.event;
    if (is_the_event) {
        meet(of, &of->theirs, their_address(of));
        meet(of, &of->ours, of->last->seen_address);
    }
    if (vw__script_is_growth(event->action)) {
        const vw__regions_entry *region;
        bool is_new;
        VW__TRY(vw__regions_take(&of->regions, event->address, event->size_bytes,
                                 event->action == VW_ACTION_SEGMENT_MAP, &region, &is_new));
        if (is_new)
            of->first_events[region->number] = index;
    } else if (vw__script_is_release(event->action)) {
        vw__regions_entry was;
        bool is_gone = false;
        if (vw__regions_give_back(&of->regions, event->address, event->size_bytes, &was,
                                  &is_gone) &&
            is_gone) {
            note_end(&of->theirs, was.number, index);
            note_end(&of->ours, was.number, index);
        }
    }
    if (is_the_event) /* it may have begun with this event */
        meet(of, &of->theirs, their_address(of));
    return VW_OK;
}

static vw_status inquire(inquiry *of)
{
    const vw__model_trace *trace = of->script->trace;
    of->first_events = vw__host_alloc_zeroed(trace->event_count, sizeof *of->first_events);
    if (of->first_events == NULL)
        return vw__fail_host_memory(trace->event_count * sizeof *of->first_events,
                                    "the segments of a trace");
    of->theirs = of->ours = (suspect){.number = NOT_THERE, .last_event = NOT_THERE};
    for (uint32_t i = 0; i < trace->event_count; i++)
        VW__TRY(follow_event(of, i));
    return VW_OK;
}

/* The pool that the script has for the blocks of a region: of the request that took it. */
static void find_pool(const vw__script *script, suspect *who)
{
    for (size_t i = 0; i < script->op_count; i++) {
        const vw__script_op *op = &script->ops[i];
        if (op->kind == VW__SCRIPT_ALLOC && op->first_event <= who->first_event &&
            who->first_event < op->end_event)
            who->pool = op->pool;
    }
}

/* ---- hints ----------------------------------------------------------------------------------- */

static bool is_hinted(const vw__verify_pool_search *search, uint32_t first_event)
{
    for (size_t i = 0; i < search->hint_count; i++)
        if (search->hints[i].event == first_event)
            return true;
    return false;
}

/* Returns whether `event` is part of an empty_cache(). */
static bool is_in_trim(const vw__script *script, uint32_t event)
{
    for (size_t i = 0; i < script->op_count; i++)
        if (script->ops[i].kind == VW__SCRIPT_TRIM && script->ops[i].first_event <= event &&
            event < script->ops[i].end_event)
            return true;
    return false;
}

/* The first of the releases, without anything between, that `event` is among. */
static uint32_t first_of_releases(const vw__model_trace *trace, uint32_t event)
{
    uint32_t first = event;
    for (uint32_t i = event; i-- > 0 && (vw__script_is_release(trace->events[i].action) ||
                                         vw__script_is_remark(trace->events[i].action));)
        if (vw__script_is_release(trace->events[i].action))
            first = i;
    return first;
}

/* The number for the pool whose memory went at `end`. */
static uint16_t group_of(vw__verify_pool_search *search, uint32_t end)
{
    for (uint16_t group = 1; group <= search->group_count; group++)
        if (search->group_ends[group] == end)
            return group;
    search->group_ends[++search->group_count] = end;
    return search->group_count;
}

static bool is_in_use(const vw__verify_pool_search *search, uint16_t group)
{
    for (size_t i = 0; i < search->hint_count; i++)
        if (search->hints[i].group == group)
            return true;
    return false;
}

/* Returns whether the region can belong to another pool than it was taken to. `*is_likely`: to one
 * that was found before. */
static bool make_hint(vw__verify_pool_search *search, const vw__script *script, suspect *who,
                      vw__script_pool_hint *hint, bool *is_likely)
{
    *is_likely = false;
    if (who->number == NOT_THERE || who->is_named || who->last_event == NOT_THERE ||
        is_hinted(search, who->first_event))
        return false;
    find_pool(script, who);
    hint->event = who->first_event;
    hint->group = 0;
    if (who->pool != VW__MODEL_DEFAULT_POOL)
        return true;
    if (!is_in_trim(script, who->last_event))
        return false;
    hint->group = group_of(search, first_of_releases(script->trace, who->last_event));
    *is_likely = is_in_use(search, hint->group);
    return true;
}

/* Replaces the hints that did not help by the other one, once. */
static bool try_other(vw__verify_pool_search *search)
{
    bool has_other = search->has_other;
    search->hint_count = search->settled_count;
    if (has_other)
        search->hints[search->hint_count++] = search->other;
    search->has_other = false;
    return has_other;
}

/* The likelier region comes first: one that went with a pool's memory, else the one that PyTorch
 * used. A difference at the same event as before is taken to be about the next region of such a
 * pool; if no region is left, the hints before were wrong. */
static bool add_hints(vw__verify_pool_search *search, inquiry *of)
{
    vw__script_pool_hint theirs, ours;
    bool is_theirs_likely, is_ours_likely = false;
    bool has_theirs = make_hint(search, of->script, &of->theirs, &theirs, &is_theirs_likely);
    bool has_ours = of->ours.number != of->theirs.number &&
                    make_hint(search, of->script, &of->ours, &ours, &is_ours_likely);
    bool is_ours_first = has_ours && (!has_theirs || (is_ours_likely && !is_theirs_likely));
    if (search->hint_count != 0 && of->last->difference.event == search->reached_event) {
        if (!is_theirs_likely && !is_ours_likely)
            return try_other(search);
    } else {
        search->reached_event = of->last->difference.event;
        search->settled_count = search->hint_count;
        search->has_other = has_theirs && has_ours;
        if (search->has_other)
            search->other = is_ours_first ? theirs : ours;
    }
    if (has_theirs || has_ours)
        search->hints[search->hint_count++] = is_ours_first ? ours : theirs;
    return has_theirs || has_ours;
}

/* After a trial that differed: adds the hint that the difference asks for, or puts the other one in
 * place of the last, which did not help. `*has_more` is false where there is nothing to try. */
static vw_status revise_pools(vw__verify_pool_search *search, const vw__script *script,
                              const vw__verify_trial_result *last, bool *has_more)
{
    uint64_t event = last->difference.event;
    *has_more = false;
    if (!script->has_end_state || script->trace->event_count == 0)
        return VW_OK;
    if (search->hint_count != 0 && event < search->reached_event) {
        *has_more = try_other(search);
        return VW_OK;
    }
    if (search->hint_count == VW__VERIFY_MOST_POOL_HINTS)
        return VW_OK;
    inquiry of = {.script = script, .last = last};
    vw__regions_init(&of.regions);
    vw_status status = inquire(&of);
    vw__regions_deinit(&of.regions);
    vw__host_free(of.first_events);
    if (status != VW_OK)
        return status;
    *has_more = add_hints(search, &of);
    return VW_OK;
}

/* ---- scripts --------------------------------------------------------------------------------- */

void vw__verify_reading_deinit(vw__verify_reading *reading)
{
    vw__host_free(reading->is_unsplit);
    *reading = (vw__verify_reading){.flip_count = 0};
}

void vw__verify_reading_drop_captures(vw__verify_reading *reading)
{
    vw__verify_reading_deinit(reading);
    reading->has_no_captures = true;
}

/* Pools that the expectation names; what was concluded about others is lost with their numbers. */
static vw_status make_room_for_pools(vw__verify_reading *reading,
                                     const vw__expectation *expectation, const vw__script *script)
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

vw_status vw__verify_reading_make_script(vw__verify_reading *reading, const vw__model *model,
                                         const vw__model_trace *trace,
                                         const vw__expectation *expectation, vw__script *script)
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

static bool is_flipped(const vw__verify_reading *reading, uint32_t event)
{
    for (size_t i = 0; i < reading->flip_count; i++)
        if (reading->flips[i] == event)
            return true;
    return false;
}

/* Finds the last release inside the operation that differed, before it grew. */
static bool find_guessed_release(const vw__verify_reading *reading, const vw__model_event *events,
                                 const vw__verify_trial_result *last, uint32_t *out)
{
    bool is_found = false;
    for (uint32_t i = last->first_event; i < last->end_event; i++)
        if (vw__script_is_release(events[i].action)) {
            *out = i;
            is_found = true;
        }
    return is_found && !is_flipped(reading, *out);
}

/* Returns whether the operation that differed gave memory back, or failed. */
static bool has_pressure(const vw__model_event *events, const vw__verify_trial_result *last)
{
    for (uint32_t i = last->first_event; i < last->end_event; i++)
        if (vw__script_is_release(events[i].action) || events[i].action == VW_ACTION_OOM)
            return true;
    return false;
}

/* The same, and it found frees complete. */
static bool has_frees_under_pressure(const vw__model_event *events,
                                     const vw__verify_trial_result *last)
{
    bool has_frees = false;
    for (uint32_t i = last->first_event; i < last->end_event; i++)
        has_frees = has_frees || events[i].action == VW_ACTION_FREE_COMPLETED;
    return has_frees && has_pressure(events, last);
}

/* Finds a free right before a request that found no room. It was complete, or other streams held it
 * up and the request waited for it: both leave the same events. */
static bool find_late_free(const vw__verify_reading *reading, const vw__model_event *events,
                           const vw__verify_trial_result *last, uint32_t *out)
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

static bool find_flip(vw__verify_reading *reading, const vw__script *script,
                      const vw__verify_trial_result *last)
{
    const vw__model_event *events = script->trace->events;
    uint32_t event;
    if (reading->flip_count == VW__VERIFY_MOST_FLIPS)
        return false;
    if (find_late_free(reading, events, last, &event))
        reading->has_late_frees = true;
    else if (!script->has_guessed_releases || !find_guessed_release(reading, events, last, &event))
        return false;
    reading->flips[reading->flip_count++] = event;
    return true;
}

vw_status vw__verify_reading_revise(vw__verify_reading *reading, const vw__script *script,
                                    const vw__verify_trial_result *last, bool *has_more)
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
    return *has_more ? VW_OK : revise_pools(&reading->pools, script, last, has_more);
}
