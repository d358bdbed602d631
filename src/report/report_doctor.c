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
 * Texts come from files nobody vouches for; all of them pass through hr__show(). */
#include "headroom/report.h"
#include "report/report_doctor.h"

#include <stddef.h> /* offsetof */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "report/report_show.h"

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

/* ---- further in ------------------------------------------------------------------------------ */

/* A report inside the report, as much narrower as it will be indented. */
static hr__report begin_inside(const hr__report *report, size_t indent)
{
    hr__report inside;
    hr__report_init(&inside, &report->form);
    inside.form.width_columns = report->form.width_columns - (unsigned)indent;
    return inside;
}

/* Appends its lines, indented, and frees it. */
static void end_inside(hr__report *report, hr__report *inside, size_t indent)
{
    const char *at = hr__byte_buffer_text(&inside->buffer);
    const char *end = at + inside->buffer.size_bytes;
    while (at < end) {
        const size_t line_bytes = strcspn(at, "\n");
        if (line_bytes > 0)
            hr__append_spaces(&report->buffer, indent);
        hr__append_bytes(&report->buffer, at, line_bytes);
        hr__append_bytes(&report->buffer, "\n", 1);
        at += line_bytes + 1;
    }
    if (inside->buffer.has_failed)
        report->buffer.has_failed = true;
    hr__byte_buffer_deinit(&inside->buffer);
    hr__byte_buffer_deinit(&inside->said);
    hr__byte_buffer_deinit(&inside->shown);
}

static void say_heading(hr__report *report, hr__style style, const char *text)
{
    hr__report_blank(report);
    hr__doctor_say(report, 0, style, "", "%s", text);
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static hr__style style_of(hr_verdict verdict)
{
    switch (verdict) {
    case HR_VERDICT_HEALTHY:
        return HR__STYLE_GREEN;
    case HR_VERDICT_NOT_OOM:
        return HR__STYLE_BOLD;
    case HR_VERDICT_UNKNOWN:
        return HR__STYLE_YELLOW;
    default:
        return HR__STYLE_RED;
    }
}

/* The file, in a line of its own: its ends, where that is too short for all of it. What a path
 * begins with and what the file is called tell more than the folders between. */
static void say_file(hr__report *report, const char *file, size_t size_bytes)
{
    const char *dots = report->form.has_utf8 ? "\xE2\x80\xA6" : "...";
    const size_t room_columns = report->form.width_columns - FILE_INDENT;
    const size_t columns = hr__columns_of(file, size_bytes);
    size_t begin_bytes = size_bytes, end_from = size_bytes;
    if (columns > room_columns) {
        const size_t kept_columns = room_columns - hr__columns_of(dots, strlen(dots));
        begin_bytes = hr__bytes_within(file, size_bytes, kept_columns / 3);
        const size_t end_columns = kept_columns - hr__columns_of(file, begin_bytes);
        end_from = hr__bytes_within(file, size_bytes, columns - end_columns);
        while (hr__columns_of(file + end_from, size_bytes - end_from) > end_columns)
            end_from += hr__bytes_within(file + end_from, size_bytes - end_from, 2);
    }
    hr__append_spaces(&report->buffer, FILE_INDENT);
    hr__append_text(&report->buffer, hr__style_code(report, HR__STYLE_FAINT));
    hr__append_bytes(&report->buffer, file, begin_bytes);
    if (begin_bytes < size_bytes)
        hr__append_text(&report->buffer, dots);
    hr__append_bytes(&report->buffer, file + end_from, size_bytes - end_from);
    hr__append_text(&report->buffer, hr__style_code(report, HR__STYLE_PLAIN));
    hr__report_blank(report);
}

/* "Verdict: fragmentation, high confidence, from a log: train.log" */
static void say_what_it_is_from(hr__report *report, const hr_diagnosis *diagnosis)
{
    const char *source = diagnosis->is_running ? "running job"
                         : diagnosis->source == HR_SOURCE_STEPS
                             ? "step log"
                             : hr_doctor_source_name(diagnosis->source);
    const char *file = text_or_nothing(report->form.file);
    char first_of[64] = "", line[160];
    hr__byte_buffer shown;
    if (diagnosis->error_count > 1 && !diagnosis->is_running)
        snprintf(first_of, sizeof first_of, "the first of %.40s in ",
                 hr__counted_text(diagnosis->error_count, "failure").text);
    snprintf(line, sizeof line, "Verdict: %s, %s confidence, from %sa %s%s",
             hr_verdict_name(diagnosis->verdict), hr_confidence_name(diagnosis->confidence),
             first_of, source, file[0] != '\0' ? ":" : "");
    hr__byte_buffer_init(&shown);
    hr__show(report, &shown, file, strlen(file));
    if (shown.has_failed)
        report->buffer.has_failed = true;
    file = hr__byte_buffer_text(&shown);
    if (strlen(line) + 1 + hr__columns_of(file, shown.size_bytes) <= report->form.width_columns) {
        hr__doctor_say(report, 0, HR__STYLE_FAINT, "", "%s %s", line, file);
    } else {
        hr__doctor_say(report, 0, HR__STYLE_FAINT, "", "%s", line);
        if (shown.size_bytes > 0)
            say_file(report, file, shown.size_bytes);
    }
    hr__byte_buffer_deinit(&shown);
}

static void say_verdict(hr__report *report, const hr_diagnosis *diagnosis)
{
    const char *sentence = text_or_nothing(diagnosis->sentence);
    hr__doctor_say(report, 0, style_of(diagnosis->verdict), "", "%s",
                   sentence[0] != '\0' ? sentence : hr_verdict_name(diagnosis->verdict));
    say_what_it_is_from(report, diagnosis);
}

static void say_reasoning(hr__report *report, const hr_diagnosis *diagnosis)
{
    if (diagnosis->reasoning_count > 0)
        say_heading(report, HR__STYLE_BOLD, "Why");
    for (size_t i = 0; i < diagnosis->reasoning_count; i++)
        hr__doctor_say(report, 0, HR__STYLE_PLAIN, "- ", "%s", diagnosis->reasoning[i]);
}

/* ---- remedies -------------------------------------------------------------------------------- */

/* "saves 1.20 GiB to 3.00 GiB (computed)"; "" for what saves nothing by itself, as looking does.
 * What is known to save nothing may be good advice for the next run: it does not say "saves". */
static hr__text savings_text(const hr_remedy *remedy)
{
    const uint64_t least_bytes = remedy->saves_bytes, most_bytes = remedy->saves_at_most_bytes;
    const hr__text least = hr__doctor_size(least_bytes), most = hr__doctor_size(most_bytes);
    const char *basis =
        remedy->basis == HR_BASIS_RULE ? "rule of thumb" : hr_basis_name(remedy->basis);
    hr__text result = {""};
    if (least_bytes == HR_UNKNOWN && most_bytes == HR_UNKNOWN)
        return result;
    if (least_bytes == 0 && most_bytes == 0)
        snprintf(result.text, sizeof result.text, "does not lower the peak of this run (%s)",
                 basis);
    else if ((least_bytes == HR_UNKNOWN || least_bytes == 0) && most_bytes != HR_UNKNOWN &&
             most_bytes > 0)
        snprintf(result.text, sizeof result.text, "saves at most %.20s (%s)", most.text, basis);
    else if (most_bytes == HR_UNKNOWN)
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
        const size_t columns = hr__columns_of(text, line_bytes);
        if (columns > widest_columns)
            widest_columns = columns;
        text += line_bytes + (text[line_bytes] == '\n');
    }
    return widest_columns;
}

