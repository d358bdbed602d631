/* command_doctor.c - `headroom doctor [FILE|-]`: why memory ran out, and what to do.
 *
 * Without FILE it reads standard input, so that a log can be piped into it; but not from a terminal
 * unless told so: a program that waits without a word looks like one that hangs. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h> /* isatty */

#include "headroom/doctor.h"
#include "headroom/report.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"

static hr_status examine(const char *path, hr_doctor_options *options, hr_diagnosis **diagnosis)
{
    progress line;
    progress_begin(&line, "examining");
    options->progress = progress_show;
    options->progress_context = &line;
    hr_status status = hr_doctor_file(path, options, diagnosis);
    progress_end(&line);
    return status;
}

static int show_diagnosis(const char *command_name, const char *path, hr_doctor_options *options,
                          bool has_json)
{
    hr_diagnosis *diagnosis;
    int exit_status = EXIT_DONE;
    hr_status status = examine(path, options, &diagnosis);
    if (status == HR_OK) {
        const hr_report_form form = recording_command_form(path, has_json);
        status = hr_report_doctor(diagnosis, &form, &recording_command_output);
        exit_status = hr_diagnosis_is_problem(diagnosis) ? EXIT_SOMETHING_TO_SEE : EXIT_DONE;
        hr_diagnosis_free(diagnosis);
    }
    if (status != HR_OK)
        exit_status = recording_command_fail(command_name, path, status);
    return exit_status;
}

/* Somebody is about to paste. */
static void invite(const char *path)
{
    if (strcmp(path, "-") == 0 && isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1)
        fputs("Paste the error, then press Enter and Ctrl-D.\n", stderr);
}

int command_doctor(int argc, char **argv)
{
    bool has_json = false;
    const char *card = NULL;
    hr_doctor_options order = {.struct_size = sizeof order};
    const argument_option options[] = {
        {.name = "card", .value = &card},
        {.name = "json", .is_given = &has_json},
        {.name = "torch", .value = &order.torch_version},
    };
    int first_operand = 0;
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    if (argc - first_operand > 1)
        return arguments_refuse(argv[0], "expected one file, not %d", argc - first_operand);
    const char *path = first_operand < argc ? argv[first_operand] : "-";
    if (first_operand == argc && isatty(STDIN_FILENO) == 1)
        return arguments_refuse(argv[0], "no file. To paste an error, run 'headroom doctor -', "
                                         "paste it, and end with Ctrl-D");
    if (path[0] == '\0') /* as an unset variable in a script leaves it */
        return arguments_refuse(argv[0], "the name of the file is empty");
    if (card != NULL && !recording_command_read_size(argv[0], "card", card, &order.card_bytes))
        return EXIT_WRONG_USAGE;
    invite(path);
    return show_diagnosis(argv[0], path, &order, has_json);
}
