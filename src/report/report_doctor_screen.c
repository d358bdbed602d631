/* report_doctor_screen.c - the doctor's answer on one screen.
 *
 *     Capped: 786 MiB were refused by a limit of about 7.90 GiB, not by the card ...
 *     Verdict: capped, medium confidence, from a recording: run.pickle
 *     Where: train.py:50 lm_step, train.py:52 lm_step
 *
 *     GPU 0, limited to about 7.90 GiB, at the failure
 *     |##################################################################..      |
 *     asked for 786 MiB   # live 7.03 GiB   . idle 258 MiB   free 118.58 GiB
 *
 *     Try first: raise the limit, or do not set one
 *       saves 118.58 GiB (measured); enough by itself; cost: none
 *         torch.cuda.set_per_process_memory_fraction(0.95)
 *
 *     Other remedies                               saves           costs
 *     split each batch in 2 and accumulate ...     2.08-2.72 GiB   +3 % time   enough
 *
 *     --all shows why, the code of these, and 7 more remedies.
 *
 * The sections are written apart and their lines counted as a window shows them. In the order of
 * their importance, each is kept if the screen still has room for it; the other remedies take the
 * lines that are left, the best of them. */
#include "report/report_doctor.h"

#include <stdio.h>
#include <string.h>

#include "analysis/phase.h"
#include "analysis/site_key.h"

enum { INDENT = 2 };

/* Lines after the first begin below it, not as far in as code. */
#define INDENT_MARK "  "

typedef enum section {
    SECTION_VERDICT,
    SECTION_FAILED,
    SECTION_WHERE,
    SECTION_CARD,
    SECTION_FACTS,
    SECTION_FIRST,
    SECTION_OTHERS,
    SECTION_WARNINGS,
    SECTION_REST,
    SECTION_COUNT
} section;

typedef struct screen {
    vw__report *report;
    const vw_diagnosis *diagnosis;
    const vw_remedy *first;              /* or NULL */
    vw__report_doctor_others all, shown; /* all but the first; those that there is room for */
    vw__report sections[SECTION_COUNT];  /* empty: left out */
    size_t left_lines;
} screen;

/* ---- lines ----------------------------------------------------------------------------------- */

/* Bytes of the escape sequence at `text`, which is one of vw__report_style_code(); 0: none. */
static size_t escape_bytes(const char *text)
{
    return text[0] == '\033' ? strcspn(text, "m") + 1 : 0;
}

/* The end of the line at `text`, its line feed included; adds to `*lines` what a window of that
 * width makes of it: code that is wider is broken. */
static const char *line_end(const char *text, size_t width_columns, size_t *lines)
{
    size_t columns = 0;
    while (*text != '\0' && *text != '\n') {
        const size_t skipped_bytes = escape_bytes(text);
        const size_t plain_bytes = skipped_bytes == 0 ? strcspn(text, "\033\n") : 0;
        columns += vw__report_columns_of(text, plain_bytes);
        text += skipped_bytes + plain_bytes;
    }
    *lines += columns > width_columns ? (columns + width_columns - 1) / width_columns : 1;
    return text + (*text == '\n');
}

static size_t lines_of(const char *text, size_t width_columns)
{
    size_t lines = 0;
    while (*text != '\0')
        text = line_end(text, width_columns, &lines);
    return lines;
}

/* Bytes of the whole lines of `text` that fit. */
static size_t bytes_of_lines(const char *text, size_t width_columns, size_t most_lines)
{
    const char *end = text;
    for (size_t lines = 0; *end != '\0';) {
        const char *next = line_end(end, width_columns, &lines);
        if (lines > most_lines)
            break;
        end = next;
    }
    return (size_t)(end - text);
}

static void empty_section(screen *page, section which)
{
    if (page->sections[which].buffer.has_failed)
        page->report->buffer.has_failed = true; /* a clear would forget it */
    vw__byte_buffer_clear(&page->sections[which].buffer);
}

static vw__report *begin_section(screen *page, section which)
{
    empty_section(page, which);
    return &page->sections[which];
}

static size_t section_lines(const screen *page, section which)
{
    return lines_of(vw__byte_buffer_text(&page->sections[which].buffer),
                    page->report->form.width_columns);
}