/* Line by line as it is, CODE_INDENT further in than `least_indent` if there is room. */
static void say_code(hr__report *report, size_t least_indent, const char *code)
{
    const size_t widest_columns = widest_line_columns(code);
    const size_t width = report->form.width_columns;
    size_t indent = least_indent + CODE_INDENT;
    while (indent > least_indent && indent + widest_columns > width)
        indent--;
    while (*code != '\0') {
        const size_t line_bytes = strcspn(code, "\n");
        if (line_bytes > 0) {
            hr__append_spaces(&report->buffer, indent);
            hr__append_text(&report->buffer, hr__style_code(report, HR__STYLE_BOLD));
            hr__show(report, &report->buffer, code, line_bytes);
            hr__append_text(&report->buffer, hr__style_code(report, HR__STYLE_PLAIN));
        }
        hr__report_blank(report);
        code += line_bytes + (code[line_bytes] == '\n');
    }
}

static void say_remedy(hr__report *report, size_t indent, const char *mark, const hr_remedy *remedy)
{
    const size_t inner_indent = indent + strlen(mark);
    const hr__text savings = savings_text(remedy);
    const char *cost = text_or_nothing(remedy->cost);
    hr__doctor_say(report, indent, HR__STYLE_BOLD, mark, "%s", text_or_nothing(remedy->action));
    if (savings.text[0] != '\0')
        hr__doctor_say(report, inner_indent, HR__STYLE_PLAIN, "", "%s", savings.text);
    if (cost[0] != '\0')
        hr__doctor_say(report, inner_indent, HR__STYLE_PLAIN, "", "cost: %s", cost);
    say_code(report, inner_indent, text_or_nothing(remedy->how));
}

static bool is_warning(const hr_finding *finding)
{
    return strcmp(finding->kind, "warning") == 0;
}

static bool is_peak(const hr_finding *finding)
{
    return strcmp(finding->kind, "peak") == 0;
}

static uint64_t known_or_nothing(uint64_t bytes)
{
    return bytes != HR_UNKNOWN ? bytes : 0;
}

