/* report_output.h - where the page of a report goes: -o of `vramwise report`. */
#ifndef VRAMWISE_CLI_REPORT_OUTPUT_H
#define VRAMWISE_CLI_REPORT_OUTPUT_H

#include <stdbool.h>

#include "view_file.h"

typedef struct report_output {
    const char *name;   /* "-" is standard output */
    const char *source; /* what the report is about, for messages */
    view_place place;
    bool is_quiet; /* standard output is for JSON or CSV */
} report_output;

/* NULL is not. */
bool report_output_is_standard(const char *name);

/* EXIT_DONE, or the message is on standard error. A file that is not a page may be a recording: it
 * is never replaced. */
int report_output_check(const char *command_name, const char *name, view_place place);

/* Says why `name` cannot be written; how the program ends. */
int report_output_fail(const char *command_name, const char *name, const char *reason);

/* Writes the page, and says so. How the program ends. */
int report_output_put(const char *command_name, const view_file_content *content,
                      const report_output *where);

#endif /* VRAMWISE_CLI_REPORT_OUTPUT_H */
