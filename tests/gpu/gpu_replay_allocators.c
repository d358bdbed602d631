/* gpu_replay_allocators.c - see gpu_replay_allocators.h. */
#include "gpu/gpu_replay_allocators.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h" /* vw__fail, VW__TRY */

const replay_policy replay_policies[] = {
    {.name = "cuMemAlloc"},
    {.name = "cuMemAllocAsync", .is_async = true},
    {.name = "cuMemAllocAsync:keep", .is_async = true, .keeps_all = true},
    {.name = "native", .engine = "torch", .conf = ""},
    {.name = "expandable", .engine = "torch", .conf = "expandable_segments:True"},
    {.name = "vramwise", .engine = "vramwise", .conf = ""},
    {.name = "vramwise:rescue", .engine = "vramwise:rescue", .conf = ""},
    {.name = "vramwise:tight", .engine = "vramwise:tight", .conf = ""},
    {.name = NULL},
};

const replay_policy *replay_policy_find(const char *name)
{
    for (const replay_policy *policy = replay_policies; policy->name != NULL; policy++)
        if (strcmp(policy->name, name) == 0)
            return policy;
    return NULL;
}

/* ---- what the driver's allocators have no use for -------------------------------------------- */

static vw_status nothing_to_trim(void *context)
{
    (void)context;
    return VW_OK;
}

static vw_status no_private_pools(void *context, vw_private_id id)
{
    (void)context;
    (void)id;
    return VW_OK;
}

static vw_status says_nothing(void *context, replay_use *out)
{
    (void)context;
    *out = (replay_use){.peak_reserved_bytes = UINT64_MAX};
    return VW_OK;
}

/* ---- cuMemAlloc ------------------------------------------------------------------------------ */

/* The context is the device itself. */
static vw_status plain_alloc(void *context, uint64_t size_bytes, vw_stream stream,
                             vw_device_ptr *out)
{
    const vw_device *device = context;
    (void)stream;
    return device->table->take(device->context, size_bytes, out);
}

/* cuMemFree waits for all that is queued, on whatever stream. */
static vw_status plain_free(void *context, vw_device_ptr address, vw_stream stream)
{
    const vw_device *device = context;
    (void)stream;
    return device->table->give_back(device->context, address);
}

static vw_status plain_free_used(void *context, vw_device_ptr address, vw_stream stream,
                                 vw_stream user)
{
    (void)user;
    return plain_free(context, address, stream);
}

static void plain_destroy(void *context)
{
    (void)context;
}

static const replay_allocator_table plain_table = {
    .alloc = plain_alloc,
    .free = plain_free,
    .free_used = plain_free_used,
    .trim = nothing_to_trim,
    .enter = no_private_pools,
    .leave_for_good = no_private_pools,
    .get_use = says_nothing,
    .destroy = plain_destroy,
};

/* ---- cuMemAllocAsync ------------------------------------------------------------------------- */

typedef struct async_allocator {
    const replay_driver *driver;
    replay_mempool pool; /* the device's default one */
} async_allocator;

static vw__cuda_stream stream_of(vw_stream stream)
{
    return (vw__cuda_stream)(uintptr_t)stream;
}

static vw_status async_alloc(void *context, uint64_t size_bytes, vw_stream stream,
                             vw_device_ptr *out)
{
    const async_allocator *async = context;
    vw__cuda_ptr address = 0;
    VW__TRY(replay_driver_result(
        async->driver,
        async->driver->cuMemAllocAsync(&address, (size_t)size_bytes, stream_of(stream)),
        "cuMemAllocAsync()"));
    *out = address;
    return VW_OK;
}

static vw_status async_free(void *context, vw_device_ptr address, vw_stream stream)
{
    const async_allocator *async = context;
    return replay_driver_result(async->driver,
                                async->driver->cuMemFreeAsync(address, stream_of(stream)),
                                "cuMemFreeAsync()");
}

/* The user's stream waited for the block's own before it began: freed there, all work is before. */
static vw_status async_free_used(void *context, vw_device_ptr address, vw_stream stream,
                                 vw_stream user)
{
    (void)stream;
    return async_free(context, address, user);
}

