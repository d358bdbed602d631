/* fleet.h - the recordings and logs of many jobs, in one report; and the setting for all of them.
 *
 * A cluster leaves a folder of jobs, each with the files of its ranks. Each file is examined once,
 * by one of several threads, and becomes a record of some kilobytes; the report is made of the
 * records. They can be kept in a folder, the *state*: then a later call reads only files that are
 * new or have changed, and a crash loses only the files in hand. And they can be made on several
 * machines, each of which takes a *share* of the files: vw_fleet_merge() then makes the report that
 * one machine would have made, byte for byte.
 *
 * Results are owned by the library: read-only, freed with vw_fleet_report_free() and
 * vw_fleet_tuning_free(). Unknown values are VW_UNKNOWN, INT64_MIN for a day.
 *
 * Link with -lvramwise-analysis. Reading order: vw_fleet_examine(), vw_fleet_report; then report.h
 * to show it. vw_fleet_tune() works in the same way. ranks.h has what a job consists of. */
#ifndef VRAMWISE_FLEET_H
#define VRAMWISE_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "vramwise/doctor.h"
#include "vramwise/ranks.h"
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VW_FLEET_DEFAULT_MEMORY_BYTES (UINT64_C(384) << 20)
#define VW_FLEET_MOST_SHARES 100000

typedef struct vw_fleet_options {
    size_t struct_size;        /* sizeof(vw_fleet_options) */
    const char *torch_version; /* as in vw_replay_options */
    const char *state_folder;  /* made where it is not there; NULL: nothing is kept */
    unsigned share, shares;    /* 3 of 16; shares 0 or 1: all files. A share needs a state */
    unsigned thread_count;     /* 0: one for each core that the process may use */
    /* What reading recordings may take, all threads together; 0: vw_reading_limit_set()'s limit, or
     * VW_FLEET_DEFAULT_MEMORY_BYTES. A file that needs more by itself is reported as unreadable. */
    uint64_t memory_bytes;
    vw_progress progress; /* or NULL */
    void *progress_context;
} vw_fleet_options;

typedef struct vw_fleet_job {
    const char *name;
    const vw_ranks_report *ranks; /* what vw_ranks_examine() would have found */
    int64_t day;                  /* of its last event, since 1970, by UTC */
    size_t rank_count;            /* with files of unknown rank */
    size_t ran_out_count, problem_count;
    size_t out_of_line_count;                 /* ranks out of line in any measure */
    uint64_t peak_reserved_bytes, card_bytes; /* the highest of all ranks; of the same */
    /* The rank to look at: the first to run out, or the first with a problem; NULL: none. */
    const vw_rank *worst;
    size_t failure; /* place in the report's failures; SIZE_MAX: it did not run out of memory */
} vw_fleet_job;

/* The same failure in all jobs: the same verdict, and the same functions in the stack. */
typedef struct vw_fleet_failure {
    vw_verdict verdict;
    const vw_frame
        *frames; /* of one of them, from the program's innermost outwards; may be empty */
    size_t frame_count;
    size_t job_count, rank_count;
    const char *job; /* the first by name, and a rank of it */
    const vw_rank *rank;
    int64_t first_day, last_day;
} vw_fleet_failure;

typedef struct vw_fleet_day {
    int64_t day; /* INT64_MIN: jobs whose files have no time */
    size_t job_count, ran_out_job_count;
    size_t rank_count, ran_out_count;
    uint64_t median_peak_bytes; /* reserved, of the jobs' highest */
} vw_fleet_day;

typedef struct vw_fleet_report {
    /* Worst first: by the ranks that ran out of memory, then by those with a problem, then by those
     * out of line, then by name. Empty for a share. */
    const vw_fleet_job *jobs;
    size_t job_count;
    const vw_fleet_failure *failures; /* in most jobs first */
    size_t failure_count;
    const vw_fleet_day *days; /* rising; unknown ones first */
    size_t day_count;

    size_t ran_out_job_count;
    size_t rank_count, ran_out_count;
    size_t file_count, recording_count, text_count, unreadable_count, foreign_count;
    const char *const *notes;
    size_t note_count;
    bool is_something_to_see; /* in one of the jobs */

    /* A unit is a file, or all texts of a job. */
    size_t unit_count;     /* of all shares */
    size_t share_count;    /* of this share; unit_count without shares */
    size_t examined_count; /* in this call; the state had the others */
} vw_fleet_report;

/* Examines many jobs. `source` is
 *
 *   a folder   each folder in it is a job
 *   a file     or "-", standard input: a list. Each line is a file, whose folder is its job, or the
 *              folder of a job. The first line may name columns, separated by commas or tabs: the
 *              file is in column `path`, its job in column `job` if there is one.
 *
 * `options` may be NULL. Files that cannot be read are in the report.
 *
 * VW_ERR_FILE              the source, the state or all files cannot be read; the message says why
 * VW_ERR_CORRUPT_FILE      a line of a list is wrong, or the state's file is not a state
 * VW_ERR_WRONG_STATE       stopped by the caller's progress function, or the state is in use
 * VW_ERR_INVALID_ARGUMENT  an unknown version of PyTorch, a wrong share
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_fleet_examine(const char *source, const vw_fleet_options *options,
                                                vw_fleet_report **out);

/* Makes the report of all shares' states, in any order; a unit that several have counts once.
 *
 * VW_ERR_FILE          a state cannot be read
 * VW_ERR_CORRUPT_FILE  it is not a state, or of another version
 * VW_ERR_WRONG_STATE   they are of different lists of files, or units are missing
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_fleet_merge(const char *const *states, size_t state_count,
                                              vw_fleet_report **out);

VW_API void vw_fleet_report_free(vw_fleet_report *report); /* NULL does nothing */

