/* report_table.c - rows and columns, or one paragraph per row where the columns do not fit.
 *
 * A table is gathered first and laid out at the end: only then is it known how wide each column
 * must be. One column may give way (NAME, PLACE). If it would have to shrink below a width at which
 * it can still be read, the table becomes a list of paragraphs: nothing is left out of it. */
#include "report/report_text.h"

#include <stdio.h>
#include <string.h>

enum {
    GAP_COLUMNS = 2,
    SMALLEST_NAME_COLUMNS = 16,
    DETAIL_INDENT = 4,
    ROW = 'r',
    DETAIL = 'd',
};

void vw__report_table_init(vw__report_table *table, const vw__report_column *columns,
                           size_t column_count)
{
    if (column_count > VW__REPORT_MOST_COLUMNS)
        column_count = VW__REPORT_MOST_COLUMNS;
    *table = (vw__report_table){.column_count = column_count};
    memcpy(table->columns, columns, column_count * sizeof *columns);
}

static void begin_row(vw__report_table *table, char kind, vw__report_style style)
{
    const char head[] = {kind, (char)style};
    vw__append_bytes(&table->rows, head, sizeof head);
}

void vw__report_table_row(vw__report_table *table, vw__report_style style)
{
    begin_row(table, ROW, style);
    table->row_count++;
}

void vw__report_table_cell(vw__report_table *table, const char *text)
{
    if (text == NULL)
        text = "";
    vw__append_bytes(&table->rows, text, strlen(text) + 1);
}

void vw__report_table_detail(vw__report_table *table, const char *text)
{
    begin_row(table, DETAIL, VW__REPORT_STYLE_FAINT);
    vw__report_table_cell(table, text);
}

/* ---- reading what was gathered --------------------------------------------------------------- */

typedef struct row {
    char kind;
    vw__report_style style;
    const char *cells[VW__REPORT_MOST_COLUMNS]; /* a detail has one */
} row;

/* Reads the row at `*at`, up to `end`. A row cut short by a lack of memory ends the table. */
static bool next_row(const vw__report_table *table, const char **at, const char *end, row *out)
{
    if (end - *at < 2)
        return false;
    out->kind = (*at)[0];
    out->style = (vw__report_style)(*at)[1];
    *at += 2;
    size_t cell_count = out->kind == DETAIL ? 1 : table->column_count;
    for (size_t i = 0; i < cell_count; i++) {
        const char *zero = memchr(*at, '\0', (size_t)(end - *at));
        if (zero == NULL)
            return false;
        out->cells[i] = *at;
        *at = zero + 1;
    }
    return true;
}

/* The same rows, fit to be shown. */
static void show_rows(const vw__report_table *table, const vw__report *report,
                      vw__byte_buffer *shown)
{
    const char *at = vw__byte_buffer_text(&table->rows);
    const char *end = at + table->rows.size_bytes;
    row line;
    while (next_row(table, &at, end, &line)) {
        const char head[] = {line.kind, (char)line.style};
        size_t cell_count = line.kind == DETAIL ? 1 : table->column_count;
        vw__append_bytes(shown, head, sizeof head);
        for (size_t i = 0; i < cell_count; i++) {
            vw__report_show(report, shown, line.cells[i], strlen(line.cells[i]));
            vw__append_bytes(shown, "", 1);
        }
    }
}

/* ---- layout ---------------------------------------------------------------------------------- */

typedef struct layout {
    size_t widths[VW__REPORT_MOST_COLUMNS]; /* 0: nothing in it, left out */
    size_t giving;                          /* the column that gives way, or column_count */
    bool fits;
} layout;

/* A title may have a second line, behind a line feed. */
static const char *rest_of_title(const char *title)
{
    const char *feed = strchr(title, '\n');
    return feed != NULL ? feed + 1 : "";
}

static size_t title_columns(const char *title)
{
    const size_t first = strcspn(title, "\n"), second = strlen(rest_of_title(title));
    return first > second ? first : second;
}

