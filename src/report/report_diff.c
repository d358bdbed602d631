/* report_diff.c - what grew and what shrank between two recordings, at their peaks. */
#include "headroom/report.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "export/json_write.h"
#include "report/report_frames.h"
#include "report/report_text.h"

enum { FRAMES_SHOWN = 3 };

/* ---- for people ------------------------------------------------------------------------------ */

static void say_answer(hr__report *out, const hr_diff_report *report)
{
    const uint64_t before = report->before.live_bytes, after = report->after.live_bytes;
    const hr__text before_text = hr__size_text(before), after_text = hr__size_text(after);
    if (report->is_same)
        hr__report_say(out, HR__STYLE_GREEN, "the same: %s live at both peaks, in the same places",
                       before_text.text);
    else if (before == after)
        hr__report_say(out, HR__STYLE_YELLOW, "moved: %s live at both peaks, in other places",
                       before_text.text);
    else
        hr__report_say(out, HR__STYLE_YELLOW,
                       "%s by %s: %s live at the first peak, %s at the "
                       "second",
                       after > before ? "grew" : "shrank",
                       hr__change_text(before, after).text + 1, /* without its sign */
                       before_text.text, after_text.text);
}

static void add_total(hr__table *table, const char *what, const char *before, const char *after,
                      const char *change)
{
    hr__table_row(table, HR__STYLE_PLAIN);
    hr__table_cell(table, what);
    hr__table_cell(table, before);
    hr__table_cell(table, after);
    hr__table_cell(table, change);
}

/* A part of what is live, and shown as one. */
static void add_category(hr__table *table, const hr_change *category)
{
    hr__text name;
    snprintf(name.text, sizeof name.text, "  %.40s",
             category->category != NULL ? category->category : "?");
    add_total(table, name.text, hr__size_text(category->before_bytes).text,
              hr__size_text(category->after_bytes).text,
              hr__change_text(category->before_bytes, category->after_bytes).text);
}

static void say_totals(hr__report *out, const hr_diff_report *report)
{
    static const hr__column columns[] = {
        {"at the peak", HR__COLUMN_NAME},
        {"first", HR__COLUMN_NUMBER},
        {"second", HR__COLUMN_NUMBER},
        {"change", HR__COLUMN_NUMBER},
    };
    hr__table table;
    hr__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    add_total(&table, "live", hr__size_text(report->before.live_bytes).text,
              hr__size_text(report->after.live_bytes).text,
              hr__change_text(report->before.live_bytes, report->after.live_bytes).text);
    for (size_t i = 0; i < report->category_count; i++)
        add_category(&table, &report->categories[i]);
    add_total(&table, "reserved", hr__size_text(report->before_peak_reserved_bytes).text,
              hr__size_text(report->after_peak_reserved_bytes).text,
              hr__change_text(report->before_peak_reserved_bytes, report->after_peak_reserved_bytes)
                  .text);
    add_total(&table, "blocks", hr__count_text(report->before.block_count).text,
              hr__count_text(report->after.block_count).text, "");
    hr__table_end(&table, out);
}

static void add_change(hr__table *table, const hr_change *change, bool has_stacks)
{
    hr__byte_buffer place;
    hr__byte_buffer_init(&place);
    hr__append_place(&place, change->where, change->frames, change->frame_count, "(no stack)");
    hr__table_row(table, HR__STYLE_PLAIN);
    hr__table_cell(table, hr__change_text(change->before_bytes, change->after_bytes).text);
    hr__table_cell(table, hr__size_text(change->before_bytes).text);
    hr__table_cell(table, hr__size_text(change->after_bytes).text);
    hr__table_cell(table, change->category);
    hr__table_cell(table, hr__byte_buffer_text(&place));
    if (has_stacks)
        hr__table_frames(table, change->frames, change->frame_count, FRAMES_SHOWN);
    if (place.has_failed)
        table->rows.has_failed = true;
    hr__byte_buffer_deinit(&place);
}

static void say_changes(hr__report *out, const hr_diff_report *report)
{
    static const hr__column columns[] = {
        {"change", HR__COLUMN_NUMBER}, {"first", HR__COLUMN_NUMBER}, {"second", HR__COLUMN_NUMBER},
        {"category", HR__COLUMN_WORD}, {"where", HR__COLUMN_PLACE},
    };
    hr__table table;
    if (report->change_count == 0)
        return;
    hr__report_blank(out);
    hr__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < report->change_count && i < out->form.most_rows; i++)
        add_change(&table, &report->changes[i], out->form.has_stacks);
    hr__table_end(&table, out);
    if (report->change_count > out->form.most_rows)
        hr__report_say(
            out, HR__STYLE_FAINT, "and %s",
            hr__counted_text(report->change_count - out->form.most_rows, "smaller one").text);
}

