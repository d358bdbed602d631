/* spill_limits.c - what a pool may be told to spill, held against the machine before it begins.
 *
 * The host's free memory and the limit of its control group are the machine's to keep: to lock more
 * is refused. `ulimit -l` is kept by whoever locks. Some drivers do, others lock pages in the
 * kernel, on nobody's account; and where the limit is the usual few MiB the difference decides
 * whether anything can be spilled at all. So a small limit is tried: a handle just beyond it is
 * made, and given back. One that somebody set so high that trying would take long is believed. */
#include "engine/paged/paged_spill.h"

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_limits.h"
#include "device/device_table.h" /* vw__device_has_host_handles */

#define MOST_TRIED_BYTES (UINT64_C(256) << 20) /* takes a tenth of a second */

/* Does the device keep to `ulimit -l`? */
static bool keeps_to(const vw_device *device, uint64_t locked_bytes)
{
    uint64_t granularity_bytes = device->properties.granularity_bytes;
    vw_handle handle = 0;
    if (locked_bytes > MOST_TRIED_BYTES)
        return true;
    uint64_t beyond_bytes = vw__align_down_u64(locked_bytes, granularity_bytes) + granularity_bytes;
    if (device->table->create_on_host(device->context, beyond_bytes, &handle) != VW_OK)
        return true;
    (void)device->table->release(device->context, handle);
    return false;
}

vw_status vw__paged_check_spill(const vw_device *device, const vw_pool_options *options)
{
    vw__host_limits limits;
    if (options->spill_ahead_bytes > options->spill_bytes)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "a spill_ahead_bytes of %llu, more than the spill_bytes of %llu",
                        (unsigned long long)options->spill_ahead_bytes,
                        (unsigned long long)options->spill_bytes);
    if (options->spill_bytes == 0)
        return VW_OK;
    if (!vw__device_has_host_handles(device))
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "device %s cannot use host memory in the place of its own: nothing can be "
                        "spilled",
                        device->properties.name);
    if (!device->properties.has_bytes) /* there is no memory behind it */
        return VW_OK;
    vw__host_limits_read("", &limits);
    bool is_locking =
        options->spill_bytes > limits.locked_bytes && keeps_to(device, limits.locked_bytes);
    return vw__host_limits_check(&limits, "a spill_bytes", options->spill_bytes, is_locking);
}
