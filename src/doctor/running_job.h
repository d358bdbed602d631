/* running_job.h - the doctor for jobs that run: from the facts of a page to a diagnosis. */
#ifndef VW_DOCTOR_RUNNING_JOB_H
#define VW_DOCTOR_RUNNING_JOB_H

#include <stdint.h>

#include "vramwise/doctor.h"
#include "vramwise/status.h"
#include "vramwise/watch.h"

/* Parts of what a job can have: tight if less than a tenth of it is left to take, crowded if others
 * hold a fifth of the card. */
enum { VW__DOCTOR_TIGHT_SHARE = 10, VW__DOCTOR_MUCH_OUTSIDE = 5 };

/* What was read of a job, as watch/job_facts.c fills it. */
typedef struct vw__doctor_job_facts {
    const vw_job *job;
    const vw_job_device *device; /* the device to judge; NULL: the job has reported none yet */
    vw_job_outlook outlook;      /* of that device */
    uint64_t step_ns;            /* that a step takes there; VW_UNKNOWN */
    double input_share;          /* of its steps, spent waiting for input; below 0: unknown */
} vw__doctor_job_facts;

/* `options` may be NULL. VW_ERR_INVALID_ARGUMENT, VW_ERR_BAD_SETTING, VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__doctor_job(const vw__doctor_job_facts *facts,
                                       const vw_doctor_options *options, vw_diagnosis **out);

#endif /* VW_DOCTOR_RUNNING_JOB_H */
