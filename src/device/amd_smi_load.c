/* amd_smi_load.c - asks AMD SMI for GPUs and the processes on them. Untested on hardware: written
 * after the headers and the source of ROCm 6.0 to 7.0, and run against a stand-in only.
 *
 * Up to ROCm 6.1 amdsmi_get_gpu_process_list lists bare numbers, under the same name; there
 * amdsmi_get_gpu_process_info is a function as well, which tells the two apart. From 6.2 on it is
 * entries, whose texts grew in 6.4 from 32 bytes to 256.
 *
 * The environment variable VRAMWISE_AMD_SMI names another library to load instead. */
#include "device/gpu_monitor.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h" /* vw__fail, VW__TRY */

typedef int smi_result; /* amdsmi_status_t */

enum {
    SMI_SUCCESS = 0,
    SMI_NOT_SUPPORTED = 2,
    SMI_NOT_YET_IMPLEMENTED = 3,
    SMI_NO_PERMISSION = 10,
    SMI_OUT_OF_RESOURCES = 15, /* of a list: the room is too small */
    SMI_NOT_FOUND = 31,
    SMI_NO_DATA = 40,

    SMI_INIT_GPUS = 2,   /* AMDSMI_INIT_AMD_GPUS */
    SMI_TYPE_GPU = 1,    /* AMDSMI_PROCESSOR_TYPE_AMD_GPU */
    SMI_MEMORY_VRAM = 0, /* AMDSMI_MEM_TYPE_VRAM */

    MOST_SOCKETS = 64,
    MOST_GPUS = 64,
    LARGEST_INFO_BYTES = 2048, /* far more than amdsmi_asic_info_t was ever seen with */
};

/* amdsmi_proc_info_t from 6.4 on, and before: the number comes after the name, what it has of the
 * GPU's own memory after its use of engines. */
static const vw__monitor_layout layouts[] = {{704, 256, 352}, {224, 32, 128}};

/* amdsmi_engine_usage_t */
typedef struct engine_usage {
    uint32_t gfx_percent, memory_percent, media_percent, reserved[13];
} engine_usage;
_Static_assert(sizeof(engine_usage) == 64, "amdsmi_engine_usage_t");

#define SMI_SYMBOL_LIST(X)                                                                         \
    X(amdsmi_init, true, (uint64_t flags))                                                         \
    X(amdsmi_status_code_to_string, true, (smi_result result, const char **text))                  \
    X(amdsmi_get_socket_handles, true, (uint32_t * count, void **sockets))                         \
    X(amdsmi_get_processor_handles, true, (void *socket, uint32_t *count, void **processors))      \
    X(amdsmi_get_processor_type, true, (void *processor, int *type))                               \
    X(amdsmi_get_gpu_device_bdf, true, (void *processor, uint64_t *bdf))                           \
    X(amdsmi_get_gpu_process_list, true, (void *processor, uint32_t *count, void *entries))        \
    X(amdsmi_get_gpu_process_info, false, (void *processor, uint32_t process, void *info))         \
    X(amdsmi_get_gpu_asic_info, false, (void *processor, void *info))                              \
    X(amdsmi_get_gpu_device_uuid, false, (void *processor, unsigned *length, char *uuid))          \
    X(amdsmi_get_gpu_activity, false, (void *processor, engine_usage *usage))                      \
    X(amdsmi_get_gpu_memory_total, false, (void *processor, int type, uint64_t *bytes))            \
    X(amdsmi_get_gpu_memory_usage, false, (void *processor, int type, uint64_t *bytes))

static struct {
#define POINTER(name, is_required, parameters) smi_result(*name) parameters;
    SMI_SYMBOL_LIST(POINTER)
#undef POINTER
} smi;

static const char *const library_names[] = {
    "libamd_smi.so",
    "libamd_smi.so.26",
    "libamd_smi.so.25",
    "libamd_smi.so.24",
    "/opt/rocm/lib/libamd_smi.so",
    NULL,
};

