/* machine_join.h - GPUs, the processes on them, and jobs: who is where.
 *
 * Three lists that know nothing of each other, joined without asking anybody: what had to be asked
 * (the vendors' libraries, /proc) is in the lists. So every machine can be made up in a test. */
#ifndef VW_WATCH_MACHINE_JOIN_H
#define VW_WATCH_MACHINE_JOIN_H

#include <stddef.h>

#include "vramwise/watch.h"

/* A process that a vendor's library saw on a GPU. */
typedef struct vw__watch_gpu_process {
    size_t gpu; /* in the list of GPUs */
    long process;
    uint64_t used_bytes; /* VW_LIVE_UNKNOWN */
    char command[VW_JOB_TEXT_BYTES];
} vw__watch_gpu_process;

/* What the environment of a job says of GPUs. */
typedef struct vw__watch_job_environment {
    bool is_known;
    bool is_by_bus;    /* CUDA_DEVICE_ORDER is PCI_BUS_ID: CUDA counts as NVML does */
    bool has_visible;  /* CUDA_VISIBLE_DEVICES is set */
    char visible[512]; /* to this; cut where it is longer */
} vw__watch_job_environment;

typedef struct vw__watch_machine_parts {
    vw_gpu *gpus; /* the split of their memory is filled in */
    size_t gpu_count;
    size_t numbered_count; /* the first so many are NVIDIA's, which a job's numbers may mean */
    const vw__watch_gpu_process *processes;
    size_t process_count;
    const vw_jobs *jobs;
    const vw__watch_job_environment *environments; /* of each job */
} vw__watch_machine_parts;

/* How many rows there are at most. */
size_t vw__watch_machine_most_rows(const vw__watch_machine_parts *parts);

/* Fills `rows` and returns their number. */
size_t vw__watch_machine_join(const vw__watch_machine_parts *parts, vw_machine_row *rows);

/* ---- process_read.c: what /proc says about a process -------------------------------------------
 *
 * The process is somebody's, and may end meanwhile: what cannot be read is unknown, which is not an
 * error. Texts may hold any bytes. */

/* How it was started, "python3 train.py --epochs 3", without the folder of the program and cut to
 * fit; "" where that is not known. */
void vw__watch_process_command(long process, char out[VW_JOB_TEXT_BYTES]);

/* The variables of its environment that say which GPUs it sees. */
void vw__watch_process_environment(long process, vw__watch_job_environment *out);

#endif /* VW_WATCH_MACHINE_JOIN_H */
