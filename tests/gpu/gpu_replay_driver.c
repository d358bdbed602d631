/* gpu_replay_driver.c - see gpu_replay_driver.h. */
#include "gpu/gpu_replay_driver.h"

#include "base/error.h" /* vw__fail, VW__TRY */
#include "device/library_load.h"

static const vw__library_symbol symbols[] = {
#define SYMBOL(name, is_required, parameters)                                                      \
    {#name, NULL, offsetof(replay_driver, name), is_required},
    REPLAY_SYMBOL_LIST(SYMBOL)
#undef SYMBOL
};

vw_status replay_driver_result(const replay_driver *driver, vw__cuda_result result,
                               const char *call)
{
    const char *name = NULL, *text = NULL;
    if (result == VW__CUDA_SUCCESS)
        return VW_OK;
    (void)driver->base->cuGetErrorName(result, &name);
    (void)driver->base->cuGetErrorString(result, &text);
    return vw__fail(result == VW__CUDA_ERROR_OUT_OF_MEMORY ? VW_ERR_OUT_OF_MEMORY : VW_ERR_DEVICE,
                    "%s: %s (%d): %s", call, name != NULL ? name : "unknown error", result,
                    text != NULL ? text : "the driver has no text for it");
}

/* The driver is loaded already, so opening it again finds the same library. */
static vw_status find_functions(replay_driver *driver)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so",
                                        "/usr/lib/wsl/lib/libcuda.so.1", NULL};
    char reasons[800];
    VW__TRY(vw__cuda_driver_get(&driver->base));
    void *library = vw__library_open("VRAMWISE_CUDA_DRIVER", names, reasons, sizeof reasons);
    if (library == NULL)
        return vw__fail(VW_ERR_NO_DEVICE, "no CUDA driver could be loaded; tried %s", reasons);
    const char *missing =
        vw__library_find_symbols(library, symbols, sizeof symbols / sizeof symbols[0], driver);
    if (missing != NULL)
        return vw__fail(VW_ERR_NO_DEVICE, "the CUDA driver found here has no function %s", missing);
    return VW_OK;
}

vw_status replay_driver_open(int index, replay_driver *out)
{
    replay_driver driver = {.base = NULL};
    vw__cuda_context context = NULL;
    VW__TRY(find_functions(&driver));
    VW__TRY(replay_driver_result(&driver, driver.base->cuInit(0), "cuInit()"));
    VW__TRY(replay_driver_result(&driver, driver.base->cuDeviceGet(&driver.device, index),
                                 "cuDeviceGet()"));
    VW__TRY(replay_driver_result(&driver,
                                 driver.base->cuDevicePrimaryCtxRetain(&context, driver.device),
                                 "cuDevicePrimaryCtxRetain()"));
    vw_status status =
        replay_driver_result(&driver, driver.base->cuCtxPushCurrent(context), "cuCtxPushCurrent()");
    if (status != VW_OK) {
        (void)driver.base->cuDevicePrimaryCtxRelease(driver.device);
        return status;
    }
    *out = driver;
    return VW_OK;
}

void replay_driver_close(const replay_driver *driver)
{
    vw__cuda_context context = NULL;
    (void)driver->base->cuCtxPopCurrent(&context);
    (void)driver->base->cuDevicePrimaryCtxRelease(driver->device);
}
