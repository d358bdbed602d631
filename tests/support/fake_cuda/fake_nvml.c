/* fake_nvml.c - as much of NVML as is asked for: the GPUs and processes of fake_processes.h. */
#include "support/fake_cuda/fake_internal.h"
#include "support/fake_cuda/fake_processes.h"

#include <stdio.h>
#include <string.h>

enum {
    NVML_INVALID_ARGUMENT = 2,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
};

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
    for (int i = 0; i < fake_device_count(); i++) {
        char own_id[32];
        fake_bus_id(own_id, sizeof own_id, i);
        if (strcmp(id, own_id) == 0) {
            *device = &fake_primaries[i];
            return SUCCESS;
        }
    }
    return NVML_NOT_FOUND;
}

static int index_of(const void *device)
{
    return (int)((const struct vw__cuda_context_ *)device - fake_primaries);
}

/* Entries of 16, 24 or 32 bytes: pid and memory first, zeros after them. */
#ifdef FAKE_CUDA_OLD
DRIVER(nvmlDeviceGetComputeRunningProcesses_v2, (void *device, unsigned *count, void *out))
#else
DRIVER(nvmlDeviceGetComputeRunningProcesses_v3, (void *device, unsigned *count, void *out))
#endif
{
    OBEY_ORDERS();
    unsigned found = fake_process_count(index_of(device)), capacity = *count;
    size_t entry_bytes = fake_number_or("FAKE_NVML_ENTRY_BYTES", 24);
    *count = found;
    if (capacity < found)
        return NVML_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < found; i++) {
        unsigned char *entry = (unsigned char *)out + i * entry_bytes;
        fake_process process = fake_process_at(index_of(device), i);
        memset(entry, 0, entry_bytes);
        memcpy(entry, &process.pid, sizeof process.pid);
        memcpy(entry + 8, &process.used_bytes, sizeof process.used_bytes);
    }
    return SUCCESS;
}

#ifndef FAKE_CUDA_OLD
DRIVER(nvmlDeviceGetGraphicsRunningProcesses_v3, (void *device, unsigned *count, void *out))
{
    (void)device, (void)out;
    OBEY_ORDERS();
    *count = 0;
    return SUCCESS;
}

DRIVER(nvmlDeviceGetCount_v2, (unsigned *count))
{
    OBEY_ORDERS();
    *count = (unsigned)fake_device_count();
    return SUCCESS;
}

DRIVER(nvmlDeviceGetHandleByIndex_v2, (unsigned index, void **device))
{
    OBEY_ORDERS();
    if (index >= (unsigned)fake_device_count())
        return NVML_INVALID_ARGUMENT;
    *device = &fake_primaries[index];
    return SUCCESS;
}

DRIVER(nvmlDeviceGetPciInfo_v3, (void *device, char info[68]))
{
    OBEY_ORDERS();
    memset(info, 0, 68);
    fake_bus_id(info + 36, 32, index_of(device));
    return SUCCESS;
}

DRIVER(nvmlDeviceGetName, (void *device, char *name, unsigned name_bytes))
{
    OBEY_ORDERS();
    (void)device;
    snprintf(name, name_bytes, "%s", fake_gpu_name());
    return SUCCESS;
}

DRIVER(nvmlDeviceGetUUID, (void *device, char *uuid, unsigned uuid_bytes))
{
    OBEY_ORDERS();
    fake_gpu_uuid(uuid, uuid_bytes, index_of(device));
    return SUCCESS;
}

DRIVER(nvmlDeviceGetUtilizationRates, (void *device, unsigned percents[2]))
{
    OBEY_ORDERS();
    percents[0] = fake_gpu_percent(index_of(device));
    percents[1] = 0;
    return SUCCESS;
}

DRIVER(nvmlDeviceGetMemoryInfo, (void *device, unsigned long long bytes[3]))
{
    OBEY_ORDERS();
    bytes[0] = fake_gpu_total_bytes();
    bytes[2] = fake_gpu_used_bytes(index_of(device));
    bytes[1] = bytes[0] - bytes[2];
    return SUCCESS;
}
#endif
