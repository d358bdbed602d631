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

vw_status vw__paged_begin_spill(vw__paged_engine *engine, const vw_pool_options *options)
{
    vw__paged_spill *spill = vw__host_alloc_zeroed(1, sizeof *spill);
    if (spill == NULL)
        return vw__fail_host_memory(sizeof *spill, "spilling");
    const vw__engine_owner *owner = &engine->base.owner;
    vw_status status = owner->open_host_lender(owner->context, &spill->host);
    if (status != VW_OK) {
        vw__host_free(spill);
        return status;
    }
    spill->ahead_bytes = options->spill_ahead_bytes;
    spill->listener = options->spill_listener;
    engine->spill = spill;
    vw__paged_begin_returns(engine);
    return VW_OK;
}

void vw__paged_end_spill(vw__paged_engine *engine)
{
    vw__host_free(engine->spill);
    engine->spill = NULL;
}

/* ---- candidates ------------------------------------------------------------------------------ */

vw_status vw__paged_list(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                         vw__spill_list *found)
{
    const vw__spill_clock *clock = &engine->spill->clock;
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    if (found->count == found->capacity) {
        size_t capacity = found->capacity != 0 ? 2 * found->capacity : 64;
        vw__spill_candidate *grown = vw__host_realloc(found->items, capacity * sizeof *grown);
        if (grown == NULL)
            return vw__fail_host_memory(capacity * sizeof *grown, "memory that could leave");
        found->items = grown;
        found->capacity = capacity;
    }
    vw__spill_candidate *made = &found->items[found->count++];
    *made = (vw__spill_candidate){
        .address = begin,
        .size_bytes = handle->size_bytes,
        .is_small = handle->home->segment->lane->shelf->kind == VW__SMALL,
        .what = handle,
    };
    for (const vw__block *block = vw__paged_walk_to(first, begin);
         block != NULL && block->address < end; block = block->next) {
        uint64_t from = vw__max_u64(block->address, begin);
        uint64_t to = vw__min_u64(block->address + block->size_bytes, end);
        if (vw__paged_is_in_use(block))
            vw__spill_add(made, clock, (vw_advice)block->advice, block->age_base, to - from);
    }
    return VW_OK;
}

/* Private pools keep all they have, also when nobody uses them just now: a checkpoint that is put
 * back wants the memory it had. */
static vw_status add_on_device(void *context, vw__paged_engine *engine, vw__paged_handle *handle,
                               vw__block *first)
{
    bool is_private = handle->home->segment->lane->shelf->private_pool != NULL;
    return handle->guest_count == 0 && !is_private ? vw__paged_list(engine, handle, first, context)
                                                   : VW_OK;
}

void vw__spill_sort(vw__spill_list *found)
{
    if (found->count != 0)
        qsort(found->items, found->count, sizeof *found->items, vw__spill_compare);
}

/* Who could leave, the first to leave first. The items are the caller's to free, also on failure.
 */
