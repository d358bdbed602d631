/* techniques_report.c - one technique after the other: its peak, its line, what went away, and what
 * to write for it. */
#include "techniques_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vramwise/units.h" /* vw_format_size */

#include "memory_line.h"
#include "prose.h"

enum {
    SHOWN_CHANGES = 3,
    LINE_COLUMNS = 72, /* on a window of 80 */
    INDENT_COLUMNS = 2,
};

size_t techniques_report_points(const terminal *output)
{
    size_t width = output->width_columns;
    if (!output->is_terminal || width > LINE_COLUMNS + INDENT_COLUMNS)
        return LINE_COLUMNS;
    return width > INDENT_COLUMNS + 1 ? width - INDENT_COLUMNS : 1;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void tell_peak(const technique_result *results, size_t number, const terminal *output)
{
    char peak[VW_SIZE_TEXT_BYTES], other[VW_SIZE_TEXT_BYTES];
    size_t before = technique_number(number)->compared_to;
    uint64_t now_bytes = results[number].peak_bytes, then_bytes = results[before].peak_bytes;
    vw_format_size(now_bytes, peak);
    if (before == number) {
        prose_tell(output, TERMINAL_PLAIN, "Peak %s", peak);
        return;
    }
    bool is_less = now_bytes < then_bytes;
    vw_format_size(is_less ? then_bytes - now_bytes : now_bytes - then_bytes, other);
    if (now_bytes == then_bytes)
        prose_tell(output, TERMINAL_PLAIN, "Peak %s, as %zu has it", peak, before + 1);
    else
        prose_tell(output, TERMINAL_PLAIN, "Peak %s: %s %s than %zu", peak, other,
                   is_less ? "less" : "more", before + 1);
}

static void draw_line(const technique_result *result, size_t point_count, uint64_t top_bytes,
                      const terminal *output)
{
    fputs("  ", stdout);
    fputs(terminal_style_code(output, TERMINAL_GREEN), stdout);
    memory_line_draw(result->points, point_count, top_bytes, output->has_utf8, stdout);
    fputs(terminal_style_code(output, TERMINAL_PLAIN), stdout);
    putchar('\n');
}

static void tell_change(const technique_change *change, const terminal *output)
{
    char size[VW_SIZE_TEXT_BYTES], layers[40] = "";
    bool is_less = change->after_bytes < change->before_bytes;
    vw_format_size(is_less ? change->before_bytes - change->after_bytes
                           : change->after_bytes - change->before_bytes,
                   size);
    if (change->layer_count > 1)
        (void)snprintf(layers, sizeof layers, ", in %zu layers", change->layer_count);
    prose_tell(output, TERMINAL_PLAIN, "%c %s %s %s%s", is_less ? '-' : '+', size, change->place,
               change->function, layers);
}

static void tell_changes(const technique_result *result, const terminal *output)
{
    for (size_t i = 0; i < result->change_count && i < SHOWN_CHANGES; i++)
        tell_change(&result->changes[i], output);
    if (result->change_count > SHOWN_CHANGES)
        prose_tell(output, TERMINAL_FAINT, "and %zu more", result->change_count - SHOWN_CHANGES);
}

static const char *code_of(const technique *shown, const technique_result *result)
{
    const vw_plan_change *advice = technique_advice(result);
    return advice != NULL ? advice->code : shown->code;
}

/* The line at `text`, without its end; what follows it, or NULL. */
static const char *next_line(const char *text, int *length)
{
    const char *end = strchr(text, '\n');
    *length = (int)(end != NULL ? (size_t)(end - text) : strlen(text));
    return end != NULL ? end + 1 : NULL;
}

/* To be copied: as it is, however narrow the window. */
static void print_code(const char *code, const terminal *output)
{
    int length;
    for (const char *line = code, *next; line != NULL; line = next) {
        next = next_line(line, &length);
        printf("%s    %.*s%s\n", terminal_style_code(output, TERMINAL_BLUE), length, line,
               terminal_style_code(output, TERMINAL_PLAIN));
    }
}

void techniques_report_print(const technique_result results[TECHNIQUES_COUNT], size_t point_count,
                             const terminal *output)
{
    prose_tell(output, TERMINAL_BOLD, "Ways to train GPT-2 with less memory");
    prose_tell(
        output, TERMINAL_PLAIN,
        "%d samples of %d tokens. Each step was run tensor by tensor, with sizes in place of "
        "numbers. A line is one step from its beginning to its end; its full height is the "
        "peak of the step it is compared to. Below it is what differs at the two peaks.",
        TECHNIQUES_BATCH, TECHNIQUES_SEQUENCE);
    for (size_t i = 0; i < TECHNIQUES_COUNT; i++) {
        const technique *shown = technique_number(i);
        putchar('\n');
        prose_tell(output, TERMINAL_BOLD, "%zu. %s", i + 1, shown->name);
        prose_tell(output, TERMINAL_PLAIN, "%s", shown->words);
        if (technique_advice(&results[i]) != NULL)
            prose_tell(output, TERMINAL_PLAIN, "Cost: %s.", technique_advice(&results[i])->cost);
        print_code(code_of(shown, &results[i]), output);
        tell_peak(results, i, output);
        draw_line(&results[i], point_count, results[shown->compared_to].peak_bytes, output);
        tell_changes(&results[i], output);
    }
    putchar('\n');
    prose_tell(output, TERMINAL_PLAIN,
               "The same for your own model: vramwise plan. Its --write-trace saves a step as a "
               "recording, and vramwise diff shows all that differs between two of them.");
}

/* ---- for programs ---------------------------------------------------------------------------- */

/* Texts are ours, and plain ASCII. */
static void print_json_bytes(const char *text, size_t length)
{
    putchar('"');
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"' || text[i] == '\\')
            putchar('\\');
        putchar(text[i]);
    }
    putchar('"');
}

