/* run_leak.h - the leak guard of `vramwise run`: reports a leak while there is time.
 *
 * About once a second the pages of the run's processes are read (watch.h). When the growth of one
 * is firm (vw_job_outlook_find_firm), that process is asked for a snapshot, the doctor looks for
 * the line in it, in a process of its own, and a warning is written: once in a run, whoever else
 * leaks. Where no snapshot comes, the warning has no line. With
 * --on-leak=snapshot the snapshot is kept, with --on-leak=stop the job is asked to end as well.
 *
 * Asking: a file `ask-PID` in the run's folder, with the path at which the snapshot is wanted. The
 * process removes it, writes the snapshot, and sends the message `snapshot` (run_news.h). */
#ifndef VRAMWISE_CLI_RUN_LEAK_H
#define VRAMWISE_CLI_RUN_LEAK_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h> /* pid_t */

#include "vramwise/watch.h"

#include "run_folder.h"
#include "run_news.h"
#include "run_report.h"
#include "run_signals.h"

typedef enum run_leak_mode { RUN_LEAK_WARN, RUN_LEAK_SNAPSHOT, RUN_LEAK_STOP } run_leak_mode;

typedef enum run_leak_stage {
    RUN_LEAK_LOOKING,
    RUN_LEAK_ASKED,     /* a process, for its snapshot */
    RUN_LEAK_EXAMINING, /* the doctor is at it */
    RUN_LEAK_TOLD       /* or there is nothing to tell: the job has ended, or has no pages */
} run_leak_stage;

typedef struct run_leak {
    run_leak_mode mode;
    const run_folder *folder;
    bool has_pages; /* the job's processes have some */
    run_leak_stage stage;
    uint64_t next_look_ms;
    uint64_t limit_ms; /* of ASKED and EXAMINING */
    uint64_t kill_ms;  /* when a job that was asked to end is killed; 0 = it was not asked */
    run_leak_news found;
    size_t leaking_count;    /* processes of the run that leak, the reported one included */
    char snapshot[PATH_MAX]; /* where it is wanted */
    bool has_snapshot;
    pid_t doctor;  /* -1 = none */
    int place_end; /* of the pipe from the doctor; -1 = none */
} run_leak;

/* Where there are no pages (vw_live_is_wanted()) there is nothing to do. */
void run_leak_begin(run_leak *guard, run_leak_mode mode, const run_folder *folder);

/* One turn: looks, asks, waits, tells, ends the job, whatever is due. `is_over`: the job has ended,
 * and then the guard comes to an end as well. `is_interrupted`: somebody wants us to end, after the
 * job has. */
void run_leak_attend(run_leak *guard, const run_news *news, const run_signals *signals, pid_t job,
                     bool is_over, bool is_interrupted);

/* A child of ours has ended: is it the guard's? */
bool run_leak_reap(run_leak *guard, pid_t child);

/* Is there something that the program must wait for, though the job has ended? */
bool run_leak_is_at_work(const run_leak *guard);

/* When the next turn is due, by run_signals_now_ms(); 0 = never. */
uint64_t run_leak_due_ms(const run_leak *guard);

/* The job has ended. A process of it that was killed has left its page, which is removed. */
void run_leak_end(const run_leak *guard);

#endif /* VRAMWISE_CLI_RUN_LEAK_H */
