/* paged_miss.c - what happens when no free block fits.
 *
 * A *window* is a range of a lane's addresses, as large as the request, in which nothing is live.
 * The one with the least missing is taken (paged_survey.c), its ghosts are revived, and each piece
 * of it that has no memory is filled, by the first of these that can:
 *   1. new memory, while the pool stays within its growth limit
 *   2. a free handle from elsewhere, of about the piece's size
 *   3. new memory beyond the growth limit
 * and, where neither the device nor the pool's limit lets it grow:
 *   4. the same at the end of an arena, and in a new one, where a handle of any size fits
 *   5. waiting for blocks that other streams still use, then all of it again
 *   6. copying live data off handles that are mostly free, where the mode lets it (paged_copy.c);
 *      in mode tight this comes before 3
 *   7. what a pool that copies keeps of its limit, to have somewhere to copy to
 *   8. a free block of a private pool that serves others rather than let them run out
 *   9. live memory leaves the device, where it may (paged_spill.c)
 *
 * The growth limit is tied to the peak of what was ever live, the request included, since a pool
 * has to be that large in any case: the peak and a share of it (vw_pool_options.idle_share). The
 * share buys fewer moves with more memory.
 *
 * How large a new handle is. A handle is idle only as a whole, so what a block leaves of the
 * handles at its two ends is lost to others until it is freed: handles follow the size of the
 * block, a sixteenth of it. But every handle costs the same, whatever its size, so while the limit
 * is far away they are larger, a fifth of the way that is left. Who fills the card has less to
 * lose: none is larger than a 512th of what the pool may hold, or 16 MiB. And a pool that had
 * to grow beyond its limit has learned that its handles are too large for this program: they become
 * finer each time, down to half. (docs/design/006 has the measurements behind the numbers.)
 *
 * A request must not stall: after so many driver calls, new memory beyond the limit is taken, in
 * larger pieces, rather than more small handles moved. */
#include "engine/paged/paged_engine.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/paged/paged_spill.h"

enum {
    PARTS_OF_A_BLOCK = 16,
    PARTS_OF_THE_ROOM = 5,
    PARTS_OF_THE_CARD = 512,
    MOST_OPERATIONS = 250, /* of about 35 us: 9 ms */
    MOST_GHOSTS = 16,      /* of one handle */
    GHOST_FACTOR = 3,      /* all ghosts together, as a multiple of what is held */
};

#define MOST_HANDLE_BYTES (UINT64_C(256) << 20)
#define LEAST_BOUND_BYTES (UINT64_C(16) << 20) /* that the card's size bounds them to */
#define FINER_STEP 1.2
#define FINEST 2.0

typedef struct miss {
    vw__paged_engine *engine;
    vw__lane *lane;
    uint64_t size_bytes;
    uint64_t allowed_bytes; /* the growth limit */
    uint64_t most_bytes;    /* what the pool's limit and the device allow */
    unsigned operations;    /* handles made or moved so far */
    bool takes_all;         /* what is kept for copying, too */
    bool keeps_limit;       /* the growth limit holds in any case */
    bool was_forced;        /* it grew beyond it */
} miss;

static vw_stream stream_of(const miss *request)
{
    return request->lane->stream;
}

/* Peaks between two misses are in the counters, unless somebody reset them meanwhile. */
static void set_limits(miss *request)
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

/* ---- filling a piece ------------------------------------------------------------------------- */

static uint64_t power_of_two_up_to(uint64_t value)
{
    return UINT64_C(1) << vw__floor_log2_u64(value);
}

static uint64_t handle_bytes(const miss *request, uint64_t missing_bytes)
{
    const vw__paged_engine *engine = request->engine;
    uint64_t held_bytes = engine->base.held_bytes;
    if (request->lane->shelf->kind == VW__SMALL)
        return engine->unit_bytes;
    double wanted = (double)request->size_bytes / PARTS_OF_A_BLOCK;
    if (request->allowed_bytes > held_bytes) {
        double by_room = (double)(request->allowed_bytes - held_bytes) / PARTS_OF_THE_ROOM;
        wanted = by_room > wanted ? by_room : wanted;
    }
    uint64_t card_bytes = engine->base.owner.device->properties.total_bytes;
    uint64_t most_bytes = vw__min_u64(card_bytes, engine->base.limit_bytes) / PARTS_OF_THE_CARD;
    most_bytes = vw__min_u64(vw__max_u64(most_bytes, LEAST_BOUND_BYTES), MOST_HANDLE_BYTES);
    uint64_t bytes = vw__min_u64((uint64_t)(wanted / engine->fineness), most_bytes);
    bytes = power_of_two_up_to(vw__max_u64(bytes, engine->unit_bytes));
    return vw__min_u64(bytes, missing_bytes);
}

