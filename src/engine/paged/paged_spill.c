/* paged_spill.c - when live memory leaves the device, and who.
 *
 * It leaves when a request would run out of memory, after everything else was tried: free memory
 * was moved, pending blocks waited for, mostly free handles evacuated where the mode lets them be.
 * As with every copy of live data the owner is asked for a safe point and the device is waited for;
 * without a safe point nothing leaves, which is counted. Who leaves is spill_choice.c's; pinned
 * handles, shared pages and private pools (what graphs replay into) never do. Somewhat more leaves
 * than the request misses, so that the next one does not wait again; and nothing leaves if all that
 * may would not be enough.
 *
 * When it comes back is paged_return.c's. */
#include "engine/paged/paged_spill.h"

#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_memory.h"

enum {
    MARGIN_PARTS = 256, /* of the card: leaves besides */
    EFFORT_PARTS = 8,   /* of the request: leaves where there should be enough, but it is in bits */
    NEAR_PARTS = 8,     /* of the card: when no more is left, handles are made ahead */
    AGAIN_PARTS = 64,   /* of the card: held more or less by that, they are thought over */
};

/* ---- beginning and end ----------------------------------------------------------------------- */

hr_status hr__paged_begin_spill(hr__paged_engine *engine, const hr_pool_options *options)
{
    hr__paged_spill *spill = hr__host_alloc_zeroed(1, sizeof *spill);
    if (spill == NULL)
        return hr__fail_host_memory(sizeof *spill, "spilling");
    hr_status status = hr__host_stock_create(engine->base.owner.device, options->pinned_budget,
                                             options->spill_bytes, &spill->stock);
    if (status != HR_OK) {
        hr__host_free(spill);
        return status;
    }
    spill->ahead_bytes = options->spill_ahead_bytes;
    spill->listener = options->spill_listener;
    engine->spill = spill;
    hr__paged_begin_returns(engine);
    return HR_OK;
}

void hr__paged_end_spill(hr__paged_engine *engine)
{
    if (engine->spill == NULL)
        return;
    hr__host_stock_destroy(engine->spill->stock);
    hr__host_free(engine->spill);
    engine->spill = NULL;
}

/* ---- candidates ------------------------------------------------------------------------------ */

hr_status hr__paged_list(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *first,
                         hr__spill_list *found)
{
    const hr__spill_clock *clock = &engine->spill->clock;
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    if (found->count == found->capacity) {
        size_t capacity = found->capacity != 0 ? 2 * found->capacity : 64;
        hr__spill_candidate *grown = hr__host_realloc(found->items, capacity * sizeof *grown);
        if (grown == NULL)
            return hr__fail_host_memory(capacity * sizeof *grown, "memory that could leave");
        found->items = grown;
        found->capacity = capacity;
    }
    hr__spill_candidate *made = &found->items[found->count++];
    *made = (hr__spill_candidate){
        .address = begin,
        .size_bytes = handle->size_bytes,
        .is_small = handle->home->segment->lane->shelf->kind == HR__SMALL,
        .what = handle,
    };
    for (const hr__block *block = hr__paged_walk_to(first, begin);
         block != NULL && block->address < end; block = block->next) {
        uint64_t from = hr__max_u64(block->address, begin);
        uint64_t to = hr__min_u64(block->address + block->size_bytes, end);
        if (hr__paged_is_in_use(block))
            hr__spill_add(made, clock, (hr_advice)block->advice, block->age_base, to - from);
    }
    return HR_OK;
}

/* Private pools keep all they have, also when nobody uses them just now: a checkpoint that is put
 * back wants the memory it had. */
static hr_status add_on_device(void *context, hr__paged_engine *engine, hr__paged_handle *handle,
                               hr__block *first)
{
    bool is_private = handle->home->segment->lane->shelf->private_pool != NULL;
    return handle->guest_count == 0 && !is_private ? hr__paged_list(engine, handle, first, context)
                                                   : HR_OK;
}

void hr__spill_sort(hr__spill_list *found)
{
    if (found->count != 0)
        qsort(found->items, found->count, sizeof *found->items, hr__spill_compare);
}

