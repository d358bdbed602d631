/* live_folder.h - a folder of pages for one test, and children that have pages in it.
 *
 * Nothing is shared with other tests or the machine's /dev/shm. Waits end with a condition, or at a
 * limit that only a hanging test reaches. */
#ifndef VW_TESTS_LIVE_FOLDER_H
#define VW_TESTS_LIVE_FOLDER_H

#include <stdbool.h>
#include <sys/types.h>

#include "vramwise/watch.h"

typedef struct live_folder {
    char path[64];
} live_folder;

/* Makes an empty one. Pools of this process and its children publish in it from now on, every
 * millisecond. */
void live_folder_make(live_folder *folder);

/* Removes it with everything in it. Pools stop publishing. */
void live_folder_remove(const live_folder *folder);

/* The folder that a group of tests shares, from its set-up to its end. */
extern live_folder live_group_folder;
int live_group_set_up(void **state);
int live_group_tear_down(void **state);

int live_folder_count(const live_folder *folder); /* of files, hidden ones included */

/* Reads the jobs in it, or fails the test. Free them. */
vw_jobs *live_folder_read(const live_folder *folder);

/* Waits until `is_so` is true, and returns the jobs that it was true for. Free them. */
typedef bool (*live_condition)(const vw_jobs *jobs, void *context);
vw_jobs *live_folder_wait(const live_folder *folder, live_condition is_so, void *context);

/* Runs `body` in a child of fork(), which calls exit() with its result. Returns the exit status, or
 * -1 if a signal ended it. A child that hangs is killed. */
int live_exit_of_child(int (*body)(void *context), void *context);

/* The same for a child that has run `body` and then waits for live_child_end(). */
typedef struct live_child {
    pid_t process;
} live_child;

live_child live_child_start(int (*body)(void *context), void *context);
int live_child_end(live_child *child);   /* it calls exit(); as live_exit_of_child() */
void live_child_kill(live_child *child); /* SIGKILL, and waits for its end */

#endif /* VW_TESTS_LIVE_FOLDER_H */
