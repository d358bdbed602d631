/* watch.h - reads the pages of running jobs.
 *
 * Every process with libvramwise has a page in shared memory (live.h). These functions find and
 * read the pages: the jobs of this user on this machine, or of all users, each as it was at one
 * instant. Reading costs the job nothing. Jobs that end meanwhile are left out, and stale pages are
 * removed.
 *
 * Results are owned by the library: read-only, freed with the function named beside them. Unknown
 * values are VW_LIVE_UNKNOWN, never a guess.
 *
 * vw_machine_read() joins the jobs with the GPUs, from the vendors' management libraries (NVML,
 * AMD SMI), and with the processes on them that have no page.
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

/* What was live and reserved after a step. */
typedef struct vw_job_step {
    uint64_t step;
    uint64_t at_ns; /* monotonic, as vw_jobs.read_ns */
    uint64_t live_bytes;
    uint64_t reserved_bytes;
} vw_job_step;

typedef struct vw_job_device {
    int index; /* as the process counts: CUDA_VISIBLE_DEVICES changes it */
    char name[VW_JOB_TEXT_BYTES];
    uint64_t updated_ns;                  /* monotonic */
    uint64_t values[VW_LIVE_FIELD_COUNT]; /* or VW_LIVE_UNKNOWN; further ones of a newer page are
                                             left out */
    const vw_job_step *steps;             /* oldest first; of a long run only every n-th */
    size_t step_count;
} vw_job_device;

/* The container that a process runs in, from the path of its cgroup. "" = unknown, or in none. */
typedef struct vw_job_container {
    char id[65];                     /* 64 hexadecimal digits */
    char pod_uid[VW_JOB_TEXT_BYTES]; /* of Kubernetes, as kube_pod_info has it */
    char pod[254];                   /* its name; may hold any bytes, as may the next */
    char pod_namespace[VW_JOB_TEXT_BYTES];
} vw_job_container;

typedef enum vw_job_state {
    VW_JOB_RUNNING,
    VW_JOB_OTHER_VERSION, /* made by a vramwise with another format: process and user only */
    VW_JOB_BUSY           /* the page kept changing, or the process was stopped during a change */
} vw_job_state;

typedef struct vw_job {
    vw_job_state state;
    long process;        /* in its own namespace */
    unsigned long user;  /* the owner of the page */
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
    const vw_job_container *container; /* NULL: unknown; vw_jobs_read() does not look */
} vw_job;

typedef struct vw_jobs {
    uint64_t read_ns;   /* monotonic */
    const vw_job *jobs; /* by user, then by process number */
    size_t job_count;
    size_t stale_count;   /* pages of ended processes, removed or left to their owner */
    size_t refused_count; /* files named like a page that are invalid or unreadable */
    const char *folder;   /* the one that was read; the last, of two */
    bool is_shared;       /* by vw_jobs_read_shared() */
} vw_jobs;

/* Reads every page of this user in `folder`; NULL is VRAMWISE_LIVE_DIR, or /run/vramwise and
 * /dev/shm. There may be no pages. VW_ERR_FILE: there is no such folder. VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_jobs_read(const char *folder, vw_jobs **out);

/* How the pages of all users are read. */
typedef struct vw_jobs_shared {
    size_t struct_size;     /* caller sets to sizeof(vw_jobs_shared) */
    const char *pod_folder; /* where the kubelet keeps logs, by which pods have names; NULL:
                               /var/log/pods */
    const vw_jobs *before;  /* an earlier reading: containers known there are not looked for again.
                               NULL: none */
} vw_jobs_shared;

/* Reads the pages of all users in `folder`, as far as this process may open them; NULL is
 * VRAMWISE_LIVE_DIR, or /run/vramwise. What pages say, the process number and the run included, is
 * the claim of their owners: only `user` and `container` come from the kernel. Of one user, or of
 * the users of one range in /etc/subuid, at most 1024 pages and devices are read, and 8192 of all;
 * the others count as refused. `options` may be NULL. Errors as vw_jobs_read(). */
VW_API VW_MUST_CHECK vw_status vw_jobs_read_shared(const char *folder,
                                                   const vw_jobs_shared *options, vw_jobs **out);
VW_API void vw_jobs_free(vw_jobs *jobs); /* NULL does nothing */

/* The job of that process, or NULL. */
VW_API const vw_job *vw_jobs_find(const vw_jobs *jobs, long process);

