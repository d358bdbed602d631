/* report_plan_from.c - a recorded run at another batch and length: text and JSON. */
#include "vramwise/report.h"

#include <string.h>

#include "report/report_plan.h"

/* ---- text ------------------------------------------------------------------------------------ */

static void say_verdict(vw__report *out, const vw_plan_scaled *scaled)
{
    if (scaled->is_card_known)
        vw__report_plan_fit(out, scaled->peak_device_bytes, scaled->scaling.card_bytes,
                            scaled->margin_bytes, scaled->fits);
    else
        vw__report_say(out, VW__REPORT_STYLE_BOLD,
                       "takes %s, and %s on the card with CUDA's context",
                       vw__report_size(scaled->peak_allocated_bytes).text,
                       vw__report_size(scaled->peak_device_bytes).text);
}

static const char *origin_of(const vw_plan_scaled *scaled)
{
    return scaled->is_traced ? "traced" : "recorded";
}

/* A traced step that is planned as it is needs no second column. */
static bool is_as_traced(const vw_plan_scaled *scaled)
{
    const vw_plan_scaling *scaling = &scaled->scaling;
    return scaled->is_traced && scaling->batch == scaling->batch_now &&
           scaling->sequence == scaling->sequence_now;
}

static void say_table(vw__report *out, const vw_plan_scaled *scaled, const char *title,
                      const vw_plan_scaled_part *parts, size_t part_count)
{
    const bool has_two = !is_as_traced(scaled);
    const vw__report_column columns[] = {
        {title, VW__REPORT_COLUMN_NAME},
        {has_two ? origin_of(scaled) : "planned", VW__REPORT_COLUMN_NUMBER},
        {"planned", VW__REPORT_COLUMN_NUMBER}};
    vw__report_table table;
    vw__report_table_init(&table, columns, has_two ? 3 : 2);
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].now_bytes == 0 && parts[i].bytes == 0)
            continue;
        vw__report_table_row(&table, VW__REPORT_STYLE_PLAIN);
        vw__report_table_cell(&table, parts[i].name);
        vw__report_table_cell(&table, vw__report_size(parts[i].now_bytes).text);
        if (has_two)
            vw__report_table_cell(&table, vw__report_size(parts[i].bytes).text);
    }
    vw__report_table_end(&table, out);
}

static void say_sizes(vw__report *out, const vw_plan_scaled *scaled)
{
    const vw_plan_scaling *scaling = &scaled->scaling;
    if (scaling->batch_now == 0)
        vw__report_fact(out, "batch", "as traced");
    else if (scaling->sequence_now == 0)
        vw__report_fact(out, "batch", "%s, %s with %s", vw__report_count(scaling->batch).text,
                        origin_of(scaled), vw__report_count(scaling->batch_now).text);
    else
        vw__report_fact(out, "batch", "%s of %s tokens, %s with %s of %s",
                        vw__report_count(scaling->batch).text,
                        vw__report_count(scaling->sequence).text, origin_of(scaled),
                        vw__report_count(scaling->batch_now).text,
                        vw__report_count(scaling->sequence_now).text);
}

static void say_error(vw__report *out, const vw_plan_scaled *scaled)
{
    if (scaled->checked_steps != 0)
        vw__report_fact(out, "error", "%s to %s for %s of this %s, predicted unseen",
                        vw__report_share(scaled->error_low).text,
                        vw__report_share(scaled->error_high).text,
                        vw__report_counted(scaled->checked_steps, "other step").text,
                        scaled->is_traced ? "trace" : "recording");
    else if (!is_as_traced(scaled))
        vw__report_fact(out, "error", "not known: no step of another size to predict");
}

static void say_code(vw__report *out, const char *code)
{
    while (*code != '\0') {
        size_t length = strcspn(code, "\n");
        vw__byte_buffer line;
        vw__byte_buffer_init(&line);
        vw__append_bytes(&line, code, length);
        out->buffer.has_failed |= line.has_failed;
        vw__report_verbatim(out, "    ", vw__byte_buffer_text(&line));
        vw__byte_buffer_deinit(&line);
        code += code[length] == '\n' ? length + 1 : length;
    }
}

