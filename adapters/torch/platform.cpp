// platform.cpp - see platform.h.
#include "platform.h"

#include "support/vramwise_torch_support.h"

namespace vramwise_torch
{

#ifdef USE_ROCM

// A capture elsewhere is none of our business, and waiting would spoil it in the thread's own mode.
static bool are_devices_idle()
{
    try {
        c10::cuda::CUDAStreamCaptureModeGuard relaxed(hipStreamCaptureModeRelaxed);
        for (c10::DeviceIndex i = 0; i < c10::cuda::device_count(); i++) {
            if (c10::cuda::hasPrimaryContext(i)) {
                c10::cuda::CUDAGuard guard(i);
                c10::cuda::device_synchronize();
            }
        }
        return true;
    } catch (...) { // a GPU that failed is not known to be idle
        return false;
    }
}

vw_safe_point safe_moments()
{
    vw_safe_point moments = vramwise_safe_moments();
    moments.enter = [](void *context) {
        const vw_safe_point granted = vramwise_safe_moments();
        if (!granted.enter(context))
            return false;
        if (are_devices_idle())
            return true;
        granted.leave(context);
        return false;
    };
    return moments;
}

#else

vw_safe_point safe_moments()
{
    return vramwise_safe_moments();
}

#endif

} // namespace vramwise_torch
