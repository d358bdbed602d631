/* run_environment.h - the variables that carry a run to the Python processes in it. */
#ifndef VRAMWISE_CLI_RUN_ENVIRONMENT_H
#define VRAMWISE_CLI_RUN_ENVIRONMENT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* What was asked for on the command line. NULL, or false, where it was not. Borrowed from argv. */
typedef struct run_wishes {
    const char *allocator; /* a name of an allocator; checked */
    const char *record;    /* where the recording goes */
    const char *history;   /* events to keep; checked: a number */
    const char *keep_free; /* of each GPU, for others; checked: a size or a share, not 0 */
    const char *spill;     /* host memory that live data may go to; checked: a size, not 0 */
    bool stream;           /* data takes turns on the GPU; checked: with `spill` */
} run_wishes;

/* Has the user switched everything off (VRAMWISE_DISABLE=1)? */
bool run_environment_is_disabled(void);

/* Finds the folder with Python's start-up hook: in VRAMWISE_PYTHON, beside the program as it is in
 * a build folder, in ../share/vramwise/python as it is installed, or in the site-packages of the
 * environment in whose bin/ the program is. false: it was not found. */
bool run_environment_find_hook(char *hook, size_t capacity);

/* Puts a folder in front of PYTHONPATH, for this process and what it starts. false with errno: no
 * memory for it. */
bool run_environment_add_python_path(const char *folder);

/* Stores the absolute path of where --record goes. Returns NULL, or the reason why nothing can be
 * recorded there: the folder is missing or not writable, or the path is not a regular file. A
 * symbolic link to a regular file is accepted; the recording replaces the link. */
const char *run_environment_place_recording(const char *record, char *place, size_t capacity);

/* Sets the variables, for this process and what it starts. `place` is the recording's, or "".
 * false with errno: no memory for them. */
bool run_environment_set(const char *hook, const char *run_folder_path, const run_wishes *wishes,
                         const char *place);

#endif /* VRAMWISE_CLI_RUN_ENVIRONMENT_H */
