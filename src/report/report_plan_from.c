/* report_plan_from.c - a recorded run at another batch and length: text and JSON. */
#include "headroom/report.h"

#include <string.h>

#include "base/error.h"
#include "report/report_frames.h" /* hr__json_texts */
#include "report/report_plan.h"

/* ---- text ------------------------------------------------------------------------------------ */

static void say_verdict(hr__report *out, const hr_plan_scaled *scaled)
{
    const uint64_t card_bytes = scaled->scaling.card_bytes;
    const uint64_t margin_bytes = scaled->margin_bytes < 0 ? 0 - (uint64_t)scaled->margin_bytes
                                                           : (uint64_t)scaled->margin_bytes;
    hr__text taken = hr__size_text(scaled->peak_device_bytes);
    if (!scaled->is_card_known)
        hr__report_say(out, HR__STYLE_BOLD, "takes %s, and %s on the card with CUDA's context",
                       hr__size_text(scaled->peak_allocated_bytes).text, taken.text);
    else if (scaled->fits)
        hr__report_say(out, HR__STYLE_GREEN, "fits: %s of %s, %s are left", taken.text,
                       hr__size_text(card_bytes).text, hr__size_text(margin_bytes).text);
    else if (scaled->margin_bytes >= 0)
        hr__report_say(out, HR__STYLE_YELLOW,
                       "too close: %s of %s, and the error of the prediction is larger than the "
                       "%s that are left",
                       taken.text, hr__size_text(card_bytes).text,
                       hr__size_text(margin_bytes).text);
    else
        hr__report_say(out, HR__STYLE_RED, "does not fit: %s on a card of %s, %s are missing",
                       taken.text, hr__size_text(card_bytes).text,
                       hr__size_text(margin_bytes).text);
}

static void say_table(hr__report *out, const char *title, const hr_plan_scaled_part *parts,
                      size_t part_count)
{
    const hr__column columns[] = {
        {title, HR__COLUMN_NAME}, {"recorded", HR__COLUMN_NUMBER}, {"planned", HR__COLUMN_NUMBER}};
    hr__table table;
    hr__table_init(&table, columns, 3);
    for (size_t i = 0; i < part_count; i++) {
        if (parts[i].now_bytes == 0 && parts[i].bytes == 0)
            continue;
        hr__table_row(&table, HR__STYLE_PLAIN);
        hr__table_cell(&table, parts[i].name);
        hr__table_cell(&table, hr__size_text(parts[i].now_bytes).text);
        hr__table_cell(&table, hr__size_text(parts[i].bytes).text);
    }
    hr__table_end(&table, out);
}

static void say_sizes(hr__report *out, const hr_plan_scaling *scaling)
{
    if (scaling->sequence_now == 0)
        hr__report_fact(out, "batch", "%s, recorded with %s", hr__count_text(scaling->batch).text,
                        hr__count_text(scaling->batch_now).text);
    else
        hr__report_fact(out, "batch", "%s of %s tokens, recorded with %s of %s",
                        hr__count_text(scaling->batch).text, hr__count_text(scaling->sequence).text,
                        hr__count_text(scaling->batch_now).text,
                        hr__count_text(scaling->sequence_now).text);
}

static void say_error(hr__report *out, const hr_plan_scaled *scaled)
{
    if (scaled->checked_steps != 0)
        hr__report_fact(out, "error", "%s to %s for %s of this recording, predicted unseen",
                        hr__percent_text(scaled->error_low).text,
                        hr__percent_text(scaled->error_high).text,
                        hr__counted_text(scaled->checked_steps, "other step").text);
    else
        hr__report_fact(out, "error", "not known: no step of another size to predict");
}

static void say_code(hr__report *out, const char *code)
{
    while (*code != '\0') {
        size_t length = strcspn(code, "\n");
        hr__byte_buffer line;
        hr__byte_buffer_init(&line);
        hr__append_bytes(&line, code, length);
        out->buffer.has_failed |= line.has_failed;
        hr__report_verbatim(out, "    ", hr__byte_buffer_text(&line));
        hr__byte_buffer_deinit(&line);
        code += code[length] == '\n' ? length + 1 : length;
    }
}

