/* cuda_mapping.h - virtual memory on a GPU: entries of its device table, as device.h has them.
 * `context` is an vw__cuda_gpu. */
#ifndef VW_DEVICE_CUDA_MAPPING_H
#define VW_DEVICE_CUDA_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/device.h"

vw_status vw__cuda_reserve(void *context, uint64_t size_bytes, vw_device_ptr *out);
vw_status vw__cuda_unreserve(void *context, vw_device_ptr address, uint64_t size_bytes);
vw_status vw__cuda_create(void *context, uint64_t size_bytes, vw_handle *out);
vw_status vw__cuda_create_shareable(void *context, uint64_t size_bytes, vw_handle *out);
vw_status vw__cuda_create_on_host(void *context, uint64_t size_bytes, vw_handle *out);
vw_status vw__cuda_export_handle(void *context, vw_handle handle, int *file_descriptor);
vw_status vw__cuda_import_handle(void *context, int file_descriptor, uint64_t size_bytes,
                                 vw_handle *out);
vw_status vw__cuda_release(void *context, vw_handle handle);
vw_status vw__cuda_map(void *context, vw_device_ptr address, uint64_t size_bytes, vw_handle handle);
vw_status vw__cuda_unmap(void *context, vw_device_ptr address, uint64_t size_bytes);
vw_status vw__cuda_set_access(void *context, vw_device_ptr address, uint64_t size_bytes);
vw_status vw__cuda_allow_peer(void *context, int peer_index, bool is_allowed);

#endif /* VW_DEVICE_CUDA_MAPPING_H */