/* By what is certain, then by what is possible. NULL saves nothing. */
static bool saves_more(const hr_remedy *remedy, const hr_remedy *than)
{
    const uint64_t least_bytes = known_or_nothing(remedy->saves_bytes);
    const uint64_t most_bytes = known_or_nothing(remedy->saves_at_most_bytes);
    const uint64_t than_least_bytes = than != NULL ? known_or_nothing(than->saves_bytes) : 0;
    const uint64_t than_most_bytes = than != NULL ? known_or_nothing(than->saves_at_most_bytes) : 0;
    return least_bytes != than_least_bytes ? least_bytes > than_least_bytes
                                           : most_bytes > than_most_bytes;
}

/* The first of a finding's that gives anything back, or NULL. */
static const hr_remedy *first_that_saves(const hr_finding *finding)
{
    for (size_t k = 0; k < finding->remedy_count; k++)
        if (saves_more(&finding->remedies[k], NULL))
            return &finding->remedies[k];
    return NULL;
}

/* Of a run in which nothing is wrong: of what the findings advise first, that which gives most back
 * of what need not be held. What was alive at the peak was needed. */
static const hr_remedy *largest_remedy(const hr_diagnosis *diagnosis)
{
    const hr_remedy *largest = NULL;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const hr_finding *finding = &diagnosis->findings[i];
        const hr_remedy *remedy =
            is_warning(finding) || is_peak(finding) ? NULL : first_that_saves(finding);
        if (remedy != NULL && saves_more(remedy, largest))
            largest = remedy;
    }
    return largest;
}

/* What stands on the first screen, or NULL: the first that is advised against the cause. */
static const hr_remedy *first_remedy(const hr_diagnosis *diagnosis)
{
    if (diagnosis->verdict == HR_VERDICT_NOT_OOM)
        return NULL;
    if (diagnosis->verdict == HR_VERDICT_HEALTHY)
        return largest_remedy(diagnosis);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const hr_finding *finding = &diagnosis->findings[i];
        if (finding->remedy_count > 0 && !is_warning(finding))
            return &finding->remedies[0];
    }
    return NULL;
}

static void say_first_remedy(hr__report *report, const hr_diagnosis *diagnosis)
{
    const hr_remedy *remedy = first_remedy(diagnosis);
    if (remedy == NULL)
        return;
    say_heading(report, HR__STYLE_GREEN,
                diagnosis->verdict == HR_VERDICT_UNKNOWN ? "To find out" : "Try first");
    say_remedy(report, FINDING_INDENT, "", remedy);
}

/* ---- findings -------------------------------------------------------------------------------- */

static void append_part_bar(hr__byte_buffer *bar, const hr__report *report, uint64_t bytes,
                            uint64_t whole_bytes)
{
    const double columns = (double)bytes / (double)whole_bytes * PART_BAR_COLUMNS;
    for (unsigned i = 0; i < (unsigned)(columns + 0.5); i++)
        hr__append_text(bar, report->form.has_utf8 ? "\xE2\x96\x88" : "#");
}

/* What the bytes are made of, each with its share where the whole is known. */
static void say_parts(hr__report *report, const hr_finding *finding)
{
    static const hr__column columns[] = {
        {"", HR__COLUMN_NAME},
        {"", HR__COLUMN_NUMBER},
        {"", HR__COLUMN_NUMBER},
        {"", HR__COLUMN_WORD},
    };
    bool has_shares = finding->bytes != HR_UNKNOWN && finding->bytes > 0;
    hr__byte_buffer bar;
    hr__table table;
    for (size_t i = 0; i < finding->part_count; i++)
        has_shares = has_shares && finding->parts[i].bytes <= finding->bytes;
    hr__byte_buffer_init(&bar);
    hr__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < finding->part_count; i++) {
        const hr_part *part = &finding->parts[i];
        char share[16] = "";
        hr__byte_buffer_clear(&bar);
        if (has_shares) {
            const double percent = (double)part->bytes / (double)finding->bytes * 100;
            snprintf(share, sizeof share, percent > 0 && percent < 0.5 ? "<1 %%" : "%.0f %%",
                     percent);
            if (report->form.width_columns >= NARROWEST_WITH_PART_BARS)
                append_part_bar(&bar, report, part->bytes, finding->bytes);
        }
        if (report->form.width_columns < NARROWEST_WITH_COLUMNS) {
            hr__doctor_say(report, 0, HR__STYLE_PLAIN, "", "%s: %s%s%s",
                           text_or_nothing(part->name), hr__doctor_size(part->bytes).text,
                           has_shares ? ", " : "", share);
            continue;
        }
        hr__table_row(&table, HR__STYLE_PLAIN);
        hr__table_cell(&table, part->name);
        hr__table_cell(&table, hr__doctor_size(part->bytes).text);
        hr__table_cell(&table, share);
        hr__table_cell(&table, hr__byte_buffer_text(&bar));
        if (bar.has_failed)
            table.rows.has_failed = true;
    }
    hr__byte_buffer_deinit(&bar);
    hr__table_end(&table, report);
}

