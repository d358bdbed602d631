/* report_jobs.c - has many jobs examined, and shows what was found. */
#include "report_jobs.h"

#include <string.h>

#include "vramwise/report.h"

#include "command.h"
#include "progress.h"
#include "recording_command.h"
#include "report_output.h"
#include "report_table.h"

bool report_jobs_is_table_name(const char *name)
{
    static const char *const endings[] = {".sqlite", ".sqlite3", ".db"};
    size_t name_bytes = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t ending_bytes = strlen(endings[i]);
        if (name_bytes > ending_bytes && strcmp(name + name_bytes - ending_bytes, endings[i]) == 0)
            return true;
    }
    return false;
}

static vw_status examine(const report_jobs_order *order, const vw_fleet_options *asked,
                         vw_fleet_report **report)
{
    progress line;
    vw_fleet_options options = *asked;
    if (order->jobs.is_merge)
        return vw_fleet_merge(order->jobs.sources, order->jobs.source_count, report);
    progress_begin(&line, "examining");
    options.progress = progress_show;
    options.progress_context = &line;
    vw_status status = vw_fleet_examine(order->jobs.sources[0], &options, report);
    progress_end(&line);
    return status;
}

static vw_status write_page(const void *made, const vw_output *output)
{
    return vw_report_fleet_page(made, output);
}

static int write_output(const char *command_name, const report_jobs_order *order,
                        const vw_fleet_report *report, view_place place)
{
    const view_file_content content = {report, write_page};
    const report_output where = {order->output_name, order->jobs.sources[0], place,
                                 order->has_json || recording_command_is_csv()};
    if (!report_jobs_is_table_name(order->output_name))
        return report_output_put(command_name, &content, &where);
    return report_table_write(command_name, report, order->output_name) ? EXIT_DONE
                                                                        : EXIT_COULD_NOT;
}

static int show(const char *command_name, const report_jobs_order *order,
                const vw_fleet_report *report, view_place place)
{
    int exit_status = EXIT_DONE;
    if (order->jobs.share != NULL)
        return fleet_order_show_share(
            &order->jobs,
            &(fleet_order_share){report->share_count, report->unit_count, report->examined_count});
    if (order->output_name != NULL)
        exit_status = write_output(command_name, order, report, place);
    if (exit_status == EXIT_DONE && !report_output_is_standard(order->output_name)) {
        vw_report_form form = recording_command_form(order->jobs.sources[0], order->has_json);
        form.most_rows = order->most_rows;
        vw_status status = vw_report_fleet(report, &form, &recording_command_output);
        if (status != VW_OK)
            exit_status = fleet_order_fail(command_name, &order->jobs, status);
    }
    if (exit_status == EXIT_DONE && report->is_something_to_see)
        exit_status = EXIT_SOMETHING_TO_SEE;
    return exit_status;
}

/* The place of a page or a table is looked at first: what cannot be had is said at once. */
static int check_output(const char *command_name, const char *name, view_place *place)
{
    *place = VIEW_PLACE_FREE;
    if (name == NULL || report_output_is_standard(name))
        return EXIT_DONE;
    if (report_jobs_is_table_name(name))
        return report_table_check(command_name, name) ? EXIT_DONE : EXIT_COULD_NOT;
    *place = view_file_look(name, NULL, NULL);
    return report_output_check(command_name, name, *place);
}

int report_jobs(const char *command_name, const report_jobs_order *order)
{
    vw_fleet_options options;
    view_place place;
    vw_fleet_report *report = NULL;
    bool has_output = order->output_name != NULL || order->has_json || recording_command_is_csv();
    int exit_status = fleet_order_check(command_name, &order->jobs, has_output, &options);
    if (exit_status == EXIT_DONE)
        exit_status = check_output(command_name, order->output_name, &place);
    if (exit_status != EXIT_DONE)
        return exit_status;
    vw_status status = examine(order, &options, &report);
    if (status != VW_OK)
        return fleet_order_fail(command_name, &order->jobs, status);
    exit_status = show(command_name, order, report, place);
    vw_fleet_report_free(report);
    return exit_status;
}
