/* watch.h - running jobs, seen from outside.
 *
 * Every process with libvramwise has a page in shared memory (live.h). Here pages are found and
 * read: the jobs of this user on this machine, each as it was at one instant. Reading takes nothing
 * from the job; one that dies meanwhile is one job less. Stale pages are removed on the way.
 *
 * Results are owned by the library: read-only, freed with the function named beside them. What is
 * not known is VW_LIVE_UNKNOWN, never a guess.
 *
 * A machine is more than its jobs: the GPUs, by the driver's management library (NVML), and the
 * processes on them that have no page. vw_machine_read() joins the three.
 *
 * Link with -lvramwise-analysis. Reading order: vw_jobs_read(), vw_job, vw_job_device; then
 * vw_doctor_job(), vw_jobs_metrics(); vw_machine_read(), vw_machine_row, vw_job_figures_find(). */
#ifndef VRAMWISE_WATCH_H
#define VRAMWISE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/doctor.h" /* vw_confidence */
#include "vramwise/live.h"
#include "vramwise/output.h"
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VW_JOB_TEXT_BYTES 64 /* of any text, its terminating zero included; may hold any bytes */

/* After a step: what was live and reserved. */
typedef struct vw_job_step {
    uint64_t step;
    uint64_t at_ns; /* monotonic, as vw_jobs.read_ns */
    uint64_t live_bytes;
    uint64_t reserved_bytes;
} vw_job_step;

typedef struct vw_job_device {
    int index; /* by the process's own count: CUDA_VISIBLE_DEVICES changes it */
    char name[VW_JOB_TEXT_BYTES];
    uint64_t updated_ns;                  /* monotonic */
    uint64_t values[VW_LIVE_FIELD_COUNT]; /* VW_LIVE_UNKNOWN; of a newer page, those we know */
    const vw_job_step *steps;             /* oldest first, the whole run at falling detail */
    size_t step_count;
} vw_job_device;

typedef enum vw_job_state {
    VW_JOB_RUNNING,
    VW_JOB_OTHER_VERSION, /* a vramwise whose pages we cannot read: process and user only */
    VW_JOB_BUSY           /* the page did not hold still: stopped in the middle of a change */
} vw_job_state;

typedef struct vw_job {
    vw_job_state state;
    long process; /* in its own namespace */
    unsigned long user;
    uint64_t started_us; /* realtime */
    int rank;            /* -1 = none */
    int local_rank;      /* -1 */
    int world_size;      /* 0 */
    char program[VW_JOB_TEXT_BYTES];
    char allocator[VW_JOB_TEXT_BYTES];
    char job[VW_JOB_TEXT_BYTES];
    char run[VW_JOB_TEXT_BYTES];
    char vramwise_version[VW_JOB_TEXT_BYTES];
    uint64_t page_version;
    const char *path; /* of the page */
    const vw_job_device *devices;
    size_t device_count;
} vw_job;

typedef struct vw_jobs {
    uint64_t read_ns;   /* monotonic */
    const vw_job *jobs; /* by process number */
    size_t job_count;
    size_t stale_count;   /* pages of ended processes, removed or left to their owner */
    size_t refused_count; /* files with the name of a page that are none, or not ours to read */
    const char *folder;   /* that was read */
} vw_jobs;

/* Reads every page of this user in `folder`; NULL is VRAMWISE_LIVE_DIR, or /dev/shm. No pages is no
 * error. VW_ERR_FILE: there is no such folder. VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_jobs_read(const char *folder, vw_jobs **out);
VW_API void vw_jobs_free(vw_jobs *jobs); /* NULL does nothing */

/* The job of that process; NULL: none. */
VW_API const vw_job *vw_jobs_find(const vw_jobs *jobs, long process);

/* Where a device's memory is heading, by its steps: the doctor's own rule of growth. */
typedef struct vw_job_outlook {
    bool is_leak; /* live bytes grow, and have for as long as the log goes back */
    vw_confidence confidence;
    double bytes_per_step; /* 0 where it is none */
    uint64_t last_step;    /* 0 = no steps are known */
    uint64_t room_bytes;   /* what live bytes can still grow by; VW_LIVE_UNKNOWN */
    uint64_t full_at_step; /* the step that will not fit; VW_LIVE_UNKNOWN */
} vw_job_outlook;

/* VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_job_outlook_find(const vw_job_device *device,
                                                   vw_job_outlook *out);

/* The same rule, stricter: for who warns unasked, as `vramwise run` does. `is_leak` only where
 * growth is certain, has gone on at one pace for half of the log, and has used up a tenth of the
 * room. Then vw_job_outlook_find() sees a leak, too. */
VW_API VW_MUST_CHECK vw_status vw_job_outlook_find_firm(const vw_job_device *device,
                                                        vw_job_outlook *out);

/* Is it a process of the `vramwise run` with that folder? A page keeps the end of its name. */
VW_API bool vw_job_is_of_run(const vw_job *job, const char *run);

/* What `vramwise exporter` serves: the numbers of all jobs, or of those of one run (NULL: all), in
 * the text format of Prometheus, version 0.0.4. The families are the fields of live.h; counters end
 * in _total, and times are seconds. What is not known is left out. Texts may hold anything, and are
 * escaped. In one piece.
 *
 * VW_ERR_FILE: `write` ended it. VW_ERR_HOST_MEMORY. */
