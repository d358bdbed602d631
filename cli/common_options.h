/* common_options.h - the options that all commands take, or all that read files. */
#ifndef VRAMWISE_CLI_COMMON_OPTIONS_H
#define VRAMWISE_CLI_COMMON_OPTIONS_H

#include <stdbool.h>

#include "command.h"

/* Takes --color, --csv of what has a table, and --max-memory of what reads files out of the
 * arguments, which end at `--`, and does what they say. false: the message is on standard error. */
bool common_options_take(int *argc, char **argv, const command *taker);

/* Chooses colours: auto, always or never. false: the message is on standard error. */
bool common_options_color(const char *command_name, const char *text);

#endif /* VRAMWISE_CLI_COMMON_OPTIONS_H */
