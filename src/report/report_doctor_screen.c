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

enum {
    INDENT = 2,
    TABLE_GAP_COLUMNS = 2,
    LARGEST_COST_COLUMNS = 18,
    SMALLEST_ACTION_COLUMNS = 24,
    MOST_OTHERS = 64, /* more do not fit any screen, and are only counted */
};

/* Lines after the first begin below it, not as far in as code. */
#define INDENT_MARK "  "

typedef enum section {
    SECTION_VERDICT,
    SECTION_WHERE,
    SECTION_CARD,
    SECTION_FACTS,
    SECTION_FIRST,
    SECTION_OTHERS,
    SECTION_WARNINGS,
    SECTION_REST,
    SECTION_COUNT
} section;

typedef struct others {
    const vw_remedy *items[MOST_OTHERS]; /* in the diagnosis' order */
    size_t count, total;
} others;

typedef struct screen {
    vw__report *report;
    const vw_diagnosis *diagnosis;
    const vw_remedy *first;             /* or NULL */
    others all, shown;                  /* all but the first; those that there is room for */
    vw__report sections[SECTION_COUNT]; /* empty: left out */
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

/* A text in `room_columns`: its end, back to a word's, gives way to dots. */
static void append_cut(const vw__report *report, vw__byte_buffer *out, const char *text,
                       size_t room_columns)
{
    const char *dots = report->form.has_utf8 ? "\xE2\x80\xA6" : "...";
    const size_t dots_columns = vw__report_columns_of(dots, strlen(dots));
    vw__byte_buffer shown;
    vw__byte_buffer_init(&shown);
    vw__report_show(report, &shown, text, strlen(text));
    const char *safe = vw__byte_buffer_text(&shown);
    size_t size_bytes = shown.size_bytes;
    const bool is_cut = vw__report_columns_of(safe, size_bytes) > room_columns;
    if (is_cut) {
        const size_t kept_columns = room_columns > dots_columns ? room_columns - dots_columns : 0;
        const size_t within_bytes = vw__report_bytes_within(safe, size_bytes, kept_columns);
        size_bytes = within_bytes;
        while (size_bytes > within_bytes / 2 && safe[size_bytes] != ' ')
            size_bytes--;
        if (size_bytes <= within_bytes / 2)
            size_bytes = within_bytes;
        while (size_bytes > 0 && strchr(" ,;:(", safe[size_bytes - 1]) != NULL)
            size_bytes--;
    }
    vw__append_bytes(out, safe, size_bytes);
    vw__append_text(out, is_cut ? dots : "");
    if (shown.has_failed)
        out->has_failed = true;
    vw__byte_buffer_deinit(&shown);
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

/* As many places as fit a line. A text names the line that failed, a recording those that hold
 * the memory. */
static void say_where(screen *page)
{
    const vw_diagnosis *diagnosis = page->diagnosis;
    const vw_finding *finding = placed_finding(diagnosis);
    vw__report *part = begin_section(page, SECTION_WHERE);
    if (finding == NULL)
        return;
    const bool is_failure =
        diagnosis->source == VW_SOURCE_TEXT || diagnosis->source == VW_SOURCE_LOG;
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
    append_cut(part, &part->buffer, vw__byte_buffer_text(&line), part->form.width_columns);
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
            append_cut(part, &part->buffer, finding->evidence[k], part->form.width_columns - 2);
            vw__report_blank(part);
        }
    }
}

/* ---- the first remedy ------------------------------------------------------------------------ */

static const char *enough_text(vw_enough enough)
{
    static const char *const words[] = {
        [VW_ENOUGH_UNKNOWN] = "", [VW_ENOUGH_NO] = "not enough", [VW_ENOUGH_YES] = "enough"};
    return words[enough];
}

/* "saves 2.44 GiB (computed); not enough by itself; cost: about 30 % more time". An action may
 * promise it already. */
static void say_worth(vw__report *part, const vw_remedy *remedy)
{
    const vw__report_text savings = vw__report_doctor_savings(remedy);
    const bool is_promised = strstr(vw__report_doctor_text(remedy->action), "by itself") != NULL;
    const char *enough = is_promised ? "" : enough_text(remedy->enough);
    const char *cost = vw__report_doctor_text(remedy->cost);
    const bool has_both = savings.text[0] != '\0' && enough[0] != '\0';
    const bool has_before = savings.text[0] != '\0' || enough[0] != '\0';
    if (has_before || cost[0] != '\0')
        vw__report_prose(
            part, 0, VW__REPORT_STYLE_PLAIN, INDENT_MARK, "%s%s%s%s%s%s%s", savings.text,
            has_both ? "; " : "", enough, enough[0] != '\0' ? " by itself" : "",
            has_before && cost[0] != '\0' ? "; " : "", cost[0] != '\0' ? "cost: " : "", cost);
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
    vw__report_doctor_code(part, INDENT, vw__report_doctor_text(remedy->how));
}