static const vw__library_symbol symbols[] = {
#define SYMBOL(name, is_required, parameters)                                                      \
    {#name, NULL, offsetof(__typeof__(smi), name), is_required},
    SMI_SYMBOL_LIST(SYMBOL)
#undef SYMBOL
};

static const char *text_of(smi_result result)
{
    const char *text = NULL;
    (void)smi.amdsmi_status_code_to_string(result, &text);
    return text != NULL ? text : "unknown";
}

static bool start(char *why, size_t why_bytes)
{
    smi_result result = smi.amdsmi_init(SMI_INIT_GPUS);
    if (result != SMI_SUCCESS)
        snprintf(why, why_bytes, "amdsmi_init failed: %d: %s", result, text_of(result));
    return result == SMI_SUCCESS;
}

static vw__monitor_library library = {
    .name = "AMD SMI",
    .variable = "VRAMWISE_AMD_SMI",
    .library_names = library_names,
    .symbols = symbols,
    .symbol_count = sizeof symbols / sizeof symbols[0],
    .table = &smi,
    .start = start,
    .lock = VW__MUTEX_INIT(VW__LOCK_REGISTRY),
};

static bool is_here(void)
{
    return vw__monitor_is_found(&library);
}

/* Turns AMD SMI's results into ours. */
static vw_status refusal(smi_result result, const char *call, const char *subject)
{
    bool is_unknowable = result == SMI_NOT_SUPPORTED || result == SMI_NOT_YET_IMPLEMENTED ||
                         result == SMI_NO_PERMISSION || result == SMI_NOT_FOUND ||
                         result == SMI_NO_DATA;
    return vw__fail(is_unknowable ? VW_ERR_UNSUPPORTED : VW_ERR_DEVICE, "%s(%s) failed: %d: %s",
                    call, subject, result, text_of(result));
}

/* ---- which GPUs ------------------------------------------------------------------------------ */

typedef struct gpu_list {
    void *items[MOST_GPUS];
    unsigned count;
} gpu_list;

/* What is no GPU is left out. */
static smi_result add_socket(void *socket, gpu_list *list)
{
    void *processors[MOST_GPUS];
    uint32_t count = MOST_GPUS;
    smi_result result = smi.amdsmi_get_processor_handles(socket, &count, processors);
    for (uint32_t i = 0; result == SMI_SUCCESS && i < count && list->count < MOST_GPUS; i++) {
        int type = 0;
        result = smi.amdsmi_get_processor_type(processors[i], &type);
        if (result == SMI_SUCCESS && type == SMI_TYPE_GPU)
            list->items[list->count++] = processors[i];
    }
    return result;
}

static vw_status find_gpus(gpu_list *list)
{
    void *sockets[MOST_SOCKETS];
    uint32_t count = MOST_SOCKETS;
    list->count = 0;
    VW__TRY(vw__monitor_require(&library));
    smi_result result = smi.amdsmi_get_socket_handles(&count, sockets);
    if (result != SMI_SUCCESS)
        return refusal(result, "amdsmi_get_socket_handles", "");
    for (uint32_t i = 0; i < count && i < MOST_SOCKETS; i++) {
        result = add_socket(sockets[i], list);
        if (result != SMI_SUCCESS)
            return refusal(result, "amdsmi_get_processor_handles", "");
    }
    return VW_OK;
}

/* amdsmi_bdf_t: function, device, bus and domain, from the lowest bit on. */
static smi_result read_bus_id(void *gpu, char *id, size_t id_bytes)
{
    uint64_t bdf = 0;
    smi_result result = smi.amdsmi_get_gpu_device_bdf(gpu, &bdf);
    if (result == SMI_SUCCESS)
        snprintf(id, id_bytes, "%04x:%02x:%02x.%x", (unsigned)(bdf >> 16),
                 (unsigned)(bdf >> 8 & 0xff), (unsigned)(bdf >> 3 & 0x1f), (unsigned)(bdf & 7));
    return result;
}

static vw_status gpu_count(unsigned *count)
{
    gpu_list list;
    VW__TRY(find_gpus(&list));
    *count = list.count;
    return VW_OK;
}

/* ---- one GPU --------------------------------------------------------------------------------- */

/* Values that a GPU does not report stay unknown. The name is the first text of its struct. */
static void ask_texts(void *gpu, vw__monitor_gpu *out)
{
    char info[LARGEST_INFO_BYTES] = "";
    unsigned length = sizeof out->uuid;
    if (smi.amdsmi_get_gpu_asic_info != NULL &&
        smi.amdsmi_get_gpu_asic_info(gpu, info) == SMI_SUCCESS)
        snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, info);
    if (smi.amdsmi_get_gpu_device_uuid == NULL ||
        smi.amdsmi_get_gpu_device_uuid(gpu, &length, out->uuid) != SMI_SUCCESS)
        out->uuid[0] = '\0';
    out->uuid[sizeof out->uuid - 1] = '\0';
}

