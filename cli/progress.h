/* progress.h - one line on standard error that says how far long work has come: a bar, or the
 * seconds where the end is not in sight.
 *
 * Only if standard error is a terminal, and only after half a second: short work shows nothing. The
 * line is removed at the end. For `vramwise mcp`, whose tools are this program, a pipe that
 * PROGRESS_VARIABLE names gets lines instead: "reading 0.300", or "counting" without an end in
 * sight. */
#ifndef VRAMWISE_CLI_PROGRESS_H
#define VRAMWISE_CLI_PROGRESS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PROGRESS_VARIABLE "VRAMWISE_PROGRESS_FD"

typedef struct progress {
    const char *what;         /* "reading": borrowed */
    FILE *to;                 /* NULL: standard error is no terminal */
    uint64_t (*now_ns)(void); /* a clock that never goes back */
    uint64_t began_ns;
    uint64_t shown_ns; /* when the line was last written; 0 = it is not there */
    bool has_lines;    /* `to` is a pipe for lines */
    bool is_counting;  /* a thread writes the line */
    pthread_t counter;
    sem_t end;       /* of the counting */
    atomic_int done; /* what progress_show() was last told, for the thread: thousandths; -1 */
} progress;

/* Work called `what` begins. */
void progress_begin(progress *line, const char *what);

/* The same for work that does not call progress_show(), or not for a while: a thread beside it
 * writes the line, with seconds until the work has said how far it is. */
void progress_begin_counting(progress *line, const char *what);

/* The same, but on `to` and with a clock of the caller's: for tests. */
void progress_begin_on(progress *line, const char *what, FILE *to, uint64_t (*now_ns)(void));

/* Begins to write the line beside work that has begun. */
void progress_count(progress *line);

/* vw_progress of analysis.h; `context` is the progress. Never stops the work. */
bool progress_show(void *context, double done);

/* Takes the line away, if it is there. */
void progress_end(progress *line);

#endif /* VRAMWISE_CLI_PROGRESS_H */
