/* fake_nvml.c - as much of NVML as is asked for: processes by PCI bus id.
 *
 * Device 0 is used by three processes unless the test says otherwise: the one that asks, one that
 * hides its memory, and one more. Device 1 is used by nobody. */
#include "support/fake_cuda/fake_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* getpid */

enum {
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
};

/* Of fake_libcuda.c, for the ids. */
int cuDeviceGetPCIBusId(char *id, int id_bytes, int device);

DRIVER(nvmlInit_v2, (void))
{
    OBEY_ORDERS();
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int result);
const char *nvmlErrorString(int result)
{
    return result == NVML_NOT_FOUND       ? "Not Found"
           : result == NVML_NO_PERMISSION ? "Insufficient Permissions"
                                          : "Unknown Error";
}

DRIVER(nvmlSystemGetDriverVersion, (char *version, unsigned version_bytes))
{
    snprintf(version, version_bytes, "580.00.fake");
    return SUCCESS;
}

DRIVER(nvmlDeviceGetHandleByPciBusId_v2, (const char *id, void **device))
{
    OBEY_ORDERS();
    for (int i = 0; i < FAKE_CUDA_DEVICES; i++) {
        char own_id[32];
        cuDeviceGetPCIBusId(own_id, (int)sizeof own_id, i);
        if (strcmp(id, own_id) == 0) {
            *device = &fake_primaries[i];
            return SUCCESS;
        }
    }
    return NVML_NOT_FOUND;
}

static unsigned number_or(const char *variable, unsigned otherwise)
{
    return fake_is_set(variable) ? (unsigned)atoi(getenv(variable)) : otherwise;
}

/* Entries of 16, 24 or 32 bytes: pid and memory first, zeros after them. */
#ifdef FAKE_CUDA_OLD
DRIVER(nvmlDeviceGetComputeRunningProcesses_v2, (void *device, unsigned *count, void *out))
#else
DRIVER(nvmlDeviceGetComputeRunningProcesses_v3, (void *device, unsigned *count, void *out))
#endif
{
    OBEY_ORDERS();
    unsigned found = number_or("FAKE_NVML_PROCESSES", 3), capacity = *count;
    size_t entry_bytes = number_or("FAKE_NVML_ENTRY_BYTES", 24);
    *count = found;
    if (capacity < found)
        return NVML_INSUFFICIENT_SIZE;
    if (device != &fake_primaries[0])
        *count = found = 0;
    for (unsigned i = 0; i < found; i++) {
        unsigned char *entry = (unsigned char *)out + i * entry_bytes;
        uint32_t pid = i == 0 ? (uint32_t)getpid() : FAKE_CUDA_ANOTHER_PID + i - 1;
        uint64_t used_bytes = i == 0 ? FAKE_NVML_OWN_BYTES : i == 1 ? UINT64_MAX : i;
        memset(entry, 0, entry_bytes);
        memcpy(entry, &pid, sizeof pid);
        memcpy(entry + 8, &used_bytes, sizeof used_bytes);
    }
    return SUCCESS;
}
