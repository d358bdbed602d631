/* job_pace.c - how fast a job's steps go, and how much of them is waiting.
 *
 * The pace is that of the later half of the log, so that a slow start does not count for ever. */
#include "headroom/watch.h"

uint64_t hr_job_step_ns(const hr_job_device *device)
{
    if (device == NULL || device->step_count < 2)
        return HR_LIVE_UNKNOWN;
    const hr_job_step *last = &device->steps[device->step_count - 1];
    const hr_job_step *middle = &device->steps[(device->step_count - 1) / 2];
    if (last->step <= middle->step || last->at_ns <= middle->at_ns)
        return HR_LIVE_UNKNOWN;
    return (last->at_ns - middle->at_ns) / (last->step - middle->step);
}

double hr_job_input_share(const hr_job_device *device)
{
    uint64_t step_ns = device != NULL ? device->values[HR_LIVE_STEP_NS] : HR_LIVE_UNKNOWN;
    uint64_t wait_ns = device != NULL ? device->values[HR_LIVE_INPUT_WAIT_NS] : HR_LIVE_UNKNOWN;
    if (step_ns == HR_LIVE_UNKNOWN || wait_ns == HR_LIVE_UNKNOWN || step_ns == 0)
        return -1;
    return wait_ns < step_ns ? (double)wait_ns / (double)step_ns : 1;
}
