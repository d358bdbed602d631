/* machine_join.h - GPUs, the processes on them, and jobs: who is where.
 *
 * Three lists that know nothing of each other, joined without asking anybody: what had to be asked
 * (NVML, /proc) is in the lists. So every machine can be made up in a test. */
#ifndef HR_WATCH_MACHINE_JOIN_H
#define HR_WATCH_MACHINE_JOIN_H

#include <stddef.h>

#include "headroom/watch.h"

/* A process that NVML saw on a GPU. */
typedef struct hr__gpu_process {
    size_t gpu; /* in the list of GPUs */
    long process;
    uint64_t used_bytes; /* HR_LIVE_UNKNOWN */
    char command[HR_JOB_TEXT_BYTES];
} hr__gpu_process;

/* What the environment of a job says of GPUs. */
typedef struct hr__job_environment {
    bool is_known;
    bool is_by_bus;    /* CUDA_DEVICE_ORDER is PCI_BUS_ID: CUDA counts as NVML does */
    bool has_visible;  /* CUDA_VISIBLE_DEVICES is set */
    char visible[512]; /* to this; cut where it is longer */
} hr__job_environment;

typedef struct hr__machine_parts {
    hr_gpu *gpus; /* the split of their memory is filled in */
    size_t gpu_count;
    const hr__gpu_process *processes;
    size_t process_count;
    const hr_jobs *jobs;
    const hr__job_environment *environments; /* of each job */
} hr__machine_parts;

/* How many rows there are at most. */
size_t hr__machine_most_rows(const hr__machine_parts *parts);

/* Fills `rows` and returns their number. */
size_t hr__machine_join(const hr__machine_parts *parts, hr_machine_row *rows);

#endif /* HR_WATCH_MACHINE_JOIN_H */
