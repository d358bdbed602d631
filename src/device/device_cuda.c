/* device_cuda.c - a GPU behind the device table, through the CUDA driver.
 *
 * Each function of the table is one call of the driver. Around it, three things a guest in someone
 * else's program owes the host:
 *
 *   - The context. Most driver calls act on the calling thread's current context, and a thread
 *     may have none, or another device's. We use the device's primary context, the one PyTorch and
 *     the CUDA runtime use. Where it is current already (the usual case) reading that costs a few
 *     nanoseconds; where it is not, it is pushed for the call and popped after it, so that no
 *     caller ever finds its current context changed.
 *   - The capture mode. While any thread captures a graph in the default mode, calls such as
 *     cuMemAlloc and cuEventQuery fail in every thread and spoil that capture. Nothing here
 *     depends on captured work, so the thread's mode is relaxed for the call, as PyTorch does
 *     around its own calls of this kind.
 *   - The result. A driver's number means little at night with a dead training run. refusal() is
 *     the one place where it becomes ours, with the driver's name and text for it, the call, and
 *     its arguments. Most errors of a GPU are sticky: after one, every call reports it. We pass
 *     that on and keep no state of our own about it.
 *
 * No locks and no books: the driver is thread-safe, and what we hold is read-only after opening.
 *
 * The driver tears itself down when the process exits, in an order nobody controls; so destroy()
 * is never called then, and a device that is still open is left to the driver. */
#include "headroom/device.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h> /* getenv */

#include "base/error.h" /* hr__fail, HR__TRY */
#include "base/host_memory.h"
#include "device/cuda_driver_load.h"
#include "device/cuda_virtual_memory.h"
#include "device/nvml_load.h" /* hr__nvml_processes */

/* Set when the device is opened, then read-only. */
typedef struct cuda_device {
    const hr__cuda_driver *driver;
    hr__cuda_context primary;
    hr__cuda_virtual_memory virtual_memory; /* what create() asks for, among others */
    int index;                              /* among the devices visible to this process */
    hr__cuda_device ordinal;                /* the driver's number for it */
    char pci_bus_id[32];                    /* "" where the driver would not say */
} cuda_device;

/* ---- around every call ----------------------------------------------------------------------- */

/* What leave() has to put back. */
typedef struct driver_visit {
    bool is_pushed;
    bool is_relaxed;
    int capture_mode; /* the thread's own, while is_relaxed */
} driver_visit;

static hr_status refusal(const cuda_device *device, hr__cuda_result result, hr_status when_full,
                         const char *call, ...) __attribute__((format(printf, 4, 5), cold));

static hr_status enter(const cuda_device *device, driver_visit *visit)
{
    const hr__cuda_driver *driver = device->driver;
    hr__cuda_context current = NULL;
    hr__cuda_result result = driver->cuCtxGetCurrent(&current);
    if (result != HR__CUDA_SUCCESS)
        return refusal(device, result, HR_ERR_DEVICE, "cuCtxGetCurrent()");
    visit->is_pushed = current != device->primary;
    if (visit->is_pushed) {
        result = driver->cuCtxPushCurrent(device->primary);
        if (result != HR__CUDA_SUCCESS)
            return refusal(device, result, HR_ERR_DEVICE, "cuCtxPushCurrent(primary context)");
    }
    visit->capture_mode = HR__CUDA_CAPTURE_MODE_RELAXED;
    visit->is_relaxed =
        driver->cuThreadExchangeStreamCaptureMode != NULL &&
        driver->cuThreadExchangeStreamCaptureMode(&visit->capture_mode) == HR__CUDA_SUCCESS;
    return HR_OK;
}

/* Neither call can fail after enter() succeeded, unless the device was lost in between; then the
 * next call reports it. */
static void leave(const cuda_device *device, driver_visit *visit)
{
    if (visit->is_relaxed)
        device->driver->cuThreadExchangeStreamCaptureMode(&visit->capture_mode);
    if (visit->is_pushed) {
        hr__cuda_context popped = NULL;
        device->driver->cuCtxPopCurrent(&popped);
    }
}

