/* paged_fill.c - a window gets memory, piece by piece.
 *
 * A *window* is a range of a lane's addresses, as large as the request, in which nothing is live
 * (paged_survey.c). Its ghosts are revived, or dropped where their handles are in use, and each
 * piece of it that has no memory is filled, by the first of these that can:
 *   1. new memory, while the pool stays within its growth limit
 *   2. a free handle from elsewhere, of about the piece's size
 *   3. new memory beyond the growth limit
 *
 * The size of a new handle. A handle can move only as a whole, so a block wastes the rest of the
 * handles at its two ends until it is freed: handles follow the size of the block, a sixteenth of
 * it. But every handle costs the same number of driver calls, whatever its size, so they are larger
 * while the growth limit is far away: a fifth of the room that is left, and at most half of what
 * the growth limit lets lie idle, since a few large handles with one small block in each would be
 * all of that. No handle is larger than a 512th of what the pool may hold, or 16 MiB, because a
 * full card has no room to waste. And a pool that had to grow beyond its limit has learned that its
 * handles are too large for this program: they become finer each time, down to half.
 * (docs/design/006 has the measurements behind the numbers.)
 *
 * A request must not stall: after so many driver calls, new memory beyond the limit is taken, in
 * larger pieces, rather than more small handles moved. */
#include "engine/paged/paged_fill.h"

#include <stdlib.h> /* qsort */

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/paged/paged_books.h"
#include "engine/paged/paged_handles.h"

enum {
    PARTS_OF_A_BLOCK = 16,
    PARTS_OF_THE_ROOM = 5,
    PARTS_OF_THE_IDLE = 2,
    PARTS_OF_THE_CARD = 512,
    MOST_OPERATIONS = 250, /* of about 35 us: 9 ms */
    MOST_GHOSTS = 16,      /* of one handle */
    GHOST_FACTOR = 3,      /* all ghosts together, as a multiple of what is held */
    MOST_LOOKS = 1 << 16,  /* at free handles, one by one; then they are put in order */
};

#define MOST_HANDLE_BYTES (UINT64_C(256) << 20)
#define LEAST_BOUND_BYTES (UINT64_C(16) << 20) /* that the card's size bounds them to */
#define FINER_STEP 1.2
#define FINEST 2.0

/* ---- filling a piece ------------------------------------------------------------------------- */

static uint64_t power_of_two_up_to(uint64_t value)
{
    return UINT64_C(1) << vw__floor_log2_u64(value);
}

/* While the growth limit is far away; 0 at it. */
static uint64_t bytes_by_room(const vw__paged_miss *request)
{
    const vw__paged_engine *engine = request->engine;
    uint64_t held_bytes = engine->base.held_bytes;
    uint64_t idle_bytes = request->allowed_bytes - engine->peak_live_bytes;
    if (request->allowed_bytes <= held_bytes)
        return 0;
    return vw__min_u64((request->allowed_bytes - held_bytes) / PARTS_OF_THE_ROOM,
                       idle_bytes / PARTS_OF_THE_IDLE);
}

static uint64_t handle_bytes(const vw__paged_miss *request, uint64_t missing_bytes)
{
    const vw__paged_engine *engine = request->engine;
    if (request->lane->shelf->kind == VW__ENGINE_SMALL)
        return engine->unit_bytes;
    uint64_t wanted_bytes =
        vw__max_u64(request->size_bytes / PARTS_OF_A_BLOCK, bytes_by_room(request));
    uint64_t most_bytes =
        vw__max_u64(vw__paged_card_bytes(engine) / PARTS_OF_THE_CARD, LEAST_BOUND_BYTES);
    most_bytes = vw__min_u64(most_bytes, MOST_HANDLE_BYTES);
    uint64_t bytes = vw__min_u64((uint64_t)((double)wanted_bytes / engine->fineness), most_bytes);
    bytes = power_of_two_up_to(vw__max_u64(bytes, engine->unit_bytes));
    return vw__min_u64(bytes, missing_bytes);
}

