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

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/inspect.h" /* vw__engine_find_free_at */
#include "engine/torch/torch_rounding.h"

/* ---- small things shared by the engine's files ----------------------------------------------- */

uint32_t vw__torch_block_tie_break(vw__torch_engine *engine, const vw__segment *segment)
{
    if (engine->conf.rules.tie_break == VW__TORCH_TIE_BLOCK_COUNTER)
        return ++engine->tie_breaks;
    return segment->tie_break;
}

static uint32_t segment_tie_break(vw__torch_engine *engine)
{
    return engine->conf.rules.tie_break == VW__TORCH_TIE_ADDRESS ? 0 : ++engine->tie_breaks;
}

vw__segment *vw__torch_add_expandable(vw__torch_engine *engine, vw__lane *lane, uint64_t address,
                                      uint64_t size_bytes)
{
    return vw__engine_add_segment(&engine->base, lane, address, size_bytes,
                                  VW__BLOCK_NATURE_EXPANDABLE, segment_tie_break(engine));
}

void vw__torch_drop_segment(vw__torch_engine *engine, vw__segment *segment)
{
    if (vw__segment_is_expandable(segment))
        engine->expandable_segments--;
    vw__host_free(segment->detail);
    vw__engine_drop_segment(&engine->base, segment);
}

/* ---- step 1: best fit ------------------------------------------------------------------------ */

/* The size a block could grow to: the tail of an expandable segment is kept for large blocks. */
static uint64_t growable_bytes(const vw__block *block)
{
    const vw__block *next = block->next;
    return block->size_bytes +
           (next != NULL && next->state == VW__BLOCK_UNMAPPED ? next->size_bytes : 0);
}

/* With expandable blocks about, the first fit is not always the one. */
static __attribute__((noinline)) vw__block *settle_on_block(const vw__torch_search *search,
                                                            vw__block *block)
{
    const vw__free_index *index = &search->lane->free;
    if (!vw__block_is_expandable(block))
        return block;
    if (search->is_expandable) {
        for (;;) {
            vw__block *next = vw__free_index_after(index, block);
            if (next == NULL || !vw__block_is_expandable(block) ||
                growable_bytes(next) >= growable_bytes(block))
                return block;
            block = next;
        }
    }
    do /* the setting was switched off since: plain segments only */
        block = vw__free_index_after(index, block);
    while (block != NULL && vw__block_is_expandable(block));
    return block;
}

/* Still in the index; NULL: no fit. */
VW__TREE_INLINE vw__block *find_free_block(vw__torch_engine *engine, const vw__torch_search *search)
{
    if (engine->counts_ages)
        search->shelf->clock++;
    if (search->lane == NULL)
        return NULL;
    vw__block *block = vw__free_index_best_fit(&search->lane->free, search->size_bytes);
    if (block != NULL && engine->expandable_segments != 0)
        block = settle_on_block(search, block);
    if (block == NULL)
        return NULL;
    uint64_t max_split_bytes = engine->base.max_split_bytes;
    if (search->size_bytes < max_split_bytes) {
        if (block->size_bytes >= max_split_bytes)
            return NULL; /* oversize blocks are for oversize requests */
    } else if (block->size_bytes >=
               search->size_bytes + engine->conf.settings.max_non_split_rounding_bytes) {
        return NULL; /* and not for much smaller ones */
    }
    return block;
}

/* ---- step 4: a new segment ------------------------------------------------------------------- */

static vw_status take_from_source(vw__torch_engine *engine, const vw__torch_search *search,
                                  vw_device_ptr *out)
{
    const vw__engine_owner *owner = &engine->base.owner;
    const vw__private_pool *pool = search->shelf->private_pool;
    if (pool != NULL && pool->source.take != NULL) {
        vw_device_ptr address =
            pool->source.take(pool->source.source_context, search->segment_bytes,
                              owner->device->properties.index, search->stream);
        if (address == VW_NULL)
            return vw__fail(VW_ERR_OUT_OF_MEMORY, "the private pool's source has no room");
        *out = address;
        return VW_OK;
    }
    if (!engine->conf.settings.release_lock_on_device_malloc)
        return vw__driver_take(owner, search->segment_bytes, out);
    const vw__engine_request *serving = engine->base.serving;
    engine->base.serving = NULL; /* others are served meanwhile */
    vw__engine_cause cause = owner->pause_lock(owner->context);
    vw_status status = vw__driver_take(owner, search->segment_bytes, out);
    owner->resume_lock(owner->context, cause);
    engine->base.serving = serving;
    return status;
}

