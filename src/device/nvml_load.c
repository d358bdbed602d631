/* nvml_load.c - asks NVML for GPUs and the processes on them, and reads the answers with care.
 *
 * The layout of a list of processes needs care. An entry is documented with 24 bytes, but the same
 * symbol, nvmlDeviceGetComputeRunningProcesses_v3, wrote 32 bytes an entry in the drivers 535.43 to
 * 535.86 and was seen with 16 elsewhere (https://github.com/XuehaiPan/nvitop/pull/79 and 226). With
 * the documented size the driver could write past the end, inside someone's training job. So each
 * entry gets room for the largest layout, the room is filled with a pattern beforehand, and what is
 * left of the pattern shows the layout. pid and memory come first in all of them. */
#include "device/nvml_load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h> /* getpid */

#include "base/error.h" /* vw__fail, VW__TRY */
#include "base/host_memory.h"
#include "base/ranked_mutex.h" /* vw__mutex_lock, VW__LOCK_REGISTRY */
#include "device/library_load.h"

typedef int nvml_result;                  /* nvmlReturn_t */
typedef struct nvml_device_ *nvml_device; /* nvmlDevice_t */

enum {
    NVML_SUCCESS = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_FUNCTION_NOT_FOUND = 13,
};

/* The beginning of every layout of an entry. usedGpuMemory is all ones if unknown, as in
 * vw_process_memory. */
typedef struct process_entry {
    unsigned pid;
    unsigned long long used_bytes;
} process_entry;
_Static_assert(sizeof(process_entry) == 16, "nvmlProcessInfo_v1_t");