/* Calls the driver between enter() and leave(), and stores its answer in `result_`. */
#define CALL(device_, result_, call_)                                                              \
    do {                                                                                           \
        driver_visit visit_;                                                                       \
        HR__TRY(enter((device_), &visit_));                                                        \
        (result_) = (device_)->driver->call_;                                                      \
        leave((device_), &visit_);                                                                 \
    } while (0)

/* The same, and passes a refusal on: what follows is for refusal(), as a format. */
#define TRY_DRIVER(device_, when_full_, call_, ...)                                                \
    do {                                                                                           \
        hr__cuda_result result_;                                                                   \
        CALL(device_, result_, call_);                                                             \
        if (result_ != HR__CUDA_SUCCESS)                                                           \
            return refusal((device_), result_, (when_full_), __VA_ARGS__);                         \
    } while (0)

static hr__cuda_stream stream_of(hr_stream stream)
{
    return (hr__cuda_stream)(uintptr_t)stream;
}

static hr__cuda_event event_of(hr_device_event event)
{
    return (hr__cuda_event)(uintptr_t)event;
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* "; 12 of 34 bytes free", or "" where the driver does not say. */
static void describe_free_memory(const cuda_device *device, char *out, size_t out_bytes)
{
    size_t free_bytes = 0, total_bytes = 0;
    driver_visit visit;
    out[0] = '\0';
    if (device->primary == NULL || enter(device, &visit) != HR_OK)
        return;
    if (device->driver->cuMemGetInfo(&free_bytes, &total_bytes) == HR__CUDA_SUCCESS)
        snprintf(out, out_bytes, "; %zu of %zu bytes free", free_bytes, total_bytes);
    leave(device, &visit);
}

/* Says what the driver answered to `call`, and what that is to us: `when_full` where the memory
 * the call is about has run out, HR_ERR_DEVICE otherwise. */
static hr_status refusal(const cuda_device *device, hr__cuda_result result, hr_status when_full,
                         const char *call, ...)
{
    char call_text[256], free_text[96] = "";
    va_list arguments;
    va_start(arguments, call);
    vsnprintf(call_text, sizeof call_text, call, arguments);
    va_end(arguments);

    hr_status status = result == HR__CUDA_ERROR_OUT_OF_MEMORY ? when_full : HR_ERR_DEVICE;
    if (status == HR_ERR_OUT_OF_MEMORY)
        describe_free_memory(device, free_text, sizeof free_text);

    /* The driver sets NULL for a number it does not know itself. */
    const char *name = NULL, *text = NULL;
    device->driver->cuGetErrorName(result, &name);
    device->driver->cuGetErrorString(result, &text);
    return hr__fail(status, "%s on CUDA device %d failed: %s (%d): %s%s", call_text, device->index,
                    name != NULL ? name : "unknown error", result,
                    text != NULL ? text : "the driver has no text for it", free_text);
}

/* ---- plain memory ---------------------------------------------------------------------------- */

static hr_status take(void *context, uint64_t size_bytes, hr_device_ptr *out)
{
    cuda_device *device = context;
    hr__cuda_ptr address = 0;
    TRY_DRIVER(device, HR_ERR_OUT_OF_MEMORY, cuMemAlloc(&address, (size_t)size_bytes),
               "cuMemAlloc(%" PRIu64 " bytes)", size_bytes);
    *out = address;
    return HR_OK;
}

static hr_status give_back(void *context, hr_device_ptr address)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemFree(address), "cuMemFree(%#" PRIx64 ")", address);
    return HR_OK;
}

/* ---- virtual memory -------------------------------------------------------------------------- */

static hr_status require_virtual_memory(const cuda_device *device)
{
    if (device->virtual_memory.is_usable)
        return HR_OK;
    return hr__fail(HR_ERR_UNSUPPORTED, "CUDA device %d has no virtual memory: %s", device->index,
                    device->virtual_memory.reason);
}

static hr_status require_sharing(const cuda_device *device)
{
    HR__TRY(require_virtual_memory(device));
    if (device->virtual_memory.is_shareable)
        return HR_OK;
    return hr__fail(HR_ERR_UNSUPPORTED, "CUDA device %d has no shareable handles here",
                    device->index);
}

