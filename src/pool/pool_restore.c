/* pool_restore.c - a private pool as it was: for CUDA graphs that share one and run in turns.
 *
 * A graph writes to the addresses it was captured with, so when it is to run again, or the next one
 * is to be captured after it, the pool's blocks must lie as they lay then. All that is live is
 * freed, and the checkpoint's blocks are handed out again, front to back. PyTorch hands out its
 * free ones as well, and then gives those back: its traces and the peaks of its statistics show
 * that, so engine "torch" does it, too. Engine "vramwise", which grows by the peak of what was
 * live, does not.
 *
 * Nothing is changed before it is certain that all of it can be done: the memory of the checkpoint
 * is there, nobody waits for any of it, and every record that will be needed is at hand. (A private
 * pool in use gives no memory away in any engine, so that what the first check looks for happens
 * only to a caller who released the pool.) */
#include "pool/pool.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h> /* usleep */

#include "base/host_memory.h"
#include "engine/private_pools.h"

/* For frees of other threads to come to their end: recording an event takes a microsecond, but on a
 * busy machine the thread may not run for a while. About a second in all. */
enum { QUICK_ATTEMPTS = 100, QUICK_US = 100, MOST_ATTEMPTS = 1100, SLOW_US = 1000 };

/* ---- a state --------------------------------------------------------------------------------- */

/* A segment, or a mapped range of one, tiled by blocks. */
typedef struct state_range {
    vw_device_ptr address;
    uint64_t size_bytes;
    vw_stream stream;
    size_t block_count;
    bool is_large;
} state_range;

typedef struct state_block {
    uint64_t size_bytes;
    bool is_live;
} state_block;

struct vw_private_state {
    const vw_pool *pool; /* only compared */
    vw_private_id id;
    size_t range_count;
    size_t block_count;
    size_t live_count;
    size_t pending_count; /* none, once the state is complete */
    state_range *ranges;  /* owned, by rising address */
    state_block *blocks;  /* owned, those of the first range first */
};

/* Walks twice: to count, while there is no room yet, and to fill. */
static bool note_range(void *context, const vw_segment_info *segment)
{
    vw_private_state *state = context;
    if (!vw__private_id_same(segment->private_id, state->id))
        return true;
    if (state->ranges != NULL)
        state->ranges[state->range_count] = (state_range){
            .address = segment->address,
            .size_bytes = segment->total_bytes,
            .stream = segment->stream,
            .block_count = segment->block_count,
            .is_large = segment->is_large,
        };
    state->range_count++;
    return true;
}

static bool note_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    vw_private_state *state = context;
    if (!vw__private_id_same(segment->private_id, state->id))
        return true;
    bool is_live = block->state == VW_BLOCK_LIVE;
    if (state->blocks != NULL)
        state->blocks[state->block_count] = (state_block){block->size_bytes, is_live};
    state->block_count++;
    state->live_count += is_live;
    state->pending_count += block->state == VW_BLOCK_PENDING_FREE;
    return true;
}

static void walk_into(vw_pool *pool, vw_private_state *state)
{
    const vw_walker walker = {state, note_range, note_block};
    state->range_count = state->block_count = state->live_count = state->pending_count = 0;
    pool->engine->table->walk(pool->engine, &walker);
}

void vw_private_state_free(vw_private_state *state)
{
    if (state == NULL)
        return;
    vw__host_free(state->ranges);
    vw__host_free(state->blocks);
    vw__host_free(state);
}

/* ---- before either --------------------------------------------------------------------------- */

/* Frees that wait for other streams come to their end. `*now` is how things stand then, counted.
 * Under the lock, which is dropped where another thread is just recording the events of a free:
 * call it before looking at anything else. What a capture defers has no end that could be waited
 * for. */
static vw_status finish_frees(vw_pool *pool, vw_private_state *now)
{
    for (int attempt = 0;; attempt++) {
        walk_into(pool, now);
        if (now->pending_count == 0)
            return VW_OK;
        VW__TRY(vw__stream_order_finish(pool, &now->id)); /* leaves what a capture defers */
        walk_into(pool, now);
        if (now->pending_count == 0)
            return VW_OK;
        bool is_being_recorded = pool->order.recording_count > 0;
        if (!is_being_recorded || attempt == MOST_ATTEMPTS)
            return vw__fail(VW_ERR_WRONG_STATE,
                            "%zu freed blocks of private pool (%" PRIu64 ", %" PRIu64
                            ") wait for %s",
                            now->pending_count, now->id.first, now->id.second,
                            is_being_recorded ? "threads that are just freeing them"
                                              : "a stream that is being captured");
        vw__pool_unlock(pool);
        usleep(attempt < QUICK_ATTEMPTS ? QUICK_US : SLOW_US);
        vw__pool_lock(pool);
    }
}

