/* techniques_report.h - the tour of techniques, told to people and to programs. */
#ifndef VRAMWISE_CLI_TECHNIQUES_REPORT_H
#define VRAMWISE_CLI_TECHNIQUES_REPORT_H

#include "techniques.h"
#include "terminal.h"

/* How many points a line has on this output; for JSON, which has no width, as for 80 columns. */
size_t techniques_report_points(const terminal *output);

/* Either writes to standard output. */
void techniques_report_print(const technique_result results[TECHNIQUES_COUNT], size_t point_count,
                             const terminal *output);
void techniques_report_print_json(const technique_result results[TECHNIQUES_COUNT],
                                  size_t point_count);

#endif /* VRAMWISE_CLI_TECHNIQUES_REPORT_H */
