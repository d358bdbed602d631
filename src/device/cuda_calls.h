/* cuda_calls.h - a GPU, and what must be done around every driver call.
 *
 * As guests in someone else's program we take care of three things:
 *
 *   - The context. Most driver calls act on the calling thread's current context, and a thread
 *     may have none, or another device's. We use the device's primary context, the one PyTorch and
 *     the CUDA runtime use. If it is already current (the usual case), checking that costs a few
 *     nanoseconds; if not, it is pushed for the call and popped after it, so that the caller's
 *     current context never changes.
 *   - The capture mode. While any thread captures a graph in the default mode, calls such as
 *     cuMemAlloc and cuEventQuery fail in every thread and spoil that capture. Nothing here
 *     depends on captured work, so the thread's mode is relaxed for the call, as PyTorch does
 *     around its own calls of this kind.
 *   - The result. vw__cuda_refusal() turns the driver's number into a status and a message with the
 *     driver's name and text for it, the call, and its arguments. Most errors of a GPU are sticky:
 *     after one, every call reports it. We pass that on and keep no state about it.
 *
 * No locks and no books: the driver is thread-safe, and what we hold is read-only after opening,
 * except for the permissions of peers, which are atomic, and vw__hip_mappings, which has a lock. */
#ifndef VW_DEVICE_CUDA_CALLS_H
#define VW_DEVICE_CUDA_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h" /* VW__TRY */
#include "device/cuda_driver_load.h"
#include "device/cuda_virtual_memory.h"
#include "device/hip_mappings.h"

enum { VW__CUDA_MOST_PEERS = 64 };

/* Set when the device is opened, then read-only, unless it says otherwise. */
typedef struct vw__cuda_gpu {
    const vw__cuda_driver *driver;
    vw__cuda_context primary;
    vw__cuda_virtual_memory virtual_memory; /* what create() asks for, among others */
    int index;                              /* among the devices visible to this process */
    vw__cuda_device ordinal;                /* the driver's number for it */
    char pci_bus_id[32];                    /* "" where the driver would not say */
    vw__hip_mappings mappings;              /* empty unless vendor->unmaps_one_by_one; changes */

    /* By index: calls of allow_peer() that allowed it minus those that took it back; and the
     * driver's number for it. Both change. */
    _Atomic uint32_t peer_leaves[VW__CUDA_MOST_PEERS];
    _Atomic vw__cuda_device peer_ordinals[VW__CUDA_MOST_PEERS];
} vw__cuda_gpu;

/* vw_cuda_device_open() with any vendor's driver (device_cuda.c). */
vw_status vw__cuda_open(const vw__cuda_driver *driver, int index, vw_device **out);

/* What vw__cuda_leave() restores. */
typedef struct vw__cuda_visit {
    vw__cuda_context before; /* the thread's own context */
    bool is_pushed;
    bool is_relaxed;
    int capture_mode; /* the thread's own, while is_relaxed */
} vw__cuda_visit;

/* Fails if the driver refuses a context; then vw__cuda_leave() must not be called. */
vw_status vw__cuda_enter(const vw__cuda_gpu *device, vw__cuda_visit *visit);
void vw__cuda_leave(const vw__cuda_gpu *device, vw__cuda_visit *visit);

/* As `call`, which begins with a name of the table, but with the vendor's own name. */
void vw__cuda_name_call(const vw__cuda_driver *driver, const char *call, char *out,
                        size_t out_bytes);

/* Stores a message about the driver's answer to `call`. Returns `when_full` if the memory in
 * question has run out, else VW_ERR_DEVICE. */
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

/* The same, and returns vw__cuda_refusal() if the call fails; what follows is its format. */
#define VW__CUDA_TRY(device_, when_full_, call_, ...)                                              \
    do {                                                                                           \
        vw__cuda_result result_;                                                                   \
        VW__CUDA_CALL(device_, result_, call_);                                                    \
        if (result_ != VW__CUDA_SUCCESS)                                                           \
            return vw__cuda_refusal((device_), result_, (when_full_), __VA_ARGS__);                \
    } while (0)

/* The whole body of a function of the device table that is one driver call without results. */
#define VW__CUDA_RETURN(context_, when_full_, call_, ...)                                          \
    do {                                                                                           \
        const vw__cuda_gpu *gpu_ = (context_);                                                     \
        VW__CUDA_TRY(gpu_, (when_full_), call_, __VA_ARGS__);                                      \
        return VW_OK;                                                                              \
    } while (0)

#endif /* VW_DEVICE_CUDA_CALLS_H */