static layout lay_out(const vw__report_table *table, const vw__byte_buffer *rows,
                      size_t width_columns)
{
    layout result = {.giving = table->column_count, .fits = true};
    const char *at = vw__byte_buffer_text(rows), *end = at + rows->size_bytes;
    row line;
    while (next_row(table, &at, end, &line)) {
        for (size_t i = 0; line.kind == ROW && i < table->column_count; i++) {
            size_t columns = vw__report_columns_of(line.cells[i], strlen(line.cells[i]));
            if (columns > result.widths[i])
                result.widths[i] = columns;
        }
    }
    size_t total_columns = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        if (result.widths[i] == 0)
            continue;
        const size_t title = title_columns(table->columns[i].title);
        if (result.widths[i] < title)
            result.widths[i] = title;
        total_columns += result.widths[i] + (total_columns > 0 ? GAP_COLUMNS : 0);
        if (table->columns[i].kind >= VW__REPORT_COLUMN_NAME)
            result.giving = i;
    }
    if (total_columns <= width_columns)
        return result;
    size_t excess_columns = total_columns - width_columns;
    result.fits = result.giving < table->column_count &&
                  result.widths[result.giving] >= excess_columns + SMALLEST_NAME_COLUMNS;
    if (result.fits)
        result.widths[result.giving] -= excess_columns;
    return result;
}

/* How much of `text` goes into one line of `width`: all, or up to a comma, a colon or a space. */
static size_t bytes_of_line(const char *text, size_t width)
{
    size_t size_bytes = strlen(text);
    size_t within_bytes = vw__report_bytes_within(text, size_bytes, width);
    if (within_bytes == size_bytes)
        return size_bytes;
    for (size_t i = within_bytes; i > 1; i--)
        if (text[i - 1] == ',' || text[i - 1] == ':' || text[i - 1] == ' ')
            return i + strspn(text + i, " "); /* a line does not begin with a space */
    return within_bytes;
}

/* The end of a place, behind dots; all of it where it fits. */
static void append_place(vw__report *report, const char *text, size_t width)
{
    size_t size_bytes = strlen(text);
    size_t columns = vw__report_columns_of(text, size_bytes);
    if (columns > width) {
        const char *dots = report->form.has_utf8 ? "\xE2\x80\xA6" : "...";
        size_t kept_columns = width - vw__report_columns_of(dots, strlen(dots));
        size_t dropped_bytes = vw__report_bytes_within(text, size_bytes, columns - kept_columns);
        /* A wide letter across the edge goes too. */
        while (vw__report_columns_of(text + dropped_bytes, size_bytes - dropped_bytes) >
               kept_columns)
            dropped_bytes +=
                vw__report_bytes_within(text + dropped_bytes, size_bytes - dropped_bytes, 2);
        vw__append_text(&report->buffer, dots);
        text += dropped_bytes;
    }
    vw__append_text(&report->buffer, text);
}

/* One line of a row. `name` is what remains of the NAME; on the lines after the first, all else is
 * blank. Returns what remains after this line. No spaces at the line's end. */
static const char *append_row_line(const vw__report_table *table, const layout *place,
                                   const row *line, const char *name, bool is_first,
                                   vw__report *report)
{
    size_t pending_columns = 0; /* spaces owed before the next text */
    bool is_leftmost = true;
    for (size_t i = 0; i < table->column_count; i++) {
        const size_t width = place->widths[i];
        const char *text = is_first ? line->cells[i] : "";
        size_t shown_bytes, columns;
        if (width == 0)
            continue;
        if (!is_leftmost)
            pending_columns += GAP_COLUMNS;
        is_leftmost = false;
        if (table->columns[i].kind == VW__REPORT_COLUMN_PLACE && *text != '\0') {
            columns = vw__report_columns_of(text, strlen(text));
            vw__report_append_spaces(&report->buffer, pending_columns);
            append_place(report, text, width);
            pending_columns = columns < width ? width - columns : 0;
            continue;
        }
        if (table->columns[i].kind == VW__REPORT_COLUMN_NAME) {
            text = name;
            shown_bytes = bytes_of_line(name, width);
            name += shown_bytes;
            while (shown_bytes > 0 && text[shown_bytes - 1] == ' ')
                shown_bytes--;
        } else {
            shown_bytes = strlen(text);
        }
        columns = vw__report_columns_of(text, shown_bytes);
        if (table->columns[i].kind == VW__REPORT_COLUMN_NUMBER)
            pending_columns += width - columns;
        if (shown_bytes > 0) {
            vw__report_append_spaces(&report->buffer, pending_columns);
            vw__append_bytes(&report->buffer, text, shown_bytes);
            pending_columns = 0;
        } else {
            pending_columns += columns;
        }
        if (table->columns[i].kind != VW__REPORT_COLUMN_NUMBER)
            pending_columns += width - columns;
    }
    return name;
}

