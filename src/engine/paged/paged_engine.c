/* paged_engine.c - a request from rounding to hand-out, and its way back.
 *
 * A hit is best fit among the free blocks of the request's lane, lowest address among equals, and
 * the low part is handed out. It calls no driver and looks at no handle: which handles are free is
 * found out when somebody wants to know (paged_survey.c), so that a hit costs what it costs in
 * engine/torch. The way back merges with both neighbours at once. */
#include "engine/paged/paged_engine.h"

#include <inttypes.h>

#include "base/error.h"
#include "engine/paged/paged_spill.h"
#include "engine/torch/torch_rounding.h"

/* ---- hits ------------------------------------------------------------------------------------ */

HR__INLINE uint64_t round_size(uint64_t requested_bytes)
{
    return (requested_bytes + HR__TORCH_MIN_BLOCK_BYTES - 1) & ~(HR__TORCH_MIN_BLOCK_BYTES - 1);
}

/* The low part of a free block, or all of it; what is left stays free, as old as it was. */
HR__INLINE hr__block *hand_out(hr__paged_engine *engine, hr__lane *lane, const hr__request *request,
                               uint64_t size_bytes, hr__block *block, bool is_splitting)
{
    if (is_splitting) {
        hr__block *low =
            hr__block_make(&engine->base.records, block->segment, block->address, size_bytes, 0);
        hr__block_link_before(low, block);
        hr__free_index_shrink(&lane->free, block, size_bytes);
        block = low;
    } else {
        hr__free_index_remove(&lane->free, block);
    }
    block->state = HR__BLOCK_LIVE;
    block->requested_bytes = request->size_bytes;
    block->tag = request->tag;
    block->age_base = engine->clock;
    return block;
}

HR__INLINE bool should_split(const hr__shelf *shelf, const hr__block *block, uint64_t size_bytes)
{
    return block->size_bytes != size_bytes &&
           !(shelf->private_pool != NULL && shelf->private_pool->no_split);
}

/* ---- misses ---------------------------------------------------------------------------------- */

HR__INLINE hr__block *find_hit(const hr__lane *lane, uint64_t size_bytes)
{
    return lane != NULL ? hr__free_index_best_fit(&lane->free, size_bytes) : NULL;
}

/* The lock may be dropped on the way (the reclaim callback, the safe point), so the private pool is
 * held on to and the record for the split is seen to again. */
static __attribute__((noinline)) hr_status serve_a_miss(hr__paged_engine *engine, hr__shelf *shelf,
                                                        const hr__request *request,
                                                        uint64_t size_bytes, hr__block **out,
                                                        hr__refusal *refusal)
{
    hr__private_pool *pool = shelf->private_pool;
    hr__block *block = NULL;
    hr_status status = HR_OK;
    if (pool != NULL)
        pool->requests_in_progress++;
    if (engine->base.owner.reclaim(engine->base.owner.context))
        block = find_hit(hr__shelf_lane(shelf, request->stream), size_bytes);
    if (engine->failure != NULL) { /* another request's doing, meanwhile */
        status = hr__fail(HR_ERR_DEVICE, "%s", engine->failure);
    } else if (block == NULL) {
        engine->base.serving = request;
        hr__lane *lane = hr__shelf_add_lane(shelf, request->stream);
        status = lane != NULL ? hr__paged_serve_miss(engine, lane, size_bytes, &block)
                              : hr__fail_host_memory(sizeof *lane, "a stream's free blocks");
        engine->base.serving = NULL;
    }
    if (pool != NULL)
        pool->requests_in_progress--;
    if (status == HR_OK && !hr__block_source_reserve(&engine->base.records, 1))
        status = hr__fail_host_memory(sizeof(hr__block), "block records"); /* it stays free */
    if (status != HR_OK) {
        refusal->rounded_bytes = size_bytes;
        refusal->segment_bytes = size_bytes;
        refusal->private_id = shelf->private_id;
        refusal->is_expandable = true;
        return status;
    }
    *out = hand_out(engine, hr__block_lane(block), request, size_bytes, block,
                    should_split(shelf, block, size_bytes));
    return HR_OK;
}

HR__INLINE hr__shelf *shelf_for(hr__paged_engine *engine, const hr__request *request,
                                uint64_t size_bytes)
{
    hr__size_kind kind = hr__torch_is_small(size_bytes) ? HR__SMALL : HR__LARGE;
    return engine->base.scopes == NULL ? &engine->base.shelves[kind]
                                       : hr__engine_route(&engine->base, request->stream, kind);
}

