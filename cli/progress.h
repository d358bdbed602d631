/* progress.h - one line on standard error that says how far long work has come.
 *
 * Only if standard error is a terminal, and only after half a second: short work shows nothing. The
 * line is removed at the end. */
#ifndef VRAMWISE_CLI_PROGRESS_H
#define VRAMWISE_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct progress {
    const char *what;         /* "reading": borrowed */
    FILE *to;                 /* NULL: standard error is no terminal */
    uint64_t (*now_ns)(void); /* a clock that never goes back */
    uint64_t began_ns;
    uint64_t shown_ns; /* when the line was last written; 0 = it is not there */
} progress;

/* Work called `what` begins. */
void progress_begin(progress *line, const char *what);

/* The same, but on `to` and with a clock of the caller's: for tests. */
void progress_begin_on(progress *line, const char *what, FILE *to, uint64_t (*now_ns)(void));

/* vw_progress of analysis.h; `context` is the progress. Never stops the work. */
bool progress_show(void *context, double done);

/* Takes the line away, if it is there. */
void progress_end(progress *line);

#endif /* VRAMWISE_CLI_PROGRESS_H */
