/* device_hip.c - an AMD GPU behind the device table: the CUDA device, with HIP's functions.
 *
 * Untested on hardware: it was run against a stand-in only (tests/support/fake_hip), written after
 * the source of ROCm 6. */
#include "vramwise/device.h"

#include "base/error.h" /* vw__fail, VW__TRY */
#include "device/cuda_calls.h"
#include "device/hip_driver_load.h"

vw_status vw_hip_device_open(int index, vw_device **out)
{
    const vw__cuda_driver *driver = NULL;
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "vw_hip_device_open: out is NULL");
    VW__TRY(vw__hip_driver_get(&driver));
    return vw__cuda_open(driver, index, out);
}
