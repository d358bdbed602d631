/* cuda_calls.c - entering and leaving the context, and messages for driver errors. */
#include "device/cuda_calls.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- around every call ----------------------------------------------------------------------- */

vw_status vw__cuda_enter(const vw__cuda_gpu *device, vw__cuda_visit *visit)
{
    const vw__cuda_driver *driver = device->driver;
    vw__cuda_context current = NULL;
    vw__cuda_result result = driver->cuCtxGetCurrent(&current);
    if (result != VW__CUDA_SUCCESS)
        return vw__cuda_refusal(device, result, VW_ERR_DEVICE, "cuCtxGetCurrent()");
    visit->before = current;
    visit->is_pushed = current != device->primary;
    if (visit->is_pushed) {
        result = driver->cuCtxPushCurrent(device->primary);
        if (result != VW__CUDA_SUCCESS)
            return vw__cuda_refusal(device, result, VW_ERR_DEVICE,
                                    "cuCtxPushCurrent(primary context)");
    }
    visit->capture_mode = VW__CUDA_CAPTURE_MODE_RELAXED;
    visit->is_relaxed =
        driver->cuThreadExchangeStreamCaptureMode != NULL &&
        driver->cuThreadExchangeStreamCaptureMode(&visit->capture_mode) == VW__CUDA_SUCCESS;
    return VW_OK;
}

/* Neither call can fail after vw__cuda_enter(), unless the device was lost in between; the next
 * call reports that. */
void vw__cuda_leave(const vw__cuda_gpu *device, vw__cuda_visit *visit)
{
    if (visit->is_relaxed)
        device->driver->cuThreadExchangeStreamCaptureMode(&visit->capture_mode);
    if (visit->is_pushed) {
        vw__cuda_context popped = visit->before; /* where HIP's goes back to: hip_driver_load.c */
        device->driver->cuCtxPopCurrent(&popped);
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* "; 12 of 34 bytes free", or "" if the driver does not answer. */
static void describe_free_memory(const vw__cuda_gpu *device, char *out, size_t out_bytes)
{
    size_t free_bytes = 0, total_bytes = 0;
    vw__cuda_visit visit;
    out[0] = '\0';
    if (device->primary == NULL || vw__cuda_enter(device, &visit) != VW_OK)
        return;
    if (device->driver->cuMemGetInfo(&free_bytes, &total_bytes) == VW__CUDA_SUCCESS)
        snprintf(out, out_bytes, "; %zu of %zu bytes free", free_bytes, total_bytes);
    vw__cuda_leave(device, &visit);
}

void vw__cuda_name_call(const vw__cuda_driver *driver, const char *call, char *out,
                        size_t out_bytes)
{
    const char *rest = call, *name = NULL;
    if (driver->vendor->call_name != NULL)
        name = driver->vendor->call_name(call, &rest);
    snprintf(out, out_bytes, "%s%s", name != NULL ? name : "", name != NULL ? rest : call);
}

vw_status vw__cuda_refusal(const vw__cuda_gpu *device, vw__cuda_result result, vw_status when_full,
                           const char *call, ...)
{
    char our_text[256], call_text[256], free_text[96] = "";
    va_list arguments;
    va_start(arguments, call);
    vsnprintf(our_text, sizeof our_text, call, arguments);
    va_end(arguments);
    vw__cuda_name_call(device->driver, our_text, call_text, sizeof call_text);

    vw_status status = result == VW__CUDA_ERROR_OUT_OF_MEMORY ? when_full : VW_ERR_DEVICE;
    if (status == VW_ERR_OUT_OF_MEMORY)
        describe_free_memory(device, free_text, sizeof free_text);

    /* The driver sets NULL for a number it does not know itself. */
    const char *name = NULL, *text = NULL;
    device->driver->cuGetErrorName(result, &name);
    device->driver->cuGetErrorString(result, &text);
    return vw__fail(status, "%s on %s device %d failed: %s (%d): %s%s", call_text,
                    device->driver->vendor->name, device->index,
                    name != NULL ? name : "unknown error", result,
                    text != NULL ? text : "the driver has no text for it", free_text);
}