/* ---- the others, a line each ----------------------------------------------------------------- */

static bool is_listed(const others *list, const vw_remedy *remedy)
{
    for (size_t i = 0; i < list->count; i++)
        if (vw__report_doctor_is_same(list->items[i], remedy))
            return true;
    return false;
}

/* All remedies but the first and those of warnings, each once. */
static void gather_others(screen *page)
{
    const vw_diagnosis *diagnosis = page->diagnosis;
    for (size_t i = 0; i < diagnosis->finding_count; i++) {
        const vw_finding *finding = &diagnosis->findings[i];
        if (vw__report_doctor_is_warning(finding))
            continue;
        for (size_t k = 0; k < finding->remedy_count; k++) {
            const vw_remedy *remedy = &finding->remedies[k];
            if (vw__report_doctor_is_same(remedy, page->first) || is_listed(&page->all, remedy))
                continue;
            page->all.total++;
            if (page->all.count < MOST_OTHERS)
                page->all.items[page->all.count++] = remedy;
        }
    }
}

static unsigned rank_of(const vw_remedy *remedy)
{
    return remedy->enough == VW_ENOUGH_YES ? 0 : remedy->enough == VW_ENOUGH_UNKNOWN ? 1 : 2;
}

/* The best `most`: those that are enough, then those that may be; among equals the earlier ones,
 * since remedies come in the order in which to try them. The order stays. */
static void choose_others(screen *page, size_t most)
{
    bool is_chosen[MOST_OTHERS] = {false};
    size_t chosen = 0;
    for (unsigned rank = 0; rank <= 2; rank++)
        for (size_t i = 0; i < page->all.count && chosen < most; i++)
            if (rank_of(page->all.items[i]) == rank) {
                is_chosen[i] = true;
                chosen++;
            }
    page->shown.count = 0;
    for (size_t i = 0; i < page->all.count; i++)
        if (is_chosen[i])
            page->shown.items[page->shown.count++] = page->all.items[i];
    page->shown.total = page->shown.count;
}

/* "2.08-2.72 GiB", "763 MiB-1.77 GiB", "up to 1.77 GiB", "763 MiB or more"; "" if unknown. */
static vw__report_text short_savings(const vw_remedy *remedy)
{
    const uint64_t least_bytes = remedy->saves_bytes, most_bytes = remedy->saves_at_most_bytes;
    const vw__report_text least = vw__report_size(least_bytes), most = vw__report_size(most_bytes);
    const char *least_unit = strchr(least.text, ' '), *most_unit = strchr(most.text, ' ');
    vw__report_text result = {""};
    if (least_bytes == VW_UNKNOWN && most_bytes == VW_UNKNOWN)
        return result;
    if (least_bytes == most_bytes)
        return least;
    if (most_bytes == VW_UNKNOWN)
        snprintf(result.text, sizeof result.text, "%.24s or more", least.text);
    else if (least_bytes == VW_UNKNOWN || least_bytes == 0)
        snprintf(result.text, sizeof result.text, "up to %.24s", most.text);
    else if (least_unit != NULL && most_unit != NULL && strcmp(least_unit, most_unit) == 0)
        snprintf(result.text, sizeof result.text, "%.*s-%.24s", (int)(least_unit - least.text),
                 least.text, most.text);
    else
        snprintf(result.text, sizeof result.text, "%.24s-%.24s", least.text, most.text);
    return result;
}

/* Bytes of the first clause of a cost, which is its time (remedy.h). */
static size_t clause_bytes(const char *cost)
{
    size_t end = strcspn(cost, ";:(");
    const char *comma = strstr(cost, ", ");
    if (comma != NULL && (size_t)(comma - cost) < end)
        end = (size_t)(comma - cost);
    while (end > 0 && cost[end - 1] == ' ')
        end--;
    return end;
}

/* The time that a remedy costs, in few letters: "about 30 % more time per step: ..." is
 * "+30 % time". */
