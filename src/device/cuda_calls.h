/* cuda_calls.h - a GPU behind the driver, and what belongs around every call of it.
 *
 * Three things a guest in someone else's program owes the host:
 *
 *   - The context. Most driver calls act on the calling thread's current context, and a thread
 *     may have none, or another device's. We use the device's primary context, the one PyTorch and
 *     the CUDA runtime use. Where it is current already (the usual case) reading that costs a few
 *     nanoseconds; where it is not, it is pushed for the call and popped after it, so that no
 *     caller ever finds its current context changed.
 *   - The capture mode. While any thread captures a graph in the default mode, calls such as
 *     cuMemAlloc and cuEventQuery fail in every thread and spoil that capture. Nothing here
 *     depends on captured work, so the thread's mode is relaxed for the call, as PyTorch does
 *     around its own calls of this kind.
 *   - The result. A driver's number means little at night with a dead training run. There is one
 *     place where it becomes ours, with the driver's name and text for it, the call, and its
 *     arguments (vw__cuda_refusal). Most errors of a GPU are sticky: after one, every call reports
 *     it. We pass that on and keep no state of our own about it.
 *
 * No locks and no books: the driver is thread-safe, and what we hold is read-only after opening,
 * but for the leaves given to peers, which are atomic. */
#ifndef VW_DEVICE_CUDA_CALLS_H
#define VW_DEVICE_CUDA_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h" /* VW__TRY */
#include "device/cuda_driver_load.h"
#include "device/cuda_virtual_memory.h"

enum { VW__CUDA_MOST_PEERS = 64 };

/* Set when the device is opened, then read-only, unless it says otherwise. */
typedef struct vw__cuda_gpu {
    const vw__cuda_driver *driver;
    vw__cuda_context primary;
    vw__cuda_virtual_memory virtual_memory; /* what create() asks for, among others */
    int index;                              /* among the devices visible to this process */
    vw__cuda_device ordinal;                /* the driver's number for it */
    char pci_bus_id[32];                    /* "" where the driver would not say */

    /* By index: how often set_access() was to open mappings to it, less how often no longer; and
     * the driver's number for it. Both change. */
    _Atomic uint32_t peer_leaves[VW__CUDA_MOST_PEERS];
    _Atomic vw__cuda_device peer_ordinals[VW__CUDA_MOST_PEERS];
} vw__cuda_gpu;

/* What vw__cuda_leave() has to put back. */
typedef struct vw__cuda_visit {
    bool is_pushed;
    bool is_relaxed;
    int capture_mode; /* the thread's own, while is_relaxed */
} vw__cuda_visit;

/* VW_OK, or the driver refuses a context; then there is nothing to leave. */
vw_status vw__cuda_enter(const vw__cuda_gpu *device, vw__cuda_visit *visit);
void vw__cuda_leave(const vw__cuda_gpu *device, vw__cuda_visit *visit);

/* Says what the driver answered to `call`, and what that is to us: `when_full` where the memory
 * the call is about has run out, VW_ERR_DEVICE otherwise. */
vw_status vw__cuda_refusal(const vw__cuda_gpu *device, vw__cuda_result result, vw_status when_full,
                           const char *call, ...) __attribute__((format(printf, 4, 5), cold));

/* Calls the driver between vw__cuda_enter() and vw__cuda_leave(), and stores its answer in
 * `result_`. */
#define VW__CUDA_CALL(device_, result_, call_)                                                     \
    do {                                                                                           \
        vw__cuda_visit visit_;                                                                     \
        VW__TRY(vw__cuda_enter((device_), &visit_));                                               \
        (result_) = (device_)->driver->call_;                                                      \
        vw__cuda_leave((device_), &visit_);                                                        \
    } while (0)

/* The same, and passes a refusal on: what follows is for vw__cuda_refusal(), as a format. */
#define VW__CUDA_TRY(device_, when_full_, call_, ...)                                              \
    do {                                                                                           \
        vw__cuda_result result_;                                                                   \
        VW__CUDA_CALL(device_, result_, call_);                                                    \
        if (result_ != VW__CUDA_SUCCESS)                                                           \
            return vw__cuda_refusal((device_), result_, (when_full_), __VA_ARGS__);                \
    } while (0)

#endif /* VW_DEVICE_CUDA_CALLS_H */
