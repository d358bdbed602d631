/* command_report.c - `vramwise report DIR`: the recordings and logs of one job, rank by rank. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/ranks.h"
#include "vramwise/report.h"
#include "vramwise/units.h"
#include "vramwise/view.h"

#include "arguments.h"
#include "command.h"
#include "progress.h"
#include "recording_command.h"
#include "safe_print.h"
#include "view_file.h"

typedef struct report_order {
    const char *folder;
    const char *page_name; /* NULL: none */
    const char *torch_version;
    size_t most_rows;
    bool has_json;
} report_order;

static bool is_standard_output(const char *page_name)
{
    return page_name != NULL && strcmp(page_name, "-") == 0;
}

static int fail_to_write(const char *command_name, const char *name, const char *reason)
{
    fprintf(stderr, "vramwise %s: ", command_name);
    safe_print(stderr, name);
    fprintf(stderr, ": %s\n", reason);
    return EXIT_COULD_NOT;
}

/* EXIT_DONE, or what is wrong with the place is said. A file that is no page may be one of the
 * recordings: it stays. */
static int check_place(const char *command_name, const char *name, view_place place)
{
    switch (place) {
    case VIEW_PLACE_FOLDER:
        return fail_to_write(command_name, name, "expected a file, found a folder");
    case VIEW_PLACE_UNKNOWN:
        return fail_to_write(command_name, name, strerror(errno));
    case VIEW_PLACE_FILE:
    case VIEW_PLACE_RECORDING:
        return fail_to_write(command_name, name,
                             "exists, and is not a page that vramwise wrote; choose another "
                             "name with -o");
    case VIEW_PLACE_FREE:
    case VIEW_PLACE_PAGE:
    case VIEW_PLACE_STREAM:
        break;
    }
    return EXIT_DONE;
}

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

static int put_page(const char *command_name, const report_order *order, const vw_view *view,
                    view_place place)
{
    char text[VW_SIZE_TEXT_BYTES];
    uint64_t size_bytes = 0;
    if (is_standard_output(order->page_name)) {
        vw_status status = vw_view_write_page(view, &recording_command_output);
        return status == VW_OK ? EXIT_DONE
                               : recording_command_fail(command_name, order->folder, status);
    }
    if (!view_file_write(view, order->page_name, place, true, &size_bytes))
        return fail_to_write(command_name, order->page_name, strerror(errno));
    if (!order->has_json) {
        safe_print(stdout, order->page_name);
        printf("  %s\n\n", vw_format_size(size_bytes, text));
    }
    return EXIT_DONE;
}

static int write_page(const char *command_name, const report_order *order,
                      const vw_ranks_report *report, view_place place)
{
    vw_view *view = NULL;
    vw_status status = vw_view_make_ranks(report, order->folder, &view);
    if (status != VW_OK)
        return recording_command_fail(command_name, order->folder, status);
    int exit_status = put_page(command_name, order, view, place);
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
    if (exit_status == EXIT_DONE && !is_standard_output(order->page_name)) {
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
    if (order->page_name != NULL && !is_standard_output(order->page_name)) {
        place = view_file_look(order->page_name, NULL, NULL);
        int exit_status = check_place(command_name, order->page_name, place);
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

int command_report(int argc, char **argv)
{
    report_order order = {.folder = NULL};
    const char *top = NULL;
    const argument_option options[] = {
        {.name = "json", .is_given = &order.has_json},
        {.name = "output", .letter = 'o', .value = &order.page_name},
        {.name = "top", .value = &top},
        {.name = "torch", .value = &order.torch_version},
    };
    if (!arguments_parse_one(options, sizeof options / sizeof options[0], argc, argv, "folder",
                             &order.folder))
        return EXIT_WRONG_USAGE;
    if (order.folder[0] == '\0') /* as an unset variable in a script leaves it */
        return arguments_refuse(argv[0], "the name of the folder is empty");
    if (order.page_name != NULL && order.page_name[0] == '\0')
        return arguments_refuse(argv[0], "-o: the name of the page is empty");
    if (order.has_json && is_standard_output(order.page_name))
        return arguments_refuse(argv[0], "--json and the page of -o - both go to standard output");
    if (!recording_command_read_top(argv[0], top, &order.most_rows))
        return EXIT_WRONG_USAGE;
    return report_on(argv[0], &order);
}