static vw_status take_plain_segment(vw__torch_engine *engine, const vw__torch_search *search,
                                    vw__block **out)
{
    vw_device_ptr address;
    vw__segment *segment = vw__engine_make_segment(&engine->base);
    if (segment == NULL)
        return vw__fail_host_memory(sizeof *segment, "a segment record");
    vw_status status = take_from_source(engine, search, &address);
    if (status != VW_OK) {
        vw__engine_unmake_segment(&engine->base, segment);
        return status;
    }
    vw__engine_file_segment(&engine->base, segment, search->lane, address, search->segment_bytes, 0,
                            segment_tie_break(engine));
    vw__counters *counters = engine->base.owner.counters;
    vw__engine_size_kind kind = search->shelf->kind;
    vw__engine_count_held(&engine->base, search->shelf, (int64_t)search->segment_bytes);
    vw__counter_up(&counters->segment, kind, 1);
    if (search->segment_bytes >= engine->base.max_split_bytes)
        vw__counter_up(&counters->oversize_segments, VW__ENGINE_LARGE, 1);
    counters->num_device_alloc++;
    segment->first->segment_tag = engine->base.serving->tag;
    vw__engine_notice(&engine->base, VW_ACTION_SEGMENT_ALLOC, search->lane, address,
                      search->segment_bytes, engine->base.serving->tag);
    vw__lane_insert(search->lane, segment->first);
    *out = segment->first;
    return VW_OK;
}

static vw_status take_new_block(vw__torch_engine *engine, vw__torch_search *search, bool is_retry,
                                vw__block **out)
{
    vw__counters *counters = engine->base.owner.counters;
    if (is_retry)
        counters->num_alloc_retries++;
    /* The whole segment size counts here, also where an expandable one would grow by less. */
    uint64_t wanted_bytes = engine->base.held_bytes + search->segment_bytes;
    if (wanted_bytes > engine->base.limit_bytes)
        return VW_ERR_OUT_OF_MEMORY;
    if (engine->conf.settings.throw_on_device_oom) {
        uint64_t total_bytes = engine->base.owner.device->properties.total_bytes;
        double most = engine->conf.settings.per_process_memory_fraction * (double)total_bytes;
        if (wanted_bytes > (uint64_t)most) {
            counters->num_oom_rejections++;
            return VW_ERR_REJECTED;
        }
    }
    if (search->lane == NULL) {
        search->lane = vw__shelf_add_lane(search->shelf, search->stream);
        if (search->lane == NULL)
            return vw__fail_host_memory(sizeof *search->lane, "a stream's free blocks");
    }
    return search->is_expandable ? vw__torch_grow_expandable(engine, search, out)
                                 : take_plain_segment(engine, search, out);
}

/* ---- step 5: pools that serve others rather than let them fail ------------------------------- */

typedef struct elsewhere {
    vw__torch_engine *engine;
    vw__torch_search search;
} elsewhere;

static vw__block *find_elsewhere(void *context, vw__shelf *shelf)
{
    elsewhere *place = context;
    place->search.shelf = shelf;
    place->search.lane = vw__shelf_lane(shelf, place->search.stream);
    return find_free_block(place->engine, &place->search);
}

static vw__block *take_from_private_pools(vw__torch_engine *engine, vw__torch_search *search)
{
    elsewhere place = {engine, *search};
    place.search.is_expandable = false;
    vw__block *block =
        vw__private_find_on_oom(&engine->base, search->shelf, find_elsewhere, &place);
    if (block != NULL)
        *search = place.search; /* the block stays the private pool's */
    return block;
}

/* ---- steps 2 to 7 ---------------------------------------------------------------------------- */

static bool reclaim(vw__torch_engine *engine)
{
    const vw__engine_request *serving = engine->base.serving;
    engine->base.serving = NULL; /* the lock is dropped: others are served meanwhile */
    bool is_worth_while = engine->base.owner.reclaim(engine->base.owner.context);
    engine->base.serving = serving;
    return is_worth_while;
}

static vw_status find_block_the_hard_way(vw__torch_engine *engine, vw__torch_search *search,
                                         vw__block **out)
{
    if (reclaim(engine)) {
        search->lane = vw__shelf_lane(search->shelf, search->stream);
        *out = find_free_block(engine, search);
        if (*out != NULL)
            return VW_OK;
    }
    if (engine->counts_ages)
        VW__TRY(vw__torch_collect_garbage(engine));

    vw_status status = take_new_block(engine, search, false, out);
    if (status != VW_ERR_OUT_OF_MEMORY)
        return status;
    if (engine->conf.rules.use_on_oom == VW__TORCH_USE_ON_OOM_BEFORE_RELEASE) {
        *out = take_from_private_pools(engine, search);
        if (*out != NULL)
            return VW_OK;
    }
    bool is_enough = false;
    VW__TRY(vw__torch_release_available(engine, search, &is_enough));
    if (is_enough) {
        status = take_new_block(engine, search, false, out);
        if (status != VW_ERR_OUT_OF_MEMORY)
            return status;
    }
    if (!vw__engine_is_capturing(&engine->base, search->stream)) {
        VW__TRY(vw__torch_trim(engine, NULL));
        status = take_new_block(engine, search, true, out);
        if (status != VW_ERR_OUT_OF_MEMORY)
            return status;
    }
    if (engine->conf.rules.use_on_oom == VW__TORCH_USE_ON_OOM_AFTER_RELEASE) {
        *out = take_from_private_pools(engine, search);
        if (*out != NULL)
            return VW_OK;
    }
    return VW_ERR_OUT_OF_MEMORY;
}

