/* command_check.c - `vramwise check FILE --baseline FILE`: has memory grown? */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/check.h"
#include "vramwise/report.h"
#include "vramwise/units.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"
#include "view_file.h" /* view_file_is */

typedef struct check_order {
    const char *path, *baseline_path, *written_path;
    vw_check_limits limits;
    size_t most_rows;
    bool has_json;
} check_order;

/* `like` may be NULL. */
static int measure(const char *command_name, const check_order *order, const vw_baseline *like,
                   vw_baseline **out)
{
    vw_recording *recording;
    progress line;
    int exit_status = recording_command_open(command_name, order->path, &recording);
    if (exit_status != EXIT_DONE)
        return exit_status;
    progress_begin_counting(&line, "measuring");
    const vw_baseline_options options = {
        .struct_size = sizeof options,
        .like = like,
        .progress = progress_show,
        .progress_context = &line,
    };
    vw_status status = vw_baseline_make(recording, &options, out);
    progress_end(&line);
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, order->path, status);
    vw_recording_close(recording);
    return exit_status;
}

static int write_baseline(const char *command_name, const check_order *order)
{
    vw_baseline *baseline;
    int exit_status = measure(command_name, order, NULL, &baseline);
    if (exit_status != EXIT_DONE)
        return exit_status;
    char peak[VW_SIZE_TEXT_BYTES];
    (void)vw_format_size(baseline->values[VW_CHECK_PEAK], peak);
    vw_status status = vw_baseline_write(baseline, order->written_path);
    vw_baseline_free(baseline);
    if (status == VW_OK)
        printf("wrote a baseline: %s live at the peak\n", peak);
    return status == VW_OK ? EXIT_DONE
                           : recording_command_fail(command_name, order->written_path, status);
}

static int show_comparison(const char *command_name, const check_order *order,
                           const vw_baseline *before, const vw_baseline *now)
{
    vw_check_report *report;
    int exit_status = EXIT_DONE;
    vw_status status = vw_baselines_compare(before, now, &order->limits, &report);
    if (status == VW_OK) {
        vw_report_form form = recording_command_form(order->path, order->has_json);
        form.other_file = order->baseline_path;
        form.most_rows = order->most_rows;
        status = vw_report_check(report, &form, &recording_command_output);
        exit_status = report->is_worse ? EXIT_SOMETHING_TO_SEE : EXIT_DONE;
        vw_check_report_free(report);
    }
    return status == VW_OK ? exit_status
                           : recording_command_fail(command_name, order->path, status);
}

static int compare(const char *command_name, const check_order *order)
{
    vw_baseline *before, *now;
    vw_status status = vw_baseline_read(order->baseline_path, &before);
    if (status != VW_OK)
        return recording_command_fail(command_name, order->baseline_path, status);
    int exit_status = measure(command_name, order, before, &now);
    if (exit_status == EXIT_DONE) {
        exit_status = show_comparison(command_name, order, before, now);
        vw_baseline_free(now);
    }
    vw_baseline_free(before);
    return exit_status;
}

/* EXIT_DONE: the options go together. */
static int look_at_order(const char *command_name, const check_order *order, const char *max_growth)
{
    if (order->baseline_path == NULL && order->written_path == NULL)
        return arguments_refuse(command_name, "expected --baseline FILE, or --write-baseline FILE "
                                              "to make one");
    if (order->baseline_path != NULL && order->written_path != NULL)
        return arguments_refuse(command_name,
                                "--baseline compares and --write-baseline writes: expected one");
    if (order->written_path != NULL && (max_growth != NULL || order->has_json))
        return arguments_refuse(command_name, "--write-baseline compares nothing: expected no %s",
                                max_growth != NULL ? "--max-growth" : "--json");
    const char *path = order->baseline_path != NULL ? order->baseline_path : order->written_path;
    if (path[0] == '\0') /* as an unset variable in a script leaves it */
        return arguments_refuse(command_name, "the name of the baseline is empty");
    if (order->written_path != NULL && strcmp(path, "-") == 0)
        return arguments_refuse(command_name, "--write-baseline: expected the name of a file");
    if (order->written_path != NULL && view_file_is(path, order->path))
        return arguments_refuse(command_name,
                                "the baseline would overwrite the recording; choose another name "
                                "with --write-baseline");
    if (order->baseline_path != NULL && strcmp(path, "-") == 0 && strcmp(order->path, "-") == 0)
        return arguments_refuse(command_name, "standard input can be one of the files, not both");
    return EXIT_DONE;
}

int command_check(int argc, char **argv)
{
    check_order order = {.path = NULL};
    const char *top = NULL, *max_growth = NULL;
    const argument_option options[] = {
        {.name = "baseline", .value = &order.baseline_path},
        {.name = "json", .is_given = &order.has_json},
        {.name = "max-growth", .value = &max_growth},
        {.name = "top", .value = &top},
        {.name = "write-baseline", .value = &order.written_path},
    };
    if (!arguments_parse_one(options, sizeof options / sizeof options[0], argc, argv, "file",
                             &order.path) ||
        !recording_command_read_top(argv[0], top, &order.most_rows))
        return EXIT_WRONG_USAGE;
    vw_check_limits_init(&order.limits);
    if (max_growth != NULL && vw_check_limits_parse(max_growth, &order.limits) != VW_OK)
        return arguments_refuse(argv[0], "--max-growth: %s", vw_last_error());
    int exit_status = look_at_order(argv[0], &order, max_growth);
    if (exit_status != EXIT_DONE)
        return exit_status;
    return order.written_path != NULL ? write_baseline(argv[0], &order) : compare(argv[0], &order);
}
