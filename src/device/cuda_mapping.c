/* cuda_mapping.c - the device table's virtual memory, on a GPU: addresses, handles, mappings, and
 * who may reach them. */
#include "device/cuda_mapping.h"

#include <inttypes.h>

#include "device/cuda_calls.h"

static hr_status require_virtual_memory(const hr__cuda_gpu *device)
{
    if (device->virtual_memory.is_usable)
        return HR_OK;
    return hr__fail(HR_ERR_UNSUPPORTED, "CUDA device %d has no virtual memory: %s", device->index,
                    device->virtual_memory.reason);
}

static hr_status require_sharing(const hr__cuda_gpu *device)
{
    HR__TRY(require_virtual_memory(device));
    if (device->virtual_memory.is_shareable)
        return HR_OK;
    return hr__fail(HR_ERR_UNSUPPORTED, "CUDA device %d has no shareable handles here",
                    device->index);
}

hr_status hr__cuda_reserve(void *context, uint64_t size_bytes, hr_device_ptr *out)
{
    hr__cuda_gpu *device = context;
    hr__cuda_ptr address = 0;
    HR__TRY(require_virtual_memory(device));
    HR__CUDA_TRY(device, HR_ERR_DEVICE, cuMemAddressReserve(&address, (size_t)size_bytes, 0, 0, 0),
                 "cuMemAddressReserve(%" PRIu64 " bytes)", size_bytes);
    *out = address;
    return HR_OK;
}

hr_status hr__cuda_unreserve(void *context, hr_device_ptr address, uint64_t size_bytes)
{
    hr__cuda_gpu *device = context;
    HR__TRY(require_virtual_memory(device));
    HR__CUDA_TRY(device, HR_ERR_DEVICE, cuMemAddressFree(address, (size_t)size_bytes),
                 "cuMemAddressFree(%#" PRIx64 ", %" PRIu64 " bytes)", address, size_bytes);
    return HR_OK;
}

hr_status hr__cuda_create(void *context, uint64_t size_bytes, hr_handle *out)
{
    hr__cuda_gpu *device = context;
    hr__cuda_handle handle = 0;
    HR__TRY(require_virtual_memory(device));
    HR__CUDA_TRY(device, HR_ERR_OUT_OF_MEMORY,
                 cuMemCreate(&handle, (size_t)size_bytes, &device->virtual_memory.plain, 0),
                 "cuMemCreate(%" PRIu64 " bytes)", size_bytes);
    *out = handle;
    return HR_OK;
}

hr_status hr__cuda_create_shareable(void *context, uint64_t size_bytes, hr_handle *out)
{
    hr__cuda_gpu *device = context;
    hr__cuda_handle handle = 0;
    HR__TRY(require_sharing(device));
    HR__CUDA_TRY(device, HR_ERR_OUT_OF_MEMORY,
                 cuMemCreate(&handle, (size_t)size_bytes, &device->virtual_memory.shareable, 0),
                 "cuMemCreate(%" PRIu64 " bytes, shareable)", size_bytes);
    *out = handle;
    return HR_OK;
}

hr_status hr__cuda_create_on_host(void *context, uint64_t size_bytes, hr_handle *out)
{
    hr__cuda_gpu *device = context;
    hr__cuda_handle handle = 0;
    HR__TRY(require_virtual_memory(device));
    if (!device->virtual_memory.has_host)
        return hr__fail(HR_ERR_UNSUPPORTED, "CUDA device %d has no handles on the host here",
                        device->index);
    HR__CUDA_TRY(device, HR_ERR_HOST_MEMORY,
                 cuMemCreate(&handle, (size_t)size_bytes, &device->virtual_memory.on_host, 0),
                 "cuMemCreate(%" PRIu64 " bytes, on the host)", size_bytes);
    *out = handle;
    return HR_OK;
}

hr_status hr__cuda_export_handle(void *context, hr_handle handle, int *file_descriptor)
{
    hr__cuda_gpu *device = context;
    int file = -1;
    HR__TRY(require_sharing(device));
    HR__CUDA_TRY(device, HR_ERR_DEVICE,
                 cuMemExportToShareableHandle(&file, handle, HR__CUDA_HANDLE_FILE_DESCRIPTOR, 0),
                 "cuMemExportToShareableHandle(%#" PRIx64 ")", handle);
    *file_descriptor = file;
    return HR_OK;
}

/* The driver finds the size itself; a wrong one is refused when it is mapped. */
hr_status hr__cuda_import_handle(void *context, int file_descriptor, uint64_t size_bytes,
                                 hr_handle *out)
{
    hr__cuda_gpu *device = context;
    hr__cuda_handle handle = 0;
    (void)size_bytes;
    HR__TRY(require_sharing(device));
    if (device->driver->cuMemImportFromShareableHandle == NULL)
        return hr__fail(HR_ERR_UNSUPPORTED, "CUDA device %d: the driver imports no memory",
                        device->index);
    HR__CUDA_TRY(device, HR_ERR_DEVICE,
                 cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file_descriptor,
                                                HR__CUDA_HANDLE_FILE_DESCRIPTOR),
                 "cuMemImportFromShareableHandle(file descriptor %d)", file_descriptor);
    *out = handle;
    return HR_OK;
}

