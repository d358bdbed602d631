/* made_job.h - hand-made jobs, as jobs_read.c makes them. */
#ifndef VW_TESTS_MADE_JOB_H
#define VW_TESTS_MADE_JOB_H

#include <string.h>

#include "vramwise/watch.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { MADE_DEVICES = 2, MADE_STEPS = 512 }; /* as many as a page has room for */

typedef struct made_job {
    vw_job job;
    vw_job_device devices[MADE_DEVICES];
    vw_job_step steps[MADE_DEVICES][MADE_STEPS];
} made_job;

/* A job with one device of 24 GiB; everything else is unknown. */
static inline void make_job(made_job *made)
{
    memset(made, 0, sizeof *made);
    for (int i = 0; i < MADE_DEVICES; i++) {
        made->devices[i].index = i;
        made->devices[i].steps = made->steps[i];
        for (size_t field = 0; field < VW_LIVE_FIELD_COUNT; field++)
            made->devices[i].values[field] = VW_LIVE_UNKNOWN;
    }
    made->devices[0].values[VW_LIVE_DEVICE_TOTAL_BYTES] = 24 * GIB;
    made->job = (vw_job){.process = 4711,
                         .program = "train.py",
                         .rank = -1,
                         .local_rank = -1,
                         .path = "/dev/shm/vramwise-live-page",
                         .devices = made->devices,
                         .device_count = 1};
}

/* What is live, reserved, and free on the card. */
static inline void put_numbers(made_job *made, int device, uint64_t live, uint64_t reserved,
                               uint64_t free_bytes)
{
    made->devices[device].values[VW_LIVE_LIVE_BYTES] = live;
    made->devices[device].values[VW_LIVE_RESERVED_BYTES] = reserved;
    made->devices[device].values[VW_LIVE_DEVICE_FREE_BYTES] = free_bytes;
}

/* One step more, a second after the one before. */
static inline void add_step(made_job *made, int device, uint64_t live_bytes)
{
    vw_job_device *to = &made->devices[device];
    uint64_t step = to->step_count + 1;
    made->steps[device][to->step_count++] =
        (vw_job_step){.step = step, .at_ns = step * 1000000000, .live_bytes = live_bytes};
    to->values[VW_LIVE_LIVE_BYTES] = live_bytes;
}

#endif /* VW_TESTS_MADE_JOB_H */
