/* report_jobs.h - `vramwise report` on many jobs: a folder of them, a list, or the states of
 * shares. */
#ifndef VRAMWISE_CLI_REPORT_JOBS_H
#define VRAMWISE_CLI_REPORT_JOBS_H

#include <stdbool.h>
#include <stddef.h>

#include "fleet_order.h"

typedef struct report_jobs_order {
    fleet_order jobs;
    bool is_wanted, has_json;
    const char *output_name; /* a page or a table; NULL: none */
    size_t most_rows;
} report_jobs_order;

/* Is it named as an SQLite file is? */
bool report_jobs_is_table_name(const char *name);

/* How the program ends. */
int report_jobs(const char *command_name, const report_jobs_order *order);

#endif /* VRAMWISE_CLI_REPORT_JOBS_H */