/* The driver counts references: memory that is still mapped goes with its last mapping. */
hr_status hr__cuda_release(void *context, hr_handle handle)
{
    hr__cuda_gpu *device = context;
    HR__TRY(require_virtual_memory(device));
    HR__CUDA_TRY(device, HR_ERR_DEVICE, cuMemRelease(handle), "cuMemRelease(%#" PRIx64 ")", handle);
    return HR_OK;
}

hr_status hr__cuda_map(void *context, hr_device_ptr address, uint64_t size_bytes, hr_handle handle)
{
    hr__cuda_gpu *device = context;
    HR__TRY(require_virtual_memory(device));
    HR__CUDA_TRY(device, HR_ERR_DEVICE, cuMemMap(address, (size_t)size_bytes, 0, handle, 0),
                 "cuMemMap(%#" PRIx64 ", %" PRIu64 " bytes, handle %#" PRIx64 ")", address,
                 size_bytes, handle);
    return HR_OK;
}

hr_status hr__cuda_unmap(void *context, hr_device_ptr address, uint64_t size_bytes)
{
    hr__cuda_gpu *device = context;
    HR__TRY(require_virtual_memory(device));
    HR__CUDA_TRY(device, HR_ERR_DEVICE, cuMemUnmap(address, (size_t)size_bytes),
                 "cuMemUnmap(%#" PRIx64 ", %" PRIu64 " bytes)", address, size_bytes);
    return HR_OK;
}

hr_status hr__cuda_set_access(void *context, hr_device_ptr address, uint64_t size_bytes)
{
    hr__cuda_gpu *device = context;
    hr__cuda_access accesses[1 + HR__CUDA_MOST_PEERS];
    size_t count = 0;
    accesses[count++] =
        (hr__cuda_access){device->virtual_memory.plain.location, HR__CUDA_ACCESS_READ_WRITE};
    for (int peer = 0; peer < HR__CUDA_MOST_PEERS; peer++) {
        if (atomic_load_explicit(&device->peer_leaves[peer], memory_order_acquire) == 0)
            continue;
        int ordinal = atomic_load_explicit(&device->peer_ordinals[peer], memory_order_relaxed);
        accesses[count++] =
            (hr__cuda_access){{HR__CUDA_LOCATION_DEVICE, ordinal}, HR__CUDA_ACCESS_READ_WRITE};
    }
    HR__TRY(require_virtual_memory(device));
    HR__CUDA_TRY(device, HR_ERR_DEVICE,
                 cuMemSetAccess(address, (size_t)size_bytes, accesses, count),
                 "cuMemSetAccess(%#" PRIx64 ", %" PRIu64 " bytes, for %zu devices)", address,
                 size_bytes, count);
    return HR_OK;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static hr_status find_peer(const hr__cuda_gpu *device, int peer_index, hr__cuda_device *out)
{
    const hr__cuda_driver *driver = device->driver;
    int count = 0, can_access = 0;
    hr__cuda_result result = driver->cuDeviceGetCount(&count);
    if (result != HR__CUDA_SUCCESS)
        return hr__cuda_refusal(device, result, HR_ERR_DEVICE, "cuDeviceGetCount()");
    if (peer_index < 0 || peer_index >= count)
        return hr__fail(HR_ERR_INVALID_ARGUMENT,
                        "no CUDA device %d to be a peer of device %d: the driver shows %d",
                        peer_index, device->index, count);
    if (peer_index >= HR__CUDA_MOST_PEERS || driver->cuDeviceCanAccessPeer == NULL)
        return hr__fail(HR_ERR_UNSUPPORTED, "CUDA device %d cannot be asked about peer %d",
                        device->index, peer_index);
    result = driver->cuDeviceGet(out, peer_index);
    if (result != HR__CUDA_SUCCESS)
        return hr__cuda_refusal(device, result, HR_ERR_DEVICE, "cuDeviceGet(%d)", peer_index);
    result = driver->cuDeviceCanAccessPeer(&can_access, *out, device->ordinal);
    if (result != HR__CUDA_SUCCESS)
        return hr__cuda_refusal(device, result, HR_ERR_DEVICE, "cuDeviceCanAccessPeer(%d)",
                                peer_index);
    if (can_access == 0)
        return hr__fail(HR_ERR_UNSUPPORTED, "CUDA device %d cannot reach the memory of device %d",
                        peer_index, device->index);
    return HR_OK;
}

hr_status hr__cuda_allow_peer(void *context, int peer_index, bool is_allowed)
{
    hr__cuda_gpu *device = context;
    hr__cuda_device ordinal = 0;
    if (peer_index == device->index)
        return HR_OK;
    HR__TRY(find_peer(device, peer_index, &ordinal));
    _Atomic uint32_t *leaves = &device->peer_leaves[peer_index];
    if (is_allowed) {
        /* Whoever sees the leave sees the number, which is the same every time. */
        atomic_store_explicit(&device->peer_ordinals[peer_index], ordinal, memory_order_relaxed);
        atomic_fetch_add_explicit(leaves, 1, memory_order_release);
        return HR_OK;
    }
    uint32_t count = atomic_load(leaves);
    while (count > 0 && !atomic_compare_exchange_weak(leaves, &count, count - 1))
        continue;
    return HR_OK;
}
