/* watch.h - running jobs, seen from outside.
 *
 * Every process with libheadroom has a page in shared memory (live.h). Here pages are found and
 * read: the jobs of this user on this machine, each as it was at one instant. Reading takes nothing
 * from the job; one that dies meanwhile is one job less. Stale pages are removed on the way.
 *
 * Results are owned by the library: read-only, freed with the function named beside them. What is
 * not known is HR_LIVE_UNKNOWN, never a guess.
 *
 * A machine is more than its jobs: the GPUs, by the driver's management library (NVML), and the
 * processes on them that have no page. hr_machine_read() joins the three.
 *
 * Link with -lheadroom-analysis. Reading order: hr_jobs_read(), hr_job, hr_job_device; then
 * hr_doctor_job(), hr_jobs_metrics(); hr_machine_read(), hr_machine_row, hr_job_figures_find(). */
#ifndef HEADROOM_WATCH_H
#define HEADROOM_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/doctor.h" /* hr_confidence */
#include "headroom/live.h"
#include "headroom/output.h"
#include "headroom/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HR_JOB_TEXT_BYTES 64 /* of any text, its terminating zero included; may hold any bytes */

/* After a step: what was live and reserved. */
typedef struct hr_job_step {
    uint64_t step;
    uint64_t at_ns; /* monotonic, as hr_jobs.read_ns */
    uint64_t live_bytes;
    uint64_t reserved_bytes;
} hr_job_step;

typedef struct hr_job_device {
    int index; /* by the process's own count: CUDA_VISIBLE_DEVICES changes it */
    char name[HR_JOB_TEXT_BYTES];
    uint64_t updated_ns;                  /* monotonic */
    uint64_t values[HR_LIVE_FIELD_COUNT]; /* HR_LIVE_UNKNOWN; of a newer page, those we know */
    const hr_job_step *steps;             /* oldest first, the whole run at falling detail */
    size_t step_count;
} hr_job_device;

typedef enum hr_job_state {
    HR_JOB_RUNNING,
    HR_JOB_OTHER_VERSION, /* a headroom whose pages we cannot read: process and user only */
    HR_JOB_BUSY           /* the page did not hold still: stopped in the middle of a change */
} hr_job_state;

typedef struct hr_job {
    hr_job_state state;
    long process; /* in its own namespace */
    unsigned long user;
    uint64_t started_us; /* realtime */
    int rank;            /* -1 = none */
    int local_rank;      /* -1 */
    int world_size;      /* 0 */
    char program[HR_JOB_TEXT_BYTES];
    char allocator[HR_JOB_TEXT_BYTES];
    char job[HR_JOB_TEXT_BYTES];
    char run[HR_JOB_TEXT_BYTES];
    char headroom_version[HR_JOB_TEXT_BYTES];
    uint64_t page_version;
    const char *path; /* of the page */
    const hr_job_device *devices;
    size_t device_count;
} hr_job;

typedef struct hr_jobs {
    uint64_t read_ns;   /* monotonic */
    const hr_job *jobs; /* by process number */
    size_t job_count;
    size_t stale_count;   /* pages of ended processes, removed or left to their owner */
    size_t refused_count; /* files with the name of a page that are none, or not ours to read */
    const char *folder;   /* that was read */
} hr_jobs;

/* Reads every page of this user in `folder`; NULL is HEADROOM_LIVE_DIR, or /dev/shm. No pages is no
 * error. HR_ERR_FILE: there is no such folder. HR_ERR_HOST_MEMORY. */
HR_API HR_MUST_CHECK hr_status hr_jobs_read(const char *folder, hr_jobs **out);
HR_API void hr_jobs_free(hr_jobs *jobs); /* NULL does nothing */

/* The job of that process; NULL: none. */
HR_API const hr_job *hr_jobs_find(const hr_jobs *jobs, long process);

/* Where a device's memory is heading, by its steps: the doctor's own rule for a log of steps. */
typedef struct hr_job_outlook {
    bool is_leak; /* live bytes grow, and have for as long as the log goes back */
    hr_confidence confidence;
    double bytes_per_step; /* 0 where it is none */
    uint64_t last_step;    /* 0 = no steps are known */
    uint64_t room_bytes;   /* what live bytes can still grow by; HR_LIVE_UNKNOWN */
    uint64_t full_at_step; /* the step that will not fit; HR_LIVE_UNKNOWN */
} hr_job_outlook;

/* HR_ERR_HOST_MEMORY. */
HR_API HR_MUST_CHECK hr_status hr_job_outlook_find(const hr_job_device *device,
                                                   hr_job_outlook *out);

/* Is it a process of the `headroom run` with that folder? A page keeps the end of its name. */
HR_API bool hr_job_is_of_run(const hr_job *job, const char *run);

/* What `headroom exporter` serves: the numbers of all jobs, or of those of one run (NULL: all), in
 * the text format of Prometheus, version 0.0.4. The families are the fields of live.h; counters end
 * in _total, and times are seconds. What is not known is left out. Texts may hold anything, and are
 * escaped. In one piece.
 *
 * HR_ERR_FILE: `write` ended it. HR_ERR_HOST_MEMORY. */
