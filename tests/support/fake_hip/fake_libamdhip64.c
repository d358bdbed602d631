/* fake_libamdhip64.c - a HIP runtime without a GPU: what differs from the fake CUDA driver.
 *
 * The rest is compiled from tests/support/fake_cuda, under HIP's names (fake_hip_names.h). As
 * strict as the source of ROCm 6 shows the runtime to be, and stricter where that crashes:
 * hipMemUnmap and hipMemSetAccess take one whole mapping, memory is a GPU's. A thread begins with
 * device 0. The fake's environment variables are those of fake_libcuda.h, and
 *
 *   FAKE_HIP_VERSION=50221153   what hipDriverGetVersion answers; 60300000 if not set */
#include <stdlib.h>

#include "device/hip_driver_load.h" /* VW__HIP_HAS_VIRTUAL_MEMORY */
#include "support/fake_cuda/fake_internal.h"

/* Contexts are always there. */
__attribute__((constructor)) static void make_contexts(void)
{
    for (int i = 0; i < fake_device_count(); i++)
        fake_primaries[i].retain_count = 1;
}

DRIVER(hipGetDevice, (int *device))
{
    OBEY_ORDERS();
    if (fake_current_context() == NULL)
        fake_set_current_context(&fake_primaries[0]);
    *device = (int)(fake_current_context() - fake_primaries);
    return SUCCESS;
}

DRIVER(hipSetDevice, (int device))
{
    OBEY_ORDERS();
    if (fake_device_behind(device) < 0)
        return INVALID_DEVICE;
    fake_set_current_context(&fake_primaries[fake_device_behind(device)]);
    return SUCCESS;
}

DRIVER(hipDriverGetVersion, (int *version))
{
    const char *wanted = getenv("FAKE_HIP_VERSION");
    *version = wanted != NULL ? atoi(wanted) : 60300000;
    return SUCCESS;
}

DRIVER(hipDeviceGetAttribute, (int *value, int attribute, int device))
{
    OBEY_ORDERS();
    if (fake_device_behind(device) < 0)
        return INVALID_DEVICE;
    if (attribute != VW__HIP_HAS_VIRTUAL_MEMORY)
        abort(); /* CUDA's number for something else */
    *value = !fake_is_set("FAKE_CUDA_WITHOUT_VIRTUAL");
    return SUCCESS;
}

/* The runtime knows every number, in its way. */
EXPORT const char *hipGetErrorName(int result);
const char *hipGetErrorName(int result)
{
    switch (result) {
    case INVALID_VALUE:
        return "hipErrorInvalidValue";
    case OUT_OF_MEMORY:
        return "hipErrorOutOfMemory";
    case 100:
        return "hipErrorNoDevice";
    case 700:
        return "hipErrorIllegalAddress";
    case NOT_SUPPORTED:
        return "hipErrorNotSupported";
    default:
        return "hipErrorUnknown";
    }
}

EXPORT const char *hipGetErrorString(int result);
const char *hipGetErrorString(int result)
{
    switch (result) {
    case INVALID_VALUE:
        return "invalid argument";
    case OUT_OF_MEMORY:
        return "out of memory";
    default:
        return "unknown error";
    }
}