/* What PyTorch's backend on this allocator does for empty_cache(). */
static vw_status async_trim(void *context)
{
    const async_allocator *async = context;
    const replay_driver *driver = async->driver;
    VW__TRY(replay_driver_result(driver, driver->base->cuCtxSynchronize(), "cuCtxSynchronize()"));
    return replay_driver_result(driver, driver->cuMemPoolTrimTo(async->pool, 0),
                                "cuMemPoolTrimTo()");
}

static vw_status async_set(const async_allocator *async, int attribute, uint64_t value)
{
    return replay_driver_result(
        async->driver, async->driver->cuMemPoolSetAttribute(async->pool, attribute, &value),
        "cuMemPoolSetAttribute()");
}

static vw_status async_get_use(void *context, replay_use *out)
{
    const async_allocator *async = context;
    uint64_t high_bytes = 0;
    VW__TRY(replay_driver_result(async->driver,
                                 async->driver->cuMemPoolGetAttribute(
                                     async->pool, REPLAY_MEMPOOL_RESERVED_HIGH, &high_bytes),
                                 "cuMemPoolGetAttribute()"));
    *out = (replay_use){.peak_reserved_bytes = high_bytes};
    return VW_OK;
}

static void async_destroy(void *context)
{
    async_allocator *async = context;
    (void)async_set(async, REPLAY_MEMPOOL_RELEASE_THRESHOLD, 0);
    (void)async_trim(async);
    free(async);
}

static const replay_allocator_table async_table = {
    .alloc = async_alloc,
    .free = async_free,
    .free_used = async_free_used,
    .trim = async_trim,
    .enter = no_private_pools,
    .leave_for_good = no_private_pools,
    .get_use = async_get_use,
    .destroy = async_destroy,
};

static vw_status async_begin(async_allocator *async, const replay_policy *policy)
{
    const replay_driver *driver = async->driver;
    VW__TRY(replay_driver_result(driver,
                                 driver->cuDeviceGetDefaultMemPool(&async->pool, driver->device),
                                 "cuDeviceGetDefaultMemPool()"));
    VW__TRY(async_trim(async));
    VW__TRY(async_set(async, REPLAY_MEMPOOL_RELEASE_THRESHOLD, policy->keeps_all ? UINT64_MAX : 0));
    return async_set(async, REPLAY_MEMPOOL_RESERVED_HIGH, 0);
}

static vw_status async_make(const replay_policy *policy, const replay_driver *driver,
                            replay_allocator *out)
{
    if (driver == NULL || driver->cuMemAllocAsync == NULL || driver->cuMemFreeAsync == NULL ||
        driver->cuDeviceGetDefaultMemPool == NULL || driver->cuMemPoolSetAttribute == NULL ||
        driver->cuMemPoolGetAttribute == NULL || driver->cuMemPoolTrimTo == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "cuMemAllocAsync: %s has no such thing",
                        driver == NULL ? "the host device" : "this driver");
    async_allocator *async = calloc(1, sizeof *async);
    if (async == NULL)
        return vw__fail_host_memory(sizeof *async, "an allocator");
    async->driver = driver;
    vw_status status = async_begin(async, policy);
    if (status != VW_OK) {
        free(async);
        return status;
    }
    *out = (replay_allocator){.table = &async_table, .context = async};
    return VW_OK;
}

/* ---- pools ----------------------------------------------------------------------------------- */

typedef struct pool_allocator {
    vw_pool *pool;
    vw_private_id scope; /* (0, 0): none */
    uint64_t safe_points;
} pool_allocator;

static bool is_default(vw_private_id id)
{
    return id.first == 0 && id.second == 0;
}

static bool is_same(vw_private_id one, vw_private_id other)
{
    return one.first == other.first && one.second == other.second;
}

static bool grant_safe_point(void *context)
{
    pool_allocator *allocator = context;
    allocator->safe_points++;
    return true;
}

static void end_safe_point(void *context)
{
    (void)context;
}

static vw_status pool_alloc(void *context, uint64_t size_bytes, vw_stream stream,
                            vw_device_ptr *out)
{
    return vw_alloc(((pool_allocator *)context)->pool, size_bytes, stream, out);
}

static vw_status pool_free(void *context, vw_device_ptr address, vw_stream stream)
{
    (void)stream; /* the pool knows */
    return vw_free(((pool_allocator *)context)->pool, address);
}

