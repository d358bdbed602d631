/* nvml_load.h - GPUs and the processes on them, from NVIDIA's management library.
 *
 * The CUDA driver knows only its own process. NVML (libnvidia-ml) sees every process, but counts
 * devices in its own order and knows nothing of CUDA_VISIBLE_DEVICES; the PCI bus id is the name
 * for a GPU that both agree on.
 *
 * NVML is optional: if it is missing, or does not answer, the result is VW_ERR_UNSUPPORTED and
 * everything else works. It is loaded and started at the first call, and never shut down. Safe from
 * any thread. */
#ifndef VW_DEVICE_NVML_LOAD_H
#define VW_DEVICE_NVML_LOAD_H

#include <stddef.h> /* size_t */
#include <stdint.h> /* uint64_t */

#include "vramwise/device.h" /* vw_process_memory, vw_status */

/* The compute processes on the GPU at `pci_bus_id` ("0000:3b:00.0"). Stores at most `capacity`
 * entries, and in `*count` how many there are. Process numbers are those of the host: in a
 * container with its own numbering no entry is_this_process.
 *
 * The environment variable VRAMWISE_NVML names another library to load instead of
 * libnvidia-ml.so.1.
 *
 * VW_ERR_UNSUPPORTED   NVML is not here, or does not know this; vw_last_error() says which
 * VW_ERR_DEVICE        NVML reported an error
 * VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__nvml_processes(const char *pci_bus_id, vw_process_memory *entries,
                                           size_t capacity, size_t *count);

/* The same for processes that draw. */
VW_MUST_CHECK vw_status vw__nvml_graphics_processes(const char *pci_bus_id,
                                                    vw_process_memory *entries, size_t capacity,
                                                    size_t *count);

/* A GPU at one instant; UINT64_MAX and "" are unknown. */
typedef struct vw__nvml_gpu {
    char name[96];
    char uuid[96]; /* "GPU-..." */
    char pci_bus_id[32];
    uint64_t utilisation_percent; /* of the last moments, in which it was busy */
    uint64_t total_bytes, used_bytes, free_bytes;
} vw__nvml_gpu;

/* The number of GPUs, as NVML and nvidia-smi count. Failures as above; VW_ERR_DEVICE for a GPU that
 * has fallen off the bus. */
VW_MUST_CHECK vw_status vw__nvml_gpu_count(unsigned *count);
VW_MUST_CHECK vw_status vw__nvml_gpu_read(unsigned index, vw__nvml_gpu *out);

/* The driver's version as users know it, "580.95.05". VW_ERR_UNSUPPORTED as above. */
VW_MUST_CHECK vw_status vw__nvml_driver_version(char *out, size_t out_bytes);

#endif /* VW_DEVICE_NVML_LOAD_H */
