/* paged_miss.c - what happens when no free block fits, from the first step to the last.
 *
 * The way is a table at the end of this file: each step is tried only if those before it ended with
 * VW_ERR_OUT_OF_MEMORY. The steps stand above it in the same order. What they do is below this
 * file: to fill addresses with memory (paged_fill.c), to copy live data together (paged_copy.c), to
 * let live memory leave the device (paged_spill.c).
 *
 * The growth limit is tied to the peak of what was ever live, the request included, since a pool
 * has to be that large in any case: the peak and a share of it (vw_pool_options.idle_share). The
 * share buys fewer moves with more memory. */
#include "engine/paged/paged_miss.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/paged/paged_copy.h"
#include "engine/paged/paged_fill.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_moment.h"
#include "engine/paged/paged_on_host.h"
#include "engine/paged/paged_reclaim.h"
#include "engine/paged/paged_share.h"
#include "engine/paged/paged_spill.h"
#include "engine/paged/paged_survey.h"
#include "engine/paged/paged_whole.h"

static vw_stream stream_of(const vw__paged_miss *request)
{
    return request->lane->stream;
}

/* Peaks between two misses are in the counters, unless somebody reset them meanwhile. */
static void set_limits(vw__paged_miss *request)
{
    vw__paged_engine *engine = request->engine;
    uint64_t counted_bytes = (uint64_t)engine->base.owner.counters->active_bytes.peak_all;
    uint64_t wanted_bytes = vw__paged_live_bytes(engine) + request->size_bytes;
    engine->peak_live_bytes =
        vw__max_u64(engine->peak_live_bytes, vw__max_u64(counted_bytes, wanted_bytes));
    uint64_t idle_bytes = (uint64_t)(engine->idle_share * (double)engine->peak_live_bytes);
    request->allowed_bytes =
        engine->peak_live_bytes + vw__max_u64(idle_bytes, engine->idle_floor_bytes);
    request->most_bytes =
        request->takes_all ? vw__paged_limit_bytes(engine) : vw__paged_most_bytes(engine);
}

/* Beyond that idle memory is used first. */
static void leave_free(vw__paged_miss *request)
{
    uint64_t spare_bytes = vw__paged_spare_bytes(request->engine);
    uint64_t held_bytes = request->engine->base.held_bytes;
    if (spare_bytes < request->allowed_bytes && held_bytes + spare_bytes < request->allowed_bytes)
        request->allowed_bytes = held_bytes + spare_bytes;
}

/* ---- finding addresses, and filling them ----------------------------------------------------- */

/* A request beyond what the device says it has needs no addresses, unless it has more than that. */
static vw_status see_if_it_can_fit(const vw__paged_miss *request)
{
    const vw_device *device = request->engine->base.owner.device;
    uint64_t free_bytes = 0, total_bytes = 0;
    if (request->size_bytes <= device->properties.total_bytes)
        return VW_OK;
    VW__TRY(device->table->memory_info(device->context, &free_bytes, &total_bytes));
    return request->size_bytes <= request->engine->base.held_bytes + free_bytes
               ? VW_OK
               : VW_ERR_OUT_OF_MEMORY;
}

static vw_status find_window(vw__paged_miss *request, vw__paged_window *window)
{
    vw__paged_engine *engine = request->engine;
    if (vw__paged_choose_window(engine, request->lane, request->size_bytes, false, window))
        return VW_OK;
    VW__TRY(see_if_it_can_fit(request));
    VW__TRY(vw__paged_add_arena(engine, request->lane, request->size_bytes));
    return vw__paged_choose_window(engine, request->lane, request->size_bytes, false, window)
               ? VW_OK
               : VW_ERR_OUT_OF_MEMORY;
}

/* True if free handles and new memory together would be enough. */
static bool has_enough(const vw__paged_miss *request)
{
    const vw__paged_engine *engine = request->engine;
    uint64_t wanted_bytes = vw__paged_whole_units(engine, request->size_bytes);
    uint64_t held_bytes = engine->base.held_bytes, most_bytes = request->most_bytes;
    if (request->keeps_limit)
        most_bytes = vw__min_u64(most_bytes, request->allowed_bytes);
    if (engine->candidate_bytes >= wanted_bytes)
        return true;
    return most_bytes > held_bytes &&
           (most_bytes - held_bytes) / engine->unit_bytes * engine->unit_bytes >=
               wanted_bytes - engine->candidate_bytes;
}

