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
#include <string.h>

/* ---- counting -------------------------------------------------------------------------------- */

void hr__pinned_count_up(hr_stat *stat, uint64_t amount)
{
    stat->current += (int64_t)amount;
    stat->allocated += (int64_t)amount;
    if (stat->current > stat->peak)
        stat->peak = stat->current;
}

void hr__pinned_count_down(hr_stat *stat, uint64_t amount)
{
    stat->current -= (int64_t)amount;
    stat->freed += (int64_t)amount;
}

/* PyTorch takes a least duration of 0 for "none yet". */
void hr__pinned_count_time(hr_duration_stat *stat, uint64_t nanoseconds)
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

static hr_stat sum(const hr_stat *buckets)
{
    hr_stat all = {0, 0, 0, 0};
    for (unsigned i = 0; i < HR__PINNED_BUCKETS; i++) {
        all.current += buckets[i].current;
        all.peak += buckets[i].peak;
        all.allocated += buckets[i].allocated;
        all.freed += buckets[i].freed;
    }
    return all;
}

static hr_duration_stat with_average(hr_duration_stat stat)
{
    stat.avg = stat.count > 0 ? stat.total / stat.count : 0;
    return stat;
}

hr_status hr_pinned_pool_get_stats(const hr_pinned_pool *pool, hr_pinned_stats *stats)
{
    HR__TRY(hr__pinned_enter(pool));
    if (stats == NULL || stats->struct_size < sizeof stats->struct_size)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected statistics with their struct_size set");
    const hr__pinned_counters *counters = &pool->counters;
    hr__pinned_lock(pool);
    const hr_pinned_stats now = {
        .struct_size = stats->struct_size,
        .num_host_alloc = counters->allocations.allocated,
        .num_host_free = counters->allocations.freed,
        .allocations = counters->allocations,
        .allocated_bytes = counters->allocated_bytes,
        .active_requests = sum(counters->active_requests),
        .active_bytes = sum(counters->active_bytes),
        .host_alloc_time = with_average(counters->host_alloc_time),
        .host_free_time = with_average(counters->host_free_time),
    };
    hr__pinned_unlock(pool);
    memcpy(stats, &now, stats->struct_size < sizeof now ? stats->struct_size : sizeof now);
    return HR_OK;
}

static void reset_peak(hr_stat *stat)
{
    stat->peak = stat->current;
}

static void reset_accumulated(hr_stat *stat)
{
    stat->allocated = stat->freed = 0;
}

static void for_each_stat(hr__pinned_counters *counters, void (*reset)(hr_stat *stat))
{
    reset(&counters->allocations);
    reset(&counters->allocated_bytes);
    for (unsigned i = 0; i < HR__PINNED_BUCKETS; i++) {
        reset(&counters->active_requests[i]);
        reset(&counters->active_bytes[i]);
    }
}

hr_status hr_pinned_pool_reset_peaks(hr_pinned_pool *pool)
{
    HR__TRY(hr__pinned_enter(pool));
    hr__pinned_counters *counters = &pool->counters;
    hr__pinned_lock(pool);
    for_each_stat(counters, reset_peak);
    counters->host_alloc_time.max = counters->host_alloc_time.min = 0;
    counters->host_free_time.max = counters->host_free_time.min = 0;
    hr__pinned_unlock(pool);
    return HR_OK;
}

hr_status hr_pinned_pool_reset_accumulated(hr_pinned_pool *pool)
{
    HR__TRY(hr__pinned_enter(pool));
    hr__pinned_counters *counters = &pool->counters;
    hr__pinned_lock(pool);
    for_each_stat(counters, reset_accumulated);
    counters->host_alloc_time.total = counters->host_alloc_time.count = 0;
    counters->host_free_time.total = counters->host_free_time.count = 0;
    hr__pinned_unlock(pool);
    return HR_OK;
}

/* ---- checking -------------------------------------------------------------------------------- */

typedef struct census {
    size_t block_count, cached_count, stuck_count, use_count;
    uint64_t bytes;
    int64_t active[HR__PINNED_BUCKETS]; /* of the default shelf */
    int64_t active_bytes[HR__PINNED_BUCKETS];
} census;

static hr__pinned_block *next_block(const hr_pinned_pool *pool, const hr__pinned_block *block)
{
    hr__tree_node *node = block == NULL
                              ? hr__tree_first(pool->blocks)
                              : hr__tree_after(pool->blocks, &block->node, hr__pinned_before);
    return (hr__pinned_block *)(void *)node;
}

static const char *check_block(const hr_pinned_pool *pool, const hr__pinned_block *block,
                               const hr__pinned_block *previous)
{
    const hr__pinned_reserve *reserve = &pool->reserve;
    uintptr_t start = (uintptr_t)block->address;
    if (previous != NULL && start - (uintptr_t)previous->address < previous->size_bytes)
        return "overlaps the one before it";
    if (block->size_bytes == 0 || block->state == HR__PINNED_LEAVING)
        return "should not be in the tree";
    if (block->uses != NULL && block->state != HR__PINNED_LIVE)
        return "has uses and is not live";
    if (block->is_of_reserve &&
        start - (uintptr_t)reserve->start > reserve->used_bytes - block->size_bytes)
        return "is not inside the reserve";
    return NULL;
}

