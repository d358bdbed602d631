/* torch_engine.c - a request from rounding to hand-out, and its way back.
 *
 * The order of an allocation, each step only if those before it found nothing:
 *   1. best fit among the free blocks of the request's shelf and stream
 *   2. the program's own reclaim callback, then 1 again
 *   3. garbage collection, where it is on and the limit is near
 *   4. a new segment, or growth of the expandable one
 *   5. the free blocks of private pools marked use_on_oom (in some releases after 7)
 *   6. giving oversize blocks back (max_split_size is set), then 4
 *   7. giving everything idle back, then 4: the "retry" that is counted
 * What is found is split if the rules say so, low part first, and handed out.
 *
 * The way back merges with both neighbours at once. It takes no memory and calls no driver.
 *
 * Driver calls happen under the pool's lock, except taking a plain segment with
 * release_lock_on_cudamalloc: whether a search fits depends on everything that happened before it,
 * so the order of segments is the order of requests, and a second thread would only ask for the
 * same memory again. */
#include "engine/torch/torch_engine.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/inspect.h" /* hr__engine_find */
#include "engine/torch/torch_rounding.h"

/* ---- small things shared by the engine's files ----------------------------------------------- */

uint32_t hr__torch_block_tie_break(hr__torch_engine *engine, const hr__segment *segment)
{
    if (engine->rules.tie_break == HR__TORCH_TIE_BLOCK_COUNTER)
        return ++engine->tie_breaks;
    return segment->tie_break;
}

static uint32_t segment_tie_break(hr__torch_engine *engine)
{
    return engine->rules.tie_break == HR__TORCH_TIE_ADDRESS ? 0 : ++engine->tie_breaks;
}

hr__segment *hr__torch_add_segment(hr__torch_engine *engine, hr__lane *lane, uint64_t address,
                                   uint64_t size_bytes, bool is_expandable)
{
    return hr__engine_add_segment(&engine->base, lane, address, size_bytes,
                                  is_expandable ? HR__NATURE_EXPANDABLE : 0,
                                  segment_tie_break(engine));
}

void hr__torch_drop_segment(hr__torch_engine *engine, hr__segment *segment)
{
    if (hr__segment_is_expandable(segment))
        engine->expandable_segments--;
    hr__host_free(segment->pages);
    hr__host_free(segment->page_is_mapped);
    hr__engine_drop_segment(&engine->base, segment);
}

typedef struct merged {
    int64_t blocks;
    int64_t bytes;
} merged;

/* Previous first, then next, as PyTorch: `block` is the record that survives. */
HR__INLINE merged settle_free(hr__torch_engine *engine, hr__lane *lane, hr__block *block)
{
    hr__block_source *records = &engine->base.records;
    hr__block *previous = block->previous, *next = block->next;
    bool joins_previous = previous != NULL && previous->state == HR__BLOCK_FREE;
    bool joins_next = next != NULL && next->state == HR__BLOCK_FREE;
    merged sum = {joins_previous + joins_next, 0};
    if (joins_previous) {
        sum.bytes += (int64_t)previous->size_bytes;
        hr__block_absorb_previous(block);
    }
    if (joins_next) {
        sum.bytes += (int64_t)next->size_bytes;
        hr__block_absorb_next(block);
        if (joins_previous) {
            hr__lane_remove(lane, previous);
            hr__block_give_back(records, previous);
        }
        hr__lane_replace(lane, next, block);
        hr__block_give_back(records, next);
    } else if (joins_previous) {
        hr__lane_replace(lane, previous, block);
        hr__block_give_back(records, previous);
    } else {
        hr__lane_insert(lane, block);
    }
    return sum;
}

void hr__torch_settle_free(hr__torch_engine *engine, hr__lane *lane, hr__block *block)
{
    settle_free(engine, lane, block);
}

void hr__torch_settle_unmapped(hr__torch_engine *engine, hr__lane *lane, hr__block *block)
{
    hr__block *previous = block->previous, *next = block->next;
    if (previous != NULL && previous->state == HR__BLOCK_UNMAPPED) {
        hr__lane_remove_unmapped(lane, previous);
        hr__block_absorb_previous(block);
        hr__block_give_back(&engine->base.records, previous);
    }
    if (next != NULL && next->state == HR__BLOCK_UNMAPPED) {
        hr__lane_remove_unmapped(lane, next);
        hr__block_absorb_next(block);
        hr__block_give_back(&engine->base.records, next);
    }
    hr__lane_insert_unmapped(lane, block);
}