/* Keeps the section if there is room for it. */
static void keep_section(screen *page, section which)
{
    const size_t lines = section_lines(page, which);
    if (lines <= page->left_lines)
        page->left_lines -= lines;
    else
        empty_section(page, which);
}

/* ---- where ----------------------------------------------------------------------------------- */

/* The first finding that names a line, or NULL. */
static const vw_finding *placed_finding(const vw_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (finding->where_count > 0 && !vw__report_doctor_is_warning(finding))
            return finding;
    }
    return NULL;
}

/* "the backward pass"; "" for a phase that has no words. */
static const char *words_of_phase(const char *name)
{
    for (vw__phase phase = 0; phase < VW__PHASE_COUNT; phase++)
        if (strcmp(vw__phase_name(phase), name) == 0)
            return vw__phase_words(phase);
    return "";
}

/* The columns of ", in the backward pass" at the end of a line that begins with `place`; 0 where a
 * window is too narrow for both and something between them. */
static size_t phase_columns(const vw__report *part, const vw__byte_buffer *place, const char *phase)
{
    enum { LEAST_BETWEEN = 12 };
    const size_t columns = strlen(phase);
    const size_t taken =
        vw__report_columns_of(vw__byte_buffer_text(place), place->size_bytes) + LEAST_BETWEEN;
    return taken + columns <= part->form.width_columns ? columns : 0;
}

/* "Failed at: train.py:88: loss.backward(), in the backward pass", in one line. Long code is cut
 * rather than the phase. */
static void say_failed_at(screen *page)
{
    const vw_failed_at *at = page->diagnosis->failed_at;
    vw__report *part = begin_section(page, SECTION_FAILED);
    if (at == NULL)
        return;
    const char *words = words_of_phase(at->phase);
    vw__report_text phase = {""};
    vw__byte_buffer line;
    vw__byte_buffer_init(&line);
    if (words[0] != '\0')
        snprintf(phase.text, sizeof phase.text, ", in %s", words);
    vw__append_format(&line, "Failed at: %s", vw__site_key_file(at->file));
    if (at->line >= 0)
        vw__append_format(&line, ":%d", at->line);
    const size_t kept_columns = phase_columns(part, &line, phase.text);
    if (at->code != NULL)
        vw__append_format(&line, ": %s", at->code);
    else if (at->function != NULL)
        vw__append_format(&line, " %s", at->function);
    vw__report_append_cut(part, &part->buffer, vw__byte_buffer_text(&line),
                          part->form.width_columns - kept_columns);
    vw__append_text(&part->buffer, kept_columns > 0 ? phase.text : "");
    vw__report_blank(part);
    if (line.has_failed)
        part->buffer.has_failed = true;
    vw__byte_buffer_deinit(&line);
}

/* As many places as fit a line. A text names the line that failed, a recording those that hold
 * the memory. */
static void say_where(screen *page)
{
    const vw_diagnosis *diagnosis = page->diagnosis;
    const vw_finding *finding = placed_finding(diagnosis);
    vw__report *part = begin_section(page, SECTION_WHERE);
    const bool is_failure =
        diagnosis->source == VW_SOURCE_TEXT || diagnosis->source == VW_SOURCE_LOG;
    if (finding == NULL || (is_failure && diagnosis->failed_at != NULL))
        return;
    vw__byte_buffer line;
    vw__byte_buffer_init(&line);
    vw__append_format(&line, "%s: %s", is_failure ? "Failed at" : "Where", finding->where[0]);
    for (size_t i = 1; i < finding->where_count; i++) {
        const char *place = finding->where[i];
        const size_t columns = vw__report_columns_of(vw__byte_buffer_text(&line), line.size_bytes) +
                               2 + vw__report_columns_of(place, strlen(place));
        if (columns > part->form.width_columns)
            break;
        vw__append_format(&line, ", %s", place);
    }
    vw__report_append_cut(part, &part->buffer, vw__byte_buffer_text(&line),
                          part->form.width_columns);
    vw__report_blank(part);
    if (line.has_failed)
        part->buffer.has_failed = true;
    vw__byte_buffer_deinit(&line);
}

/* ---- the facts of a process ---------------------------------------------------------------- */

static bool is_facts(const vw_finding *finding)
{
    return strcmp(finding->kind, "process") == 0;
}

