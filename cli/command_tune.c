/* command_tune.c - `vramwise tune FILE --card CARD`: the setting under which it fits. */
#include <stdbool.h>

#include "vramwise/analysis.h"
#include "vramwise/report.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"

static vw_status tune(const vw_recording *recording, vw_tune_options *options,
                      vw_tune_report **report)
{
    progress line;
    progress_begin(&line, "trying settings");
    options->progress = progress_show;
    options->progress_context = &line;
    vw_status status = vw_recording_tune(recording, options, report);
    progress_end(&line);
    return status;
}

static int show_tuning(const char *command_name, const char *path, vw_tune_options *options,
                       bool has_json)
{
    vw_recording *recording;
    vw_tune_report *report;
    int exit_status = recording_command_open(command_name, path, &recording);
    if (exit_status != EXIT_DONE)
        return exit_status;
    vw_status status = tune(recording, options, &report);
    if (status == VW_OK) {
        const vw_report_form form = recording_command_form(path, has_json);
        status = vw_report_tune(report, &form, &recording_command_output);
        exit_status = report->fits ? EXIT_DONE : EXIT_SOMETHING_TO_SEE;
        vw_tune_report_free(report);
    }
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, path, status);
    vw_recording_close(recording);
    return exit_status;
}

int command_tune(int argc, char **argv)
{
    bool has_json = false;
    const char *card = NULL, *device = NULL;
    vw_tune_options order = {.struct_size = sizeof order};
    const argument_option options[] = {
        {.name = "card", .value = &card},
        {.name = "device", .value = &device},
        {.name = "json", .is_given = &has_json},
        {.name = "torch", .value = &order.torch_version},
    };
    const char *path = NULL;
    if (!arguments_parse_one(options, sizeof options / sizeof options[0], argc, argv, "file",
                             &path))
        return EXIT_WRONG_USAGE;
    if (card == NULL)
        return arguments_refuse(argv[0],
                                "--card is needed: what to fit into, such as 24GiB or rtx4090");
    if (!recording_command_read_card(argv[0], card, &order.card_bytes, NULL) ||
        !recording_command_read_device(argv[0], device, &order.device))
        return EXIT_WRONG_USAGE;
    return show_tuning(argv[0], path, &order, has_json);
}
