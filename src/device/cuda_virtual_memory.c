/* cuda_virtual_memory.c - trying out virtual memory on a GPU, and the calls of the device table.
 *
 * A trial takes one granule through every call. It ends at the first call that is refused, undoes
 * what came before, and says which call it was. Trials: with direct RDMA; without, if that failed;
 * shareable; on the host, at the nearest node or wherever the driver likes. If the driver also
 * refuses to undo, the granule stays: a device that cannot unmap is not used for virtual memory. */
#include "device/cuda_virtual_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h> /* close */

#include "device/cuda_calls.h"

/* ---- trying it out --------------------------------------------------------------------------- */

/* How a trial went: the call that was refused, and the driver's number for why. */
typedef struct trial {
    const char *call;
    vw__cuda_result result;
} trial;

static bool has_passed(trial done)
{
    return done.result == VW__CUDA_SUCCESS;
}

/* A card that is full says nothing of what it can do. */
static bool was_full(trial done)
{
    return done.result == VW__CUDA_ERROR_OUT_OF_MEMORY && strcmp(done.call, "cuMemCreate") == 0;
}

/* Calls the driver; returns from the function where it refuses. */
#define TRY_OUT(driver_, name_, ...)                                                               \
    do {                                                                                           \
        vw__cuda_result result_ = (driver_)->name_(__VA_ARGS__);                                   \
        if (result_ != VW__CUDA_SUCCESS)                                                           \
            return (trial){#name_, result_};                                                       \
    } while (0)

/* What undoing adds to how it went: the first refusal is the one to tell. */
static trial and_undone(trial done, const char *call, vw__cuda_result result)
{
    return has_passed(done) && result != VW__CUDA_SUCCESS ? (trial){call, result} : done;
}

/* It is the device that reaches the memory, wherever that is. */
static trial try_access(const vw__cuda_driver *driver, vw__cuda_device device, vw__cuda_ptr address,
                        size_t size_bytes, vw__cuda_handle handle)
{
    vw__cuda_access access = {{VW__CUDA_LOCATION_DEVICE, device}, VW__CUDA_ACCESS_READ_WRITE};
    TRY_OUT(driver, cuMemMap, address, size_bytes, 0, handle, 0);
    trial done = {"cuMemSetAccess", driver->cuMemSetAccess(address, size_bytes, &access, 1)};
    return and_undone(done, "cuMemUnmap", driver->cuMemUnmap(address, size_bytes));
}

static trial try_export(const vw__cuda_driver *driver, vw__cuda_handle handle)
{
    int file = -1;
    TRY_OUT(driver, cuMemExportToShareableHandle, &file, handle, VW__CUDA_HANDLE_FILE_DESCRIPTOR,
            0);
    (void)close(file);
    return (trial){"cuMemExportToShareableHandle", VW__CUDA_SUCCESS};
}

static trial try_handle(const vw__cuda_driver *driver, vw__cuda_device device,
                        const vw__cuda_allocation *allocation, vw__cuda_ptr address,
                        size_t size_bytes)
{
    vw__cuda_handle handle = 0;
    TRY_OUT(driver, cuMemCreate, &handle, size_bytes, allocation, 0);
    trial done = try_access(driver, device, address, size_bytes, handle);
    if (has_passed(done) && allocation->requested_handle_types != 0)
        done = try_export(driver, handle);
    return and_undone(done, "cuMemRelease", driver->cuMemRelease(handle));
}

/* Stores the granularity as soon as it is known: also where a later call is refused. */
static trial try_allocation(const vw__cuda_driver *driver, vw__cuda_device device,
                            const vw__cuda_allocation *allocation, size_t *granularity_bytes)
{
    vw__cuda_ptr address = 0;
    TRY_OUT(driver, cuMemGetAllocationGranularity, granularity_bytes, allocation,
            VW__CUDA_GRANULARITY_MINIMUM);
    TRY_OUT(driver, cuMemAddressReserve, &address, *granularity_bytes, 0, 0, 0);
    trial done = try_handle(driver, device, allocation, address, *granularity_bytes);
    return and_undone(done, "cuMemAddressFree",
                      driver->cuMemAddressFree(address, *granularity_bytes));
}

/* An attribute the driver is too old to know counts as absent. */
static bool has_attribute(const vw__cuda_driver *driver, vw__cuda_device device, int attribute)
{
    int value = 0;
    return driver->cuDeviceGetAttribute(&value, attribute, device) == VW__CUDA_SUCCESS &&
           value != 0;
}

static void explain(vw__cuda_virtual_memory *found, const vw__cuda_driver *driver, trial done)
{
    const char *name = NULL; /* stays so for a number the driver does not know itself */
    char call[64];
    driver->cuGetErrorName(done.result, &name);
    vw__cuda_name_call(driver, done.call, call, sizeof call);
    snprintf(found->reason, sizeof found->reason, "%s failed when tried: %s (%d)", call,
             name != NULL ? name : "unknown error", done.result);
}

static void find_plain(vw__cuda_virtual_memory *found, const vw__cuda_driver *driver,
                       vw__cuda_device device)
{
    found->plain = (vw__cuda_allocation){
        .type = VW__CUDA_ALLOCATION_PINNED,
        .location = {.type = VW__CUDA_LOCATION_DEVICE, .id = device},
        .is_direct_rdma_capable = driver->vendor->rdma_attribute != 0 &&
                                  has_attribute(driver, device, driver->vendor->rdma_attribute),
    };
    trial done = try_allocation(driver, device, &found->plain, &found->granularity_bytes);
    if (!has_passed(done) && found->plain.is_direct_rdma_capable) {
        found->plain.is_direct_rdma_capable = 0;
        done = try_allocation(driver, device, &found->plain, &found->granularity_bytes);
    }
    found->is_usable = has_passed(done) || was_full(done);
    if (!found->is_usable)
        explain(found, driver, done);
}

/* Shareable handles are given out in the same sizes as the others. */
static void find_shareable(vw__cuda_virtual_memory *found, const vw__cuda_driver *driver,
                           vw__cuda_device device)
{
    size_t granularity_bytes = 0;
    found->shareable = found->plain;
    found->shareable.requested_handle_types = VW__CUDA_HANDLE_FILE_DESCRIPTOR;
    if (!driver->vendor->has_sharing || driver->cuMemExportToShareableHandle == NULL ||
        !has_attribute(driver, device, VW__CUDA_HAS_FILE_DESCRIPTOR_HANDLES))
        return;
    trial done = try_allocation(driver, device, &found->shareable, &granularity_bytes);
    found->is_shareable = (has_passed(done) || was_full(done)) && granularity_bytes != 0 &&
                          found->granularity_bytes % granularity_bytes == 0;
}

/* In the sizes of the device's own handles, which it takes the place of. */
static bool try_host(vw__cuda_virtual_memory *found, const vw__cuda_driver *driver,
                     vw__cuda_device device, vw__cuda_location location)
{
    size_t granularity_bytes = 0;
    found->on_host =
        (vw__cuda_allocation){.type = VW__CUDA_ALLOCATION_PINNED, .location = location};
    return has_passed(try_allocation(driver, device, &found->on_host, &granularity_bytes)) &&
           granularity_bytes != 0 && found->granularity_bytes % granularity_bytes == 0;
}

static void find_host(vw__cuda_virtual_memory *found, const vw__cuda_driver *driver,
                      vw__cuda_device device)
{
    int node = -1;
    if (!driver->vendor->has_host_memory)
        return;
    if (driver->cuDeviceGetAttribute(&node, VW__CUDA_NEAREST_HOST_NODE, device) ==
            VW__CUDA_SUCCESS &&
        node >= 0)
        found->has_host =
            try_host(found, driver, device, (vw__cuda_location){VW__CUDA_LOCATION_HOST_NODE, node});
    if (!found->has_host)
        found->has_host =
            try_host(found, driver, device, (vw__cuda_location){VW__CUDA_LOCATION_HOST, 0});
}

void vw__cuda_find_virtual_memory(const vw__cuda_driver *driver, vw__cuda_device device,
                                  vw__cuda_virtual_memory *out)
{
    memset(out, 0, sizeof *out);
    if (!vw__cuda_driver_has_virtual_memory(driver)) {
        snprintf(out->reason, sizeof out->reason, "the driver is too old for it");
        return;
    }
    if (!has_attribute(driver, device, driver->vendor->virtual_memory_attribute)) {
        snprintf(out->reason, sizeof out->reason, "the driver says so");
        return;
    }
    find_plain(out, driver, device);
    if (!out->is_usable)
        return;
    find_shareable(out, driver, device);
    find_host(out, driver, device);
}

/* ---- calls of the device table --------------------------------------------------------------- */

static const char *name_of(const vw__cuda_gpu *device)
{
    return device->driver->vendor->name;
}

static vw_status require_virtual_memory(const vw__cuda_gpu *device)
{
    if (device->virtual_memory.is_usable)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED, "%s device %d has no virtual memory: %s", name_of(device),
                    device->index, device->virtual_memory.reason);
}

