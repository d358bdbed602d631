/* plan_device.h - from what PyTorch allocates to what a process takes of a card. */
#ifndef VW_PLAN_PLAN_DEVICE_H
#define VW_PLAN_PLAN_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "plan/error_bands.h"

/* CUDA's context and kernels, and NCCL's buffers where there are several GPUs. */
uint64_t vw__context_bytes(const vw_plan_settings *settings);

/* What a process with that peak takes, where nobody replayed it. */
uint64_t vw__device_bytes(uint64_t peak_allocated_bytes, const vw_plan_settings *settings);

/* Of memory that may move to the host, what stays on a card beside the `used_bytes` that may not.
 */
uint64_t vw__resident_bytes(uint64_t pageable_bytes, uint64_t used_bytes,
                            const vw_plan_settings *settings);

/* As vw__device_bytes(), if the prediction is as far off as in the worst measured case. */
uint64_t vw__device_bytes_at_worst(uint64_t peak_allocated_bytes, const vw_plan_settings *settings,
                                   vw__error_band band);

#endif /* VW_PLAN_PLAN_DEVICE_H */