static bool has_other_settings(const hr_diff_report *report)
{
    const char *before = report->before_conf != NULL ? report->before_conf : "";
    const char *after = report->after_conf != NULL ? report->after_conf : "";
    return strcmp(before, after) != 0;
}

static void say_side(hr__report *out, const char *label, const char *file, int device,
                     uint64_t event_count, const char *conf, bool has_conf)
{
    hr__report_fact(out, label, "%s%sdevice %d, %s", file != NULL ? file : "",
                    file != NULL ? ", " : "", device, hr__counted_text(event_count, "event").text);
    if (has_conf)
        hr__report_fact(out, "", "%s",
                        conf == NULL      ? "settings not recorded"
                        : conf[0] == '\0' ? "PyTorch's default settings"
                                          : conf);
}

static void say_report(hr__report *out, const hr_diff_report *report)
{
    const bool has_conf = has_other_settings(report);
    say_answer(out, report);
    hr__report_blank(out);
    say_totals(out, report);
    say_changes(out, report);
    hr__report_blank(out);
    say_side(out, "first", out->form.file, report->before_device, report->before_event_count,
             report->before_conf, has_conf);
    say_side(out, "second", out->form.other_file, report->after_device, report->after_event_count,
             report->after_conf, has_conf);
    if (report->note_count > 0)
        hr__report_blank(out);
    hr__report_list(out, HR__STYLE_PLAIN, "note", report->notes, report->note_count);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_side(hr__json *json, const char *key, const char *file, int device,
                      const char *conf, uint64_t event_count, const hr_moment *peak,
                      uint64_t peak_reserved_bytes)
{
    hr__json_begin_object(json, key);
    hr__json_text(json, "file", file);
    hr__json_integer(json, "device", device);
    hr__json_text(json, "conf", conf);
    hr__json_unsigned(json, "events", event_count);
    hr__json_known(json, "peak_event", peak->event);
    hr__json_unsigned(json, "peak_live_bytes", peak->live_bytes);
    hr__json_unsigned(json, "peak_blocks", peak->block_count);
    hr__json_known(json, "peak_reserved_bytes", peak_reserved_bytes);
    hr__json_end_object(json);
}

static void json_change(hr__json *json, const hr_change *change, bool has_frames)
{
    hr__json_begin_object(json, NULL);
    hr__json_text(json, "category", change->category);
    hr__json_unsigned(json, "before_bytes", change->before_bytes);
    hr__json_unsigned(json, "after_bytes", change->after_bytes);
    hr__json_unsigned(json, "before_blocks", change->before_count);
    hr__json_unsigned(json, "after_blocks", change->after_count);
    if (has_frames)
        hr__json_frames(json, change->where, change->frames, change->frame_count);
    hr__json_end_object(json);
}

static void json_report(hr__report *out, const hr_diff_report *report)
{
    hr__json json;
    hr__json_init(&json, &out->buffer);
    hr__json_begin_object(&json, NULL);
    hr__json_unsigned(&json, "schema", 1);
    hr__json_boolean(&json, "same", report->is_same);
    json_side(&json, "before", out->form.file, report->before_device, report->before_conf,
              report->before_event_count, &report->before, report->before_peak_reserved_bytes);
    json_side(&json, "after", out->form.other_file, report->after_device, report->after_conf,
              report->after_event_count, &report->after, report->after_peak_reserved_bytes);
    hr__json_begin_array(&json, "categories");
    for (size_t i = 0; i < report->category_count; i++)
        json_change(&json, &report->categories[i], false);
    hr__json_end_array(&json);
    hr__json_unsigned(&json, "change_count", report->change_count);
    hr__json_begin_array(&json, "changes");
    for (size_t i = 0; i < report->change_count && i < out->form.most_rows; i++)
        json_change(&json, &report->changes[i], true);
    hr__json_end_array(&json);
    hr__json_texts(&json, "notes", report->notes, report->note_count);
    hr__json_end_object(&json);
    hr__append_text(&out->buffer, "\n");
}

hr_status hr_report_diff(const hr_diff_report *report, const hr_report_form *form,
                         const hr_output *output)
{
    hr__report out;
    if (report == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no comparison to report: it is NULL");
    hr__report_init(&out, form);
    if (out.form.is_json)
        json_report(&out, report);
    else
        say_report(&out, report);
    return hr__report_send(&out, output);
}