/* ---- hand-out -------------------------------------------------------------------------------- */

VW__TREE_INLINE bool should_split(const vw__torch_engine *engine, const vw__torch_search *search,
                                  const vw__block *block)
{
    uint64_t rest_bytes = block->size_bytes - search->size_bytes;
    const vw__private_pool *pool = search->shelf->private_pool;
    if (pool != NULL && pool->no_split)
        return false;
    return vw__torch_splits_off(search->shelf->kind == VW__ENGINE_SMALL, search->is_expandable,
                                search->size_bytes, engine->base.max_split_bytes, rest_bytes);
}

/* Takes the block to hand out off a free block: its low part, or all of it. */
VW__TREE_INLINE vw__block *carve(vw__torch_engine *engine, const vw__torch_search *search,
                                 vw__block *block, bool is_splitting)
{
    vw__counters *counters = engine->base.owner.counters;
    vw__engine_size_kind kind = search->shelf->kind;
    bool was_split = vw__block_is_split(block);
    bool is_counted = !vw__block_is_expandable(block);
    if (!is_splitting) {
        if (was_split && is_counted) {
            vw__counter_down(&counters->inactive_split, kind, 1);
            vw__counter_down(&counters->inactive_split_bytes, kind, (int64_t)block->size_bytes);
        }
        vw__lane_remove(search->lane, block);
        return block;
    }
    vw__block *low =
        vw__lane_split_low(&engine->base.records, search->lane, block, search->size_bytes,
                           vw__torch_block_tie_break(engine, block->segment), search->shelf->clock);
    if (is_counted) {
        if (was_split) {
            vw__counter_down(&counters->inactive_split_bytes, kind, (int64_t)search->size_bytes);
        } else {
            vw__counter_up(&counters->inactive_split, kind, 1);
            vw__counter_up(&counters->inactive_split_bytes, kind, (int64_t)block->size_bytes);
        }
    }
    return low;
}

VW__TREE_INLINE vw__block *hand_out(vw__torch_engine *engine, const vw__torch_search *search,
                                    const vw__engine_request *request, vw__block *block,
                                    bool is_splitting)
{
    block = carve(engine, search, block, is_splitting);
    block->state = VW__BLOCK_LIVE;
    block->requested_bytes = request->size_bytes;
    block->tag = request->tag;
    return block;
}

VW__TREE_INLINE vw_status begin_search(vw__torch_engine *engine, const vw__engine_request *request,
                                       vw__torch_search *search)
{
    search->stream = request->stream;
    search->size_bytes = vw__torch_round_size(&engine->conf.settings, request->size_bytes);
    if (__builtin_expect(search->size_bytes == 0, 0))
        return VW_ERR_BAD_SETTING; /* vw_last_error() says why */
    vw__engine_size_kind kind =
        vw__torch_is_small(search->size_bytes) ? VW__ENGINE_SMALL : VW__ENGINE_LARGE;
    search->shelf = engine->base.scopes == NULL
                        ? &engine->base.shelves[kind]
                        : vw__engine_route(&engine->base, request->stream, kind);
    search->lane = vw__shelf_lane(search->shelf, request->stream);
    search->is_expandable = engine->is_expandable;
    const vw__private_pool *pool = search->shelf->private_pool;
    if (pool != NULL && (pool->one_handle || (pool->source.take != NULL &&
                                              engine->conf.rules.custom_pools_ignore_expandable)))
        search->is_expandable = false;
    return VW_OK;
}

/* The lock may be dropped on the way (reclaim, release_lock_on_cudamalloc), so the private pool is
 * held on to, and the record for the split is seen to again. The search comes by value: the hit
 * path then keeps its own in registers. */
