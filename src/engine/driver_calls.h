/* driver_calls.h - the engines' way to the device's memory, with a clock beside it.
 *
 * The meter adds up the time that a job loses to its driver: taking memory, giving it back, mapping
 * and unmapping. These calls are on the slow path only, so counting them costs nothing where it
 * matters. Some are made without the pool's lock: the meter is atomic.
 *
 * A pool that is not listed has no meter, and reads no clock. */
#ifndef VW_ENGINE_DRIVER_CALLS_H
#define VW_ENGINE_DRIVER_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vramwise/device.h"
#include "engine/engine.h"

struct vw__driver_meter {
    _Atomic uint64_t call_count;
    _Atomic uint64_t elapsed_ns;
};

/* The device's functions of the same names; see vw_device_table. */
vw_status vw__driver_take(const vw__engine_owner *owner, uint64_t size_bytes, vw_device_ptr *out);
vw_status vw__driver_give_back(const vw__engine_owner *owner, vw_device_ptr address);
vw_status vw__driver_reserve(const vw__engine_owner *owner, uint64_t size_bytes,
                             vw_device_ptr *out);
vw_status vw__driver_unreserve(const vw__engine_owner *owner, vw_device_ptr address,
                               uint64_t size_bytes);
vw_status vw__driver_create(const vw__engine_owner *owner, uint64_t size_bytes, bool is_shareable,
                            vw_handle *out);
vw_status vw__driver_release(const vw__engine_owner *owner, vw_handle handle);
vw_status vw__driver_map(const vw__engine_owner *owner, vw_device_ptr address, uint64_t size_bytes,
                         vw_handle handle);
vw_status vw__driver_unmap(const vw__engine_owner *owner, vw_device_ptr address,
                           uint64_t size_bytes);
vw_status vw__driver_set_access(const vw__engine_owner *owner, vw_device_ptr address,
                                uint64_t size_bytes);

#endif /* VW_ENGINE_DRIVER_CALLS_H */
