/* pool_lifecycle.c - making and ending pools, and what can be set while they run. */
#include "pool/pool.h"

#include <string.h>

#include "vramwise/live.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "device/device_table.h"

/* ---- what the engine asks of its pool -------------------------------------------------------- */

static void pass_notice(void *context, const vw_memory_event *event)
{
    vw__pool_tell(context, *event);
}

static vw_status finish_pending(void *context, const vw_private_id *only)
{
    return vw__stream_order_finish(context, only);
}

static vw__engine_cause pause_lock(void *context)
{
    return vw__pool_pause(context);
}

static void resume_lock(void *context, vw__engine_cause cause)
{
    vw__pool_resume(context, cause);
}

static bool reclaim(void *context)
{
    vw_pool *pool = context;
    if (pool->reclaim == NULL)
        return false;
    vw__engine_cause cause = vw__pool_pause(pool);
    bool is_worth_while = pool->reclaim(pool->reclaim_context);
    vw__pool_resume(pool, cause);
    return is_worth_while;
}

static bool make_room(void *context, uint64_t size_bytes)
{
    vw_pool *pool = context;
    vw__engine_cause cause = vw__pool_pause(pool);
    bool is_worth_while = pool->make_room(pool->make_room_context, size_bytes);
    vw__pool_resume(pool, cause);
    return is_worth_while;
}

static bool enter_safe_point(void *context)
{
    vw_pool *pool = context;
    if (pool->safe_point.enter == NULL)
        return false;
    vw__engine_cause cause = vw__pool_pause(pool);
    bool is_granted = pool->safe_point.enter(pool->safe_point.context);
    vw__pool_resume(pool, cause);
    return is_granted;
}

static void leave_safe_point(void *context)
{
    const vw_pool *pool = context;
    pool->safe_point.leave(pool->safe_point.context);
}

static void prepare_safe_point(void *context)
{
    vw_pool *pool = context;
    vw__engine_cause cause = vw__pool_pause(pool);
    pool->prepare_safe_point(pool->safe_point.context);
    vw__pool_resume(pool, cause);
}

static vw_status open_host_lender(void *context, vw__lender *out)
{
    vw_pool *pool = context;
    VW__TRY(vw__stock_create(pool->device, VW__STOCK_HANDLES, pool->pinned_budget,
                             pool->spill_bytes, &pool->host_stock));
    *out = vw__stock_lender(pool->host_stock);
    return VW_OK;
}

/* ---- create and destroy ---------------------------------------------------------------------- */

