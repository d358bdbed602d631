/* cuda_driver_load.c - finds libcuda once, and remembers how that went.
 *
 * Both outcomes are kept. A second try could only end differently if someone installed a driver
 * under a running process; what people do meet is a program that asks for a device a thousand
 * times on a machine without one, and it should not search the disk each time. */
#include "device/cuda_driver_load.h"

#include <stdio.h>

#include "base/error.h"        /* hr__fail */
#include "base/ranked_mutex.h" /* hr__mutex_lock, HR__LOCK_REGISTRY */
#include "device/library_load.h"

/* As the driver writes and reads them. */
_Static_assert(sizeof(hr__cuda_location) == 8, "CUmemLocation");
_Static_assert(sizeof(hr__cuda_access) == 12, "CUmemAccessDesc");
_Static_assert(sizeof(void *) != 8 || sizeof(hr__cuda_allocation) == 32, "CUmemAllocationProp");

/* The soname first: libcuda.so without a number comes with development packages, where it can be a
 * stub. Under WSL the library lies outside the loader's path unless the user set it. */
static const char *const library_names[] = {
    "libcuda.so.1",
    "libcuda.so",
    "/usr/lib/wsl/lib/libcuda.so.1",
    NULL,
};

static const hr__library_symbol symbols[] = {
#define SYMBOL(name, newest, fallback, is_required, parameters)                                    \
    {newest, fallback, offsetof(hr__cuda_driver, name), is_required},
    HR__CUDA_SYMBOL_LIST(SYMBOL)
#undef SYMBOL
};

/* Guarded by `lock` until is_tried, then read-only. */
static hr__mutex lock = HR__MUTEX_INIT(HR__LOCK_REGISTRY);
static bool is_tried;
static bool is_loaded;
static hr__cuda_driver loaded_driver;
static char failure[1024];

static void load(void)
{
    char reasons[800];
    void *library =
        hr__library_open("HEADROOM_CUDA_DRIVER", library_names, reasons, sizeof reasons);
    if (library == NULL) {
        snprintf(failure, sizeof failure, "no CUDA driver could be loaded; tried %s", reasons);
        return;
    }
    const char *missing = hr__library_find_symbols(
        library, symbols, sizeof symbols / sizeof symbols[0], &loaded_driver);
    if (missing != NULL) {
        snprintf(failure, sizeof failure,
                 "the CUDA driver found here has no function %s: it is too old, or no driver",
                 missing);
        return;
    }
    is_loaded = true;
}

hr_status hr__cuda_driver_get(const hr__cuda_driver **out)
{
    hr__mutex_lock(&lock);
    if (!is_tried)
        load();
    is_tried = true;
    hr__mutex_unlock(&lock);

    if (!is_loaded)
        return hr__fail(HR_ERR_NO_DEVICE, "%s", failure);
    *out = &loaded_driver;
    return HR_OK;
}

bool hr__cuda_driver_has_virtual_memory(const hr__cuda_driver *driver)
{
    return driver->cuMemGetAllocationGranularity != NULL && driver->cuMemAddressReserve != NULL &&
           driver->cuMemAddressFree != NULL && driver->cuMemCreate != NULL &&
           driver->cuMemRelease != NULL && driver->cuMemMap != NULL && driver->cuMemUnmap != NULL &&
           driver->cuMemSetAccess != NULL;
}
