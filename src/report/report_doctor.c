/* report_doctor.c - how the doctor speaks.
 *
 * The reader has a dead run and little patience. So a report with a limit of lines is one screen
 * (report_doctor_screen.c). This file has the whole report, which begins in the same way: the
 * verdict in one sentence, the numbers as a picture, and what to try first, ready to be pasted.
 * How the verdict came about and all findings with all other remedies follow; what would make it
 * worse comes last, under a heading that cannot be taken for advice.
 *
 * Texts may quote untrusted files; all of them pass through vw__report_show(). */
#include "vramwise/report.h"
#include "report/report_doctor.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "report/report_fields.h"

enum {
    SMALLEST_WIDTH_COLUMNS = 20, /* a phone's, or a narrow pane's */
    FILE_INDENT = 2,
    SMALLEST_FILE_COLUMNS = 16, /* of a name that is cut */
    FINDING_INDENT = 2,
    PART_BAR_COLUMNS = 24,
    NARROWEST_WITH_PART_BARS = 64,
    FACT_COLUMNS = 14, /* of a label */
    NARROW_FACT_COLUMNS = 8,
    NARROWEST_WITH_COLUMNS = 36,
};

/* ---- the fields; vramwise-doctor(1) names them ------------------------------------------------
 */

static const vw__report_field part_list[] = {
    {VW__REPORT_FIELD(TEXT, vw_part, "name", name)},
    {VW__REPORT_FIELD(BYTES, vw_part, "bytes", bytes)},
};
static const vw__report_fields part_fields = VW__REPORT_FIELDS(vw_part, part_list);

VW__REPORT_NAME(basis_of, vw_remedy, vw_basis_name, basis)

static void json_enough(vw__report *report, vw__json *json, const char *key, const void *object)
{
    const vw_remedy *remedy = object;
    (void)report;
    if (remedy->enough == VW_ENOUGH_UNKNOWN)
        vw__json_null(json, key);
    else
        vw__json_boolean(json, key, remedy->enough == VW_ENOUGH_YES);
}

#define REMEDY(kind, key, member) VW__REPORT_FIELD(kind, vw_remedy, key, member)
static const vw__report_field remedy_list[] = {
    {REMEDY(TEXT, "action", action)},
    {REMEDY(BYTES, "saves_bytes", saves_bytes)},
    {REMEDY(BYTES, "saves_at_most_bytes", saves_at_most_bytes)},
    {.key = "basis", .text = basis_of},
    {.key = "enough", .kind = VW__REPORT_FIELD_BOOLEAN, .write = json_enough},
    {REMEDY(TEXT, "cost", cost)},
    {REMEDY(TEXT, "how", how)},
};
static const vw__report_fields remedy_fields = VW__REPORT_FIELDS(vw_remedy, remedy_list);

#define FINDING(kind, key, member) VW__REPORT_FIELD(kind, vw_finding, key, member)
static const vw__report_field finding_list[] = {
    {FINDING(TEXT, "kind", kind)},
    {FINDING(TEXT, "title", title)},
    {FINDING(BYTES, "bytes", bytes)},
    {FINDING(TEXTS, "where", where), VW__REPORT_COUNTED(vw_finding, where_count)},
    {FINDING(TEXTS, "evidence", evidence), VW__REPORT_COUNTED(vw_finding, evidence_count)},
    {FINDING(OBJECTS, "parts", parts), VW__REPORT_COUNTED(vw_finding, part_count),
     .fields = &part_fields},
    {FINDING(OBJECTS, "remedies", remedies), VW__REPORT_COUNTED(vw_finding, remedy_count),
     .fields = &remedy_fields},
};
static const vw__report_fields finding_fields = VW__REPORT_FIELDS(vw_finding, finding_list);

