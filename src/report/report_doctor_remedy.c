/* report_doctor_remedy.c - one remedy on the page, and the one that comes first.
 *
 * Code is never wrapped: a line of code broken in two is wrong code. Where it is too wide its
 * indentation gives way first, as far as that of the advice it belongs to, then the window's edge.
 */
#include "report/report_doctor.h"

#include <stdio.h>
#include <string.h>

enum { CODE_INDENT = 2 }; /* more than the action it belongs to */

/* A remedy that saves nothing may still be good advice for the next run: then the text does not say
 * "saves". */
vw__report_text vw__report_doctor_savings(const vw_remedy *remedy)
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

void vw__report_doctor_code(vw__report *report, size_t least_indent, const char *code,
                            size_t code_bytes)
{
    const char *end = code + code_bytes;
    const size_t widest_columns = widest_line_columns(code);
    const size_t width = report->form.width_columns;
    size_t indent = least_indent + CODE_INDENT;
    while (indent > least_indent && indent + widest_columns > width)
        indent--;
    while (code < end) {
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

void vw__report_doctor_remedy(vw__report *report, size_t indent, const char *mark,
                              const vw_remedy *remedy)
{
    const size_t inner_indent = indent + strlen(mark);
    const vw__report_text savings = vw__report_doctor_savings(remedy);
    const char *cost = vw__report_doctor_text(remedy->cost);
    vw__report_prose(report, indent, VW__REPORT_STYLE_BOLD, mark, "%s",
                     vw__report_doctor_text(remedy->action));
    if (savings.text[0] != '\0')
        vw__report_prose(report, inner_indent, VW__REPORT_STYLE_PLAIN, "", "%s", savings.text);
    if (cost[0] != '\0')
        vw__report_prose(report, inner_indent, VW__REPORT_STYLE_PLAIN, "", "cost: %s", cost);
    const char *code = vw__report_doctor_text(remedy->how);
    vw__report_doctor_code(report, inner_indent, code, strlen(code));
}

bool vw__report_doctor_is_warning(const vw_finding *finding)
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
        const vw_remedy *remedy = vw__report_doctor_is_warning(finding) || is_peak(finding)
                                      ? NULL
                                      : first_that_saves(finding);
        if (remedy != NULL && saves_more(remedy, largest))
            largest = remedy;
    }
    return largest;
}

const vw_remedy *vw__report_doctor_first_remedy(const vw_diagnosis *diagnosis)
{
    if (diagnosis->verdict == VW_VERDICT_NOT_OOM)
        return NULL;
    if (diagnosis->verdict == VW_VERDICT_HEALTHY)
        return largest_remedy(diagnosis);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (finding->remedy_count > 0 && !vw__report_doctor_is_warning(finding))
            return &finding->remedies[0];
    }
    return NULL;
}

const char *vw__report_doctor_first_heading(const vw_diagnosis *diagnosis)
{
    return diagnosis->verdict == VW_VERDICT_UNKNOWN ? "To find out" : "Try first";
}

bool vw__report_doctor_is_same(const vw_remedy *a, const vw_remedy *b)
{
    return a == b ||
           (a != NULL && b != NULL &&
            strcmp(vw__report_doctor_text(a->action), vw__report_doctor_text(b->action)) == 0 &&
            strcmp(vw__report_doctor_text(a->how), vw__report_doctor_text(b->how)) == 0);
}
