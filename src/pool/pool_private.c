/* pool_private.c - private pools: the engine's, under the pool's lock. */
#include "pool/pool.h"

static const char what[] = "private pools";

vw_status vw_private_pool_retain(vw_pool *pool, vw_private_id id, const vw_private_options *options)
{
    VW__TRY(vw__pool_enter(pool));
    if (options != NULL && (options->struct_size < sizeof *options ||
                            (options->take == NULL) != (options->give_back == NULL)))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected options of %zu bytes with both take and give_back, or neither",
                        sizeof *options);
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->private_retain != NULL
                           ? table->private_retain(pool->engine, id, options)
                           : vw__pool_unsupported(pool, what);
    vw__pool_unlock(pool);
    return status;
}

vw_status vw_private_pool_begin(vw_pool *pool, vw_private_id id, vw_scope_filter filter,
                                void *context)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->scope_begin != NULL
                           ? table->scope_begin(pool->engine, id, filter, context)
                           : vw__pool_unsupported(pool, what);
    vw__pool_unlock(pool);
    return status;
}

vw_status vw_private_pool_end(vw_pool *pool, vw_private_id id)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->scope_end != NULL ? table->scope_end(pool->engine, id)
                                                : vw__pool_unsupported(pool, what);
    vw__pool_unlock(pool);
    return status;
}

vw_status vw_private_pool_release(vw_pool *pool, vw_private_id id)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->private_release != NULL ? table->private_release(pool->engine, id)
                                                      : vw__pool_unsupported(pool, what);
    vw__pool_unlock(pool);
    return status;
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
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->private_set != NULL
                           ? table->private_set(pool->engine, id, use_on_oom, no_split)
                           : vw__pool_unsupported(pool, what);
    vw__pool_unlock(pool);
    return status;
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
