/* cuda_virtual_memory.h - virtual memory of a CUDA device: what works, and the calls.
 *
 * The driver's attributes promise more than works everywhere: some calls are refused on virtual
 * GPUs and under WSL, some virtual machines refuse access to memory that a network card could read,
 * and a sandbox may forbid sharing. To find that out before an allocation fails, opening a device
 * takes one granule through everything a pool does with it, and gives it back.
 *
 * Memory is created for direct RDMA wherever that works: without it network cards go through the
 * host, many times slower, and a pool cannot know who will send its blocks. */
#ifndef VW_DEVICE_CUDA_VIRTUAL_MEMORY_H
#define VW_DEVICE_CUDA_VIRTUAL_MEMORY_H

#include <stdbool.h>
#include <stddef.h> /* size_t */
#include <stdint.h>

#include "vramwise/device.h"
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

/* Tries it out on `device`, whose context is current. Leaves vw_last_error() alone. If the device
 * has no room for a granule, its attributes are believed, except for direct RDMA. */
void vw__cuda_find_virtual_memory(const vw__cuda_driver *driver, vw__cuda_device device,
                                  vw__cuda_virtual_memory *out);

/* True if the driver says that it makes dma-bufs. Plain memory can be in one as well. */
bool vw__cuda_has_dma_buf(const vw__cuda_driver *driver, vw__cuda_device device);

/* Calls of the device table, as device.h has them; `context` is a vw__cuda_gpu (cuda_calls.h). */
vw_status vw__cuda_reserve(void *context, uint64_t size_bytes, vw_device_ptr *out);
vw_status vw__cuda_unreserve(void *context, vw_device_ptr address, uint64_t size_bytes);
vw_status vw__cuda_create(void *context, uint64_t size_bytes, vw_handle *out);
vw_status vw__cuda_create_shareable(void *context, uint64_t size_bytes, vw_handle *out);
vw_status vw__cuda_create_on_host(void *context, uint64_t size_bytes, vw_handle *out);
vw_status vw__cuda_export_handle(void *context, vw_handle handle, int *file_descriptor);
vw_status vw__cuda_import_handle(void *context, int file_descriptor, uint64_t size_bytes,
                                 vw_handle *out);
vw_status vw__cuda_export_dma_buf(void *context, vw_device_ptr address, uint64_t size_bytes,
                                  int *file_descriptor);
vw_status vw__cuda_release(void *context, vw_handle handle);
vw_status vw__cuda_map(void *context, vw_device_ptr address, uint64_t size_bytes, vw_handle handle);
vw_status vw__cuda_unmap(void *context, vw_device_ptr address, uint64_t size_bytes);
vw_status vw__cuda_set_access(void *context, vw_device_ptr address, uint64_t size_bytes);
vw_status vw__cuda_allow_peer(void *context, int peer_index, bool is_allowed);

#endif /* VW_DEVICE_CUDA_VIRTUAL_MEMORY_H */
