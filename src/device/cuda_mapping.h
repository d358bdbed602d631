/* cuda_mapping.h - virtual memory on a GPU: entries of its device table, as device.h has them.
 * `context` is an hr__cuda_gpu. */
#ifndef HR_DEVICE_CUDA_MAPPING_H
#define HR_DEVICE_CUDA_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "headroom/device.h"

hr_status hr__cuda_reserve(void *context, uint64_t size_bytes, hr_device_ptr *out);
hr_status hr__cuda_unreserve(void *context, hr_device_ptr address, uint64_t size_bytes);
hr_status hr__cuda_create(void *context, uint64_t size_bytes, hr_handle *out);
hr_status hr__cuda_create_shareable(void *context, uint64_t size_bytes, hr_handle *out);
hr_status hr__cuda_create_on_host(void *context, uint64_t size_bytes, hr_handle *out);
hr_status hr__cuda_export_handle(void *context, hr_handle handle, int *file_descriptor);
hr_status hr__cuda_import_handle(void *context, int file_descriptor, uint64_t size_bytes,
                                 hr_handle *out);
hr_status hr__cuda_release(void *context, hr_handle handle);
hr_status hr__cuda_map(void *context, hr_device_ptr address, uint64_t size_bytes, hr_handle handle);
hr_status hr__cuda_unmap(void *context, hr_device_ptr address, uint64_t size_bytes);
hr_status hr__cuda_set_access(void *context, hr_device_ptr address, uint64_t size_bytes);
hr_status hr__cuda_allow_peer(void *context, int peer_index, bool is_allowed);

#endif /* HR_DEVICE_CUDA_MAPPING_H */
