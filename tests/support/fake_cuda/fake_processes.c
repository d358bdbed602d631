/* fake_processes.c - see fake_processes.h; the variables are those of fake_libcuda.h. */
#include "support/fake_cuda/fake_processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h> /* getpid */

#include "support/fake_cuda/fake_internal.h"

unsigned fake_number_or(const char *variable, unsigned otherwise)
{
    return fake_is_set(variable) ? (unsigned)atoi(getenv(variable)) : otherwise;
}

/* The next "DEVICE:PID:BYTES" of FAKE_NVML_LIST that is on `device`. */
static bool next_listed(const char **at, int device, fake_process *out)
{
    while (**at != '\0') {
        char *end = NULL;
        int listed_device = (int)strtol(*at, &end, 10);
        out->pid = (uint32_t)strtoul(end + 1, &end, 10);
        out->used_bytes = strtoull(end + 1, &end, 10);
        *at = *end == ',' ? end + 1 : end;
        if (listed_device == device)
            return true;
    }
    return false;
}

static const char *list(void)
{
    return fake_is_set("FAKE_NVML_LIST") ? getenv("FAKE_NVML_LIST") : NULL;
}

unsigned fake_process_count(int device)
{
    const char *at = list();
    unsigned count = 0;
    fake_process process;
    if (at == NULL)
        return device == 0 ? fake_number_or("FAKE_NVML_PROCESSES", 3) : 0;
    while (next_listed(&at, device, &process))
        count++;
    return count;
}

fake_process fake_process_at(int device, unsigned index)
{
    const char *at = list();
    fake_process process = {0, 0};
    if (at != NULL) {
        for (unsigned i = 0; i <= index; i++)
            (void)next_listed(&at, device, &process);
    } else {
        process.pid = index == 0 ? (uint32_t)getpid() : FAKE_CUDA_ANOTHER_PID + index - 1;
        process.used_bytes = index == 0 ? FAKE_NVML_OWN_BYTES : index == 1 ? UINT64_MAX : index;
    }
    return process;
}

const char *fake_gpu_name(void)
{
    return fake_is_set("FAKE_NVML_NAME") ? getenv("FAKE_NVML_NAME") : "Fake GPU";
}

void fake_gpu_uuid(char *uuid, size_t uuid_bytes, int device)
{
    snprintf(uuid, uuid_bytes, "GPU-%d%d%d%d", device, device, device, device);
}

unsigned fake_gpu_percent(int device)
{
    return device == 0 ? 97 : 3;
}

uint64_t fake_gpu_total_bytes(void)
{
    return fake_is_set("FAKE_NVML_TOTAL") ? strtoull(getenv("FAKE_NVML_TOTAL"), NULL, 10)
                                          : FAKE_CUDA_TOTAL_BYTES;
}

uint64_t fake_gpu_used_bytes(int device)
{
    const char *at = list();
    uint64_t sum_bytes = FAKE_NVML_SYSTEM_BYTES;
    fake_process process;
    while (at != NULL && next_listed(&at, device, &process))
        sum_bytes += process.used_bytes;
    return sum_bytes;
}