/* New memory of up to `wanted_bytes`, as far as `most_bytes` allow: 0 in `*got_bytes` for none. */
static vw_status grow_within(vw__paged_miss *request, vw__block *unmapped, uint64_t address,
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
        if (status == VW_ERR_OUT_OF_MEMORY) { /* others use the device, too: it has less */
            request->most_bytes = held_bytes + wanted_bytes - engine->unit_bytes;
            engine->full_bytes = request->most_bytes - engine->stats.spilled_bytes;
        }
    }
    VW__TRY(status);
    if (vw__paged_on_device_bytes(engine) > engine->full_bytes)
        engine->full_bytes = UINT64_MAX; /* it has more by now */
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

/* Free handles of one size, the longest free first. */
typedef struct free_size {
    size_t next, end; /* of filling.by_size */
} free_size;

typedef struct free_handle {
    const vw__paged_candidate *candidate;
    uint64_t size_bytes;
} free_handle;

/* A window while it is filled. A handle that cannot be moved cannot until the next survey. */
typedef struct filling {
    vw__paged_miss *request;
    const vw__paged_window *window;
    vw__block *near; /* what the last handle that moved left behind; or NULL */
    size_t look_count;
    free_handle *by_size; /* owned; NULL: free handles are looked at one by one */
    free_size *sizes;     /* owned */
    size_t size_count;
} filling;

static bool can_move(const filling *fill, const vw__paged_handle *handle)
{
    const vw__paged_engine *engine = fill->request->engine;
    return vw__paged_is_free(engine, handle) &&
           !vw__paged_is_inside(engine, fill->window, handle->home);
}

/* The one that suits best, the longest free among equals; NULL: none fits into the room. */
static vw__paged_handle *pick_by_looking(filling *fill, uint64_t missing_bytes, uint64_t room_bytes)
{
    const vw__paged_engine *engine = fill->request->engine;
    const vw__paged_candidate *best = NULL;
    uint64_t best_suits = 0;
    fill->look_count += engine->candidate_count;
    for (size_t i = 0; i < engine->candidate_count; i++) {
        const vw__paged_candidate *candidate = &engine->candidates[i];
        const vw__paged_handle *handle = candidate->handle;
        if (handle->size_bytes > room_bytes || !can_move(fill, handle))
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

/* The same, where free handles are in order. */
static vw__paged_handle *pick_by_size(const filling *fill, uint64_t missing_bytes,
                                      uint64_t room_bytes)
{
    vw__paged_handle *best = NULL;
    uint64_t best_suits = 0;
    for (size_t i = 0; i < fill->size_count; i++) {
        free_size *size = &fill->sizes[i];
        while (size->next < size->end &&
               !can_move(fill, fill->by_size[size->next].candidate->handle))
            size->next++;
        if (size->next == size->end || fill->by_size[size->next].size_bytes > room_bytes)
            continue;
        uint64_t suits = suitability(fill->by_size[size->next].size_bytes, missing_bytes);
        if (best == NULL || suits > best_suits) {
            best = fill->by_size[size->next].candidate->handle;
            best_suits = suits;
        }
    }
    return best;
}

static int compare_free(const void *left, const void *right)
{
    const free_handle *one = left, *other = right;
    if (one->size_bytes != other->size_bytes)
        return one->size_bytes < other->size_bytes ? -1 : 1;
    if (one->candidate->age != other->candidate->age)
        return one->candidate->age < other->candidate->age ? -1 : 1;
    return (one->candidate > other->candidate) - (one->candidate < other->candidate);
}

/* A window of thousands of pieces, to be filled by as many handles, would take looks that grow with
 * the square of it. Without host memory it does. */
static void put_in_order(filling *fill)
{
    const vw__paged_engine *engine = fill->request->engine;
    size_t count = engine->candidate_count;
    fill->look_count = 0;
    fill->by_size = vw__host_alloc_zeroed(count, sizeof *fill->by_size);
    fill->sizes = vw__host_alloc_zeroed(count, sizeof *fill->sizes);
    if (fill->by_size == NULL || fill->sizes == NULL) {
        vw__host_free(fill->by_size);
        vw__host_free(fill->sizes);
        fill->by_size = NULL;
        fill->sizes = NULL;
        return;
    }
    for (size_t i = 0; i < count; i++)
        fill->by_size[i] =
            (free_handle){&engine->candidates[i], engine->candidates[i].handle->size_bytes};
    qsort(fill->by_size, count, sizeof *fill->by_size, compare_free);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || fill->by_size[i].size_bytes != fill->by_size[i - 1].size_bytes)
            fill->sizes[fill->size_count++].next = i;
        fill->sizes[fill->size_count - 1].end = i + 1;
    }
}