static __attribute__((noinline)) vw_status serve_a_miss(vw__torch_engine *engine,
                                                        const vw__engine_request *request,
                                                        vw__torch_search search, vw__block **out,
                                                        vw__engine_refusal *refusal)
{
    vw__private_pool *pool = search.shelf->private_pool;
    vw__block *block = NULL;
    search.segment_bytes = vw__torch_segment_size(&engine->conf.settings, search.size_bytes);
    if (pool != NULL)
        pool->requests_in_progress++;
    engine->base.serving = request;
    vw_status status = find_block_the_hard_way(engine, &search, &block);
    engine->base.serving = NULL;
    if (pool != NULL)
        pool->requests_in_progress--;
    if (status != VW_OK) {
        refusal->rounded_bytes = search.size_bytes;
        refusal->segment_bytes = search.segment_bytes;
        refusal->private_id = search.shelf->private_id;
        refusal->is_expandable = engine->is_expandable;
        return status;
    }
    if (!vw__block_source_reserve(&engine->base.records, 1))
        return vw__fail_host_memory(sizeof(vw__block), "block records"); /* it stays free */
    *out = hand_out(engine, &search, request, block, should_split(engine, &search, block));
    return VW_OK;
}

vw_status vw__torch_allocate(vw__engine *base, const vw__engine_request *request, vw__block **out,
                             vw__engine_refusal *refusal)
{
    vw__torch_engine *engine = vw__torch_of(base);
    vw__torch_search search;
    VW__TRY(begin_search(engine, request, &search));
    vw__block *block = find_free_block(engine, &search);
    if (__builtin_expect(block == NULL, 0))
        return serve_a_miss(engine, request, search, out, refusal);
    *out = hand_out(engine, &search, request, block, should_split(engine, &search, block));
    return VW_OK;
}

/* ---- the way back ---------------------------------------------------------------------------- */

void vw__torch_free(vw__engine *base, vw__block *block)
{
    vw__torch_engine *engine = vw__torch_of(base);
    vw__lane *lane = vw__block_lane(block);
    block->tag = 0;
    vw__lane_joined joined =
        vw__lane_settle_free(&engine->base.records, lane, block, lane->shelf->clock);
    if (!vw__block_is_expandable(block)) {
        vw__counters *counters = base->owner.counters;
        if (vw__block_is_split(block)) {
            joined.blocks--;
            joined.bytes -= (int64_t)block->size_bytes;
        }
        vw__counter_by(&counters->inactive_split, lane->shelf->kind, -joined.blocks);
        vw__counter_by(&counters->inactive_split_bytes, lane->shelf->kind, -joined.bytes);
    }
}

/* ---- an exact address ------------------------------------------------------------------------ */

/* The part of a free block before the address is handed out first, so that the block at the address
 * is carved by the usual rules; the owner frees it again. */
vw_status vw__torch_allocate_at(vw__engine *base, const vw__engine_request *request,
                                vw_device_ptr address, vw__block **prefix, vw__block **out)
{
    vw__torch_engine *engine = vw__torch_of(base);
    vw__torch_search search;
    VW__TRY(begin_search(engine, request, &search));
    vw__block *block = NULL;
    VW__TRY(vw__engine_find_free_at(base, search.lane, address, search.size_bytes, &block));
    *prefix = NULL;
    if (block->address < address) {
        vw__torch_search before = search;
        before.size_bytes = address - block->address;
        const vw__engine_request fake = {before.size_bytes, request->stream, request->tag, false};
        *prefix = hand_out(engine, &before, &fake, block, true);
    }
    *out = hand_out(engine, &search, request, block, should_split(engine, &search, block));
    return VW_OK;
}

/* ---- a block of a checkpoint ----------------------------------------------------------------- */

/* What the block has before the address becomes a free block of its own. A plain segment is always
 * handed out from its beginning on, so that this is about expandable ones, whose free parts
 * inactive_split does not count. */
static void part_before(vw__torch_engine *engine, vw__lane *lane, vw__block *block,
                        uint64_t address)
{
    vw__block *before =
        vw__lane_split_low(&engine->base.records, lane, block, address - block->address,
                           vw__torch_block_tie_break(engine, block->segment), lane->shelf->clock);
    before->segment_tag = block->segment_tag;
    vw__lane_insert(lane, before);
}

vw__block *vw__torch_hand_out_at(vw__engine *base, vw__block *block, vw_device_ptr address,
                                 uint64_t size_bytes, uint64_t tag)
{
    vw__torch_engine *engine = vw__torch_of(base);
    vw__lane *lane = vw__block_lane(block);
    const vw__engine_request request = {size_bytes, lane->stream, tag, false};
    const vw__torch_search search = {
        .shelf = lane->shelf, .lane = lane, .stream = lane->stream, .size_bytes = size_bytes};
    if (block->address < address)
        part_before(engine, lane, block, address);
    return hand_out(engine, &search, &request, block, block->size_bytes > size_bytes);
}
