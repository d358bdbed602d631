/* report_plan_from.c - a recorded run at another batch and length: text and JSON. */
#include "vramwise/report.h"

#include <string.h>

#include "report/report_frames.h" /* vw__json_texts */
#include "report/report_plan.h"

/* ---- text ------------------------------------------------------------------------------------ */

static void say_verdict(vw__report *out, const vw_plan_scaled *scaled)
{
    const uint64_t card_bytes = scaled->scaling.card_bytes;
    const uint64_t margin_bytes = scaled->margin_bytes < 0 ? 0 - (uint64_t)scaled->margin_bytes
                                                           : (uint64_t)scaled->margin_bytes;
    vw__text taken = vw__size_text(scaled->peak_device_bytes);
    if (!scaled->is_card_known)
        vw__report_say(out, VW__STYLE_BOLD, "takes %s, and %s on the card with CUDA's context",
                       vw__size_text(scaled->peak_allocated_bytes).text, taken.text);
    else if (scaled->fits)
        vw__report_say(out, VW__STYLE_GREEN, "fits: %s of %s, %s are left", taken.text,
                       vw__size_text(card_bytes).text, vw__size_text(margin_bytes).text);
    else if (scaled->margin_bytes >= 0)
        vw__report_say(out, VW__STYLE_YELLOW,
                       "too close: %s of %s, and the error of the prediction is larger than the "
                       "%s that are left",
                       taken.text, vw__size_text(card_bytes).text,
                       vw__size_text(margin_bytes).text);
    else
        vw__report_say(out, VW__STYLE_RED, "does not fit: %s on a card of %s, %s are missing",
                       taken.text, vw__size_text(card_bytes).text,
                       vw__size_text(margin_bytes).text);
}

static void say_table(vw__report *out, const char *title, const vw_plan_scaled_part *parts,
                      size_t part_count)
{
    const vw__column columns[] = {
        {title, VW__COLUMN_NAME}, {"recorded", VW__COLUMN_NUMBER}, {"planned", VW__COLUMN_NUMBER}};
    vw__table table;
    vw__table_init(&table, columns, 3);
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].now_bytes == 0 && parts[i].bytes == 0)
            continue;
        vw__table_row(&table, VW__STYLE_PLAIN);
        vw__table_cell(&table, parts[i].name);
        vw__table_cell(&table, vw__size_text(parts[i].now_bytes).text);
        vw__table_cell(&table, vw__size_text(parts[i].bytes).text);
    }
    vw__table_end(&table, out);
}

static void say_sizes(vw__report *out, const vw_plan_scaling *scaling)
{
    if (scaling->sequence_now == 0)
        vw__report_fact(out, "batch", "%s, recorded with %s", vw__count_text(scaling->batch).text,
                        vw__count_text(scaling->batch_now).text);
    else
        vw__report_fact(out, "batch", "%s of %s tokens, recorded with %s of %s",
                        vw__count_text(scaling->batch).text, vw__count_text(scaling->sequence).text,
                        vw__count_text(scaling->batch_now).text,
                        vw__count_text(scaling->sequence_now).text);
}

static void say_error(vw__report *out, const vw_plan_scaled *scaled)
{
    if (scaled->checked_steps != 0)
        vw__report_fact(out, "error", "%s to %s for %s of this recording, predicted unseen",
                        vw__share_text(scaled->error_low).text,
                        vw__share_text(scaled->error_high).text,
                        vw__counted_text(scaled->checked_steps, "other step").text);
    else
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
    vw__text least = vw__size_text(choice->least_peak_bytes);
    vw__text most = vw__size_text(choice->most_peak_bytes);
    if (strcmp(least.text, most.text) == 0)
        vw__report_say(out, VW__STYLE_PLAIN, "* %s: %s (%s). Cost: %s.", choice->action, least.text,
                       promise, choice->cost);
    else
        vw__report_say(out, VW__STYLE_PLAIN, "* %s: %s to %s (%s). Cost: %s.", choice->action,
                       least.text, most.text, promise, choice->cost);
    say_code(out, choice->code);
}

static void say_choices(vw__report *out, const vw_plan_scaled *scaled)
{
    if (scaled->choice_count == 0)
        return;
    vw__report_blank(out);
    vw__report_say(out, VW__STYLE_BOLD, "What would help, each by itself: the peak it leaves");
    for (size_t i = 0; i < scaled->choice_count && i < out->form.most_rows; i++)
        say_choice(out, &scaled->choices[i]);
}