static void append_row(const vw__report_table *table, const layout *place, const row *line,
                       vw__report *report)
{
    const bool has_name = place->giving < table->column_count &&
                          table->columns[place->giving].kind == VW__REPORT_COLUMN_NAME;
    const char *name = has_name ? line->cells[place->giving] : "";
    bool is_first = true;
    do {
        if (line->style != VW__REPORT_STYLE_PLAIN)
            vw__append_text(&report->buffer, vw__report_style_code(report, line->style));
        name = append_row_line(table, place, line, name, is_first, report);
        if (line->style != VW__REPORT_STYLE_PLAIN)
            vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_PLAIN));
        vw__append_bytes(&report->buffer, "\n", 1);
        is_first = false;
    } while (*name != '\0');
}

static void append_detail(const row *line, vw__report *report)
{
    vw__report_append_spaces(&report->buffer, DETAIL_INDENT);
    vw__append_text(&report->buffer, vw__report_style_code(report, line->style));
    append_place(report, line->cells[0], report->form.width_columns - DETAIL_INDENT);
    vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_PLAIN));
    vw__append_bytes(&report->buffer, "\n", 1);
}

/* The row as a paragraph: "name: title value, title value"; without a name, what follows it. */
static void tell_row(const vw__report_table *table, const layout *place, const row *line,
                     vw__report *report)
{
    vw__byte_buffer sentence;
    vw__byte_buffer_init(&sentence);
    const char *between = "";
    if (place->giving < table->column_count && line->cells[place->giving][0] != '\0') {
        vw__append_format(&sentence, "%s:", line->cells[place->giving]);
        between = " ";
    }
    for (size_t i = 0; i < table->column_count; i++) {
        if (i == place->giving || line->cells[i][0] == '\0')
            continue;
        const char *title = table->columns[i].title, *rest = rest_of_title(title);
        vw__append_format(&sentence, "%s%.*s%s%s%s%s", between, (int)strcspn(title, "\n"), title,
                          rest[0] == '\0' || rest[0] == '/' ? "" : " ", rest,
                          title[0] != '\0' ? " " : "", line->cells[i]);
        between = ", ";
    }
    if (sentence.has_failed)
        report->buffer.has_failed = true;
    vw__report_say(report, line->style, "%s", vw__byte_buffer_text(&sentence));
    vw__byte_buffer_deinit(&sentence);
}

static void append_titles(const vw__report_table *table, const layout *place, vw__report *report)
{
    enum { LONGEST_TITLE = 64 };
    char firsts[VW__REPORT_MOST_COLUMNS][LONGEST_TITLE];
    row lines[] = {{.kind = ROW, .style = VW__REPORT_STYLE_BOLD},
                   {.kind = ROW, .style = VW__REPORT_STYLE_BOLD}};
    bool has_line[2] = {false, false};
    for (size_t i = 0; i < table->column_count; i++) {
        const char *title = place->widths[i] > 0 ? table->columns[i].title : "";
        snprintf(firsts[i], sizeof firsts[i], "%.*s", (int)strcspn(title, "\n"), title);
        lines[0].cells[i] = firsts[i];
        lines[1].cells[i] = rest_of_title(title);
        for (size_t k = 0; k < 2; k++)
            has_line[k] = has_line[k] || lines[k].cells[i][0] != '\0';
    }
    for (size_t k = 0; k < 2; k++)
        if (has_line[k])
            append_row(table, place, &lines[k], report);
}

void vw__report_table_end(vw__report_table *table, vw__report *report)
{
    vw__byte_buffer shown;
    vw__byte_buffer_init(&shown);
    show_rows(table, report, &shown);
    const layout place = lay_out(table, &shown, report->form.width_columns);
    if (place.fits && table->row_count > 0)
        append_titles(table, &place, report);
    const char *at = vw__byte_buffer_text(&shown), *end = at + shown.size_bytes;
    row line;
    while (next_row(table, &at, end, &line)) {
        if (line.kind == DETAIL)
            append_detail(&line, report);
        else if (place.fits)
            append_row(table, &place, &line, report);
        else
            tell_row(table, &place, &line, report);
    }
    if (table->rows.has_failed || shown.has_failed)
        report->buffer.has_failed = true;
    vw__byte_buffer_deinit(&shown);
    vw__byte_buffer_deinit(&table->rows);
}
