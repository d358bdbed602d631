/* command_stats.c - `vramwise stats FILE`: what is in a recording. */
#include <stdbool.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "vramwise/report.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"

typedef struct stats_order {
    const char *path;
    const char *torch_version;
    size_t most_rows;
    bool has_json, has_stacks, has_no_summary;
} stats_order;

static int show_stats(const char *command_name, const stats_order *order)
{
    vw_recording *recording;
    vw_recording_stats *stats;
    int exit_status = recording_command_open(command_name, order->path, &recording);
    if (exit_status != EXIT_DONE)
        return exit_status;
    const vw_stats_options options = {
        .struct_size = sizeof options,
        .torch_version = order->torch_version,
        .most_usages = order->most_rows == SIZE_MAX ? 0 : order->most_rows,
        .without_summary = order->has_no_summary,
    };
    progress line;
    progress_begin_counting(&line, "counting");
    vw_status status = vw_recording_stats_make(recording, &options, &stats);
    progress_end(&line);
    if (status == VW_OK) {
        vw_report_form form = recording_command_form(order->path, order->has_json);
        form.most_rows = order->most_rows;
        form.has_stacks = order->has_stacks;
        status = vw_report_stats(stats, &form, &recording_command_output);
        vw_recording_stats_free(stats);
    }
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, order->path, status);
    vw_recording_close(recording);
    return exit_status;
}

int command_stats(int argc, char **argv)
{
    stats_order order = {0};
    const char *top = NULL;
    const argument_option options[] = {
        {.name = "json", .is_given = &order.has_json},
        {.name = "no-summary", .is_given = &order.has_no_summary},
        {.name = "stacks", .is_given = &order.has_stacks},
        {.name = "top", .value = &top},
        {.name = "torch", .value = &order.torch_version},
    };
    if (!arguments_parse_one(options, sizeof options / sizeof options[0], argc, argv, "file",
                             &order.path))
        return EXIT_WRONG_USAGE;
    if (!recording_command_read_top(argv[0], top, &order.most_rows))
        return EXIT_WRONG_USAGE;
    return show_stats(argv[0], &order);
}