static vw_status find_leaving(vw__paged_engine *engine, vw__spill_list *found)
{
    engine->spill->clock.now = engine->clock;
    VW__TRY(vw__paged_each_home_in_use(engine, add_on_device, found));
    vw__spill_sort(found);
    return VW_OK;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Without the lock: others are served meanwhile, and may fail the pool. */
static void tell(vw__paged_engine *engine, const vw_spill_report *report)
{
    const vw__engine_owner *owner = &engine->base.owner;
    const vw__request *serving = engine->base.serving;
    const vw_spill_listener listener = engine->spill->listener;
    if (listener.moved == NULL)
        return;
    engine->base.serving = NULL;
    vw__cause cause = owner->pause_lock(owner->context);
    listener.moved(listener.context, report);
    owner->resume_lock(owner->context, cause);
    engine->base.serving = serving;
    engine->call++;
}

vw_status vw__paged_finish_move(vw__paged_engine *engine, vw__spill_move *move, bool was_safe,
                                vw_status status)
{
    if (was_safe)
        vw__paged_end_moment(engine);
    else
        engine->stats.refused_spills++;
    move->report.wait_ns = vw__clock_monotonic_ns() - move->start_ns;
    move->report.spilled_bytes = engine->stats.spilled_bytes;
    engine->stats.spill_wait_ns += move->report.wait_ns;
    if (move->report.moved_handles != 0)
        tell(engine, &move->report);
    return engine->failure != NULL ? vw__fail(VW_ERR_DEVICE, "%s", engine->failure) : status;
}

/* ---- leaving --------------------------------------------------------------------------------- */

static uint64_t card_bytes(const vw__paged_engine *engine)
{
    return vw__min_u64(engine->base.owner.device->properties.total_bytes, engine->base.limit_bytes);
}

static uint64_t allowed_bytes(const vw__paged_engine *engine)
{
    return vw__paged_host_numbers(engine).free_bytes;
}

/* What the request misses, the free memory of the pool and its room taken off. */
static uint64_t missing_bytes(const vw__paged_engine *engine, uint64_t size_bytes)
{
    uint64_t there_bytes =
        engine->candidate_bytes + vw__paged_room_bytes(engine, vw__paged_limit_bytes(engine));
    uint64_t wanted_bytes = vw__paged_whole_units(engine, size_bytes);
    uint64_t least_bytes = vw__max_u64(size_bytes / EFFORT_PARTS, engine->unit_bytes);
    return wanted_bytes > there_bytes ? wanted_bytes - there_bytes : least_bytes;
}

static bool is_enough(const vw__paged_engine *engine, const vw__spill_list *found, uint64_t bytes)
{
    uint64_t sum_bytes = 0;
    for (size_t i = 0; i < found->count; i++)
        sum_bytes += found->items[i].size_bytes;
    return vw__min_u64(sum_bytes, allowed_bytes(engine)) >= bytes;
}

/* A size that the budget does not allow may be followed by a smaller one; when the host has no more
 * to give, that was all. */
static vw_status let_leave(vw__paged_engine *engine, const vw__spill_list *found, vw_stream stream,
                           uint64_t wanted_bytes, vw__spill_move *move)
{
    for (size_t i = 0; i < found->count && move->gained_bytes < wanted_bytes; i++) {
        vw__paged_handle *handle = found->items[i].what;
        vw_status status = vw__paged_swap_out(
            engine, handle, vw__engine_find(&engine->base, handle->home->address), stream);
        if (status == VW_ERR_OUT_OF_MEMORY)
            continue;
        if (status == VW_ERR_HOST_MEMORY)
            return VW_OK;
        VW__TRY(status);
        if (found->items[i].worst >= VW__SPILL_PASSING)
            vw__paged_want_early(engine, handle);
        move->gained_bytes += handle->size_bytes;
        move->report.moved_bytes += handle->used_bytes;
        move->report.moved_handles++;
    }
    return VW_OK;
}

static vw_status leave_at_safe_point(vw__paged_engine *engine, vw_stream stream,
                                     uint64_t size_bytes, vw__spill_move *move)
{
    vw__spill_list found = {.count = 0};
    VW__TRY(vw__paged_device(engine)->synchronize(vw__paged_context(engine)));
    VW__TRY(vw__paged_settle_vacated(engine));
    VW__TRY(vw__paged_settle_left(engine, true));
    VW__TRY(vw__paged_survey_all(engine));
    uint64_t bytes = missing_bytes(engine, size_bytes);
    vw_status status = find_leaving(engine, &found);
    if (status == VW_OK && is_enough(engine, &found, bytes))
        status = let_leave(engine, &found, stream, bytes + card_bytes(engine) / MARGIN_PARTS, move);
    vw__host_free(found.items);
    return status;
}

vw_status vw__paged_spill_for(vw__paged_engine *engine, vw_stream stream, uint64_t size_bytes,
                              uint64_t limit_bytes, bool *is_worth_while)
{
    (void)limit_bytes;
    vw__spill_move move = {.start_ns = vw__clock_monotonic_ns()};
    vw_status status = VW_OK;
    *is_worth_while = false;
    if (allowed_bytes(engine) < engine->unit_bytes && engine->spill->left == NULL)
        return VW_OK;
    bool is_safe = vw__paged_begin_moment(engine);
    if (is_safe && engine->failure == NULL)
        status = leave_at_safe_point(engine, stream, size_bytes, &move);
    *is_worth_while = move.gained_bytes != 0;
    if (*is_worth_while) {
        engine->stats.spills++;
        vw__paged_note_leaving(engine);
    }
    return vw__paged_finish_move(engine, &move, is_safe, status);
}

/* ---- making ahead ---------------------------------------------------------------------------- */

static bool is_time_to_wish(vw__paged_engine *engine)
{
    vw__paged_spill *spill = engine->spill;
    uint64_t all_bytes = card_bytes(engine), held_bytes = vw__paged_on_device_bytes(engine);
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
void vw__paged_prepare_spill(vw__paged_engine *engine)
{
    uint64_t sizes_bytes[VW__HOST_WISHES], sum_bytes = 0;
    size_t count = 0;
    vw__spill_list found = {.count = 0};
    if (!is_time_to_wish(engine))
        return;
    if (find_leaving(engine, &found) == VW_OK) {
        for (; count < found.count && count < VW__HOST_WISHES &&
               sum_bytes + found.items[count].size_bytes <= engine->spill->ahead_bytes;
             count++)
            sum_bytes += sizes_bytes[count] = found.items[count].size_bytes;
        engine->spill->host.wish(engine->spill->host.context, sizes_bytes, count);
    }
    vw__host_free(found.items);
}

/* ---- what the pool calls -----------------------------------------------------------------------
 */

void vw__paged_advise(vw__engine *base, vw__block *block, vw_advice advice)
{
    vw__paged_engine *engine = vw__paged_of(base);
    if (engine->spill == NULL)
        return;
    engine->spill->clock.is_advised |= advice != VW_ADVISE_NORMAL;
    engine->watched_frees += (uint64_t)(advice != VW_ADVISE_NORMAL);
    engine->watched_frees -= (uint64_t)(block->advice != VW_ADVISE_NORMAL);
    block->advice = (uint32_t)advice;
}
