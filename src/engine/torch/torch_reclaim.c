/* torch_reclaim.c - giving memory back: empty_cache, the retry, garbage collection.
 *
 * A plain segment goes back only when one free block covers all of it; an expandable one gives back
 * the whole pages inside each free block. The device is called first and the books follow, so a
 * refusal leaves the segment where it was. All of it runs under the pool's lock: cudaFree waits for
 * the device, and nobody may take a block of the segment meanwhile. */
#include "engine/torch/torch_engine.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "engine/driver_calls.h"

static void tell_end(vw__torch_engine *engine, const vw__block *block)
{
    const vw__segment *segment = block->segment;
    vw__engine_notice(&engine->base, VW_ACTION_SEGMENT_FREE, segment->lane, segment->address,
                      segment->size_bytes, vw__engine_event_tag(&engine->base, block));
}

/* One whole, free, plain segment. Listeners may have registered the memory of a caller's own
 * source (ncclMemAlloc), and hear of its end before it goes; a device may refuse, and is asked
 * first. */
static vw_status release_segment(vw__torch_engine *engine, vw__block *block)
{
    vw__segment *segment = block->segment;
    vw__lane *lane = segment->lane;
    const vw__engine_owner *owner = &engine->base.owner;
    vw__private_pool *pool = lane->shelf->private_pool;
    if (pool != NULL && pool->source.give_back != NULL) {
        tell_end(engine, block);
        pool->source.give_back(pool->source.source_context, segment->address, segment->size_bytes,
                               owner->device->properties.index, lane->stream);
    } else {
        VW__TRY(vw__driver_give_back(owner, segment->address));
        tell_end(engine, block);
    }
    owner->counters->num_device_free++;
    vw__engine_count_held(&engine->base, lane->shelf, -(int64_t)segment->size_bytes);
    vw__counter_down(&owner->counters->segment, lane->shelf->kind, 1);
    if (segment->size_bytes >= engine->base.max_split_bytes)
        vw__counter_down(&owner->counters->oversize_segments, VW__ENGINE_LARGE, 1);
    vw__lane_remove(lane, block);
    vw__torch_drop_segment(engine, segment);
    return VW_OK;
}

static bool is_whole_plain_segment(const vw__block *block)
{
    return !vw__block_is_split(block) && !vw__block_is_expandable(block);
}

/* Plain segments of every stream first, then the pages of expandable ones. Blocks that shrinking
 * leaves behind are smaller than the block they come from, so a walk upwards does not meet them. */
static vw_status release_shelf(vw__torch_engine *engine, vw__shelf *shelf)
{
    vw__block *next;
    for (vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        for (vw__block *block = vw__free_index_first(&lane->free); block != NULL; block = next) {
            next = vw__free_index_after(&lane->free, block);
            if (is_whole_plain_segment(block))
                VW__TRY(release_segment(engine, block));
        }
    }
    if (engine->expandable_segments == 0)
        return VW_OK;
    for (vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        for (vw__block *block = vw__free_index_first(&lane->free); block != NULL; block = next) {
            next = vw__free_index_after(&lane->free, block);
            if (vw__block_is_expandable(block))
                VW__TRY(vw__torch_shrink_expandable(engine, block));
        }
    }
    return VW_OK;
}

vw_status vw__torch_trim(vw__torch_engine *engine, const vw_private_id *only)
{
    const vw__engine_owner *owner = &engine->base.owner;
    bool is_one = only != NULL && !vw__private_id_same(*only, vw__private_id_none());
    if (!is_one && !vw__engine_keeps_default_pools(&engine->base)) {
        VW__TRY(owner->finish_pending(owner->context, NULL));
        VW__TRY(release_shelf(engine, &engine->base.shelves[VW__ENGINE_LARGE]));
        VW__TRY(release_shelf(engine, &engine->base.shelves[VW__ENGINE_SMALL]));
    }
    vw__private_pool *next;
    for (vw__private_pool *pool = engine->base.private_pools; pool != NULL; pool = next) {
        next = pool->next;
        if (pool->use_count != 0 || (is_one && !vw__private_id_same(pool->id, *only)))
            continue;
        if (is_one)
            VW__TRY(owner->finish_pending(owner->context, only));
        VW__TRY(release_shelf(engine, &pool->shelves[VW__ENGINE_SMALL]));
        VW__TRY(release_shelf(engine, &pool->shelves[VW__ENGINE_LARGE]));
        if (vw__private_is_over(pool))
            vw__private_drop(&engine->base, pool);
    }
    return VW_OK;
}