static vw_status require_sharing(const vw__cuda_gpu *device)
{
    VW__TRY(require_virtual_memory(device));
    if (device->virtual_memory.is_shareable)
        return VW_OK;
    return vw__fail(VW_ERR_UNSUPPORTED, "%s device %d has no shareable handles here",
                    name_of(device), device->index);
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
    VW__TRY(require_virtual_memory(context));
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuMemAddressFree(address, (size_t)size_bytes),
                    "cuMemAddressFree(%#" PRIx64 ", %" PRIu64 " bytes)", address, size_bytes);
}

static vw_status create(const vw__cuda_gpu *device, uint64_t size_bytes,
                        const vw__cuda_allocation *kind, vw_status when_full, const char *where,
                        vw_handle *out)
{
    vw__cuda_handle handle = 0;
    VW__CUDA_TRY(device, when_full, cuMemCreate(&handle, (size_t)size_bytes, kind, 0),
                 "cuMemCreate(%" PRIu64 " bytes%s)", size_bytes, where);
    *out = handle;
    return VW_OK;
}

vw_status vw__cuda_create(void *context, uint64_t size_bytes, vw_handle *out)
{
    const vw__cuda_gpu *device = context;
    VW__TRY(require_virtual_memory(device));
    return create(device, size_bytes, &device->virtual_memory.plain, VW_ERR_OUT_OF_MEMORY, "", out);
}