static void say_scaled(vw__report *out, const void *content)
{
    const vw_plan_scaled *scaled = content;
    say_verdict(out, scaled);
    vw__report_blank(out);
    say_table(out, "at the peak", scaled->parts, scaled->part_count);
    vw__report_blank(out);
    say_table(out, "grows with", scaled->laws, VW_PLAN_LAW_COUNT);
    vw__report_blank(out);
    say_sizes(out, &scaled->scaling);
    vw__report_fact(out, "step", "%s of %s, by %s", vw__count_text(scaled->scaling.step).text,
                    vw__count_text(scaled->step_count).text, scaled->step_basis);
    vw__report_fact(out, "peak", "%s allocated, in %s; recorded %s",
                    vw__size_text(scaled->peak_allocated_bytes).text, scaled->peak_phase,
                    vw__size_text(scaled->now_peak_bytes).text);
    vw__report_reserved(out, scaled->reserved_bytes);
    say_error(out, scaled);
    if (scaled->is_card_known)
        vw__report_fact(out, "fitting", "a batch of %s at most, everything else as it is",
                        vw__count_text(scaled->largest_batch).text);
    say_choices(out, scaled);
    if (scaled->note_count > 0)
        vw__report_blank(out);
    vw__report_list(out, VW__STYLE_PLAIN, "note", scaled->notes, scaled->note_count);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_sizes(vw__json *json, const vw_plan_scaling *scaling)
{
    bool has_length = scaling->sequence_now != 0;
    vw__json_unsigned(json, "batch_now", scaling->batch_now);
    vw__json_unsigned(json, "batch", scaling->batch);
    vw__json_known(json, "sequence_now", has_length ? scaling->sequence_now : VW_UNKNOWN);
    vw__json_known(json, "sequence", has_length ? scaling->sequence : VW_UNKNOWN);
    vw__json_unsigned(json, "step", scaling->step);
}

/* As of a plan from a model: bytes by name. */
static void json_parts(vw__json *json, const vw_plan_scaled *scaled)
{
    vw__json_begin_object(json, "parts");
    for (size_t i = 0; i < scaled->part_count; i++)
        vw__json_unsigned(json, scaled->parts[i].name, scaled->parts[i].bytes);
    vw__json_end_object(json);
    vw__json_begin_object(json, "now_parts");
    for (size_t i = 0; i < scaled->part_count; i++)
        vw__json_unsigned(json, scaled->parts[i].name, scaled->parts[i].now_bytes);
    vw__json_end_object(json);
}

static void json_laws(vw__json *json, const vw_plan_scaled *scaled)
{
    vw__json_begin_object(json, "grows_with");
    for (size_t i = 0; i < VW_PLAN_LAW_COUNT; i++) {
        vw__json_begin_object(json, scaled->laws[i].name);
        vw__json_unsigned(json, "now_bytes", scaled->laws[i].now_bytes);
        vw__json_unsigned(json, "bytes", scaled->laws[i].bytes);
        vw__json_end_object(json);
    }
    vw__json_end_object(json);
}

static void json_error(vw__json *json, const vw_plan_scaled *scaled)
{
    vw__json_unsigned(json, "checked_steps", scaled->checked_steps);
    if (scaled->checked_steps == 0) {
        vw__json_null(json, "error_band");
        return;
    }
    vw__json_begin_array(json, "error_band");
    vw__json_double(json, NULL, scaled->error_low);
    vw__json_double(json, NULL, scaled->error_high);
    vw__json_end_array(json);
}

static void json_card(vw__json *json, const vw_plan_scaled *scaled)
{
    if (scaled->is_card_known) {
        vw__json_unsigned(json, "card_bytes", scaled->scaling.card_bytes);
        vw__json_boolean(json, "fits", scaled->fits);
        vw__json_integer(json, "margin_bytes", scaled->margin_bytes);
        vw__json_unsigned(json, "largest_batch", scaled->largest_batch);
        return;
    }
    vw__json_null(json, "card_bytes");
    vw__json_null(json, "fits");
    vw__json_null(json, "margin_bytes");
    vw__json_null(json, "largest_batch");
}

static void json_choices(vw__json *json, const vw_plan_scaled *scaled)
{
    vw__json_begin_array(json, "options");
    for (size_t i = 0; i < scaled->choice_count; i++) {
        const vw_plan_scaled_choice *choice = &scaled->choices[i];
        vw__json_begin_object(json, NULL);
        vw__json_text(json, "change", choice->action);
        vw__json_unsigned(json, "least_peak_bytes", choice->least_peak_bytes);
        vw__json_unsigned(json, "most_peak_bytes", choice->most_peak_bytes);
        vw__json_boolean(json, "fits", choice->fits);
        vw__json_boolean(json, "may_fit", choice->may_fit);
        vw__json_text(json, "cost", choice->cost);
        vw__json_text(json, "code", choice->code);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
}

static void json_scaled(vw__report *out, vw__json *json, const void *content)
{
    const vw_plan_scaled *scaled = content;
    vw__json_text(json, "file", out->form.file);
    json_sizes(json, &scaled->scaling);
    vw__json_unsigned(json, "steps", scaled->step_count);
    vw__json_text(json, "step_basis", scaled->step_basis);
    vw__json_unsigned(json, "evidence_steps", scaled->evidence_steps);
    vw__json_unsigned(json, "now_peak_bytes", scaled->now_peak_bytes);
    vw__json_unsigned(json, "peak_allocated_bytes", scaled->peak_allocated_bytes);
    vw__json_unsigned(json, "peak_device_bytes", scaled->peak_device_bytes);
    vw__json_unsigned(json, "context_bytes", scaled->context_bytes);
    vw__json_text(json, "peak_phase", scaled->peak_phase);
    vw__json_reserved(json, scaled->reserved_bytes);
    json_parts(json, scaled);
    json_laws(json, scaled);
    vw__json_unsigned(json, "perhaps_square_bytes", scaled->perhaps_square_bytes);
    vw__json_known(json, "peak_if_square_bytes", scaled->peak_if_square_bytes);
    vw__json_unsigned(json, "irregular_bytes", scaled->irregular_bytes);
    json_error(json, scaled);
    json_card(json, scaled);
    json_choices(json, scaled);
    vw__json_texts(json, "notes", scaled->notes, scaled->note_count);
}

vw_status vw_report_plan_scaled(const vw_plan_scaled *scaled, const vw_report_form *form,
                                const vw_output *output)
{
    static const vw__report_kind kind = {"plan", say_scaled, json_scaled};
    return vw__report_as(&kind, scaled, form, output);
}