/* Of a process that was looked at from outside the facts are the answer: a line each. */
static void say_facts(screen *page)
{
    const vw_diagnosis *diagnosis = page->diagnosis;
    vw__report *part = begin_section(page, SECTION_FACTS);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (!is_facts(finding))
            continue;
        vw__report_blank(part);
        for (size_t k = 0; k < finding->evidence_count; k++) {
            vw__append_text(&part->buffer, "- ");
            vw__report_append_cut(part, &part->buffer, finding->evidence[k],
                                  part->form.width_columns - 2);
            vw__report_blank(part);
        }
    }
}

/* ---- the first remedy ------------------------------------------------------------------------ */

/* "saves 2.44 GiB (computed); not enough by itself; cost: about 30 % more time". An action may
 * promise it already. */
static void say_worth(vw__report *part, const vw_remedy *remedy)
{
    const vw__report_text savings = vw__report_doctor_savings(remedy);
    const bool is_promised = strstr(vw__report_doctor_text(remedy->action), "by itself") != NULL;
    const char *enough = is_promised ? "" : vw__report_doctor_enough(remedy->enough);
    const char *cost = vw__report_doctor_text(remedy->cost);
    const bool has_both = savings.text[0] != '\0' && enough[0] != '\0';
    const bool has_before = savings.text[0] != '\0' || enough[0] != '\0';
    if (has_before || cost[0] != '\0')
        vw__report_prose(
            part, 0, VW__REPORT_STYLE_PLAIN, INDENT_MARK, "%s%s%s%s%s%s%s", savings.text,
            has_both ? "; " : "", enough, enough[0] != '\0' ? " by itself" : "",
            has_before && cost[0] != '\0' ? "; " : "", cost[0] != '\0' ? "cost: " : "", cost);
}

/* Code that is more than a few lines often says the same for other programs, below a comment each:
 * the first way is enough here. */
static size_t first_way_bytes(const char *code)
{
    enum { FEW_LINES = 4 };
    const char *second = strstr(code, "\n# ");
    size_t lines = 1;
    for (const char *c = code; *c != '\0'; c++)
        lines += *c == '\n';
    return second != NULL && lines > FEW_LINES ? (size_t)(second - code) : strlen(code);
}

static void say_first(screen *page)
{
    const vw_remedy *remedy = page->first;
    vw__report *part = begin_section(page, SECTION_FIRST);
    if (remedy == NULL)
        return;
    vw__report_blank(part);
    vw__report_prose(part, 0, VW__REPORT_STYLE_GREEN, "", "%s: %s",
                     vw__report_doctor_first_heading(page->diagnosis),
                     vw__report_doctor_text(remedy->action));
    say_worth(part, remedy);
    const char *code = vw__report_doctor_text(remedy->how);
    vw__report_doctor_code(part, INDENT, code, first_way_bytes(code));
}

/* ---- the others, a line each ----------------------------------------------------------------- */

static void say_others(screen *page)
{
    enum { FRAME_LINES = 2 }; /* a blank one and the titles */
    vw__report *part = begin_section(page, SECTION_OTHERS);
    const size_t most = page->left_lines > FRAME_LINES ? page->left_lines - FRAME_LINES : 0;
    vw__report_doctor_choose_others(&page->all, most, &page->shown);
    vw__report_doctor_say_others(part, &page->shown);
}

/* ---- what not to do, and what was left out --------------------------------------------------- */

/* A line each. */
static void say_warnings(screen *page)
{
    const vw_diagnosis *diagnosis = page->diagnosis;
    vw__report *part = begin_section(page, SECTION_WARNINGS);
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (!vw__report_doctor_is_warning(finding))
            continue;
        vw__append_text(&part->buffer, vw__report_style_code(part, VW__REPORT_STYLE_YELLOW));
        vw__append_text(&part->buffer, "! ");
        vw__report_append_cut(part, &part->buffer, vw__report_doctor_text(finding->title),
                              part->form.width_columns - 2);
        vw__append_text(&part->buffer, vw__report_style_code(part, VW__REPORT_STYLE_PLAIN));
        vw__report_blank(part);
    }
}

/* The facts of a process are on the screen already. */
static bool has_evidence(const vw_diagnosis *diagnosis)
{
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (!is_facts(finding) &&
            (finding->evidence_count > 0 || finding->part_count > 0 || finding->where_count > 0))
            return true;
    }
    return false;
}