/* Finds an arena in which nothing is mapped, or makes one. */
static vw_status find_empty_arena(vw__paged_miss *request, vw__paged_window *window)
{
    for (bool is_new = false;; is_new = true) {
        vw__block *gap = vw__lane_unmapped_above(request->lane, 0);
        while (gap != NULL && (vw__block_is_split(gap) || gap->state != VW__BLOCK_UNMAPPED ||
                               gap->size_bytes < request->size_bytes))
            gap = vw__lane_unmapped_above(request->lane, gap->address);
        if (gap != NULL) {
            *window = (vw__paged_window){.segment = gap->segment,
                                         .first = gap,
                                         .address = gap->address,
                                         .size_bytes = request->size_bytes};
            return VW_OK;
        }
        if (is_new)
            return VW_ERR_OUT_OF_MEMORY;
        VW__TRY(vw__paged_add_arena(request->engine, request->lane, request->size_bytes));
    }
}

static vw_status try_windows(vw__paged_miss *request, vw__block **out)
{
    vw__paged_engine *engine = request->engine;
    vw__paged_window window;
    if (vw__paged_wants_whole(request->lane->shelf))
        return vw__paged_take_whole(request, out);
    VW__TRY(vw__paged_survey(engine, stream_of(request)));
    VW__TRY(find_window(request, &window));
    vw_status status = vw__paged_fill(request, &window, out);
    if (status != VW_ERR_OUT_OF_MEMORY)
        return status;
    VW__TRY(vw__paged_survey(engine, stream_of(request)));
    if (vw__paged_choose_window(engine, request->lane, request->size_bytes, true, &window)) {
        status = vw__paged_fill(request, &window, out);
        if (status != VW_ERR_OUT_OF_MEMORY)
            return status;
        VW__TRY(vw__paged_survey(engine, stream_of(request)));
    }
    if (!has_enough(request))
        return VW_ERR_OUT_OF_MEMORY;
    VW__TRY(find_empty_arena(request, &window));
    return vw__paged_fill(request, &window, out);
}

/* ---- the steps ------------------------------------------------------------------------------- */

/* Makes room, by copying or by spilling, as long as it gains something and the request finds too
 * little. */
typedef vw_status (*room_maker)(const vw__paged_miss *request, uint64_t limit_bytes,
                                bool *is_worth_while);

static vw_status make_room_and_try(vw__paged_miss *request, room_maker make_room,
                                   uint64_t limit_bytes, vw__block **out)
{
    bool is_worth_while = true;
    vw_status status = VW_ERR_OUT_OF_MEMORY;
    while (status == VW_ERR_OUT_OF_MEMORY) {
        VW__TRY(make_room(request, limit_bytes, &is_worth_while));
        *out = vw__free_index_best_fit(&request->lane->free, request->size_bytes);
        if (*out != NULL)
            return VW_OK;
        if (!is_worth_while)
            return VW_ERR_OUT_OF_MEMORY;
        set_limits(request);
        status = try_windows(request, out);
    }
    return status;
}

static vw_status copy(const vw__paged_miss *request, uint64_t limit_bytes, bool *is_worth_while)
{
    return vw__paged_make_room(request->engine, stream_of(request), request->size_bytes,
                               limit_bytes, is_worth_while);
}

static vw_status spill(const vw__paged_miss *request, uint64_t limit_bytes, bool *is_worth_while)
{
    (void)limit_bytes; /* what leaves the device does not count for it */
    return vw__paged_spill_for(request->engine, stream_of(request), request->size_bytes,
                               is_worth_while);
}

static vw_status keep_growth_limit(vw__paged_miss *request, vw__block **out)
{
    request->keeps_limit = true;
    vw_status status = try_windows(request, out);
    if (status == VW_ERR_OUT_OF_MEMORY)
        status = make_room_and_try(request, copy, request->allowed_bytes, out);
    request->keeps_limit = false;
    return status;
}

/* Others may have given memory back since the device had no more for us. */
static vw_status look_at_the_device(vw__paged_engine *engine)
{
    uint64_t free_bytes = 0, total_bytes = 0;
    if (engine->full_bytes == UINT64_MAX)
        return VW_OK;
    VW__TRY(vw__paged_device(engine)->memory_info(vw__paged_context(engine), &free_bytes,
                                                  &total_bytes));
    engine->full_bytes =
        vw__max_u64(engine->full_bytes, vw__paged_on_device_bytes(engine) + free_bytes);
    return VW_OK;
}