static bool is_in_use(const vw_pool *pool, vw_private_id id)
{
    return vw__pool_use_count(pool, id) > 0;
}

/* ---- the checkpoint -------------------------------------------------------------------------- */

static vw_status take_state(vw_pool *pool, vw_private_state *state)
{
    VW__TRY(finish_frees(pool, state));
    if (!is_in_use(pool, state->id))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "private pool (%" PRIu64 ", %" PRIu64 ") is not in use", state->id.first,
                        state->id.second);
    size_t ranges = state->range_count + 1, blocks = state->block_count + 1; /* never of 0 bytes */
    state_range *range_room = vw__host_alloc_zeroed(ranges, sizeof *range_room);
    state_block *block_room = vw__host_alloc_zeroed(blocks, sizeof *block_room);
    state->ranges = range_room;
    state->blocks = block_room;
    if (range_room == NULL || block_room == NULL)
        return vw__fail_host_memory(ranges * sizeof *range_room + blocks * sizeof *block_room,
                                    "the state of a private pool");
    walk_into(pool, state);
    return VW_OK;
}

vw_status vw_private_pool_checkpoint(vw_pool *pool, vw_private_id id, vw_private_state **out)
{
    VW__TRY(vw__pool_enter(pool));
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no place for the state");
    vw_private_state *state = vw__host_alloc_zeroed(1, sizeof *state);
    if (state == NULL)
        return vw__fail_host_memory(sizeof *state, "the state of a private pool");
    state->pool = pool;
    state->id = id;
    vw__pool_lock(pool);
    vw_status status = take_state(pool, state);
    vw__pool_unlock(pool);
    if (status != VW_OK) {
        vw_private_state_free(state);
        return status;
    }
    *out = state;
    return VW_OK;
}

/* ---- can it be done? ------------------------------------------------------------------------- */

/* True if all of the range is still the pool's, for the same stream. */
static bool is_there(vw_pool *pool, const vw_private_state *state, const state_range *range)
{
    const vw__block *block = pool->engine->table->find(pool->engine, range->address);
    if (block == NULL || vw__block_stream(block) != range->stream ||
        !vw__private_id_same(vw__block_private_id(block), state->id) ||
        (vw__block_kind(block) == VW__ENGINE_LARGE) != range->is_large)
        return false;
    uint64_t end = range->address + range->size_bytes;
    while (block != NULL && block->address < end &&
           (block->state == VW__BLOCK_LIVE || block->state == VW__BLOCK_FREE)) {
        if (block->address + block->size_bytes >= end)
            return true;
        block = block->next;
    }
    return false;
}

/* The addresses that are live in the pool now. */
typedef struct live_list {
    vw_private_id id;
    vw_device_ptr *addresses; /* owned */
    size_t count;
} live_list;

static bool add_live(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    live_list *list = context;
    if (vw__private_id_same(segment->private_id, list->id) && block->state == VW_BLOCK_LIVE)
        list->addresses[list->count++] = block->address;
    return true;
}

static vw_status list_live(vw_pool *pool, size_t count, live_list *list)
{
    list->addresses = vw__host_alloc_zeroed(count + 1, sizeof *list->addresses);
    if (list->addresses == NULL)
        return vw__fail_host_memory((count + 1) * sizeof *list->addresses,
                                    "the live blocks of a private pool");
    const vw_walker walker = {list, NULL, add_live};
    pool->engine->table->walk(pool->engine, &walker);
    return VW_OK;
}

/* Every record that put_back() may take: a block and what is before and after it, for each. */
static vw_status see_to_room(vw_pool *pool, const vw_private_state *state)
{
    const vw__engine_table *table = pool->engine->table;
    if (table->see_to_records == NULL || table->hand_out_at == NULL)
        return vw__pool_unsupported(pool, "checkpoints of private pools");
    VW__TRY(table->see_to_records(pool->engine, 2 * state->block_count));
    if (!vw__block_map_reserve(&pool->live, state->block_count))
        return vw__fail_host_memory(state->block_count * sizeof(vw__block_map_place),
                                    "the addresses of a private pool");
    return VW_OK;
}