#define VW_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
VW_API VW_MUST_CHECK vw_status vw_jobs_metrics(const vw_jobs *jobs, const char *run,
                                               const vw_output *output);

/* Nanoseconds that a step takes, by the later half of the log; VW_LIVE_UNKNOWN. */
VW_API uint64_t vw_job_step_ns(const vw_job_device *device);

#define VW_JOB_INPUT_BOUND_SHARE 0.2 /* of the time of its steps: a job that waits for input */

/* Of the time of its steps, what was spent waiting for input, 0 to 1; below 0: not known. */
VW_API double vw_job_input_share(const vw_job_device *device);

/* The doctor's verdict on a job that runs: from its page, without a word to the job. Of several
 * devices the one that leaks fastest is judged, or else the one that holds most. The numbers are of
 * now; `card_bytes` of the options takes the place of the card and of its limit. `options` may be
 * NULL. Free with vw_diagnosis_free().
 *
 * VW_ERR_UNSUPPORTED   the page is of a vramwise whose pages this one cannot read
 * VW_ERR_NOT_READY     the page did not hold still
 * VW_ERR_INVALID_ARGUMENT, VW_ERR_BAD_SETTING, VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_doctor_job(const vw_job *job, const vw_doctor_options *options,
                                             vw_diagnosis **out);

/* ---- the machine ----------------------------------------------------------------------------- */

/* A GPU, as NVML tells it. */
typedef struct vw_gpu {
    int index; /* that of nvidia-smi */
    char name[VW_JOB_TEXT_BYTES];
    char uuid[VW_JOB_TEXT_BYTES];
    char pci_bus_id[VW_JOB_TEXT_BYTES];
    uint64_t utilisation_percent; /* VW_LIVE_UNKNOWN, as all that follow */
    uint64_t total_bytes;
    uint64_t used_bytes;
    uint64_t free_bytes;
    uint64_t job_live_bytes; /* of used: what jobs with a page use ... */
    uint64_t job_idle_bytes; /* ... what their allocators hold besides ... */
    uint64_t other_bytes;    /* ... and the rest: other processes, contexts, libraries */
} vw_gpu;

/* Where a row's memory is. */
typedef enum vw_row_place {
    VW_ROW_ON_GPU,
    VW_ROW_ON_UNKNOWN_GPU, /* of a job: on one of several, and nothing tells which */
    VW_ROW_ON_NO_GPU       /* the simulated device, the host device, or none yet */
} vw_row_place;

/* A device of a job; or a process on a GPU that has no page; or a job that tells no device. */
typedef struct vw_machine_row {
    long process;
    vw_row_place place;
    const vw_gpu *gpu;               /* NULL unless VW_ROW_ON_GPU */
    const vw_job *job;               /* NULL: no page */
    const vw_job_device *device;     /* NULL: no page, or nothing in it */
    char command[VW_JOB_TEXT_BYTES]; /* by its page, or by /proc; "" = not known; any bytes */
    uint64_t process_bytes;          /* of the GPU's memory, by NVML; VW_LIVE_UNKNOWN */
} vw_machine_row;

typedef struct vw_machine {
    uint64_t read_ns; /* monotonic */
    const vw_jobs *jobs;
    const vw_gpu *gpus;
    size_t gpu_count;
    const char *gpu_trouble;    /* why none is known; NULL: NVML answered */
    const vw_machine_row *rows; /* by GPU, then those without; of one place by process */
    size_t row_count;
} vw_machine;

/* Reads the jobs of `folder` (as vw_jobs_read()), the GPUs and their processes. A machine without
 * NVML has no GPUs. Which of them a job's device is: by the driver's list of processes and the
 * job's CUDA_VISIBLE_DEVICES, and by name. VW_ERR_FILE, VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_machine_read(const char *folder, vw_machine **out);
VW_API void vw_machine_free(vw_machine *machine); /* NULL does nothing */

/* What a row comes to; shares and rates that are not finite are not known. */
typedef struct vw_job_figures {
    double allocations_per_second;
    double retries_per_second;
    double driver_share; /* of the time, spent taking memory from the driver or giving it */
    double steps_per_second;
    double step_seconds;
    double input_wait_share; /* of a step */
    bool is_input_bound;     /* more than a fifth of it */
    uint64_t idle_bytes;     /* reserved, and not live */
    double idle_share;       /* of reserved */
    uint64_t
        unseen_bytes;   /* of the process's GPU memory, not its allocator's: context, libraries */
    uint64_t silent_ns; /* since its page changed; VW_LIVE_UNKNOWN */
    bool is_silent;     /* for longer than 5 s */
    vw_job_outlook outlook; /* all zero and VW_LIVE_UNKNOWN without a device */
} vw_job_figures;

/* `row` is one of `now`. Rates are those between the two readings, of the same process and device;
 * `before` may be NULL. Where no step ended in between, the time of a step is the run's average.
 * VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_job_figures_find(const vw_machine *before, const vw_machine *now,
                                                   const vw_machine_row *row, vw_job_figures *out);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_WATCH_H */