static vw_status pool_free_used(void *context, vw_device_ptr address, vw_stream stream,
                                vw_stream user)
{
    VW__TRY(vw_record_stream(((pool_allocator *)context)->pool, address, user));
    return pool_free(context, address, stream);
}

static vw_status pool_trim(void *context)
{
    return vw_pool_trim(((pool_allocator *)context)->pool);
}

static vw_status pool_enter(void *context, vw_private_id id)
{
    pool_allocator *allocator = context;
    if (is_same(id, allocator->scope))
        return VW_OK;
    if (!is_default(allocator->scope))
        VW__TRY(vw_private_pool_end(allocator->pool, allocator->scope));
    allocator->scope = (vw_private_id){0, 0};
    if (!is_default(id))
        VW__TRY(vw_private_pool_begin(allocator->pool, id, NULL, NULL));
    allocator->scope = id;
    return VW_OK;
}

/* Every scope that was entered counts as a use of its pool. */
static vw_status pool_leave_for_good(void *context, vw_private_id id)
{
    pool_allocator *allocator = context;
    if (is_same(id, allocator->scope))
        VW__TRY(pool_enter(context, (vw_private_id){0, 0}));
    while (vw_private_pool_use_count(allocator->pool, id) > 0)
        VW__TRY(vw_private_pool_release(allocator->pool, id));
    return VW_OK;
}

static vw_status pool_get_use(void *context, replay_use *out)
{
    const pool_allocator *allocator = context;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    replay_use use = {.safe_points = allocator->safe_points,
                      .paged = {.struct_size = sizeof use.paged}};
    VW__TRY(vw_pool_check(allocator->pool));
    VW__TRY(vw_pool_get_stats(allocator->pool, &stats));
    use.peak_reserved_bytes = (uint64_t)stats.reserved_bytes.all.peak;
    vw_status status = vw_pool_get_paged_stats(allocator->pool, &use.paged);
    use.has_paged_stats = status == VW_OK;
    if (status != VW_OK && status != VW_ERR_UNSUPPORTED)
        return status;
    *out = use;
    return VW_OK;
}

static void pool_destroy(void *context)
{
    pool_allocator *allocator = context;
    vw_pool_destroy(allocator->pool);
    free(allocator);
}

static const replay_allocator_table pool_table = {
    .alloc = pool_alloc,
    .free = pool_free,
    .free_used = pool_free_used,
    .trim = pool_trim,
    .enter = pool_enter,
    .leave_for_good = pool_leave_for_good,
    .get_use = pool_get_use,
    .destroy = pool_destroy,
};

static vw_status pool_begin(pool_allocator *allocator, const replay_policy *policy,
                            vw_device *device, uint64_t card_bytes)
{
    const vw_pool_options options = {
        .struct_size = sizeof options,
        .engine = policy->engine,
        .conf = policy->conf,
        .safe_point = {grant_safe_point, end_safe_point, allocator},
    };
    VW__TRY(vw_pool_create(device, &options, &allocator->pool));
    if (card_bytes == 0)
        return VW_OK;
    uint64_t total_bytes = device->properties.total_bytes;
    if (card_bytes > total_bytes)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "a card of %" PRIu64 " bytes: this device has %" PRIu64, card_bytes,
                        total_bytes);
    return vw_pool_set_fraction(allocator->pool, (double)card_bytes / (double)total_bytes);
}

static vw_status pool_make(const replay_policy *policy, vw_device *device, uint64_t card_bytes,
                           replay_allocator *out)
{
    pool_allocator *allocator = calloc(1, sizeof *allocator);
    if (allocator == NULL)
        return vw__fail_host_memory(sizeof *allocator, "an allocator");
    vw_status status = pool_begin(allocator, policy, device, card_bytes);
    if (status != VW_OK) {
        pool_destroy(allocator);
        return status;
    }
    *out = (replay_allocator){.table = &pool_table, .context = allocator, .has_limit = true};
    return VW_OK;
}

vw_status replay_allocator_make(const replay_policy *policy, vw_device *device,
                                const replay_driver *driver, uint64_t card_bytes,
                                replay_allocator *out)
{
    if (policy->engine != NULL)
        return pool_make(policy, device, card_bytes, out);
    if (policy->is_async)
        return async_make(policy, driver, out);
    *out = (replay_allocator){.table = &plain_table, .context = device};
    return VW_OK;
}
