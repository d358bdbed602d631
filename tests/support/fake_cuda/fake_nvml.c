/* fake_nvml.c - as much of NVML as is asked for: GPUs, and processes by PCI bus id.
 *
 * It shows every GPU of the machine, whatever CUDA_VISIBLE_DEVICES says. GPU 0 is used by three
 * processes unless the test says otherwise: the one that asks, one that hides its memory, and one
 * more. The others are used by nobody. Nobody draws. */
#include "support/fake_cuda/fake_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* getpid */

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

static unsigned number_or(const char *variable, unsigned otherwise)
{
    return fake_is_set(variable) ? (unsigned)atoi(getenv(variable)) : otherwise;
}

static int index_of(const void *device)
{
    return (int)((const struct vw__cuda_context_ *)device - fake_primaries);
}

/* The next "DEVICE:PID:BYTES" of FAKE_NVML_LIST that is on `device`. */
static bool next_listed(const char **at, int device, uint32_t *pid, uint64_t *used_bytes)
{
    while (**at != '\0') {
        char *end = NULL;
        int listed_device = (int)strtol(*at, &end, 10);
        *pid = (uint32_t)strtoul(end + 1, &end, 10);
        *used_bytes = strtoull(end + 1, &end, 10);
        *at = *end == ',' ? end + 1 : end;
        if (listed_device == device)
            return true;
    }
    return false;
}

static void store_entry(unsigned char *entry, size_t entry_bytes, uint32_t pid, uint64_t used_bytes)
{
    memset(entry, 0, entry_bytes);
    memcpy(entry, &pid, sizeof pid);
    memcpy(entry + 8, &used_bytes, sizeof used_bytes);
}

static int store_listed(const void *device, unsigned *count, void *out)
{
    const char *at = getenv("FAKE_NVML_LIST");
    unsigned found = 0, capacity = *count;
    uint32_t pid;
    uint64_t used_bytes;
    while (next_listed(&at, index_of(device), &pid, &used_bytes)) {
        if (found < capacity)
            store_entry((unsigned char *)out + found * 24, 24, pid, used_bytes);
        found++;
    }
    *count = found;
    return found > capacity ? NVML_INSUFFICIENT_SIZE : SUCCESS;
}

/* Entries of 16, 24 or 32 bytes: pid and memory first, zeros after them. */
#ifdef FAKE_CUDA_OLD
DRIVER(nvmlDeviceGetComputeRunningProcesses_v2, (void *device, unsigned *count, void *out))
#else
DRIVER(nvmlDeviceGetComputeRunningProcesses_v3, (void *device, unsigned *count, void *out))
#endif
{
    OBEY_ORDERS();
    if (fake_is_set("FAKE_NVML_LIST"))
        return store_listed(device, count, out);
    unsigned found = number_or("FAKE_NVML_PROCESSES", 3), capacity = *count;
    size_t entry_bytes = number_or("FAKE_NVML_ENTRY_BYTES", 24);
    *count = found;
    if (capacity < found)
        return NVML_INSUFFICIENT_SIZE;
    if (device != &fake_primaries[0])
        *count = found = 0;
    for (unsigned i = 0; i < found; i++) {
        uint32_t pid = i == 0 ? (uint32_t)getpid() : FAKE_CUDA_ANOTHER_PID + i - 1;
        uint64_t used_bytes = i == 0 ? FAKE_NVML_OWN_BYTES : i == 1 ? UINT64_MAX : i;
        store_entry((unsigned char *)out + i * entry_bytes, entry_bytes, pid, used_bytes);
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
    snprintf(name, name_bytes, "%s",
             fake_is_set("FAKE_NVML_NAME") ? getenv("FAKE_NVML_NAME") : "Fake GPU");
    return SUCCESS;
}

DRIVER(nvmlDeviceGetUUID, (void *device, char *uuid, unsigned uuid_bytes))
{
    OBEY_ORDERS();
    snprintf(uuid, uuid_bytes, "GPU-%d%d%d%d", index_of(device), index_of(device), index_of(device),
             index_of(device));
    return SUCCESS;
}

DRIVER(nvmlDeviceGetUtilizationRates, (void *device, unsigned percents[2]))
{
    OBEY_ORDERS();
    percents[0] = index_of(device) == 0 ? 97 : 3;
    percents[1] = 0;
    return SUCCESS;
}

static uint64_t listed_bytes(int device)
{
    const char *at = fake_is_set("FAKE_NVML_LIST") ? getenv("FAKE_NVML_LIST") : "";
    uint32_t pid;
    uint64_t used_bytes, sum = 0;
    while (next_listed(&at, device, &pid, &used_bytes))
        sum += used_bytes;
    return sum;
}

DRIVER(nvmlDeviceGetMemoryInfo, (void *device, unsigned long long bytes[3]))
{
    OBEY_ORDERS();
    unsigned long long used = listed_bytes(index_of(device)) + FAKE_NVML_SYSTEM_BYTES;
    bytes[0] = fake_is_set("FAKE_NVML_TOTAL") ? strtoull(getenv("FAKE_NVML_TOTAL"), NULL, 10)
                                              : FAKE_CUDA_TOTAL_BYTES;
    bytes[1] = bytes[0] - used;
    bytes[2] = used;
    return SUCCESS;
}
#endif
