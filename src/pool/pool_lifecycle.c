/* pool_lifecycle.c - making and ending pools, and what can be set while they run. */
#include "pool/pool.h"

#include <string.h>

#include "headroom/live.h"
#include "base/host_memory.h"
#include "engine/paged/paged_engine.h" /* hr__paged_engine_create */
#include "engine/torch/torch_engine.h" /* hr__torch_engine_create */

/* ---- what the engine asks of its pool -------------------------------------------------------- */

static void pass_notice(void *context, const hr_memory_event *event)
{
    hr__pool_tell(context, *event);
}

static hr_status finish_pending(void *context, const hr_private_id *only)
{
    return hr__stream_order_finish(context, only);
}

static hr__cause pause_lock(void *context)
{
    return hr__pool_pause(context);
}

static void resume_lock(void *context, hr__cause cause)
{
    hr__pool_resume(context, cause);
}

static bool reclaim(void *context)
{
    hr_pool *pool = context;
    if (pool->reclaim == NULL)
        return false;
    hr__cause cause = hr__pool_pause(pool);
    bool is_worth_while = pool->reclaim(pool->reclaim_context);
    hr__pool_resume(pool, cause);
    return is_worth_while;
}

static bool enter_safe_point(void *context)
{
    hr_pool *pool = context;
    if (pool->safe_point.enter == NULL)
        return false;
    hr__cause cause = hr__pool_pause(pool);
    bool is_granted = pool->safe_point.enter(pool->safe_point.context);
    hr__pool_resume(pool, cause);
    return is_granted;
}

static void leave_safe_point(void *context)
{
    const hr_pool *pool = context;
    pool->safe_point.leave(pool->safe_point.context);
}

/* ---- create and destroy ---------------------------------------------------------------------- */

/* One line per engine. Without virtual memory there are no pages to move: plain segments serve. */
static hr_status create_engine(const hr__engine_owner *owner, const hr_pool_options *options,
                               hr__engine **out, bool *is_fallback)
{
    int version = HR__TORCH_DEFAULT_VERSION;
    bool is_torch = options->engine == NULL || strcmp(options->engine, "torch") == 0;
    if (options->torch_version != NULL)
        HR__TRY(hr__torch_parse_version(options->torch_version, &version));
    if (is_torch && options->spill_bytes != 0)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "a spill_bytes of %llu for engine \"torch\", which spills nothing",
                        (unsigned long long)options->spill_bytes);
    if (!is_torch && owner->device->properties.has_virtual_memory)
        return hr__paged_engine_create(owner, options, version, out);
    if (!is_torch)
        HR__TRY(hr__paged_check_options(owner, options));
    *is_fallback = !is_torch;
    return hr__torch_engine_create(owner, options, version, out);
}

hr_status hr_pool_create(hr_device *device, const hr_pool_options *options, hr_pool **out)
{
    static const hr_pool_options defaults = {.struct_size = sizeof defaults};
    if (device == NULL || out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a device and a place for the pool");
    if (options == NULL)
        options = &defaults;
    if (options->struct_size < sizeof *options)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "options of %zu bytes, expected at least %zu",
                        options->struct_size, sizeof *options);
    if ((options->safe_point.enter == NULL) != (options->safe_point.leave == NULL))
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "expected a safe point with both enter and leave, or neither");

    hr__fork_guard_start();
    bool is_listed = !options->is_unlisted && hr_live_is_wanted();
    hr_pool *pool = hr__host_alloc_aligned(_Alignof(hr_pool), sizeof *pool);
    if (pool == NULL)
        return hr__fail_host_memory(sizeof *pool, "a pool");
    memset(pool, 0, sizeof *pool);
    hr__mutex_init(&pool->lock, HR__LOCK_POOL);
    hr__address_map_init(&pool->live);
    hr__stream_order_init(&pool->order);
    pool->fork_generation = hr__fork_generation();
    pool->device = device;
    pool->reclaim = options->reclaim;
    pool->reclaim_context = options->reclaim_context;
    pool->safe_point = options->safe_point;
    pool->is_shareable = options->is_shareable;

    const hr__engine_owner owner = {
        .context = pool,
        .counters = &pool->counters,
        .device = device,
        .driver_meter = is_listed ? &pool->driver_meter : NULL,
        .has_listener = &pool->has_sink,
        .notice = pass_notice,
        .finish_pending = finish_pending,
        .reclaim = reclaim,
        .pause_lock = pause_lock,
        .resume_lock = resume_lock,
        .enter_safe_point = enter_safe_point,
        .leave_safe_point = leave_safe_point,
    };
    hr_status status = create_engine(&owner, options, &pool->engine, &pool->is_fallback);
    if (status != HR_OK) {
        hr__host_free(pool);
        return status;
    }
    pool->max_split_at_creation = (int64_t)pool->engine->max_split_bytes; /* unlimited: -1 */
    pool->is_paged = pool->engine->table->paged_stats != NULL;
    pool->listing = (hr__listing){.pool = pool, .device = device};
    if (is_listed)
        hr__listing_add(&pool->listing, pool->engine->table->name);
    *out = pool;
    return HR_OK;
}

void hr_pool_destroy(hr_pool *pool)
{
    if (pool == NULL || pool->fork_generation != hr__fork_generation())
        return; /* the parent's memory is not ours to give back */
    hr__listing_remove(&pool->listing);
    hr__stream_order_deinit(pool);
    pool->engine->table->destroy(pool->engine);
    hr__address_map_deinit(&pool->live);
    hr__host_free(pool);
}

/* ---- while it runs --------------------------------------------------------------------------- */

HR__NAMED_CALL hr_status hr_pool_trim(hr_pool *pool)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr__pool_begin_call(pool, __builtin_return_address(0));
    hr_status status = pool->engine->table->trim(pool->engine, NULL);
    hr__pool_end_cause(pool);
    hr__pool_unlock(pool);
    return status;
}

hr_status hr_pool_set_fraction(hr_pool *pool, double fraction)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr_status status = pool->engine->table->set_fraction(pool->engine, fraction);
    hr__pool_unlock(pool);
    return status;
}

double hr_pool_get_fraction(const hr_pool *pool)
{
    if (hr__pool_enter(pool) != HR_OK)
        return 1.0;
    hr__pool_lock(pool);
    double fraction = pool->engine->fraction;
    hr__pool_unlock(pool);
    return fraction;
}

hr_status hr_pool_configure(hr_pool *pool, const char *conf)
{
    HR__TRY(hr__pool_enter(pool));
    hr__pool_lock(pool);
    hr_status status = pool->engine->table->configure(pool->engine, conf);
    hr__pool_unlock(pool);
    return status;
}