static vw__paged_handle *pick_free_handle(filling *fill, uint64_t missing_bytes,
                                          uint64_t room_bytes)
{
    if (fill->by_size == NULL && fill->look_count > MOST_LOOKS)
        put_in_order(fill);
    return fill->by_size != NULL ? pick_by_size(fill, missing_bytes, room_bytes)
                                 : pick_by_looking(fill, missing_bytes, room_bytes);
}

/* Ghosts take nothing but addresses, and time to walk over. */
static vw_status limit_ghosts(vw__paged_engine *engine, vw__paged_handle *handle)
{
    if (handle->ghost_count <= MOST_GHOSTS &&
        engine->stats.retiring_bytes <= GHOST_FACTOR * engine->base.held_bytes)
        return VW_OK;
    vw__paged_place *oldest = handle->ghosts;
    while (oldest->next != NULL)
        oldest = oldest->next;
    vw_status status = vw__paged_drop_ghost(engine, oldest, false);
    return status == VW_ERR_NOT_READY ? VW_OK : status;
}

/* The walk to a handle's block begins where the survey found it, and what left that block since
 * lies between: it gets longer with each. Handles leave in the order of their addresses, as a rule,
 * so that the walk from the last one that left is short. */
static void stand_near(const filling *fill, vw__paged_handle *handle)
{
    const vw__block *block = handle->block;
    uint64_t address = handle->home->address;
    bool is_there = block->size_bytes != 0 && block->address <= address &&
                    address - block->address < block->size_bytes;
    if (!is_there && fill->near != NULL && fill->near->segment == handle->home->segment)
        handle->block = fill->near;
}

static vw_status move_free_handle(filling *fill, vw__block *unmapped, uint64_t address,
                                  uint64_t missing_bytes, uint64_t *got_bytes)
{
    vw__paged_engine *engine = fill->request->engine;
    uint64_t room_bytes = unmapped->address + unmapped->size_bytes - address;
    vw__paged_handle *handle = pick_free_handle(fill, missing_bytes, room_bytes);
    *got_bytes = 0;
    if (handle == NULL)
        return VW_OK;
    vw__paged_place *old_home = handle->home;
    stand_near(fill, handle);
    VW__TRY(vw__paged_move(engine, handle, unmapped, address));
    fill->near = old_home->block;
    handle->survey = 0;
    fill->request->operations++;
    *got_bytes = handle->size_bytes;
    return limit_ghosts(engine, handle);
}

/* The pool has to grow beyond its limit though it holds more than is live: its handles are too
 * large. Once per request. */
static void learn(vw__paged_miss *request)
{
    vw__paged_engine *engine = request->engine;
    if (request->was_forced || engine->base.held_bytes < engine->peak_live_bytes)
        return;
    request->was_forced = true;
    engine->fineness =
        engine->fineness * FINER_STEP < FINEST ? engine->fineness * FINER_STEP : FINEST;
}

