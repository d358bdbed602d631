/* device_cuda.c - a GPU behind the device table, through the CUDA driver, or one like it.
 *
 * Each function of the table is one driver call, with what must be done around it (cuda_calls.h).
 * Virtual memory is in cuda_virtual_memory.c.
 *
 * The driver tears itself down when the process exits, in an order nobody controls; so destroy()
 * is never called then, and a device that is still open is left to the driver. */
#include "vramwise/device.h"

#include <inttypes.h>
#include <stdlib.h> /* secure_getenv */
#include <string.h>

#include "base/error.h" /* vw__fail, VW__TRY */
#include "base/host_memory.h"
#include "device/cuda_calls.h"
#include "device/device_common.h" /* vw__cuda_device_table */

static vw__cuda_stream stream_of(vw_stream stream)
{
    return (vw__cuda_stream)(uintptr_t)stream;
}

static vw__cuda_event event_of(vw_device_event event)
{
    return (vw__cuda_event)(uintptr_t)event;
}

/* ---- plain memory ---------------------------------------------------------------------------- */

static vw_status take(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    vw__cuda_gpu *device = context;
    vw__cuda_ptr address = 0;
    VW__CUDA_TRY(device, VW_ERR_OUT_OF_MEMORY, cuMemAlloc(&address, (size_t)size_bytes),
                 "cuMemAlloc(%" PRIu64 " bytes)", size_bytes);
    *out = address;
    return VW_OK;
}

static vw_status give_back(void *context, vw_device_ptr address)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuMemFree(address), "cuMemFree(%#" PRIx64 ")", address);
}

/* ---- streams --------------------------------------------------------------------------------- */

static vw_status stream_create(void *context, vw_stream *out)
{
    vw__cuda_gpu *device = context;
    vw__cuda_stream stream = NULL;
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuStreamCreate(&stream, VW__CUDA_STREAM_NON_BLOCKING),
                 "cuStreamCreate(non-blocking)");
    *out = (vw_stream)(uintptr_t)stream;
    return VW_OK;
}

static vw_status stream_destroy(void *context, vw_stream stream)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuStreamDestroy(stream_of(stream)),
                    "cuStreamDestroy(%#" PRIx64 ")", stream);
}

static vw_status stream_synchronize(void *context, vw_stream stream)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuStreamSynchronize(stream_of(stream)),
                    "cuStreamSynchronize(%#" PRIx64 ")", stream);
}

static vw_status stream_wait_event(void *context, vw_stream stream, vw_device_event event)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE,
                    cuStreamWaitEvent(stream_of(stream), event_of(event), 0),
                    "cuStreamWaitEvent(stream %#" PRIx64 ", event %#" PRIx64 ")", stream, event);
}

static vw_status stream_is_capturing(void *context, vw_stream stream, bool *out)
{
    vw__cuda_gpu *device = context;
    int status = VW__CUDA_CAPTURE_STATUS_NONE;
    if (device->driver->cuStreamIsCapturing != NULL) /* a driver without it cannot capture */
        VW__CUDA_TRY(device, VW_ERR_DEVICE, cuStreamIsCapturing(stream_of(stream), &status),
                     "cuStreamIsCapturing(%#" PRIx64 ")", stream);
    *out = status != VW__CUDA_CAPTURE_STATUS_NONE; /* a spoilt capture is one until it is ended */
    return VW_OK;
}

/* ---- graphs that are being captured ---------------------------------------------------------- */

static vw_status no_graphs(const char *what)
{
    return vw__fail(VW_ERR_UNSUPPORTED, "%s: the driver is too old", what);
}

/* The driver's list is its own, and stays only until more work is captured. A node that waits in a
 * way this version of the call cannot tell makes it fail. */
