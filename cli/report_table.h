/* report_table.h - what was found in many jobs, as an SQLite file.
 *
 * Tables `jobs`, `ranks`, `outliers`, `failures`, `stacks`, `files` and `days`; vramwise-report(1)
 * has their columns. The same report always gives the same rows in the same order. */
#ifndef VRAMWISE_CLI_REPORT_TABLE_H
#define VRAMWISE_CLI_REPORT_TABLE_H

#include <stdbool.h>

#include "vramwise/fleet.h"

/* Can there be such a file at `name`? Only one of ours is replaced. false: the message is on
 * standard error. */
bool report_table_check(const char *command_name, const char *name);

/* The file appears when it is complete. false: the message is on standard error. */
bool report_table_write(const char *command_name, const vw_fleet_report *report, const char *name);

#endif /* VRAMWISE_CLI_REPORT_TABLE_H */
