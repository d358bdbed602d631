/* driver_calls.h - the engines' way to the device's memory, with a clock beside it.
 *
 * What a training job loses to its driver is the time of these calls: taking memory, giving it
 * back, mapping and unmapping. They are made on the slow path only, so that counting them costs
 * nothing where it matters. Some are made without the pool's lock: the meter is atomic.
 *
 * A pool that nobody watches has no meter, and reads no clock. */
#ifndef HR_ENGINE_DRIVER_CALLS_H
#define HR_ENGINE_DRIVER_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "headroom/device.h"
#include "engine/engine.h"

struct hr__driver_meter {
    _Atomic uint64_t call_count;
    _Atomic uint64_t elapsed_ns;
};

/* The device's functions of the same names; see hr_device_table. */
hr_status hr__driver_take(const hr__engine_owner *owner, uint64_t size_bytes, hr_device_ptr *out);
hr_status hr__driver_give_back(const hr__engine_owner *owner, hr_device_ptr address);
hr_status hr__driver_reserve(const hr__engine_owner *owner, uint64_t size_bytes,
                             hr_device_ptr *out);
hr_status hr__driver_unreserve(const hr__engine_owner *owner, hr_device_ptr address,
                               uint64_t size_bytes);
hr_status hr__driver_create(const hr__engine_owner *owner, uint64_t size_bytes, bool is_shareable,
                            hr_handle *out);
hr_status hr__driver_release(const hr__engine_owner *owner, hr_handle handle);
hr_status hr__driver_map(const hr__engine_owner *owner, hr_device_ptr address, uint64_t size_bytes,
                         hr_handle handle);
hr_status hr__driver_unmap(const hr__engine_owner *owner, hr_device_ptr address,
                           uint64_t size_bytes);
hr_status hr__driver_set_access(const hr__engine_owner *owner, hr_device_ptr address,
                                uint64_t size_bytes);

#endif /* HR_ENGINE_DRIVER_CALLS_H */
