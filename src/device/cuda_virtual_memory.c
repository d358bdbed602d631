/* cuda_virtual_memory.c - one granule, all the way there and back.
 *
 * A trial ends at the first call that is refused, undoes what came before, and says which call it
 * was. A few are enough for all there is to know: with direct RDMA; without, if that failed;
 * shareable; and on the host, at the nearest node or wherever the driver likes. What a trial cannot
 * undo because the driver refuses that as well stays where it is: a device that cannot unmap is not
 * used for virtual memory. */
#include "device/cuda_virtual_memory.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h> /* close */

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
    driver->cuGetErrorName(done.result, &name);
    snprintf(found->reason, sizeof found->reason, "%s failed when tried: %s (%d)", done.call,
             name != NULL ? name : "unknown error", done.result);
}

static void find_plain(vw__cuda_virtual_memory *found, const vw__cuda_driver *driver,
                       vw__cuda_device device)
{
    found->plain = (vw__cuda_allocation){
        .type = VW__CUDA_ALLOCATION_PINNED,
        .location = {.type = VW__CUDA_LOCATION_DEVICE, .id = device},
        .is_direct_rdma_capable =
            has_attribute(driver, device, VW__CUDA_HAS_DIRECT_RDMA_WITH_VIRTUAL),
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
    if (driver->cuMemExportToShareableHandle == NULL ||
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
    if (!has_attribute(driver, device, VW__CUDA_HAS_VIRTUAL_MEMORY)) {
        snprintf(out->reason, sizeof out->reason, "the driver says so");
        return;
    }
    find_plain(out, driver, device);
    if (!out->is_usable)
        return;
    find_shareable(out, driver, device);
    find_host(out, driver, device);
}