static vw_status stream_capture_nodes(void *context, vw_stream stream, uint64_t *capture,
                                      vw_graph_node *nodes, size_t capacity, size_t *count)
{
    vw__cuda_gpu *device = context;
    int status = VW__CUDA_CAPTURE_STATUS_NONE;
    unsigned long long id = 0;
    vw__cuda_graph graph = NULL;
    const vw__cuda_node *found = NULL;
    size_t found_count = 0;
    if (device->driver->cuStreamGetCaptureInfo == NULL)
        return no_graphs("stream_capture_nodes");
    VW__CUDA_TRY(
        device, VW_ERR_DEVICE,
        cuStreamGetCaptureInfo(stream_of(stream), &status, &id, &graph, &found, &found_count),
        "cuStreamGetCaptureInfo(%#" PRIx64 ")", stream);
    bool is_active = status == VW__CUDA_CAPTURE_STATUS_ACTIVE; /* in a spoilt one nothing is */
    *capture = is_active ? id : 0;
    *count = is_active ? found_count : 0;
    for (size_t i = 0; i < *count && i < capacity; i++)
        nodes[i] = (vw_graph_node)(uintptr_t)found[i];
    return VW_OK;
}

static vw_status graph_node_parents(void *context, vw_graph_node node, vw_graph_node *parents,
                                    size_t capacity, size_t *count)
{
    vw__cuda_gpu *device = context;
    vw__cuda_node asked = (vw__cuda_node)(uintptr_t)node;
    size_t all = 0;
    if (device->driver->cuGraphNodeGetDependencies == NULL)
        return no_graphs("graph_node_parents");
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuGraphNodeGetDependencies(asked, NULL, &all),
                 "cuGraphNodeGetDependencies(%#" PRIx64 ")", node);
    size_t wanted = all < capacity ? all : capacity;
    if (wanted != 0) /* none would mean: how many */
        VW__CUDA_TRY(device, VW_ERR_DEVICE,
                     cuGraphNodeGetDependencies(asked, (vw__cuda_node *)(void *)parents, &wanted),
                     "cuGraphNodeGetDependencies(%#" PRIx64 ")", node);
    for (size_t i = wanted; i-- > 0;) { /* from the driver's form to ours, in place */
        vw__cuda_node parent;
        memcpy(&parent, (const char *)parents + i * sizeof parent, sizeof parent);
        parents[i] = (vw_graph_node)(uintptr_t)parent;
    }
    *count = all;
    return VW_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

static vw_status event_create(void *context, vw_device_event *out)
{
    vw__cuda_gpu *device = context;
    vw__cuda_event event = NULL;
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuEventCreate(&event, VW__CUDA_EVENT_DISABLE_TIMING),
                 "cuEventCreate(without timing)");
    *out = (vw_device_event)(uintptr_t)event;
    return VW_OK;
}

static vw_status event_destroy(void *context, vw_device_event event)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuEventDestroy(event_of(event)),
                    "cuEventDestroy(%#" PRIx64 ")", event);
}

static vw_status event_record(void *context, vw_device_event event, vw_stream stream)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuEventRecord(event_of(event), stream_of(stream)),
                    "cuEventRecord(event %#" PRIx64 ", stream %#" PRIx64 ")", event, stream);
}

static vw_status event_record_all(void *context, vw_device_event event)
{
    const vw__cuda_gpu *device = context;
    if (device->driver->cuCtxRecordEvent == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "this driver has no event for all streams together");
    VW__CUDA_RETURN(device, VW_ERR_DEVICE, cuCtxRecordEvent(device->primary, event_of(event)),
                    "cuCtxRecordEvent(event %#" PRIx64 ")", event);
}

static vw_status event_query(void *context, vw_device_event event)
{
    vw__cuda_gpu *device = context;
    vw__cuda_result result;
    VW__CUDA_CALL(device, result, cuEventQuery(event_of(event)));
    if (result == VW__CUDA_ERROR_NOT_READY)
        return VW_ERR_NOT_READY;
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuEventQuery(%#" PRIx64 ")", event);
    return VW_OK;
}

static vw_status event_synchronize(void *context, vw_device_event event)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuEventSynchronize(event_of(event)),
                    "cuEventSynchronize(%#" PRIx64 ")", event);
}