vw_status vw__torch_release_available(vw__torch_engine *engine, const vw__torch_search *search,
                                      bool *is_enough)
{
    uint64_t max_split_bytes = engine->base.max_split_bytes;
    *is_enough = false;
    if (max_split_bytes == UINT64_MAX || search->lane == NULL)
        return VW_OK;
    const vw__free_index *index = &search->lane->free;
    uint64_t wanted_bytes = vw__max_u64(search->size_bytes, max_split_bytes);
    vw__block *block = vw__free_index_best_fit(index, wanted_bytes);
    if (block != NULL && !vw__block_is_expandable(block)) {
        if (!is_whole_plain_segment(block))
            return VW_OK; /* split before max_split_size was set: not ours to give back */
        *is_enough = true;
        return release_segment(engine, block);
    }
    /* No single block is enough: several oversize ones, the largest first. */
    uint64_t released_bytes = 0;
    block = block != NULL ? vw__free_index_before(index, block)
                          : vw__free_index_last_below(index, wanted_bytes);
    while (block != NULL && released_bytes < wanted_bytes && block->size_bytes >= max_split_bytes) {
        vw__block *smaller = vw__free_index_before(index, block);
        if (is_whole_plain_segment(block)) {
            uint64_t size_bytes = block->size_bytes;
            VW__TRY(release_segment(engine, block));
            released_bytes += size_bytes;
        }
        block = smaller;
    }
    *is_enough = released_bytes >= wanted_bytes;
    return VW_OK;
}

/* ---- garbage collection ---------------------------------------------------------------------- */

static int64_t age_of(const vw__shelf *shelf, const vw__block *block)
{
    return shelf->clock - block->age_base;
}

/* One pass over the default large shelf, releasing what is at least as old as the mean. */
static vw_status sweep(vw__torch_engine *engine, double oldest_kept, int64_t *total_age,
                       int64_t *block_count, uint64_t *reclaimed_bytes, bool *has_freed)
{
    vw__shelf *shelf = &engine->base.shelves[VW__ENGINE_LARGE];
    *has_freed = false;
    for (vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        vw__block *next;
        for (vw__block *block = vw__free_index_first(&lane->free); block != NULL; block = next) {
            next = vw__free_index_after(&lane->free, block);
            int64_t age = age_of(shelf, block);
            if (!is_whole_plain_segment(block) || (double)age < oldest_kept)
                continue;
            uint64_t size_bytes = block->size_bytes;
            VW__TRY(release_segment(engine, block));
            *has_freed = true;
            *reclaimed_bytes += size_bytes;
            *total_age -= age;
            *block_count -= 1;
        }
    }
    return VW_OK;
}

vw_status vw__torch_collect_garbage(vw__torch_engine *engine)
{
    vw__shelf *shelf = &engine->base.shelves[VW__ENGINE_LARGE];
    double threshold = engine->conf.settings.garbage_collection_threshold;
    uint64_t threshold_bytes = (uint64_t)(threshold * (double)engine->base.limit_bytes);
    if (engine->base.held_bytes <= threshold_bytes)
        return VW_OK;
    uint64_t target_bytes = engine->base.held_bytes - threshold_bytes, reclaimed_bytes = 0;

    int64_t total_age = 0, block_count = 0;
    for (vw__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        for (vw__block *block = vw__free_index_first(&lane->free); block != NULL;
             block = vw__free_index_after(&lane->free, block)) {
            if (!vw__block_is_split(block)) {
                total_age += age_of(shelf, block);
                block_count++;
            }
        }
    }
    bool has_freed = true;
    while (reclaimed_bytes < target_bytes && has_freed && block_count > 0)
        VW__TRY(sweep(engine, (double)total_age / (double)block_count, &total_age, &block_count,
                      &reclaimed_bytes, &has_freed));
    return VW_OK;
}
