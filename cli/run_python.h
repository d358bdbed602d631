/* run_python.h - is it Python, and can it be entered?
 *
 * `headroom run` enters Python through PYTHONPATH. Told to ignore the environment (-E, and -I,
 * which implies it) or to start without `site` (-S), Python does not look there, and the program
 * runs unwatched: that has to be said, and is seen in the command line. */
#ifndef HEADROOM_CLI_RUN_PYTHON_H
#define HEADROOM_CLI_RUN_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h> /* pid_t */

/* Is that the name, or the path, of a Python interpreter: python, python3, python3.12, pypy3? */
bool run_python_is_python(const char *program);

/* Of a command line that begins with a Python interpreter: the option ('I', 'E' or 'S') that keeps
 * us out, or 0. What follows the script, -c or -m is the program's own. 0 for any other command. */
char run_python_closed_by(size_t argument_count, const char *const *arguments);

/* The same of a running process, by /proc. `*is_python` says whether it is Python at all; where
 * the process is gone or cannot be seen, it is untouched and the answer is 0. */
char run_python_process_closed_by(pid_t process, bool *is_python);

#endif /* HEADROOM_CLI_RUN_PYTHON_H */