static hr_status reserve(void *context, uint64_t size_bytes, hr_device_ptr *out)
{
    cuda_device *device = context;
    hr__cuda_ptr address = 0;
    HR__TRY(require_virtual_memory(device));
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemAddressReserve(&address, (size_t)size_bytes, 0, 0, 0),
               "cuMemAddressReserve(%" PRIu64 " bytes)", size_bytes);
    *out = address;
    return HR_OK;
}

static hr_status unreserve(void *context, hr_device_ptr address, uint64_t size_bytes)
{
    cuda_device *device = context;
    HR__TRY(require_virtual_memory(device));
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemAddressFree(address, (size_t)size_bytes),
               "cuMemAddressFree(%#" PRIx64 ", %" PRIu64 " bytes)", address, size_bytes);
    return HR_OK;
}

static hr_status create(void *context, uint64_t size_bytes, hr_handle *out)
{
    cuda_device *device = context;
    hr__cuda_handle handle = 0;
    HR__TRY(require_virtual_memory(device));
    TRY_DRIVER(device, HR_ERR_OUT_OF_MEMORY,
               cuMemCreate(&handle, (size_t)size_bytes, &device->virtual_memory.plain, 0),
               "cuMemCreate(%" PRIu64 " bytes)", size_bytes);
    *out = handle;
    return HR_OK;
}

static hr_status create_shareable(void *context, uint64_t size_bytes, hr_handle *out)
{
    cuda_device *device = context;
    hr__cuda_handle handle = 0;
    HR__TRY(require_sharing(device));
    TRY_DRIVER(device, HR_ERR_OUT_OF_MEMORY,
               cuMemCreate(&handle, (size_t)size_bytes, &device->virtual_memory.shareable, 0),
               "cuMemCreate(%" PRIu64 " bytes, shareable)", size_bytes);
    *out = handle;
    return HR_OK;
}

static hr_status export_handle(void *context, hr_handle handle, int *file_descriptor)
{
    cuda_device *device = context;
    int file = -1;
    HR__TRY(require_sharing(device));
    TRY_DRIVER(device, HR_ERR_DEVICE,
               cuMemExportToShareableHandle(&file, handle, HR__CUDA_HANDLE_FILE_DESCRIPTOR, 0),
               "cuMemExportToShareableHandle(%#" PRIx64 ")", handle);
    *file_descriptor = file;
    return HR_OK;
}

/* The driver counts references: memory that is still mapped goes with its last mapping. */
static hr_status release(void *context, hr_handle handle)
{
    cuda_device *device = context;
    HR__TRY(require_virtual_memory(device));
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemRelease(handle), "cuMemRelease(%#" PRIx64 ")", handle);
    return HR_OK;
}

static hr_status map(void *context, hr_device_ptr address, uint64_t size_bytes, hr_handle handle)
{
    cuda_device *device = context;
    HR__TRY(require_virtual_memory(device));
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemMap(address, (size_t)size_bytes, 0, handle, 0),
               "cuMemMap(%#" PRIx64 ", %" PRIu64 " bytes, handle %#" PRIx64 ")", address,
               size_bytes, handle);
    return HR_OK;
}

static hr_status unmap(void *context, hr_device_ptr address, uint64_t size_bytes)
{
    cuda_device *device = context;
    HR__TRY(require_virtual_memory(device));
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemUnmap(address, (size_t)size_bytes),
               "cuMemUnmap(%#" PRIx64 ", %" PRIu64 " bytes)", address, size_bytes);
    return HR_OK;
}

static hr_status set_access(void *context, hr_device_ptr address, uint64_t size_bytes)
{
    cuda_device *device = context;
    hr__cuda_access access = {
        .location = device->virtual_memory.plain.location,
        .flags = HR__CUDA_ACCESS_READ_WRITE,
    };
    HR__TRY(require_virtual_memory(device));
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemSetAccess(address, (size_t)size_bytes, &access, 1),
               "cuMemSetAccess(%#" PRIx64 ", %" PRIu64 " bytes)", address, size_bytes);
    return HR_OK;
}

/* ---- streams and events ---------------------------------------------------------------------- */

static hr_status stream_create(void *context, hr_stream *out)
{
    cuda_device *device = context;
    hr__cuda_stream stream = NULL;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuStreamCreate(&stream, HR__CUDA_STREAM_NON_BLOCKING),
               "cuStreamCreate(non-blocking)");
    *out = (hr_stream)(uintptr_t)stream;
    return HR_OK;
}

