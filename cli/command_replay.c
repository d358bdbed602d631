/* command_replay.c - `vramwise replay FILE`: the same requests under other settings, on other
 * cards.
 *
 * What to run is said with --policy and --conf, in any number; without either the library chooses
 * what people want to see side by side. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/analysis.h"
#include "vramwise/report.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"

#define MOST_RUNS (2 * ARGUMENTS_MOST_VALUES)

typedef struct replay_order {
    vw_replay_options options;
    vw_replay_run runs[MOST_RUNS];
    char policies[1024]; /* what --policy said, cut at its commas */
    bool has_json;
} replay_order;

/* "native,expandable": one run each. */
static bool add_policies(replay_order *order, const char *command_name, const char *text)
{
    if (text == NULL)
        return true;
    if (strlen(text) >= sizeof order->policies) {
        arguments_refuse(command_name, "--policy: the list is longer than %zu letters",
                         sizeof order->policies - 1);
        return false;
    }
    memcpy(order->policies, text, strlen(text) + 1);
    char *rest = order->policies;
    while (rest != NULL) {
        const char *policy = strsep(&rest, ",");
        if (policy[0] == '\0') {
            arguments_refuse(command_name, "--policy: expected names with commas between, not '%s'",
                             text);
            return false;
        }
        if (strcmp(policy, "conf") == 0) {
            arguments_refuse(command_name, "--policy: a setting of your own is given with --conf");
            return false;
        }
        if (order->options.run_count == ARGUMENTS_MOST_VALUES) {
            arguments_refuse(command_name, "--policy: more than %d names", ARGUMENTS_MOST_VALUES);
            return false;
        }
        order->runs[order->options.run_count++].policy = policy;
    }
    return true;
}

static void add_confs(replay_order *order, const argument_values *confs)
{
    for (size_t i = 0; i < confs->count; i++)
        order->runs[order->options.run_count++] = (vw_replay_run){"conf", confs->items[i]};
}

/* step, phase, every how many steps; or never. */
static bool read_empty_cache(replay_order *order, const char *command_name, const char *text)
{
    uint64_t every = 0;
    if (text == NULL)
        return true;
    if (strcmp(text, "never") == 0) {
        order->options.empty_cache = VW_EMPTY_CACHE_NEVER;
    } else if (strcmp(text, "step") == 0) {
        order->options.empty_cache = VW_EMPTY_CACHE_STEPS;
        every = 1;
    } else if (strcmp(text, "phase") == 0) {
        order->options.empty_cache = VW_EMPTY_CACHE_PHASES;
    } else if (arguments_read_number(text, &every) && every > 0) {
        order->options.empty_cache = VW_EMPTY_CACHE_STEPS;
    } else {
        arguments_refuse(
            command_name,
            "--empty-cache: expected step, phase, never or a number of steps, not '%s'", text);
        return false;
    }
    order->options.empty_cache_every = every;
    return true;
}

static vw_status replay(const vw_recording *recording, vw_replay_options *options,
                        vw_replay_report **report)
{
    progress line;
    progress_begin_counting(&line, "replaying");
    options->progress = progress_show;
    options->progress_context = &line;
    vw_status status = vw_recording_replay(recording, options, report);
    progress_end(&line);
    return status;
}

static int exit_status_of(const vw_replay_report *report)
{
    for (size_t i = 0; i < report->result_count; i++)
        if (!report->results[i].is_complete)
            return EXIT_SOMETHING_TO_SEE;
    return EXIT_DONE;
}

static int show_replay(const char *command_name, const char *path, replay_order *order)
{
    vw_recording *recording;
    vw_replay_report *report;
    int exit_status = recording_command_open(command_name, path, &recording);
    if (exit_status != EXIT_DONE)
        return exit_status;
    vw_status status = replay(recording, &order->options, &report);
    if (status == VW_OK) {
        const vw_report_form form = recording_command_form(path, order->has_json);
        status = vw_report_replay(report, &form, &recording_command_output);
        exit_status = exit_status_of(report);
        vw_replay_report_free(report);
    }
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, path, status);
    vw_recording_close(recording);
    return exit_status;
}

int command_replay(int argc, char **argv)
{
    static replay_order order; /* large for a stack */
    static argument_values confs;
    const char *policies = NULL, *card = NULL, *empty_cache = NULL, *device = NULL, *spill = NULL;
    const argument_option options[] = {
        {.name = "card", .value = &card},
        {.name = "conf", .values = &confs},
        {.name = "device", .value = &device},
        {.name = "empty-cache", .value = &empty_cache},
        {.name = "json", .is_given = &order.has_json},
        {.name = "policy", .value = &policies},
        {.name = "smallest-card", .is_given = &order.options.find_smallest_card},
        {.name = "spill", .value = &spill},
        {.name = "stream", .is_given = &order.options.stream},
        {.name = "torch", .value = &order.options.torch_version},
    };
    const char *path = NULL;
    order.options.struct_size = sizeof order.options;
    if (!arguments_parse_one(options, sizeof options / sizeof options[0], argc, argv, "file",
                             &path))
        return EXIT_WRONG_USAGE;
    if (!add_policies(&order, argv[0], policies) ||
        !read_empty_cache(&order, argv[0], empty_cache) ||
        !recording_command_read_device(argv[0], device, &order.options.device) ||
        !recording_command_read_card(argv[0], card, &order.options.card_bytes, NULL) ||
        (spill != NULL &&
         !recording_command_read_size(argv[0], "spill", spill, &order.options.spill_bytes)))
        return EXIT_WRONG_USAGE;
    if (order.options.stream && spill == NULL) {
        arguments_refuse(argv[0], "--stream needs --spill SIZE: the host memory that data may go "
                                  "to");
        return EXIT_WRONG_USAGE;
    }
    add_confs(&order, &confs);
    order.options.runs = order.options.run_count > 0 ? order.runs : NULL;
    return show_replay(argv[0], path, &order);
}
