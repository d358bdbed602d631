/* report_doctor.c - how the doctor speaks.
 *
 * The reader has a dead run and little patience. So the first screen holds what decides: the
 * verdict in one sentence, the numbers as a picture, and what to try first, ready to be pasted.
 * How the verdict came about and all findings with all remedies follow; what would make it worse
 * comes last, under a heading that cannot be taken for advice.
 *
 * Prose is wrapped to the window. What is to be typed never is: a line of code broken in two is
 * wrong code. Where it is too wide its indentation gives way first, as far as that of the advice it
 * belongs to, then the window's edge.
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
    FINDING_INDENT = 2,
    CODE_INDENT = 2, /* more than the action it belongs to */
    PART_BAR_COLUMNS = 24,
    NARROWEST_WITH_PART_BARS = 64,
    FACT_COLUMNS = 14, /* of a label */
    NARROW_FACT_COLUMNS = 8,
    NARROWEST_WITH_COLUMNS = 36,
};

static const char *text_or_nothing(const char *text)
{
    return text != NULL ? text : "";
}

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
    {.key = "enough", .write = json_enough},
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

/* The file on a separate line; if it is too long, its beginning and its end. The first folders and
 * the file name say more than the folders between. */
static void say_file(vw__report *report, const char *file, size_t size_bytes)
{
    const char *dots = report->form.has_utf8 ? "\xE2\x80\xA6" : "...";
    const size_t room_columns = report->form.width_columns - FILE_INDENT;
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
    vw__report_append_spaces(&report->buffer, FILE_INDENT);
    vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_FAINT));
    vw__append_bytes(&report->buffer, file, begin_bytes);
    if (begin_bytes < size_bytes)
        vw__append_text(&report->buffer, dots);
    vw__append_bytes(&report->buffer, file + end_from, size_bytes - end_from);
    vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_PLAIN));
    vw__report_blank(report);
}

/* "Verdict: fragmentation, high confidence, from a log: train.log" */
static void say_what_it_is_from(vw__report *report, const vw_diagnosis *diagnosis)
{
    const char *source = diagnosis->is_running ? "running job"
                         : diagnosis->source == VW_SOURCE_STEPS
                             ? "step log"
                             : vw_doctor_source_name(diagnosis->source);
    const char *file = text_or_nothing(report->form.file);
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
    file = vw__byte_buffer_text(&shown);
    if (strlen(line) + 1 + vw__report_columns_of(file, shown.size_bytes) <=
        report->form.width_columns) {
        vw__report_prose(report, 0, VW__REPORT_STYLE_FAINT, "", "%s %s", line, file);
    } else {
        vw__report_prose(report, 0, VW__REPORT_STYLE_FAINT, "", "%s", line);
        if (shown.size_bytes > 0)
            say_file(report, file, shown.size_bytes);
    }
    vw__byte_buffer_deinit(&shown);
}

static void say_verdict(vw__report *report, const vw_diagnosis *diagnosis)
{
    const char *sentence = text_or_nothing(diagnosis->sentence);
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

/* ---- remedies -------------------------------------------------------------------------------- */

/* "saves 1.20 GiB to 3.00 GiB (computed)"; "" if the savings are unknown. A remedy that saves
 * nothing may still be good advice for the next run: then the text does not say "saves". */
static vw__report_text savings_text(const vw_remedy *remedy)
{
    const uint64_t least_bytes = remedy->saves_bytes, most_bytes = remedy->saves_at_most_bytes;
    const vw__report_text least = vw__report_size(least_bytes), most = vw__report_size(most_bytes);
    const char *basis =
        remedy->basis == VW_BASIS_RULE ? "rule of thumb" : vw_basis_name(remedy->basis);
    vw__report_text result = {""};
    if (least_bytes == VW_UNKNOWN && most_bytes == VW_UNKNOWN)
        return result;
    if (least_bytes == 0 && most_bytes == 0)
        snprintf(result.text, sizeof result.text, "does not lower the peak of this run (%s)",
                 basis);
    else if ((least_bytes == VW_UNKNOWN || least_bytes == 0) && most_bytes != VW_UNKNOWN &&
             most_bytes > 0)
        snprintf(result.text, sizeof result.text, "saves at most %.20s (%s)", most.text, basis);
    else if (most_bytes == VW_UNKNOWN)
        snprintf(result.text, sizeof result.text, "saves at least %.20s (%s)", least.text, basis);
    else if (least_bytes == most_bytes)
        snprintf(result.text, sizeof result.text, "saves %.20s (%s)", least.text, basis);
    else
        snprintf(result.text, sizeof result.text, "saves %.18s to %.18s (%s)", least.text,
                 most.text, basis);
    return result;
}

static size_t widest_line_columns(const char *text)
{
    size_t widest_columns = 0;
    while (*text != '\0') {
        const size_t line_bytes = strcspn(text, "\n");
        const size_t columns = vw__report_columns_of(text, line_bytes);
        if (columns > widest_columns)
            widest_columns = columns;
        text += line_bytes + (text[line_bytes] == '\n');
    }
    return widest_columns;
}

/* Line by line as it is, CODE_INDENT further in than `least_indent` if there is room. */
static void say_code(vw__report *report, size_t least_indent, const char *code)
{
    const size_t widest_columns = widest_line_columns(code);
    const size_t width = report->form.width_columns;
    size_t indent = least_indent + CODE_INDENT;
    while (indent > least_indent && indent + widest_columns > width)
        indent--;
    while (*code != '\0') {
        const size_t line_bytes = strcspn(code, "\n");
        if (line_bytes > 0) {
            vw__report_append_spaces(&report->buffer, indent);
            vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_BOLD));
            vw__report_show(report, &report->buffer, code, line_bytes);
            vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_PLAIN));
        }
        vw__report_blank(report);
        code += line_bytes + (code[line_bytes] == '\n');
    }
}

