/* gpu_replay_allocators.h - the allocators that gpu_replay compares, behind one table.
 *
 *   cuMemAlloc             cuMemAlloc and cuMemFree for every block (the host device: its memory)
 *   cuMemAllocAsync        the driver's stream-ordered pool, as it comes: what is idle goes back to
 *                          the device at every synchronize
 *   cuMemAllocAsync:keep   the same, keeping all (the release threshold at its most)
 *   native, expandable     engine "torch", with PyTorch's defaults and with expandable segments
 *   vramwise, vramwise:rescue, vramwise:tight
 *                          engine "vramwise"; where it asks for a moment to copy live data in, it
 *                          gets one, since gpu_replay has one thread, and that is in the call
 *
 * One thread at a time. */
#ifndef VW_TESTS_GPU_REPLAY_ALLOCATORS_H
#define VW_TESTS_GPU_REPLAY_ALLOCATORS_H

#include "vramwise/vramwise.h"
#include "gpu/gpu_replay_driver.h"

/* What one says of itself. */
typedef struct replay_use {
    uint64_t peak_reserved_bytes; /* UINT64_MAX: it does not say */
    bool has_paged_stats;
    vw_paged_stats paged;
    uint64_t safe_points; /* moments it was granted */
} replay_use;

typedef struct replay_allocator_table {
    vw_status (*alloc)(void *context, uint64_t size_bytes, vw_stream stream, vw_device_ptr *out);

    /* The block's last work is queued: on its own stream, or, by another one, on `user`. */
    vw_status (*free)(void *context, vw_device_ptr address, vw_stream stream);
    vw_status (*free_used)(void *context, vw_device_ptr address, vw_stream stream, vw_stream user);

    vw_status (*trim)(void *context); /* empty_cache() */

    /* Requests from here on belong to private pool `id`, (0, 0) the default one; and: nobody uses
     * it any more. */
    vw_status (*enter)(void *context, vw_private_id id);
    vw_status (*leave_for_good)(void *context, vw_private_id id);

    vw_status (*get_use)(void *context, replay_use *out);
    void (*destroy)(void *context); /* live blocks too, where it knows of them */
} replay_allocator_table;

typedef struct replay_allocator {
    const replay_allocator_table *table;
    void *context;
    bool has_limit; /* it keeps to the card's bytes */
} replay_allocator;

typedef struct replay_policy {
    const char *name;
    const char *engine; /* NULL: the driver's */
    const char *conf;
    bool is_async;
    bool keeps_all;
} replay_policy;

/* All there are, in the order of the table above; ends with a name of NULL. */
extern const replay_policy replay_policies[];

/* NULL: unknown. */
const replay_policy *replay_policy_find(const char *name);

/* Of `card_bytes` at most, where the policy can be held to that; 0: the device's all. `driver` is
 * NULL on the host device.
 *
 * VW_ERR_UNSUPPORTED   cuMemAllocAsync, on a device or with a driver that has none
 * otherwise as vw_pool_create() */
VW_MUST_CHECK vw_status replay_allocator_make(const replay_policy *policy, vw_device *device,
                                              const replay_driver *driver, uint64_t card_bytes,
                                              replay_allocator *out);

#endif /* VW_TESTS_GPU_REPLAY_ALLOCATORS_H */