static void ask_numbers(void *gpu, vw__monitor_gpu *out)
{
    engine_usage usage;
    uint64_t total_bytes, used_bytes;
    if (smi.amdsmi_get_gpu_activity != NULL &&
        smi.amdsmi_get_gpu_activity(gpu, &usage) == SMI_SUCCESS && usage.gfx_percent <= 100)
        out->utilisation_percent = usage.gfx_percent;
    if (smi.amdsmi_get_gpu_memory_total != NULL && smi.amdsmi_get_gpu_memory_usage != NULL &&
        smi.amdsmi_get_gpu_memory_total(gpu, SMI_MEMORY_VRAM, &total_bytes) == SMI_SUCCESS &&
        smi.amdsmi_get_gpu_memory_usage(gpu, SMI_MEMORY_VRAM, &used_bytes) == SMI_SUCCESS &&
        used_bytes <= total_bytes) {
        out->total_bytes = total_bytes;
        out->used_bytes = used_bytes;
        out->free_bytes = total_bytes - used_bytes;
    }
}

static vw_status gpu_read(unsigned index, vw__monitor_gpu *out)
{
    gpu_list list;
    VW__TRY(find_gpus(&list));
    char subject[24];
    snprintf(subject, sizeof subject, "GPU %u of %u", index, list.count);
    if (index >= list.count)
        return vw__fail(VW_ERR_DEVICE, "AMD SMI has no %s", subject);
    *out = (vw__monitor_gpu){
        .utilisation_percent = UINT64_MAX,
        .total_bytes = UINT64_MAX,
        .used_bytes = UINT64_MAX,
        .free_bytes = UINT64_MAX,
    };
    smi_result result = read_bus_id(list.items[index], out->pci_bus_id, sizeof out->pci_bus_id);
    if (result != SMI_SUCCESS)
        return refusal(result, "amdsmi_get_gpu_device_bdf", subject);
    ask_texts(list.items[index], out);
    ask_numbers(list.items[index], out);
    return VW_OK;
}

/* ---- processes ------------------------------------------------------------------------------- */

static vw_status find_gpu(const char *pci_bus_id, void **gpu)
{
    gpu_list list;
    VW__TRY(find_gpus(&list));
    for (unsigned i = 0; i < list.count; i++) {
        char id[32] = "";
        if (read_bus_id(list.items[i], id, sizeof id) == SMI_SUCCESS &&
            strcmp(id, pci_bus_id) == 0) {
            *gpu = list.items[i];
            return VW_OK;
        }
    }
    return vw__fail(VW_ERR_UNSUPPORTED, "AMD SMI knows no GPU at %s", pci_bus_id);
}

static vw_status processes(const char *pci_bus_id, vw_process_memory *entries, size_t capacity,
                           size_t *count)
{
    void *gpu = NULL;
    smi_result result;
    VW__TRY(find_gpu(pci_bus_id, &gpu));
    if (smi.amdsmi_get_gpu_process_info != NULL)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "this AMD SMI lists processes in another way: ROCm 6.2 is needed");
    const vw__monitor_question question = {
        .ask = smi.amdsmi_get_gpu_process_list,
        .device = gpu,
        .success = SMI_SUCCESS,
        .too_small = SMI_OUT_OF_RESOURCES,
        .layouts = layouts,
        .layout_count = sizeof layouts / sizeof layouts[0],
    };
    VW__TRY(vw__monitor_ask(&question, &result, entries, capacity, count));
    return result == SMI_SUCCESS ? VW_OK
                                 : refusal(result, "amdsmi_get_gpu_process_list", pci_bus_id);
}

const vw__monitor vw__amd_smi_monitor = {
    .is_here = is_here,
    .gpu_count = gpu_count,
    .gpu_read = gpu_read,
    .processes = processes,
};