static vw_status synchronize(void *context)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuCtxSynchronize(), "cuCtxSynchronize()");
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The driver's copy from pageable memory returns when the bytes are staged, which is too early for
 * a reader on a stream that does not wait for the default one. */
static vw_status write_bytes(void *context, vw_device_ptr to, const void *from, uint64_t size_bytes)
{
    vw__cuda_gpu *device = context;
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuMemcpyHtoD(to, from, (size_t)size_bytes),
                 "cuMemcpyHtoD(to %#" PRIx64 ", %" PRIu64 " bytes)", to, size_bytes);
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuStreamSynchronize(NULL),
                 "cuStreamSynchronize(0) after a write to %#" PRIx64, to);
    return VW_OK;
}

static vw_status read_bytes(void *context, void *to, vw_device_ptr from, uint64_t size_bytes)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuMemcpyDtoH(to, from, (size_t)size_bytes),
                    "cuMemcpyDtoH(from %#" PRIx64 ", %" PRIu64 " bytes)", from, size_bytes);
}

static vw_status fill(void *context, vw_device_ptr to, uint8_t value, uint64_t size_bytes,
                      vw_stream stream)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE,
                    cuMemsetD8Async(to, value, (size_t)size_bytes, stream_of(stream)),
                    "cuMemsetD8Async(%#" PRIx64 ", %" PRIu64 " bytes, stream %#" PRIx64 ")", to,
                    size_bytes, stream);
}

static vw_status copy(void *context, vw_device_ptr to, vw_device_ptr from, uint64_t size_bytes,
                      vw_stream stream)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE,
                    cuMemcpyDtoDAsync(to, from, (size_t)size_bytes, stream_of(stream)),
                    "cuMemcpyDtoDAsync(to %#" PRIx64 ", from %#" PRIx64 ", %" PRIu64
                    " bytes, stream %#" PRIx64 ")",
                    to, from, size_bytes, stream);
}

/* ---- page-locked host memory ----------------------------------------------------------------- */

/* Without flags, as PyTorch (cudaHostAllocDefault). Out of memory means host memory here. */
static vw_status host_take(void *context, uint64_t size_bytes, void **out)
{
    vw__cuda_gpu *device = context;
    void *address = NULL;
    VW__CUDA_TRY(device, VW_ERR_HOST_MEMORY, cuMemHostAlloc(&address, (size_t)size_bytes, 0),
                 "cuMemHostAlloc(%" PRIu64 " bytes)", size_bytes);
    *out = address;
    return VW_OK;
}

static vw_status host_give_back(void *context, void *address)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuMemFreeHost(address), "cuMemFreeHost(%p)", address);
}

static vw_status host_register(void *context, void *address, uint64_t size_bytes)
{
    VW__CUDA_RETURN(context, VW_ERR_HOST_MEMORY, cuMemHostRegister(address, (size_t)size_bytes, 0),
                    "cuMemHostRegister(%p, %" PRIu64 " bytes)", address, size_bytes);
}

static vw_status host_unregister(void *context, void *address)
{
    VW__CUDA_RETURN(context, VW_ERR_DEVICE, cuMemHostUnregister(address), "cuMemHostUnregister(%p)",
                    address);
}

/* ---- what there is --------------------------------------------------------------------------- */

static vw_status memory_info(void *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    vw__cuda_gpu *device = context;
    size_t free_now_bytes = 0, total_now_bytes = 0;
    VW__CUDA_TRY(device, VW_ERR_DEVICE, cuMemGetInfo(&free_now_bytes, &total_now_bytes),
                 "cuMemGetInfo()");
    *free_bytes = free_now_bytes;
    *total_bytes = total_now_bytes;
    return VW_OK;
}