static hr_status stream_destroy(void *context, hr_stream stream)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuStreamDestroy(stream_of(stream)),
               "cuStreamDestroy(%#" PRIx64 ")", stream);
    return HR_OK;
}

static hr_status stream_synchronize(void *context, hr_stream stream)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuStreamSynchronize(stream_of(stream)),
               "cuStreamSynchronize(%#" PRIx64 ")", stream);
    return HR_OK;
}

static hr_status stream_wait_event(void *context, hr_stream stream, hr_device_event event)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuStreamWaitEvent(stream_of(stream), event_of(event), 0),
               "cuStreamWaitEvent(stream %#" PRIx64 ", event %#" PRIx64 ")", stream, event);
    return HR_OK;
}

static hr_status stream_is_capturing(void *context, hr_stream stream, bool *out)
{
    cuda_device *device = context;
    int status = HR__CUDA_CAPTURE_STATUS_NONE;
    if (device->driver->cuStreamIsCapturing != NULL) /* a driver without it cannot capture */
        TRY_DRIVER(device, HR_ERR_DEVICE, cuStreamIsCapturing(stream_of(stream), &status),
                   "cuStreamIsCapturing(%#" PRIx64 ")", stream);
    *out = status != HR__CUDA_CAPTURE_STATUS_NONE; /* a spoilt capture is one until it is ended */
    return HR_OK;
}

static hr_status event_create(void *context, hr_device_event *out)
{
    cuda_device *device = context;
    hr__cuda_event event = NULL;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuEventCreate(&event, HR__CUDA_EVENT_DISABLE_TIMING),
               "cuEventCreate(without timing)");
    *out = (hr_device_event)(uintptr_t)event;
    return HR_OK;
}

static hr_status event_destroy(void *context, hr_device_event event)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuEventDestroy(event_of(event)),
               "cuEventDestroy(%#" PRIx64 ")", event);
    return HR_OK;
}

static hr_status event_record(void *context, hr_device_event event, hr_stream stream)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuEventRecord(event_of(event), stream_of(stream)),
               "cuEventRecord(event %#" PRIx64 ", stream %#" PRIx64 ")", event, stream);
    return HR_OK;
}

static hr_status event_query(void *context, hr_device_event event)
{
    cuda_device *device = context;
    hr__cuda_result result;
    CALL(device, result, cuEventQuery(event_of(event)));
    if (result == HR__CUDA_ERROR_NOT_READY)
        return HR_ERR_NOT_READY;
    if (result != HR__CUDA_SUCCESS)
        return refusal(device, result, HR_ERR_DEVICE, "cuEventQuery(%#" PRIx64 ")", event);
    return HR_OK;
}

static hr_status event_synchronize(void *context, hr_device_event event)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuEventSynchronize(event_of(event)),
               "cuEventSynchronize(%#" PRIx64 ")", event);
    return HR_OK;
}

static hr_status synchronize(void *context)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuCtxSynchronize(), "cuCtxSynchronize()");
    return HR_OK;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* The driver's copy from pageable memory returns when the bytes are staged, which is too early for
 * a reader on a stream that does not wait for the default one. */
static hr_status write_bytes(void *context, hr_device_ptr to, const void *from, uint64_t size_bytes)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemcpyHtoD(to, from, (size_t)size_bytes),
               "cuMemcpyHtoD(to %#" PRIx64 ", %" PRIu64 " bytes)", to, size_bytes);
    TRY_DRIVER(device, HR_ERR_DEVICE, cuStreamSynchronize(NULL),
               "cuStreamSynchronize(0) after a write to %#" PRIx64, to);
    return HR_OK;
}

static hr_status read_bytes(void *context, void *to, hr_device_ptr from, uint64_t size_bytes)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemcpyDtoH(to, from, (size_t)size_bytes),
               "cuMemcpyDtoH(from %#" PRIx64 ", %" PRIu64 " bytes)", from, size_bytes);
    return HR_OK;
}