typedef struct pci_info {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_info;
_Static_assert(sizeof(pci_info) == 68, "nvmlPciInfo_t");

typedef struct utilisation_rates {
    unsigned gpu_percent, memory_percent;
} utilisation_rates; /* nvmlUtilization_t */

typedef struct memory_info {
    unsigned long long total_bytes, free_bytes, used_bytes;
} memory_info; /* nvmlMemory_t */

enum {
    DOCUMENTED_ENTRY_BYTES = 24, /* nvmlProcessInfo_v2_t */
    LARGEST_ENTRY_BYTES = 32,
    FIRST_CAPACITY = 64,
    MOST_TRIES = 4, /* processes may start between asking how many and asking which */
    PAINT = 0xA5,
};

#define NVML_SYMBOL_LIST(X)                                                                        \
    X(nvmlInit, "nvmlInit_v2", NULL, true, nvml_result, (void))                                    \
    X(nvmlErrorString, "nvmlErrorString", NULL, true, const char *, (nvml_result result))          \
    X(nvmlSystemGetDriverVersion, "nvmlSystemGetDriverVersion", NULL, false, nvml_result,          \
      (char *version, unsigned version_bytes))                                                     \
    X(nvmlDeviceGetHandleByPciBusId, "nvmlDeviceGetHandleByPciBusId_v2", NULL, true, nvml_result,  \
      (const char *id, nvml_device *device))                                                       \
    X(nvmlDeviceGetComputeRunningProcesses, "nvmlDeviceGetComputeRunningProcesses_v3",             \
      "nvmlDeviceGetComputeRunningProcesses_v2", true, nvml_result,                                \
      (nvml_device device, unsigned *count, void *entries))                                        \
    X(nvmlDeviceGetGraphicsRunningProcesses, "nvmlDeviceGetGraphicsRunningProcesses_v3",           \
      "nvmlDeviceGetGraphicsRunningProcesses_v2", false, nvml_result,                              \
      (nvml_device device, unsigned *count, void *entries))                                        \
    X(nvmlDeviceGetCount, "nvmlDeviceGetCount_v2", NULL, false, nvml_result, (unsigned *count))    \
    X(nvmlDeviceGetHandleByIndex, "nvmlDeviceGetHandleByIndex_v2", NULL, false, nvml_result,       \
      (unsigned index, nvml_device *device))                                                       \
    X(nvmlDeviceGetPciInfo, "nvmlDeviceGetPciInfo_v3", NULL, false, nvml_result,                   \
      (nvml_device device, pci_info * info))                                                       \
    X(nvmlDeviceGetName, "nvmlDeviceGetName", NULL, false, nvml_result,                            \
      (nvml_device device, char *name, unsigned name_bytes))                                       \
    X(nvmlDeviceGetUUID, "nvmlDeviceGetUUID", NULL, false, nvml_result,                            \
      (nvml_device device, char *uuid, unsigned uuid_bytes))                                       \
    X(nvmlDeviceGetUtilizationRates, "nvmlDeviceGetUtilizationRates", NULL, false, nvml_result,    \
      (nvml_device device, utilisation_rates * rates))                                             \
    X(nvmlDeviceGetMemoryInfo, "nvmlDeviceGetMemoryInfo", NULL, false, nvml_result,                \
      (nvml_device device, memory_info * info))

typedef struct nvml_library {
#define POINTER(name, newest, fallback, is_required, result, parameters) result(*name) parameters;
    NVML_SYMBOL_LIST(POINTER)
#undef POINTER
} nvml_library;

static const char *const library_names[] = {
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    NULL,
};

static const vw__library_symbol symbols[] = {
#define SYMBOL(name, newest, fallback, is_required, result, parameters)                            \
    {newest, fallback, offsetof(nvml_library, name), is_required},
    NVML_SYMBOL_LIST(SYMBOL)
#undef SYMBOL
};

/* Guarded by `lock` until is_tried, then read-only. */
static vw__mutex lock = VW__MUTEX_INIT(VW__LOCK_REGISTRY);
static bool is_tried;
static bool is_loaded;
static nvml_library nvml;
static char failure[800];

static void load(void)
{
    char reasons[600];
    void *library = vw__library_open("VRAMWISE_NVML", library_names, reasons, sizeof reasons);
    if (library == NULL) {
        snprintf(failure, sizeof failure, "NVML could not be loaded; tried %s", reasons);
        return;
    }
    const char *missing =
        vw__library_find_symbols(library, symbols, sizeof symbols / sizeof symbols[0], &nvml);
    if (missing != NULL) {
        snprintf(failure, sizeof failure, "the NVML found here has no function %s", missing);
        return;
    }
    nvml_result result = nvml.nvmlInit();
    if (result != NVML_SUCCESS) {
        snprintf(failure, sizeof failure, "nvmlInit failed: %d: %s", result,
                 nvml.nvmlErrorString(result));
        return;
    }
    is_loaded = true;
}

static vw_status require_nvml(void)
{
    vw__mutex_lock(&lock);
    if (!is_tried)
        load();
    is_tried = true;
    vw__mutex_unlock(&lock);
    return is_loaded ? VW_OK : vw__fail(VW_ERR_UNSUPPORTED, "%s", failure);
}

/* Turns NVML's results into ours. */
static vw_status refusal(nvml_result result, const char *call, const char *pci_bus_id)
{
    bool is_unknowable = result == NVML_NOT_SUPPORTED || result == NVML_NO_PERMISSION ||
                         result == NVML_NOT_FOUND || result == NVML_FUNCTION_NOT_FOUND;
    return vw__fail(is_unknowable ? VW_ERR_UNSUPPORTED : VW_ERR_DEVICE, "%s(%s) failed: %d: %s",
                    call, pci_bus_id, result, nvml.nvmlErrorString(result));
}

/* The size of the `count` entries that NVML wrote into the patterned `room`. The last byte of an
 * entry belongs to a number that is small or all ones, so it never looks like the pattern. */
static size_t entry_stride(const unsigned char *room, size_t room_bytes, size_t count)
{
    size_t written_bytes = room_bytes;
    while (written_bytes > 0 && room[written_bytes - 1] == PAINT)
        written_bytes--;
    if (written_bytes == count * sizeof(process_entry))
        return sizeof(process_entry);
    if (written_bytes == count * LARGEST_ENTRY_BYTES)
        return LARGEST_ENTRY_BYTES;
    return DOCUMENTED_ENTRY_BYTES;
}

static void store_entries(const unsigned char *room, size_t room_bytes, size_t found,
                          vw_process_memory *entries, size_t capacity)
{
    size_t stride = entry_stride(room, room_bytes, found);
    uint32_t own_pid = (uint32_t)getpid();
    for (size_t i = 0; i < found && i < capacity; i++) {
        process_entry entry;
        memcpy(&entry, room + i * stride, sizeof entry);
        entries[i] = (vw_process_memory){
            .used_bytes = entry.used_bytes,
            .pid = entry.pid,
            .is_this_process = entry.pid == own_pid,
        };
    }
}

/* One of NVML's two lists. */
typedef nvml_result (*list_function)(nvml_device device, unsigned *count, void *entries);

static vw_status list_processes(const char *pci_bus_id, list_function list, const char *call,
                                vw_process_memory *entries, size_t capacity, size_t *count)
{
    nvml_device device = NULL;
    nvml_result result = nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id, &device);
    if (result != NVML_SUCCESS)
        return refusal(result, "nvmlDeviceGetHandleByPciBusId", pci_bus_id);

    unsigned wanted = FIRST_CAPACITY;
    result = NVML_INSUFFICIENT_SIZE;
    for (int i = 0; i < MOST_TRIES && result == NVML_INSUFFICIENT_SIZE; i++) {
        size_t room_bytes = (size_t)wanted * LARGEST_ENTRY_BYTES;
        unsigned char *room = vw__host_alloc(room_bytes);
        if (room == NULL)
            return vw__fail_host_memory(room_bytes, "the list of processes on a GPU");
        memset(room, PAINT, room_bytes);

        unsigned found = wanted;
        result = list(device, &found, room);
        if (result == NVML_SUCCESS && found <= wanted) {
            store_entries(room, room_bytes, found, entries, capacity);
            *count = found;
        }
        vw__host_free(room);
        wanted = found + FIRST_CAPACITY;
    }
    return result == NVML_SUCCESS ? VW_OK : refusal(result, call, pci_bus_id);
}

