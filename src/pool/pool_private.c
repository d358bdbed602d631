/* pool_private.c - private pools: the engine's, under the pool's lock. */
#include "pool/pool.h"

hr_status hr_private_pool_retain(hr_pool *pool, hr_private_id id, const hr_private_options *options)
{
    HR__TRY(hr__pool_enter(pool));
    if (options != NULL && (options->struct_size < sizeof *options ||
                            (options->take == NULL) != (options->give_back == NULL)))
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected options of %zu bytes with both take and give_back, or neither",
                        sizeof *options);
    hr__pool_lock(pool);
    hr_status status = pool->engine->table->private_retain(pool->engine, id, options);
    hr__pool_unlock(pool);
    return status;
}

hr_status hr_private_pool_begin(hr_pool *pool, hr_private_id id, hr_scope_filter filter,
                                void *context)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr_status status = pool->engine->table->scope_begin(pool->engine, id, filter, context);
    hr__pool_unlock(pool);
    return status;
}

hr_status hr_private_pool_end(hr_pool *pool, hr_private_id id)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr_status status = pool->engine->table->scope_end(pool->engine, id);
    hr__pool_unlock(pool);
    return status;
}

hr_status hr_private_pool_release(hr_pool *pool, hr_private_id id)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr_status status = pool->engine->table->private_release(pool->engine, id);
    hr__pool_unlock(pool);
    return status;
}

int hr_private_pool_use_count(const hr_pool *pool, hr_private_id id)
{
    if (hr__pool_enter(pool) != HR_OK)
        return 0;
    hr__pool_lock(pool);
    int count = pool->engine->table->private_use_count(pool->engine, id);
    hr__pool_unlock(pool);
    return count;
}

static hr_status set(hr_pool *pool, hr_private_id id, const bool *use_on_oom, const bool *no_split)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr_status status = pool->engine->table->private_set(pool->engine, id, use_on_oom, no_split);
    hr__pool_unlock(pool);
    return status;
}

hr_status hr_private_pool_set_use_on_oom(hr_pool *pool, hr_private_id id, bool use_on_oom)
{
    return set(pool, id, &use_on_oom, NULL);
}

hr_status hr_private_pool_set_no_split(hr_pool *pool, hr_private_id id, bool no_split)
{
    return set(pool, id, NULL, &no_split);
}

HR__NAMED_CALL hr_status hr_private_pool_trim(hr_pool *pool, hr_private_id id)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr__pool_begin_call(pool, __builtin_return_address(0));
    hr_status status = pool->engine->table->trim(pool->engine, &id);
    hr__pool_end_cause(pool);
    hr__pool_unlock(pool);
    return status;
}
