/* command_demo.c - `vramwise demo`: the library at work, with nothing to install and no GPU.
 *
 * Runs one workload twice, under two settings of PyTorch's allocator, and shows what became of the
 * memory. The second run pauses at the request at which the first one failed, so that the two are
 * compared at the same moment. Nothing is prepared: if the allocator's rules change, so does what
 * is shown, and if the runs should not end as the story has it, the command says so and fails.
 *
 * `vramwise demo techniques` is another tour: ways to train with less memory, by planned steps. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/vramwise.h"

#include "arguments.h"
#include "command.h"
#include "demo_report.h"
#include "demo_workload.h"
#include "segment_map.h"
#include "techniques.h"
#include "techniques_report.h"
#include "terminal.h"

/* Large for a stack. */
static demo_run native_run, expandable_run;
static segment_map native_map, expandable_map;

typedef struct map_order {
    unsigned width_columns;
    vw_status status;
} map_order;

/* The expandable run has just been served what the native one was refused: at the native scale. */
static void map_expandable(void *context, const demo_run *run)
{
    map_order *order = context;
    order->status = segment_map_take(&expandable_map, run->pool, native_map.bytes_per_cell,
                                     order->width_columns);
}

static vw_status run_both(unsigned width_columns)
{
    map_order order = {.width_columns = width_columns, .status = VW_OK};
    vw_status status = demo_run_begin(&native_run, "native", "", NULL);
    if (status == VW_OK)
        status = segment_map_take(&native_map, native_run.pool, 0, width_columns);
    if (status != VW_OK)
        return status;
    const demo_pause pause = {native_run.request_count, map_expandable, &order};
    status = demo_run_begin(&expandable_run, "expandable", "expandable_segments:True", &pause);
    return status == VW_OK ? order.status : status;
}

static int tell_story(const terminal *output, bool has_json, bool has_summary)
{
    const demo_story story = {&native_run, &expandable_run, &native_map, &expandable_map};
    vw_status status = run_both(demo_report_style(output).width_columns);
    if (status == VW_OK && (native_run.is_complete || !expandable_run.is_complete)) {
        fprintf(stderr,
                "vramwise demo: expected the native run to end out of memory (it %s) and "
                "the expandable one to complete (it %s)\n",
                native_run.is_complete ? "completed" : "did",
                expandable_run.is_complete ? "did" : "ended out of memory");
        return EXIT_COULD_NOT;
    }
    if (status == VW_OK && has_json)
        demo_report_print_json(&story);
    else if (status == VW_OK)
        status = demo_report_print(&story, output, has_summary);
    if (status == VW_OK)
        return EXIT_DONE;
    fprintf(stderr, "vramwise demo: %s: %s\n", vw_status_message(status), vw_last_error());
    return EXIT_COULD_NOT;
}

static int tour_techniques(const terminal *output, bool has_json)
{
    static technique_result results[TECHNIQUES_COUNT]; /* large for a stack */
    size_t point_count = techniques_report_points(output);
    vw_status status = techniques_run(results, point_count);
    if (status != VW_OK)
        fprintf(stderr, "vramwise demo: %s: %s\n", vw_status_message(status), vw_last_error());
    else if (has_json)
        techniques_report_print_json(results, point_count);
    else
        techniques_report_print(results, point_count, output);
    techniques_free(results);
    return status == VW_OK ? EXIT_DONE : EXIT_COULD_NOT;
}

int command_demo(int argc, char **argv)
{
    bool has_json = false, has_summary = false;
    const argument_option options[] = {
        {.name = "json", .is_given = &has_json},
        {.name = "summary", .is_given = &has_summary},
    };
    int first_operand = 0;
    if (!arguments_parse(options, sizeof options / sizeof options[0], argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    bool is_tour = first_operand < argc && strcmp(argv[first_operand], "techniques") == 0;
    if (first_operand < argc && !is_tour)
        return arguments_refuse(argv[0], "takes 'techniques' or nothing, but there is '%s'",
                                argv[first_operand]);
    if (first_operand + 1 < argc)
        return arguments_refuse(argv[0], "takes one operand at most, but there is '%s'",
                                argv[first_operand + 1]);
    if (has_json && has_summary)
        return arguments_refuse(argv[0], "--json and --summary exclude each other");
    if (is_tour && has_summary)
        return arguments_refuse(argv[0], "--summary is not for 'techniques'");

    const terminal output = terminal_look();
    if (is_tour)
        return tour_techniques(&output, has_json);
    int exit_status = tell_story(&output, has_json, has_summary);
    demo_run_end(&expandable_run);
    demo_run_end(&native_run);
    return exit_status;
}
