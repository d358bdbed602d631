/* command_demo.c - `vramwise demo`: the library at work, with nothing to install and no GPU.
 *
 * Runs one workload twice, under two settings of PyTorch's allocator, and shows what became of the
 * memory: what runs, how memory went, the error, why it came, what it looked like inside, and the
 * same with one option set. The second run pauses at the request at which the first one failed, so
 * that the two are compared at the same moment. Every number comes from the runs: if the
 * allocator's rules change, so does what is shown, and if the runs do not end as the story has it,
 * the command says so and fails.
 *
 * `vramwise demo techniques` is another tour: ways to train with less memory, by planned steps. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/units.h" /* vw_format_size */
#include "vramwise/vramwise.h"

#include "arguments.h"
#include "command.h"
#include "demo_workload.h"
#include "memory_chart.h"
#include "memory_style.h"
#include "segment_map.h"
#include "techniques.h"
#include "terminal.h"

/* What there is to tell: the run that failed, and how the other stood at the same request. */
typedef struct demo_story {
    const demo_run *native;
    const demo_run *expandable;
    const segment_map *native_map;
    const segment_map *expandable_map;
} demo_story;

#define LONGEST_DRAWN_COLUMNS 160 /* wider pictures are tiring, however wide the window */

/* Below this, what stands side by side elsewhere goes below each other or is shortened. */
#define NARROW_COLUMNS 60

/* ---- sizes and style ----------------------------------------------------------------------------
 */

typedef struct size_text {
    char text[VW_SIZE_TEXT_BYTES];
} size_text;

static size_text size_of(uint64_t size_bytes)
{
    size_text result;
    vw_format_size(size_bytes, result.text);
    return result;
}

/* How memory is drawn on this output. */
static memory_style demo_report_style(const terminal *output)
{
    const bool has_blocks = output->has_utf8;
    return (memory_style){
        .glyphs = {[MEMORY_NONE] = " ",
                   [MEMORY_LIVE] = has_blocks ? "\u2588" : "#",
                   [MEMORY_PARTLY] = has_blocks ? "\u2592" : "+",
                   [MEMORY_IDLE] = has_blocks ? "\u2591" : ".",
                   [MEMORY_FAILED] = "X"},
        .codes = {[MEMORY_NONE] = "",
                  [MEMORY_LIVE] = terminal_style_code(output, TERMINAL_GREEN),
                  [MEMORY_PARTLY] = terminal_style_code(output, TERMINAL_YELLOW),
                  [MEMORY_IDLE] = terminal_style_code(output, TERMINAL_RED),
                  [MEMORY_FAILED] = terminal_style_code(output, TERMINAL_BOLD)},
        .plain_code = terminal_style_code(output, TERMINAL_PLAIN),
        .side = has_blocks ? "\u2502" : "|",
        .corner = has_blocks ? "\u2514" : "+",
        .base = has_blocks ? "\u2500" : "-",
        .width_columns = output->width_columns < LONGEST_DRAWN_COLUMNS ? output->width_columns
                                                                       : LONGEST_DRAWN_COLUMNS,
    };
}

/* Behind what the line says already, or below it. */
static void print_legend(const memory_style *style, bool has_partly)
{
    static const char *const words[] = {[MEMORY_LIVE] = "live",
                                        [MEMORY_PARTLY] = "partly",
                                        [MEMORY_IDLE] = "idle",
                                        [MEMORY_FAILED] = "refused"};
    fputs(style->width_columns < NARROW_COLUMNS ? "\n" : "  ", stdout);
    for (memory_kind kind = MEMORY_LIVE; kind < MEMORY_KINDS; kind++) {
        memory_kind last = MEMORY_NONE;
        if (kind == (has_partly ? MEMORY_FAILED : MEMORY_PARTLY))
            continue;
        if (kind != MEMORY_LIVE)
            fputs("  ", stdout);
        memory_style_draw(style, kind, &last, stdout);
        memory_style_end(style, &last, stdout);
        printf(" %s", words[kind]);
    }
    putchar('\n');
}

/* ---- the parts ----------------------------------------------------------------------------------
 */

static void print_headline(const terminal *output)
{
    const demo_model model = demo_get_model();
    terminal_tell(output, TERMINAL_BOLD, "One training run, two ways to hold its memory");
    terminal_tell(
        output, TERMINAL_PLAIN,
        "A transformer (%u layers, %.0f million parameters, AdamW) trains for %d steps on a "
        "simulated %.0f GiB card. Batches of %u are padded to their longest sequence; every %u "
        "steps there is an evaluation; the last %u logged outputs are kept. Each tensor is placed "
        "by the rules of PyTorch's allocator.",
        model.layer_count, (double)model.parameter_count / 1e6, DEMO_STEP_COUNT,
        (double)DEMO_CARD_BYTES / (double)(UINT64_C(1) << 30), model.batch_size,
        model.evaluation_interval, model.log_length);
    putchar('\n');
}