static vw_status make_sure(vw_pool *pool, const vw_private_state *state, live_list *live)
{
    vw_private_state now = {.pool = pool, .id = state->id};
    VW__TRY(finish_frees(pool, &now));
    if (!is_in_use(pool, state->id))
        return vw__fail(VW_ERR_WRONG_STATE,
                        "private pool (%" PRIu64 ", %" PRIu64 ") is not in use any more",
                        state->id.first, state->id.second);
    VW__TRY(see_to_room(pool, state));
    for (size_t i = 0; i < state->range_count; i++)
        if (!is_there(pool, state, &state->ranges[i]))
            return vw__fail(VW_ERR_WRONG_STATE,
                            "%" PRIu64 " bytes at %#" PRIx64 ", private pool (%" PRIu64 ", %" PRIu64
                            ")'s at the checkpoint, are not its own any more",
                            state->ranges[i].size_bytes, state->ranges[i].address, state->id.first,
                            state->id.second);
    VW__TRY(list_live(pool, now.live_count, live));
    for (size_t i = 0; i < live->count; i++)
        VW__TRY(vw__stream_order_wait_for_uses(pool,
                                               vw__block_map_get(&pool->live, live->addresses[i])));
    return VW_OK;
}

/* ---- doing it -------------------------------------------------------------------------------- */

static void take_back(vw_pool *pool, vw_device_ptr address)
{
    vw__block *block = vw__block_map_remove(&pool->live, address);
    vw__stream_order_forget_uses(pool, block);
    (void)vw__pool_take_back(pool, block); /* without uses it cannot fail */
}

/* Everything of the range is free. */
static void put_back(vw_pool *pool, const state_range *range, const state_block *blocks,
                     uint64_t tag)
{
    vw__engine *engine = pool->engine;
    vw__block *block = engine->table->find(engine, range->address); /* holds all that is missing */
    uint64_t address = range->address;
    for (size_t i = 0; i < range->block_count; address += blocks[i++].size_bytes) {
        if (!blocks[i].is_live && !engine->table->restores_free_blocks)
            continue;
        block = engine->table->hand_out_at(engine, block, address, blocks[i].size_bytes, tag);
        vw__pool_file_block(pool, block);
        block = block->next;
    }
    if (!engine->table->restores_free_blocks)
        return;
    address = range->address;
    for (size_t i = 0; i < range->block_count; address += blocks[i++].size_bytes)
        if (!blocks[i].is_live)
            take_back(pool, address);
}

static void restore(vw_pool *pool, const vw_private_state *state, const live_list *live,
                    uint64_t tag)
{
    const state_block *blocks = state->blocks;
    for (size_t i = 0; i < live->count; i++)
        take_back(pool, live->addresses[i]);
    for (size_t i = 0; i < state->range_count; blocks += state->ranges[i].block_count, i++)
        put_back(pool, &state->ranges[i], blocks, tag);
}

static void tell(const vw_restore_listener *listener, const vw_private_state *state,
                 const live_list *live)
{
    const state_block *block = state->blocks;
    for (size_t i = 0; listener->freed != NULL && i < live->count; i++)
        listener->freed(listener->context, live->addresses[i]);
    for (size_t i = 0; listener->allocated != NULL && i < state->range_count; i++) {
        vw_device_ptr address = state->ranges[i].address;
        for (size_t k = 0; k < state->ranges[i].block_count; k++, address += block++->size_bytes)
            if (block->is_live)
                listener->allocated(listener->context, address);
    }
}

VW__POOL_NAMED_CALL vw_status vw_private_pool_restore(vw_pool *pool, const vw_private_state *state,
                                                      const vw_restore_listener *listener)
{
    VW__TRY(vw__pool_enter(pool));
    if (state == NULL || state->pool != pool)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a state that was taken of this pool");
    live_list live = {.id = state->id};
    vw__pool_lock(pool);
    vw_status status = make_sure(pool, state, &live);
    if (status == VW_OK) {
        vw__pool_begin_request(pool, __builtin_return_address(0));
        restore(pool, state, &live, listener != NULL ? listener->tag : 0);
        vw__pool_end_cause(pool);
    }
    vw__pool_unlock(pool);
    if (status == VW_OK && listener != NULL)
        tell(listener, state, &live);
    vw__host_free(live.addresses);
    return status;
}