static void say_choice(vw__report *out, const vw_plan_scaled_choice *choice)
{
    const char *promise = choice->fits ? "fits" : choice->may_fit ? "may fit" : "not enough";
    vw__report_text least = vw__report_size(choice->least_peak_bytes);
    vw__report_text most = vw__report_size(choice->most_peak_bytes);
    if (strcmp(least.text, most.text) == 0)
        vw__report_say(out, VW__REPORT_STYLE_PLAIN, "* %s: %s (%s). Cost: %s.", choice->action,
                       least.text, promise, choice->cost);
    else
        vw__report_say(out, VW__REPORT_STYLE_PLAIN, "* %s: %s to %s (%s). Cost: %s.",
                       choice->action, least.text, most.text, promise, choice->cost);
    say_code(out, choice->code);
}

static void say_choices(vw__report *out, const vw_plan_scaled *scaled)
{
    if (scaled->choice_count == 0)
        return;
    vw__report_blank(out);
    vw__report_say(out, VW__REPORT_STYLE_BOLD,
                   "What would help, each by itself: the peak it leaves");
    for (size_t i = 0; i < scaled->choice_count && i < out->form.most_rows; i++)
        say_choice(out, &scaled->choices[i]);
}

static void say_scaled(vw__report *out, const void *content)
{
    const vw_plan_scaled *scaled = content;
    say_verdict(out, scaled);
    vw__report_blank(out);
    say_table(out, scaled, "at the peak", scaled->parts, scaled->part_count);
    vw__report_blank(out);
    say_table(out, scaled, "grows with", scaled->laws, VW_PLAN_LAW_COUNT);
    vw__report_blank(out);
    say_sizes(out, scaled);
    vw__report_fact(out, "step", "%s of %s, by %s", vw__report_count(scaled->scaling.step).text,
                    vw__report_count(scaled->step_count).text, scaled->step_basis);
    if (is_as_traced(scaled))
        vw__report_fact(out, "peak", "%s allocated, in %s",
                        vw__report_size(scaled->peak_allocated_bytes).text, scaled->peak_phase);
    else
        vw__report_fact(out, "peak", "%s allocated, in %s; %s %s",
                        vw__report_size(scaled->peak_allocated_bytes).text, scaled->peak_phase,
                        origin_of(scaled), vw__report_size(scaled->now_peak_bytes).text);
    vw__report_reserved(out, scaled->reserved_bytes);
    say_error(out, scaled);
    if (scaled->is_card_known && scaled->largest_batch != VW_UNKNOWN)
        vw__report_fact(out, "fitting", "a batch of at most %s, with everything else unchanged",
                        vw__report_count(scaled->largest_batch).text);
    say_choices(out, scaled);
    if (scaled->note_count > 0)
        vw__report_blank(out);
    vw__report_list(out, VW__REPORT_STYLE_PLAIN, "note", scaled->notes, scaled->note_count);
}

/* ---- the fields of the JSON -------------------------------------------------------------------
 */

/* Bytes by name, as in a plan from a model. */
static void json_parts(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_plan_scaled *scaled = object;
    (void)out;
    vw__json_begin_object(json, key);
    for (size_t i = 0; i < scaled->part_count; i++)
        vw__json_unsigned(json, scaled->parts[i].name, scaled->parts[i].bytes);
    vw__json_end_object(json);
}

static void json_now_parts(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_plan_scaled *scaled = object;
    (void)out;
    vw__json_begin_object(json, key);
    for (size_t i = 0; i < scaled->part_count; i++)
        vw__json_unsigned(json, scaled->parts[i].name, scaled->parts[i].now_bytes);
    vw__json_end_object(json);
}

static const vw__report_field law_list[] = {
    {VW__REPORT_FIELD(BYTES, vw_plan_scaled_part, "now_bytes", now_bytes)},
    {VW__REPORT_FIELD(BYTES, vw_plan_scaled_part, "bytes", bytes)},
};
static const vw__report_fields law_fields = VW__REPORT_FIELDS(vw_plan_scaled_part, law_list);

static void json_laws(vw__report *out, vw__json *json, const char *key, const void *object)
{
    const vw_plan_scaled *scaled = object;
    vw__json_begin_object(json, key);
    for (size_t i = 0; i < VW_PLAN_LAW_COUNT; i++)
        vw__report_json_object(out, json, scaled->laws[i].name, &law_fields, &scaled->laws[i]);
    vw__json_end_object(json);
}

