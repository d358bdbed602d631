/* pinned_inspect.c - what a pinned pool counts, and every invariant of it, walked.
 *
 * Checked:
 *   - blocks do not overlap, and blocks of the reserve lie inside it
 *   - the cached blocks, and no others, are in the bucket of their size on their shelf
 *   - a waiting block has as many uses in its shelf's queue as it waits for, others have none
 *   - held blocks are counted as allocations, active ones of the default shelf as active, each
 *     bucket for itself
 *   - only live blocks have uses of their own */
#include "pool/pinned_pool.h"

#include <inttypes.h>

#include "base/struct_size.h"

/* ---- counting -------------------------------------------------------------------------------- */

void vw__pinned_count_up(vw_stat *stat, uint64_t amount)
{
    stat->current += (int64_t)amount;
    stat->allocated += (int64_t)amount;
    if (stat->current > stat->peak)
        stat->peak = stat->current;
}

void vw__pinned_count_down(vw_stat *stat, uint64_t amount)
{
    stat->current -= (int64_t)amount;
    stat->freed += (int64_t)amount;
}

/* PyTorch takes a least duration of 0 for "none yet". */
void vw__pinned_count_time(vw_duration_stat *stat, uint64_t nanoseconds)
{
    int64_t microseconds = (int64_t)(nanoseconds / 1000);
    stat->total += microseconds;
    stat->count++;
    if (microseconds > stat->max)
        stat->max = microseconds;
    if (stat->min == 0 || microseconds < stat->min)
        stat->min = microseconds;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static vw_stat sum(const vw_stat *buckets)
{
    vw_stat all = {0, 0, 0, 0};
    for (unsigned i = 0; i < VW__PINNED_BUCKETS; i++) {
        all.current += buckets[i].current;
        all.peak += buckets[i].peak;
        all.allocated += buckets[i].allocated;
        all.freed += buckets[i].freed;
    }
    return all;
}

static vw_duration_stat with_average(vw_duration_stat stat)
{
    stat.avg = stat.count > 0 ? stat.total / stat.count : 0;
    return stat;
}

vw_status vw_pinned_pool_get_stats(const vw_pinned_pool *pool, vw_pinned_stats *stats)
{
    VW__TRY(vw__pinned_enter(pool));
    VW__TRY(VW__STRUCT_CHECK_OUT(vw_pinned_stats, stats));
    const vw__pinned_counters *counters = &pool->counters;
    vw__pinned_lock(pool);
    const vw_pinned_stats now = {
        .num_host_alloc = counters->allocations.allocated,
        .num_host_free = counters->allocations.freed,
        .allocations = counters->allocations,
        .allocated_bytes = counters->allocated_bytes,
        .active_requests = sum(counters->active_requests),
        .active_bytes = sum(counters->active_bytes),
        .host_alloc_time = with_average(counters->host_alloc_time),
        .host_free_time = with_average(counters->host_free_time),
    };
    vw__pinned_unlock(pool);
    VW__STRUCT_OUT(vw_pinned_stats, &now, stats);
    return VW_OK;
}

static void reset_peak(vw_stat *stat)
{
    stat->peak = stat->current;
}

static void reset_accumulated(vw_stat *stat)
{
    stat->allocated = stat->freed = 0;
}

static void for_each_stat(vw__pinned_counters *counters, void (*reset)(vw_stat *stat))
{
    reset(&counters->allocations);
    reset(&counters->allocated_bytes);
    for (unsigned i = 0; i < VW__PINNED_BUCKETS; i++) {
        reset(&counters->active_requests[i]);
        reset(&counters->active_bytes[i]);
    }
}

vw_status vw_pinned_pool_reset_peaks(vw_pinned_pool *pool)
{
    VW__TRY(vw__pinned_enter(pool));
    vw__pinned_counters *counters = &pool->counters;
    vw__pinned_lock(pool);
    for_each_stat(counters, reset_peak);
    counters->host_alloc_time.max = counters->host_alloc_time.min = 0;
    counters->host_free_time.max = counters->host_free_time.min = 0;
    vw__pinned_unlock(pool);
    return VW_OK;
}

vw_status vw_pinned_pool_reset_accumulated(vw_pinned_pool *pool)
{
    VW__TRY(vw__pinned_enter(pool));
    vw__pinned_counters *counters = &pool->counters;
    vw__pinned_lock(pool);
    for_each_stat(counters, reset_accumulated);
    counters->host_alloc_time.total = counters->host_alloc_time.count = 0;
    counters->host_free_time.total = counters->host_free_time.count = 0;
    vw__pinned_unlock(pool);
    return VW_OK;
}

/* ---- checking -------------------------------------------------------------------------------- */

typedef struct census {
    size_t block_count, cached_count, stuck_count, use_count;
    uint64_t bytes;
    int64_t active[VW__PINNED_BUCKETS]; /* of the default shelf */
    int64_t active_bytes[VW__PINNED_BUCKETS];
} census;

static vw__pinned_block *next_block(const vw_pinned_pool *pool, const vw__pinned_block *block)
{
    vw__tree_node *node = block == NULL
                              ? vw__tree_first(pool->blocks)
                              : vw__tree_after(pool->blocks, &block->node, vw__pinned_before);
    return (vw__pinned_block *)(void *)node;
}

static const char *check_block(const vw_pinned_pool *pool, const vw__pinned_block *block,
                               const vw__pinned_block *previous)
{
    const vw__pinned_reserve *reserve = &pool->reserve;
    uintptr_t start = (uintptr_t)block->address;
    if (previous != NULL && start - (uintptr_t)previous->address < previous->size_bytes)
        return "overlaps the one before it";
    if (block->size_bytes == 0 || block->state == VW__PINNED_LEAVING)
        return "should not be in the tree";
    if (block->uses != NULL && block->state != VW__PINNED_LIVE)
        return "has uses and is not live";
    if (block->is_of_reserve &&
        start - (uintptr_t)reserve->start > reserve->used_bytes - block->size_bytes)
        return "is not inside the reserve";
    return NULL;
}

/* Fills the census, and clears seen_count of every block. */
static vw_status count_blocks(const vw_pinned_pool *pool, census *count)
{
    vw__pinned_block *previous = NULL;
    for (vw__pinned_block *block; (block = next_block(pool, previous)) != NULL; previous = block) {
        const char *wrong = check_block(pool, block, previous);
        if (wrong != NULL)
            return vw__fail(VW_ERR_WRONG_STATE, "pinned block %p %s", (void *)block->address,
                            wrong);
        block->seen_count = 0;
        count->block_count++;
        count->bytes += block->size_bytes;
        count->cached_count += block->state == VW__PINNED_CACHED;
        count->stuck_count += block->state == VW__PINNED_STUCK;
        if (block->state == VW__PINNED_WAITING)
            count->use_count += block->event_count;
        if (block->shelf == &pool->default_shelf && block->state != VW__PINNED_CACHED) {
            unsigned bucket = vw__pinned_bucket(block->size_bytes);
            count->active[bucket]++;
            count->active_bytes[bucket] += (int64_t)block->size_bytes;
        }
    }
    return VW_OK;
}

static const char *check_buckets(const vw__pinned_shelf *shelf, census *left)
{
    for (unsigned bucket = 0; bucket < VW__PINNED_BUCKETS; bucket++) {
        const vw__pinned_list *list = &shelf->buckets[bucket];
        const vw__pinned_block *previous = NULL;
        for (const vw__pinned_block *block = list->oldest; block != NULL; block = block->next) {
            if (block->state != VW__PINNED_CACHED || block->shelf != shelf ||
                vw__pinned_bucket(block->size_bytes) != bucket)
                return "a block is in a bucket that is not its own";
            if (block->previous != previous || left->cached_count == 0)
                return "a bucket is not whole";
            left->cached_count--;
            previous = block;
        }
        if (list->newest != previous)
            return "a bucket does not know its newest block";
    }
    return NULL;
}

static const char *check_queue(const vw__pinned_shelf *shelf, census *left)
{
    const vw__pinned_use *previous = NULL;
    size_t length = 0;
    for (vw__pinned_use *use = shelf->queue.newest; use != NULL; use = use->next, length++) {
        if (use->block->state != VW__PINNED_WAITING || use->block->shelf != shelf ||
            ++use->block->seen_count > use->block->event_count)
            return "an event is waited for by a block that does not wait for it";
        if (use->previous != previous || left->use_count == 0)
            return "a queue is not whole";
        left->use_count--;
        previous = use;
    }
    return shelf->queue.oldest == previous && shelf->queue.count == length
               ? NULL
               : "a queue does not know its oldest event, or how many there are";
}

static const char *check_shelf(const vw_pinned_pool *pool, const vw__pinned_shelf *shelf,
                               census *left)
{
    size_t block_count = 0;
    for (vw__pinned_block *block = NULL; (block = next_block(pool, block)) != NULL;)
        block_count += block->shelf == shelf;
    if (block_count != shelf->block_count)
        return "a shelf does not know how many blocks it has";
    const char *wrong = check_buckets(shelf, left);
    return wrong != NULL ? wrong : check_queue(shelf, left);
}

static const char *check_counters(const vw_pinned_pool *pool, const census *count)
{
    const vw__pinned_counters *counters = &pool->counters;
    if (counters->allocations.current != (int64_t)(count->block_count + pool->leaving_count) ||
        (pool->leaving_count == 0 && counters->allocated_bytes.current != (int64_t)count->bytes))
        return "blocks are held that are not counted, or the other way round";
    for (unsigned bucket = 0; bucket < VW__PINNED_BUCKETS; bucket++) {
        const vw_stat *requests = &counters->active_requests[bucket];
        const vw_stat *bytes = &counters->active_bytes[bucket];
        if (requests->current != count->active[bucket] ||
            bytes->current != count->active_bytes[bucket] || requests->peak < requests->current ||
            bytes->peak < bytes->current)
            return "blocks are active that are not counted, or the other way round";
    }
    return NULL;
}

static vw_status check(const vw_pinned_pool *pool)
{
    census count = {.block_count = 0};
    VW__TRY(count_blocks(pool, &count));
    const char *wrong = check_counters(pool, &count);
    if (wrong == NULL)
        wrong = check_shelf(pool, &pool->default_shelf, &count);
    for (const vw__pinned_shelf *shelf = pool->private_shelves; shelf != NULL && wrong == NULL;
         shelf = shelf->next)
        wrong = check_shelf(pool, shelf, &count);
    if (wrong == NULL && count.cached_count != 0)
        wrong = "a cached block is in no bucket";
    if (wrong == NULL && count.use_count != 0)
        wrong = "a block waits for events that are in no queue";
    for (const vw__pinned_block *block = pool->stuck; block != NULL && wrong == NULL;
         block = block->next)
        if (block->state != VW__PINNED_STUCK || count.stuck_count-- == 0)
            wrong = "a block that is not stuck is listed as stuck";
    return wrong == NULL ? VW_OK : vw__fail(VW_ERR_WRONG_STATE, "%s", wrong);
}

vw_status vw_pinned_pool_check(vw_pinned_pool *pool)
{
    VW__TRY(vw__pinned_enter(pool));
    vw__pinned_lock(pool);
    vw_status status = check(pool);
    vw__pinned_unlock(pool);
    return status;
}