static memory_chart chart_of(const demo_run *run, const char *title, memory_chart_point *points)
{
    for (size_t i = 0; i < run->step_count; i++)
        points[i] =
            (memory_chart_point){run->steps[i].peak_live_bytes, run->steps[i].peak_reserved_bytes};
    return (memory_chart){title, points, run->step_count, DEMO_STEP_COUNT, !run->is_complete};
}

static void print_charts(const demo_story *story, const memory_style *style)
{
    memory_chart_point points[2][DEMO_STEP_COUNT];
    memory_chart charts[] = {
        chart_of(story->native, "native", points[0]),
        chart_of(story->expandable, story->expandable->conf, points[1]),
    };
    memory_chart_draw(charts, 2, DEMO_CARD_BYTES, style, stdout);
    printf("The peaks of %d steps:", DEMO_STEP_COUNT);
    print_legend(style, false);
    putchar('\n');
}

static void print_failure(const demo_story *story, const terminal *output)
{
    const vw_oom_report *oom = &story->native->oom;
    const segment_map *map = story->native_map;
    const uint64_t idle_bytes = oom->reserved_bytes - oom->allocated_bytes;

    terminal_tell(output, TERMINAL_BOLD, "Native, step %zu, for %s:", story->native->step_count,
                  story->native->failed_for);
    terminal_tell(output, TERMINAL_RED, "%s", story->native->oom_text);
    putchar('\n');
    terminal_tell(
        output, TERMINAL_PLAIN,
        "Why: %s of idle memory would serve the request %.1f times over, but it lies in %zu "
        "pieces, and the largest is %s: too small for %s.",
        size_of(idle_bytes).text, (double)idle_bytes / (double)oom->segment_bytes,
        map->idle_piece_count, size_of(map->largest_idle_bytes).text,
        size_of(oom->segment_bytes).text);
    terminal_tell(
        output, TERMINAL_PLAIN,
        "Pieces in different segments never join, and a segment with one live block in it cannot "
        "be given back. That is fragmentation, not a lack of memory.");
    putchar('\n');
}

static void print_maps(const demo_story *story, const terminal *output, const memory_style *style)
{
    const size_text scale = size_of(story->native_map->bytes_per_cell);

    terminal_tell(output, TERMINAL_BOLD, "Native at that moment: %zu segments, most idle first",
                  story->native_map->segment_count);
    segment_map_draw(story->native_map, style, stdout);
    printf("One character is %s:", scale.text);
    print_legend(style, true);
    putchar('\n');

    terminal_tell(output, TERMINAL_BOLD,
                  "%s, the same request, served: %zu segments, the same scale",
                  story->expandable->conf, story->expandable_map->segment_count);
    segment_map_draw(story->expandable_map, style, stdout);
    putchar('\n');
}

/* ---- the closing table
 * ---------------------------------------------------------------------------- */

static uint64_t call_count(const demo_run *run)
{
    uint64_t count = 0;
    for (int kind = 0; kind < VW_DEVICE_CALL_KINDS; kind++)
        count += run->calls.count[kind];
    return count;
}

static double ratio_of(const demo_run *run)
{
    return (double)run->peak_reserved_bytes / (double)run->peak_live_bytes;
}

static void print_table_row(const terminal *output, const char *label, const char *native,
                            const char *expandable)
{
    const bool is_narrow = output->width_columns < NARROW_COLUMNS;
    const int label_columns = is_narrow ? 13 : 26;
    const int value_columns = is_narrow ? 13 : 16;
    printf("%-*s%*s%*s\n", label_columns, label, value_columns, native, value_columns, expandable);
}

typedef struct count_text {
    char text[48];
} count_text;

static __attribute__((format(printf, 1, 2))) count_text text_of(const char *format, ...)
{
    count_text result;
    va_list args;
    va_start(args, format);
    vsnprintf(result.text, sizeof result.text, format, args);
    va_end(args);
    return result;
}

static count_text steps_done(const demo_run *run)
{
    return text_of("%zu of %d", run->step_count - (run->is_complete ? 0 : 1), DEMO_STEP_COUNT);
}

static const char *result_of(const demo_run *run)
{
    return run->is_complete ? "completed" : "out of memory";
}

static void print_table(const demo_story *story, const terminal *output)
{
    const demo_run *native = story->native;
    const demo_run *expandable = story->expandable;
    const bool is_narrow = output->width_columns < NARROW_COLUMNS;

    fputs(terminal_style_code(output, TERMINAL_BOLD), stdout);
    print_table_row(output, "", native->policy, expandable->policy);
    fputs(terminal_style_code(output, TERMINAL_PLAIN), stdout);
    print_table_row(output, "result", result_of(native), result_of(expandable));
    print_table_row(output, "steps done", steps_done(native).text, steps_done(expandable).text);
    print_table_row(output, "peak live", size_of(native->peak_live_bytes).text,
                    size_of(expandable->peak_live_bytes).text);
    print_table_row(output, "peak reserved", size_of(native->peak_reserved_bytes).text,
                    size_of(expandable->peak_reserved_bytes).text);
    print_table_row(output, is_narrow ? "ratio" : "reserved / live",
                    text_of("%.2f", ratio_of(native)).text,
                    text_of("%.2f", ratio_of(expandable)).text);
    print_table_row(output, "driver calls", text_of("%" PRIu64, call_count(native)).text,
                    text_of("%" PRIu64, call_count(expandable)).text);
    print_table_row(output, is_narrow ? "driver time" : "driver time (simulated)",
                    text_of("%.1f ms", (double)native->calls.elapsed_ns / 1e6).text,
                    text_of("%.1f ms", (double)expandable->calls.elapsed_ns / 1e6).text);
}