static vw_status processes(void *context, vw_process_memory *entries, size_t capacity,
                           size_t *count)
{
    vw__cuda_gpu *device = context;
    const vw__cuda_vendor *vendor = device->driver->vendor;
    if (vendor->monitor == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "nobody lists the processes on %s device %d",
                        vendor->name, device->index);
    if (device->pci_bus_id[0] == '\0')
        return vw__fail(VW_ERR_UNSUPPORTED, "the driver does not tell %s device %d's bus id",
                        vendor->name, device->index);
    return vendor->monitor->processes(device->pci_bus_id, entries, capacity, count);
}

/* ---- opening and ending ---------------------------------------------------------------------- */

static void destroy(void *context)
{
    vw__cuda_gpu *device = context;
    device->driver->cuDevicePrimaryCtxRelease(device->ordinal);
    vw__hip_mappings_deinit(&device->mappings);
    vw__host_free(device);
}

/* For every vendor. */
static const vw_device_table cuda_table = {
    .struct_size = sizeof(vw_device_table),
    .take = take,
    .give_back = give_back,
    .reserve = vw__cuda_reserve,
    .unreserve = vw__cuda_unreserve,
    .create = vw__cuda_create,
    .release = vw__cuda_release,
    .map = vw__cuda_map,
    .unmap = vw__cuda_unmap,
    .set_access = vw__cuda_set_access,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .stream_is_capturing = stream_is_capturing,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .synchronize = synchronize,
    .write = write_bytes,
    .read = read_bytes,
    .fill = fill,
    .copy = copy,
    .host_take = host_take,
    .host_give_back = host_give_back,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .memory_info = memory_info,
    .processes = processes,
    .destroy = destroy,
    .create_shareable = vw__cuda_create_shareable,
    .export_handle = vw__cuda_export_handle,
    .import_handle = vw__cuda_import_handle,
    .allow_peer = vw__cuda_allow_peer,
    .create_on_host = vw__cuda_create_on_host,
    .stream_capture_nodes = stream_capture_nodes,
    .graph_node_parents = graph_node_parents,
    .export_dma_buf = vw__cuda_export_dma_buf,
    .event_record_all = event_record_all,
};

const vw_device_table *vw__cuda_device_table(void)
{
    return &cuda_table;
}

/* CUDA says that there is no GPU when it is started, HIP when they are counted. */
static vw_status absence_or_refusal(const vw__cuda_gpu *device, vw__cuda_result result,
                                    const char *call)
{
    vw_status status = vw__cuda_refusal(device, result, VW_ERR_DEVICE, "%s", call);
    bool is_absent = result == VW__CUDA_ERROR_NO_DEVICE || result == VW__CUDA_ERROR_STUB_LIBRARY;
    return is_absent ? VW_ERR_NO_DEVICE : status;
}

/* Starts the driver and finds the device. VW_ERR_NO_DEVICE for a stub library and for a driver that
 * sees no GPU; VW_ERR_DEVICE for other failures. */
static vw_status find_device(vw__cuda_gpu *device)
{
    const vw__cuda_driver *driver = device->driver;
    const vw__cuda_vendor *vendor = driver->vendor;
    const char *visible = secure_getenv(vendor->visible_variable);
    int count = 0;
    vw__cuda_result result = driver->cuInit(0);
    if (result != VW__CUDA_SUCCESS)
        return absence_or_refusal(device, result, "cuInit(0)");
    result = driver->cuDeviceGetCount(&count);
    if (result != VW__CUDA_SUCCESS)
        return absence_or_refusal(device, result, "cuDeviceGetCount()");
    if (device->index < 0 || device->index >= count)
        return vw__fail(VW_ERR_NO_DEVICE,
                        "no %s device %d: the driver shows %d, counted from 0 (%s is %s%s)",
                        vendor->name, device->index, count, vendor->visible_variable,
                        visible != NULL ? "set: " : "not set", visible != NULL ? visible : "");
    result = driver->cuDeviceGet(&device->ordinal, device->index);
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuDeviceGet(%d)", device->index);
    return VW_OK;
}

