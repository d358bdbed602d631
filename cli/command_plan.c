/* command_plan.c - `vramwise plan --model M ...`: what a run will take, and what makes it fit; with
 * `--from FILE` that of a recorded run at another batch and length. */
#include <stdbool.h>
#include <stdio.h>

#include "vramwise/plan.h"
#include "vramwise/report.h"

#include "arguments.h"
#include "command.h"
#include "plan_arguments.h"
#include "recording_command.h"

static int show_list(const char *command_name, const plan_order *order)
{
    const vw_report_form form = recording_command_form("", order->has_json);
    vw_status status = vw_report_plan_known(&form, &recording_command_output);
    return status == VW_OK ? EXIT_DONE : recording_command_fail(command_name, "--list", status);
}

/* EXIT_DONE, or the reason is on standard error: the plan was shown all the same. */
static int write_trace(const char *command_name, const plan_order *order,
                       const vw_plan_model *model)
{
    if (order->trace == NULL)
        return EXIT_DONE;
    vw_status status = vw_plan_write_recording(model, &order->settings, order->trace);
    return status == VW_OK ? EXIT_DONE : recording_command_fail(command_name, order->trace, status);
}

static vw_status show_plan(const plan_order *order, const vw_plan_model *model, int *exit_status)
{
    vw_plan *plan;
    vw_report_form form = recording_command_form(order->model, order->has_json);
    vw_status status = vw_plan_make(model, &order->settings, NULL, &plan);
    if (status != VW_OK)
        return status;
    form.most_rows = order->most_rows;
    status = vw_report_plan(plan, &form, &recording_command_output);
    *exit_status = plan->is_card_known && !plan->fits ? EXIT_SOMETHING_TO_SEE : EXIT_DONE;
    vw_plan_free(plan);
    return status;
}

static int plan_from(const char *command_name, const plan_order *order)
{
    vw_recording *recording;
    vw_plan_scaled *scaled = NULL;
    vw_report_form form = recording_command_form(order->from, order->has_json);
    int exit_status = recording_command_open(command_name, order->from, &recording);
    if (exit_status != EXIT_DONE)
        return exit_status;
    form.most_rows = order->most_rows;
    vw_status status = vw_plan_from_recording(recording, &order->scaling, &scaled);
    if (status == VW_OK)
        status = vw_report_plan_scaled(scaled, &form, &recording_command_output);
    if (status != VW_OK)
        exit_status = recording_command_fail(command_name, order->from, status);
    else if (scaled->is_card_known && !scaled->fits)
        exit_status = EXIT_SOMETHING_TO_SEE;
    vw_plan_scaled_free(scaled);
    vw_recording_close(recording);
    return exit_status;
}

int command_plan(int argc, char **argv)
{
    plan_order order = {.model = NULL};
    vw_plan_model *model;
    int exit_status = plan_arguments_read(argc, argv, &order);
    if (exit_status != EXIT_DONE)
        return exit_status;
    if (order.has_list)
        return show_list(argv[0], &order);
    if (order.from != NULL)
        return plan_from(argv[0], &order);
    vw_status status = vw_plan_model_open(order.model, &model);
    if (status != VW_OK)
        return recording_command_fail(argv[0], order.model, status);
    status = show_plan(&order, model, &exit_status);
    if (status != VW_OK)
        exit_status = recording_command_fail(argv[0], order.model, status);
    else if (write_trace(argv[0], &order, model) != EXIT_DONE)
        exit_status = EXIT_COULD_NOT;
    vw_plan_model_close(model);
    return exit_status;
}
