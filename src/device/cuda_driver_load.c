/* cuda_driver_load.c - finds a driver's library once, and remembers how that went; libcuda.
 *
 * Both outcomes are kept: a program that asks for a device a thousand times on a machine without
 * one should not search the disk each time. */
#include "device/cuda_driver_load.h"

#include <stdio.h>

#include "base/error.h" /* vw__fail */

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

static const vw__cuda_vendor nvidia = {
    .name = "CUDA",
    .driver_text = "CUDA driver",
    .library_variable = "VRAMWISE_CUDA_DRIVER",
    .visible_variable = "CUDA_VISIBLE_DEVICES",
    .library_names = library_names,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof symbols[0],
    .virtual_memory_attribute = VW__CUDA_HAS_VIRTUAL_MEMORY,
    .rdma_attribute = VW__CUDA_HAS_DIRECT_RDMA_WITH_VIRTUAL,
    .dma_buf_attribute = VW__CUDA_HAS_DMA_BUF,
    .has_sharing = true,
    .has_host_memory = true,
    .monitor = &vw__nvml_monitor,
};

static vw__cuda_library libcuda = VW__CUDA_LIBRARY_INIT(&nvidia);

/* ---- any vendor's ---------------------------------------------------------------------------- */

static void *open_library(const vw__cuda_vendor *vendor, char *reasons, size_t reasons_bytes)
{
    const char *only_loaded[] = {NULL, NULL};
    if (vendor->prefers_loaded)
        only_loaded[0] = vw__library_first_loaded(vendor->library_names);
    return vw__library_open(vendor->library_variable,
                            only_loaded[0] != NULL ? only_loaded : vendor->library_names, reasons,
                            reasons_bytes);
}

static void load(vw__cuda_library *library)
{
    const vw__cuda_vendor *vendor = library->vendor;
    char reasons[800];
    void *opened = open_library(vendor, reasons, sizeof reasons);
    if (opened == NULL) {
        snprintf(library->failure, sizeof library->failure, "no %s could be loaded; tried %s",
                 vendor->driver_text, reasons);
        return;
    }
    const char *missing =
        vw__library_find_symbols(opened, vendor->symbols, vendor->symbol_count, &library->driver);
    if (missing == NULL && vendor->complete != NULL)
        missing = vendor->complete(opened, &library->driver);
    if (missing != NULL) {
        snprintf(library->failure, sizeof library->failure,
                 "the %s found here has no function %s: it is too old, or no driver",
                 vendor->driver_text, missing);
        return;
    }
    library->driver.vendor = vendor;
    library->is_loaded = true;
}

vw_status vw__cuda_library_get(vw__cuda_library *library, const vw__cuda_driver **out)
{
    vw__mutex_lock(&library->lock);
    if (!library->is_tried)
        load(library);
    library->is_tried = true;
    vw__mutex_unlock(&library->lock);

    if (!library->is_loaded)
        return vw__fail(VW_ERR_NO_DEVICE, "%s", library->failure);
    *out = &library->driver;
    return VW_OK;
}

vw_status vw__cuda_driver_get(const vw__cuda_driver **out)
{
    return vw__cuda_library_get(&libcuda, out);
}

bool vw__cuda_driver_has_virtual_memory(const vw__cuda_driver *driver)
{
    return driver->cuMemGetAllocationGranularity != NULL && driver->cuMemAddressReserve != NULL &&
           driver->cuMemAddressFree != NULL && driver->cuMemCreate != NULL &&
           driver->cuMemRelease != NULL && driver->cuMemMap != NULL && driver->cuMemUnmap != NULL &&
           driver->cuMemSetAccess != NULL;
}
