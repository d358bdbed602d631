/* run_folder.h - the private folder of one `vramwise run`.
 *
 * Processes of the run find it by a variable (VRAMWISE_RUN) and need to inherit nothing else, so
 * that launchers, which close descriptors and start children of children, make no difference. In it
 * are a socket to which they send what happened, and files whose being there says something:
 * `entered` (a Python ran our hook), `torch` (it imported torch), `cuda` (and used a GPU). Only the
 * user can look inside.
 *
 * A run that is killed with SIGKILL leaves its folder behind, and the next run removes it
 * (left_folders.h). */
#ifndef VRAMWISE_CLI_RUN_FOLDER_H
#define VRAMWISE_CLI_RUN_FOLDER_H

#include <limits.h>
#include <stdbool.h>

typedef struct run_folder {
    char path[PATH_MAX]; /* absolute */
    int socket;          /* datagrams; does not block; closed in children */
    int held;            /* left_folders_hold()'s */
} run_folder;

/* Makes the folder in XDG_RUNTIME_DIR, TMPDIR or /tmp, the first that can be had, and removes those
 * beside it that killed runs have left. false, with errno: there is none, and nothing was left
 * behind. */
bool run_folder_create(run_folder *folder);

/* Did a process of the run leave that file? */
bool run_folder_has(const run_folder *folder, const char *name);

/* Removes the folder with everything in it. */
void run_folder_remove(run_folder *folder);

#endif /* VRAMWISE_CLI_RUN_FOLDER_H */
