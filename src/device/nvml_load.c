/* nvml_load.c - asks NVML for GPUs and the processes on them, and reads the answers with care.
 *
 * The layout of a list of processes needs care. An entry is documented with 24 bytes, but the same
 * symbol, nvmlDeviceGetComputeRunningProcesses_v3, wrote 32 bytes an entry in the drivers 535.43 to
 * 535.86 and was seen with 16 elsewhere (https://github.com/XuehaiPan/nvitop/pull/79 and 226). pid
 * and memory come first in all of them. */
#include "device/nvml_load.h"

#include <stdio.h>

#include "base/error.h" /* vw__fail, VW__TRY */
#include "device/gpu_monitor.h"

typedef int nvml_result;   /* nvmlReturn_t */
typedef void *nvml_device; /* nvmlDevice_t */

enum {
    NVML_SUCCESS = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_FUNCTION_NOT_FOUND = 13,
};

/* nvmlProcessInfo_v2_t, nvmlProcessInfo_v1_t, and the one of those drivers. */
static const vw__monitor_layout layouts[] = {{24, 0, 8}, {16, 0, 8}, {32, 0, 8}};

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

static nvml_library nvml;

static bool start(char *why, size_t why_bytes)
{
    nvml_result result = nvml.nvmlInit();
    if (result != NVML_SUCCESS)
        snprintf(why, why_bytes, "nvmlInit failed: %d: %s", result, nvml.nvmlErrorString(result));
    return result == NVML_SUCCESS;
}

static vw__monitor_library library = {
    .name = "NVML",
    .variable = "VRAMWISE_NVML",
    .library_names = library_names,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof symbols[0],
    .table = &nvml,
    .start = start,
    .lock = VW__MUTEX_INIT(VW__LOCK_REGISTRY),
};

static bool is_here(void)
{
    return vw__monitor_is_found(&library);
}

/* Turns NVML's results into ours. */
static vw_status refusal(nvml_result result, const char *call, const char *pci_bus_id)
{
    bool is_unknowable = result == NVML_NOT_SUPPORTED || result == NVML_NO_PERMISSION ||
                         result == NVML_NOT_FOUND || result == NVML_FUNCTION_NOT_FOUND;
    return vw__fail(is_unknowable ? VW_ERR_UNSUPPORTED : VW_ERR_DEVICE, "%s(%s) failed: %d: %s",
                    call, pci_bus_id, result, nvml.nvmlErrorString(result));
}

static vw_status list_processes(const char *pci_bus_id,
                                int (*list)(void *device, unsigned *count, void *entries),
                                const char *call, vw_process_memory *entries, size_t capacity,
                                size_t *count)
{
    void *device = NULL;
    nvml_result result = nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id, &device);
    if (result != NVML_SUCCESS)
        return refusal(result, "nvmlDeviceGetHandleByPciBusId", pci_bus_id);
    const vw__monitor_question question = {
        .ask = list,
        .device = device,
        .success = NVML_SUCCESS,
        .too_small = NVML_INSUFFICIENT_SIZE,
        .layouts = layouts,
        .layout_count = sizeof layouts / sizeof layouts[0],
    };
    VW__TRY(vw__monitor_ask(&question, &result, entries, capacity, count));
    return result == NVML_SUCCESS ? VW_OK : refusal(result, call, pci_bus_id);
}

static vw_status processes(const char *pci_bus_id, vw_process_memory *entries, size_t capacity,
                           size_t *count)
{
    VW__TRY(vw__monitor_require(&library));
    return list_processes(pci_bus_id, nvml.nvmlDeviceGetComputeRunningProcesses,
                          "nvmlDeviceGetComputeRunningProcesses", entries, capacity, count);
}

static vw_status graphics_processes(const char *pci_bus_id, vw_process_memory *entries,
                                    size_t capacity, size_t *count)
{
    VW__TRY(vw__monitor_require(&library));
    if (nvml.nvmlDeviceGetGraphicsRunningProcesses == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "this NVML does not tell who draws with a GPU");
    return list_processes(pci_bus_id, nvml.nvmlDeviceGetGraphicsRunningProcesses,
                          "nvmlDeviceGetGraphicsRunningProcesses", entries, capacity, count);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

static vw_status gpu_count(unsigned *count)
{
    VW__TRY(vw__monitor_require(&library));
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
static void ask_texts(nvml_device device, vw__monitor_gpu *gpu)
{
    if (nvml.nvmlDeviceGetName == NULL ||
        nvml.nvmlDeviceGetName(device, gpu->name, sizeof gpu->name) != NVML_SUCCESS)
        gpu->name[0] = '\0';
    if (nvml.nvmlDeviceGetUUID == NULL ||
        nvml.nvmlDeviceGetUUID(device, gpu->uuid, sizeof gpu->uuid) != NVML_SUCCESS)
        gpu->uuid[0] = '\0';
    gpu->name[sizeof gpu->name - 1] = gpu->uuid[sizeof gpu->uuid - 1] = '\0';
}

static void ask_numbers(nvml_device device, vw__monitor_gpu *gpu)
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

static vw_status gpu_read(unsigned index, vw__monitor_gpu *out)
{
    unsigned count = 0;
    VW__TRY(gpu_count(&count));
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
    *out = (vw__monitor_gpu){
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
    VW__TRY(vw__monitor_require(&library));
    if (nvml.nvmlSystemGetDriverVersion == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "this NVML does not tell the driver's version");
    nvml_result result = nvml.nvmlSystemGetDriverVersion(out, (unsigned)out_bytes);
    return result == NVML_SUCCESS ? VW_OK : refusal(result, "nvmlSystemGetDriverVersion", "");
}

const vw__monitor vw__nvml_monitor = {
    .is_here = is_here,
    .gpu_count = gpu_count,
    .gpu_read = gpu_read,
    .processes = processes,
    .graphics_processes = graphics_processes,
};