static void say_remedy(vw__report *report, size_t indent, const char *mark, const vw_remedy *remedy)
{
    const size_t inner_indent = indent + strlen(mark);
    const vw__report_text savings = savings_text(remedy);
    const char *cost = text_or_nothing(remedy->cost);
    vw__report_prose(report, indent, VW__REPORT_STYLE_BOLD, mark, "%s",
                     text_or_nothing(remedy->action));
    if (savings.text[0] != '\0')
        vw__report_prose(report, inner_indent, VW__REPORT_STYLE_PLAIN, "", "%s", savings.text);
    if (cost[0] != '\0')
        vw__report_prose(report, inner_indent, VW__REPORT_STYLE_PLAIN, "", "cost: %s", cost);
    say_code(report, inner_indent, text_or_nothing(remedy->how));
}

static bool is_warning(const vw_finding *finding)
{
    return strcmp(finding->kind, "warning") == 0;
}

static bool is_peak(const vw_finding *finding)
{
    return strcmp(finding->kind, "peak") == 0;
}

static uint64_t known_or_nothing(uint64_t bytes)
{
    return bytes != VW_UNKNOWN ? bytes : 0;
}

/* Compares the least savings, then the most. NULL saves nothing. */
static bool saves_more(const vw_remedy *remedy, const vw_remedy *than)
{
    const uint64_t least_bytes = known_or_nothing(remedy->saves_bytes);
    const uint64_t most_bytes = known_or_nothing(remedy->saves_at_most_bytes);
    const uint64_t than_least_bytes = than != NULL ? known_or_nothing(than->saves_bytes) : 0;
    const uint64_t than_most_bytes = than != NULL ? known_or_nothing(than->saves_at_most_bytes) : 0;
    return least_bytes != than_least_bytes ? least_bytes > than_least_bytes
                                           : most_bytes > than_most_bytes;
}

/* The finding's first remedy that saves anything, or NULL. */
static const vw_remedy *first_that_saves(const vw_finding *finding)
{
    for (size_t k = 0; k < finding->remedy_count; k++)
        if (saves_more(&finding->remedies[k], NULL))
            return &finding->remedies[k];
    return NULL;
}

/* For a healthy run: the remedy that saves most, among the first of each finding. Findings about
 * the peak are left out: what was alive then was needed. */
static const vw_remedy *largest_remedy(const vw_diagnosis *diagnosis)
{
    const vw_remedy *largest = NULL;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        const vw_remedy *remedy =
            is_warning(finding) || is_peak(finding) ? NULL : first_that_saves(finding);
        if (remedy != NULL && saves_more(remedy, largest))
            largest = remedy;
    }
    return largest;
}

/* The remedy on the first screen, or NULL: the first one against the cause. */
static const vw_remedy *first_remedy(const vw_diagnosis *diagnosis)
{
    if (diagnosis->verdict == VW_VERDICT_NOT_OOM)
        return NULL;
    if (diagnosis->verdict == VW_VERDICT_HEALTHY)
        return largest_remedy(diagnosis);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (finding->remedy_count > 0 && !is_warning(finding))
            return &finding->remedies[0];
    }
    return NULL;
}

static void say_first_remedy(vw__report *report, const vw_diagnosis *diagnosis)
{
    const vw_remedy *remedy = first_remedy(diagnosis);
    if (remedy == NULL)
        return;
    say_heading(report, VW__REPORT_STYLE_GREEN,
                diagnosis->verdict == VW_VERDICT_UNKNOWN ? "To find out" : "Try first");
    say_remedy(report, FINDING_INDENT, "", remedy);
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
                             text_or_nothing(part->name), vw__report_size(part->bytes).text,
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

static void say_remedies(vw__report *report, const vw_finding *finding, const vw_remedy *shown)
{
    for (size_t i = 0; i < finding->remedy_count; i++) {
        const vw_remedy *remedy = &finding->remedies[i];
        char mark[8];
        snprintf(mark, sizeof mark, "%u. ", (unsigned)(i + 1) % 1000);
        vw__report_blank(report);
        if (remedy == shown)
            vw__report_prose(report, 0, VW__REPORT_STYLE_BOLD, mark, "%s (see above)",
                             text_or_nothing(remedy->action));
        else
            say_remedy(report, 0, mark, remedy);
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
    const vw_remedy *shown = first_remedy(diagnosis);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (is_warning(finding))
            continue;
        say_heading(report, VW__REPORT_STYLE_BOLD, text_or_nothing(finding->title));
        say_body(report, finding, shown);
    }
}

/* Popular advice that would make it worse here. */
static void say_warnings(vw__report *report, const vw_diagnosis *diagnosis)
{
    bool has_heading = false;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (!is_warning(finding))
            continue;
        if (!has_heading)
            say_heading(report, VW__REPORT_STYLE_YELLOW, "Do not");
        has_heading = true;
        vw__report_prose(report, 0, VW__REPORT_STYLE_YELLOW, "! ", "%s",
                         text_or_nothing(finding->title));
        say_body(report, finding, NULL);
    }
}

static void say_diagnosis(vw__report *report, const void *content)
{
    const vw_diagnosis *diagnosis = content;
    say_verdict(report, diagnosis);
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
    static const vw__report_kind kind = {"diagnosis", say_diagnosis, &diagnosis_fields};
    vw__report report;
    if (diagnosis == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no diagnosis to report: it is NULL");
    vw__report_init(&report, form);
    allow_narrow_window(&report);
    vw__report_fill(&report, &kind, diagnosis);
    return vw__report_send(&report, output);
}
