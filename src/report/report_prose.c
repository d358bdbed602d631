/* report_prose.c - sentences on lines.
 *
 * Prose is wrapped at spaces, in a window of any width. What is too long for a line is cut behind a
 * comma or a slash, and each line takes one character at least. The doctor's sentences are full of
 * numbers, and "3" at the end of a line with "%" below it is read as two things: there a number and
 * its unit stay together. */
#include "report/report_text.h"

#include <stdarg.h>
#include <string.h>

enum {
    LONGEST_PROSE_COLUMNS = 100, /* longer lines are tiring, however wide the window */
    HANGING_INDENT = 2,
    FACT_INDENT = 14,
};

/* ---- what stays together --------------------------------------------------------------------- */

/* "3", "1,024.5", "(14.80", "<1" */
static bool is_number(const char *word, size_t size_bytes)
{
    bool has_digit = false;
    for (size_t i = 0; i < size_bytes; i++) {
        const bool is_digit = word[i] >= '0' && word[i] <= '9';
        const char *others = has_digit ? ".," : "(+-<>~";
        if (!is_digit && strchr(others, word[i]) == NULL)
            return false;
        has_digit = has_digit || is_digit;
    }
    return has_digit && word[size_bytes - 1] != ',' && word[size_bytes - 1] != '.';
}

/* "GiB", "%)," */
static bool is_unit(const char *word, size_t size_bytes)
{
    static const char *const units[] = {"%",  "B",  "KiB", "MiB",     "GiB",   "TiB",     "KB",
                                        "MB", "GB", "TB",  "byte",    "bytes", "ns",      "us",
                                        "ms", "s",  "min", "seconds", "times", "percent", "second"};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const size_t length = strlen(units[i]);
        if (length <= size_bytes && memcmp(word, units[i], length) == 0 &&
            strspn(word + length, ".,;:!?)/") >= size_bytes - length)
            return true;
    }
    return false;
}

/* The word at `text`, with its unit where it is a number. */
static size_t bytes_together(const char *text)
{
    const size_t word_bytes = strcspn(text, " ");
    const char *next = text + word_bytes;
    if (*next == '\0' || !is_number(text, word_bytes))
        return word_bytes;
    const size_t unit_bytes = strcspn(next + 1, " ");
    return is_unit(next + 1, unit_bytes) ? word_bytes + 1 + unit_bytes : word_bytes;
}

/* How much of a word too long for a line goes into it: up to a comma or a slash, if there is one in
 * its second half. */
static size_t bytes_of_part(const char *word, size_t word_bytes, size_t most_columns)
{
    uint32_t character;
    const size_t within_bytes = vw__report_bytes_within(word, word_bytes, most_columns);
    for (size_t i = within_bytes; i > within_bytes / 2; i--)
        if (word[i - 1] == ',' || word[i - 1] == '/')
            return i;
    return within_bytes > 0 ? within_bytes : vw__utf8_next(word, word_bytes, &character);
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct prose {
    vw__report *report;
    vw__report_style style;
    size_t width_columns;
    size_t hanging;     /* where lines after the first begin */
    bool keeps_units;   /* with their numbers */
    size_t column;      /* where the line at hand ends */
    bool is_line_empty; /* but for its mark */
} prose;

static void begin_line(prose *lines, size_t indent, const char *mark)
{
    vw__byte_buffer *buffer = &lines->report->buffer;
    vw__report_append_spaces(buffer, indent);
    if (lines->style != VW__REPORT_STYLE_PLAIN)
        vw__append_text(buffer, vw__report_style_code(lines->report, lines->style));
    vw__append_text(buffer, mark);
    lines->column = indent + strlen(mark);
    lines->is_line_empty = true;
}

static void end_line(prose *lines)
{
    vw__byte_buffer *buffer = &lines->report->buffer;
    if (lines->style != VW__REPORT_STYLE_PLAIN)
        vw__append_text(buffer, vw__report_style_code(lines->report, VW__REPORT_STYLE_PLAIN));
    vw__append_bytes(buffer, "\n", 1);
}

static void next_line(prose *lines)
{
    end_line(lines);
    begin_line(lines, lines->hanging, "");
}

/* Looks no further than the line: a word may be megabytes long. */
static bool fits(const prose *lines, const char *text, size_t size_bytes)
{
    const size_t begin_columns = lines->column + (lines->is_line_empty ? 0 : 1);
    return begin_columns <= lines->width_columns &&
           vw__report_bytes_within(text, size_bytes, lines->width_columns - begin_columns) ==
               size_bytes;
}

static void append(prose *lines, const char *text, size_t size_bytes)
{
    if (!lines->is_line_empty)
        vw__append_bytes(&lines->report->buffer, " ", 1);
    vw__append_bytes(&lines->report->buffer, text, size_bytes);
    lines->column += (lines->is_line_empty ? 0 : 1) + vw__report_columns_of(text, size_bytes);
    lines->is_line_empty = false;
}

/* A word that no line can take whole, over as many as it needs. */
static void append_in_parts(prose *lines, const char *word, size_t word_bytes)
{
    while (!fits(lines, word, word_bytes)) {
        const size_t room_columns =
            lines->width_columns > lines->column ? lines->width_columns - lines->column : 1;
        const size_t part_bytes = bytes_of_part(word, word_bytes, room_columns);
        append(lines, word, part_bytes);
        word += part_bytes;
        word_bytes -= part_bytes;
        if (word_bytes == 0)
            return;
        next_line(lines);
    }
    append(lines, word, word_bytes);
}

/* `text` can be shown, and ends with a zero. */
static void wrap(prose *lines, const char *text)
{
    while (*(text += strspn(text, " ")) != '\0') {
        size_t piece_bytes = lines->keeps_units ? bytes_together(text) : strcspn(text, " ");
        if (!lines->is_line_empty && !fits(lines, text, piece_bytes))
            next_line(lines);
        if (!fits(lines, text, piece_bytes)) /* then a number parts with its unit after all */
            piece_bytes = strcspn(text, " ");
        append_in_parts(lines, text, piece_bytes);
        text += piece_bytes;
    }
}

/* The sentence, fit to be shown. */
static const char *show_sentence(vw__report *report, const char *format, va_list args)
{
    vw__byte_buffer_clear(&report->said);
    vw__append_format_v(&report->said, format, args);
    if (report->said.has_failed) /* a clear would forget it */
        report->buffer.has_failed = true;
    vw__byte_buffer_clear(&report->shown);
    vw__report_show(report, &report->shown, vw__byte_buffer_text(&report->said),
                    report->said.size_bytes);
    if (report->shown.has_failed)
        report->buffer.has_failed = true;
    return vw__byte_buffer_text(&report->shown);
}

static prose begin_prose(vw__report *report, size_t hanging)
{
    const size_t width = report->form.width_columns;
    return (prose){
        .report = report,
        .width_columns = width < LONGEST_PROSE_COLUMNS ? width : LONGEST_PROSE_COLUMNS,
        .hanging = hanging,
        .is_line_empty = true,
    };
}

void vw__report_prose(vw__report *report, size_t indent, vw__report_style style, const char *mark,
                      const char *format, ...)
{
    va_list args;
    prose lines = begin_prose(report, indent + (mark[0] != '\0' ? strlen(mark) : HANGING_INDENT));
    lines.style = style;
    lines.keeps_units = true;
    begin_line(&lines, indent, mark);
    va_start(args, format);
    wrap(&lines, show_sentence(report, format, args));
    va_end(args);
    end_line(&lines);
}

void vw__report_say(vw__report *report, vw__report_style style, const char *format, ...)
{
    va_list args;
    prose lines = begin_prose(report, HANGING_INDENT);
    if (style != VW__REPORT_STYLE_PLAIN)
        vw__append_text(&report->buffer, vw__report_style_code(report, style));
    va_start(args, format);
    wrap(&lines, show_sentence(report, format, args));
    va_end(args);
    if (style != VW__REPORT_STYLE_PLAIN)
        vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_PLAIN));
    vw__report_blank(report);
}

