/* help.c - see help.h. */
#include "help.h"

static const char *const headings[] = {
    [COMMAND_HAVE_ERROR] = "You have an error message or a log:",
    [COMMAND_HAVE_PROGRAM] = "You have a program to run:",
    [COMMAND_HAVE_MODEL] = "You have a model, and no run yet:",
    [COMMAND_HAVE_RECORDING] = "You have a recording, as 'run' or PyTorch writes it:",
    [COMMAND_HAVE_FOLDER] = "You have the files of a job's ranks:",
    [COMMAND_HAVE_JOBS] = "You have jobs that run:",
    [COMMAND_HAVE_ASSISTANT] = "You have an assistant:",
    [COMMAND_HAVE_NOTHING] = "You have nothing yet:",
};

void help_print_commands(FILE *to, const command *commands, size_t count)
{
    fputs("usage: vramwise COMMAND [ARGUMENT...]\n", to);
    for (int have = 0; have < COMMAND_HAVE_COUNT; have++) {
        fprintf(to, "\n%s\n", headings[have]);
        for (size_t i = 0; i < count; i++)
            if ((int)commands[i].have == have)
                fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].summary);
    }
    fputs("\n"
          "'vramwise help COMMAND' says more; 'vramwise --version' prints the version.\n",
          to);
}

void help_print_usage(const command *subject)
{
    fputs(subject->usage, stdout);
    fputs("\n"
          "--color auto|always|never: colours on a terminal, always, or never.\n",
          stdout);
    if (subject->has_table)
        fputs("--csv: the table, as comma-separated values with the names and values of --json.\n",
              stdout);
    if (subject->reads_files)
        fputs("--max-memory SIZE lets reading a file take so much memory; by default a quarter\n"
              "of what is free, and at most 16GiB. The command takes at most twice SIZE, or\n"
              "twice that quarter, and 512MiB.\n",
              stdout);
    printf("\nExamples:\n%s", subject->examples);
}