#define NUMBERS(kind, key, member) VW__REPORT_FIELD(kind, vw_memory_numbers, key, member)
static const vw__report_field number_list[] = {
    {NUMBERS(BYTES, "tried_bytes", tried_bytes)},
    {NUMBERS(BYTES, "total_bytes", total_bytes)},
    {NUMBERS(BYTES, "free_bytes", free_bytes)},
    {NUMBERS(BYTES, "allocated_bytes", allocated_bytes)},
    {NUMBERS(BYTES, "reserved_bytes", reserved_bytes)},
    {NUMBERS(BYTES, "process_bytes", process_bytes)},
    {NUMBERS(BYTES, "allowed_bytes", allowed_bytes)},
    {NUMBERS(NATURAL, "device", device)},
};
static const vw__report_fields number_fields = VW__REPORT_FIELDS(vw_memory_numbers, number_list);

#define FAILED_AT(kind, key, member) VW__REPORT_FIELD(kind, vw_failed_at, key, member)
static const vw__report_field failed_at_list[] = {
    {FAILED_AT(TEXT, "file", file)},         {FAILED_AT(NATURAL, "line", line)},
    {FAILED_AT(TEXT, "function", function)}, {FAILED_AT(TEXT, "code", code)},
    {FAILED_AT(TEXT, "phase", phase)},
};
static const vw__report_fields failed_at_fields = VW__REPORT_FIELDS(vw_failed_at, failed_at_list);

VW__REPORT_NAME(verdict_of, vw_diagnosis, vw_verdict_name, verdict)
VW__REPORT_NAME(confidence_of, vw_diagnosis, vw_confidence_name, confidence)
VW__REPORT_NAME(source_of, vw_diagnosis, vw_doctor_source_name, source)

#define DIAGNOSIS(kind, key, member) VW__REPORT_FIELD(kind, vw_diagnosis, key, member)
static const vw__report_field diagnosis_list[] = {
    {.key = "file", .kind = VW__REPORT_FIELD_FILE},
    {.key = "verdict", .text = verdict_of},
    {.key = "confidence", .text = confidence_of},
    {.key = "source", .text = source_of},
    {DIAGNOSIS(TEXT, "sentence", sentence)},
    {DIAGNOSIS(COUNT, "errors", error_count)},
    {DIAGNOSIS(TEXTS, "reasoning", reasoning), VW__REPORT_COUNTED(vw_diagnosis, reasoning_count)},
    {DIAGNOSIS(OBJECT, "numbers", numbers), .fields = &number_fields},
    {DIAGNOSIS(OBJECTS, "findings", findings), VW__REPORT_COUNTED(vw_diagnosis, finding_count),
     .fields = &finding_fields},
    {DIAGNOSIS(POINTER, "failed_at", failed_at), .fields = &failed_at_fields},
};
static const vw__report_fields diagnosis_fields = VW__REPORT_FIELDS(vw_diagnosis, diagnosis_list);

/* ---- indented parts
 * ------------------------------------------------------------------------------ */

/* A report inside the report, narrower by the indentation. */
static vw__report begin_inside(const vw__report *report, size_t indent)
{
    vw__report inside;
    vw__report_init(&inside, &report->form);
    inside.form.width_columns = report->form.width_columns - (unsigned)indent;
    return inside;
}

/* Appends its lines, indented, and frees it. */
static void end_inside(vw__report *report, vw__report *inside, size_t indent)
{
    const char *at = vw__byte_buffer_text(&inside->buffer);
    const char *end = at + inside->buffer.size_bytes;
    while (at < end) {
        const size_t line_bytes = strcspn(at, "\n");
        if (line_bytes > 0)
            vw__report_append_spaces(&report->buffer, indent);
        vw__append_bytes(&report->buffer, at, line_bytes);
        vw__append_bytes(&report->buffer, "\n", 1);
        at += line_bytes + 1;
    }
    if (inside->buffer.has_failed)
        report->buffer.has_failed = true;
    vw__byte_buffer_deinit(&inside->buffer);
    vw__byte_buffer_deinit(&inside->said);
    vw__byte_buffer_deinit(&inside->shown);
}

