/* paged_spill.c - when live memory leaves the device, and who.
 *
 * It leaves when a request would run out of memory, after everything else was tried: free memory
 * was moved, pending blocks waited for, mostly free handles evacuated where the mode lets them be.
 * As with every copy of live data the owner is asked for a safe point and the device is waited for;
 * without a safe point nothing leaves, which is counted. spill_choice.c decides who leaves; pinned
 * handles, shared pages and private pools (what graphs replay into) never do. Somewhat more leaves
 * than the request misses, so that the next one does not wait again; and nothing leaves if all that
 * may would not be enough.
 *
 * paged_return.c decides when it comes back. */
#include "engine/paged/paged_spill.h"

#include <stdio.h>

#include "base/checked_math.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/host_limits.h"
#include "base/host_memory.h"
#include "device/device_table.h" /* vw__device_has_host_handles */
#include "engine/paged/paged_moment.h"
#include "engine/paged/paged_on_host.h"
#include "engine/paged/paged_return.h"
#include "engine/paged/paged_share.h"
#include "engine/paged/paged_spill_list.h"
#include "engine/paged/paged_survey.h"

enum {
    MARGIN_PARTS = 256, /* of the card: leaves besides */
    EFFORT_PARTS = 8,   /* of the request: leaves where there should be enough, but it is in bits */
    NEAR_PARTS = 8,     /* of the card: when no more is left, handles are made ahead */
    AGAIN_PARTS = 64,   /* of the card: held more or less by that, they are thought over */
};

#define MOST_TRIED_BYTES (UINT64_C(256) << 20) /* takes a tenth of a second */

/* ---- the budget, checked against the machine ---------------------------------------------------
 */

/* The host's free memory and the limit of its control group are the machine's to keep: to lock more
 * is refused. `ulimit -l` is kept by whoever locks. Some drivers do, others lock pages in the
 * kernel without counting them; and where the limit is the usual few MiB the difference decides
 * whether anything can be spilled at all. So a small limit is tried: a handle just beyond it is
 * made and released. A limit too high to be tried quickly is believed. */
static bool keeps_to(const vw_device *device, uint64_t locked_bytes)
{
    uint64_t granularity_bytes = device->properties.granularity_bytes;
    vw_handle handle = 0;
    if (locked_bytes > MOST_TRIED_BYTES)
        return true;
    uint64_t beyond_bytes = vw__align_down_u64(locked_bytes, granularity_bytes) + granularity_bytes;
    if (device->table->create_on_host(device->context, beyond_bytes, &handle) != VW_OK)
        return true;
    (void)device->table->release(device->context, handle);
    return false;
}

/* With the device's own words for why, where it has some. */
static vw_status refuse(const vw_device *device)
{
    char why[256] = "";
    vw_handle handle = 0;
    if (device->properties.has_virtual_memory &&
        VW__DEVICE_TABLE_HAS(device->table, create_on_host)) {
        if (device->table->create_on_host(device->context, device->properties.granularity_bytes,
                                          &handle) == VW_OK)
            (void)device->table->release(device->context, handle);
        else
            snprintf(why, sizeof why, ": %s", vw_last_error());
    }
    return vw__fail(VW_ERR_UNSUPPORTED,
                    "device %s cannot use host memory in the place of its own: nothing can be "
                    "spilled%s",
                    device->properties.name, why);
}

vw_status vw__paged_check_spill(const vw_device *device, const vw_pool_options *options)
{
    vw__host_limits limits;
    if (options->spill_ahead_bytes > options->spill_bytes)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "a spill_ahead_bytes of %llu, more than the spill_bytes of %llu",
                        (unsigned long long)options->spill_ahead_bytes,
                        (unsigned long long)options->spill_bytes);
    if (options->spill_bytes == 0)
        return VW_OK;
    if (!vw__device_has_host_handles(device))
        return refuse(device);
    if (!device->properties.has_bytes) /* there is no memory behind it */
        return VW_OK;
    vw__host_limits_read("", &limits);
    bool is_locking =
        options->spill_bytes > limits.locked_bytes && keeps_to(device, limits.locked_bytes);
    return vw__host_limits_check(&limits, "a spill_bytes", options->spill_bytes, is_locking);
}

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

/* Private pools keep all they have, also when nobody uses them just now: a checkpoint that is put
 * back wants the memory it had. */
static vw_status add_on_device(void *context, vw__paged_engine *engine, vw__paged_handle *handle,
                               vw__block *first)
{
    bool is_private = handle->home->segment->lane->shelf->private_pool != NULL;
    return handle->guest_count == 0 && !is_private ? vw__paged_list(engine, handle, first, context)
                                                   : VW_OK;
}

/* Who could leave, the first to leave first. The items are the caller's to free, also on failure.
 */
static vw_status find_leaving(vw__paged_engine *engine, vw__paged_spill_list *found)
{
    engine->spill->clock.now = engine->clock;
    VW__TRY(vw__paged_each_home_in_use(engine, add_on_device, found));
    vw__paged_spill_sort(found);
    return VW_OK;
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

/* The bytes that the request still needs, after the pool's free memory and its room to grow. */
static uint64_t missing_bytes(const vw__paged_engine *engine, uint64_t size_bytes)
{
    uint64_t there_bytes =
        engine->candidate_bytes + vw__paged_room_bytes(engine, vw__paged_limit_bytes(engine));
    uint64_t wanted_bytes = vw__paged_whole_units(engine, size_bytes);
    uint64_t least_bytes = vw__max_u64(size_bytes / EFFORT_PARTS, engine->unit_bytes);
    return wanted_bytes > there_bytes ? wanted_bytes - there_bytes : least_bytes;
}

static bool is_enough(const vw__paged_engine *engine, const vw__paged_spill_list *found,
                      uint64_t bytes)
{
    uint64_t sum_bytes = 0;
    for (size_t i = 0; i < found->count; i++)
        sum_bytes += found->items[i].size_bytes;
    return vw__min_u64(sum_bytes, allowed_bytes(engine)) >= bytes;
}

/* A size that the budget does not allow may be followed by a smaller one; when the host has no more
 * to give, that was all. */
static vw_status let_leave(vw__paged_engine *engine, const vw__paged_spill_list *found,
                           vw_stream stream, uint64_t wanted_bytes, vw__paged_spill_move *move)
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
        if (found->items[i].worst >= VW__PAGED_SPILL_PASSING)
            vw__paged_want_early(engine, handle);
        move->gained_bytes += handle->size_bytes;
        move->report.moved_bytes += handle->used_bytes;
        move->report.moved_handles++;
    }
    return VW_OK;
}

static vw_status leave_at_safe_point(vw__paged_engine *engine, vw_stream stream,
                                     uint64_t size_bytes, vw__paged_spill_move *move)
{
    vw__paged_spill_list found = {.count = 0};
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
                              bool *is_worth_while)
{
    vw__paged_spill_move move = {.start_ns = vw__clock_monotonic_ns()};
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
    uint64_t sizes_bytes[VW__LENDER_WISHES], sum_bytes = 0;
    size_t count = 0;
    vw__paged_spill_list found = {.count = 0};
    if (!is_time_to_wish(engine))
        return;
    if (find_leaving(engine, &found) == VW_OK) {
        for (; count < found.count && count < VW__LENDER_WISHES &&
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