/* ---- step 1: best fit ------------------------------------------------------------------------ */

/* What a block could grow to: the tail of an expandable segment is worth keeping for large blocks.
 */
static uint64_t growable_bytes(const hr__block *block)
{
    const hr__block *next = block->next;
    return block->size_bytes +
           (next != NULL && next->state == HR__BLOCK_UNMAPPED ? next->size_bytes : 0);
}

/* With expandable blocks about, the first fit is not always the one. */
static __attribute__((noinline)) hr__block *settle_on_block(const hr__search *search,
                                                            hr__block *block)
{
    const hr__free_index *index = &search->lane->free;
    if (!hr__block_is_expandable(block))
        return block;
    if (search->is_expandable) {
        for (;;) {
            hr__block *next = hr__free_index_after(index, block);
            if (next == NULL || !hr__block_is_expandable(block) ||
                growable_bytes(next) >= growable_bytes(block))
                return block;
            block = next;
        }
    }
    do /* the setting was switched off since: plain segments only */
        block = hr__free_index_after(index, block);
    while (block != NULL && hr__block_is_expandable(block));
    return block;
}

/* Still in the index; NULL: no fit. */
HR__INLINE hr__block *find_free_block(hr__torch_engine *engine, const hr__search *search)
{
    if (engine->counts_ages)
        search->shelf->clock++;
    if (search->lane == NULL)
        return NULL;
    hr__block *block = hr__free_index_best_fit(&search->lane->free, search->size_bytes);
    if (block != NULL && engine->expandable_segments != 0)
        block = settle_on_block(search, block);
    if (block == NULL)
        return NULL;
    uint64_t max_split_bytes = engine->base.max_split_bytes;
    if (search->size_bytes < max_split_bytes) {
        if (block->size_bytes >= max_split_bytes)
            return NULL; /* oversize blocks are for oversize requests */
    } else if (block->size_bytes >=
               search->size_bytes + engine->settings.max_non_split_rounding_bytes) {
        return NULL; /* and not for much smaller ones */
    }
    return block;
}

/* ---- step 4: a new segment ------------------------------------------------------------------- */

static hr_status take_from_source(hr__torch_engine *engine, const hr__search *search,
                                  hr_device_ptr *out)
{
    const hr__engine_owner *owner = &engine->base.owner;
    const hr__private_pool *pool = search->shelf->private_pool;
    if (pool != NULL && pool->source.take != NULL) {
        hr_device_ptr address =
            pool->source.take(pool->source.source_context, search->segment_bytes,
                              owner->device->properties.index, search->stream);
        if (address == HR_NULL)
            return hr__fail(HR_ERR_OUT_OF_MEMORY, "the private pool's source has no room");
        *out = address;
        return HR_OK;
    }
    if (!engine->settings.release_lock_on_device_malloc)
        return hr__driver_take(owner, search->segment_bytes, out);
    const hr__request *serving = engine->base.serving;
    engine->base.serving = NULL; /* others are served meanwhile */
    hr__cause cause = owner->pause_lock(owner->context);
    hr_status status = hr__driver_take(owner, search->segment_bytes, out);
    owner->resume_lock(owner->context, cause);
    engine->base.serving = serving;
    return status;
}

static void give_back_to_source(hr__torch_engine *engine, const hr__search *search,
                                hr_device_ptr address)
{
    const hr__engine_owner *owner = &engine->base.owner;
    const hr__private_pool *pool = search->shelf->private_pool;
    if (pool != NULL && pool->source.take != NULL)
        pool->source.give_back(pool->source.source_context, address, search->segment_bytes,
                               owner->device->properties.index, search->stream);
    else
        (void)hr__driver_give_back(owner, address);
}

static hr_status take_plain_segment(hr__torch_engine *engine, const hr__search *search,
                                    hr__block **out)
{
    hr_device_ptr address;
    HR__TRY(take_from_source(engine, search, &address));
    hr__segment *segment =
        hr__torch_add_segment(engine, search->lane, address, search->segment_bytes, false);
    if (segment == NULL) {
        give_back_to_source(engine, search, address);
        return hr__fail_host_memory(sizeof *segment, "a segment record");
    }
    hr__counters *counters = engine->base.owner.counters;
    hr__size_kind kind = search->shelf->kind;
    hr__engine_count_held(&engine->base, search->shelf, (int64_t)search->segment_bytes);
    hr__count_up(&counters->segment, kind, 1);
    if (search->segment_bytes >= engine->base.max_split_bytes)
        hr__count_up(&counters->oversize_segments, HR__LARGE, 1);
    counters->num_device_alloc++;
    segment->first->segment_tag = engine->base.serving->tag;
    hr__engine_notice(&engine->base, HR_ACTION_SEGMENT_ALLOC, search->lane, address,
                      search->segment_bytes, engine->base.serving->tag);
    hr__lane_insert(search->lane, segment->first);
    *out = segment->first;
    return HR_OK;
}