/* ---- asking a job to park or wake ------------------------------------------------------------ */

typedef enum vw_job_request {
    VW_JOB_PARK, /* vw_pool_park() on all its pools; its requests for memory wait meanwhile */
    VW_JOB_WAKE, /* vw_pool_wake() */
} vw_job_request;

typedef struct vw_job_answer {
    size_t struct_size; /* caller sets to sizeof(vw_job_answer) */
    vw_status status;   /* of the job's own call */
    uint64_t moved_bytes;
    uint64_t wait_ns;
    char text[1024]; /* why, where `status` is a failure; may hold any bytes */
} vw_job_answer;

/* Asks the job, and waits for its answer. `region`: a region's name; NULL is everything. The job
 * does it in a thread of its own, within a fifth of a second, in a safe moment; the call can take
 * seconds. If the call or its process ends before the job has begun, the job does not begin later.
 *
 * VW_ERR_NOT_READY     no answer in time; the text says whether the job is at it
 * VW_ERR_WRONG_STATE   another request was under way all the time, or the job has ended
 * VW_ERR_FILE, VW_ERR_INVALID_ARGUMENT */
VW_API VW_MUST_CHECK vw_status vw_job_ask(const vw_job *job, vw_job_request request,
                                          const char *region, double timeout_seconds,
                                          vw_job_answer *out);

/* The trend of a device's memory over its steps, by the doctor's rule of growth. */
typedef struct vw_job_outlook {
    bool is_leak; /* live bytes have grown for as long as the log goes back */
    vw_confidence confidence;
    double bytes_per_step; /* 0 without a leak */
    uint64_t last_step;    /* 0 = no steps are known */
    uint64_t room_bytes;   /* by which live bytes can still grow; VW_LIVE_UNKNOWN */
    uint64_t full_at_step; /* first step that will not fit; VW_LIVE_UNKNOWN */
} vw_job_outlook;

/* VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_job_outlook_find(const vw_job_device *device,
                                                   vw_job_outlook *out);

/* The same with a stricter rule, for unasked warnings such as those of `vramwise run`: `is_leak`
 * only if growth is certain, has gone on at one pace for half of the log, and has used up a tenth
 * of the room. vw_job_outlook_find() then reports a leak as well. */
VW_API VW_MUST_CHECK vw_status vw_job_outlook_find_firm(const vw_job_device *device,
                                                        vw_job_outlook *out);

/* Brings the last step, the room and the end of an outlook up to date; its trend stays. */
VW_API void vw_job_outlook_renew(const vw_job_device *device, vw_job_outlook *outlook);

/* Returns whether the process belongs to the `vramwise run` with that folder. A page keeps the end
 * of the folder's name. */
VW_API bool vw_job_is_of_run(const vw_job *job, const char *run);

/* Writes what `vramwise exporter` serves: the numbers of all jobs, or of those of one run (NULL:
 * all), in the text format of Prometheus, version 0.0.4. The families are the fields of live.h;
 * counters end in _total, and times are seconds. Unknown values are left out, and texts are
 * escaped. Those of vw_jobs_read_shared() have the labels uid, container_id, pod_uid, pod and
 * namespace as well. Calls `write` once.
 *
 * VW_ERR_FILE: `write` stopped it. VW_ERR_HOST_MEMORY. */
#define VW_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
VW_API VW_MUST_CHECK vw_status vw_jobs_metrics(const vw_jobs *jobs, const char *run,
                                               const vw_output *output);

/* Nanoseconds per step, over the later half of the log; VW_LIVE_UNKNOWN. */
VW_API uint64_t vw_job_step_ns(const vw_job_device *device);

#define VW_JOB_INPUT_BOUND_SHARE 0.2 /* a job that waits longer for input is input-bound */

/* Share of the steps' time that was spent waiting for input, 0 to 1; below 0: unknown. */
VW_API double vw_job_input_share(const vw_job_device *device);

/* The doctor's verdict on a running job, from its page alone. With several devices it judges the
 * one that leaks fastest, or else the one that holds most. The numbers are current; `card_bytes` of
 * the options replaces the card's size and its limit. `options` may be NULL. Free with
 * vw_diagnosis_free().
 *
 * VW_ERR_UNSUPPORTED   the page was made by a vramwise with another format
 * VW_ERR_NOT_READY     the page kept changing while it was read
 * VW_ERR_INVALID_ARGUMENT, VW_ERR_BAD_SETTING, VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_doctor_job(const vw_job *job, const vw_doctor_options *options,
                                             vw_diagnosis **out);

/* ---- the machine ----------------------------------------------------------------------------- */