hr_status hr__paged_allocate(hr__engine *base, const hr__request *request, hr__block **out,
                             hr__refusal *refusal)
{
    hr__paged_engine *engine = hr__paged_of(base);
    uint64_t size_bytes = round_size(request->size_bytes);
    hr__shelf *shelf = shelf_for(engine, request, size_bytes);
    hr__lane *lane = hr__shelf_lane(shelf, request->stream);
    hr__block *block = find_hit(lane, size_bytes);
    engine->clock++;
    if (__builtin_expect(block == NULL, 0))
        return serve_a_miss(engine, shelf, request, size_bytes, out, refusal);
    *out =
        hand_out(engine, lane, request, size_bytes, block, should_split(shelf, block, size_bytes));
    return HR_OK;
}

/* ---- the way back ---------------------------------------------------------------------------- */

HR__INLINE void settle_free(hr__paged_engine *engine, hr__lane *lane, hr__block *block, int64_t age)
{
    hr__block_source *records = &engine->base.records;
    hr__block *previous = block->previous, *next = block->next;
    bool joins_previous = previous != NULL && previous->state == HR__BLOCK_FREE;
    bool joins_next = next != NULL && next->state == HR__BLOCK_FREE;
    block->state = HR__BLOCK_FREE;
    block->age_base = age;
    if (joins_previous)
        hr__block_absorb_previous(block);
    if (joins_next) {
        hr__block_absorb_next(block);
        if (joins_previous) {
            hr__free_index_remove(&lane->free, previous);
            hr__block_give_back(records, previous);
        }
        hr__free_index_replace(&lane->free, next, block);
        hr__block_give_back(records, next);
    } else if (joins_previous) {
        hr__free_index_replace(&lane->free, previous, block);
        hr__block_give_back(records, previous);
    } else {
        hr__free_index_insert(&lane->free, block);
    }
}

void hr__paged_settle_free(hr__paged_engine *engine, hr__block *block, int64_t age)
{
    settle_free(engine, hr__block_lane(block), block, age);
}

void hr__paged_free_part(hr__paged_engine *engine, hr__block *block)
{
    if (engine->stats.shared_pages == 0 || !hr__paged_free_in_guests(engine, block))
        settle_free(engine, hr__block_lane(block), block, engine->clock);
}

static __attribute__((noinline)) void free_watched(hr__paged_engine *engine, hr__block *block)
{
    hr__paged_note_free(engine, block);
    if (!hr__paged_free_on_host(engine, block))
        hr__paged_free_part(engine, block);
    hr__paged_look_for_room(engine);
}

void hr__paged_free(hr__engine *base, hr__block *block)
{
    hr__paged_engine *engine = hr__paged_of(base);
    block->tag = 0;
    if (__builtin_expect(engine->watched_frees != 0, 0)) {
        free_watched(engine, block);
        return;
    }
    settle_free(engine, hr__block_lane(block), block, engine->clock);
}

/* ---- an exact address ------------------------------------------------------------------------ */

hr_status hr__paged_allocate_at(hr__engine *base, const hr__request *request, hr_device_ptr address,
                                hr__block **prefix, hr__block **out)
{
    hr__paged_engine *engine = hr__paged_of(base);
    uint64_t size_bytes = round_size(request->size_bytes);
    hr__shelf *shelf = shelf_for(engine, request, size_bytes);
    hr__lane *lane = hr__shelf_lane(shelf, request->stream);
    hr__block *block = hr__engine_find(base, address);
    if (block == NULL || block->state != HR__BLOCK_FREE || hr__block_lane(block) != lane ||
        block->address + block->size_bytes - address < size_bytes)
        return hr__fail(HR_ERR_OUT_OF_MEMORY,
                        "Could not allocate CUDA storage at exact address %#" PRIx64, address);
    *prefix = NULL;
    if (block->address < address) {
        const hr__request fake = {address - block->address, request->stream, request->tag};
        *prefix = hand_out(engine, lane, &fake, fake.size_bytes, block, true);
    }
    *out =
        hand_out(engine, lane, request, size_bytes, block, should_split(shelf, block, size_bytes));
    return HR_OK;
}

/* A block of a checkpoint: what its free block has before and after it stays free. */
hr__block *hr__paged_hand_out_at(hr__engine *base, hr__block *block, hr_device_ptr address,
                                 uint64_t size_bytes, uint64_t tag)
{
    hr__paged_cut_out(hr__paged_of(base), block, address, size_bytes);
    block->state = HR__BLOCK_LIVE;
    block->requested_bytes = size_bytes;
    block->tag = tag;
    block->age_base = hr__paged_of(base)->clock;
    return block;
}
