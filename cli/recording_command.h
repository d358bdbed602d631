/* recording_command.h - what the commands that read a recording have in common: opening it, the
 * words for what went wrong, and printing a report. */
#ifndef VRAMWISE_CLI_RECORDING_COMMAND_H
#define VRAMWISE_CLI_RECORDING_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "vramwise/analysis.h"
#include "vramwise/report.h"

/* Opens `path` ("-" is standard input) with progress shown. On failure the reason is on standard
 * error, and the answer is how the program ends; EXIT_DONE otherwise. */
int recording_command_open(const char *command_name, const char *path, vw_recording **out);

/* The same for two: `other_path` may be NULL, and then `*other` is. Standard input can be one of
 * them, not both. On failure neither is open. */
int recording_command_open_pair(const char *command_name, const char *path, const char *other_path,
                                vw_recording **out, vw_recording **other);

/* What a report calls `path`; NULL for NULL. */
const char *recording_command_name(const char *path);

/* Says why a call of analysis.h or report.h failed, and answers how the program ends: what the
 * command line asked for and is not there (a setting, a version, a device) is wrong usage. `path`
 * NULL: the message itself names the file. */
int recording_command_fail(const char *command_name, const char *path, vw_status status);

/* From here on reports are to be CSV. */
void recording_command_choose_csv(void);
bool recording_command_is_csv(void);

/* How a report on `path` is to look on standard output as it is now. */
vw_report_form recording_command_form(const char *path, bool is_json);

/* A terminal's usual height: an answer of the doctor is no longer unless asked for. */
enum { RECORDING_COMMAND_SCREEN_LINES = 24 };

/* Standard output. */
extern const vw_output recording_command_output;

/* Reads a size ("24GiB") of at least one byte given to an option. On failure the message is on
 * standard error. */
bool recording_command_read_size(const char *command_name, const char *option, const char *text,
                                 uint64_t *size_bytes);

/* Reads a card's name or size given to --card; NULL leaves all as it is. `*name` becomes that of a
 * built-in card; it may be NULL: not wanted. */
bool recording_command_read_card(const char *command_name, const char *text, uint64_t *size_bytes,
                                 const char **name);

/* Reads the number of a device given to --device; VW_BUSIEST_DEVICE for NULL. */
bool recording_command_read_device(const char *command_name, const char *text, int *device);

/* Reads the number of rows given to --top, 0 being all; 10 for NULL. */
bool recording_command_read_top(const char *command_name, const char *text, size_t *most_rows);

#endif /* VRAMWISE_CLI_RECORDING_COMMAND_H */
