/* hip_driver_load.c - finds libamdhip64, and gives it the CUDA driver's shape.
 *
 * Nearly all functions have it: the same arguments and the same numbers, under other names, with
 * pointers where CUDA has integers of their size. Two groups have not:
 *
 *   - Contexts. HIP has them in name only, and its hipCtxPopCurrent() leaves the device of the
 *     thread as it is. A thread has a current device, 0 to begin with: that is our context, and
 *     going in and out is hipSetDevice().
 *   - The texts of errors are returned, not stored. */
#include "device/hip_driver_load.h"

#include <stdint.h>
#include <string.h>

_Static_assert(sizeof(vw__cuda_ptr) == sizeof(void *), "hipDeviceptr_t");
_Static_assert(sizeof(vw__cuda_handle) == sizeof(void *), "hipMemGenericAllocationHandle_t");

/* ---- what has another shape ------------------------------------------------------------------ */

/* Filled by complete(), then read-only. */
static struct {
    vw__cuda_result (*hipGetDevice)(int *device);
    vw__cuda_result (*hipSetDevice)(int device);
    const char *(*hipGetErrorName)(vw__cuda_result result);
    const char *(*hipGetErrorString)(vw__cuda_result result);
} hip;

static const vw__library_symbol other_symbols[] = {
    {"hipGetDevice", NULL, offsetof(__typeof__(hip), hipGetDevice), true},
    {"hipSetDevice", NULL, offsetof(__typeof__(hip), hipSetDevice), true},
    {"hipGetErrorName", NULL, offsetof(__typeof__(hip), hipGetErrorName), true},
    {"hipGetErrorString", NULL, offsetof(__typeof__(hip), hipGetErrorString), true},
};

/* Not NULL, which is no context. */
static vw__cuda_context context_of(vw__cuda_device device)
{
    return (vw__cuda_context)((uintptr_t)device + 1);
}

static vw__cuda_device device_of(vw__cuda_context context)
{
    return (vw__cuda_device)((uintptr_t)context - 1);
}

/* The runtime makes what it needs at the first use, and keeps it. */
static vw__cuda_result retain_context(vw__cuda_context *context, vw__cuda_device device)
{
    *context = context_of(device);
    return VW__CUDA_SUCCESS;
}

static vw__cuda_result release_context(vw__cuda_device device)
{
    (void)device;
    return VW__CUDA_SUCCESS;
}

static vw__cuda_result get_current(vw__cuda_context *context)
{
    vw__cuda_device device = 0;
    vw__cuda_result result = hip.hipGetDevice(&device);
    if (result == VW__CUDA_SUCCESS)
        *context = context_of(device);
    return result;
}

static vw__cuda_result push_current(vw__cuda_context context)
{
    return hip.hipSetDevice(device_of(context));
}

/* There is no stack: goes back to the context that is in `*context`. */
static vw__cuda_result pop_current(vw__cuda_context *context)
{
    return hip.hipSetDevice(device_of(*context));
}

static vw__cuda_result get_error_name(vw__cuda_result result, const char **name)
{
    *name = hip.hipGetErrorName(result);
    return VW__CUDA_SUCCESS;
}

static vw__cuda_result get_error_string(vw__cuda_result result, const char **text)
{
    *text = hip.hipGetErrorString(result);
    return VW__CUDA_SUCCESS;
}

static const char *complete(void *library, vw__cuda_driver *driver)
{
    int version = 0;
    const char *missing = vw__library_find_symbols(
        library, other_symbols, sizeof other_symbols / sizeof other_symbols[0], &hip);
    if (missing != NULL)
        return missing;
    driver->cuDevicePrimaryCtxRetain = retain_context;
    driver->cuDevicePrimaryCtxRelease = release_context;
    driver->cuCtxGetCurrent = get_current;
    driver->cuCtxPushCurrent = push_current;
    driver->cuCtxPopCurrent = pop_current;
    driver->cuGetErrorName = get_error_name;
    driver->cuGetErrorString = get_error_string;
    if (driver->cuDriverGetVersion(&version) != VW__CUDA_SUCCESS ||
        version < VW__HIP_VERSION_WITH_VIRTUAL_MEMORY)
        driver->cuMemCreate = NULL; /* as if none of it were there */
    return NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
    const char *cuda, *hip;
} names[] = {
#define NAMES(name, symbol, is_required) {#name, #symbol},
    VW__HIP_SYMBOL_LIST(NAMES)
#undef NAMES
        {"cuCtxGetCurrent", "hipGetDevice"},
    {"cuCtxPushCurrent", "hipSetDevice"},
};

static const char *call_name(const char *call, const char **rest)
{
    size_t length = strcspn(call, "(");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(call, names[i].cuda, length) == 0 && names[i].cuda[length] == '\0') {
            *rest = call + length;
            return names[i].hip;
        }
    return NULL;
}

/* ---- the library ----------------------------------------------------------------------------- */

/* PyTorch's wheels bring a copy of their own. A second runtime in the process would know none of
 * the first one's memory, so one that is loaded comes before all that could be. */
static const char *const library_names[] = {
    "libamdhip64.so.7",
    "libamdhip64.so.6",
    "libamdhip64.so.5",
    "libamdhip64.so",
    "/opt/rocm/lib/libamdhip64.so",
    NULL,
};

static const vw__library_symbol symbols[] = {
#define SYMBOL(name, symbol, is_required)                                                          \
    {#symbol, NULL, offsetof(vw__cuda_driver, name), is_required},
    VW__HIP_SYMBOL_LIST(SYMBOL)
#undef SYMBOL
};

static const vw__cuda_vendor amd = {
    .name = "HIP",
    .driver_text = "HIP runtime",
    .library_variable = "VRAMWISE_HIP_DRIVER",
    .visible_variable = "HIP_VISIBLE_DEVICES",
    .library_names = library_names,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof symbols[0],
    .prefers_loaded = true,
    .complete = complete,
    .call_name = call_name,
    .virtual_memory_attribute = VW__HIP_HAS_VIRTUAL_MEMORY,
    .monitor = NULL, /* AMD SMI takes locks that processes share: not inside somebody's job */
    .unmaps_one_by_one = true,
};

static vw__cuda_library libamdhip64 = VW__CUDA_LIBRARY_INIT(&amd);

vw_status vw__hip_driver_get(const vw__cuda_driver **out)
{
    return vw__cuda_library_get(&libamdhip64, out);
}
