/* plan_arguments.h - the options of `vramwise plan`, as settings. */
#ifndef VRAMWISE_CLI_PLAN_ARGUMENTS_H
#define VRAMWISE_CLI_PLAN_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/plan.h"

typedef struct plan_order {
    const char *model;
    const char *from;  /* a recording, in place of a model; then `scaling`, and no settings */
    const char *trace; /* where the planned step is to be saved; NULL: not at all */
    bool has_json, has_list;
    size_t most_rows;
    vw_plan_settings settings;
    vw_plan_scaling scaling;
} plan_order;

/* Reads the command line into `*order`. EXIT_DONE, or how the program ends, with the reason on
 * standard error. Whether settings go together is the library's to say. */
int plan_arguments_read(int argc, char **argv, plan_order *order);

#endif /* VRAMWISE_CLI_PLAN_ARGUMENTS_H */
