/* tune_jobs.h - `vramwise tune --all`: one setting for many jobs. */
#ifndef VRAMWISE_CLI_TUNE_JOBS_H
#define VRAMWISE_CLI_TUNE_JOBS_H

#include <stdbool.h>
#include <stddef.h>

#include "fleet_order.h"

typedef struct tune_jobs_order {
    fleet_order jobs;
    vw_fleet_tune_options options; /* the card; `fleet` is filled in here */
    bool has_json;
    size_t most_rows;
} tune_jobs_order;

/* How the program ends. */
int tune_jobs(const char *command_name, const tune_jobs_order *order);

#endif /* VRAMWISE_CLI_TUNE_JOBS_H */