vw_status vw__nvml_processes(const char *pci_bus_id, vw_process_memory *entries, size_t capacity,
                             size_t *count)
{
    VW__TRY(require_nvml());
    return list_processes(pci_bus_id, nvml.nvmlDeviceGetComputeRunningProcesses,
                          "nvmlDeviceGetComputeRunningProcesses", entries, capacity, count);
}

vw_status vw__nvml_graphics_processes(const char *pci_bus_id, vw_process_memory *entries,
                                      size_t capacity, size_t *count)
{
    VW__TRY(require_nvml());
    if (nvml.nvmlDeviceGetGraphicsRunningProcesses == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "this NVML does not tell who draws with a GPU");
    return list_processes(pci_bus_id, nvml.nvmlDeviceGetGraphicsRunningProcesses,
                          "nvmlDeviceGetGraphicsRunningProcesses", entries, capacity, count);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

vw_status vw__nvml_gpu_count(unsigned *count)
{
    VW__TRY(require_nvml());
    if (nvml.nvmlDeviceGetCount == NULL || nvml.nvmlDeviceGetHandleByIndex == NULL ||
        nvml.nvmlDeviceGetPciInfo == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "this NVML does not tell which GPUs there are");
    unsigned found = 0;
    nvml_result result = nvml.nvmlDeviceGetCount(&found);
    if (result != NVML_SUCCESS)
        return refusal(result, "nvmlDeviceGetCount", "");
    *count = found;
    return VW_OK;
}

/* Values that a GPU does not report stay unknown. */
static void ask_texts(nvml_device device, vw__nvml_gpu *gpu)
{
    if (nvml.nvmlDeviceGetName == NULL ||
        nvml.nvmlDeviceGetName(device, gpu->name, sizeof gpu->name) != NVML_SUCCESS)
        gpu->name[0] = '\0';
    if (nvml.nvmlDeviceGetUUID == NULL ||
        nvml.nvmlDeviceGetUUID(device, gpu->uuid, sizeof gpu->uuid) != NVML_SUCCESS)
        gpu->uuid[0] = '\0';
    gpu->name[sizeof gpu->name - 1] = gpu->uuid[sizeof gpu->uuid - 1] = '\0';
}

static void ask_numbers(nvml_device device, vw__nvml_gpu *gpu)
{
    utilisation_rates rates;
    memory_info memory;
    if (nvml.nvmlDeviceGetUtilizationRates != NULL &&
        nvml.nvmlDeviceGetUtilizationRates(device, &rates) == NVML_SUCCESS)
        gpu->utilisation_percent = rates.gpu_percent;
    if (nvml.nvmlDeviceGetMemoryInfo != NULL &&
        nvml.nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS) {
        gpu->total_bytes = memory.total_bytes;
        gpu->used_bytes = memory.used_bytes;
        gpu->free_bytes = memory.free_bytes;
    }
}

vw_status vw__nvml_gpu_read(unsigned index, vw__nvml_gpu *out)
{
    unsigned count = 0;
    VW__TRY(vw__nvml_gpu_count(&count));
    char subject[24];
    snprintf(subject, sizeof subject, "GPU %u of %u", index, count);
    nvml_device device = NULL;
    nvml_result result = nvml.nvmlDeviceGetHandleByIndex(index, &device);
    if (result != NVML_SUCCESS)
        return refusal(result, "nvmlDeviceGetHandleByIndex", subject);
    pci_info pci = {.bus_id = ""};
    result = nvml.nvmlDeviceGetPciInfo(device, &pci);
    if (result != NVML_SUCCESS)
        return refusal(result, "nvmlDeviceGetPciInfo", subject);
    *out = (vw__nvml_gpu){
        .utilisation_percent = UINT64_MAX,
        .total_bytes = UINT64_MAX,
        .used_bytes = UINT64_MAX,
        .free_bytes = UINT64_MAX,
    };
    snprintf(out->pci_bus_id, sizeof out->pci_bus_id, "%.31s", pci.bus_id);
    ask_texts(device, out);
    ask_numbers(device, out);
    return VW_OK;
}

/* ---- the driver ------------------------------------------------------------------------------ */

vw_status vw__nvml_driver_version(char *out, size_t out_bytes)
{
    VW__TRY(require_nvml());
    if (nvml.nvmlSystemGetDriverVersion == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "this NVML does not tell the driver's version");
    nvml_result result = nvml.nvmlSystemGetDriverVersion(out, (unsigned)out_bytes);
    return result == NVML_SUCCESS ? VW_OK : refusal(result, "nvmlSystemGetDriverVersion", "");
}
