/* tune_jobs.c - has settings tried on many jobs, and shows what came of it. */
#include "tune_jobs.h"

#include "vramwise/report.h"

#include "command.h"
#include "progress.h"
#include "recording_command.h"

static vw_status tune(const tune_jobs_order *order, vw_fleet_options *fleet,
                      vw_fleet_tuning **tuning)
{
    progress line;
    vw_fleet_tune_options options = order->options;
    if (order->jobs.is_merge)
        return vw_fleet_tune_merge(order->jobs.sources, order->jobs.source_count, tuning);
    progress_begin(&line, "trying settings");
    fleet->progress = progress_show;
    fleet->progress_context = &line;
    options.fleet = fleet;
    vw_status status = vw_fleet_tune(order->jobs.sources[0], &options, tuning);
    progress_end(&line);
    return status;
}

static int show(const char *command_name, const tune_jobs_order *order,
                const vw_fleet_tuning *tuning)
{
    vw_report_form form = recording_command_form(order->jobs.sources[0], order->has_json);
    if (order->jobs.share != NULL)
        return fleet_order_show_share(
            &order->jobs,
            &(fleet_order_share){tuning->share_count, tuning->unit_count, tuning->examined_count});
    form.most_rows = order->most_rows;
    vw_status status = vw_report_fleet_tune(tuning, &form, &recording_command_output);
    if (status != VW_OK)
        return fleet_order_fail(command_name, &order->jobs, status);
    return tuning->is_something_to_see ? EXIT_SOMETHING_TO_SEE : EXIT_DONE;
}

int tune_jobs(const char *command_name, const tune_jobs_order *order)
{
    vw_fleet_options fleet;
    vw_fleet_tuning *tuning = NULL;
    bool has_output = order->has_json || recording_command_is_csv();
    int exit_status = fleet_order_check(command_name, &order->jobs, has_output, &fleet);
    if (exit_status != EXIT_DONE)
        return exit_status;
    vw_status status = tune(order, &fleet, &tuning);
    if (status != VW_OK)
        return fleet_order_fail(command_name, &order->jobs, status);
    exit_status = show(command_name, order, tuning);
    vw_fleet_tuning_free(tuning);
    return exit_status;
}