/* Fills `*used` with the caller's options, and with defaults where they end early. */
static vw_status check_options(const vw_device *device, const vw_pool_options *options,
                               vw_pool *const *out, vw_pool_options *used)
{
    if (device == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a device and a place for the pool");
    VW__TRY(vw__device_check(device));
    VW__TRY(VW__STRUCT_IN(vw_pool_options, options, used));
    if ((used->safe_point.enter == NULL) != (used->safe_point.leave == NULL))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a safe point with both enter and leave, or neither");
    if ((used->park_guard.hold == NULL) != (used->park_guard.let_go == NULL))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a park guard with both hold and let_go, or neither");
    return VW_OK;
}

static vw_status create_engine(vw_pool *pool, const vw__engine_kind *kind,
                               const vw_pool_options *options, bool is_listed)
{
    const vw__engine_owner owner = {
        .context = pool,
        .counters = &pool->counters,
        .device = pool->device,
        .driver_meter = is_listed ? &pool->driver_meter : NULL,
        .keep_free_bytes = pool->keep_free_bytes,
        .has_listener = &pool->has_sink,
        .notice = pass_notice,
        .finish_pending = finish_pending,
        .reclaim = reclaim,
        .make_room = pool->make_room != NULL ? make_room : NULL,
        .pause_lock = pause_lock,
        .resume_lock = resume_lock,
        .enter_safe_point = enter_safe_point,
        .leave_safe_point = leave_safe_point,
        .prepare_safe_point = pool->prepare_safe_point != NULL ? prepare_safe_point : NULL,
        .open_host_lender = open_host_lender,
        .hold_launches = vw__pool_hold_launches,
        .let_launches_go = vw__pool_let_launches_go,
    };
    VW__TRY(vw__torch_rules_of(options->torch_version, &pool->wording));
    if (kind == NULL)
        VW__TRY(vw__engine_kind_of(options->engine, &kind));
    VW__TRY(vw__engine_create(kind, &owner, options, &pool->engine));
    pool->engine_name = pool->engine->table->name;
    return VW_OK;
}

vw_status vw__pool_create(vw_device *device, const vw_pool_options *options,
                          const vw__engine_kind *kind, vw_pool **out)
{
    vw_pool_options used = {.struct_size = sizeof used};
    uint64_t keep_free_bytes = 0;
    VW__TRY(check_options(device, options, out, &used));
    VW__TRY(vw__keep_free_read(device, used.keep_free, &keep_free_bytes));

    vw__fork_guard_start();
    bool is_listed = !used.is_unlisted && vw_live_is_wanted();
    vw_pool *pool = vw__host_alloc_aligned(_Alignof(vw_pool), sizeof *pool);
    if (pool == NULL)
        return vw__fail_host_memory(sizeof *pool, "a pool");
    memset(pool, 0, sizeof *pool);
    vw__mutex_init(&pool->lock, VW__LOCK_POOL);
    vw__block_map_init(&pool->live);
    vw__stream_order_init(&pool->order);
    pool->fork_generation = vw__fork_generation();
    pool->device = device;
    pool->reclaim = used.reclaim;
    pool->reclaim_context = used.reclaim_context;
    pool->make_room = used.make_room;
    pool->make_room_context = used.make_room_context;
    pool->safe_point = used.safe_point;
    pool->prepare_safe_point = used.prepare_safe_point;
    pool->is_shareable = used.is_shareable;
    pool->pinned_budget = used.pinned_budget;
    pool->spill_bytes = used.spill_bytes;
    pool->keep_free_bytes = keep_free_bytes;
    vw__pool_begin_parking(pool, &used.park_guard);

    vw_status status = create_engine(pool, kind, &used, is_listed);
    if (status != VW_OK) {
        vw__stock_destroy(pool->host_stock);
        vw__pool_end_parking(pool);
        vw__host_free(pool);
        return status;
    }
    pool->max_split_at_creation = (int64_t)pool->engine->max_split_bytes; /* unlimited: -1 */
    pool->listing = (vw__listing){.pool = pool, .device = device};
    if (is_listed)
        vw__listing_add(&pool->listing, pool->engine_name);
    if (keep_free_bytes != 0)
        status = vw__keep_free_start(pool, keep_free_bytes, &pool->keeper);
    if (status != VW_OK) {
        vw_pool_destroy(pool);
        return status;
    }
    *out = pool;
    return VW_OK;
}

vw_status vw_pool_create(vw_device *device, const vw_pool_options *options, vw_pool **out)
{
    return vw__pool_create(device, options, NULL, out);
}

void vw_pool_destroy(vw_pool *pool)
{
    if (pool == NULL || pool->fork_generation != vw__fork_generation())
        return; /* the parent's memory is not ours to give back */
    if (!vw__keep_free_stop(pool->keeper))
        return;
    vw__listing_remove(&pool->listing);
    vw__stream_order_deinit(pool);
    pool->engine->table->destroy(pool->engine);
    vw__stock_destroy(pool->host_stock);
    vw__pool_end_parking(pool);
    vw__block_map_deinit(&pool->live);
    vw__host_free(pool);
}

/* ---- while it runs --------------------------------------------------------------------------- */

vw_status vw__pool_unsupported(const vw_pool *pool, const char *what)
{
    return vw__fail(VW_ERR_UNSUPPORTED, "engine \"%s\" has no %s", pool->engine_name, what);
}

VW__POOL_NAMED_CALL vw_status vw_pool_trim(vw_pool *pool)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    vw__pool_begin_call(pool, __builtin_return_address(0));
    vw_status status = pool->engine->table->trim(pool->engine, NULL);
    vw__pool_end_cause(pool);
    vw__pool_unlock(pool);
    vw__keep_free_wake(pool->keeper);
    return status;
}

vw_status vw_pool_set_fraction(vw_pool *pool, double fraction)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->set_fraction != NULL ? table->set_fraction(pool->engine, fraction)
                                                   : vw__pool_unsupported(pool, "memory limits");
    vw__pool_unlock(pool);
    return status;
}

double vw_pool_get_fraction(const vw_pool *pool)
{
    if (vw__pool_enter(pool) != VW_OK)
        return 1.0;
    vw__pool_lock(pool);
    double fraction = pool->engine->fraction;
    vw__pool_unlock(pool);
    return fraction;
}

vw_status vw_pool_configure(vw_pool *pool, const char *conf)
{
    VW__TRY(vw__pool_enter(pool));
    vw__pool_lock(pool);
    const vw__engine_table *table = pool->engine->table;
    vw_status status = table->configure != NULL ? table->configure(pool->engine, conf)
                                                : vw__pool_unsupported(pool, "settings");
    vw__pool_unlock(pool);
    return status;
}
