/* techniques.c - the tour: what each technique sets, and what came of it. */
#include "techniques.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "vramwise/units.h" /* vw_format_size */

#include "memory_line.h"
#include "terminal.h"

/* ---- the techniques -------------------------------------------------------------------------- */

enum { PLAIN, AUTOCAST, CHECKPOINTING, CHUNKED_LOSS, ACCUMULATION, FUSED, KEPT_GRAPH, INFERENCE };
enum { LOSS_CHUNKS = 8 };

static void set_nothing(vw_plan_settings *settings)
{
    (void)settings;
}

static void set_autocast(vw_plan_settings *settings)
{
    settings->precision = VW_PRECISION_AMP_BF16;
}

static void set_checkpointing(vw_plan_settings *settings)
{
    settings->checkpointing = VW_CHECKPOINTING_FULL;
}

static void set_chunked_loss(vw_plan_settings *settings)
{
    set_checkpointing(settings);
    settings->loss_chunks = LOSS_CHUNKS;
}

static void set_accumulation(vw_plan_settings *settings)
{
    set_chunked_loss(settings);
    settings->accumulation = settings->batch;
    settings->batch = 1;
}

static void set_fused(vw_plan_settings *settings)
{
    set_accumulation(settings);
    settings->optimizer = VW_OPTIMIZER_ADAMW_FUSED;
}

static void set_kept_graph(vw_plan_settings *settings)
{
    settings->mode = VW_PLAN_MODE_KEEP_GRAPH;
}

static void set_inference(vw_plan_settings *settings)
{
    settings->mode = VW_PLAN_MODE_INFERENCE;
}

static const technique techniques[TECHNIQUES_COUNT] = {
    [PLAIN] = {"a plain step", PLAIN,
               "Float32, AdamW, all of the batch at once: what the others are held against.",
               "loss = model(**batch).loss\n"
               "loss.backward()\n"
               "optimizer.step(); optimizer.zero_grad()",
               set_nothing},
    [AUTOCAST] =
        {"autocast", PLAIN,
         "Products are made in bfloat16, and so are the activations they leave behind; the "
         "weights stay in float32, and a copy of them in bfloat16 is held during the pass.",
         NULL, set_autocast},
    [CHECKPOINTING] = {"checkpointing", PLAIN,
                       "Each block keeps what came in, and runs again in the backward pass.", NULL,
                       set_checkpointing},
    [CHUNKED_LOSS] = {"the loss in chunks, with checkpointing", CHECKPOINTING,
                      "Of what is left the logits are the largest: one row of the vocabulary for "
                      "each token. In chunks only some of them are there at a time.",
                      NULL, set_chunked_loss},
    [ACCUMULATION] =
        {"accumulation, on top of both", CHUNKED_LOSS,
         "The batch is taken one sample at a time, and the gradients are added up: what "
         "grows with the batch is an eighth, what does not stays.",
         NULL, set_accumulation},
    [FUSED] =
        {"fused AdamW, on top of that", ACCUMULATION,
         "Now the optimizer's step is as high as the rest: by default it makes a list as large "
         "as all gradients. The fused one makes none.",
         NULL, set_fused},
    [KEPT_GRAPH] = {"evaluation that keeps the graph", PLAIN,
                    "A forward pass whose loss is held on to: without a backward pass nothing lets "
                    "go of the activations.",
                    "losses.append(model(**batch).loss)", set_kept_graph},
    [INFERENCE] = {"the same under inference_mode()", KEPT_GRAPH,
                   "No graph is made, and a layer's activations go when the next layer has them.",
                   "with torch.inference_mode():\n"
                   "    losses.append(model(**batch).loss.item())",
                   set_inference},
};

/* `number` is below TECHNIQUES_COUNT. */
static const technique *technique_number(size_t number)
{
    return &techniques[number];
}

/* The one change that it is, with its cost and code; NULL: the technique has code of its own. */
static const vw_plan_change *technique_advice(const technique_result *result)
{
    return result->advice != NULL && result->advice->count > 0 ? result->advice->changes : NULL;
}

/* ---- what changed ---------------------------------------------------------------------------- */

/* "mlp / act" of "layer 7 / mlp / act"; anything else as it is. */
static const char *without_layer(const char *place)
{
    const char *rest = strstr(place, " / ");
    return strncmp(place, "layer ", strlen("layer ")) == 0 && rest != NULL ? rest + strlen(" / ")
                                                                           : place;
}

static technique_change *change_of(technique_result *result, const vw_frame *where)
{
    const char *place = without_layer(where->file);
    for (size_t i = 0; i < result->change_count; i++) {
        technique_change *known = &result->changes[i];
        if (strcmp(known->place, place) == 0 && strcmp(known->function, where->function) == 0)
            return known;
    }
    if (result->change_count == TECHNIQUES_MOST_CHANGES)
        return NULL; /* the largest came first */
    technique_change *made = &result->changes[result->change_count++];
    *made = (technique_change){.place = place, .function = where->function};
    return made;
}

static uint64_t difference_of(const technique_change *change)
{
    return change->after_bytes > change->before_bytes ? change->after_bytes - change->before_bytes
                                                      : change->before_bytes - change->after_bytes;
}

