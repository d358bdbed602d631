/* command_tune.c - `vramwise tune FILE --card CARD`: the setting under which it fits; with --all,
 * the setting for many jobs (tune_jobs.c). */
#include <stdbool.h>

#include "vramwise/analysis.h"
#include "vramwise/plan.h"
#include "vramwise/report.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"
#include "tune_jobs.h"

static vw_status tune(const vw_recording *recording, vw_tune_options *options,
                      vw_tune_report **report)
{
    progress line;
    progress_begin_counting(&line, "trying settings");
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

/* ---- the command line ------------------------------------------------------------------------ */

typedef struct tune_words {
    const char *card, *device, *top, *torch_version;
    bool is_all, has_json;
    fleet_order jobs;
} tune_words;

/* Reads the card, which both forms need. EXIT_DONE, or the message is on standard error. */
static int read_card(const char *command_name, const tune_words *words, uint64_t *card_bytes,
                     bool *is_whole_card)
{
    const char *card_name = NULL;
    if (words->card == NULL)
        return arguments_refuse(command_name,
                                "--card is needed: what to fit into, such as 24GiB or rtx4090");
    if (!recording_command_read_card(command_name, words->card, card_bytes, &card_name))
        return EXIT_WRONG_USAGE;
    *is_whole_card = card_name != NULL;
    return EXIT_DONE;
}

static int tune_all(const char *command_name, tune_words *words)
{
    tune_jobs_order order = {.jobs = words->jobs, .has_json = words->has_json};
    order.options = (vw_fleet_tune_options){.struct_size = sizeof order.options,
                                            .context_bytes = vw_plan_card_context_bytes()};
    order.jobs.torch_version = words->torch_version;
    if (words->device != NULL)
        return arguments_refuse(command_name,
                                "--device: each recording of --all has the device with the most "
                                "events");
    if (order.jobs.is_merge && words->card != NULL)
        return arguments_refuse(command_name, "--merge reads states, whose card is known");
    int exit_status = fleet_order_check_sources(command_name, &order.jobs);
    if (exit_status == EXIT_DONE && !order.jobs.is_merge)
        exit_status =
            read_card(command_name, words, &order.options.card_bytes, &order.options.is_whole_card);
    if (exit_status != EXIT_DONE)
        return exit_status;
    if (!recording_command_read_top(command_name, words->top, &order.most_rows))
        return EXIT_WRONG_USAGE;
    return tune_jobs(command_name, &order);
}

static int tune_one(const char *command_name, const tune_words *words)
{
    vw_tune_options order = {.struct_size = sizeof order,
                             .torch_version = words->torch_version,
                             .context_bytes = vw_plan_card_context_bytes()};
    if (words->jobs.state_folder != NULL || words->jobs.share != NULL || words->top != NULL)
        return arguments_refuse(command_name, "--share, --state and --top go with --all");
    if (words->jobs.source_count != 1)
        return arguments_refuse(command_name, "expected one file, not %zu",
                                words->jobs.source_count);
    int exit_status = read_card(command_name, words, &order.card_bytes, &order.is_whole_card);
    if (exit_status != EXIT_DONE)
        return exit_status;
    if (!recording_command_read_device(command_name, words->device, &order.device))
        return EXIT_WRONG_USAGE;
    return show_tuning(command_name, words->jobs.sources[0], &order, words->has_json);
}

int command_tune(int argc, char **argv)
{
    tune_words words = {.card = NULL};
    int first;
    const argument_option options[] = {
        {.name = "all", .is_given = &words.is_all},
        {.name = "card", .value = &words.card},
        {.name = "device", .value = &words.device},
        {.name = "json", .is_given = &words.has_json},
        {.name = "merge", .is_given = &words.jobs.is_merge},
        {.name = "share", .value = &words.jobs.share},
        {.name = "state", .value = &words.jobs.state_folder},
        {.name = "top", .value = &words.top},
        {.name = "torch", .value = &words.torch_version},
    };
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first))
        return EXIT_WRONG_USAGE;
    words.jobs.sources = (const char *const *)argv + first;
    words.jobs.source_count = (size_t)(argc - first);
    return words.is_all || words.jobs.is_merge ? tune_all(argv[0], &words)
                                               : tune_one(argv[0], &words);
}