static hr_status take_new_block(hr__torch_engine *engine, hr__search *search, bool is_retry,
                                hr__block **out)
{
    hr__counters *counters = engine->base.owner.counters;
    if (is_retry)
        counters->num_alloc_retries++;
    /* The whole segment size counts here, also where an expandable one would grow by less. */
    uint64_t wanted_bytes = engine->base.held_bytes + search->segment_bytes;
    if (wanted_bytes > engine->base.limit_bytes)
        return HR_ERR_OUT_OF_MEMORY;
    if (engine->settings.throw_on_device_oom) {
        uint64_t total_bytes = engine->base.owner.device->properties.total_bytes;
        double most = engine->settings.per_process_memory_fraction * (double)total_bytes;
        if (wanted_bytes > (uint64_t)most) {
            counters->num_oom_rejections++;
            return HR_ERR_REJECTED;
        }
    }
    if (search->lane == NULL) {
        search->lane = hr__shelf_add_lane(search->shelf, search->stream);
        if (search->lane == NULL)
            return hr__fail_host_memory(sizeof *search->lane, "a stream's free blocks");
    }
    return search->is_expandable ? hr__torch_grow_expandable(engine, search, out)
                                 : take_plain_segment(engine, search, out);
}

/* ---- step 5: pools that serve others rather than let them fail ------------------------------- */

static hr__block *take_from_private_pools(hr__torch_engine *engine, hr__search *search)
{
    if (search->shelf->private_pool != NULL)
        return NULL;
    for (hr__private_pool *pool = engine->base.private_pools; pool != NULL; pool = pool->next) {
        if (!pool->use_on_oom)
            continue;
        hr__search elsewhere = *search;
        elsewhere.shelf = &pool->shelves[search->shelf->kind];
        elsewhere.lane = hr__shelf_lane(elsewhere.shelf, search->stream);
        elsewhere.is_expandable = false;
        hr__block *block = find_free_block(engine, &elsewhere);
        if (block != NULL) {
            *search = elsewhere; /* the block stays the private pool's */
            return block;
        }
    }
    return NULL;
}

/* ---- steps 2 to 7 ---------------------------------------------------------------------------- */

static bool reclaim(hr__torch_engine *engine)
{
    const hr__request *serving = engine->base.serving;
    engine->base.serving = NULL; /* the lock is dropped: others are served meanwhile */
    bool is_worth_while = engine->base.owner.reclaim(engine->base.owner.context);
    engine->base.serving = serving;
    return is_worth_while;
}

static hr_status find_block_the_hard_way(hr__torch_engine *engine, hr__search *search,
                                         hr__block **out)
{
    if (reclaim(engine)) {
        search->lane = hr__shelf_lane(search->shelf, search->stream);
        *out = find_free_block(engine, search);
        if (*out != NULL)
            return HR_OK;
    }
    if (engine->counts_ages)
        HR__TRY(hr__torch_collect_garbage(engine));

    hr_status status = take_new_block(engine, search, false, out);
    if (status != HR_ERR_OUT_OF_MEMORY)
        return status;
    if (engine->rules.use_on_oom == HR__TORCH_USE_ON_OOM_BEFORE_RELEASE) {
        *out = take_from_private_pools(engine, search);
        if (*out != NULL)
            return HR_OK;
    }
    bool is_enough = false;
    HR__TRY(hr__torch_release_available(engine, search, &is_enough));
    if (is_enough) {
        status = take_new_block(engine, search, false, out);
        if (status != HR_ERR_OUT_OF_MEMORY)
            return status;
    }
    if (!hr__engine_is_capturing(&engine->base, search->stream)) {
        HR__TRY(hr__torch_trim(engine, NULL));
        status = take_new_block(engine, search, true, out);
        if (status != HR_ERR_OUT_OF_MEMORY)
            return status;
    }
    if (engine->rules.use_on_oom == HR__TORCH_USE_ON_OOM_AFTER_RELEASE) {
        *out = take_from_private_pools(engine, search);
        if (*out != NULL)
            return HR_OK;
    }
    return HR_ERR_OUT_OF_MEMORY;
}

