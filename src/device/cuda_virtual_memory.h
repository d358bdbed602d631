/* cuda_virtual_memory.h - what a CUDA device can do with virtual memory, found out by doing it.
 *
 * The driver's attributes say what a device was made for, which is more than works everywhere: on
 * virtual GPUs and under WSL some calls are refused all the same, on some virtual machines access
 * is refused to memory that a network card could read, and a sandbox may not let memory be shared.
 * Nobody wants to learn that from the first allocation that fails. So when a device is opened, one
 * granule goes through everything a pool does with it, and is given back.
 *
 * Memory asks for direct RDMA wherever that works: without it network cards take the way through
 * the host, many times slower, and a pool cannot know who will send its blocks. */
#ifndef VW_DEVICE_CUDA_VIRTUAL_MEMORY_H
#define VW_DEVICE_CUDA_VIRTUAL_MEMORY_H

#include <stdbool.h>
#include <stddef.h> /* size_t */

#include "device/cuda_driver_load.h"

typedef struct vw__cuda_virtual_memory {
    bool is_usable;
    bool is_shareable; /* `shareable` works, and can be exported */
    bool has_host;     /* `on_host` works, and the device reaches it */
    size_t granularity_bytes;
    vw__cuda_allocation plain;     /* what to ask for; with direct RDMA where it works */
    vw__cuda_allocation shareable; /* the same, for other processes too */
    vw__cuda_allocation on_host;   /* page-locked memory of the nearest node, or of any */
    char reason[160];              /* why it is not usable; "" where it is */
} vw__cuda_virtual_memory;

/* Tries it out on `device`, whose context is current. Leaves vw_last_error() alone. A device with
 * no room for a granule is taken at its word, but for direct RDMA, which it then goes without. */
void vw__cuda_find_virtual_memory(const vw__cuda_driver *driver, vw__cuda_device device,
                                  vw__cuda_virtual_memory *out);

#endif /* VW_DEVICE_CUDA_VIRTUAL_MEMORY_H */
