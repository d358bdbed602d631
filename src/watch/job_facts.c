/* job_facts.c - what the doctor needs to know about a running job, read from its page.
 *
 * The device to judge is the one that leaks fastest, or else the one that holds most. */
#include "vramwise/watch.h"

#include <inttypes.h>

#include "base/error.h"
#include "doctor/running_job.h"

static uint64_t held_by(const vw_job_device *device)
{
    uint64_t reserved = device->values[VW_LIVE_RESERVED_BYTES];
    uint64_t live = device->values[VW_LIVE_LIVE_BYTES];
    return reserved != VW_LIVE_UNKNOWN ? reserved : live != VW_LIVE_UNKNOWN ? live : 0;
}

static bool is_worse(const vw_job_device *device, const vw_job_outlook *outlook,
                     const vw__doctor_job_facts *than)
{
    if (outlook->is_leak || than->outlook.is_leak)
        return outlook->bytes_per_step > than->outlook.bytes_per_step;
    return held_by(device) > held_by(than->device);
}

static vw_status find_facts(const vw_job *job, vw__doctor_job_facts *out)
{
    *out = (vw__doctor_job_facts){.job = job};
    for (size_t i = 0; i < job->device_count; i++) {
        const vw_job_device *device = &job->devices[i];
        vw_job_outlook outlook;
        VW__TRY(vw_job_outlook_find(device, &outlook));
        if (out->device == NULL || is_worse(device, &outlook, out)) {
            out->device = device;
            out->outlook = outlook;
        }
    }
    out->step_ns = vw_job_step_ns(out->device);
    out->input_share = vw_job_input_share(out->device);
    return VW_OK;
}

static vw_status check_state(const vw_job *job)
{
    if (job->state == VW_JOB_OTHER_VERSION)
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "its page is of version %" PRIu64
                        ", made by another vramwise; expected one that this vramwise can read",
                        job->page_version);
    if (job->state == VW_JOB_BUSY)
        return vw__fail(VW_ERR_NOT_READY, "its page keeps changing: the process was stopped while "
                                          "it wrote, or writes all the time; try again");
    return VW_OK;
}

vw_status vw_doctor_job(const vw_job *job, const vw_doctor_options *options, vw_diagnosis **out)
{
    vw__doctor_job_facts facts;
    if (job == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a job and a place for the diagnosis");
    VW__TRY(check_state(job));
    VW__TRY(find_facts(job, &facts));
    return vw__doctor_job(&facts, options, out);
}