static hr_status fill(void *context, hr_device_ptr to, uint8_t value, uint64_t size_bytes,
                      hr_stream stream)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE,
               cuMemsetD8Async(to, value, (size_t)size_bytes, stream_of(stream)),
               "cuMemsetD8Async(%#" PRIx64 ", %" PRIu64 " bytes, stream %#" PRIx64 ")", to,
               size_bytes, stream);
    return HR_OK;
}

static hr_status copy(void *context, hr_device_ptr to, hr_device_ptr from, uint64_t size_bytes,
                      hr_stream stream)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE,
               cuMemcpyDtoDAsync(to, from, (size_t)size_bytes, stream_of(stream)),
               "cuMemcpyDtoDAsync(to %#" PRIx64 ", from %#" PRIx64 ", %" PRIu64
               " bytes, stream %#" PRIx64 ")",
               to, from, size_bytes, stream);
    return HR_OK;
}

/* ---- page-locked host memory ----------------------------------------------------------------- */

/* Without flags, as PyTorch (cudaHostAllocDefault). What runs out here is the host's memory. */
static hr_status host_take(void *context, uint64_t size_bytes, void **out)
{
    cuda_device *device = context;
    void *address = NULL;
    TRY_DRIVER(device, HR_ERR_HOST_MEMORY, cuMemHostAlloc(&address, (size_t)size_bytes, 0),
               "cuMemHostAlloc(%" PRIu64 " bytes)", size_bytes);
    *out = address;
    return HR_OK;
}

static hr_status host_give_back(void *context, void *address)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemFreeHost(address), "cuMemFreeHost(%p)", address);
    return HR_OK;
}

static hr_status host_register(void *context, void *address, uint64_t size_bytes)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_HOST_MEMORY, cuMemHostRegister(address, (size_t)size_bytes, 0),
               "cuMemHostRegister(%p, %" PRIu64 " bytes)", address, size_bytes);
    return HR_OK;
}

static hr_status host_unregister(void *context, void *address)
{
    cuda_device *device = context;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemHostUnregister(address), "cuMemHostUnregister(%p)",
               address);
    return HR_OK;
}

/* ---- what there is --------------------------------------------------------------------------- */

static hr_status memory_info(void *context, uint64_t *free_bytes, uint64_t *total_bytes)
{
    cuda_device *device = context;
    size_t free_now_bytes = 0, total_now_bytes = 0;
    TRY_DRIVER(device, HR_ERR_DEVICE, cuMemGetInfo(&free_now_bytes, &total_now_bytes),
               "cuMemGetInfo()");
    *free_bytes = free_now_bytes;
    *total_bytes = total_now_bytes;
    return HR_OK;
}

static hr_status processes(void *context, hr_process_memory *entries, size_t capacity,
                           size_t *count)
{
    cuda_device *device = context;
    if (device->pci_bus_id[0] == '\0')
        return hr__fail(HR_ERR_UNSUPPORTED, "the driver does not tell CUDA device %d's bus id",
                        device->index);
    return hr__nvml_processes(device->pci_bus_id, entries, capacity, count);
}

/* ---- opening and ending ---------------------------------------------------------------------- */

static void destroy(void *context)
{
    cuda_device *device = context;
    device->driver->cuDevicePrimaryCtxRelease(device->ordinal);
    hr__host_free(device);
}

static const hr_device_table cuda_table = {
    .struct_size = sizeof(hr_device_table),
    .take = take,
    .give_back = give_back,
    .reserve = reserve,
    .unreserve = unreserve,
    .create = create,
    .release = release,
    .map = map,
    .unmap = unmap,
    .set_access = set_access,
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
    .create_shareable = create_shareable,
    .export_handle = export_handle,
};

/* Starts the driver and finds the device. A stub library, and a driver that sees no GPU, are no
 * device; anything else that goes wrong is the driver's error. */
