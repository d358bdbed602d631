/* fake_amd_smi.c - as much of AMD SMI as is asked for, in the same library as the fake HIP runtime.
 *
 * Each GPU is on a socket of its own, and a processor that is none is on the first. What it tells
 * is what the fake NVML tells, by the same variables (fake_libcuda.h), in its own layouts:
 * FAKE_NVML_ENTRY_BYTES is 704 if not set, or 224. Compiled with FAKE_AMD_SMI_OLD it is that of
 * ROCm 6.1, which lists bare numbers. */
#include "support/fake_cuda/fake_internal.h"
#include "support/fake_cuda/fake_processes.h"

#include <stdio.h>
#include <string.h>

enum {
    SMI_INVALID = 1,
    SMI_NO_PERMISSION = 10,
    SMI_OUT_OF_RESOURCES = 15,
    SMI_NOT_FOUND = 31,
    TYPE_GPU = 1,
    TYPE_CPU = 2,
    INIT_GPUS = 2,
};

static char no_gpu; /* its address is a processor */

static int index_of(const void *processor)
{
    return (int)((const struct vw__cuda_context_ *)processor - fake_primaries);
}

DRIVER(amdsmi_init, (uint64_t flags))
{
    OBEY_ORDERS();
    return flags == INIT_GPUS ? SUCCESS : SMI_INVALID;
}

DRIVER(amdsmi_status_code_to_string, (int result, const char **text))
{
    *text = result == SMI_NO_PERMISSION ? "Insufficient Permissions"
            : result == SMI_NOT_FOUND   ? "Not Found"
                                        : "Unknown Error";
    return SUCCESS;
}

DRIVER(amdsmi_get_socket_handles, (uint32_t * count, void **sockets))
{
    OBEY_ORDERS();
    if (*count < (uint32_t)fake_device_count())
        return SMI_INVALID;
    *count = (uint32_t)fake_device_count();
    for (uint32_t i = 0; i < *count; i++)
        sockets[i] = &fake_primaries[i];
    return SUCCESS;
}

DRIVER(amdsmi_get_processor_handles, (void *socket, uint32_t *count, void **processors))
{
    OBEY_ORDERS();
    if (*count < 2)
        return SMI_INVALID;
    *count = 0;
    if (index_of(socket) == 0)
        processors[(*count)++] = &no_gpu;
    processors[(*count)++] = socket;
    return SUCCESS;
}

DRIVER(amdsmi_get_processor_type, (void *processor, int *type))
{
    OBEY_ORDERS();
    *type = processor == &no_gpu ? TYPE_CPU : TYPE_GPU;
    return SUCCESS;
}

DRIVER(amdsmi_get_gpu_device_bdf, (void *processor, uint64_t *bdf))
{
    char id[32];
    unsigned domain, bus, device, function;
    OBEY_ORDERS();
    fake_bus_id(id, sizeof id, index_of(processor));
    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
        return SMI_NOT_FOUND;
    *bdf = (uint64_t)domain << 16 | bus << 8 | device << 3 | function;
    return SUCCESS;
}

#ifdef FAKE_AMD_SMI_OLD
DRIVER(amdsmi_get_gpu_process_list, (void *processor, uint32_t *count, uint32_t *numbers))
{
    (void)processor;
    if (*count > 0)
        numbers[0] = 17;
    *count = 1;
    return SUCCESS;
}

DRIVER(amdsmi_get_gpu_process_info, (void *processor, uint32_t process, void *info))
{
    (void)processor, (void)process, (void)info;
    return SUCCESS;
}
#else
DRIVER(amdsmi_get_gpu_process_list, (void *processor, uint32_t *count, void *out))
{
    OBEY_ORDERS();
    size_t entry_bytes = fake_number_or("FAKE_NVML_ENTRY_BYTES", 704);
    size_t name_bytes = entry_bytes == 704 ? 256 : 32;
    unsigned found = fake_process_count(index_of(processor)), capacity = *count;
    *count = found;
    for (unsigned i = 0; i < found && i < capacity; i++) {
        unsigned char *entry = (unsigned char *)out + i * entry_bytes;
        fake_process process = fake_process_at(index_of(processor), i);
        uint64_t all_bytes = process.used_bytes + 1; /* with what is not the GPU's */
        memset(entry, 0, entry_bytes);
        snprintf((char *)entry, name_bytes, "python3");
        memcpy(entry + name_bytes, &process.pid, sizeof process.pid);
        memcpy(entry + name_bytes + 8, &all_bytes, sizeof all_bytes);
        memcpy(entry + name_bytes + 96, &process.used_bytes, sizeof process.used_bytes);
    }
    return capacity < found ? SMI_OUT_OF_RESOURCES : SUCCESS;
}

DRIVER(amdsmi_get_gpu_asic_info, (void *processor, char *info))
{
    OBEY_ORDERS();
    (void)processor;
    memset(info, 0, 512);
    snprintf(info, 256, "%s", fake_gpu_name());
    return SUCCESS;
}

DRIVER(amdsmi_get_gpu_device_uuid, (void *processor, unsigned *length, char *uuid))
{
    OBEY_ORDERS();
    if (*length < 38)
        return SMI_INVALID;
    fake_gpu_uuid(uuid, *length, index_of(processor));
    return SUCCESS;
}

DRIVER(amdsmi_get_gpu_activity, (void *processor, uint32_t percents[16]))
{
    OBEY_ORDERS();
    percents[0] = fake_gpu_percent(index_of(processor));
    return SUCCESS;
}

DRIVER(amdsmi_get_gpu_memory_total, (void *processor, int type, uint64_t *bytes))
{
    OBEY_ORDERS();
    (void)processor;
    *bytes = fake_gpu_total_bytes();
    return type == 0 ? SUCCESS : SMI_INVALID;
}

DRIVER(amdsmi_get_gpu_memory_usage, (void *processor, int type, uint64_t *bytes))
{
    OBEY_ORDERS();
    *bytes = fake_gpu_used_bytes(index_of(processor));
    return type == 0 ? SUCCESS : SMI_INVALID;
}
#endif
