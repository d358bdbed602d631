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

/* One whole, free, plain segment. */
static hr_status release_segment(hr__torch_engine *engine, hr__block *block)
{
    hr__segment *segment = block->segment;
    hr__lane *lane = segment->lane;
    const hr__engine_owner *owner = &engine->base.owner;
    hr__private_pool *pool = lane->shelf->private_pool;
    if (pool != NULL && pool->source.give_back != NULL)
        pool->source.give_back(pool->source.source_context, segment->address, segment->size_bytes,
                               owner->device->properties.index, lane->stream);
    else
        HR__TRY(hr__driver_give_back(owner, segment->address));

    owner->counters->num_device_free++;
    hr__engine_notice(&engine->base, HR_ACTION_SEGMENT_FREE, lane, segment->address,
                      segment->size_bytes, hr__engine_event_tag(&engine->base, block));
    hr__engine_count_held(&engine->base, lane->shelf, -(int64_t)segment->size_bytes);
    hr__count_down(&owner->counters->segment, lane->shelf->kind, 1);
    if (segment->size_bytes >= engine->base.max_split_bytes)
        hr__count_down(&owner->counters->oversize_segments, HR__LARGE, 1);
    hr__lane_remove(lane, block);
    hr__torch_drop_segment(engine, segment);
    return HR_OK;
}

static bool is_whole_plain_segment(const hr__block *block)
{
    return !hr__block_is_split(block) && !hr__block_is_expandable(block);
}

/* Plain segments of every stream first, then the pages of expandable ones. Blocks that shrinking
 * leaves behind are smaller than the block they come from, so a walk upwards does not meet them. */
static hr_status release_shelf(hr__torch_engine *engine, hr__shelf *shelf)
{
    hr__block *next;
    for (hr__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        for (hr__block *block = hr__free_index_first(&lane->free); block != NULL; block = next) {
            next = hr__free_index_after(&lane->free, block);
            if (is_whole_plain_segment(block))
                HR__TRY(release_segment(engine, block));
        }
    }
    if (engine->expandable_segments == 0)
        return HR_OK;
    for (hr__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        for (hr__block *block = hr__free_index_first(&lane->free); block != NULL; block = next) {
            next = hr__free_index_after(&lane->free, block);
            if (hr__block_is_expandable(block))
                HR__TRY(hr__torch_shrink_expandable(engine, block));
        }
    }
    return HR_OK;
}

hr_status hr__torch_trim(hr__torch_engine *engine, const hr_private_id *only)
{
    const hr__engine_owner *owner = &engine->base.owner;
    bool is_one = only != NULL && !hr__same_private_id(*only, hr__no_private_id());
    if (!is_one && !hr__engine_keeps_default_pools(&engine->base)) {
        HR__TRY(owner->finish_pending(owner->context, NULL));
        HR__TRY(release_shelf(engine, &engine->base.shelves[HR__LARGE]));
        HR__TRY(release_shelf(engine, &engine->base.shelves[HR__SMALL]));
    }
    hr__private_pool *next;
    for (hr__private_pool *pool = engine->base.private_pools; pool != NULL; pool = next) {
        next = pool->next;
        if (pool->use_count != 0 || (is_one && !hr__same_private_id(pool->id, *only)))
            continue;
        if (is_one)
            HR__TRY(owner->finish_pending(owner->context, only));
        HR__TRY(release_shelf(engine, &pool->shelves[HR__SMALL]));
        HR__TRY(release_shelf(engine, &pool->shelves[HR__LARGE]));
        if (hr__private_is_over(pool))
            hr__private_drop(&engine->base, pool);
    }
    return HR_OK;
}

hr_status hr__torch_release_available(hr__torch_engine *engine, const hr__search *search,
                                      bool *is_enough)
{
    uint64_t max_split_bytes = engine->base.max_split_bytes;
    *is_enough = false;
    if (max_split_bytes == UINT64_MAX || search->lane == NULL)
        return HR_OK;
    const hr__free_index *index = &search->lane->free;
    uint64_t wanted_bytes = hr__max_u64(search->size_bytes, max_split_bytes);
    hr__block *block = hr__free_index_best_fit(index, wanted_bytes);
    if (block != NULL && !hr__block_is_expandable(block)) {
        if (!is_whole_plain_segment(block))
            return HR_OK; /* split before max_split_size was set: not ours to give back */
        *is_enough = true;
        return release_segment(engine, block);
    }
    /* No single block is enough: several oversize ones, the largest first. */
    uint64_t released_bytes = 0;
    block = block != NULL ? hr__free_index_before(index, block)
                          : hr__free_index_last_below(index, wanted_bytes);
    while (block != NULL && released_bytes < wanted_bytes && block->size_bytes >= max_split_bytes) {
        hr__block *smaller = hr__free_index_before(index, block);
        if (is_whole_plain_segment(block)) {
            uint64_t size_bytes = block->size_bytes;
            HR__TRY(release_segment(engine, block));
            released_bytes += size_bytes;
        }
        block = smaller;
    }
    *is_enough = released_bytes >= wanted_bytes;
    return HR_OK;
}

/* ---- garbage collection ---------------------------------------------------------------------- */

static int64_t age_of(const hr__shelf *shelf, const hr__block *block)
{
    return shelf->clock - block->age_base;
}

/* One pass over the default large shelf, releasing what is at least as old as the mean. */
static hr_status sweep(hr__torch_engine *engine, double oldest_kept, int64_t *total_age,
                       int64_t *block_count, uint64_t *reclaimed_bytes, bool *has_freed)
{
    hr__shelf *shelf = &engine->base.shelves[HR__LARGE];
    *has_freed = false;
    for (hr__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        hr__block *next;
        for (hr__block *block = hr__free_index_first(&lane->free); block != NULL; block = next) {
            next = hr__free_index_after(&lane->free, block);
            int64_t age = age_of(shelf, block);
            if (!is_whole_plain_segment(block) || (double)age < oldest_kept)
                continue;
            uint64_t size_bytes = block->size_bytes;
            HR__TRY(release_segment(engine, block));
            *has_freed = true;
            *reclaimed_bytes += size_bytes;
            *total_age -= age;
            *block_count -= 1;
        }
    }
    return HR_OK;
}

hr_status hr__torch_collect_garbage(hr__torch_engine *engine)
{
    hr__shelf *shelf = &engine->base.shelves[HR__LARGE];
    double threshold = engine->settings.garbage_collection_threshold;
    uint64_t threshold_bytes = (uint64_t)(threshold * (double)engine->base.limit_bytes);
    if (engine->base.held_bytes <= threshold_bytes)
        return HR_OK;
    uint64_t target_bytes = engine->base.held_bytes - threshold_bytes, reclaimed_bytes = 0;

    int64_t total_age = 0, block_count = 0;
    for (hr__lane *lane = shelf->lanes; lane != NULL; lane = lane->next) {
        for (hr__block *block = hr__free_index_first(&lane->free); block != NULL;
             block = hr__free_index_after(&lane->free, block)) {
            if (!hr__block_is_split(block)) {
                total_age += age_of(shelf, block);
                block_count++;
            }
        }
    }
    bool has_freed = true;
    while (reclaimed_bytes < target_bytes && has_freed && block_count > 0)
        HR__TRY(sweep(engine, (double)total_age / (double)block_count, &total_age, &block_count,
                      &reclaimed_bytes, &has_freed));
    return HR_OK;
}