/* New memory of up to `wanted_bytes`, as far as `most_bytes` allow: 0 in `*got_bytes` for none. */
static vw_status grow_within(miss *request, vw__block *unmapped, uint64_t address,
                             uint64_t wanted_bytes, uint64_t most_bytes, uint64_t *got_bytes)
{
    vw__paged_engine *engine = request->engine;
    uint64_t held_bytes = engine->base.held_bytes;
    vw_status status = VW_ERR_OUT_OF_MEMORY;
    *got_bytes = 0;
    while (status == VW_ERR_OUT_OF_MEMORY) {
        uint64_t room_bytes = vw__min_u64(most_bytes, request->most_bytes);
        while (wanted_bytes > engine->unit_bytes && held_bytes + wanted_bytes > room_bytes)
            wanted_bytes = vw__max_u64(power_of_two_up_to(wanted_bytes - 1), engine->unit_bytes);
        if (held_bytes + wanted_bytes > room_bytes)
            return VW_OK;
        status = vw__paged_grow(engine, unmapped, address, wanted_bytes);
        if (status == VW_ERR_OUT_OF_MEMORY) /* others use the device, too: it has less than that */
            request->most_bytes = held_bytes + wanted_bytes - engine->unit_bytes;
    }
    VW__TRY(status);
    request->operations++;
    *got_bytes = wanted_bytes;
    return VW_OK;
}

/* How well a free handle suits: about the size that is missing, else the largest that is smaller,
 * else the smallest that is larger. */
static uint64_t suitability(uint64_t handle_bytes, uint64_t missing_bytes)
{
    const uint64_t middle = UINT64_C(1) << 62;
    if (handle_bytes < missing_bytes)
        return middle + handle_bytes;
    return handle_bytes <= 2 * missing_bytes ? UINT64_MAX - handle_bytes : middle - handle_bytes;
}

/* The one that suits best, the longest free among equals; NULL: none fits into the room. */
static vw__paged_handle *pick_free_handle(const miss *request, const vw__paged_window *window,
                                          uint64_t missing_bytes, uint64_t room_bytes)
{
    const vw__paged_engine *engine = request->engine;
    const vw__candidate_handle *best = NULL;
    uint64_t best_suits = 0;
    for (size_t i = 0; i < engine->candidate_count; i++) {
        const vw__candidate_handle *candidate = &engine->candidates[i];
        const vw__paged_handle *handle = candidate->handle;
        if (handle->size_bytes > room_bytes || !vw__paged_is_free(engine, handle) ||
            vw__paged_is_inside(engine, window, handle->home))
            continue;
        uint64_t suits = suitability(handle->size_bytes, missing_bytes);
        if (best == NULL || suits > best_suits ||
            (suits == best_suits && candidate->age < best->age)) {
            best = candidate;
            best_suits = suits;
        }
    }
    return best != NULL ? best->handle : NULL;
}

/* Ghosts take nothing but addresses, and time to walk over. */
static vw_status limit_ghosts(vw__paged_engine *engine, vw__paged_handle *handle)
{
    if (handle->ghost_count <= MOST_GHOSTS &&
        engine->stats.retiring_bytes <= GHOST_FACTOR * engine->base.held_bytes)
        return VW_OK;
    vw__place *oldest = handle->ghosts;
    while (oldest->next != NULL)
        oldest = oldest->next;
    vw_status status = vw__paged_drop_ghost(engine, oldest, false);
    return status == VW_ERR_NOT_READY ? VW_OK : status;
}

static vw_status move_free_handle(miss *request, const vw__paged_window *window,
                                  vw__block *unmapped, uint64_t address, uint64_t missing_bytes,
                                  uint64_t *got_bytes)
{
    vw__paged_engine *engine = request->engine;
    uint64_t room_bytes = unmapped->address + unmapped->size_bytes - address;
    vw__paged_handle *handle = pick_free_handle(request, window, missing_bytes, room_bytes);
    *got_bytes = 0;
    if (handle == NULL)
        return VW_OK;
    VW__TRY(vw__paged_move(engine, handle, unmapped, address));
    handle->survey = 0;
    request->operations++;
    *got_bytes = handle->size_bytes;
    return limit_ghosts(engine, handle);
}

/* The pool has to grow beyond its limit though it holds more than is live: its handles are too
 * large. Once per request. */
