/* device_controls.c - what a test may do to a stand-in: count, script, lose, hold.
 *
 * Each function is one look or one change under the device's lock. None is itself a call of the
 * device: nothing is counted, and a lost device still answers here. */
#include "device/device_common.h"

#include "base/error.h"

/* Finds the stand-in and locks it; `what` is the public function, for the refusal. */
static hr_status lock_stand_in(const hr_device *device, const char *what, hr__stand_in **out)
{
    HR__TRY(hr__stand_in_with_backing(device, NULL, what, out));
    hr__mutex_lock(&(*out)->lock);
    return HR_OK;
}

hr_status hr_device_get_calls(const hr_device *device, hr_device_calls *out)
{
    hr__stand_in *stand_in = NULL;
    if (out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "hr_device_get_calls: out is NULL");
    HR__TRY(lock_stand_in(device, "hr_device_get_calls", &stand_in));
    *out = stand_in->calls;
    out->in_use_bytes = stand_in->books.in_use_bytes;
    out->peak_use_bytes = stand_in->books.peak_use_bytes;
    hr__mutex_unlock(&stand_in->lock);
    return HR_OK;
}

const uint64_t *hr_device_elapsed_counter(const hr_device *device)
{
    const hr__stand_in *stand_in = hr__stand_in_of(device);
    return stand_in != NULL ? &stand_in->calls.elapsed_ns : NULL;
}

hr_status hr_device_fail_call(hr_device *device, uint64_t nth, hr_status status)
{
    hr__stand_in *stand_in = NULL;
    if (nth != 0 && status == HR_OK)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "hr_device_fail_call: HR_OK is no failure");
    HR__TRY(lock_stand_in(device, "hr_device_fail_call", &stand_in));
    stand_in->calls_until_failure = nth;
    stand_in->failure_order = nth;
    stand_in->failure_status = status;
    hr__mutex_unlock(&stand_in->lock);
    return HR_OK;
}

hr_status hr_device_lose(hr_device *device)
{
    hr__stand_in *stand_in = NULL;
    HR__TRY(lock_stand_in(device, "hr_device_lose", &stand_in));
    stand_in->is_lost = true;
    hr__mutex_unlock(&stand_in->lock);
    return HR_OK;
}

hr_status hr_device_set_capacity(hr_device *device, uint64_t capacity_bytes)
{
    hr__stand_in *stand_in = NULL;
    HR__TRY(lock_stand_in(device, "hr_device_set_capacity", &stand_in));
    stand_in->books.capacity_bytes = capacity_bytes;
    hr__mutex_unlock(&stand_in->lock);
    return HR_OK;
}

hr_status hr_device_hold_streams(hr_device *device, bool is_held)
{
    hr__stand_in *stand_in = NULL;
    HR__TRY(lock_stand_in(device, "hr_device_hold_streams", &stand_in));
    hr__streams_hold(&stand_in->streams, is_held);
    hr__mutex_unlock(&stand_in->lock);
    return HR_OK;
}

hr_status hr_device_complete(hr_device *device, hr_stream stream)
{
    hr__stand_in *stand_in = NULL;
    HR__TRY(lock_stand_in(device, "hr_device_complete", &stand_in));
    hr__streams_complete(&stand_in->streams, stream);
    hr__mutex_unlock(&stand_in->lock);
    return HR_OK;
}

hr_status hr_device_set_capturing(hr_device *device, hr_stream stream, bool is_capturing)
{
    hr__stand_in *stand_in = NULL;
    HR__TRY(lock_stand_in(device, "hr_device_set_capturing", &stand_in));
    hr_status status = hr__streams_set_capturing(&stand_in->streams, stream, is_capturing);
    hr__mutex_unlock(&stand_in->lock);
    return status;
}