#define HR_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
HR_API HR_MUST_CHECK hr_status hr_jobs_metrics(const hr_jobs *jobs, const char *run,
                                               const hr_output *output);

/* Nanoseconds that a step takes, by the later half of the log; HR_LIVE_UNKNOWN. */
HR_API uint64_t hr_job_step_ns(const hr_job_device *device);

#define HR_JOB_INPUT_BOUND_SHARE 0.2 /* of the time of its steps: a job that waits for input */

/* Of the time of its steps, what was spent waiting for input, 0 to 1; below 0: not known. */
HR_API double hr_job_input_share(const hr_job_device *device);

/* The doctor's verdict on a job that runs: from its page, without a word to the job. Of several
 * devices the one that leaks fastest is judged, or else the one that holds most. The numbers are of
 * now; `card_bytes` of the options takes the place of the card and of its limit. `options` may be
 * NULL. Free with hr_diagnosis_free().
 *
 * HR_ERR_UNSUPPORTED   the page is of a headroom whose pages this one cannot read
 * HR_ERR_NOT_READY     the page did not hold still
 * HR_ERR_INVALID_ARGUMENT, HR_ERR_BAD_SETTING, HR_ERR_HOST_MEMORY */
HR_API HR_MUST_CHECK hr_status hr_doctor_job(const hr_job *job, const hr_doctor_options *options,
                                             hr_diagnosis **out);

/* ---- the machine ----------------------------------------------------------------------------- */

/* A GPU, as NVML tells it. */
typedef struct hr_gpu {
    int index; /* that of nvidia-smi */
    char name[HR_JOB_TEXT_BYTES];
    char uuid[HR_JOB_TEXT_BYTES];
    char pci_bus_id[HR_JOB_TEXT_BYTES];
    uint64_t utilisation_percent; /* HR_LIVE_UNKNOWN, as all that follow */
    uint64_t total_bytes;
    uint64_t used_bytes;
    uint64_t free_bytes;
    uint64_t job_live_bytes; /* of used: what jobs with a page use ... */
    uint64_t job_idle_bytes; /* ... what their allocators hold besides ... */
    uint64_t other_bytes;    /* ... and the rest: other processes, contexts, libraries */
} hr_gpu;

/* Where a row's memory is. */
typedef enum hr_row_place {
    HR_ROW_ON_GPU,
    HR_ROW_ON_UNKNOWN_GPU, /* of a job: on one of several, and nothing tells which */
    HR_ROW_ON_NO_GPU       /* the simulated device, the host device, or none yet */
} hr_row_place;

/* A device of a job; or a process on a GPU that has no page; or a job that tells no device. */
typedef struct hr_machine_row {
    long process;
    hr_row_place place;
    const hr_gpu *gpu;               /* NULL unless HR_ROW_ON_GPU */
    const hr_job *job;               /* NULL: no page */
    const hr_job_device *device;     /* NULL: no page, or nothing in it */
    char command[HR_JOB_TEXT_BYTES]; /* by its page, or by /proc; "" = not known; any bytes */
    uint64_t process_bytes;          /* of the GPU's memory, by NVML; HR_LIVE_UNKNOWN */
} hr_machine_row;

typedef struct hr_machine {
    uint64_t read_ns; /* monotonic */
    const hr_jobs *jobs;
    const hr_gpu *gpus;
    size_t gpu_count;
    const char *gpu_trouble;    /* why none is known; NULL: NVML answered */
    const hr_machine_row *rows; /* by GPU, then those without; of one place by process */
    size_t row_count;
} hr_machine;

/* Reads the jobs of `folder` (as hr_jobs_read()), the GPUs and their processes. A machine without
 * NVML has no GPUs. Which of them a job's device is: by the driver's list of processes and the
 * job's CUDA_VISIBLE_DEVICES, and by name. HR_ERR_FILE, HR_ERR_HOST_MEMORY. */
HR_API HR_MUST_CHECK hr_status hr_machine_read(const char *folder, hr_machine **out);
HR_API void hr_machine_free(hr_machine *machine); /* NULL does nothing */

/* What a row comes to; shares and rates that are not finite are not known. */
typedef struct hr_job_figures {
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
    uint64_t silent_ns; /* since its page changed; HR_LIVE_UNKNOWN */
    bool is_silent;     /* for longer than 5 s */
    hr_job_outlook outlook; /* all zero and HR_LIVE_UNKNOWN without a device */
} hr_job_figures;

/* `row` is one of `now`. Rates are those between the two readings, of the same process and device;
 * `before` may be NULL. Where no step ended in between, the time of a step is the run's average.
 * HR_ERR_HOST_MEMORY. */
HR_API HR_MUST_CHECK hr_status hr_job_figures_find(const hr_machine *before, const hr_machine *now,
                                                   const hr_machine_row *row, hr_job_figures *out);

#ifdef __cplusplus
}
#endif
#endif /* HEADROOM_WATCH_H */
