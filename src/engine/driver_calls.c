/* driver_calls.c - look at the clock, call the device, look again. */
#include "engine/driver_calls.h"

#include "base/clock.h"

static uint64_t begin(const vw__engine_owner *owner)
{
    return owner->driver_meter != NULL ? vw__clock_monotonic_ns() : 0;
}

static vw_status end(const vw__engine_owner *owner, uint64_t began_ns, vw_status status)
{
    vw__driver_meter *meter = owner->driver_meter;
    if (meter != NULL) {
        uint64_t elapsed_ns = vw__clock_monotonic_ns() - began_ns;
        atomic_fetch_add_explicit(&meter->call_count, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&meter->elapsed_ns, elapsed_ns, memory_order_relaxed);
    }
    return status;
}

vw_status vw__driver_take(const vw__engine_owner *owner, uint64_t size_bytes, vw_device_ptr *out)
{
    const vw_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->take(device->context, size_bytes, out));
}

vw_status vw__driver_give_back(const vw__engine_owner *owner, vw_device_ptr address)
{
    const vw_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->give_back(device->context, address));
}

vw_status vw__driver_reserve(const vw__engine_owner *owner, uint64_t size_bytes, vw_device_ptr *out)
{
    const vw_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->reserve(device->context, size_bytes, out));
}

vw_status vw__driver_unreserve(const vw__engine_owner *owner, vw_device_ptr address,
                               uint64_t size_bytes)
{
    const vw_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->unreserve(device->context, address, size_bytes));
}

vw_status vw__driver_create(const vw__engine_owner *owner, uint64_t size_bytes, bool is_shareable,
                            vw_handle *out)
{
    const vw_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns,
               is_shareable ? device->table->create_shareable(device->context, size_bytes, out)
                            : device->table->create(device->context, size_bytes, out));
}

vw_status vw__driver_release(const vw__engine_owner *owner, vw_handle handle)
{
    const vw_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->release(device->context, handle));
}

vw_status vw__driver_map(const vw__engine_owner *owner, vw_device_ptr address, uint64_t size_bytes,
                         vw_handle handle)
{
    const vw_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->map(device->context, address, size_bytes, handle));
}

vw_status vw__driver_unmap(const vw__engine_owner *owner, vw_device_ptr address,
                           uint64_t size_bytes)
{
    const vw_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->unmap(device->context, address, size_bytes));
}

vw_status vw__driver_set_access(const vw__engine_owner *owner, vw_device_ptr address,
                                uint64_t size_bytes)
{
    const vw_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->set_access(device->context, address, size_bytes));
}