static void say_heading(vw__report *report, vw__report_style style, const char *text)
{
    vw__report_blank(report);
    vw__report_prose(report, 0, style, "", "%s", text);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static vw__report_style style_of(vw_verdict verdict)
{
    switch (verdict) {
    case VW_VERDICT_HEALTHY:
        return VW__REPORT_STYLE_GREEN;
    case VW_VERDICT_NOT_OOM:
        return VW__REPORT_STYLE_BOLD;
    case VW_VERDICT_UNKNOWN:
        return VW__REPORT_STYLE_YELLOW;
    default:
        return VW__REPORT_STYLE_RED;
    }
}

/* If it is too long, its beginning and its end: the first folders and the file name say more than
 * the folders between. */
static void append_file(vw__report *report, const char *file, size_t size_bytes,
                        size_t room_columns)
{
    const char *dots = report->form.has_utf8 ? "\xE2\x80\xA6" : "...";
    const size_t columns = vw__report_columns_of(file, size_bytes);
    size_t begin_bytes = size_bytes, end_from = size_bytes;
    if (columns > room_columns) {
        const size_t kept_columns = room_columns - vw__report_columns_of(dots, strlen(dots));
        begin_bytes = vw__report_bytes_within(file, size_bytes, kept_columns / 3);
        const size_t end_columns = kept_columns - vw__report_columns_of(file, begin_bytes);
        end_from = vw__report_bytes_within(file, size_bytes, columns - end_columns);
        while (vw__report_columns_of(file + end_from, size_bytes - end_from) > end_columns)
            end_from += vw__report_bytes_within(file + end_from, size_bytes - end_from, 2);
    }
    vw__append_bytes(&report->buffer, file, begin_bytes);
    if (begin_bytes < size_bytes)
        vw__append_text(&report->buffer, dots);
    vw__append_bytes(&report->buffer, file + end_from, size_bytes - end_from);
}

/* `line` and the file behind it, or below it where there is no room. On a screen the file is cut
 * to what the line has left, if that is worth reading. */
static void say_with_file(vw__report *report, const char *line, const char *file, size_t size_bytes)
{
    const size_t width = report->form.width_columns;
    const size_t left_columns = strlen(line) + 1 < width ? width - strlen(line) - 1 : 0;
    const bool is_behind =
        size_bytes > 0 && (vw__report_columns_of(file, size_bytes) <= left_columns ||
                           (report->form.most_lines != 0 && left_columns >= SMALLEST_FILE_COLUMNS));
    if (!is_behind)
        vw__report_prose(report, 0, VW__REPORT_STYLE_FAINT, "", "%s", line);
    if (size_bytes == 0)
        return;
    vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_FAINT));
    if (is_behind)
        vw__append_format(&report->buffer, "%s ", line);
    else
        vw__report_append_spaces(&report->buffer, FILE_INDENT);
    append_file(report, file, size_bytes, is_behind ? left_columns : width - FILE_INDENT);
    vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_PLAIN));
    vw__report_blank(report);
}

/* "Verdict: fragmentation, high confidence, from a log: train.log" */
static void say_what_it_is_from(vw__report *report, const vw_diagnosis *diagnosis)
{
    const char *source = diagnosis->source == VW_SOURCE_PROCESS ? "look from outside"
                         : diagnosis->is_running                ? "running job"
                         : diagnosis->source == VW_SOURCE_STEPS
                             ? "step log"
                             : vw_doctor_source_name(diagnosis->source);
    const char *file = vw__report_doctor_text(report->form.file);
    char first_of[64] = "", line[160];
    vw__byte_buffer shown;
    if (diagnosis->error_count > 1 && !diagnosis->is_running)
        snprintf(first_of, sizeof first_of, "the first of %.40s in ",
                 vw__report_counted(diagnosis->error_count, "failure").text);
    snprintf(line, sizeof line, "Verdict: %s, %s confidence, from %sa %s%s",
             vw_verdict_name(diagnosis->verdict), vw_confidence_name(diagnosis->confidence),
             first_of, source, file[0] != '\0' ? ":" : "");
    vw__byte_buffer_init(&shown);
    vw__report_show(report, &shown, file, strlen(file));
    if (shown.has_failed)
        report->buffer.has_failed = true;
    say_with_file(report, line, vw__byte_buffer_text(&shown), shown.size_bytes);
    vw__byte_buffer_deinit(&shown);
}