#define CHOICE(kind, key, member) VW__REPORT_FIELD(kind, vw_plan_scaled_choice, key, member)
static const vw__report_field choice_list[] = {
    {CHOICE(TEXT, "change", action)},
    {CHOICE(BYTES, "least_peak_bytes", least_peak_bytes)},
    {CHOICE(BYTES, "most_peak_bytes", most_peak_bytes)},
    {CHOICE(BOOLEAN, "fits", fits)},
    {CHOICE(BOOLEAN, "may_fit", may_fit)},
    {CHOICE(TEXT, "cost", cost)},
    {CHOICE(TEXT, "code", code)},
};
static const vw__report_fields choice_fields =
    VW__REPORT_FIELDS(vw_plan_scaled_choice, choice_list);

_Static_assert(offsetof(vw_plan_scaled, error_high) ==
                   offsetof(vw_plan_scaled, error_low) + sizeof(double),
               "the error band is a range");
VW__REPORT_CONDITION(has_batch, vw_plan_scaled, scaling.batch_now != 0)
VW__REPORT_CONDITION(has_length, vw_plan_scaled, scaling.sequence_now != 0)
VW__REPORT_CONDITION(has_checked_steps, vw_plan_scaled, checked_steps != 0)
VW__REPORT_CONDITION(is_card_known, vw_plan_scaled, is_card_known)

#define SCALED(kind, key, member) VW__REPORT_FIELD(kind, vw_plan_scaled, key, member)
static const vw__report_field scaled_list[] = {
    {.key = "file", .kind = VW__REPORT_FIELD_FILE},
    {SCALED(BOOLEAN, "traced", is_traced)},
    {SCALED(COUNT, "batch_now", scaling.batch_now), .is_known = has_batch},
    {SCALED(COUNT, "batch", scaling.batch), .is_known = has_batch},
    {SCALED(COUNT, "sequence_now", scaling.sequence_now), .is_known = has_length},
    {SCALED(COUNT, "sequence", scaling.sequence), .is_known = has_length},
    {SCALED(COUNT, "step", scaling.step)},
    {SCALED(COUNT, "steps", step_count)},
    {SCALED(TEXT, "step_basis", step_basis)},
    {SCALED(COUNT, "evidence_steps", evidence_steps)},
    {SCALED(BYTES, "now_peak_bytes", now_peak_bytes)},
    {SCALED(BYTES, "peak_allocated_bytes", peak_allocated_bytes)},
    {SCALED(BYTES, "peak_device_bytes", peak_device_bytes)},
    {SCALED(BYTES, "context_bytes", context_bytes)},
    {SCALED(TEXT, "peak_phase", peak_phase)},
    {SCALED(OBJECT, "reserved_bytes", reserved_bytes), .fields = &vw__report_plan_reserved},
    {.key = "parts", .write = json_parts},
    {.key = "now_parts", .write = json_now_parts},
    {.key = "grows_with", .write = json_laws},
    {SCALED(BYTES, "perhaps_square_bytes", perhaps_square_bytes)},
    {SCALED(BYTES, "peak_if_square_bytes", peak_if_square_bytes)},
    {SCALED(BYTES, "irregular_bytes", irregular_bytes)},
    {SCALED(COUNT, "checked_steps", checked_steps)},
    {SCALED(RANGE, "error_band", error_low), .is_known = has_checked_steps},
    {SCALED(BYTES, "card_bytes", scaling.card_bytes), .is_known = is_card_known},
    {SCALED(BOOLEAN, "fits", fits), .is_known = is_card_known},
    {SCALED(INTEGER, "margin_bytes", margin_bytes), .is_known = is_card_known},
    {SCALED(COUNT, "largest_batch", largest_batch), .is_known = is_card_known},
    {SCALED(OBJECTS, "options", choices), VW__REPORT_COUNTED(vw_plan_scaled, choice_count),
     .fields = &choice_fields},
    {SCALED(TEXTS, "notes", notes), VW__REPORT_COUNTED(vw_plan_scaled, note_count)},
};
static const vw__report_fields scaled_fields = VW__REPORT_FIELDS(vw_plan_scaled, scaled_list);

vw_status vw_report_plan_scaled(const vw_plan_scaled *scaled, const vw_report_form *form,
                                const vw_output *output)
{
    static const vw__report_kind kind = {"plan", say_scaled, &scaled_fields, "options"};
    return vw__report_as(&kind, scaled, form, output);
}
