/* cuda_driver_load.c - finds libcuda once, and remembers how that went.
 *
 * Both outcomes are kept: a program that asks for a device a thousand times on a machine without
 * one should not search the disk each time. */
#include "device/cuda_driver_load.h"

#include <stdio.h>

#include "base/error.h"        /* vw__fail */
#include "base/ranked_mutex.h" /* vw__mutex_lock, VW__LOCK_REGISTRY */
#include "device/library_load.h"

/* As the driver writes and reads them. */
_Static_assert(sizeof(vw__cuda_location) == 8, "CUmemLocation");
_Static_assert(sizeof(vw__cuda_access) == 12, "CUmemAccessDesc");
_Static_assert(sizeof(void *) != 8 || sizeof(vw__cuda_allocation) == 32, "CUmemAllocationProp");

/* The soname first: libcuda.so without a number comes with development packages, where it can be a
 * stub. Under WSL the library lies outside the loader's path unless the user set it. */
static const char *const library_names[] = {
    "libcuda.so.1",
    "libcuda.so",
    "/usr/lib/wsl/lib/libcuda.so.1",
    NULL,
};

static const vw__library_symbol symbols[] = {
#define SYMBOL(name, newest, fallback, is_required, parameters)                                    \
    {newest, fallback, offsetof(vw__cuda_driver, name), is_required},
    VW__CUDA_SYMBOL_LIST(SYMBOL)
#undef SYMBOL
};

/* Guarded by `lock` until is_tried, then read-only. */
static vw__mutex lock = VW__MUTEX_INIT(VW__LOCK_REGISTRY);
static bool is_tried;
static bool is_loaded;
static vw__cuda_driver loaded_driver;
static char failure[1024];

static void load(void)
{
    char reasons[800];
    void *library =
        vw__library_open("VRAMWISE_CUDA_DRIVER", library_names, reasons, sizeof reasons);
    if (library == NULL) {
        snprintf(failure, sizeof failure, "no CUDA driver could be loaded; tried %s", reasons);
        return;
    }
    const char *missing = vw__library_find_symbols(
        library, symbols, sizeof symbols / sizeof symbols[0], &loaded_driver);
    if (missing != NULL) {
        snprintf(failure, sizeof failure,
                 "the CUDA driver found here has no function %s: it is too old, or no driver",
                 missing);
        return;
    }
    is_loaded = true;
}

vw_status vw__cuda_driver_get(const vw__cuda_driver **out)
{
    vw__mutex_lock(&lock);
    if (!is_tried)
        load();
    is_tried = true;
    vw__mutex_unlock(&lock);

    if (!is_loaded)
        return vw__fail(VW_ERR_NO_DEVICE, "%s", failure);
    *out = &loaded_driver;
    return VW_OK;
}

bool vw__cuda_driver_has_virtual_memory(const vw__cuda_driver *driver)
{
    return driver->cuMemGetAllocationGranularity != NULL && driver->cuMemAddressReserve != NULL &&
           driver->cuMemAddressFree != NULL && driver->cuMemCreate != NULL &&
           driver->cuMemRelease != NULL && driver->cuMemMap != NULL && driver->cuMemUnmap != NULL &&
           driver->cuMemSetAccess != NULL;
}
