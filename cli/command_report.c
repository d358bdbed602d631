/* command_report.c - `vramwise report`: the recordings and logs of one job, rank by rank, or of
 * many (report_jobs.c). */
#include <stdbool.h>

#include "vramwise/ranks.h"
#include "vramwise/report.h"
#include "vramwise/view.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"
#include "report_jobs.h"
#include "report_output.h"
#include "view_file.h"

typedef struct report_order {
    const char *folder;
    const char *page_name; /* NULL: none */
    const char *torch_version;
    size_t most_rows;
    bool has_json;
} report_order;

static vw_status examine(const report_order *order, vw_ranks_report **report)
{
    progress line;
    progress_begin(&line, "examining");
    const vw_ranks_options options = {
        .struct_size = sizeof options,
        .torch_version = order->torch_version,
        .progress = progress_show,
        .progress_context = &line,
    };
    vw_status status = vw_ranks_examine(order->folder, &options, report);
    progress_end(&line);
    return status;
}

/* ---- the page -------------------------------------------------------------------------------- */

static vw_status write_view(const void *made, const vw_output *output)
{
    return vw_view_write_page(made, output);
}

static int write_page(const char *command_name, const report_order *order,
                      const vw_ranks_report *report, view_place place)
{
    vw_view *view = NULL;
    vw_status status = vw_view_make_ranks(report, order->folder, &view);
    if (status != VW_OK)
        return recording_command_fail(command_name, order->folder, status);
    const view_file_content content = {view, write_view};
    int exit_status = report_output_put(
        command_name, &content,
        &(report_output){.name = order->page_name,
                         .source = order->folder,
                         .place = place,
                         .is_quiet = order->has_json || recording_command_is_csv()});
    vw_view_free(view);
    return exit_status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int show_report(const char *command_name, const report_order *order,
                       const vw_ranks_report *report, view_place place)
{
    int exit_status = EXIT_DONE;
    if (order->page_name != NULL)
        exit_status = write_page(command_name, order, report, place);
    if (exit_status == EXIT_DONE && !report_output_is_standard(order->page_name)) {
        vw_report_form form = recording_command_form(order->folder, order->has_json);
        form.most_rows = order->most_rows;
        vw_status status = vw_report_ranks(report, &form, &recording_command_output);
        if (status != VW_OK)
            exit_status = recording_command_fail(command_name, order->folder, status);
    }
    if (exit_status == EXIT_DONE && report->is_something_to_see)
        exit_status = EXIT_SOMETHING_TO_SEE;
    return exit_status;
}

/* The place of the page is looked at first: what cannot be had is said at once. */
static int report_on(const char *command_name, const report_order *order)
{
    view_place place = VIEW_PLACE_FREE;
    vw_ranks_report *report = NULL;
    if (order->page_name != NULL && !report_output_is_standard(order->page_name)) {
        place = view_file_look(order->page_name, NULL, NULL);
        int exit_status = report_output_check(command_name, order->page_name, place);
        if (exit_status != EXIT_DONE)
            return exit_status;
    }
    vw_status status = examine(order, &report);
    if (status != VW_OK)
        return recording_command_fail(command_name, order->folder, status);
    int exit_status = show_report(command_name, order, report, place);
    vw_ranks_report_free(report);
    return exit_status;
}

/* Does the user mean many jobs? What only they have says so. */
static bool is_about_jobs(const report_jobs_order *jobs)
{
    return jobs->is_wanted || fleet_order_is_about_jobs(&jobs->jobs) ||
           (jobs->output_name != NULL && report_jobs_is_table_name(jobs->output_name));
}

int command_report(int argc, char **argv)
{
    report_jobs_order jobs = {.is_wanted = false};
    fleet_order *fleet = &jobs.jobs;
    const char *top = NULL;
    int first;
    const argument_option options[] = {
        {.name = "jobs", .is_given = &jobs.is_wanted},
        {.name = "json", .is_given = &jobs.has_json},
        {.name = "merge", .is_given = &fleet->is_merge},
        {.name = "output", .letter = 'o', .value = &jobs.output_name},
        {.name = "share", .value = &fleet->share},
        {.name = "state", .value = &fleet->state_folder},
        {.name = "top", .value = &top},
        {.name = "torch", .value = &fleet->torch_version},
    };
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first))
        return EXIT_WRONG_USAGE;
    fleet->sources = (const char *const *)argv + first;
    fleet->source_count = (size_t)(argc - first);
    int exit_status = fleet_order_check_sources(argv[0], fleet);
    if (exit_status != EXIT_DONE)
        return exit_status;
    if (jobs.output_name != NULL && jobs.output_name[0] == '\0')
        return arguments_refuse(argv[0], "-o: the name of the page is empty");
    if ((jobs.has_json || recording_command_is_csv()) &&
        report_output_is_standard(jobs.output_name))
        return arguments_refuse(argv[0], "--%s and the page of -o - both go to standard output",
                                jobs.has_json ? "json" : "csv");
    if (!recording_command_read_top(argv[0], top, &jobs.most_rows))
        return EXIT_WRONG_USAGE;
    if (is_about_jobs(&jobs))
        return report_jobs(argv[0], &jobs);
    const report_order order = {.folder = fleet->sources[0],
                                .page_name = jobs.output_name,
                                .torch_version = fleet->torch_version,
                                .most_rows = jobs.most_rows,
                                .has_json = jobs.has_json};
    return report_on(argv[0], &order);
}
