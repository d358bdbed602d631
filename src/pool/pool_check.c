/* pool_check.c - everything a pool knows, compared with everything else it knows.
 *
 * The engine checks its own books (segments tile, indexes are whole, reserved bytes add up). Here:
 *   - every live block, and no other, is filed under its address
 *   - the counters of live, active and requested bytes are what the blocks add up to
 *   - pending blocks are exactly those that stream_order.c keeps */
#include "pool/pool.h"

#include <inttypes.h>

typedef struct census {
    const vw_pool *pool;
    int64_t live[2], live_bytes[2];     /* by vw__engine_size_kind */
    int64_t active[2], active_bytes[2]; /* live or pending */
    int64_t requested_bytes[2];
    size_t pending;
    vw_device_ptr misfiled; /* a live block that is not filed, or a filed one that is not live */
} census;

static bool count_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    census *count = context;
    int kind = segment->is_large ? VW__ENGINE_LARGE : VW__ENGINE_SMALL;
    bool is_filed = vw__block_map_get(&count->pool->live, block->address) != NULL;
    if (is_filed != (block->state == VW_BLOCK_LIVE))
        count->misfiled = block->address;
    if (block->state == VW_BLOCK_LIVE) {
        count->live[kind]++;
        count->live_bytes[kind] += (int64_t)block->size_bytes;
    }
    if (block->state == VW_BLOCK_PENDING_FREE)
        count->pending++;
    if (block->state != VW_BLOCK_FREE) {
        count->active[kind]++;
        count->active_bytes[kind] += (int64_t)block->size_bytes;
        count->requested_bytes[kind] += (int64_t)block->requested_bytes;
    }
    return true;
}

static vw_status compare(const char *name, const vw__counter *counter, const int64_t expected[2])
{
    for (int kind = VW__ENGINE_SMALL; kind <= VW__ENGINE_LARGE; kind++)
        if (counter->current[kind] != expected[kind] ||
            counter->peak[kind] < counter->current[kind] ||
            counter->peak_all <
                counter->current[VW__ENGINE_SMALL] + counter->current[VW__ENGINE_LARGE])
            return vw__fail(VW_ERR_WRONG_STATE,
                            "%s says %" PRId64 " (peak %" PRId64 "), the %s blocks say %" PRId64,
                            name, counter->current[kind], counter->peak[kind],
                            kind == VW__ENGINE_SMALL ? "small" : "large", expected[kind]);
    return VW_OK;
}

static vw_status check_files(const vw_pool *pool)
{
    size_t cursor = 0;
    for (const vw__block *block; (block = vw__block_map_next(&pool->live, &cursor)) != NULL;)
        if (block->state != VW__BLOCK_LIVE ||
            vw__block_map_get(&pool->live, block->address) != block)
            return vw__fail(VW_ERR_WRONG_STATE,
                            "block %#" PRIx64 " is filed and not live, or under another address",
                            block->address);
    return VW_OK;
}

static vw_status check(const vw_pool *pool)
{
    const vw__counters *counters = &pool->counters;
    census count = {.pool = pool};
    const vw_walker walker = {.context = &count, .block = count_block};
    VW__TRY(pool->engine->table->check(pool->engine));
    VW__TRY(check_files(pool));
    if (pool->has_sink && (pool->cause.request != 0 || pool->cause.caller != NULL))
        return vw__fail(VW_ERR_WRONG_STATE, "request %" PRIu64 " is told to listeners as going on",
                        pool->cause.request);
    pool->engine->table->walk(pool->engine, &walker);
    if (count.misfiled != VW_NULL)
        return vw__fail(VW_ERR_WRONG_STATE,
                        "block %#" PRIx64 " is live and not filed, or filed and not live",
                        count.misfiled);
    if ((uint64_t)(count.live[VW__ENGINE_SMALL] + count.live[VW__ENGINE_LARGE]) !=
        vw__block_map_count(&pool->live))
        return vw__fail(VW_ERR_WRONG_STATE, "%zu blocks are filed, %" PRId64 " are live",
                        vw__block_map_count(&pool->live),
                        count.live[VW__ENGINE_SMALL] + count.live[VW__ENGINE_LARGE]);
    VW__TRY(compare("allocation", &counters->allocation, count.live));
    VW__TRY(compare("allocated_bytes", &counters->allocated_bytes, count.live_bytes));
    VW__TRY(compare("active", &counters->active, count.active));
    VW__TRY(compare("active_bytes", &counters->active_bytes, count.active_bytes));
    VW__TRY(compare("requested_bytes", &counters->requested_bytes, count.requested_bytes));
    const char *wrong = vw__stream_order_check(pool);
    if (wrong != NULL)
        return vw__fail(VW_ERR_WRONG_STATE, "%s", wrong);
    if (count.pending != pool->order.pending_count)
        return vw__fail(VW_ERR_WRONG_STATE, "%zu blocks are pending, %zu are waited for",
                        count.pending, pool->order.pending_count);
    return VW_OK;
}

vw_status vw_pool_check(vw_pool *pool)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    vw_status status = check(pool);
    vw__pool_unlock(pool);
    return status;
}