vw_status vw__cuda_create_shareable(void *context, uint64_t size_bytes, vw_handle *out)
{
    const vw__cuda_gpu *device = context;
    VW__TRY(require_sharing(device));
    return create(device, size_bytes, &device->virtual_memory.shareable, VW_ERR_OUT_OF_MEMORY,
                  ", shareable", out);
}

vw_status vw__cuda_create_on_host(void *context, uint64_t size_bytes, vw_handle *out)
{
    const vw__cuda_gpu *device = context;
    VW__TRY(require_virtual_memory(device));
    if (!device->virtual_memory.has_host)
        return vw__fail(VW_ERR_UNSUPPORTED, "%s device %d has no handles on the host%s",
                        name_of(device), device->index,
                        device->driver->vendor->has_host_memory
                            ? " here"
                            : ": its driver is not known to create memory there");
    return create(device, size_bytes, &device->virtual_memory.on_host, VW_ERR_HOST_MEMORY,
                  ", on the host", out);
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
        return vw__fail(VW_ERR_UNSUPPORTED, "%s device %d: the driver imports no memory",
                        name_of(device), device->index);
    VW__CUDA_TRY(device, VW_ERR_DEVICE,
                 cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)file_descriptor,
                                                VW__CUDA_HANDLE_FILE_DESCRIPTOR),
                 "cuMemImportFromShareableHandle(file descriptor %d)", file_descriptor);
    *out = handle;
    return VW_OK;
}

bool vw__cuda_has_dma_buf(const vw__cuda_driver *driver, vw__cuda_device device)
{
    return driver->vendor->dma_buf_attribute != 0 &&
           driver->cuMemGetHandleForAddressRange != NULL &&
           has_attribute(driver, device, driver->vendor->dma_buf_attribute);
}

