/* command_verify.c - `vramwise verify FILE`: does what PyTorch recorded come out again? */
#include <stdbool.h>

#include "vramwise/analysis.h"
#include "vramwise/report.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"

static vw_status verify(const vw_recording *recording, vw_verify_options *options,
                        vw_verify_result **result)
{
    progress line;
    progress_begin_counting(&line, "verifying");
    options->progress = progress_show;
    options->progress_context = &line;
    vw_status status = vw_recording_verify(recording, options, result);
    progress_end(&line);
    return status;
}

static int show_verdict(const char *command_name, const char *path, vw_verify_options *options,
                        bool has_json)
{
    vw_recording *recording;
    vw_verify_result *result;
    int exit_status = recording_command_open(command_name, path, &recording);
    if (exit_status != EXIT_DONE)
        return exit_status;
    vw_status status = verify(recording, options, &result);
    if (status == VW_OK) {
        const vw_report_form form = recording_command_form(path, has_json);
        status = vw_report_verify(result, &form, &recording_command_output);
        exit_status = result->is_exact ? EXIT_DONE : EXIT_SOMETHING_TO_SEE;
        vw_verify_result_free(result);
    }
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, path, status);
    vw_recording_close(recording);
    return exit_status;
}

int command_verify(int argc, char **argv)
{
    bool has_json = false;
    vw_verify_options order = {.struct_size = sizeof order};
    const argument_option options[] = {
        {.name = "expect", .value = &order.expect_path},
        {.name = "json", .is_given = &has_json},
        {.name = "torch", .value = &order.torch_version},
    };
    const char *path = NULL;
    if (!arguments_parse_one(options, sizeof options / sizeof options[0], argc, argv, "file",
                             &path))
        return EXIT_WRONG_USAGE;
    return show_verdict(argv[0], path, &order, has_json);
}
