/* gpu_monitor.h - GPUs and the processes on them, from a vendor's management library.
 *
 * A driver knows only its own process. The management libraries see every process, but count
 * devices in their own order and know nothing of CUDA_VISIBLE_DEVICES and the like; the PCI bus id
 * is the name for a GPU that all agree on.
 *
 * They are optional: if one is missing, or does not answer, the result is VW_ERR_UNSUPPORTED and
 * everything else works. One is loaded and started at the first call, and never shut down. Safe
 * from any thread.
 *
 *   nvml_load.c      NVIDIA's, libnvidia-ml
 *   amd_smi_load.c   AMD's, libamd_smi; untested on hardware */
#ifndef VW_DEVICE_GPU_MONITOR_H
#define VW_DEVICE_GPU_MONITOR_H

#include <stdbool.h>
#include <stddef.h> /* size_t */
#include <stdint.h> /* uint64_t */

#include "vramwise/device.h" /* vw_process_memory, vw_status */

#include "base/ranked_mutex.h" /* vw__mutex */
#include "device/library_load.h"

/* A GPU at one instant; UINT64_MAX and "" are unknown. */
typedef struct vw__monitor_gpu {
    char name[96];
    char uuid[96];                /* "GPU-..." of NVIDIA's */
    char pci_bus_id[32];          /* "0000:3b:00.0" */
    uint64_t utilisation_percent; /* of the last moments, in which it was busy */
    uint64_t total_bytes, used_bytes, free_bytes;
} vw__monitor_gpu;

/* The processes on the GPU at `pci_bus_id`. Stores at most `capacity` entries, and in `*count` how
 * many there are. Process numbers are those of the host: in a container with its own numbering no
 * entry is_this_process.
 *
 * VW_ERR_UNSUPPORTED   the library is not here, or does not know this; vw_last_error() says which
 * VW_ERR_DEVICE        it reported an error
 * VW_ERR_HOST_MEMORY */
typedef vw_status (*vw__monitor_list_function)(const char *pci_bus_id, vw_process_memory *entries,
                                               size_t capacity, size_t *count);

typedef struct vw__monitor {
    bool (*is_here)(void); /* the library was found, whether it works or not */

    /* The number of GPUs, as the library and the vendor's own tools count. Failures as above;
     * VW_ERR_DEVICE for a GPU that has fallen off the bus. */
    vw_status (*gpu_count)(unsigned *count);
    vw_status (*gpu_read)(unsigned index, vw__monitor_gpu *out);

    vw__monitor_list_function processes;
    vw__monitor_list_function graphics_processes; /* those that draw; NULL: they are in the other */
} vw__monitor;

extern const vw__monitor vw__nvml_monitor;
extern const vw__monitor vw__amd_smi_monitor;

/* ---- for the libraries ----------------------------------------------------------------------- */

/* Static, and loaded by the first that asks. */
typedef struct vw__monitor_library {
    const char *name;                 /* "NVML", in messages */
    const char *variable;             /* names another library to load instead */
    const char *const *library_names; /* ends with NULL */
    const vw__library_symbol *symbols;
    size_t symbol_count;
    void *table; /* of the functions */

    /* Called once after loading; false: `why` has the reason. */
    bool (*start)(char *why, size_t why_bytes);

    vw__mutex lock; /* guards the rest until is_tried; it is then read-only */
    bool is_tried, is_found, is_started;
    char failure[800];
} vw__monitor_library;

/* VW_OK: it may be asked. VW_ERR_UNSUPPORTED */
VW_MUST_CHECK vw_status vw__monitor_require(vw__monitor_library *library);
bool vw__monitor_is_found(vw__monitor_library *library);

/* Where what we want is in an entry of a list of processes: the number (4 bytes) and the memory
 * (8), which is all ones if unknown, as in vw_process_memory. */
typedef struct vw__monitor_layout {
    size_t entry_bytes, pid_at, used_at;
} vw__monitor_layout;

/* How a library lists processes. `ask` has it fill `room`, which holds `*count` entries, stores in
 * `*count` how many there are, and returns the library's result.
 *
 * Versions of a library lay out entries differently under one name, and one that is larger than
 * expected would be written past the end, inside someone's training job. So each entry gets room
 * for the largest layout, the room is filled with a pattern beforehand, and what is left of the
 * pattern shows the layout. */
typedef struct vw__monitor_question {
    int (*ask)(void *device, unsigned *count, void *room);
    void *device;
    int success, too_small;            /* results */
    const vw__monitor_layout *layouts; /* the documented one first */
    size_t layout_count;
} vw__monitor_question;

/* Fills `entries` and `*count` if the library's result, in `*result`, is success; asks again with
 * more room while it is too_small, a few times. VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__monitor_ask(const vw__monitor_question *question, int *result,
                                        vw_process_memory *entries, size_t capacity, size_t *count);

#endif /* VW_DEVICE_GPU_MONITOR_H */
