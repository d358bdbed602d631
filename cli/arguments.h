/* arguments.h - options and operands of one command.
 *
 * A command lists its options in a table; arguments_parse() fills the variables the table points
 * at. getopt_long() does the reading, so options and operands may come in any order, `--name=value`
 * and `--name value` are the same (but for an option whose value may be left out), and `--` ends
 * the options. The messages are ours: getopt's own name the program but not the command,
 * and do not say where help is. */
#ifndef VRAMWISE_CLI_ARGUMENTS_H
#define VRAMWISE_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARGUMENTS_MOST_VALUES 64

/* What was given to an option that may come several times, in order; borrowed from argv. */
typedef struct argument_values {
    const char *items[ARGUMENTS_MOST_VALUES];
    size_t count;
} argument_values;

/* One option. Exactly one of `is_given`, `value` and `values` is set: a switch, an option with a
 * value, or one that may be repeated. With `is_given` and `value` both, the value may be left out:
 * `--name=value` has one, and `--name word` only where `is_value` says so of the word. */
typedef struct argument_option {
    const char *name;        /* long name without the dashes */
    char letter;             /* short name, or 0 */
    bool *is_given;          /* a switch: set to true when it is there */
    const char **value;      /* set to what was given, borrowed from argv; the last one wins */
    argument_values *values; /* each is added; more than fit are refused */
    bool (*is_value)(const char *word); /* of a value that may be left out; or NULL */
} argument_option;

#define ARGUMENTS_MOST_OPTIONS 64

/* Reads argv[1] to argv[argc - 1]. On success the operands stand at argv[*first_operand] to
 * argv[argc - 1] and the answer is true. Otherwise a message is on standard error and the command
 * returns EXIT_WRONG_USAGE. Variables whose option is absent keep their value. */
bool arguments_parse(const argument_option *options, size_t option_count, int argc, char **argv,
                     int *first_operand);

/* The same for a command with one operand, no more and no less: a `kind` ("file"), which is put in
 * `*operand`. */
bool arguments_parse_one(const argument_option *options, size_t option_count, int argc, char **argv,
                         const char *kind, const char **operand);

/* Writes "vramwise COMMAND: message" and where help is to standard error. Returns
 * EXIT_WRONG_USAGE, so that a command can end with it. */
__attribute__((format(printf, 2, 3), cold)) int arguments_refuse(const char *command_name,
                                                                 const char *format, ...);

/* Reads a whole number in decimal digits. false, with `*number` untouched: anything else, NULL, or
 * more than 64 bits hold. */
bool arguments_read_number(const char *text, uint64_t *number);

/* The number of a process. false, with a message that begins with `option` ("--pid: ", or ""). */
bool arguments_read_process(const char *command_name, const char *option, const char *text,
                            long *process);

/* The name nearest to `word`, or NULL if none is near enough to be what was meant. */
const char *arguments_nearest(const char *word, const char *const *names, size_t name_count);

/* How long to wait, in milliseconds: the environment variable's whole number of seconds, up to a
 * day; else `usual_seconds`. */
uint64_t arguments_limit_ms(const char *variable, uint64_t usual_seconds);

#endif /* VRAMWISE_CLI_ARGUMENTS_H */