static vw__report_text short_cost(const vw_remedy *remedy)
{
    static const char about[] = "about ", more[] = " more ";
    const char *cost = vw__report_doctor_text(remedy->cost);
    vw__report_text clause, result;
    snprintf(clause.text, sizeof clause.text, "%.*s", (int)clause_bytes(cost), cost);
    const char *middle = strstr(clause.text, more);
    if (strncmp(clause.text, about, sizeof about - 1) != 0 || middle == NULL)
        return clause;
    const char *figure = clause.text + sizeof about - 1, *what = middle + sizeof more - 1;
    const bool is_time = strncmp(what, "time", strlen("time")) == 0;
    snprintf(result.text, sizeof result.text, "+%.*s %.24s", (int)(middle - figure), figure,
             is_time ? "time" : what);
    return result;
}

static size_t wider(size_t columns, const char *text)
{
    const size_t own_columns = vw__report_columns_of(text, strlen(text));
    return own_columns > columns ? own_columns : columns;
}

static const vw__report_column other_columns[] = {
    {"Other remedies", VW__REPORT_COLUMN_WORD},
    {"saves", VW__REPORT_COLUMN_WORD},
    {"costs", VW__REPORT_COLUMN_WORD},
    {"", VW__REPORT_COLUMN_WORD}, /* enough, or not */
};
enum { OTHER_COLUMN_COUNT = sizeof other_columns / sizeof other_columns[0] };

/* The columns that the cells beside the action leave to it. */
static size_t action_columns(const others *list, size_t width_columns)
{
    size_t columns[OTHER_COLUMN_COUNT] = {0}, taken_columns = 0;
    for (size_t i = 0; i < list->count; i++) {
        columns[1] = wider(columns[1], short_savings(list->items[i]).text);
        columns[2] = wider(columns[2], short_cost(list->items[i]).text);
        columns[3] = wider(columns[3], enough_text(list->items[i]->enough));
    }
    if (columns[2] > LARGEST_COST_COLUMNS)
        columns[2] = LARGEST_COST_COLUMNS;
    for (size_t i = 1; i < OTHER_COLUMN_COUNT; i++)
        if (columns[i] > 0)
            taken_columns += TABLE_GAP_COLUMNS + wider(columns[i], other_columns[i].title);
    return width_columns > taken_columns + SMALLEST_ACTION_COLUMNS ? width_columns - taken_columns
                                                                   : 0;
}

static void add_cut_cell(vw__report *part, vw__report_table *table, const char *text,
                         size_t room_columns)
{
    vw__byte_buffer cell;
    vw__byte_buffer_init(&cell);
    append_cut(part, &cell, text, room_columns);
    vw__report_table_cell(table, vw__byte_buffer_text(&cell));
    if (cell.has_failed)
        part->buffer.has_failed = true;
    vw__byte_buffer_deinit(&cell);
}

/* In a window too narrow for columns, `room_columns` is 0 and the action stands alone. */
static void add_other(vw__report *part, vw__report_table *table, const vw_remedy *remedy,
                      size_t room_columns)
{
    const bool has_columns = room_columns > 0;
    vw__report_table_row(table, VW__REPORT_STYLE_PLAIN);
    add_cut_cell(part, table, vw__report_doctor_text(remedy->action),
                 has_columns ? room_columns : part->form.width_columns);
    vw__report_table_cell(table, has_columns ? short_savings(remedy).text : "");
    add_cut_cell(part, table, has_columns ? short_cost(remedy).text : "", LARGEST_COST_COLUMNS);
    vw__report_table_cell(table, has_columns ? enough_text(remedy->enough) : "");
}

static void say_others(screen *page)
{
    enum { FRAME_LINES = 2 }; /* a blank one and the titles */
    vw__report *part = begin_section(page, SECTION_OTHERS);
    vw__report_table table;
    choose_others(page, page->left_lines > FRAME_LINES ? page->left_lines - FRAME_LINES : 0);
    if (page->shown.count == 0)
        return;
    const size_t room_columns = action_columns(&page->shown, part->form.width_columns);
    vw__report_blank(part);
    vw__report_table_init(&table, other_columns, OTHER_COLUMN_COUNT);
    for (size_t i = 0; i < page->shown.count; i++)
        add_other(part, &table, page->shown.items[i], room_columns);
    vw__report_table_end(&table, part);
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
        append_cut(part, &part->buffer, vw__report_doctor_text(finding->title),
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
    gather_others(page);
    say_rest(page, page->all.count > 0, page->all.total);
    keep_section(page, SECTION_REST);
    const bool has_rest = section_lines(page, SECTION_REST) > 0;
    say_verdict(page);
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