static void say_choice(hr__report *out, const hr_plan_scaled_choice *choice)
{
    const char *promise = choice->fits ? "fits" : choice->may_fit ? "may fit" : "not enough";
    hr__text least = hr__size_text(choice->least_peak_bytes);
    hr__text most = hr__size_text(choice->most_peak_bytes);
    if (strcmp(least.text, most.text) == 0)
        hr__report_say(out, HR__STYLE_PLAIN, "* %s: %s (%s). Cost: %s.", choice->action, least.text,
                       promise, choice->cost);
    else
        hr__report_say(out, HR__STYLE_PLAIN, "* %s: %s to %s (%s). Cost: %s.", choice->action,
                       least.text, most.text, promise, choice->cost);
    say_code(out, choice->code);
}

static void say_choices(hr__report *out, const hr_plan_scaled *scaled)
{
    if (scaled->choice_count == 0)
        return;
    hr__report_blank(out);
    hr__report_say(out, HR__STYLE_BOLD, "What would help, each by itself: the peak it leaves");
    for (size_t i = 0; i < scaled->choice_count && i < out->form.most_rows; i++)
        say_choice(out, &scaled->choices[i]);
}

static void say_scaled(hr__report *out, const hr_plan_scaled *scaled)
{
    say_verdict(out, scaled);
    hr__report_blank(out);
    say_table(out, "at the peak", scaled->parts, scaled->part_count);
    hr__report_blank(out);
    say_table(out, "grows with", scaled->laws, HR_PLAN_LAW_COUNT);
    hr__report_blank(out);
    say_sizes(out, &scaled->scaling);
    hr__report_fact(out, "step", "%s of %s, by %s", hr__count_text(scaled->scaling.step).text,
                    hr__count_text(scaled->step_count).text, scaled->step_basis);
    hr__report_fact(out, "peak", "%s allocated, in %s; recorded %s",
                    hr__size_text(scaled->peak_allocated_bytes).text, scaled->peak_phase,
                    hr__size_text(scaled->now_peak_bytes).text);
    hr__report_reserved(out, scaled->reserved_bytes);
    say_error(out, scaled);
    if (scaled->is_card_known)
        hr__report_fact(out, "fitting", "a batch of %s at most, everything else as it is",
                        hr__count_text(scaled->largest_batch).text);
    say_choices(out, scaled);
    if (scaled->note_count > 0)
        hr__report_blank(out);
    hr__report_list(out, HR__STYLE_PLAIN, "note", scaled->notes, scaled->note_count);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_sizes(hr__json *json, const hr_plan_scaling *scaling)
{
    bool has_length = scaling->sequence_now != 0;
    hr__json_unsigned(json, "batch_now", scaling->batch_now);
    hr__json_unsigned(json, "batch", scaling->batch);
    hr__json_known(json, "sequence_now", has_length ? scaling->sequence_now : HR_UNKNOWN);
    hr__json_known(json, "sequence", has_length ? scaling->sequence : HR_UNKNOWN);
    hr__json_unsigned(json, "step", scaling->step);
}

/* As of a plan from a model: bytes by name. */
static void json_parts(hr__json *json, const hr_plan_scaled *scaled)
{
    hr__json_begin_object(json, "parts");
    for (size_t i = 0; i < scaled->part_count; i++)
        hr__json_unsigned(json, scaled->parts[i].name, scaled->parts[i].bytes);
    hr__json_end_object(json);
    hr__json_begin_object(json, "now_parts");
    for (size_t i = 0; i < scaled->part_count; i++)
        hr__json_unsigned(json, scaled->parts[i].name, scaled->parts[i].now_bytes);
    hr__json_end_object(json);
}

static void json_laws(hr__json *json, const hr_plan_scaled *scaled)
{
    hr__json_begin_object(json, "grows_with");
    for (size_t i = 0; i < HR_PLAN_LAW_COUNT; i++) {
        hr__json_begin_object(json, scaled->laws[i].name);
        hr__json_unsigned(json, "now_bytes", scaled->laws[i].now_bytes);
        hr__json_unsigned(json, "bytes", scaled->laws[i].bytes);
        hr__json_end_object(json);
    }
    hr__json_end_object(json);
}

static void json_error(hr__json *json, const hr_plan_scaled *scaled)
{
    hr__json_unsigned(json, "checked_steps", scaled->checked_steps);
    if (scaled->checked_steps == 0) {
        hr__json_null(json, "error_band");
        return;
    }
    hr__json_begin_array(json, "error_band");
    hr__json_double(json, NULL, scaled->error_low);
    hr__json_double(json, NULL, scaled->error_high);
    hr__json_end_array(json);
}

static void json_card(hr__json *json, const hr_plan_scaled *scaled)
{
    if (scaled->is_card_known) {
        hr__json_unsigned(json, "card_bytes", scaled->scaling.card_bytes);
        hr__json_boolean(json, "fits", scaled->fits);
        hr__json_integer(json, "margin_bytes", scaled->margin_bytes);
        hr__json_unsigned(json, "largest_batch", scaled->largest_batch);
        return;
    }
    hr__json_null(json, "card_bytes");
    hr__json_null(json, "fits");
    hr__json_null(json, "margin_bytes");
    hr__json_null(json, "largest_batch");
}

static void json_choices(hr__json *json, const hr_plan_scaled *scaled)
{
    hr__json_begin_array(json, "options");
    for (size_t i = 0; i < scaled->choice_count; i++) {
        const hr_plan_scaled_choice *choice = &scaled->choices[i];
        hr__json_begin_object(json, NULL);
        hr__json_text(json, "change", choice->action);
        hr__json_unsigned(json, "least_peak_bytes", choice->least_peak_bytes);
        hr__json_unsigned(json, "most_peak_bytes", choice->most_peak_bytes);
        hr__json_boolean(json, "fits", choice->fits);
        hr__json_boolean(json, "may_fit", choice->may_fit);
        hr__json_text(json, "cost", choice->cost);
        hr__json_text(json, "code", choice->code);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
}

static void json_scaled(hr__json *json, const hr_plan_scaled *scaled, const char *file)
{
    hr__json_begin_object(json, NULL);
    hr__json_unsigned(json, "schema", 1);
    hr__json_text(json, "file", file);
    json_sizes(json, &scaled->scaling);
    hr__json_unsigned(json, "steps", scaled->step_count);
    hr__json_text(json, "step_basis", scaled->step_basis);
    hr__json_unsigned(json, "evidence_steps", scaled->evidence_steps);
    hr__json_unsigned(json, "now_peak_bytes", scaled->now_peak_bytes);
    hr__json_unsigned(json, "peak_allocated_bytes", scaled->peak_allocated_bytes);
    hr__json_unsigned(json, "peak_device_bytes", scaled->peak_device_bytes);
    hr__json_unsigned(json, "context_bytes", scaled->context_bytes);
    hr__json_text(json, "peak_phase", scaled->peak_phase);
    hr__json_reserved(json, scaled->reserved_bytes);
    json_parts(json, scaled);
    json_laws(json, scaled);
    hr__json_unsigned(json, "perhaps_square_bytes", scaled->perhaps_square_bytes);
    hr__json_known(json, "peak_if_square_bytes", scaled->peak_if_square_bytes);
    hr__json_unsigned(json, "irregular_bytes", scaled->irregular_bytes);
    json_error(json, scaled);
    json_card(json, scaled);
    json_choices(json, scaled);
    hr__json_texts(json, "notes", scaled->notes, scaled->note_count);
    hr__json_end_object(json);
}

hr_status hr_report_plan_scaled(const hr_plan_scaled *scaled, const hr_report_form *form,
                                const hr_output *output)
{
    hr__report out;
    if (scaled == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no plan to report: it is NULL");
    hr__report_init(&out, form);
    if (out.form.is_json) {
        hr__json json;
        hr__json_init(&json, &out.buffer);
        json_scaled(&json, scaled, out.form.file);
        hr__append_text(&out.buffer, "\n");
    } else {
        say_scaled(&out, scaled);
    }
    return hr__report_send(&out, output);
}
