/* plan_arguments.h - the command line of `vramwise plan`. */
#ifndef VRAMWISE_CLI_PLAN_ARGUMENTS_H
#define VRAMWISE_CLI_PLAN_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/plan.h"

/* What is to be planned. Texts are borrowed from argv. */
typedef struct plan_order {
    const char *model;
    /* A recording, a trace or a script, in place of a model; then `scaling`, and no settings. */
    const char *from, *traced, *script;
    const char *write; /* where the planned step is to be saved; NULL: not at all */
    bool has_json, has_list;
    size_t most_rows;
    vw_plan_settings settings; /* of a recording, only the card */
    vw_plan_scaling scaling;
    const char *steps;      /* of a script: how many are traced */
    const char *share;      /* of a script's masks that is set */
    char *const *arguments; /* of a script */
    size_t argument_count;
} plan_order;

/* Reads the command line into `*order`, which is zeroed. EXIT_DONE, or how the program ends, with
 * the reason on standard error. Whether settings go together is the library's to say. */
int plan_arguments_read(int argc, char **argv, plan_order *order);

#endif /* VRAMWISE_CLI_PLAN_ARGUMENTS_H */
