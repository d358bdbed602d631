/* run_python.h - is it Python, and can it be entered?
 *
 * `vramwise run` enters Python through PYTHONPATH. Told to ignore the environment (-E, and -I,
 * which implies it) or to start without `site` (-S), Python does not look there, and the program
 * runs unwatched: that has to be said, and is seen in the command line. Most of it before the
 * start, in what the command is made of: a job may be over before anybody looks at its process. */
#ifndef VRAMWISE_CLI_RUN_PYTHON_H
#define VRAMWISE_CLI_RUN_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h> /* pid_t */

typedef struct run_python_look {
    bool is_python; /* which is to run a program: not `python --version` */
    char closed_by; /* the option that keeps us out: 'I', 'E' or 'S'; 0 = none */
} run_python_look;

/* Is that the name, or the path, of a Python interpreter: python, python3, python3.12, pypy3? */
bool run_python_is_python(const char *program);

/* Judges a command line by its words alone. Words behind the script, -c or -m are the program's. */
run_python_look run_python_look_at_words(size_t word_count, const char *const *words);

/* Of a command (ended by NULL) that is about to be started: found as execvp() finds it, and
 * followed through the first lines of scripts, as the kernel reads them, and through `env`. What is
 * not understood is not Python. */
run_python_look run_python_look_at_command(const char *const *command);

/* Of a running process, by /proc. False where it is gone or cannot be seen: `*look` is untouched.
 */
bool run_python_look_at_process(pid_t process, run_python_look *look);

#endif /* VRAMWISE_CLI_RUN_PYTHON_H */