void vw__report_doctor_verdict(vw__report *report, const vw_diagnosis *diagnosis)
{
    const char *sentence = vw__report_doctor_text(diagnosis->sentence);
    vw__report_prose(report, 0, style_of(diagnosis->verdict), "", "%s",
                     sentence[0] != '\0' ? sentence : vw_verdict_name(diagnosis->verdict));
    say_what_it_is_from(report, diagnosis);
}

static void say_reasoning(vw__report *report, const vw_diagnosis *diagnosis)
{
    if (diagnosis->reasoning_count > 0)
        say_heading(report, VW__REPORT_STYLE_BOLD, "Why");
    for (size_t i = 0; i < diagnosis->reasoning_count; i++)
        vw__report_prose(report, 0, VW__REPORT_STYLE_PLAIN, "- ", "%s", diagnosis->reasoning[i]);
}

static void say_first_remedy(vw__report *report, const vw_diagnosis *diagnosis)
{
    const vw_remedy *remedy = vw__report_doctor_first_remedy(diagnosis);
    if (remedy == NULL)
        return;
    say_heading(report, VW__REPORT_STYLE_GREEN, vw__report_doctor_first_heading(diagnosis));
    vw__report_doctor_remedy(report, FINDING_INDENT, "", remedy);
}

/* ---- findings -------------------------------------------------------------------------------- */

static void append_part_bar(vw__byte_buffer *bar, const vw__report *report, uint64_t bytes,
                            uint64_t whole_bytes)
{
    const double columns = (double)bytes / (double)whole_bytes * PART_BAR_COLUMNS;
    for (unsigned i = 0; i < (unsigned)(columns + 0.5); i++)
        vw__append_text(bar, report->form.has_utf8 ? "\xE2\x96\x88" : "#");
}

/* The parts of the bytes, each with its share if the whole is known. */
static void say_parts(vw__report *report, const vw_finding *finding)
{
    static const vw__report_column columns[] = {
        {"", VW__REPORT_COLUMN_NAME},
        {"", VW__REPORT_COLUMN_NUMBER},
        {"", VW__REPORT_COLUMN_NUMBER},
        {"", VW__REPORT_COLUMN_WORD},
    };
    bool has_shares = finding->bytes != VW_UNKNOWN && finding->bytes > 0;
    vw__byte_buffer bar;
    vw__report_table table;
    for (size_t i = 0; i < finding->part_count; i++)
        has_shares = has_shares && finding->parts[i].bytes <= finding->bytes;
    vw__byte_buffer_init(&bar);
    vw__report_table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < finding->part_count; i++) {
        const vw_part *part = &finding->parts[i];
        vw__report_text share = {""};
        vw__byte_buffer_clear(&bar);
        if (has_shares) {
            share = vw__report_share((double)part->bytes / (double)finding->bytes);
            if (report->form.width_columns >= NARROWEST_WITH_PART_BARS)
                append_part_bar(&bar, report, part->bytes, finding->bytes);
        }
        if (report->form.width_columns < NARROWEST_WITH_COLUMNS) {
            vw__report_prose(report, 0, VW__REPORT_STYLE_PLAIN, "", "%s: %s%s%s",
                             vw__report_doctor_text(part->name), vw__report_size(part->bytes).text,
                             has_shares ? ", " : "", share.text);
            continue;
        }
        vw__report_table_row(&table, VW__REPORT_STYLE_PLAIN);
        vw__report_table_cell(&table, part->name);
        vw__report_table_cell(&table, vw__report_size(part->bytes).text);
        vw__report_table_cell(&table, share.text);
        vw__report_table_cell(&table, vw__byte_buffer_text(&bar));
        if (bar.has_failed)
            table.rows.has_failed = true;
    }
    vw__byte_buffer_deinit(&bar);
    vw__report_table_end(&table, report);
}

/* "where         train.py:152 main": what goes together stands in one column. */
static void say_fact(vw__report *report, const char *label, const char *text)
{
    const bool is_narrow = report->form.width_columns < NARROWEST_WITH_COLUMNS;
    char mark[FACT_COLUMNS + 1];
    snprintf(mark, sizeof mark, "%-*s", is_narrow ? NARROW_FACT_COLUMNS : FACT_COLUMNS, label);
    vw__report_prose(report, 0, VW__REPORT_STYLE_PLAIN, mark, "%s", text);
}