vw_status vw__cuda_export_dma_buf(void *context, vw_device_ptr address, uint64_t size_bytes,
                                  int *file_descriptor)
{
    vw__cuda_gpu *device = context;
    int file = -1;
    if (!vw__cuda_has_dma_buf(device->driver, device->ordinal))
        return vw__fail(VW_ERR_UNSUPPORTED, "%s device %d makes no dma-buf: the driver says so",
                        name_of(device), device->index);
    VW__CUDA_TRY(device, VW_ERR_DEVICE,
                 cuMemGetHandleForAddressRange(&file, address, (size_t)size_bytes,
                                               VW__CUDA_RANGE_DMA_BUF, 0),
                 "cuMemGetHandleForAddressRange(%#" PRIx64 ", %" PRIu64 " bytes)", address,
                 size_bytes);
    *file_descriptor = file;
    return VW_OK;
}

/* The driver counts references: memory that is still mapped goes with its last mapping. */
vw_status vw__cuda_release(void *context, vw_handle handle)
{
    VW__TRY(require_virtual_memory(context));
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuMemRelease(handle), "cuMemRelease(%#" PRIx64 ")",
                    handle);
}

static vw_status map(void *context, vw_device_ptr address, uint64_t size_bytes, vw_handle handle)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuMemMap(address, (size_t)size_bytes, 0, handle, 0),
                    "cuMemMap(%#" PRIx64 ", %" PRIu64 " bytes, handle %#" PRIx64 ")", address,
                    size_bytes, handle);
}

vw_status vw__cuda_map(void *context, vw_device_ptr address, uint64_t size_bytes, vw_handle handle)
{
    vw__cuda_gpu *device = context;
    VW__TRY(require_virtual_memory(device));
    if (!device->driver->vendor->unmaps_one_by_one)
        return map(device, address, size_bytes, handle);
    VW__TRY(vw__hip_mappings_add(&device->mappings, address, size_bytes));
    vw_status status = map(device, address, size_bytes, handle);
    if (status != VW_OK)
        vw__hip_mappings_remove(&device->mappings, address);
    return status;
}

static vw_status unmap(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuMemUnmap(address, (size_t)size_bytes),
                    "cuMemUnmap(%#" PRIx64 ", %" PRIu64 " bytes)", address, size_bytes);
}

vw_status vw__cuda_unmap(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw__cuda_gpu *device = context;
    VW__TRY(require_virtual_memory(device));
    if (!device->driver->vendor->unmaps_one_by_one)
        return unmap(device, address, size_bytes);
    return vw__hip_mappings_end_each(&device->mappings, address, size_bytes, unmap, device);
}

static vw_status set_access(void *context, vw_device_ptr address, uint64_t size_bytes)
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
    VW__CUDA_TRY(device, VW_ERR_DEVICE,
                 cuMemSetAccess(address, (size_t)size_bytes, accesses, count),
                 "cuMemSetAccess(%#" PRIx64 ", %" PRIu64 " bytes, for %zu devices)", address,
                 size_bytes, count);
    return VW_OK;
}

vw_status vw__cuda_set_access(void *context, vw_device_ptr address, uint64_t size_bytes)
{
    vw__cuda_gpu *device = context;
    VW__TRY(require_virtual_memory(device));
    if (!device->driver->vendor->unmaps_one_by_one)
        return set_access(device, address, size_bytes);
    return vw__hip_mappings_each(&device->mappings, address, size_bytes, set_access, device);
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
                        "no %s device %d to be a peer of device %d: the driver shows %d",
                        name_of(device), peer_index, device->index, count);
    if (peer_index >= VW__CUDA_MOST_PEERS || driver->cuDeviceCanAccessPeer == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "%s device %d cannot be asked about peer %d",
                        name_of(device), device->index, peer_index);
    result = driver->cuDeviceGet(out, peer_index);
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuDeviceGet(%d)", peer_index);
    result = driver->cuDeviceCanAccessPeer(&can_access, *out, device->ordinal);
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuDeviceCanAccessPeer(%d)",
                                peer_index);
    if (can_access == 0)
        return vw__fail(VW_ERR_UNSUPPORTED, "%s device %d cannot reach the memory of device %d",
                        name_of(device), peer_index, device->index);
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