/* ---- the whole ----------------------------------------------------------------------------------
 */

static vw_status print_summary(const demo_run *run)
{
    static char text[32 * 1024];
    vw_status status = vw_pool_summary(run->pool, false, text, sizeof text, NULL);
    if (status == VW_OK)
        printf("%s\n\n", text);
    return status;
}

/* Writes the story to standard output, fitted to `output`. With `has_summary` also what
 * torch.cuda.memory_summary() would print at the failure. */
static vw_status demo_report_print(const demo_story *story, const terminal *output,
                                   bool has_summary)
{
    const memory_style style = demo_report_style(output);
    vw_status status = VW_OK;
    print_headline(output);
    print_charts(story, &style);
    print_failure(story, output);
    if (has_summary)
        status = print_summary(story->native);
    print_maps(story, output, &style);
    print_table(story, output);
    putchar('\n');
    terminal_tell(
        output, TERMINAL_PLAIN,
        "The requests were the same, in the same order; what differed is one option, %s. Its price "
        "is more calls to the driver: %.1f ms of them in the whole run.",
        story->expandable->conf, (double)story->expandable->calls.elapsed_ns / 1e6);
    return status;
}

/* ---- for programs
 * --------------------------------------------------------------------------------- */

static void print_json_oom(const demo_run *run, const segment_map *map)
{
    const vw_oom_report *oom = &run->oom;
    if (run->is_complete) {
        printf("null");
        return;
    }
    printf("{\"step\": %zu, \"tried_bytes\": %" PRIu64 ", \"free_bytes\": %" PRIu64
           ", \"allocated_bytes\": %" PRIu64 ", \"reserved_bytes\": %" PRIu64
           ", \"idle_bytes\": %" PRIu64 ", \"largest_free_block_bytes\": %" PRIu64
           ", \"idle_pieces\": %zu}",
           run->step_count, oom->segment_bytes, oom->free_bytes, oom->allocated_bytes,
           oom->reserved_bytes, oom->reserved_bytes - oom->allocated_bytes,
           oom->largest_free_block_bytes, map->idle_piece_count);
}

static void print_json_run(const demo_run *run, const segment_map *map)
{
    /* By the names that every command's JSON uses for them. */
    static const struct {
        const char *name;
        vw_device_call kind;
    } calls[] = {
        {"alloc", VW_DEVICE_CALL_TAKE},
        {"free", VW_DEVICE_CALL_GIVE_BACK},
        {"create", VW_DEVICE_CALL_CREATE},
        {"release", VW_DEVICE_CALL_RELEASE},
        {"map", VW_DEVICE_CALL_MAP},
        {"unmap", VW_DEVICE_CALL_UNMAP},
        {"set_access", VW_DEVICE_CALL_SET_ACCESS},
    };
    printf("    {\"policy\": \"%s\", \"conf\": \"%s\", \"completed\": %s,\n", run->policy,
           run->conf, run->is_complete ? "true" : "false");
    printf("     \"requests\": %" PRIu64 ", \"peak_live_bytes\": %" PRIu64
           ", \"peak_reserved_bytes\": %" PRIu64 ",\n",
           run->request_count, run->peak_live_bytes, run->peak_reserved_bytes);
    printf("     \"ratio\": %.6f, \"retries\": %" PRId64 ",\n     \"oom\": ", ratio_of(run),
           run->retry_count);
    print_json_oom(run, map);
    printf(",\n     \"device_calls\": {");
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        printf("%s\"%s\": %" PRIu64, i > 0 ? ", " : "", calls[i].name,
               run->calls.count[calls[i].kind]);
    printf("},\n     \"device_us\": %.3f}", (double)run->calls.elapsed_ns / 1e3);
}

/* Writes one JSON object to standard output. */
static void demo_report_print_json(const demo_story *story)
{
    printf("{\"schema\": 1, \"card_bytes\": %" PRIu64 ", \"steps\": %d,\n  \"results\": [\n",
           DEMO_CARD_BYTES, DEMO_STEP_COUNT);
    print_json_run(story->native, story->native_map);
    printf(",\n");
    print_json_run(story->expandable, story->expandable_map);
    printf("]}\n");
}

/* ---- the command --------------------------------------------------------------------------------
 */

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
        return arguments_refuse(argv[0], "expected 'techniques' or nothing, not '%s'",
                                argv[first_operand]);
    if (first_operand + 1 < argc)
        return arguments_refuse(argv[0], "expected one operand at most; '%s' is one more",
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