static vw_status fill_piece(filling *fill, vw__block *unmapped, uint64_t address,
                            uint64_t missing_bytes, uint64_t *got_bytes)
{
    vw__paged_miss *request = fill->request;
    bool is_slow = request->operations > MOST_OPERATIONS && !request->keeps_limit;
    VW__TRY(grow_within(request, unmapped, address, handle_bytes(request, missing_bytes),
                        request->allowed_bytes, got_bytes));
    if (*got_bytes == 0 && !is_slow)
        VW__TRY(move_free_handle(fill, unmapped, address, missing_bytes, got_bytes));
    if (*got_bytes == 0 && !request->keeps_limit) {
        if (!is_slow)
            learn(request);
        VW__TRY(grow_within(request, unmapped, address, handle_bytes(request, missing_bytes),
                            UINT64_MAX, got_bytes));
    }
    if (*got_bytes == 0 && is_slow)
        VW__TRY(move_free_handle(fill, unmapped, address, missing_bytes, got_bytes));
    return *got_bytes != 0 ? VW_OK : VW_ERR_OUT_OF_MEMORY;
}

/* ---- filling a window ------------------------------------------------------------------------ */

/* Ghosts of handles in use: nobody needs them there any more (is_usable in paged_survey.c). */
static vw_status drop_ghosts(vw__paged_miss *request, const vw__paged_window *window,
                             vw__block **anchor)
{
    vw__paged_engine *engine = request->engine;
    uint64_t end = window->address + window->size_bytes;
    for (uint64_t at = window->address; at < end;) {
        vw__block *block = *anchor = vw__paged_walk_to(*anchor, at);
        at = block->address + block->size_bytes;
        if (block->state != VW__BLOCK_GHOST)
            continue;
        vw__paged_place *ghost = vw__paged_place_at(engine, block->segment, block->address);
        if (vw__paged_is_free(engine, ghost->handle))
            continue;
        VW__TRY(vw__paged_drop_ghost(engine, ghost, false));
        request->operations++;
    }
    return VW_OK;
}

/* Ghosts first: what fills the rest must not be taken from under them. */
static vw_status revive_ghosts(vw__paged_miss *request, const vw__paged_window *window,
                               vw__block **anchor)
{
    vw__paged_engine *engine = request->engine;
    uint64_t end = window->address + window->size_bytes;
    for (uint64_t at = window->address; at < end;) {
        vw__block *block = *anchor = vw__paged_walk_to(*anchor, at);
        at = block->address + block->size_bytes;
        if (block->state != VW__BLOCK_GHOST)
            continue;
        vw__paged_place *ghost = vw__paged_place_at(engine, block->segment, block->address);
        VW__TRY(vw__paged_revive(engine, ghost));
        ghost->handle->survey = 0;
        *anchor = ghost->handle->block;
    }
    return VW_OK;
}

/* Records change hands as blocks are cut and merged, but each step leaves one behind that is in the
 * list, so that the next address is found by walking from it. What a failure leaves is whole:
 * pieces filled so far are free memory. */
static vw_status fill_pieces(filling *fill, vw__block *block, vw__block **out)
{
    const vw__paged_engine *engine = fill->request->engine;
    const vw__paged_window *window = fill->window;
    uint64_t end = window->address + window->size_bytes;
    for (uint64_t at = window->address; at < end;) {
        block = vw__paged_walk_to(block, at);
        uint64_t block_end = block->address + block->size_bytes, got_bytes = 0;
        if (block->state != VW__BLOCK_UNMAPPED) {
            at = block_end;
            continue;
        }
        uint64_t from = vw__max_u64(block->address, vw__paged_unit_at(engine, window->segment, at));
        uint64_t missing_bytes = vw__paged_whole_units(engine, vw__min_u64(block_end, end) - from);
        VW__TRY(fill_piece(fill, block, from, missing_bytes, &got_bytes));
        block = vw__paged_place_at(engine, window->segment, from)->handle->block;
        at = from + got_bytes;
    }
    *out = vw__paged_walk_to(block, window->address);
    return VW_OK;
}

vw_status vw__paged_fill(vw__paged_miss *request, const vw__paged_window *window, vw__block **out)
{
    filling fill = {.request = request, .window = window};
    vw__block *block = window->first;
    VW__TRY(drop_ghosts(request, window, &block));
    VW__TRY(revive_ghosts(request, window, &block));
    vw_status status = fill_pieces(&fill, block, out);
    vw__host_free(fill.by_size);
    vw__host_free(fill.sizes);
    return status;
}
