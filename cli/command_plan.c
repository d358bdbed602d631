/* command_plan.c - makes the plan that `vramwise plan` is asked for, and prints it. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "vramwise/plan.h"
#include "vramwise/report.h"

#include "arguments.h"
#include "command.h"
#include "plan_arguments.h"
#include "plan_trace.h"
#include "progress.h"
#include "recording_command.h"
#include "view_file.h" /* view_file_is */

#define PLANNING "planning"

static int show_list(const char *command_name, const plan_order *order)
{
    const vw_report_form form = recording_command_form("", order->has_json);
    vw_status status = vw_report_plan_known(&form, &recording_command_output);
    return status == VW_OK ? EXIT_DONE : recording_command_fail(command_name, "--list", status);
}

/* EXIT_DONE, or the reason is on standard error: the plan was shown all the same. */
static int write_planned(const char *command_name, const plan_order *order,
                         const vw_plan_model *model)
{
    if (order->write == NULL)
        return EXIT_DONE;
    vw_status status = vw_plan_write_recording(model, &order->settings, order->write);
    return status == VW_OK ? EXIT_DONE : recording_command_fail(command_name, order->write, status);
}

static vw_status show_plan(const plan_order *order, const vw_plan_model *model, int *exit_status)
{
    vw_plan *plan;
    vw_report_form form = recording_command_form(order->model, order->has_json);
    progress line;
    progress_begin_counting(&line, PLANNING);
    vw_status status = vw_plan_make(model, &order->settings, NULL, &plan);
    progress_end(&line);
    if (status != VW_OK)
        return status;
    form.most_rows = order->most_rows;
    status = vw_report_plan(plan, &form, &recording_command_output);
    const bool is_good =
        plan->verdict == VW_PLAN_VERDICT_NO_CARD || plan->verdict == VW_PLAN_VERDICT_FITS;
    *exit_status = is_good ? EXIT_DONE : EXIT_SOMETHING_TO_SEE;
    vw_plan_free(plan);
    return status;
}

/* Shows it and takes it over; `status` is how it was made. */
static int show_scaled(const char *command_name, const plan_order *order, const char *name,
                       vw_status status, vw_plan_scaled *scaled)
{
    vw_report_form form = recording_command_form(name, order->has_json);
    int exit_status = EXIT_DONE;
    form.most_rows = order->most_rows;
    if (status == VW_OK)
        status = vw_report_plan_scaled(scaled, &form, &recording_command_output);
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, name, status);
    else if (scaled->is_card_known && !scaled->fits)
        exit_status = EXIT_SOMETHING_TO_SEE;
    vw_plan_scaled_free(scaled);
    return exit_status;
}

static int plan_from(const char *command_name, const plan_order *order)
{
    vw_recording *recording;
    vw_plan_scaled *scaled = NULL;
    int exit_status = recording_command_open(command_name, order->from, &recording);
    if (exit_status != EXIT_DONE)
        return exit_status;
    progress line;
    progress_begin_counting(&line, PLANNING);
    vw_status status = vw_plan_from_recording(recording, &order->scaling, &scaled);
    progress_end(&line);
    exit_status = show_scaled(command_name, order, order->from, status, scaled);
    vw_recording_close(recording);
    return exit_status;
}

/* `name` is what a message calls the trace at `path`. */
static int plan_traced(const char *command_name, const plan_order *order, const char *path,
                       const char *name)
{
    vw_plan_traced *traced = NULL;
    vw_plan_scaled *scaled = NULL;
    progress line;
    progress_begin_counting(&line, PLANNING);
    vw_status status = vw_plan_traced_open(path, order->settings.card_name, &traced);
    if (status == VW_OK)
        status = vw_plan_from_traced(traced, &order->scaling, &scaled);
    progress_end(&line);
    if (traced == NULL)
        return recording_command_fail(command_name, name, status);
    int exit_status = show_scaled(command_name, order, name, status, scaled);
    if (order->write != NULL && exit_status <= EXIT_SOMETHING_TO_SEE) {
        status = vw_plan_traced_write(traced, order->write);
        if (status != VW_OK)
            exit_status = recording_command_fail(command_name, order->write, status);
    }
    vw_plan_traced_close(traced);
    return exit_status;
}

static int plan_script(const char *command_name, const plan_order *order)
{
    const plan_trace_order wanted = {.script = order->script,
                                     .arguments = order->arguments,
                                     .argument_count = order->argument_count,
                                     .steps = order->steps,
                                     .share = order->share,
                                     .card_name = order->settings.card_name,
                                     .card_bytes = order->scaling.card_bytes};
    plan_trace_file file;
    int exit_status = plan_trace_make(command_name, &wanted, &file);
    if (exit_status != EXIT_DONE)
        return exit_status;
    exit_status = plan_traced(command_name, order, file.path, order->script);
    plan_trace_remove(&file);
    return exit_status;
}

/* A model is a file, or a folder with one. */
static bool writes_over_input(const plan_order *order)
{
    const char *const inputs[] = {order->model, order->traced, order->script};
    char config[PATH_MAX];
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        if (view_file_is(order->write, inputs[i]))
            return true;
    if (order->model == NULL)
        return false;
    int length = snprintf(config, sizeof config, "%s/config.json", order->model);
    return length > 0 && (size_t)length < sizeof config && view_file_is(order->write, config);
}

int command_plan(int argc, char **argv)
{
    plan_order order = {.model = NULL};
    vw_plan_model *model;
    int exit_status = plan_arguments_read(argc, argv, &order);
    if (exit_status != EXIT_DONE)
        return exit_status;
    if (order.write != NULL && writes_over_input(&order))
        return arguments_refuse(argv[0], "the recording would overwrite the file that is planned; "
                                         "choose another name with --write-trace");
    if (order.has_list)
        return show_list(argv[0], &order);
    if (order.from != NULL)
        return plan_from(argv[0], &order);
    if (order.traced != NULL)
        return plan_traced(argv[0], &order, order.traced, order.traced);
    if (order.script != NULL)
        return plan_script(argv[0], &order);
    vw_status status = vw_plan_model_open(order.model, &model);
    if (status != VW_OK)
        return recording_command_fail(argv[0], order.model, status);
    status = show_plan(&order, model, &exit_status);
    if (status != VW_OK)
        exit_status = recording_command_fail(argv[0], order.model, status);
    else if (write_planned(argv[0], &order, model) != EXIT_DONE)
        exit_status = EXIT_COULD_NOT;
    vw_plan_model_close(model);
    return exit_status;
}
