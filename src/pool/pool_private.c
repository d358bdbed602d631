/* pool_private.c - private pools: the engine's, under the pool's lock. */
#include "pool/pool.h"

#include "base/struct_size.h"

/* Takes the lock of a pool whose engine has private pools. */
static vw_status begin(const vw_pool *pool)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    if (pool->engine->table->private_retain != NULL)
        return VW_OK;
    vw_status status = vw__pool_unsupported(pool, "private pools");
    vw__pool_unlock(pool);
    return status;
}

static vw_status end(const vw_pool *pool, vw_status status)
{
    vw__pool_unlock(pool);
    return status;
}

vw_status vw_private_pool_retain(vw_pool *pool, vw_private_id id, const vw_private_options *options)
{
    VW__TRY(vw__pool_enter(pool));
    vw_private_options used = {.struct_size = sizeof used};
    VW__TRY(VW__STRUCT_IN(vw_private_options, options, &used));
    if ((used.take == NULL) != (used.give_back == NULL))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected options with both take and give_back, or neither");
    VW__TRY(begin(pool));
    return end(pool, pool->engine->table->private_retain(pool->engine, id, &used));
}

vw_status vw_private_pool_begin(vw_pool *pool, vw_private_id id, vw_scope_filter filter,
                                void *context)
{
    VW__TRY(begin(pool));
    return end(pool, pool->engine->table->scope_begin(pool->engine, id, filter, context));
}

vw_status vw_private_pool_end(vw_pool *pool, vw_private_id id)
{
    VW__TRY(begin(pool));
    vw_status status = pool->engine->table->scope_end(pool->engine, id);
    if (status == VW_OK)
        vw__stream_order_end_scope(pool, id);
    return end(pool, status);
}

vw_status vw_private_pool_release(vw_pool *pool, vw_private_id id)
{
    VW__TRY(begin(pool));
    return end(pool, pool->engine->table->private_release(pool->engine, id));
}

int vw_private_pool_use_count(const vw_pool *pool, vw_private_id id)
{
    if (vw__pool_enter(pool) != VW_OK)
        return 0;
    vw__pool_lock(pool);
    int count = vw__pool_use_count(pool, id);
    vw__pool_unlock(pool);
    return count;
}

static vw_status set(vw_pool *pool, vw_private_id id, const bool *use_on_oom, const bool *no_split)
{
    VW__TRY(begin(pool));
    return end(pool, pool->engine->table->private_set(pool->engine, id, use_on_oom, no_split));
}

vw_status vw_private_pool_set_use_on_oom(vw_pool *pool, vw_private_id id, bool use_on_oom)
{
    return set(pool, id, &use_on_oom, NULL);
}

vw_status vw_private_pool_set_no_split(vw_pool *pool, vw_private_id id, bool no_split)
{
    return set(pool, id, NULL, &no_split);
}

VW__POOL_NAMED_CALL vw_status vw_private_pool_trim(vw_pool *pool, vw_private_id id)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    vw__pool_begin_call(pool, __builtin_return_address(0));
    vw_status status = pool->engine->table->trim(pool->engine, &id);
    vw__pool_end_cause(pool);
    vw__pool_unlock(pool);
    return status;
}