static hr_status find_device(cuda_device *device)
{
    const hr__cuda_driver *driver = device->driver;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;
    hr__cuda_result result = driver->cuInit(0);
    if (result != HR__CUDA_SUCCESS) {
        hr_status status = refusal(device, result, HR_ERR_DEVICE, "cuInit(0)");
        bool is_absent =
            result == HR__CUDA_ERROR_NO_DEVICE || result == HR__CUDA_ERROR_STUB_LIBRARY;
        return is_absent ? HR_ERR_NO_DEVICE : status;
    }
    result = driver->cuDeviceGetCount(&count);
    if (result != HR__CUDA_SUCCESS)
        return refusal(device, result, HR_ERR_DEVICE, "cuDeviceGetCount()");
    if (device->index < 0 || device->index >= count)
        return hr__fail(HR_ERR_NO_DEVICE,
                        "no CUDA device %d: the driver shows %d, counted from 0 "
                        "(CUDA_VISIBLE_DEVICES is %s%s)",
                        device->index, count, visible != NULL ? "set: " : "not set",
                        visible != NULL ? visible : "");
    result = driver->cuDeviceGet(&device->ordinal, device->index);
    if (result != HR__CUDA_SUCCESS)
        return refusal(device, result, HR_ERR_DEVICE, "cuDeviceGet(%d)", device->index);
    return HR_OK;
}

static hr_status describe(cuda_device *device, hr_device_properties *properties)
{
    const hr__cuda_driver *driver = device->driver;
    size_t total_bytes = 0;
    hr__cuda_result result = driver->cuDeviceTotalMem(&total_bytes, device->ordinal);
    if (result != HR__CUDA_SUCCESS)
        return refusal(device, result, HR_ERR_DEVICE, "cuDeviceTotalMem()");
    result =
        driver->cuDeviceGetName(properties->name, (int)sizeof properties->name, device->ordinal);
    if (result != HR__CUDA_SUCCESS)
        return refusal(device, result, HR_ERR_DEVICE, "cuDeviceGetName()");
    if (driver->cuDeviceGetPCIBusId(device->pci_bus_id, (int)sizeof device->pci_bus_id,
                                    device->ordinal) != HR__CUDA_SUCCESS)
        device->pci_bus_id[0] = '\0'; /* only processes() needs it */
    properties->index = device->index;
    properties->total_bytes = total_bytes;
    properties->has_bytes = true;
    properties->has_pinned_memory = true;
    return HR_OK;
}

/* Under WSL2, on virtual GPUs and with old drivers there may be none: plain memory works. */
static hr_status set_up_virtual_memory(cuda_device *device, hr_device_properties *properties)
{
    hr__cuda_virtual_memory *found = &device->virtual_memory;
    driver_visit visit;
    HR__TRY(enter(device, &visit));
    hr__cuda_find_virtual_memory(device->driver, device->ordinal, found);
    leave(device, &visit);
    if (!found->is_usable)
        return HR_OK;
    properties->has_virtual_memory = true;
    properties->granularity_bytes = found->granularity_bytes;
    properties->has_shareable_handles = found->is_shareable;
    properties->has_rdma_handles = found->plain.is_direct_rdma_capable != 0;
    return HR_OK;
}

hr_status hr_cuda_device_open(int index, hr_device **out)
{
    const hr__cuda_driver *driver = NULL;
    if (out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "hr_cuda_device_open: out is NULL");
    HR__TRY(hr__cuda_driver_get(&driver));

    hr_device *opened = hr__host_alloc_zeroed(1, sizeof *opened);
    cuda_device *device = hr__host_alloc_zeroed(1, sizeof *device);
    hr_status status;
    if (opened == NULL || device == NULL) {
        status = hr__fail_host_memory(sizeof *opened + sizeof *device, "a CUDA device");
        goto free_both;
    }
    device->driver = driver;
    device->index = index;
    opened->table = &cuda_table;
    opened->context = device;
    if ((status = find_device(device)) != HR_OK)
        goto free_both;
    if ((status = describe(device, &opened->properties)) != HR_OK)
        goto free_both;
    hr__cuda_result result = driver->cuDevicePrimaryCtxRetain(&device->primary, device->ordinal);
    if (result != HR__CUDA_SUCCESS) {
        status = refusal(device, result, HR_ERR_OUT_OF_MEMORY, "cuDevicePrimaryCtxRetain()");
        goto free_both;
    }
    if ((status = set_up_virtual_memory(device, &opened->properties)) != HR_OK)
        goto release_context;
    *out = opened;
    return HR_OK;

release_context:
    driver->cuDevicePrimaryCtxRelease(device->ordinal);
free_both:
    hr__host_free(device);
    hr__host_free(opened);
    return status;
}
