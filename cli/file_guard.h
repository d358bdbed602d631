/* file_guard.h - a file that may not grow is an error of writing.
 *
 * A write past `ulimit -f` raises SIGXFSZ, which ends programs without a word and leaves their
 * drafts behind. Ignored, it leaves an error that has words. */
#ifndef VRAMWISE_CLI_FILE_GUARD_H
#define VRAMWISE_CLI_FILE_GUARD_H

void file_guard_set(void);

/* Back to what was before: for a program of somebody else's that is to be started. */
void file_guard_lift(void);

#endif /* VRAMWISE_CLI_FILE_GUARD_H */