/* A GPU, from NVML or AMD SMI (AMD's are untested on hardware). */
typedef struct vw_gpu {
    int index; /* that of nvidia-smi; AMD's are counted on from there, as amd-smi has them */
    char name[VW_JOB_TEXT_BYTES];
    char uuid[VW_JOB_TEXT_BYTES];
    char pci_bus_id[VW_JOB_TEXT_BYTES];
    uint64_t utilisation_percent; /* this and the next fields may be VW_LIVE_UNKNOWN */
    uint64_t total_bytes;
    uint64_t used_bytes;
    uint64_t free_bytes;
    uint64_t job_live_bytes; /* used_bytes = live bytes of jobs with a page ... */
    uint64_t job_idle_bytes; /* ... + idle bytes of their allocators ... */
    uint64_t other_bytes;    /* ... + the rest: other processes, contexts, libraries */
} vw_gpu;

/* Where a row's memory is. */
typedef enum vw_row_place {
    VW_ROW_ON_GPU,
    VW_ROW_ON_UNKNOWN_GPU, /* a job on one of several GPUs; which one is unknown */
    VW_ROW_ON_NO_GPU       /* the simulated device, the host device, or none yet */
} vw_row_place;

/* A device of a job; or a process on a GPU without a page; or a job without a device. */
typedef struct vw_machine_row {
    long process;
    vw_row_place place;
    const vw_gpu *gpu;               /* NULL unless VW_ROW_ON_GPU */
    const vw_job *job;               /* NULL: no page */
    const vw_job_device *device;     /* NULL: no page, or no device in it */
    char command[VW_JOB_TEXT_BYTES]; /* from its page or from /proc; "" = unknown; any bytes */
    uint64_t process_bytes;          /* of the GPU's memory, from its library; VW_LIVE_UNKNOWN */
} vw_machine_row;

typedef struct vw_machine {
    uint64_t read_ns; /* monotonic */
    const vw_jobs *jobs;
    const vw_gpu *gpus;
    size_t gpu_count;
    const char *gpu_trouble;    /* why no GPU is known; NULL: one is, or there is none */
    const vw_machine_row *rows; /* by GPU, those without one last; then by process */
    size_t row_count;
} vw_machine;

/* Reads the jobs of `folder` (as vw_jobs_read()), the GPUs and their processes. Without NVML and
 * AMD SMI there are no GPUs. The GPU of a job's device is found by the driver's list of processes,
 * the job's CUDA_VISIBLE_DEVICES and the device's name. VW_ERR_FILE, VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_machine_read(const char *folder, vw_machine **out);
VW_API void vw_machine_free(vw_machine *machine); /* NULL does nothing */

/* Figures of a row. Shares and rates that are not finite are unknown. */
typedef struct vw_job_figures {
    double allocations_per_second;
    double retries_per_second;
    double driver_share; /* of the time, spent in driver calls that take or give back memory */
    double steps_per_second;
    double step_seconds;
    double input_wait_share; /* of a step */
    bool is_input_bound;     /* input_wait_share above VW_JOB_INPUT_BOUND_SHARE */
    uint64_t idle_bytes;     /* reserved, not live */
    double idle_share;       /* of reserved */
    uint64_t unseen_bytes;  /* the process's GPU memory outside its allocator: context, libraries */
    uint64_t silent_ns;     /* since its page changed; VW_LIVE_UNKNOWN */
    bool is_silent;         /* for longer than 5 s */
    vw_job_outlook outlook; /* all zero and VW_LIVE_UNKNOWN without a device */
} vw_job_figures;

/* `row` is one of `now`. Rates are those of the same process and device between the two readings;
 * `before` may be NULL. If no step ended in between, the time of a step is the average of the run.
 * VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_job_figures_find(const vw_machine *before, const vw_machine *now,
                                                   const vw_machine_row *row, vw_job_figures *out);

/* The same with the outlook of an earlier reading, renewed: finding a trend takes most of the time.
 * NULL: it is found. */
VW_API VW_MUST_CHECK vw_status vw_job_figures_find_with(const vw_machine *before,
                                                        const vw_machine *now,
                                                        const vw_machine_row *row,
                                                        const vw_job_outlook *outlook,
                                                        vw_job_figures *out);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_WATCH_H */