/* Its bytes, their parts, places and evidence. */
static void say_facts(vw__report *report, const vw_finding *finding)
{
    if (finding->bytes != VW_UNKNOWN)
        say_fact(report, "memory", vw__report_size(finding->bytes).text);
    say_parts(report, finding);
    for (size_t i = 0; i < finding->where_count; i++)
        say_fact(report, i == 0 ? "where" : "", finding->where[i]);
    for (size_t i = 0; i < finding->evidence_count; i++)
        vw__report_prose(report, 0, VW__REPORT_STYLE_PLAIN, "- ", "%s", finding->evidence[i]);
}

/* All but `shown`. */
static void say_remedies(vw__report *report, const vw_finding *finding, const vw_remedy *shown)
{
    unsigned number = 0;
    for (size_t i = 0; i < finding->remedy_count; i++) {
        const vw_remedy *remedy = &finding->remedies[i];
        char mark[8];
        if (vw__report_doctor_is_same(remedy, shown))
            continue;
        snprintf(mark, sizeof mark, "%u. ", ++number % 1000);
        vw__report_blank(report);
        vw__report_doctor_remedy(report, 0, mark, remedy);
    }
}

/* Everything below the title. `shown` is on the first screen already. */
static void say_body(vw__report *report, const vw_finding *finding, const vw_remedy *shown)
{
    vw__report inside = begin_inside(report, FINDING_INDENT);
    say_facts(&inside, finding);
    say_remedies(&inside, finding, shown);
    end_inside(report, &inside, FINDING_INDENT);
}

static void say_findings(vw__report *report, const vw_diagnosis *diagnosis)
{
    const vw_remedy *shown = vw__report_doctor_first_remedy(diagnosis);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (vw__report_doctor_is_warning(finding))
            continue;
        say_heading(report, VW__REPORT_STYLE_BOLD, vw__report_doctor_text(finding->title));
        say_body(report, finding, shown);
    }
}

/* Popular advice that would make it worse here. */
static void say_warnings(vw__report *report, const vw_diagnosis *diagnosis)
{
    bool has_heading = false;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (!vw__report_doctor_is_warning(finding))
            continue;
        if (!has_heading)
            say_heading(report, VW__REPORT_STYLE_YELLOW, "Do not");
        has_heading = true;
        vw__report_prose(report, 0, VW__REPORT_STYLE_YELLOW, "! ", "%s",
                         vw__report_doctor_text(finding->title));
        say_body(report, finding, NULL);
    }
}

static void say_diagnosis(vw__report *report, const void *content)
{
    const vw_diagnosis *diagnosis = content;
    if (report->form.most_lines != 0) {
        vw__report_doctor_screen(report, diagnosis);
        return;
    }
    vw__report_doctor_verdict(report, diagnosis);
    vw__report_doctor_card(report, diagnosis);
    say_first_remedy(report, diagnosis);
    say_reasoning(report, diagnosis);
    say_findings(report, diagnosis);
    say_warnings(report, diagnosis);
}

/* vw__report_init() raises narrow windows to what a table needs; prose can be narrower. */
static void allow_narrow_window(vw__report *report)
{
    unsigned asked = report->asked_columns;
    if (asked != 0 && asked < report->form.width_columns)
        report->form.width_columns =
            asked > SMALLEST_WIDTH_COLUMNS ? asked : SMALLEST_WIDTH_COLUMNS;
}

vw_status vw_report_doctor(const vw_diagnosis *diagnosis, const vw_report_form *form,
                           const vw_output *output)
{
    static const vw__report_kind kind = {"diagnosis", say_diagnosis, &diagnosis_fields,
                                         "findings.remedies"};
    vw__report report;
    if (diagnosis == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no diagnosis to report: it is NULL");
    vw__report_init(&report, form);
    allow_narrow_window(&report);
    vw__report_fill(&report, &kind, diagnosis);
    return vw__report_send(&report, output);
}