static vw_status describe(vw__cuda_gpu *device, vw_device_properties *properties)
{
    const vw__cuda_driver *driver = device->driver;
    size_t total_bytes = 0;
    vw__cuda_result result = driver->cuDeviceTotalMem(&total_bytes, device->ordinal);
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuDeviceTotalMem()");
    result =
        driver->cuDeviceGetName(properties->name, (int)sizeof properties->name, device->ordinal);
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuDeviceGetName()");
    if (driver->cuDeviceGetPCIBusId(device->pci_bus_id, (int)sizeof device->pci_bus_id,
                                    device->ordinal) != VW__CUDA_SUCCESS)
        device->pci_bus_id[0] = '\0'; /* only processes() needs it */
    properties->index = device->index;
    properties->total_bytes = total_bytes;
    properties->has_bytes = true;
    properties->has_pinned_memory = true;
    return VW_OK;
}

/* Under WSL2, on virtual GPUs and with old drivers there may be none; plain memory still works. */
static vw_status set_up_virtual_memory(vw__cuda_gpu *device, vw_device_properties *properties)
{
    vw__cuda_virtual_memory *found = &device->virtual_memory;
    vw__cuda_visit visit;
    VW__TRY(vw__cuda_enter(device, &visit));
    vw__cuda_find_virtual_memory(device->driver, device->ordinal, found);
    vw__cuda_leave(device, &visit);
    properties->has_dma_buf = vw__cuda_has_dma_buf(device->driver, device->ordinal);
    if (!found->is_usable)
        return VW_OK;
    properties->has_virtual_memory = true;
    properties->granularity_bytes = found->granularity_bytes;
    properties->has_shareable_handles = found->is_shareable;
    properties->has_rdma_handles = found->plain.is_direct_rdma_capable != 0;
    properties->has_host_handles = found->has_host;
    return VW_OK;
}

vw_status vw__cuda_open(const vw__cuda_driver *driver, int index, vw_device **out)
{
    vw_device *opened = vw__host_alloc_zeroed(1, sizeof *opened);
    vw__cuda_gpu *device = vw__host_alloc_zeroed(1, sizeof *device);
    vw_status status;
    if (opened == NULL || device == NULL) {
        status = vw__fail_host_memory(sizeof *opened + sizeof *device, "a GPU");
        goto free_both;
    }
    device->driver = driver;
    device->index = index;
    vw__hip_mappings_init(&device->mappings);
    opened->table = &cuda_table;
    opened->context = device;
    if ((status = find_device(device)) != VW_OK)
        goto free_both;
    if ((status = describe(device, &opened->properties)) != VW_OK)
        goto free_both;
    vw__cuda_result result = driver->cuDevicePrimaryCtxRetain(&device->primary, device->ordinal);
    if (result != VW__CUDA_SUCCESS) {
        status =
            vw__cuda_refusal(device, result, VW_ERR_OUT_OF_MEMORY, "cuDevicePrimaryCtxRetain()");
        goto free_both;
    }
    if ((status = set_up_virtual_memory(device, &opened->properties)) != VW_OK)
        goto release_context;
    *out = opened;
    return VW_OK;

release_context:
    driver->cuDevicePrimaryCtxRelease(device->ordinal);
free_both:
    vw__host_free(device);
    vw__host_free(opened);
    return status;
}

vw_status vw_cuda_device_open(int index, vw_device **out)
{
    const vw__cuda_driver *driver = NULL;
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "vw_cuda_device_open: out is NULL");
    VW__TRY(vw__cuda_driver_get(&driver));
    return vw__cuda_open(driver, index, out);
}
