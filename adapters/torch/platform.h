// platform.h - what the adapter does differently with CUDA and with ROCm, beyond names
// (torch_headers.h). ROCm is untested on hardware.
#pragma once

#include "torch_headers.h"

#include <vramwise/vramwise.h>
#include <vramwise/device.h>

namespace vramwise_torch
{

#ifdef USE_ROCM
constexpr auto open_gpu = vw_hip_device_open;
// Said when it is asked for, as no GPU may be started then; the device would say it later.
constexpr const char *spill_trouble =
    "nothing can be spilled on an AMD GPU: HIP cannot put host memory in the place of its own";
constexpr const char *gate_trouble = "the launch gate is for CUDA";
#else
constexpr auto open_gpu = vw_cuda_device_open;
constexpr const char *spill_trouble = nullptr;
constexpr const char *gate_trouble = nullptr;
#endif

// The support library's moments in which live data may be copied. It knows CUDA's driver only, so
// with ROCm whoever was granted one waits for all GPUs here.
vw_safe_point safe_moments();

} // namespace vramwise_torch
