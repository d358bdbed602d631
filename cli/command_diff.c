/* command_diff.c - `vramwise diff FILE FILE`: what grew and what shrank from one to the other. */
#include <stdbool.h>

#include "vramwise/analysis.h"
#include "vramwise/report.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"

typedef struct diff_order {
    const char *before_path, *after_path;
    size_t most_rows;
    bool has_json, has_stacks;
} diff_order;

static int show_report(const char *command_name, const diff_order *order,
                       const vw_recording *before, const vw_recording *after)
{
    vw_diff_report *report;
    int exit_status = EXIT_DONE;
    progress line;
    progress_begin_counting(&line, "comparing");
    vw_status status = vw_recordings_diff(before, after, &report);
    progress_end(&line);
    if (status == VW_OK) {
        vw_report_form form = recording_command_form(order->before_path, order->has_json);
        form.other_file = recording_command_name(order->after_path);
        form.most_rows = order->most_rows;
        form.has_stacks = order->has_stacks;
        status = vw_report_diff(report, &form, &recording_command_output);
        exit_status = report->is_same ? EXIT_DONE : EXIT_SOMETHING_TO_SEE;
        vw_diff_report_free(report);
    }
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, order->before_path, status);
    return exit_status;
}

static int show_difference(const char *command_name, const diff_order *order)
{
    vw_recording *before = NULL, *after = NULL;
    int exit_status = recording_command_open_pair(command_name, order->before_path,
                                                  order->after_path, &before, &after);
    if (exit_status != EXIT_DONE)
        return exit_status;
    exit_status = show_report(command_name, order, before, after);
    vw_recording_close(after);
    vw_recording_close(before);
    return exit_status;
}

int command_diff(int argc, char **argv)
{
    diff_order order = {0};
    const char *top = NULL;
    const argument_option options[] = {
        {.name = "json", .is_given = &order.has_json},
        {.name = "stacks", .is_given = &order.has_stacks},
        {.name = "top", .value = &top},
    };
    int first_operand = 0;
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    if (argc - first_operand != 2)
        return arguments_refuse(argv[0], "expected two files, not %d", argc - first_operand);
    if (!recording_command_read_top(argv[0], top, &order.most_rows))
        return EXIT_WRONG_USAGE;
    order.before_path = argv[first_operand];
    order.after_path = argv[first_operand + 1];
    return show_difference(argv[0], &order);
}