static vw_status wait_for_others(vw__paged_miss *request, vw__block **out)
{
    const vw__engine_owner *owner = &request->engine->base.owner;
    owner->counters->num_alloc_retries++;
    VW__TRY(look_at_the_device(request->engine));
    VW__TRY(owner->finish_pending(owner->context, NULL));
    *out = vw__free_index_best_fit(&request->lane->free, request->size_bytes);
    if (*out != NULL)
        return VW_OK;
    set_limits(request);
    return try_windows(request, out);
}

static vw_status release_whole_segments(vw__paged_miss *request, vw__block **out)
{
    uint64_t given_bytes = 0;
    VW__TRY(vw__paged_release_whole(request->engine, NULL, &given_bytes));
    if (given_bytes == 0)
        return VW_ERR_OUT_OF_MEMORY;
    set_limits(request);
    return try_windows(request, out);
}

static vw_status copy_live_data(vw__paged_miss *request, vw__block **out)
{
    return make_room_and_try(request, copy, UINT64_MAX, out);
}

static vw_status take_reserve(vw__paged_miss *request, vw__block **out)
{
    request->takes_all = true;
    set_limits(request);
    return try_windows(request, out);
}

static vw__block *find_elsewhere(void *context, vw__shelf *shelf)
{
    const vw__paged_miss *request = context;
    const vw__lane *lane = vw__shelf_lane(shelf, request->lane->stream);
    return lane != NULL ? vw__free_index_best_fit(&lane->free, request->size_bytes) : NULL;
}

static vw_status use_private_pool(vw__paged_miss *request, vw__block **out)
{
    *out = vw__private_find_on_oom(&request->engine->base, request->lane->shelf, find_elsewhere,
                                   request);
    return *out != NULL ? VW_OK : VW_ERR_OUT_OF_MEMORY;
}

static vw_status ask_program(vw__paged_miss *request, vw__block **out)
{
    vw__paged_engine *engine = request->engine;
    const vw__engine_owner *owner = &engine->base.owner;
    const vw__engine_request *serving = vw__paged_stand_aside(engine);
    bool is_worth_while = owner->make_room(owner->context, request->size_bytes);
    vw__paged_go_on(engine, serving);
    if (engine->failure != NULL)
        return vw__fail(VW_ERR_DEVICE, "%s", engine->failure);
    if (!is_worth_while)
        return VW_ERR_OUT_OF_MEMORY;
    if (engine->spill != NULL)
        engine->spill->has_help = true;
    return wait_for_others(request, out);
}

static vw_status spill_live_memory(vw__paged_miss *request, vw__block **out)
{
    return make_room_and_try(request, spill, UINT64_MAX, out);
}

/* ---- the way --------------------------------------------------------------------------------- */

static bool is_tight(const vw__paged_engine *engine)
{
    return engine->mode == VW__PAGED_TIGHT;
}

static bool may_copy(const vw__paged_engine *engine)
{
    return engine->mode != VW__PAGED_MOVES;
}

static bool has_reserve(const vw__paged_engine *engine)
{
    return vw__paged_most_bytes(engine) < vw__paged_limit_bytes(engine);
}

/* Making room may wait for the device, which a capture on any stream would not bear. */
static bool may_ask_program(const vw__paged_engine *engine)
{
    return engine->base.owner.make_room != NULL && engine->base.scopes == NULL;
}

static bool may_spill(const vw__paged_engine *engine)
{
    return engine->spill != NULL;
}

static const struct step {
    bool (*is_open)(const vw__paged_engine *engine); /* NULL: always */
    bool takes_free; /* takes what is free: also while the stream is captured, and if optional */
    vw_status (*take)(vw__paged_miss *request, vw__block **out);
} way[] = {
    /* In mode tight live data is copied rather than grow beyond the growth limit. */
    {is_tight, false, keep_growth_limit},
    /* New memory and free handles, at the best addresses, at the end of an arena, in a new one. */
    {NULL, true, try_windows},
    /* Blocks that other streams still use are waited for; then all of that again. */
    {NULL, false, wait_for_others},
    /* Idle segments of private pools that others could register and nobody uses any more. */
    {NULL, false, release_whole_segments},
    /* Live data is copied off handles that are mostly free. */
    {may_copy, false, copy_live_data},
    /* The part of its limit that a pool which copies keeps free, to have somewhere to copy to. */
    {has_reserve, false, take_reserve},
    /* A free block of a private pool that serves others rather than let them run out. */
    {NULL, false, use_private_pool},
    /* The program moves memory of its own out of the way (vw_pool_options.make_room). */
    {may_ask_program, false, ask_program},
    /* Live memory leaves the device. */
    {may_spill, false, spill_live_memory},
};

