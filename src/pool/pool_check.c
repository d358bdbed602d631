/* pool_check.c - everything a pool knows, compared with everything else it knows.
 *
 * The engine checks its own books (segments tile, indexes are whole, reserved bytes add up). Here:
 *   - every live block, and no other, is filed under its address
 *   - the counters of live, active and requested bytes are what the blocks add up to
 *   - pending blocks are exactly those that stream_order.c keeps */
#include "pool/pool.h"

#include <inttypes.h>

typedef struct census {
    const hr_pool *pool;
    int64_t live[2], live_bytes[2];     /* by hr__size_kind */
    int64_t active[2], active_bytes[2]; /* live or pending */
    int64_t requested_bytes[2];
    size_t pending;
    hr_device_ptr misfiled; /* a live block that is not filed, or a filed one that is not live */
} census;

static bool count_block(void *context, const hr_segment_info *segment, const hr_block_info *block)
{
    census *count = context;
    int kind = segment->is_large ? HR__LARGE : HR__SMALL;
    bool is_filed = hr__address_map_get(&count->pool->live, block->address) != NULL;
    if (is_filed != (block->state == HR_BLOCK_LIVE))
        count->misfiled = block->address;
    if (block->state == HR_BLOCK_LIVE) {
        count->live[kind]++;
        count->live_bytes[kind] += (int64_t)block->size_bytes;
    }
    if (block->state == HR_BLOCK_PENDING_FREE)
        count->pending++;
    if (block->state != HR_BLOCK_FREE) {
        count->active[kind]++;
        count->active_bytes[kind] += (int64_t)block->size_bytes;
        count->requested_bytes[kind] += (int64_t)block->requested_bytes;
    }
    return true;
}

static hr_status compare(const char *name, const hr__counter *counter, const int64_t expected[2])
{
    for (int kind = HR__SMALL; kind <= HR__LARGE; kind++)
        if (counter->current[kind] != expected[kind] ||
            counter->peak[kind] < counter->current[kind] ||
            counter->peak_all < counter->current[HR__SMALL] + counter->current[HR__LARGE])
            return hr__fail(HR_ERR_WRONG_STATE,
                            "%s says %" PRId64 " (peak %" PRId64 "), the %s blocks say %" PRId64,
                            name, counter->current[kind], counter->peak[kind],
                            kind == HR__SMALL ? "small" : "large", expected[kind]);
    return HR_OK;
}

static hr_status check_files(const hr_pool *pool)
{
    size_t cursor = 0;
    for (const hr__address_map_entry *entry;
         (entry = hr__address_map_next(&pool->live, &cursor));) {
        const hr__block *block = entry->value;
        if (block->address != entry->address || block->state != HR__BLOCK_LIVE)
            return hr__fail(HR_ERR_WRONG_STATE,
                            "under %#" PRIx64 " a block is filed that is not the live one there",
                            entry->address);
    }
    return HR_OK;
}

static hr_status check(const hr_pool *pool)
{
    const hr__counters *counters = &pool->counters;
    census count = {.pool = pool};
    const hr_walker walker = {.context = &count, .block = count_block};
    HR__TRY(pool->engine->table->check(pool->engine));
    HR__TRY(check_files(pool));
    if (pool->has_sink && (pool->cause.request != 0 || pool->cause.caller != NULL))
        return hr__fail(HR_ERR_WRONG_STATE, "request %" PRIu64 " is told to listeners as going on",
                        pool->cause.request);
    pool->engine->table->walk(pool->engine, &walker);
    if (count.misfiled != HR_NULL)
        return hr__fail(HR_ERR_WRONG_STATE,
                        "block %#" PRIx64 " is live and not filed, or filed and not live",
                        count.misfiled);
    if ((uint64_t)(count.live[HR__SMALL] + count.live[HR__LARGE]) !=
        hr__address_map_count(&pool->live))
        return hr__fail(HR_ERR_WRONG_STATE, "%zu blocks are filed, %" PRId64 " are live",
                        hr__address_map_count(&pool->live),
                        count.live[HR__SMALL] + count.live[HR__LARGE]);
    HR__TRY(compare("allocation", &counters->allocation, count.live));
    HR__TRY(compare("allocated_bytes", &counters->allocated_bytes, count.live_bytes));
    HR__TRY(compare("active", &counters->active, count.active));
    HR__TRY(compare("active_bytes", &counters->active_bytes, count.active_bytes));
    HR__TRY(compare("requested_bytes", &counters->requested_bytes, count.requested_bytes));
    const char *wrong = hr__stream_order_check(pool);
    if (wrong != NULL)
        return hr__fail(HR_ERR_WRONG_STATE, "%s", wrong);
    if (count.pending != pool->order.pending_count)
        return hr__fail(HR_ERR_WRONG_STATE, "%zu blocks are pending, %zu are waited for",
                        count.pending, pool->order.pending_count);
    return HR_OK;
}

hr_status hr_pool_check(hr_pool *pool)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr_status status = check(pool);
    hr__pool_unlock(pool);
    return status;
}