static void learn(miss *request)
{
    vw__paged_engine *engine = request->engine;
    if (request->was_forced || engine->base.held_bytes < engine->peak_live_bytes)
        return;
    request->was_forced = true;
    engine->fineness =
        engine->fineness * FINER_STEP < FINEST ? engine->fineness * FINER_STEP : FINEST;
}

static vw_status fill_piece(miss *request, const vw__paged_window *window, vw__block *unmapped,
                            uint64_t address, uint64_t missing_bytes, uint64_t *got_bytes)
{
    bool is_slow = request->operations > MOST_OPERATIONS && !request->keeps_limit;
    VW__TRY(grow_within(request, unmapped, address, handle_bytes(request, missing_bytes),
                        request->allowed_bytes, got_bytes));
    if (*got_bytes == 0 && !is_slow)
        VW__TRY(move_free_handle(request, window, unmapped, address, missing_bytes, got_bytes));
    if (*got_bytes == 0 && !request->keeps_limit) {
        if (!is_slow)
            learn(request);
        VW__TRY(grow_within(request, unmapped, address, handle_bytes(request, missing_bytes),
                            UINT64_MAX, got_bytes));
    }
    if (*got_bytes == 0 && is_slow)
        VW__TRY(move_free_handle(request, window, unmapped, address, missing_bytes, got_bytes));
    return *got_bytes != 0 ? VW_OK : VW_ERR_OUT_OF_MEMORY;
}

/* ---- filling a window ------------------------------------------------------------------------ */

/* Ghosts first: what fills the rest must not be taken from under them. */
static vw_status revive_ghosts(miss *request, const vw__paged_window *window, vw__block **anchor)
{
    vw__paged_engine *engine = request->engine;
    uint64_t end = window->address + window->size_bytes;
    for (uint64_t at = window->address; at < end;) {
        vw__block *block = *anchor = vw__paged_walk_to(*anchor, at);
        at = block->address + block->size_bytes;
        if (block->state != VW__BLOCK_GHOST)
            continue;
        vw__place *ghost = vw__paged_place_at(engine, block->segment, block->address);
        VW__TRY(vw__paged_revive(engine, ghost));
        ghost->handle->survey = 0;
        *anchor = ghost->handle->block;
    }
    return VW_OK;
}

/* Records change hands as blocks are cut and merged, but each step leaves one behind that is in the
 * list, so that the next address is found by walking from it. What a failure leaves is whole:
 * pieces filled so far are free memory. */
static vw_status fill_window(miss *request, const vw__paged_window *window, vw__block **out)
{
    const vw__paged_engine *engine = request->engine;
    uint64_t end = window->address + window->size_bytes;
    vw__block *block = window->first;
    VW__TRY(revive_ghosts(request, window, &block));
    for (uint64_t at = window->address; at < end;) {
        block = vw__paged_walk_to(block, at);
        uint64_t block_end = block->address + block->size_bytes, got_bytes = 0;
        if (block->state != VW__BLOCK_UNMAPPED) {
            at = block_end;
            continue;
        }
        uint64_t from = vw__max_u64(block->address, vw__paged_unit_at(engine, window->segment, at));
        uint64_t missing_bytes = vw__paged_whole_units(engine, vw__min_u64(block_end, end) - from);
        VW__TRY(fill_piece(request, window, block, from, missing_bytes, &got_bytes));
        block = vw__paged_place_at(engine, window->segment, from)->handle->block;
        at = from + got_bytes;
    }
    *out = vw__paged_walk_to(block, window->address);
    return VW_OK;
}

/* ---- the order ------------------------------------------------------------------------------- */

/* A request beyond what the device says it has needs no addresses, unless it has more than that. */
static vw_status see_if_it_can_fit(const miss *request)
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

static vw_status find_window(miss *request, vw__paged_window *window)
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

/* Would the memory do, wherever it is? */
static bool has_enough(const miss *request)
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

/* Addresses in which there is nothing yet. */
static vw_status find_empty_arena(miss *request, vw__paged_window *window)
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

static vw_status try_windows(miss *request, vw__block **out)
{
    vw__paged_engine *engine = request->engine;
    vw__paged_window window;
    VW__TRY(vw__paged_survey(engine, stream_of(request)));
    VW__TRY(find_window(request, &window));
    vw_status status = fill_window(request, &window, out);
    if (status != VW_ERR_OUT_OF_MEMORY)
        return status;
    VW__TRY(vw__paged_survey(engine, stream_of(request)));
    if (vw__paged_choose_window(engine, request->lane, request->size_bytes, true, &window)) {
        status = fill_window(request, &window, out);
        if (status != VW_ERR_OUT_OF_MEMORY)
            return status;
        VW__TRY(vw__paged_survey(engine, stream_of(request)));
    }
    if (!has_enough(request))
        return VW_ERR_OUT_OF_MEMORY;
    VW__TRY(find_empty_arena(request, &window));
    return fill_window(request, &window, out);
}

