/* pool_paged.c - for engines that move memory: pinned blocks, advice, steps, and statistics.
 *
 * The engine's table leaves the entries out where nothing moves. Pinning then asks for nothing, so
 * it succeeds, and a program need not know which engine it runs on. */
#include "pool/pool.h"

#include "base/struct_size.h"

vw_status vw_pool_pin(vw_pool *pool, vw_device_ptr address)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw__block *block = vw__block_map_get(&pool->live, address);
    vw_status status = VW_OK;
    if (block != NULL && table->pin != NULL)
        status = table->pin(pool->engine, block);
    vw__pool_unlock(pool);
    return block != NULL ? status : vw__pool_not_live(address);
}

vw_status vw_pool_unpin(vw_pool *pool, vw_device_ptr address)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->unpin != NULL ? table->unpin(pool->engine, address) : VW_OK;
    vw__pool_unlock(pool);
    return status;
}

vw_status vw_advise(vw_pool *pool, vw_device_ptr address, vw_advice advice)
{
    VW__TRY(vw__pool_enter(pool));
    if (advice != VW_ADVISE_NORMAL && advice != VW_ADVISE_COLD && advice != VW_ADVISE_HOT)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "advice %d, expected VW_ADVISE_NORMAL, _COLD or "
                        "_HOT",
                        (int)advice);
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw__block *block = vw__block_map_get(&pool->live, address);
    if (block != NULL && table->advise != NULL)
        table->advise(pool->engine, block, advice);
    vw__pool_unlock(pool);
    return block != NULL ? VW_OK : vw__pool_not_live(address);
}

VW__POOL_NAMED_CALL vw_status vw_pool_mark_step(vw_pool *pool)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    vw__pool_begin_call(pool, __builtin_return_address(0));
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->mark_step != NULL ? table->mark_step(pool->engine) : VW_OK;
    vw__pool_end_cause(pool);
    vw__pool_unlock(pool);
    return status;
}

static uint64_t held_bytes(vw__stock *stock)
{
    vw__lender_numbers numbers = {.held_bytes = 0};
    if (stock != NULL) {
        vw__lender host = vw__stock_lender(stock);
        host.look(host.context, &numbers);
    }
    return numbers.held_bytes;
}

bool vw__pool_move_stats(const vw_pool *pool, vw_paged_stats *stats)
{
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table; /* it may be another after the lock */
    const bool has_stats = table->move_stats != NULL;
    stats->is_fallback = pool->engine->is_fallback;
    if (has_stats)
        table->move_stats(pool->engine, stats);
    stats->park_host_bytes = held_bytes(pool->parking.regions) + held_bytes(pool->parking.tape);
    vw__pool_unlock(pool);
    return has_stats;
}

vw_status vw_pool_get_paged_stats(const vw_pool *pool, vw_paged_stats *stats)
{
    VW__TRY(vw__pool_enter(pool));
    VW__TRY(VW__STRUCT_CHECK_OUT(vw_paged_stats, stats));
    vw_paged_stats all = {.struct_size = sizeof all};
    if (!vw__pool_move_stats(pool, &all) && !all.is_fallback)
        return vw__fail(VW_ERR_UNSUPPORTED, "engine \"%s\" moves no memory", pool->engine_name);
    VW__STRUCT_OUT(vw_paged_stats, &all, stats);
    return VW_OK;
}