/* Finishes what frees left undone, since they may not call the driver. */
static vw_status settle(vw__paged_engine *engine)
{
    if (engine->vacated != NULL)
        VW__TRY(vw__paged_settle_vacated(engine));
    return engine->spill != NULL ? vw__paged_settle_left(engine, false) : VW_OK;
}

/* A request that was not served is no reason to grow. */
static vw_status walk_the_way(vw__paged_miss *request, vw__block **out)
{
    vw__paged_engine *engine = request->engine;
    uint64_t peak_bytes = engine->peak_live_bytes;
    vw_status status = VW_ERR_OUT_OF_MEMORY;
    engine->call++;
    engine->stats.misses++;
    if (!request->is_capturing)
        VW__TRY(settle(engine));
    set_limits(request);
    if (engine->base.owner.keep_free_bytes != 0 && !request->is_capturing)
        leave_free(request);
    for (size_t i = 0; i < sizeof way / sizeof way[0] && status == VW_ERR_OUT_OF_MEMORY; i++)
        if ((way[i].is_open == NULL || way[i].is_open(engine)) &&
            (way[i].takes_free || !(request->is_capturing || request->is_optional)))
            status = way[i].take(request, out);
    if (status != VW_OK)
        engine->peak_live_bytes = peak_bytes;
    else if (engine->spill != NULL)
        vw__paged_prepare_spill(engine);
    return status;
}

static vw_status find_or_make(vw__paged_engine *engine, vw__shelf *shelf,
                              const vw__engine_request *request, uint64_t size_bytes,
                              vw__block **out)
{
    const vw__engine_owner *owner = &engine->base.owner;
    bool is_worth_while = !request->is_optional && owner->reclaim(owner->context);
    if (engine->base.scopes == NULL && !request->is_optional) /* no capture would bear it */
        is_worth_while = vw__paged_look_ahead(engine, size_bytes) || is_worth_while;
    vw__lane *lane = vw__shelf_lane(shelf, request->stream);
    if (is_worth_while && lane != NULL)
        *out = vw__free_index_best_fit(&lane->free, size_bytes);
    if (engine->failure != NULL) /* another request's doing, meanwhile */
        return vw__fail(VW_ERR_DEVICE, "%s", engine->failure);
    if (*out != NULL)
        return VW_OK;
    lane = vw__shelf_add_lane(shelf, request->stream);
    if (lane == NULL)
        return vw__fail_host_memory(sizeof *lane, "a stream's free blocks");
    vw__paged_miss miss = {
        .engine = engine,
        .lane = lane,
        .size_bytes = size_bytes,
        .is_capturing = vw__engine_is_capturing(&engine->base, lane->stream),
        .is_optional = request->is_optional,
    };
    engine->base.serving = request;
    vw_status status = walk_the_way(&miss, out);
    engine->base.serving = NULL;
    return status;
}

/* The lock may be dropped on the way (the reclaim callback, the safe point), so the private pool is
 * held on to and the record for the split is seen to again. */
vw_status vw__paged_serve_miss(vw__paged_engine *engine, vw__shelf *shelf,
                               const vw__engine_request *request, uint64_t size_bytes,
                               vw__block **out, vw__engine_refusal *refusal)
{
    vw__private_pool *pool = shelf->private_pool;
    vw__block *block = NULL;
    if (pool != NULL)
        pool->requests_in_progress++;
    vw_status status = find_or_make(engine, shelf, request, size_bytes, &block);
    if (pool != NULL)
        pool->requests_in_progress--;
    if (status == VW_OK && !vw__block_source_reserve(&engine->base.records, 1))
        status = vw__fail_host_memory(sizeof(vw__block), "block records"); /* it stays free */
    if (status != VW_OK) {
        refusal->rounded_bytes = size_bytes;
        refusal->segment_bytes = size_bytes;
        refusal->private_id = shelf->private_id;
        refusal->is_expandable = true;
        return status;
    }
    *out = block;
    return VW_OK;
}