/* ---- tuning ---------------------------------------------------------------------------------- */

typedef struct vw_fleet_tune_options {
    size_t struct_size;
    uint64_t card_bytes; /* these three as in vw_tune_options */
    uint64_t context_bytes;
    bool is_whole_card;
    const vw_fleet_options *fleet; /* NULL: the defaults */
} vw_fleet_tune_options;

/* What one setting comes to for several jobs. A job *fits* if all its recordings complete on the
 * card. Sums are of the jobs that fit. */
typedef struct vw_fleet_setting {
    const char *policy; /* as in vw_replay_result; "recorded": each job has its own */
    const char *conf;   /* NULL for "recorded" */
    size_t job_count, fit_count;
    size_t gained_count;          /* fit, and do not with what was recorded */
    size_t lost_count;            /* do not fit, and do with what was recorded */
    size_t refused_count;         /* do not fit because their version of PyTorch refuses it */
    size_t retry_count;           /* fit, but had to give memory back and try again */
    uint64_t peak_reserved_bytes; /* the highest of all that fit */
    int64_t saved_bytes; /* less reserved than with what was recorded: the sum over jobs that fit
                            with both, each at its highest recording */
    uint64_t retries;
    uint64_t driver_calls, driver_ns; /* by the measured cost of each call */
} vw_fleet_setting;

/* Jobs that get one setting. */
typedef struct vw_fleet_kind {
    const char *name; /* from the list; NULL: these jobs fit with `best`, and with that of no kind
                         before */
    const char *job;  /* the first by name */
    vw_fleet_setting recorded;
    vw_fleet_setting best; /* policy NULL: nothing fits */
} vw_fleet_kind;

typedef struct vw_fleet_tuned_job {
    const char *name;
    size_t recording_count, skipped_count; /* tried; not */
    bool is_possible;                      /* less is live than the card has */
    bool fits_recorded, fits_best;         /* with its own settings; with the one setting for all */
    bool fits;                             /* with the setting of its kind */
    size_t kind;                           /* place in the report's kinds; SIZE_MAX: nothing fits */
    uint64_t peak_live_bytes;              /* these of its highest recording */
    uint64_t recorded_reserved_bytes, reserved_bytes; /* with its own settings; with its kind's.
                                                         VW_UNKNOWN where it does not fit */
    const char *recorded_conf;                        /* NULL: its recordings differ */
} vw_fleet_tuned_job;

/* A file that was not tried. */
typedef struct vw_fleet_skipped {
    const char *job, *path, *reason;
} vw_fleet_skipped;

typedef struct vw_fleet_tuning {
    uint64_t card_bytes;  /* for PyTorch */
    const char *variable; /* of the environment; static */
    vw_fleet_setting recorded;
    /* Best first; PyTorch's own before another allocator. */
    const vw_fleet_setting *settings;
    size_t setting_count;
    const vw_fleet_setting *best;     /* in `settings`: for all jobs; NULL: nothing fits any */
    const vw_fleet_setting *defaults; /* in `settings` */
    bool is_recorded_best;            /* no setting for all is better than what each job has */

    /* The kinds that the list names; else few settings with which each job fits that fits at all,
     * the first being `best`. */
    const vw_fleet_kind *kinds;
    size_t kind_count;
    size_t kinds_fit_count; /* jobs that fit so */

    /* Those that do not fit first, then those that fit with one setting and not with another. */
    const vw_fleet_tuned_job *jobs;
    size_t job_count;
    size_t impossible_count; /* jobs in which more is live than the card has */
    size_t stuck_count;      /* other jobs that fit with no setting */
    size_t bare_count;       /* jobs without a recording that could be tried; not in `jobs` */

    const vw_fleet_skipped *skipped; /* recordings that cannot be replayed */
    size_t skipped_count;
    size_t file_count, recording_count, foreign_count; /* without logs */
    const char *const *notes;
    size_t note_count;
    bool is_something_to_see; /* a job does not fit with what is best for all, or one was skipped */

    size_t unit_count, share_count, examined_count; /* as in vw_fleet_report; a unit is a file */
} vw_fleet_tuning;

/* Finds one setting for all jobs, and one for each kind of job. Each recording is replayed under
 * each setting on the card. `source` is as above; a column `kind` of a list says which jobs are of
 * one kind. Logs are left out. Shares have no jobs and no settings in their result. Errors as of
 * vw_fleet_examine(); VW_ERR_INVALID_ARGUMENT also without a card. */
VW_API VW_MUST_CHECK vw_status vw_fleet_tune(const char *source,
                                             const vw_fleet_tune_options *options,
                                             vw_fleet_tuning **out);

/* As vw_fleet_merge(). */
VW_API VW_MUST_CHECK vw_status vw_fleet_tune_merge(const char *const *states, size_t state_count,
                                                   vw_fleet_tuning **out);

VW_API void vw_fleet_tuning_free(vw_fleet_tuning *tuning); /* NULL does nothing */

/* ---- days ------------------------------------------------------------------------------------ */

/* A day as "2026-03-01"; "" for an unknown one. */
#define VW_FLEET_DAY_BYTES 16
VW_API const char *vw_fleet_day_text(int64_t day, char text[VW_FLEET_DAY_BYTES]);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_FLEET_H */
