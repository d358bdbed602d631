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
#include "device/device_table.h" /* hr__device_has_host_handles */

#define MOST_TRIED_BYTES (UINT64_C(256) << 20) /* takes a tenth of a second */

/* Does the device keep to `ulimit -l`? */
static bool keeps_to(const hr_device *device, uint64_t locked_bytes)
{
    uint64_t granularity_bytes = device->properties.granularity_bytes;
    hr_handle handle = 0;
    if (locked_bytes > MOST_TRIED_BYTES)
        return true;
    uint64_t beyond_bytes = hr__align_down_u64(locked_bytes, granularity_bytes) + granularity_bytes;
    if (device->table->create_on_host(device->context, beyond_bytes, &handle) != HR_OK)
        return true;
    (void)device->table->release(device->context, handle);
    return false;
}

hr_status hr__paged_check_spill(const hr_device *device, const hr_pool_options *options)
{
    hr__host_limits limits;
    if (options->spill_ahead_bytes > options->spill_bytes)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "a spill_ahead_bytes of %llu, more than the spill_bytes of %llu",
                        (unsigned long long)options->spill_ahead_bytes,
                        (unsigned long long)options->spill_bytes);
    if (options->spill_bytes == 0)
        return HR_OK;
    if (!hr__device_has_host_handles(device))
        return hr__fail(HR_ERR_UNSUPPORTED,
                        "device %s cannot use host memory in the place of its own: nothing can be "
                        "spilled",
                        device->properties.name);
    if (!device->properties.has_bytes) /* there is no memory behind it */
        return HR_OK;
    hr__host_limits_read("", &limits);
    bool is_locking =
        options->spill_bytes > limits.locked_bytes && keeps_to(device, limits.locked_bytes);
    return hr__host_limits_check(&limits, "a spill_bytes", options->spill_bytes, is_locking);
}
