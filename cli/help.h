/* help.h - what `vramwise help` and `vramwise help COMMAND` print. */
#ifndef VRAMWISE_CLI_HELP_H
#define VRAMWISE_CLI_HELP_H

#include <stddef.h>
#include <stdio.h>

#include "command.h"

/* The commands, grouped by what somebody has. */
void help_print_commands(FILE *to, const command *commands, size_t count);

/* How to use one, to standard output: usage, what all commands take, examples. */
void help_print_usage(const command *subject);

#endif /* VRAMWISE_CLI_HELP_H */