void vw__report_fact(vw__report *report, const char *label, const char *format, ...)
{
    va_list args;
    const size_t label_columns = strlen(label);
    prose lines = begin_prose(report, FACT_INDENT);
    vw__append_text(&report->buffer, label);
    vw__report_append_spaces(&report->buffer,
                             label_columns < FACT_INDENT ? FACT_INDENT - label_columns : 1);
    lines.column = FACT_INDENT;
    va_start(args, format);
    wrap(&lines, show_sentence(report, format, args));
    va_end(args);
    vw__report_blank(report);
}

void vw__report_line(vw__report *report, const char *text, size_t size_bytes)
{
    vw__byte_buffer_clear(&report->shown);
    vw__report_show(report, &report->shown, text, size_bytes);
    if (report->shown.has_failed)
        report->buffer.has_failed = true;
    const char *shown = vw__byte_buffer_text(&report->shown);
    vw__append_bytes(
        &report->buffer, shown,
        vw__report_bytes_within(shown, report->shown.size_bytes, report->form.width_columns));
    vw__append_bytes(&report->buffer, "\n", 1);
}

size_t vw__report_shown_rows(const vw__report *report, size_t count)
{
    return report->form.most_rows < count ? report->form.most_rows : count;
}

void vw__report_say_rest(vw__report *report, size_t count, const char *noun)
{
    size_t shown = vw__report_shown_rows(report, count);
    if (shown < count)
        vw__report_say(report, VW__REPORT_STYLE_FAINT, "%s more; --top 0 shows all",
                       vw__report_counted(count - shown, noun).text);
}

void vw__report_verbatim(vw__report *report, const char *name, const char *value)
{
    vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_BOLD));
    vw__append_text(&report->buffer, name);
    vw__report_show(report, &report->buffer, value, strlen(value));
    vw__append_text(&report->buffer, vw__report_style_code(report, VW__REPORT_STYLE_PLAIN));
    vw__append_bytes(&report->buffer, "\n", 1);
}

void vw__report_blank(vw__report *report)
{
    vw__append_bytes(&report->buffer, "\n", 1);
}

void vw__report_list(vw__report *report, vw__report_style style, const char *label,
                     const char *const *texts, size_t text_count)
{
    for (size_t i = 0; i < text_count; i++)
        vw__report_say(report, style, "%s: %s", label, texts[i]);
}

void vw__report_remarks(vw__report *report, const char *const *warnings, size_t warning_count,
                        const char *const *notes, size_t note_count)
{
    if (warning_count + note_count > 0)
        vw__report_blank(report);
    vw__report_list(report, VW__REPORT_STYLE_YELLOW, "warning", warnings, warning_count);
    vw__report_list(report, VW__REPORT_STYLE_PLAIN, "note", notes, note_count);
}
