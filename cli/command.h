/* command.h - what a command of the program is.
 *
 * One command is one file, command_<name>.c, with one function: the table in main.c names it, says
 * what it is for and how it is used, and finds it by name. Commands see the public headers and the
 * helpers of this folder, nothing of the library's inside, so whatever they can do, anyone who
 * links the library can do as well. */
#ifndef VRAMWISE_CLI_COMMAND_H
#define VRAMWISE_CLI_COMMAND_H

#include <stdbool.h>

/* How the program ends. Scripts rely on these numbers; the man page promises them. */
enum {
    EXIT_DONE = 0,             /* done, and nothing wrong */
    EXIT_SOMETHING_TO_SEE = 1, /* done, and there is a finding */
    EXIT_WRONG_USAGE = 2,      /* the command line makes no sense */
    EXIT_COULD_NOT = 3,        /* unreadable file, no device, no room for the output */
};

/* What somebody has who needs the command: the list is grouped by it, in this order. */
typedef enum command_have {
    COMMAND_HAVE_ERROR,
    COMMAND_HAVE_PROGRAM,
    COMMAND_HAVE_MODEL,
    COMMAND_HAVE_RECORDING,
    COMMAND_HAVE_FOLDER,
    COMMAND_HAVE_JOBS,
    COMMAND_HAVE_ASSISTANT,
    COMMAND_HAVE_NOTHING,
    COMMAND_HAVE_COUNT
} command_have;

/* One command. All texts are static. */
typedef struct command {
    const char *name;
    const char *summary; /* for the list: a few words, no full stop */
    command_have have;
    const char *usage;    /* for `vramwise help NAME`: ends with a newline, 80 columns at most */
    const char *examples; /* the same, below it: one command line per line; the manual has them, too
                           */

    /* argv[0] is the command's name. Returns one of the numbers above; `run`, the status of the
     * command it ran. main() has dealt with
     * --help, and checks after the return that standard output took everything. */
    int (*run)(int argc, char **argv);

    /* Makes tables for a card of any size and touches little of them: what malloc takes from the
     * system page by page is then less than what it keeps. */
    bool has_sparse_tables;

    /* Reads recordings, and so takes --max-memory, which main() deals with. */
    bool reads_files;

    /* Its report has a table, and so takes --csv. */
    bool has_table;

    /* The words after its own options are another program's: it deals with what all commands take
     * by itself. */
    bool runs_another;
} command;

int command_check(int argc, char **argv);
int command_demo(int argc, char **argv);
int command_diff(int argc, char **argv);
int command_doctor(int argc, char **argv);
int command_exporter(int argc, char **argv);
int command_mcp(int argc, char **argv);
int command_park(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_report(int argc, char **argv);
int command_run(int argc, char **argv);
int command_stats(int argc, char **argv);
int command_top(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_verify(int argc, char **argv);
int command_view(int argc, char **argv);
int command_wake(int argc, char **argv);

#endif /* VRAMWISE_CLI_COMMAND_H */
