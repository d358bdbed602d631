/* report_diff.c - what grew and what shrank between two recordings, at their peaks. */
#include "vramwise/report.h"

#include <stdio.h>
#include <string.h>

#include "report/report_frames.h"
#include "report/report_text.h"

enum { FRAMES_SHOWN = 3 };

/* ---- for people ------------------------------------------------------------------------------ */

static void say_answer(vw__report *out, const vw_diff_report *report)
{
    const uint64_t before = report->before.live_bytes, after = report->after.live_bytes;
    const vw__text before_text = vw__size_text(before), after_text = vw__size_text(after);
    if (report->is_same)
        vw__report_say(out, VW__STYLE_GREEN, "the same: %s live at both peaks, in the same places",
                       before_text.text);
    else if (before == after)
        vw__report_say(out, VW__STYLE_YELLOW, "moved: %s live at both peaks, in other places",
                       before_text.text);
    else
        vw__report_say(out, VW__STYLE_YELLOW,
                       "%s by %s: %s live at the first peak, %s at the "
                       "second",
                       after > before ? "grew" : "shrank",
                       vw__change_text(before, after).text + 1, /* without its sign */
                       before_text.text, after_text.text);
}

static void add_total(vw__table *table, const char *what, const char *before, const char *after,
                      const char *change)
{
    vw__table_row(table, VW__STYLE_PLAIN);
    vw__table_cell(table, what);
    vw__table_cell(table, before);
    vw__table_cell(table, after);
    vw__table_cell(table, change);
}

/* A part of what is live, and shown as one. */
static void add_category(vw__table *table, const vw_change *category)
{
    vw__text name;
    snprintf(name.text, sizeof name.text, "  %.40s",
             category->category != NULL ? category->category : "?");
    add_total(table, name.text, vw__size_text(category->before_bytes).text,
              vw__size_text(category->after_bytes).text,
              vw__change_text(category->before_bytes, category->after_bytes).text);
}

static void say_totals(vw__report *out, const vw_diff_report *report)
{
    static const vw__column columns[] = {
        {"at the peak", VW__COLUMN_NAME},
        {"first", VW__COLUMN_NUMBER},
        {"second", VW__COLUMN_NUMBER},
        {"change", VW__COLUMN_NUMBER},
    };
    vw__table table;
    vw__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    add_total(&table, "live", vw__size_text(report->before.live_bytes).text,
              vw__size_text(report->after.live_bytes).text,
              vw__change_text(report->before.live_bytes, report->after.live_bytes).text);
    for (size_t i = 0; i < report->category_count; i++)
        add_category(&table, &report->categories[i]);
    add_total(&table, "blocks", vw__count_text(report->before.block_count).text,
              vw__count_text(report->after.block_count).text, "");
    add_total(&table, "most reserved", vw__size_text(report->before_peak_reserved_bytes).text,
              vw__size_text(report->after_peak_reserved_bytes).text,
              vw__change_text(report->before_peak_reserved_bytes, report->after_peak_reserved_bytes)
                  .text);
    vw__table_end(&table, out);
}

static void add_change(vw__table *table, const vw_change *change, bool has_stacks)
{
    vw__byte_buffer place;
    vw__byte_buffer_init(&place);
    vw__append_place(&place, change->where, change->frames, change->frame_count, "(no stack)");
    vw__table_row(table, VW__STYLE_PLAIN);
    vw__table_cell(table, vw__change_text(change->before_bytes, change->after_bytes).text);
    vw__table_cell(table, vw__size_text(change->before_bytes).text);
    vw__table_cell(table, vw__size_text(change->after_bytes).text);
    vw__table_cell(table, change->category);
    vw__table_cell(table, vw__byte_buffer_text(&place));
    if (has_stacks)
        vw__table_frames(table, change->frames, change->frame_count, FRAMES_SHOWN);
    if (place.has_failed)
        table->rows.has_failed = true;
    vw__byte_buffer_deinit(&place);
}