/* Makes room by one of two ways, as long as it gains something and the request finds too little. */
typedef vw_status (*room_maker)(vw__paged_engine *engine, vw_stream stream, uint64_t size_bytes,
                                uint64_t limit_bytes, bool *is_worth_while);

static vw_status make_room_and_try(miss *request, room_maker make_room, uint64_t limit_bytes,
                                   vw__block **out)
{
    vw__paged_engine *engine = request->engine;
    bool is_worth_while = true;
    vw_status status = VW_ERR_OUT_OF_MEMORY;
    while (status == VW_ERR_OUT_OF_MEMORY) {
        VW__TRY(make_room(engine, stream_of(request), request->size_bytes, limit_bytes,
                          &is_worth_while));
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

static vw__block *find_elsewhere(void *context, vw__shelf *shelf)
{
    const miss *request = context;
    const vw__lane *lane = vw__shelf_lane(shelf, request->lane->stream);
    return lane != NULL ? vw__free_index_best_fit(&lane->free, request->size_bytes) : NULL;
}

static vw__block *find_on_oom(miss *request)
{
    return vw__private_find_on_oom(&request->engine->base, request->lane->shelf, find_elsewhere,
                                   request);
}

static vw_status serve(vw__paged_engine *engine, vw__lane *lane, uint64_t size_bytes,
                       vw__block **out)
{
    const vw__engine_owner *owner = &engine->base.owner;
    miss request = {.engine = engine, .lane = lane, .size_bytes = size_bytes};
    bool is_capturing = vw__engine_is_capturing(&engine->base, lane->stream);
    engine->call++;
    engine->stats.misses++;
    if (engine->vacated != NULL && !is_capturing)
        VW__TRY(vw__paged_settle_vacated(engine));
    if (engine->spill != NULL && !is_capturing)
        VW__TRY(vw__paged_settle_left(engine, false));
    set_limits(&request);
    vw_status status = VW_ERR_OUT_OF_MEMORY;
    if (engine->mode == VW__PAGED_TIGHT && !is_capturing) {
        request.keeps_limit = true;
        status = try_windows(&request, out);
        if (status == VW_ERR_OUT_OF_MEMORY)
            status = make_room_and_try(&request, vw__paged_make_room, request.allowed_bytes, out);
        request.keeps_limit = false;
    }
    if (status == VW_ERR_OUT_OF_MEMORY)
        status = try_windows(&request, out);
    if (status != VW_ERR_OUT_OF_MEMORY || is_capturing)
        return status;
    owner->counters->num_alloc_retries++;
    VW__TRY(owner->finish_pending(owner->context, NULL));
    *out = vw__free_index_best_fit(&lane->free, size_bytes);
    if (*out != NULL)
        return VW_OK;
    set_limits(&request);
    status = try_windows(&request, out);
    if (status == VW_ERR_OUT_OF_MEMORY && engine->mode != VW__PAGED_MOVES)
        status = make_room_and_try(&request, vw__paged_make_room, UINT64_MAX, out);
    if (status == VW_ERR_OUT_OF_MEMORY &&
        vw__paged_most_bytes(engine) < vw__paged_limit_bytes(engine)) {
        request.takes_all = true;
        set_limits(&request);
        status = try_windows(&request, out);
    }
    if (status == VW_ERR_OUT_OF_MEMORY && (*out = find_on_oom(&request)) != NULL)
        return VW_OK;
    if (status == VW_ERR_OUT_OF_MEMORY && engine->spill != NULL)
        status = make_room_and_try(&request, vw__paged_spill_for, UINT64_MAX, out);
    return status;
}

/* A request that was not served is no reason to grow. */
vw_status vw__paged_serve_miss(vw__paged_engine *engine, vw__lane *lane, uint64_t size_bytes,
                               vw__block **out)
{
    uint64_t peak_bytes = engine->peak_live_bytes;
    vw_status status = serve(engine, lane, size_bytes, out);
    if (status != VW_OK)
        engine->peak_live_bytes = peak_bytes;
    else if (engine->spill != NULL)
        vw__paged_prepare_spill(engine);
    return status;
}
