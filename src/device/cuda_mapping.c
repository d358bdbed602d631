/* cuda_mapping.c - the device table's virtual memory, on a GPU: addresses, handles, mappings, and
 * who may reach them. */
#include "device/cuda_mapping.h"

#include <inttypes.h>

#include "device/cuda_calls.h"

static vw_status require_virtual_memory(const vw__cuda_gpu *device)
{
    if (device->virtual_memory.is_usable)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED, "CUDA device %d has no virtual memory: %s", device->index,
                    device->virtual_memory.reason);
}

static vw_status require_sharing(const vw__cuda_gpu *device)
{
    VW__TRY(require_virtual_memory(device));
    if (device->virtual_memory.is_shareable)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED, "CUDA device %d has no shareable handles here",
                    device->index);
}

vw_status vw__cuda_reserve(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    vw__cuda_gpu *device = context;
    vw__cuda_ptr address = 0;
    VW__TRY(require_virtual_memory(device));
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuMemAddressReserve(&address, (size_t)size_bytes, 0, 0, 0),
                 "cuMemAddressReserve(%" PRIu64 " bytes)", size_bytes);
    *out = address;
    return VW_OK;
}

vw_status vw__cuda_unreserve(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw__cuda_gpu *device = context;
    VW__TRY(require_virtual_memory(device));
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuMemAddressFree(address, (size_t)size_bytes),
                 "cuMemAddressFree(%#" PRIx64 ", %" PRIu64 " bytes)", address, size_bytes);
    return VW_OK;
}

vw_status vw__cuda_create(void *context, uint64_t size_bytes, vw_handle *out)
{
    vw__cuda_gpu *device = context;
    vw__cuda_handle handle = 0;
    VW__TRY(require_virtual_memory(device));
    VW__CUDA_TRY(device, VW_ERR_OUT_OF_MEMORY,
                 cuMemCreate(&handle, (size_t)size_bytes, &device->virtual_memory.plain, 0),
                 "cuMemCreate(%" PRIu64 " bytes)", size_bytes);
    *out = handle;
    return VW_OK;
}

vw_status vw__cuda_create_shareable(void *context, uint64_t size_bytes, vw_handle *out)
{
    vw__cuda_gpu *device = context;
    vw__cuda_handle handle = 0;
    VW__TRY(require_sharing(device));
    VW__CUDA_TRY(device, VW_ERR_OUT_OF_MEMORY,
                 cuMemCreate(&handle, (size_t)size_bytes, &device->virtual_memory.shareable, 0),
                 "cuMemCreate(%" PRIu64 " bytes, shareable)", size_bytes);
    *out = handle;
    return VW_OK;
}

vw_status vw__cuda_create_on_host(void *context, uint64_t size_bytes, vw_handle *out)
{
    vw__cuda_gpu *device = context;
    vw__cuda_handle handle = 0;
    VW__TRY(require_virtual_memory(device));
    if (!device->virtual_memory.has_host)
        return vw__fail(VW_ERR_UNSUPPORTED, "CUDA device %d has no handles on the host here",
                        device->index);
    VW__CUDA_TRY(device, VW_ERR_HOST_MEMORY,
                 cuMemCreate(&handle, (size_t)size_bytes, &device->virtual_memory.on_host, 0),
                 "cuMemCreate(%" PRIu64 " bytes, on the host)", size_bytes);
    *out = handle;
    return VW_OK;
}

vw_status vw__cuda_export_handle(void *context, vw_handle handle, int *file_descriptor)
{
    vw__cuda_gpu *device = context;
    int file = -1;
    VW__TRY(require_sharing(device));
    VW__CUDA_TRY(device, VW_ERR_DEVICE,
                 cuMemExportToShareableHandle(&file, handle, VW__CUDA_HANDLE_FILE_DESCRIPTOR, 0),
                 "cuMemExportToShareableHandle(%#" PRIx64 ")", handle);
    *file_descriptor = file;
    return VW_OK;
}

/* The driver finds the size itself; a wrong one is refused when it is mapped. */
vw_status vw__cuda_import_handle(void *context, int file_descriptor, uint64_t size_bytes,
                                 vw_handle *out)
{
    vw__cuda_gpu *device = context;
    vw__cuda_handle handle = 0;
    (void)size_bytes;
    VW__TRY(require_sharing(device));
    if (device->driver->cuMemImportFromShareableHandle == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "CUDA device %d: the driver imports no memory",
                        device->index);
    VW__CUDA_TRY(device, VW_ERR_DEVICE,
                 cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file_descriptor,
                                                VW__CUDA_HANDLE_FILE_DESCRIPTOR),
                 "cuMemImportFromShareableHandle(file descriptor %d)", file_descriptor);
    *out = handle;
    return VW_OK;
}