/* "where         train.py:152 main": what goes together stands in one column. */
static void say_fact(hr__report *report, const char *label, const char *text)
{
    const bool is_narrow = report->form.width_columns < NARROWEST_WITH_COLUMNS;
    char mark[FACT_COLUMNS + 1];
    snprintf(mark, sizeof mark, "%-*s", is_narrow ? NARROW_FACT_COLUMNS : FACT_COLUMNS, label);
    hr__doctor_say(report, 0, HR__STYLE_PLAIN, mark, "%s", text);
}

/* Its bytes, their parts, places and evidence. */
static void say_facts(hr__report *report, const hr_finding *finding)
{
    if (finding->bytes != HR_UNKNOWN)
        say_fact(report, "memory", hr__doctor_size(finding->bytes).text);
    say_parts(report, finding);
    for (size_t i = 0; i < finding->where_count; i++)
        say_fact(report, i == 0 ? "where" : "", finding->where[i]);
    for (size_t i = 0; i < finding->evidence_count; i++)
        hr__doctor_say(report, 0, HR__STYLE_PLAIN, "- ", "%s", finding->evidence[i]);
}

static void say_remedies(hr__report *report, const hr_finding *finding, const hr_remedy *shown)
{
    for (size_t i = 0; i < finding->remedy_count; i++) {
        const hr_remedy *remedy = &finding->remedies[i];
        char mark[8];
        snprintf(mark, sizeof mark, "%u. ", (unsigned)(i + 1) % 1000);
        hr__report_blank(report);
        if (remedy == shown)
            hr__doctor_say(report, 0, HR__STYLE_BOLD, mark, "%s (see above)",
                           text_or_nothing(remedy->action));
        else
            say_remedy(report, 0, mark, remedy);
    }
}

/* What is below its title. `shown` stands on the first screen already. */
static void say_body(hr__report *report, const hr_finding *finding, const hr_remedy *shown)
{
    hr__report inside = begin_inside(report, FINDING_INDENT);
    say_facts(&inside, finding);
    say_remedies(&inside, finding, shown);
    end_inside(report, &inside, FINDING_INDENT);
}

static void say_findings(hr__report *report, const hr_diagnosis *diagnosis)
{
    const hr_remedy *shown = first_remedy(diagnosis);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const hr_finding *finding = &diagnosis->findings[i];
        if (is_warning(finding))
            continue;
        say_heading(report, HR__STYLE_BOLD, text_or_nothing(finding->title));
        say_body(report, finding, shown);
    }
}

/* What is often recommended, and would hurt here. */
static void say_warnings(hr__report *report, const hr_diagnosis *diagnosis)
{
    bool has_heading = false;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const hr_finding *finding = &diagnosis->findings[i];
        if (!is_warning(finding))
            continue;
        if (!has_heading)
            say_heading(report, HR__STYLE_YELLOW, "Do not");
        has_heading = true;
        hr__doctor_say(report, 0, HR__STYLE_YELLOW, "! ", "%s", text_or_nothing(finding->title));
        say_body(report, finding, NULL);
    }
}

static void say_diagnosis(hr__report *report, const hr_diagnosis *diagnosis)
{
    say_verdict(report, diagnosis);
    hr__doctor_card(report, diagnosis);
    say_first_remedy(report, diagnosis);
    say_reasoning(report, diagnosis);
    say_findings(report, diagnosis);
    say_warnings(report, diagnosis);
}

/* Other reports are tables, and have no use for a window below that of hr__report_init(). */
static void allow_narrow_window(hr__report *report, const hr_report_form *form)
{
    const size_t needed_bytes =
        offsetof(hr_report_form, width_columns) + sizeof form->width_columns;
    if (form == NULL || (form->struct_size != 0 && form->struct_size < needed_bytes) ||
        form->width_columns == 0 || form->width_columns >= report->form.width_columns)
        return;
    report->form.width_columns =
        form->width_columns > SMALLEST_WIDTH_COLUMNS ? form->width_columns : SMALLEST_WIDTH_COLUMNS;
}

hr_status hr_report_doctor(const hr_diagnosis *diagnosis, const hr_report_form *form,
                           const hr_output *output)
{
    hr__report report;
    if (diagnosis == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no diagnosis to report: it is NULL");
    hr__report_init(&report, form);
    allow_narrow_window(&report, form);
    if (report.form.is_json)
        hr__doctor_json(&report, diagnosis);
    else
        say_diagnosis(&report, diagnosis);
    return hr__report_send(&report, output);
}
