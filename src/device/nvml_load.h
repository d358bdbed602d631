/* nvml_load.h - what only NVIDIA's management library is asked for; the rest is vw__nvml_monitor
 * (gpu_monitor.h). The environment variable VRAMWISE_NVML names another library to load instead of
 * libnvidia-ml.so.1. */
#ifndef VW_DEVICE_NVML_LOAD_H
#define VW_DEVICE_NVML_LOAD_H

#include <stddef.h> /* size_t */

#include "vramwise/status.h"

/* The driver's version as users know it, "580.95.05". VW_ERR_UNSUPPORTED, VW_ERR_DEVICE */
VW_MUST_CHECK vw_status vw__nvml_driver_version(char *out, size_t out_bytes);

#endif /* VW_DEVICE_NVML_LOAD_H */
