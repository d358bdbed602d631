/* pool_paged.c - what only an engine that moves memory has: pinned blocks, advice, steps, and its
 * statistics.
 *
 * The engine's table leaves the entries out where nothing moves. Pinning then asks for nothing, so
 * it succeeds, and a program need not know which engine it runs on; statistics of moves there are
 * none. */
#include "pool/pool.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked_math.h" /* hr__min_u64 */

static hr_status not_live(hr_device_ptr address)
{
    return hr__fail(HR_ERR_UNKNOWN_ADDRESS,
                    "%#" PRIx64 " is not the start of a live block of this pool", address);
}

hr_status hr_pool_pin(hr_pool *pool, hr_device_ptr address)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    const hr__engine_table *table = pool->engine->table;
    hr__block *block = hr__address_map_get(&pool->live, address);
    hr_status status = HR_OK;
    if (block != NULL && table->pin != NULL)
        status = table->pin(pool->engine, block);
    hr__pool_unlock(pool);
    return block != NULL ? status : not_live(address);
}

hr_status hr_pool_unpin(hr_pool *pool, hr_device_ptr address)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    const hr__engine_table *table = pool->engine->table;
    hr_status status = table->unpin != NULL ? table->unpin(pool->engine, address) : HR_OK;
    hr__pool_unlock(pool);
    return status;
}

hr_status hr_advise(hr_pool *pool, hr_device_ptr address, hr_advice advice)
{
    HR__TRY(hr__pool_enter(pool));
    if (advice != HR_ADVISE_NORMAL && advice != HR_ADVISE_COLD && advice != HR_ADVISE_HOT)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "advice %d, expected HR_ADVISE_NORMAL, _COLD or "
                        "_HOT",
                        (int)advice);
    hr__pool_lock(pool);
    const hr__engine_table *table = pool->engine->table;
    hr__block *block = hr__address_map_get(&pool->live, address);
    if (block != NULL && table->advise != NULL)
        table->advise(pool->engine, block, advice);
    hr__pool_unlock(pool);
    return block != NULL ? HR_OK : not_live(address);
}

HR__NAMED_CALL hr_status hr_pool_mark_step(hr_pool *pool)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr__pool_begin_call(pool, __builtin_return_address(0));
    const hr__engine_table *table = pool->engine->table;
    hr_status status = table->mark_step != NULL ? table->mark_step(pool->engine) : HR_OK;
    hr__pool_end_cause(pool);
    hr__pool_unlock(pool);
    return status;
}

hr_status hr_pool_get_paged_stats(const hr_pool *pool, hr_paged_stats *stats)
{
    HR__TRY(hr__pool_enter(pool));
    size_t smallest = offsetof(hr_paged_stats, is_failed) + sizeof stats->is_failed;
    if (stats == NULL || stats->struct_size < smallest)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected statistics with a struct_size of %zu or more, found %zu",
                        smallest, stats != NULL ? stats->struct_size : 0);
    hr_paged_stats all = {.struct_size = stats->struct_size, .is_fallback = pool->is_fallback};
    hr__pool_lock(pool);
    const hr__engine_table *table = pool->engine->table;
    if (table->paged_stats != NULL)
        table->paged_stats(pool->engine, &all);
    hr__pool_unlock(pool);
    if (table->paged_stats == NULL && !pool->is_fallback)
        return hr__fail(HR_ERR_UNSUPPORTED, "engine \"%s\" moves no memory", table->name);
    memcpy(stats, &all, (size_t)hr__min_u64(stats->struct_size, sizeof all));
    return HR_OK;
}