/* ---- hand-out -------------------------------------------------------------------------------- */

HR__INLINE bool should_split(const hr__torch_engine *engine, const hr__search *search,
                             const hr__block *block)
{
    uint64_t rest_bytes = block->size_bytes - search->size_bytes;
    const hr__private_pool *pool = search->shelf->private_pool;
    if (pool != NULL && pool->no_split)
        return false;
    return hr__torch_splits_off(search->shelf->kind == HR__SMALL, search->is_expandable,
                                search->size_bytes, engine->base.max_split_bytes, rest_bytes);
}

/* Takes the block to hand out off a free block: its low part, or all of it. */
HR__INLINE hr__block *carve(hr__torch_engine *engine, const hr__search *search, hr__block *block,
                            bool is_splitting)
{
    hr__counters *counters = engine->base.owner.counters;
    hr__size_kind kind = search->shelf->kind;
    bool was_split = hr__block_is_split(block);
    bool is_counted = !hr__block_is_expandable(block);
    if (!is_splitting) {
        if (was_split && is_counted) {
            hr__count_down(&counters->inactive_split, kind, 1);
            hr__count_down(&counters->inactive_split_bytes, kind, (int64_t)block->size_bytes);
        }
        hr__lane_remove(search->lane, block);
        return block;
    }
    hr__block *low =
        hr__block_make(&engine->base.records, block->segment, block->address, search->size_bytes,
                       hr__torch_block_tie_break(engine, block->segment));
    hr__block_link_before(low, block);
    hr__lane_shrink(search->lane, block, search->size_bytes);
    if (is_counted) {
        if (was_split) {
            hr__count_down(&counters->inactive_split_bytes, kind, (int64_t)search->size_bytes);
        } else {
            hr__count_up(&counters->inactive_split, kind, 1);
            hr__count_up(&counters->inactive_split_bytes, kind, (int64_t)block->size_bytes);
        }
    }
    return low;
}

HR__INLINE hr__block *hand_out(hr__torch_engine *engine, const hr__search *search,
                               const hr__request *request, hr__block *block, bool is_splitting)
{
    block = carve(engine, search, block, is_splitting);
    block->state = HR__BLOCK_LIVE;
    block->requested_bytes = request->size_bytes;
    block->tag = request->tag;
    return block;
}

HR__INLINE hr_status begin_search(hr__torch_engine *engine, const hr__request *request,
                                  hr__search *search)
{
    search->stream = request->stream;
    search->size_bytes = hr__torch_round_size(&engine->settings, request->size_bytes);
    if (__builtin_expect(search->size_bytes == 0, 0))
        return HR_ERR_BAD_SETTING; /* hr_last_error() says why */
    hr__size_kind kind = hr__torch_is_small(search->size_bytes) ? HR__SMALL : HR__LARGE;
    search->shelf = engine->base.scopes == NULL
                        ? &engine->base.shelves[kind]
                        : hr__engine_route(&engine->base, request->stream, kind);
    search->lane = hr__shelf_lane(search->shelf, request->stream);
    search->is_expandable = engine->is_expandable;
    const hr__private_pool *pool = search->shelf->private_pool;
    if (pool != NULL && pool->source.take != NULL && engine->rules.custom_pools_ignore_expandable)
        search->is_expandable = false;
    return HR_OK;
}

/* The lock may be dropped on the way (reclaim, release_lock_on_cudamalloc), so the private pool is
 * held on to, and the record for the split is seen to again. The search comes by value: the hit
 * path then keeps its own in registers. */
static __attribute__((noinline)) hr_status serve_a_miss(hr__torch_engine *engine,
                                                        const hr__request *request,
                                                        hr__search search, hr__block **out,
                                                        hr__refusal *refusal)
{
    hr__private_pool *pool = search.shelf->private_pool;
    hr__block *block = NULL;
    search.segment_bytes = hr__torch_segment_size(&engine->settings, search.size_bytes);
    if (pool != NULL)
        pool->requests_in_progress++;
    engine->base.serving = request;
    hr_status status = find_block_the_hard_way(engine, &search, &block);
    engine->base.serving = NULL;
    if (pool != NULL)
        pool->requests_in_progress--;
    if (status != HR_OK) {
        refusal->rounded_bytes = search.size_bytes;
        refusal->segment_bytes = search.segment_bytes;
        refusal->private_id = search.shelf->private_id;
        refusal->is_expandable = engine->is_expandable;
        return status;
    }
    if (!hr__block_source_reserve(&engine->base.records, 1))
        return hr__fail_host_memory(sizeof(hr__block), "block records"); /* it stays free */
    *out = hand_out(engine, &search, request, block, should_split(engine, &search, block));
    return HR_OK;
}