static int larger_first(const void *left, const void *right)
{
    const technique_change *one = left, *other = right;
    uint64_t of_one = difference_of(one), of_other = difference_of(other);
    if (of_one != of_other)
        return of_one < of_other ? 1 : -1;
    int order = strcmp(one->place, other->place);
    return order != 0 ? order : strcmp(one->function, other->function);
}

static vw_status compare(const vw_recording *before, technique_result *result)
{
    vw_diff_report *report = NULL;
    vw_status status = vw_recordings_diff(before, result->recording, &report);
    if (status != VW_OK)
        return status;
    for (size_t i = 0; i < report->change_count; i++) {
        const vw_change *found = &report->changes[i];
        technique_change *change = found->where != NULL ? change_of(result, found->where) : NULL;
        if (change == NULL)
            continue;
        change->before_bytes += found->before_bytes;
        change->after_bytes += found->after_bytes;
        change->layer_count += change->place != found->where->file;
    }
    vw_diff_report_free(report);
    qsort(result->changes, result->change_count, sizeof *result->changes, larger_first);
    return VW_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static vw_plan_settings settings_of(const technique *chosen)
{
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    settings.batch = TECHNIQUES_BATCH;
    settings.sequence = TECHNIQUES_SEQUENCE;
    chosen->set(&settings);
    return settings;
}

static vw_status run_one(const vw_plan_model *model, size_t number, technique_result *results,
                         size_t point_count)
{
    technique_result *result = &results[number];
    const technique *chosen = &techniques[number];
    const vw_plan_settings before = settings_of(&techniques[chosen->compared_to]),
                           settings = settings_of(chosen);
    vw_status status = vw_plan_live_line(model, &settings, result->points, point_count);
    if (status == VW_OK)
        status = vw_plan_record(model, &settings, &result->recording);
    if (status == VW_OK && chosen->code == NULL)
        status = vw_plan_changes_make(model, &before, &settings, &result->advice);
    for (size_t i = 0; i < point_count && status == VW_OK; i++)
        if (result->points[i] > result->peak_bytes)
            result->peak_bytes = result->points[i];
    return status == VW_OK && chosen->compared_to != number
               ? compare(results[chosen->compared_to].recording, result)
               : status;
}

vw_status techniques_run(technique_result results[TECHNIQUES_COUNT], size_t point_count)
{
    vw_plan_model *model = NULL;
    memset(results, 0, TECHNIQUES_COUNT * sizeof *results);
    vw_status status = vw_plan_model_open(TECHNIQUES_MODEL, &model);
    for (size_t i = 0; i < TECHNIQUES_COUNT && status == VW_OK; i++)
        status = run_one(model, i, results, point_count);
    vw_plan_model_close(model);
    return status;
}

void techniques_free(technique_result results[TECHNIQUES_COUNT])
{
    for (size_t i = 0; i < TECHNIQUES_COUNT; i++) {
        vw_recording_close(results[i].recording);
        vw_plan_changes_free(results[i].advice);
    }
    memset(results, 0, TECHNIQUES_COUNT * sizeof *results);
}

/* ---- the tour ----------------------------------------------------------------------------------
 */

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
        terminal_tell(output, TERMINAL_PLAIN, "Peak %s", peak);
        return;
    }
    bool is_less = now_bytes < then_bytes;
    vw_format_size(is_less ? then_bytes - now_bytes : now_bytes - then_bytes, other);
    if (now_bytes == then_bytes)
        terminal_tell(output, TERMINAL_PLAIN, "Peak %s, as %zu has it", peak, before + 1);
    else
        terminal_tell(output, TERMINAL_PLAIN, "Peak %s: %s %s than %zu", peak, other,
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
    terminal_tell(output, TERMINAL_PLAIN, "%c %s %s %s%s", is_less ? '-' : '+', size, change->place,
                  change->function, layers);
}

static void tell_changes(const technique_result *result, const terminal *output)
{
    for (size_t i = 0; i < result->change_count && i < SHOWN_CHANGES; i++)
        tell_change(&result->changes[i], output);
    if (result->change_count > SHOWN_CHANGES)
        terminal_tell(output, TERMINAL_FAINT, "and %zu more", result->change_count - SHOWN_CHANGES);
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
    terminal_tell(output, TERMINAL_BOLD, "Ways to train GPT-2 with less memory");
    terminal_tell(
        output, TERMINAL_PLAIN,
        "%d samples of %d tokens. Each step was run tensor by tensor, with sizes in place of "
        "numbers. A line is one step from its beginning to its end; its full height is the "
        "peak of the step it is compared to. Below it is what differs at the two peaks.",
        TECHNIQUES_BATCH, TECHNIQUES_SEQUENCE);
    for (size_t i = 0; i < TECHNIQUES_COUNT; i++) {
        const technique *shown = technique_number(i);
        putchar('\n');
        terminal_tell(output, TERMINAL_BOLD, "%zu. %s", i + 1, shown->name);
        terminal_tell(output, TERMINAL_PLAIN, "%s", shown->words);
        if (technique_advice(&results[i]) != NULL)
            terminal_tell(output, TERMINAL_PLAIN, "Cost: %s.", technique_advice(&results[i])->cost);
        print_code(code_of(shown, &results[i]), output);
        tell_peak(results, i, output);
        draw_line(&results[i], point_count, results[shown->compared_to].peak_bytes, output);
        tell_changes(&results[i], output);
    }
    putchar('\n');
    terminal_tell(output, TERMINAL_PLAIN,
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
