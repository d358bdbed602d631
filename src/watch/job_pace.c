/* job_pace.c - how fast a job's steps go, and how much of them is waiting.
 *
 * The pace is that of the later half of the log, so that a slow start does not count for ever. */
#include "vramwise/watch.h"

uint64_t vw_job_step_ns(const vw_job_device *device)
{
    if (device == NULL || device->step_count < 2)
        return VW_LIVE_UNKNOWN;
    const vw_job_step *last = &device->steps[device->step_count - 1];
    const vw_job_step *middle = &device->steps[(device->step_count - 1) / 2];
    if (last->step <= middle->step || last->at_ns <= middle->at_ns)
        return VW_LIVE_UNKNOWN;
    return (last->at_ns - middle->at_ns) / (last->step - middle->step);
}

double vw_job_input_share(const vw_job_device *device)
{
    uint64_t step_ns = device != NULL ? device->values[VW_LIVE_STEP_NS] : VW_LIVE_UNKNOWN;
    uint64_t wait_ns = device != NULL ? device->values[VW_LIVE_INPUT_WAIT_NS] : VW_LIVE_UNKNOWN;
    if (step_ns == VW_LIVE_UNKNOWN || wait_ns == VW_LIVE_UNKNOWN || step_ns == 0)
        return -1;
    return wait_ns < step_ns ? (double)wait_ns / (double)step_ns : 1;
}
