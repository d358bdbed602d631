/* made_up_machine.h - jobs, GPUs and machines as a test wants them. */
#ifndef VW_TESTS_MADE_UP_MACHINE_H
#define VW_TESTS_MADE_UP_MACHINE_H

#include <stdio.h>

#include "vramwise/watch.h"

#define MADE_UP_SECOND_NS UINT64_C(1000000000)

/* A device of which nothing is known yet. */
static inline vw_job_device made_up_device(int index, const char *name)
{
    vw_job_device device = {.index = index, .updated_ns = MADE_UP_SECOND_NS};
    snprintf(device.name, sizeof device.name, "%s", name);
    for (size_t i = 0; i < VW_LIVE_FIELD_COUNT; i++)
        device.values[i] = VW_LIVE_UNKNOWN;
    return device;
}

static inline vw_job made_up_job(long process, const char *program, const vw_job_device *devices,
                                 size_t device_count)
{
    vw_job job = {
        .state = VW_JOB_RUNNING,
        .process = process,
        .started_us = 1,
        .rank = -1,
        .local_rank = -1,
        .devices = devices,
        .device_count = device_count,
    };
    snprintf(job.program, sizeof job.program, "%s", program);
    return job;
}

static inline vw_gpu made_up_gpu(int index, const char *name)
{
    vw_gpu gpu = {.index = index,
                  .utilisation_percent = VW_LIVE_UNKNOWN,
                  .total_bytes = 1000,
                  .used_bytes = 600,
                  .free_bytes = 400};
    snprintf(gpu.name, sizeof gpu.name, "%s", name);
    snprintf(gpu.uuid, sizeof gpu.uuid, "GPU-%d%d", index, index);
    return gpu;
}

/* One job with one device on no GPU, at one instant. */
typedef struct made_up_machine {
    vw_machine machine;
    vw_machine_row row;
    vw_jobs jobs;
    vw_job job;
    vw_job_device device;
} made_up_machine;

static inline void made_up_machine_make(made_up_machine *made, uint64_t read_ns)
{
    made->device = made_up_device(0, "simulated");
    made->device.updated_ns = read_ns;
    made->job = made_up_job(17, "train.py", &made->device, 1);
    made->jobs = (vw_jobs){.read_ns = read_ns, .jobs = &made->job, .job_count = 1};
    made->row = (vw_machine_row){
        .process = 17,
        .place = VW_ROW_ON_NO_GPU,
        .job = &made->job,
        .device = &made->device,
        .command = "train.py",
        .process_bytes = VW_LIVE_UNKNOWN,
    };
    made->machine =
        (vw_machine){.read_ns = read_ns, .jobs = &made->jobs, .rows = &made->row, .row_count = 1};
}

#endif /* VW_TESTS_MADE_UP_MACHINE_H */
