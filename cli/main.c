/* main.c - the table of commands, and the way to them.
 *
 * `headroom COMMAND ...` runs the command of that name; `help` and the two options that need no
 * command are dealt with here, and so is --help after any command, so that it works the same for
 * all of them. What a command is, and what its result means, is in command.h. */
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "headroom/version.h" /* hr_version_string */

#include "arguments.h" /* arguments_refuse, arguments_nearest */
#include "command.h"
#include "terminal.h" /* terminal_finish */

static int command_help(int argc, char **argv);

static const command commands[] = {
    {
        .name = "demo",
        .summary = "watch the allocator at work; needs no GPU",
        .usage = "usage: headroom demo [--summary | --json]\n"
                 "\n"
                 "Runs the memory of a training job on a simulated card, under the rules of\n"
                 "PyTorch's allocator: once as it is by default, until it fails, and once with\n"
                 "expandable segments. Shows the error, where the memory was, and the two runs\n"
                 "side by side. No GPU, no Python and no file is needed, and nothing is written.\n"
                 "\n"
                 "  --summary   also torch.cuda.memory_summary() at the failure\n"
                 "  --json      the numbers, as one JSON object\n",
        .run = command_demo,
    },
    {
        .name = "help",
        .summary = "how to use a command",
        .usage = "usage: headroom help [COMMAND]\n"
                 "\n"
                 "Says how COMMAND is used; without COMMAND, which commands there are.\n",
        .run = command_help,
    },
};

#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_commands(FILE *to)
{
    fputs("usage: headroom COMMAND [ARGUMENT...]\n"
          "\n",
          to);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "'headroom help COMMAND' says more, 'headroom --version' which version this is.\n",
          to);
}

static int refuse_unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    const char *nearest = arguments_nearest(name, names, COMMAND_COUNT);
    fprintf(stderr, "headroom: there is no command '%s'", name);
    if (nearest != NULL)
        fprintf(stderr, "; did you mean '%s'?", nearest);
    fputs("\nTry 'headroom help'.\n", stderr);
    return EXIT_WRONG_USAGE;
}

static int command_help(int argc, char **argv)
{
    int first_operand = 0;
    if (!arguments_parse(NULL, 0, argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    if (argc - first_operand > 1)
        return arguments_refuse(argv[0], "one command at a time, not %d", argc - first_operand);
    if (first_operand == argc) {
        print_commands(stdout);
        return EXIT_DONE;
    }
    const command *subject = find_command(argv[first_operand]);
    if (subject == NULL)
        return refuse_unknown_command(argv[first_operand]);
    fputs(subject->usage, stdout);
    return EXIT_DONE;
}

/* Is --help among the command's own arguments? What follows `--` belongs to somebody else. */
static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int run_command(int argc, char **argv)
{
    const command *chosen = find_command(argv[0]);
    if (chosen == NULL)
        return refuse_unknown_command(argv[0]);
    if (wants_help(argc, argv)) {
        fputs(chosen->usage, stdout);
        return EXIT_DONE;
    }
    return chosen->run(argc, argv);
}

static int run_program(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_WRONG_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("headroom %s\n", hr_version_string());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_commands(stdout);
        return EXIT_DONE;
    }
    if (argv[1][0] == '-') {
        fprintf(stderr, "headroom: unknown option '%s'\nTry 'headroom help'.\n", argv[1]);
        return EXIT_WRONG_USAGE;
    }
    return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, ""); /* which characters a terminal shows; numbers stay as in C */
    return terminal_finish(run_program(argc, argv));
}