/* The driver counts references: memory that is still mapped goes with its last mapping. */
vw_status vw__cuda_release(void *context, vw_handle handle)
{
    vw__cuda_gpu *device = context;
    VW__TRY(require_virtual_memory(device));
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuMemRelease(handle), "cuMemRelease(%#" PRIx64 ")", handle);
    return VW_OK;
}

vw_status vw__cuda_map(void *context, vw_device_ptr address, uint64_t size_bytes, vw_handle handle)
{
    vw__cuda_gpu *device = context;
    VW__TRY(require_virtual_memory(device));
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuMemMap(address, (size_t)size_bytes, 0, handle, 0),
                 "cuMemMap(%#" PRIx64 ", %" PRIu64 " bytes, handle %#" PRIx64 ")", address,
                 size_bytes, handle);
    return VW_OK;
}

vw_status vw__cuda_unmap(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw__cuda_gpu *device = context;
    VW__TRY(require_virtual_memory(device));
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuMemUnmap(address, (size_t)size_bytes),
                 "cuMemUnmap(%#" PRIx64 ", %" PRIu64 " bytes)", address, size_bytes);
    return VW_OK;
}

vw_status vw__cuda_set_access(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw__cuda_gpu *device = context;
    vw__cuda_access accesses[1 + VW__CUDA_MOST_PEERS];
    size_t count = 0;
    accesses[count++] =
        (vw__cuda_access){device->virtual_memory.plain.location, VW__CUDA_ACCESS_READ_WRITE};
    for (int peer = 0; peer < VW__CUDA_MOST_PEERS; peer++) {
        if (atomic_load_explicit(&device->peer_leaves[peer], memory_order_acquire) == 0)
            continue;
        int ordinal = atomic_load_explicit(&device->peer_ordinals[peer], memory_order_relaxed);
        accesses[count++] =
            (vw__cuda_access){{VW__CUDA_LOCATION_DEVICE, ordinal}, VW__CUDA_ACCESS_READ_WRITE};
    }
    VW__TRY(require_virtual_memory(device));
    VW__CUDA_TRY(device, VW_ERR_DEVICE,
                 cuMemSetAccess(address, (size_t)size_bytes, accesses, count),
                 "cuMemSetAccess(%#" PRIx64 ", %" PRIu64 " bytes, for %zu devices)", address,
                 size_bytes, count);
    return VW_OK;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static vw_status find_peer(const vw__cuda_gpu *device, int peer_index, vw__cuda_device *out)
{
    const vw__cuda_driver *driver = device->driver;
    int count = 0, can_access = 0;
    vw__cuda_result result = driver->cuDeviceGetCount(&count);
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuDeviceGetCount()");
    if (peer_index < 0 || peer_index >= count)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "no CUDA device %d to be a peer of device %d: the driver shows %d",
                        peer_index, device->index, count);
    if (peer_index >= VW__CUDA_MOST_PEERS || driver->cuDeviceCanAccessPeer == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "CUDA device %d cannot be asked about peer %d",
                        device->index, peer_index);
    result = driver->cuDeviceGet(out, peer_index);
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuDeviceGet(%d)", peer_index);
    result = driver->cuDeviceCanAccessPeer(&can_access, *out, device->ordinal);
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuDeviceCanAccessPeer(%d)",
                                peer_index);
    if (can_access == 0)
        return vw__fail(VW_ERR_UNSUPPORTED, "CUDA device %d cannot reach the memory of device %d",
                        peer_index, device->index);
    return VW_OK;
}

vw_status vw__cuda_allow_peer(void *context, int peer_index, bool is_allowed)
{
    vw__cuda_gpu *device = context;
    vw__cuda_device ordinal = 0;
    if (peer_index == device->index)
        return VW_OK;
    VW__TRY(find_peer(device, peer_index, &ordinal));
    _Atomic uint32_t *leaves = &device->peer_leaves[peer_index];
    if (is_allowed) {
        /* Whoever sees the leave sees the number, which is the same every time. */
        atomic_store_explicit(&device->peer_ordinals[peer_index], ordinal, memory_order_relaxed);
        atomic_fetch_add_explicit(leaves, 1, memory_order_release);
        return VW_OK;
    }
    uint32_t count = atomic_load(leaves);
    while (count > 0 && !atomic_compare_exchange_weak(leaves, &count, count - 1))
        continue;
    return VW_OK;
}