static void say_changes(vw__report *out, const vw_diff_report *report)
{
    static const vw__column columns[] = {
        {"change", VW__COLUMN_NUMBER}, {"first", VW__COLUMN_NUMBER}, {"second", VW__COLUMN_NUMBER},
        {"category", VW__COLUMN_WORD}, {"where", VW__COLUMN_PLACE},
    };
    vw__table table;
    if (report->change_count == 0)
        return;
    vw__report_blank(out);
    vw__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < report->change_count && i < out->form.most_rows; i++)
        add_change(&table, &report->changes[i], out->form.has_stacks);
    vw__table_end(&table, out);
    if (report->change_count > out->form.most_rows)
        vw__report_say(
            out, VW__STYLE_FAINT, "and %s",
            vw__counted_text(report->change_count - out->form.most_rows, "smaller one").text);
}

static bool has_other_settings(const vw_diff_report *report)
{
    const char *before = report->before_conf != NULL ? report->before_conf : "";
    const char *after = report->after_conf != NULL ? report->after_conf : "";
    return strcmp(before, after) != 0;
}

static void say_side(vw__report *out, const char *label, const char *file, int device,
                     uint64_t event_count, const char *conf, bool has_conf)
{
    vw__report_fact(out, label, "%s%sdevice %d, %s", file != NULL ? file : "",
                    file != NULL ? ", " : "", device, vw__counted_text(event_count, "event").text);
    if (has_conf)
        vw__report_fact(out, "", "%s",
                        conf == NULL      ? "settings not recorded"
                        : conf[0] == '\0' ? "PyTorch's default settings"
                                          : conf);
}

static void say_report(vw__report *out, const void *content)
{
    const vw_diff_report *report = content;
    const bool has_conf = has_other_settings(report);
    say_answer(out, report);
    vw__report_blank(out);
    say_totals(out, report);
    say_changes(out, report);
    vw__report_blank(out);
    say_side(out, "first", out->form.file, report->before_device, report->before_event_count,
             report->before_conf, has_conf);
    say_side(out, "second", out->form.other_file, report->after_device, report->after_event_count,
             report->after_conf, has_conf);
    vw__report_remarks(out, NULL, 0, report->notes, report->note_count);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_side(vw__json *json, const char *key, const char *file, int device,
                      const char *conf, uint64_t event_count, const vw_moment *peak,
                      uint64_t peak_reserved_bytes)
{
    vw__json_begin_object(json, key);
    vw__json_text(json, "file", file);
    vw__json_integer(json, "device", device);
    vw__json_text(json, "conf", conf);
    vw__json_unsigned(json, "events", event_count);
    vw__json_known(json, "peak_event", peak->event);
    vw__json_unsigned(json, "peak_live_bytes", peak->live_bytes);
    vw__json_unsigned(json, "peak_blocks", peak->block_count);
    vw__json_known(json, "peak_reserved_bytes", peak_reserved_bytes);
    vw__json_end_object(json);
}

static void json_change(vw__json *json, const vw_change *change, bool has_frames)
{
    vw__json_begin_object(json, NULL);
    vw__json_text(json, "category", change->category);
    vw__json_unsigned(json, "before_bytes", change->before_bytes);
    vw__json_unsigned(json, "after_bytes", change->after_bytes);
    vw__json_unsigned(json, "before_blocks", change->before_count);
    vw__json_unsigned(json, "after_blocks", change->after_count);
    if (has_frames)
        vw__json_frames(json, change->where, change->frames, change->frame_count);
    vw__json_end_object(json);
}

static void json_report(vw__report *out, vw__json *json, const void *content)
{
    const vw_diff_report *report = content;
    vw__json_boolean(json, "same", report->is_same);
    json_side(json, "before", out->form.file, report->before_device, report->before_conf,
              report->before_event_count, &report->before, report->before_peak_reserved_bytes);
    json_side(json, "after", out->form.other_file, report->after_device, report->after_conf,
              report->after_event_count, &report->after, report->after_peak_reserved_bytes);
    vw__json_begin_array(json, "categories");
    for (size_t i = 0; i < report->category_count; i++)
        json_change(json, &report->categories[i], false);
    vw__json_end_array(json);
    vw__json_unsigned(json, "change_count", report->change_count);
    vw__json_begin_array(json, "changes");
    for (size_t i = 0; i < report->change_count && i < out->form.most_rows; i++)
        json_change(json, &report->changes[i], true);
    vw__json_end_array(json);
    vw__json_texts(json, "notes", report->notes, report->note_count);
}

vw_status vw_report_diff(const vw_diff_report *report, const vw_report_form *form,
                         const vw_output *output)
{
    static const vw__report_kind kind = {"comparison", say_report, json_report};
    return vw__report_as(&kind, report, form, output);
}