static void print_json_text(const char *text)
{
    print_json_bytes(text, strlen(text));
}

static void print_json_advice(const technique *shown, const technique_result *result)
{
    const vw_plan_change *advice = technique_advice(result);
    int length;
    printf("],\n     \"cost\": ");
    if (advice != NULL)
        print_json_text(advice->cost);
    else
        printf("null");
    printf(",\n     \"code\": [");
    for (const char *line = code_of(shown, result), *next; line != NULL; line = next) {
        next = next_line(line, &length);
        print_json_bytes(line, (size_t)length);
        if (next != NULL)
            printf(", ");
    }
    printf("]");
}

static void print_json_changes(const technique_result *result)
{
    printf(",\n     \"changes\": [");
    for (size_t i = 0; i < result->change_count; i++) {
        const technique_change *change = &result->changes[i];
        printf("%s\n       {\"place\": ", i > 0 ? "," : "");
        print_json_text(change->place);
        printf(", \"pass\": ");
        print_json_text(change->function);
        printf(", \"layers\": %zu, \"before_bytes\": %" PRIu64 ", \"after_bytes\": %" PRIu64 "}",
               change->layer_count, change->before_bytes, change->after_bytes);
    }
    printf("]");
}

static void print_json_technique(const technique_result *results, size_t number, size_t point_count)
{
    const technique *shown = technique_number(number);
    printf("    {\"name\": ");
    print_json_text(shown->name);
    printf(", \"compared_to\": ");
    if (shown->compared_to == number)
        printf("null");
    else
        print_json_text(technique_number(shown->compared_to)->name);
    printf(",\n     \"peak_live_bytes\": %" PRIu64 ",\n     \"line\": [",
           results[number].peak_bytes);
    for (size_t i = 0; i < point_count; i++)
        printf("%s%" PRIu64, i > 0 ? ", " : "", results[number].points[i]);
    print_json_advice(shown, &results[number]);
    print_json_changes(&results[number]);
    printf("}");
}

void techniques_report_print_json(const technique_result results[TECHNIQUES_COUNT],
                                  size_t point_count)
{
    printf("{\"schema\": 1, \"model\": \"%s\", \"batch\": %d, \"sequence\": %d,\n"
           "  \"techniques\": [\n",
           TECHNIQUES_MODEL, TECHNIQUES_BATCH, TECHNIQUES_SEQUENCE);
    for (size_t i = 0; i < TECHNIQUES_COUNT; i++) {
        print_json_technique(results, i, point_count);
        printf(i + 1 < TECHNIQUES_COUNT ? ",\n" : "]}\n");
    }
}
