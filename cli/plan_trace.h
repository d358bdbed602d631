/* plan_trace.h - a training script, traced by Python, for `vramwise plan --trace`.
 *
 * Python runs the script unchanged, on tensors without data (python/vramwise/_trace.py), and writes
 * its requests to a file in a private folder. What the script prints goes to standard error. */
#ifndef VRAMWISE_CLI_PLAN_TRACE_H
#define VRAMWISE_CLI_PLAN_TRACE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* What to trace. Borrowed from argv. */
typedef struct plan_trace_order {
    const char *script;
    char *const *arguments; /* the script's own */
    size_t argument_count;
    const char *steps;     /* optimizer steps to trace; checked: a number; NULL: Python's default */
    const char *share;     /* of a mask that is set; checked: from 0 to 1; NULL: Python's default */
    const char *card_name; /* NULL: not known */
    uint64_t card_bytes;   /* 0: not known */
} plan_trace_order;

typedef struct plan_trace_file {
    char folder[PATH_MAX]; /* absolute; only the user can look inside */
    char path[PATH_MAX];   /* the trace */
    int held;              /* left_folders_hold()'s */
} plan_trace_file;

/* Waits until the script has been traced. EXIT_DONE, and plan_trace_remove() is due; or how the
 * program ends, with the reason on standard error, and nothing is left behind. */
int plan_trace_make(const char *command_name, const plan_trace_order *order, plan_trace_file *file);

/* Removes the file and its folder. */
void plan_trace_remove(const plan_trace_file *file);

#endif /* VRAMWISE_CLI_PLAN_TRACE_H */
