/* command_top.c - `vramwise top [PID]`: GPUs and jobs as they are now, on a screen or once. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "vramwise/report.h"
#include "vramwise/watch.h"

#include "arguments.h"
#include "command.h"
#include "recording_command.h"
#include "safe_print.h"
#include "top_loop.h"

#define USUAL_INTERVAL_SECONDS 1.0
#define SMALLEST_INTERVAL_SECONDS 0.05
#define LARGEST_INTERVAL_SECONDS 3600.0

/* Between the two readings that a single table takes its rates from: long enough that busy jobs
 * have written their pages again, and then until all have, but not for ever. */
#define ONCE_SHORTEST_SECONDS 0.3
#define ONCE_STEP_SECONDS 0.1
#define ONCE_LONGEST_SECONDS 1.5

typedef struct top_command {
    const char *name;
    long process; /* 0: all */
    bool has_interval;
    double interval_seconds;
    bool is_once, has_json;
} top_command;

static int fail(const top_command *order, vw_status status)
{
    const char *detail = vw_last_error();
    fprintf(stderr, "vramwise %s: ", order->name);
    safe_print(stderr, detail[0] != '\0' ? detail : vw_status_message(status));
    fputc('\n', stderr);
    return EXIT_COULD_NOT;
}

static void wait_for(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&left, &left) != 0)
        continue;
}

/* ---- the process that was asked for ---------------------------------------------------------- */

static bool has_process(const vw_machine *machine, long process)
{
    for (size_t i = 0; i < machine->row_count; i++)
        if (machine->rows[i].process == process)
            return true;
    return false;
}

/* Says which there are, a few of them. */
static int refuse_process(const top_command *order, const vw_machine *machine)
{
    enum { MOST_NAMED = 8 };
    fprintf(stderr, "vramwise %s: process %ld does not run with vramwise and is on no GPU",
            order->name, order->process);
    for (size_t i = 0; i < machine->row_count && i < MOST_NAMED; i++) {
        fprintf(stderr, "%s%ld ", i == 0 ? "; there are: " : ", ", machine->rows[i].process);
        safe_print(stderr, machine->rows[i].command);
    }
    if (machine->row_count > MOST_NAMED)
        fprintf(stderr, " and %zu more", machine->row_count - MOST_NAMED);
    fputc('\n', stderr);
    return EXIT_COULD_NOT;
}

/* ---- once ------------------------------------------------------------------------------------ */

/* Has every page that is kept up been written since? */
static bool all_are_new(const vw_machine *before, const vw_machine *now)
{
    for (size_t i = 0; i < now->row_count; i++) {
        const vw_machine_row *row = &now->rows[i];
        vw_job_figures figures;
        if (row->device == NULL || vw_job_figures_find(before, now, row, &figures) != VW_OK)
            continue;
        if (row->device->updated_ns <= before->read_ns && !figures.is_silent)
            return false;
    }
    return true;
}

static vw_status read_later(const top_command *order, const vw_machine *before, vw_machine **out)
{
    double waited = order->has_interval ? order->interval_seconds : ONCE_SHORTEST_SECONDS;
    wait_for(waited);
    vw_status status = vw_machine_read(NULL, out);
    while (status == VW_OK && !order->has_interval && waited < ONCE_LONGEST_SECONDS &&
           !all_are_new(before, *out)) {
        vw_machine_free(*out);
        wait_for(ONCE_STEP_SECONDS);
        waited += ONCE_STEP_SECONDS;
        status = vw_machine_read(NULL, out);
    }
    return status;
}

static int report(const top_command *order, const vw_machine *before, const vw_machine *now)
{
    if (order->process != 0 && !has_process(now, order->process))
        return refuse_process(order, now); /* it has ended, since */
    vw_report_form form = recording_command_form(NULL, order->has_json);
    vw_status status = vw_report_top(before, now, order->process, &form, &recording_command_output);
    if (status == VW_ERR_FILE && ferror(stdout) != 0)
        return EXIT_COULD_NOT; /* main() says so, of every command */
    return status == VW_OK ? EXIT_DONE : fail(order, status);
}

static int show_once(const top_command *order, const vw_machine *before)
{
    vw_machine *now;
    if (before->row_count == 0) /* nothing here has a rate */
        return report(order, NULL, before);
    vw_status status = read_later(order, before, &now);
    if (status != VW_OK)
        return fail(order, status);
    int exit_status = report(order, before, now);
    vw_machine_free(now);
    return exit_status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int run_top(const top_command *order)
{
    vw_machine *first;
    vw_status status = vw_machine_read(NULL, &first);
    if (status != VW_OK)
        return fail(order, status);
    int exit_status;
    if (order->process != 0 && !has_process(first, order->process)) {
        exit_status = refuse_process(order, first);
    } else if (order->is_once || order->has_json || recording_command_is_csv()) {
        exit_status = show_once(order, first);
    } else {
        const top_wish wish = {order->name, order->interval_seconds, order->process};
        return top_loop(&wish, first);
    }
    vw_machine_free(first);
    return exit_status;
}

static bool read_interval(top_command *order, const char *text)
{
    char *end = NULL;
    if (text == NULL)
        return true;
    double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= SMALLEST_INTERVAL_SECONDS) ||
        !(seconds <= LARGEST_INTERVAL_SECONDS)) {
        arguments_refuse(order->name, "--interval: expected seconds, from 0.05 to 3600, not '%s'",
                         text);
        return false;
    }
    order->has_interval = true;
    order->interval_seconds = seconds;
    return true;
}

int command_top(int argc, char **argv)
{
    top_command order = {.name = argv[0], .interval_seconds = USUAL_INTERVAL_SECONDS};
    const char *interval = NULL;
    const argument_option options[] = {
        {.name = "interval", .value = &interval},
        {.name = "json", .is_given = &order.has_json},
        {.name = "once", .is_given = &order.is_once},
    };
    int first_operand = 0;
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    if (argc - first_operand > 1)
        return arguments_refuse(argv[0], "expected one process at most, not %d",
                                argc - first_operand);
    if (!read_interval(&order, interval) ||
        (first_operand < argc &&
         !arguments_read_process(argv[0], "", argv[first_operand], &order.process)))
        return EXIT_WRONG_USAGE;
    return run_top(&order);
}