/* Who could leave, the first to leave first. The items are the caller's to free, also on failure.
 */
static hr_status find_leaving(hr__paged_engine *engine, hr__spill_list *found)
{
    engine->spill->clock.now = engine->clock;
    HR__TRY(hr__paged_each_home_in_use(engine, add_on_device, found));
    hr__spill_sort(found);
    return HR_OK;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Without the lock: others are served meanwhile, and may fail the pool. */
static void tell(hr__paged_engine *engine, const hr_spill_report *report)
{
    const hr__engine_owner *owner = &engine->base.owner;
    const hr__request *serving = engine->base.serving;
    const hr_spill_listener listener = engine->spill->listener;
    if (listener.moved == NULL)
        return;
    engine->base.serving = NULL;
    hr__cause cause = owner->pause_lock(owner->context);
    listener.moved(listener.context, report);
    owner->resume_lock(owner->context, cause);
    engine->base.serving = serving;
    engine->call++;
}

hr_status hr__paged_finish_move(hr__paged_engine *engine, hr__spill_move *move, bool was_safe,
                                hr_status status)
{
    if (was_safe)
        hr__paged_end_moment(engine);
    else
        engine->stats.refused_spills++;
    move->report.wait_ns = hr__clock_monotonic_ns() - move->start_ns;
    move->report.spilled_bytes = engine->stats.spilled_bytes;
    engine->stats.spill_wait_ns += move->report.wait_ns;
    if (move->report.moved_handles != 0)
        tell(engine, &move->report);
    return engine->failure != NULL ? hr__fail(HR_ERR_DEVICE, "%s", engine->failure) : status;
}

/* ---- leaving --------------------------------------------------------------------------------- */

static uint64_t card_bytes(const hr__paged_engine *engine)
{
    return hr__min_u64(engine->base.owner.device->properties.total_bytes, engine->base.limit_bytes);
}

static uint64_t allowed_bytes(const hr__paged_engine *engine)
{
    hr__host_stock_numbers numbers;
    hr__host_stock_look(engine->spill->stock, &numbers);
    return numbers.free_bytes;
}

/* What the request misses, the free memory of the pool and its room taken off. */
static uint64_t missing_bytes(const hr__paged_engine *engine, uint64_t size_bytes)
{
    uint64_t there_bytes =
        engine->candidate_bytes + hr__paged_room_bytes(engine, hr__paged_limit_bytes(engine));
    uint64_t wanted_bytes = hr__paged_whole_units(engine, size_bytes);
    uint64_t least_bytes = hr__max_u64(size_bytes / EFFORT_PARTS, engine->unit_bytes);
    return wanted_bytes > there_bytes ? wanted_bytes - there_bytes : least_bytes;
}

static bool is_enough(const hr__paged_engine *engine, const hr__spill_list *found, uint64_t bytes)
{
    uint64_t sum_bytes = 0;
    for (size_t i = 0; i < found->count; i++)
        sum_bytes += found->items[i].size_bytes;
    return hr__min_u64(sum_bytes, allowed_bytes(engine)) >= bytes;
}

/* A size that the budget does not allow may be followed by a smaller one; when the host has no more
 * to give, that was all. */
static hr_status let_leave(hr__paged_engine *engine, const hr__spill_list *found, hr_stream stream,
                           uint64_t wanted_bytes, hr__spill_move *move)
{
    for (size_t i = 0; i < found->count && move->gained_bytes < wanted_bytes; i++) {
        hr__paged_handle *handle = found->items[i].what;
        hr_status status = hr__paged_swap_out(
            engine, handle, hr__engine_find(&engine->base, handle->home->address), stream);
        if (status == HR_ERR_OUT_OF_MEMORY)
            continue;
        if (status == HR_ERR_HOST_MEMORY)
            return HR_OK;
        HR__TRY(status);
        if (found->items[i].worst >= HR__SPILL_PASSING)
            hr__paged_want_early(engine, handle);
        move->gained_bytes += handle->size_bytes;
        move->report.moved_bytes += handle->used_bytes;
        move->report.moved_handles++;
    }
    return HR_OK;
}

static hr_status leave_at_safe_point(hr__paged_engine *engine, hr_stream stream,
                                     uint64_t size_bytes, hr__spill_move *move)
{
    hr__spill_list found = {.count = 0};
    HR__TRY(hr__paged_device(engine)->synchronize(hr__paged_context(engine)));
    HR__TRY(hr__paged_settle_vacated(engine));
    HR__TRY(hr__paged_settle_left(engine, true));
    HR__TRY(hr__paged_survey_all(engine));
    uint64_t bytes = missing_bytes(engine, size_bytes);
    hr_status status = find_leaving(engine, &found);
    if (status == HR_OK && is_enough(engine, &found, bytes))
        status = let_leave(engine, &found, stream, bytes + card_bytes(engine) / MARGIN_PARTS, move);
    hr__host_free(found.items);
    return status;
}

hr_status hr__paged_spill_for(hr__paged_engine *engine, hr_stream stream, uint64_t size_bytes,
                              uint64_t limit_bytes, bool *is_worth_while)
{
    (void)limit_bytes;
    hr__spill_move move = {.start_ns = hr__clock_monotonic_ns()};
    hr_status status = HR_OK;
    *is_worth_while = false;
    if (allowed_bytes(engine) < engine->unit_bytes && engine->spill->left == NULL)
        return HR_OK;
    bool is_safe = hr__paged_begin_moment(engine);
    if (is_safe && engine->failure == NULL)
        status = leave_at_safe_point(engine, stream, size_bytes, &move);
    *is_worth_while = move.gained_bytes != 0;
    if (*is_worth_while) {
        engine->stats.spills++;
        hr__paged_note_leaving(engine);
    }
    return hr__paged_finish_move(engine, &move, is_safe, status);
}

/* ---- making ahead ---------------------------------------------------------------------------- */

static bool is_time_to_wish(hr__paged_engine *engine)
{
    hr__paged_spill *spill = engine->spill;
    uint64_t all_bytes = card_bytes(engine), held_bytes = hr__paged_on_device_bytes(engine);
    uint64_t changed_bytes = held_bytes > spill->wished_held_bytes
                                 ? held_bytes - spill->wished_held_bytes
                                 : spill->wished_held_bytes - held_bytes;
    if (spill->ahead_bytes == 0 || held_bytes < all_bytes - all_bytes / NEAR_PARTS ||
        (changed_bytes < all_bytes / AGAIN_PARTS && spill->wished_spills == engine->stats.spills))
        return false;
    spill->wished_held_bytes = held_bytes;
    spill->wished_spills = engine->stats.spills;
    return true;
}

/* No host memory to think with: everything is made when it is needed. */
void hr__paged_prepare_spill(hr__paged_engine *engine)
{
    uint64_t sizes_bytes[HR__HOST_STOCK_WISHES], sum_bytes = 0;
    size_t count = 0;
    hr__spill_list found = {.count = 0};
    if (!is_time_to_wish(engine))
        return;
    if (find_leaving(engine, &found) == HR_OK) {
        for (; count < found.count && count < HR__HOST_STOCK_WISHES &&
               sum_bytes + found.items[count].size_bytes <= engine->spill->ahead_bytes;
             count++)
            sum_bytes += sizes_bytes[count] = found.items[count].size_bytes;
        hr__host_stock_wish(engine->spill->stock, sizes_bytes, count);
    }
    hr__host_free(found.items);
}

/* ---- what the pool calls -----------------------------------------------------------------------
 */

void hr__paged_advise(hr__engine *base, hr__block *block, hr_advice advice)
{
    hr__paged_engine *engine = hr__paged_of(base);
    if (engine->spill == NULL)
        return;
    engine->spill->clock.is_advised |= advice != HR_ADVISE_NORMAL;
    engine->watched_frees += (uint64_t)(advice != HR_ADVISE_NORMAL);
    engine->watched_frees -= (uint64_t)(block->advice != HR_ADVISE_NORMAL);
    block->advice = (uint32_t)advice;
}
