/* run_report.h - what people read when a run ran out of memory. All of it goes to standard error.
 *
 * The doctor runs in a process of its own, a child of ours: never inside the job, and if a
 * recording is too much for it, neither the job nor its exit status suffers. */
#ifndef VRAMWISE_CLI_RUN_REPORT_H
#define VRAMWISE_CLI_RUN_REPORT_H

#include <stdbool.h>
#include <sys/types.h> /* pid_t */

#include "vramwise/watch.h"

#include "run_news.h"
#include "run_signals.h"

/* How the doctor's process ends. */
enum {
    RUN_REPORT_SAID = 0,    /* the report is there */
    RUN_REPORT_NOTHING = 1, /* it was not about memory after all: nothing was written */
    RUN_REPORT_FAILED = 2,  /* the reason is there */
};

/* One line of ours: "vramwise: ...". What would steer a terminal is replaced. */
__attribute__((format(printf, 1, 2))) void run_report_say(const char *format, ...);

/* Starts the doctor on what is known of `process`. Its process, or -1: it could not be started, and
 * that is said. */
pid_t run_report_start(const run_process *process, const run_signals *signals);

/* ---- a leak, while the job runs ---------------------------------------------------------------
 */

#define RUN_REPORT_PLACE_BYTES 512 /* "train.py:152 main", its zero included */

/* What is known of a leak. */
typedef struct run_leak_news {
    long process;
    int rank; /* -1 = none */
    int device;
    char program[VW_JOB_TEXT_BYTES];
    vw_job_outlook outlook;
    uint64_t step_ns; /* VW_LIVE_UNKNOWN */
} run_leak_news;

/* Starts a doctor who looks in a snapshot for the line that leaks, and writes it, if there is one,
 * to the pipe whose other end is `*place_end`: the caller's to close. Its process, or -1: it could
 * not be started. */
pid_t run_report_start_place(const char *snapshot, const run_signals *signals, int *place_end);

/* The warning. `place` may be "", `kept` (the snapshot) NULL. `other_count`: processes that leak
 * besides. */
void run_report_leak(const run_leak_news *leak, const char *place, size_t other_count,
                     const char *kept);

/* ---- after a failure ------------------------------------------------------------------------- */

/* What follows the doctor's report: the files, what to do with them, and the other processes that
 * ran out, unless they are still writing theirs. */
void run_report_files(run_news *news);

/* At the end: what came after that, a file or another process that ran out. */
void run_report_rest(run_news *news);

/* At the end of a run with --record: which files there are, and which are missing. `has_cuda`:
 * did any process use a GPU? */
void run_report_recordings(const run_news *news, bool has_cuda);

#endif /* VRAMWISE_CLI_RUN_REPORT_H */
