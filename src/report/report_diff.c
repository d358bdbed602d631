/* report_diff.c - what grew and what shrank between two recordings, at their peaks. */
#include "vramwise/report.h"

#include <string.h>

#include "report/report_fields.h"

/* ---- the fields ------------------------------------------------------------------------------ */

#define DIFF(kind, key, member) VW__REPORT_FIELD(kind, vw_diff_report, key, member)

/* One of the two recordings: `side` is before or after, `file_kind` its file in the form. */
#define SIDE(side, file_kind)                                                                      \
    static const vw__report_field side##_list[] = {                                                \
        {.key = "file", .kind = VW__REPORT_FIELD_##file_kind},                                     \
        {DIFF(INTEGER, "device", side##_device)},                                                  \
        {DIFF(TEXT, "conf", side##_conf)},                                                         \
        {DIFF(COUNT, "events", side##_event_count)},                                               \
        {DIFF(COUNT, "peak_event", side.event)},                                                   \
        {DIFF(BYTES, "peak_live_bytes", side.live_bytes)},                                         \
        {DIFF(COUNT, "peak_blocks", side.block_count)},                                            \
        {DIFF(BYTES, "peak_reserved_bytes", side##_peak_reserved_bytes)},                          \
    };                                                                                             \
    static const vw__report_fields side##_fields = VW__REPORT_FIELDS(vw_diff_report, side##_list);
SIDE(before, FILE)
SIDE(after, OTHER_FILE)
#undef SIDE

static void append_difference(vw__byte_buffer *cell, const void *object)
{
    const vw_change *change = object;
    vw__append_text(cell, vw__report_change(change->before_bytes, change->after_bytes).text);
}

/* A category is a part of what is live, and shown as one. */
static void append_category(vw__byte_buffer *cell, const void *object)
{
    const vw_change *change = object;
    vw__append_format(cell, "  %.40s", change->category != NULL ? change->category : "?");
}

/* The line, and the innermost frame if there is one stack. With several, how many: a window has no
 * room for both, and the frames that changed most are shown on request. */
static void append_place(vw__byte_buffer *cell, const void *object)
{
    const vw_change *change = object;
    const bool has_several = change->stack_count > 1 && change->where != NULL;
    vw__report_append_place(cell, change->where, change->frames,
                            has_several ? 0 : change->frame_count, "(no stack)");
    if (has_several)
        vw__append_format(cell, " (%s)", vw__report_counted(change->stack_count, "stack").text);
}

#define CHANGE(kind, key, member) VW__REPORT_FIELD(kind, vw_change, key, member)
static const vw__report_field category_list[] = {
    {CHANGE(TEXT, "category", category), VW__REPORT_COLUMN(1, NAME, "at the peak"),
     .append = append_category},
    {CHANGE(BYTES, "before_bytes", before_bytes), VW__REPORT_COLUMN(2, NUMBER, "first")},
    {CHANGE(BYTES, "after_bytes", after_bytes), VW__REPORT_COLUMN(3, NUMBER, "second")},
    {CHANGE(COUNT, "before_blocks", before_count)},
    {CHANGE(COUNT, "after_blocks", after_count)},
    {VW__REPORT_COLUMN(4, NUMBER, "change"), .append = append_difference},
};
static const vw__report_fields category_fields = VW__REPORT_FIELDS(vw_change, category_list);

static const vw__report_field change_list[] = {
    {VW__REPORT_COLUMN(1, NUMBER, "change"), .append = append_difference},
    {CHANGE(TEXT, "category", category), VW__REPORT_COLUMN(4, WORD, "category")},
    {CHANGE(BYTES, "before_bytes", before_bytes), VW__REPORT_COLUMN(2, NUMBER, "first")},
    {CHANGE(BYTES, "after_bytes", after_bytes), VW__REPORT_COLUMN(3, NUMBER, "second")},
    {CHANGE(COUNT, "before_blocks", before_count)},
    {CHANGE(COUNT, "after_blocks", after_count)},
    {CHANGE(PLACE, "where", where), VW__REPORT_COLUMN(5, PLACE, "where"), .append = append_place},
    {CHANGE(FRAMES, "frames", frames), VW__REPORT_COUNTED(vw_change, frame_count)},
    {CHANGE(PLACE, "before_where", before_where)},
    {CHANGE(PLACE, "after_where", after_where)},
    {CHANGE(COUNT, "stacks", stack_count)},
};
static const vw__report_fields change_fields = VW__REPORT_FIELDS(vw_change, change_list);

static const char *kind_of_rename(const void *object)
{
    return ((const vw_rename *)object)->is_file ? "file" : "function";
}

#define RENAME(kind, key, member) VW__REPORT_FIELD(kind, vw_rename, key, member)
static const vw__report_field rename_list[] = {
    {.key = "kind", .kind = VW__REPORT_FIELD_TEXT, .text = kind_of_rename},
    {RENAME(TEXT, "before", before)},
    {RENAME(TEXT, "after", after)},
};
static const vw__report_fields rename_fields = VW__REPORT_FIELDS(vw_rename, rename_list);

static const vw__report_field diff_list[] = {
    {DIFF(BOOLEAN, "same", is_same)},
    {.key = "before", .kind = VW__REPORT_FIELD_OBJECT, .fields = &before_fields},
    {.key = "after", .kind = VW__REPORT_FIELD_OBJECT, .fields = &after_fields},
    {DIFF(OBJECTS, "categories", categories), VW__REPORT_COUNTED(vw_diff_report, category_count),
     .fields = &category_fields},
    {DIFF(COUNT, "change_count", change_count)},
    {DIFF(FIRST_OBJECTS, "changes", changes), VW__REPORT_COUNTED(vw_diff_report, change_count),
     .fields = &change_fields},
    {DIFF(BYTES, "grown_bytes", grown_bytes)},
    {DIFF(BYTES, "shrunk_bytes", shrunk_bytes)},
    {DIFF(OBJECTS, "renames", renames), VW__REPORT_COUNTED(vw_diff_report, rename_count),
     .fields = &rename_fields},
    {DIFF(TEXTS, "notes", notes), VW__REPORT_COUNTED(vw_diff_report, note_count)},
};
static const vw__report_fields diff_fields = VW__REPORT_FIELDS(vw_diff_report, diff_list);

/* ---- for people ------------------------------------------------------------------------------ */

/* The allocator may hold more or less for the same live memory. */
static void say_no_difference(vw__report *out, const vw_diff_report *report)
{
    const vw__report_text live = vw__report_size(report->before.live_bytes);
    const uint64_t before = report->before_peak_reserved_bytes,
                   after = report->after_peak_reserved_bytes;
    if (before == after || before == VW_UNKNOWN || after == VW_UNKNOWN)
        vw__report_say(out, VW__REPORT_STYLE_GREEN,
                       "no difference: %s live at both peaks, in the same places", live.text);
    else
        vw__report_say(out, VW__REPORT_STYLE_GREEN,
                       "no difference in live memory: %s at both peaks, in the same places; "
                       "reserved memory %s by %s",
                       live.text, after > before ? "grew" : "shrank",
                       vw__report_change(before, after).text + 1); /* without its sign */
}

static void say_answer(vw__report *out, const vw_diff_report *report)
{
    const uint64_t before = report->before.live_bytes, after = report->after.live_bytes;
    const vw__report_text before_text = vw__report_size(before),
                          after_text = vw__report_size(after);
    if (report->is_same)
        say_no_difference(out, report);
    else if (before == after)
        vw__report_say(out, VW__REPORT_STYLE_YELLOW,
                       "moved: %s live at both peaks, in other places", before_text.text);
    else
        vw__report_say(out, VW__REPORT_STYLE_YELLOW,
                       "%s by %s: %s live at the first peak, %s at the "
                       "second",
                       after > before ? "grew" : "shrank",
                       vw__report_change(before, after).text + 1, /* without its sign */
                       before_text.text, after_text.text);
}

static void add_total(vw__report_table *table, const char *what, const char *before,
                      const char *after, const char *change)
{
    vw__report_table_row(table, VW__REPORT_STYLE_PLAIN);
    vw__report_table_cell(table, what);
    vw__report_table_cell(table, before);
    vw__report_table_cell(table, after);
    vw__report_table_cell(table, change);
}

static void add_total_bytes(vw__report_table *table, const char *what, uint64_t before,
                            uint64_t after)
{
    add_total(table, what, vw__report_size(before).text, vw__report_size(after).text,
              vw__report_change(before, after).text);
}

static void say_totals(vw__report *out, const vw_diff_report *report)
{
    vw__report_table table;
    vw__report_fields_table(&table, &category_fields);
    add_total_bytes(&table, "live", report->before.live_bytes, report->after.live_bytes);
    for (size_t i = 0; i < report->category_count; i++)
        vw__report_fields_row(&table, VW__REPORT_STYLE_PLAIN, &category_fields,
                              &report->categories[i]);
    add_total(&table, "blocks", vw__report_count(report->before.block_count).text,
              vw__report_count(report->after.block_count).text, "");
    add_total_bytes(&table, "most reserved", report->before_peak_reserved_bytes,
                    report->after_peak_reserved_bytes);
    vw__report_table_end(&table, out);
}

/* The rows that are left out, with what they come to: so that all rows add up to the totals. */
static void say_the_rest(vw__report *out, const vw_diff_report *report)
{
    uint64_t before = 0, after = 0;
    for (size_t i = out->form.most_rows; i < report->change_count; i++) {
        before += report->changes[i].before_bytes;
        after += report->changes[i].after_bytes;
    }
    vw__report_say(
        out, VW__REPORT_STYLE_FAINT, "and %s, %s in all",
        vw__report_counted(report->change_count - out->form.most_rows, "smaller one").text,
        vw__report_change(before, after).text);
}

static void say_changes(vw__report *out, const vw_diff_report *report)
{
    vw__report_table table;
    if (report->change_count == 0)
        return;
    vw__report_blank(out);
    vw__report_fields_table(&table, &change_fields);
    for (size_t i = 0; i < report->change_count && i < out->form.most_rows; i++) {
        const vw_change *change = &report->changes[i];
        vw__report_fields_row(&table, VW__REPORT_STYLE_PLAIN, &change_fields, change);
        if (out->form.has_stacks)
            vw__report_table_frames(&table, change->frames, change->frame_count);
    }
    vw__report_table_end(&table, out);
    if (report->change_count > out->form.most_rows)
        say_the_rest(out, report);
}

static void say_renames(vw__report *out, const vw_diff_report *report)
{
    if (report->rename_count == 0)
        return;
    vw__report_blank(out);
    for (size_t i = 0; i < report->rename_count && i < out->form.most_rows; i++)
        vw__report_say(out, VW__REPORT_STYLE_PLAIN, "%s is now %s", report->renames[i].before,
                       report->renames[i].after);
    if (report->rename_count > out->form.most_rows)
        vw__report_say(
            out, VW__REPORT_STYLE_FAINT, "and %s",
            vw__report_counted(report->rename_count - out->form.most_rows, "more rename").text);
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
                    file != NULL ? ", " : "", device,
                    vw__report_counted(event_count, "event").text);
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
    say_renames(out, report);
    vw__report_blank(out);
    say_side(out, "first", out->form.file, report->before_device, report->before_event_count,
             report->before_conf, has_conf);
    say_side(out, "second", out->form.other_file, report->after_device, report->after_event_count,
             report->after_conf, has_conf);
    vw__report_remarks(out, NULL, 0, report->notes, report->note_count);
}

vw_status vw_report_diff(const vw_diff_report *report, const vw_report_form *form,
                         const vw_output *output)
{
    static const vw__report_kind kind = {"comparison", say_report, &diff_fields, "changes"};
    return vw__report_as(&kind, report, form, output);
}