/* Joins "why", "the evidence" and "3 more remedies" as a sentence does. */
static void append_list(vw__byte_buffer *out, const char *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        vw__append_format(out, "%s%s", i == 0 ? "" : i + 1 == count ? " and " : ", ", items[i]);
}

/* "--all shows why, the evidence, the code of these and 7 more remedies." Nothing where nothing was
 * left out. */
static void say_rest(screen *page, bool has_others, size_t hidden)
{
    vw__report *part = begin_section(page, SECTION_REST);
    const vw__report_text more =
        vw__report_counted(hidden, hidden == 1 ? "more remedy" : "more remedie");
    const char *items[4], *how = page->report->form.rest;
    size_t count = 0;
    if (page->diagnosis->reasoning_count > 0)
        items[count++] = "why";
    if (has_evidence(page->diagnosis))
        items[count++] = "the evidence";
    if (has_others)
        items[count++] = "the code of these";
    if (hidden > 0)
        items[count++] = more.text;
    if (count == 0)
        return;
    vw__byte_buffer list;
    vw__byte_buffer_init(&list);
    vw__append_text(&list, how != NULL ? "shows " : "");
    append_list(&list, items, count);
    vw__report_blank(part);
    vw__report_prose(part, 0, VW__REPORT_STYLE_FAINT, "", "%s %s.",
                     how != NULL ? how : "Left out:", vw__byte_buffer_text(&list));
    if (list.has_failed)
        part->buffer.has_failed = true;
    vw__byte_buffer_deinit(&list);
}

/* ---- the screen ------------------------------------------------------------------------------ */

/* The verdict is never left out, but cut if it is longer than the screen, as by a path that a
 * recording made up. */
static void say_verdict(screen *page)
{
    vw__report *part = begin_section(page, SECTION_VERDICT);
    vw__report_doctor_verdict(part, page->diagnosis);
    const size_t lines = section_lines(page, SECTION_VERDICT);
    page->left_lines -= lines < page->left_lines ? lines : page->left_lines;
}

/* The last line is reserved at its longest, before it is known how many remedies find room. */
static void fill_sections(screen *page)
{
    vw__report_doctor_find_others(page->diagnosis, &page->all);
    say_rest(page, page->all.count > 0, page->all.total);
    keep_section(page, SECTION_REST);
    const bool has_rest = section_lines(page, SECTION_REST) > 0;
    say_verdict(page);
    say_failed_at(page);
    keep_section(page, SECTION_FAILED);
    say_first(page);
    keep_section(page, SECTION_FIRST);
    vw__report_doctor_card(begin_section(page, SECTION_CARD), page->diagnosis);
    keep_section(page, SECTION_CARD);
    say_facts(page);
    keep_section(page, SECTION_FACTS);
    say_where(page);
    keep_section(page, SECTION_WHERE);
    say_warnings(page);
    keep_section(page, SECTION_WARNINGS);
    say_others(page);
    keep_section(page, SECTION_OTHERS);
    if (has_rest)
        say_rest(page, page->shown.count > 0, page->all.total - page->shown.total);
}

void vw__report_doctor_screen(vw__report *report, const vw_diagnosis *diagnosis)
{
    screen page = {
        .report = report,
        .diagnosis = diagnosis,
        .first = vw__report_doctor_first_remedy(diagnosis),
        .left_lines = report->form.most_lines,
    };
    for (section which = 0; which < SECTION_COUNT; which++) {
        vw__report_init(&page.sections[which], &report->form);
        page.sections[which].form.width_columns = report->form.width_columns;
    }
    fill_sections(&page);
    size_t left_lines = report->form.most_lines;
    for (section which = 0; which < SECTION_COUNT; which++) {
        vw__report *part = &page.sections[which];
        const char *text = vw__byte_buffer_text(&part->buffer);
        vw__append_bytes(&report->buffer, text,
                         bytes_of_lines(text, report->form.width_columns, left_lines));
        left_lines -=
            section_lines(&page, which) < left_lines ? section_lines(&page, which) : left_lines;
        if (part->buffer.has_failed || part->said.has_failed || part->shown.has_failed)
            report->buffer.has_failed = true;
        vw__byte_buffer_deinit(&part->buffer);
        vw__byte_buffer_deinit(&part->said);
        vw__byte_buffer_deinit(&part->shown);
    }
}
