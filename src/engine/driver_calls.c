/* driver_calls.c - look at the clock, call the device, look again. */
#include "engine/driver_calls.h"

#include "base/clock.h"

static uint64_t begin(const hr__engine_owner *owner)
{
    return owner->driver_meter != NULL ? hr__clock_monotonic_ns() : 0;
}

static hr_status end(const hr__engine_owner *owner, uint64_t began_ns, hr_status status)
{
    hr__driver_meter *meter = owner->driver_meter;
    if (meter != NULL) {
        uint64_t elapsed_ns = hr__clock_monotonic_ns() - began_ns;
        atomic_fetch_add_explicit(&meter->call_count, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&meter->elapsed_ns, elapsed_ns, memory_order_relaxed);
    }
    return status;
}

hr_status hr__driver_take(const hr__engine_owner *owner, uint64_t size_bytes, hr_device_ptr *out)
{
    const hr_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->take(device->context, size_bytes, out));
}

hr_status hr__driver_give_back(const hr__engine_owner *owner, hr_device_ptr address)
{
    const hr_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->give_back(device->context, address));
}

hr_status hr__driver_reserve(const hr__engine_owner *owner, uint64_t size_bytes, hr_device_ptr *out)
{
    const hr_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->reserve(device->context, size_bytes, out));
}

hr_status hr__driver_unreserve(const hr__engine_owner *owner, hr_device_ptr address,
                               uint64_t size_bytes)
{
    const hr_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->unreserve(device->context, address, size_bytes));
}

hr_status hr__driver_create(const hr__engine_owner *owner, uint64_t size_bytes, bool is_shareable,
                            hr_handle *out)
{
    const hr_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns,
               is_shareable ? device->table->create_shareable(device->context, size_bytes, out)
                            : device->table->create(device->context, size_bytes, out));
}

hr_status hr__driver_release(const hr__engine_owner *owner, hr_handle handle)
{
    const hr_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->release(device->context, handle));
}

hr_status hr__driver_map(const hr__engine_owner *owner, hr_device_ptr address, uint64_t size_bytes,
                         hr_handle handle)
{
    const hr_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->map(device->context, address, size_bytes, handle));
}

hr_status hr__driver_unmap(const hr__engine_owner *owner, hr_device_ptr address,
                           uint64_t size_bytes)
{
    const hr_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->unmap(device->context, address, size_bytes));
}

hr_status hr__driver_set_access(const hr__engine_owner *owner, hr_device_ptr address,
                                uint64_t size_bytes)
{
    const hr_device *device = owner->device;
    uint64_t began_ns = begin(owner);
    return end(owner, began_ns, device->table->set_access(device->context, address, size_bytes));
}