/* Fills the census, and clears seen_count of every block. */
static hr_status count_blocks(const hr_pinned_pool *pool, census *count)
{
    hr__pinned_block *previous = NULL;
    for (hr__pinned_block *block; (block = next_block(pool, previous)) != NULL; previous = block) {
        const char *wrong = check_block(pool, block, previous);
        if (wrong != NULL)
            return hr__fail(HR_ERR_WRONG_STATE, "pinned block %p %s", (void *)block->address,
                            wrong);
        block->seen_count = 0;
        count->block_count++;
        count->bytes += block->size_bytes;
        count->cached_count += block->state == HR__PINNED_CACHED;
        count->stuck_count += block->state == HR__PINNED_STUCK;
        if (block->state == HR__PINNED_WAITING)
            count->use_count += block->event_count;
        if (block->shelf == &pool->default_shelf && block->state != HR__PINNED_CACHED) {
            unsigned bucket = hr__pinned_bucket(block->size_bytes);
            count->active[bucket]++;
            count->active_bytes[bucket] += (int64_t)block->size_bytes;
        }
    }
    return HR_OK;
}

static const char *check_buckets(const hr__pinned_shelf *shelf, census *left)
{
    for (unsigned bucket = 0; bucket < HR__PINNED_BUCKETS; bucket++) {
        const hr__pinned_list *list = &shelf->buckets[bucket];
        const hr__pinned_block *previous = NULL;
        for (const hr__pinned_block *block = list->oldest; block != NULL; block = block->next) {
            if (block->state != HR__PINNED_CACHED || block->shelf != shelf ||
                hr__pinned_bucket(block->size_bytes) != bucket)
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

static const char *check_queue(const hr__pinned_shelf *shelf, census *left)
{
    const hr__pinned_use *previous = NULL;
    size_t length = 0;
    for (hr__pinned_use *use = shelf->queue.newest; use != NULL; use = use->next, length++) {
        if (use->block->state != HR__PINNED_WAITING || use->block->shelf != shelf ||
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

static const char *check_shelf(const hr_pinned_pool *pool, const hr__pinned_shelf *shelf,
                               census *left)
{
    size_t block_count = 0;
    for (hr__pinned_block *block = NULL; (block = next_block(pool, block)) != NULL;)
        block_count += block->shelf == shelf;
    if (block_count != shelf->block_count)
        return "a shelf does not know how many blocks it has";
    const char *wrong = check_buckets(shelf, left);
    return wrong != NULL ? wrong : check_queue(shelf, left);
}

static const char *check_counters(const hr_pinned_pool *pool, const census *count)
{
    const hr__pinned_counters *counters = &pool->counters;
    if (counters->allocations.current != (int64_t)(count->block_count + pool->leaving_count) ||
        (pool->leaving_count == 0 && counters->allocated_bytes.current != (int64_t)count->bytes))
        return "blocks are held that are not counted, or the other way round";
    for (unsigned bucket = 0; bucket < HR__PINNED_BUCKETS; bucket++) {
        const hr_stat *requests = &counters->active_requests[bucket];
        const hr_stat *bytes = &counters->active_bytes[bucket];
        if (requests->current != count->active[bucket] ||
            bytes->current != count->active_bytes[bucket] || requests->peak < requests->current ||
            bytes->peak < bytes->current)
            return "blocks are active that are not counted, or the other way round";
    }
    return NULL;
}

static hr_status check(const hr_pinned_pool *pool)
{
    census count = {.block_count = 0};
    HR__TRY(count_blocks(pool, &count));
    const char *wrong = check_counters(pool, &count);
    if (wrong == NULL)
        wrong = check_shelf(pool, &pool->default_shelf, &count);
    for (const hr__pinned_shelf *shelf = pool->private_shelves; shelf != NULL && wrong == NULL;
         shelf = shelf->next)
        wrong = check_shelf(pool, shelf, &count);
    if (wrong == NULL && count.cached_count != 0)
        wrong = "a cached block is in no bucket";
    if (wrong == NULL && count.use_count != 0)
        wrong = "a block waits for events that are in no queue";
    for (const hr__pinned_block *block = pool->stuck; block != NULL && wrong == NULL;
         block = block->next)
        if (block->state != HR__PINNED_STUCK || count.stuck_count-- == 0)
            wrong = "a block that is not stuck is listed as stuck";
    return wrong == NULL ? HR_OK : hr__fail(HR_ERR_WRONG_STATE, "%s", wrong);
}

hr_status hr_pinned_pool_check(hr_pinned_pool *pool)
{
    HR__TRY(hr__pinned_enter(pool));
    hr__pinned_lock(pool);
    hr_status status = check(pool);
    hr__pinned_unlock(pool);
    return status;
}