hr_status hr__torch_allocate(hr__engine *base, const hr__request *request, hr__block **out,
                             hr__refusal *refusal)
{
    hr__torch_engine *engine = hr__torch_of(base);
    hr__search search;
    HR__TRY(begin_search(engine, request, &search));
    hr__block *block = find_free_block(engine, &search);
    if (__builtin_expect(block == NULL, 0))
        return serve_a_miss(engine, request, search, out, refusal);
    *out = hand_out(engine, &search, request, block, should_split(engine, &search, block));
    return HR_OK;
}

/* ---- the way back ---------------------------------------------------------------------------- */

void hr__torch_free(hr__engine *base, hr__block *block)
{
    hr__torch_engine *engine = hr__torch_of(base);
    hr__lane *lane = hr__block_lane(block);
    block->tag = 0;
    merged change = settle_free(engine, lane, block);
    if (!hr__block_is_expandable(block)) {
        hr__counters *counters = base->owner.counters;
        if (hr__block_is_split(block)) {
            change.blocks--;
            change.bytes -= (int64_t)block->size_bytes;
        }
        hr__count_by(&counters->inactive_split, lane->shelf->kind, -change.blocks);
        hr__count_by(&counters->inactive_split_bytes, lane->shelf->kind, -change.bytes);
    }
}

/* ---- an exact address ------------------------------------------------------------------------ */

/* The part of a free block before the address is handed out first, so that the block at the address
 * is carved by the usual rules; the owner frees it again. */
hr_status hr__torch_allocate_at(hr__engine *base, const hr__request *request, hr_device_ptr address,
                                hr__block **prefix, hr__block **out)
{
    hr__torch_engine *engine = hr__torch_of(base);
    hr__search search;
    HR__TRY(begin_search(engine, request, &search));
    hr__block *block = hr__engine_find(base, address);
    if (block == NULL || block->state != HR__BLOCK_FREE || hr__block_lane(block) != search.lane ||
        block->address + block->size_bytes - address < search.size_bytes)
        return hr__fail(HR_ERR_OUT_OF_MEMORY,
                        "Could not allocate CUDA storage at exact address %#" PRIx64, address);
    *prefix = NULL;
    if (block->address < address) {
        hr__search before = search;
        before.size_bytes = address - block->address;
        const hr__request fake = {before.size_bytes, request->stream, request->tag};
        *prefix = hand_out(engine, &before, &fake, block, true);
    }
    *out = hand_out(engine, &search, request, block, should_split(engine, &search, block));
    return HR_OK;
}

/* ---- a block of a checkpoint ----------------------------------------------------------------- */

/* What the block has before the address becomes a free block of its own. A plain segment is always
 * handed out from its beginning on, so that this is about expandable ones, whose free parts
 * inactive_split does not count. */
static void part_before(hr__torch_engine *engine, hr__lane *lane, hr__block *block,
                        uint64_t address)
{
    uint64_t before_bytes = address - block->address;
    hr__block *before =
        hr__block_make(&engine->base.records, block->segment, block->address, before_bytes,
                       hr__torch_block_tie_break(engine, block->segment));
    before->segment_tag = block->segment_tag;
    hr__block_link_before(before, block);
    hr__lane_shrink(lane, block, before_bytes);
    hr__lane_insert(lane, before);
}

hr__block *hr__torch_hand_out_at(hr__engine *base, hr__block *block, hr_device_ptr address,
                                 uint64_t size_bytes, uint64_t tag)
{
    hr__torch_engine *engine = hr__torch_of(base);
    hr__lane *lane = hr__block_lane(block);
    const hr__request request = {size_bytes, lane->stream, tag};
    const hr__search search = {
        .shelf = lane->shelf, .lane = lane, .stream = lane->stream, .size_bytes = size_bytes};
    if (block->address < address)
        part_before(engine, lane, block, address);
    return hand_out(engine, &search, &request, block, block->size_bytes > size_bytes);
}
