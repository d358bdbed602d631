/* report_text.c - gathering, wrapping and showing; tables are in report_table.c, numbers in
 * report_numbers.c. */
#include "report/report_text.h"

#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/byte_buffer.h"
#include "base/struct_size.h"
#include "report/report_show.h"

enum {
    USUAL_WIDTH_COLUMNS = 80,
    SMALLEST_WIDTH_COLUMNS = 40,
    LONGEST_PROSE_COLUMNS = 100, /* longer lines are tiring, however wide the window */
    USUAL_ROWS = 10,
    HANGING_INDENT = 2,
    FACT_INDENT = 14,
};

void vw__report_init(vw__report *report, const vw_report_form *form)
{
    *report = (vw__report){0};
    if (form != NULL)
        vw__struct_copy(form, &report->form, sizeof *form);
    report->asked_columns = report->form.width_columns;
    if (report->form.width_columns == 0)
        report->form.width_columns = USUAL_WIDTH_COLUMNS;
    if (report->form.width_columns < SMALLEST_WIDTH_COLUMNS)
        report->form.width_columns = SMALLEST_WIDTH_COLUMNS;
    if (report->form.most_rows == 0)
        report->form.most_rows = USUAL_ROWS;
}

vw_status vw__report_send(vw__report *report, const vw_output *output)
{
    report->buffer.has_failed |= report->said.has_failed || report->shown.has_failed;
    vw_status status = vw__byte_buffer_send(&report->buffer, output, "a report");
    vw__byte_buffer_deinit(&report->buffer);
    vw__byte_buffer_deinit(&report->said);
    vw__byte_buffer_deinit(&report->shown);
    return status;
}

vw_status vw__report_as(const vw__report_kind *kind, const void *content,
                        const vw_report_form *form, const vw_output *output)
{
    vw__report report;
    if (content == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no %s to report: it is NULL", kind->what);
    vw__report_init(&report, form);
    if (report.form.is_json) {
        vw__json json;
        vw__json_init(&json, &report.buffer);
        vw__json_begin_object(&json, NULL);
        vw__json_unsigned(&json, "schema", 1);
        kind->write(&report, &json, content);
        vw__json_end_object(&json);
        vw__append_text(&report.buffer, "\n");
    } else {
        kind->say(&report, content);
    }
    return vw__report_send(&report, output);
}

/* ---- what can be shown ----------------------------------------------------------------------- */

const char *vw__style_code(const vw__report *report, vw__style style)
{
    static const char *const codes[] = {
        [VW__STYLE_PLAIN] = "\033[0m",  [VW__STYLE_BOLD] = "\033[1m",
        [VW__STYLE_FAINT] = "\033[2m",  [VW__STYLE_RED] = "\033[31m",
        [VW__STYLE_GREEN] = "\033[32m", [VW__STYLE_YELLOW] = "\033[33m",
    };
    return report->form.has_colour ? codes[style] : "";
}

static bool is_dangerous(uint32_t character)
{
    return character < 0x20 || (character >= 0x7F && character < 0xA0) || /* controls */
           (character >= 0x200B && character <= 0x200F) ||                /* invisible, direction */
           (character >= 0x2028 && character <= 0x202E) ||                /* lines, direction */
           (character >= 0x2060 && character <= 0x2069) || character == 0xFEFF ||
           character == VW__UTF8_INVALID;
}

/* The character at `bytes` as it is to be shown, and in `*length` how many bytes it took. */
static const char *shown_character(const char *bytes, size_t size_bytes, bool has_utf8,
                                   size_t *length, size_t *shown_bytes)
{
    uint32_t character = 0;
    *length = vw__utf8_next(bytes, size_bytes, &character);
    *shown_bytes = 1;
    if (character == '\n' || character == '\t')
        return " ";
    if (is_dangerous(character) || (character > 0x7E && !has_utf8))
        return "?";
    *shown_bytes = *length;
    return bytes;
}

void vw__show(const vw__report *report, vw__byte_buffer *out, const char *bytes, size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes;) {
        size_t length, shown_bytes;
        const char *shown = shown_character(bytes + at, size_bytes - at, report->form.has_utf8,
                                            &length, &shown_bytes);
        vw__append_bytes(out, shown, shown_bytes);
        at += length;
    }
}

/* The letters of East Asia, and pictures, are two columns wide; marks that sit on the letter before
 * them none. Good enough to keep tables straight: wcwidth() would ask the locale. */
static size_t columns_of_character(uint32_t character)
{
    if (character >= 0x300 && character <= 0x36F)
        return 0;
    if ((character >= 0x1100 && character <= 0x115F) ||
        (character >= 0x2E80 && character <= 0xA4CF) ||
        (character >= 0xAC00 && character <= 0xD7A3) ||
        (character >= 0xF900 && character <= 0xFAFF) ||
        (character >= 0xFE30 && character <= 0xFE6F) ||
        (character >= 0xFF00 && character <= 0xFF60) ||
        (character >= 0x1F300 && character <= 0x1FAFF) ||
        (character >= 0x20000 && character <= 0x3FFFD))
        return 2;
    return 1;
}

size_t vw__columns_of(const char *bytes, size_t size_bytes)
{
    size_t columns = 0;
    for (size_t at = 0; at < size_bytes;) {
        uint32_t character = 0;
        at += vw__utf8_next(bytes + at, size_bytes - at, &character);
        columns += columns_of_character(character);
    }
    return columns;
}

size_t vw__bytes_within(const char *bytes, size_t size_bytes, size_t most_columns)
{
    size_t at = 0, columns = 0;
    while (at < size_bytes) {
        uint32_t character = 0;
        size_t length = vw__utf8_next(bytes + at, size_bytes - at, &character);
        columns += columns_of_character(character);
        if (columns > most_columns)
            break;
        at += length;
    }
    return at;
}

size_t vw_show_text(const char *text, bool has_utf8, size_t most_columns, char *out,
                    size_t out_bytes)
{
    size_t size_bytes = text != NULL ? strlen(text) : 0, used_bytes = 0, columns = 0;
    for (size_t at = 0; at < size_bytes;) {
        size_t length, shown_bytes;
        const char *shown =
            shown_character(text + at, size_bytes - at, has_utf8, &length, &shown_bytes);
        size_t wider = columns + vw__columns_of(shown, shown_bytes);
        if (wider > most_columns || used_bytes + shown_bytes >= out_bytes)
            break;
        memcpy(out + used_bytes, shown, shown_bytes);
        used_bytes += shown_bytes;
        columns = wider;
        at += length;
    }
    if (out_bytes > 0)
        out[used_bytes] = '\0';
    return columns;
}

void vw__append_spaces(vw__byte_buffer *buffer, size_t count)
{
    static const char spaces[] = "                                ";
    for (; count > sizeof spaces - 1; count -= sizeof spaces - 1)
        vw__append_bytes(buffer, spaces, sizeof spaces - 1);
    vw__append_bytes(buffer, spaces, count);
}

/* ---- paragraphs ------------------------------------------------------------------------------ */

static size_t prose_width(const vw__report *report)
{
    return report->form.width_columns < LONGEST_PROSE_COLUMNS ? report->form.width_columns
                                                              : LONGEST_PROSE_COLUMNS;
}

/* How much of a word too long for a line goes into it: up to a comma or a slash, if there is one in
 * its second half. */
static size_t bytes_of_part(const char *word, size_t word_bytes, size_t most_columns)
{
    size_t within_bytes = vw__bytes_within(word, word_bytes, most_columns);
    for (size_t i = within_bytes; i > within_bytes / 2; i--)
        if (word[i - 1] == ',' || word[i - 1] == '/')
            return i;
    return within_bytes;
}

/* Wraps what can be shown at spaces, beginning at `column`; later lines begin at `indent`. A word
 * longer than a line is cut where the line ends. */
static void wrap(vw__report *report, const char *text, size_t size_bytes, size_t column,
                 size_t indent)
{
    const size_t width = prose_width(report);
    bool is_line_empty = true;
    size_t at = 0;
    while (at < size_bytes) {
        size_t word_bytes = strcspn(text + at, " ");
        if (word_bytes == 0) {
            at++;
            continue;
        }
        size_t word_columns = vw__columns_of(text + at, word_bytes);
        size_t space = is_line_empty ? 0 : 1;
        if (!is_line_empty && column + space + word_columns > width) {
            vw__append_bytes(&report->buffer, "\n", 1);
            vw__append_spaces(&report->buffer, indent);
            column = indent;
            is_line_empty = true;
            continue;
        }
        if (column + space + word_columns > width) { /* alone in its line, and too long for it */
            word_bytes = bytes_of_part(text + at, word_bytes, width - column);
            vw__append_bytes(&report->buffer, text + at, word_bytes);
            at += word_bytes;
            if (text[at] != ' ' && at < size_bytes) {
                vw__append_bytes(&report->buffer, "\n", 1);
                vw__append_spaces(&report->buffer, indent);
                column = indent;
            }
            continue;
        }
        vw__append_spaces(&report->buffer, space);
        vw__append_bytes(&report->buffer, text + at, word_bytes);
        column += space + word_columns;
        is_line_empty = false;
        at += word_bytes;
    }
}

/* Formats, makes it fit to be shown, wraps. */
static void say_from(vw__report *report, size_t column, size_t indent, const char *format,
                     va_list args)
{
    vw__byte_buffer_clear(&report->said);
    vw__append_format_v(&report->said, format, args);
    if (report->said.has_failed) /* a clear would forget it */
        report->buffer.has_failed = true;
    vw__byte_buffer_clear(&report->shown);
    vw__show(report, &report->shown, vw__byte_buffer_text(&report->said), report->said.size_bytes);
    if (report->shown.has_failed)
        report->buffer.has_failed = true;
    wrap(report, vw__byte_buffer_text(&report->shown), report->shown.size_bytes, column, indent);
}

void vw__report_say(vw__report *report, vw__style style, const char *format, ...)
{
    va_list args;
    if (style != VW__STYLE_PLAIN)
        vw__append_text(&report->buffer, vw__style_code(report, style));
    va_start(args, format);
    say_from(report, 0, HANGING_INDENT, format, args);
    va_end(args);
    if (style != VW__STYLE_PLAIN)
        vw__append_text(&report->buffer, vw__style_code(report, VW__STYLE_PLAIN));
    vw__append_bytes(&report->buffer, "\n", 1);
}

void vw__report_fact(vw__report *report, const char *label, const char *format, ...)
{
    va_list args;
    size_t label_columns = strlen(label);
    vw__append_text(&report->buffer, label);
    vw__append_spaces(&report->buffer,
                      label_columns < FACT_INDENT ? FACT_INDENT - label_columns : 1);
    va_start(args, format);
    say_from(report, FACT_INDENT, FACT_INDENT, format, args);
    va_end(args);
    vw__append_bytes(&report->buffer, "\n", 1);
}

void vw__report_line(vw__report *report, const char *text, size_t size_bytes)
{
    vw__byte_buffer_clear(&report->shown);
    vw__show(report, &report->shown, text, size_bytes);
    if (report->shown.has_failed)
        report->buffer.has_failed = true;
    const char *shown = vw__byte_buffer_text(&report->shown);
    vw__append_bytes(&report->buffer, shown,
                     vw__bytes_within(shown, report->shown.size_bytes, report->form.width_columns));
    vw__append_bytes(&report->buffer, "\n", 1);
}

void vw__report_verbatim(vw__report *report, const char *name, const char *value)
{
    vw__append_text(&report->buffer, vw__style_code(report, VW__STYLE_BOLD));
    vw__append_text(&report->buffer, name);
    vw__show(report, &report->buffer, value, strlen(value));
    vw__append_text(&report->buffer, vw__style_code(report, VW__STYLE_PLAIN));
    vw__append_bytes(&report->buffer, "\n", 1);
}

void vw__report_blank(vw__report *report)
{
    vw__append_bytes(&report->buffer, "\n", 1);
}

void vw__report_list(vw__report *report, vw__style style, const char *label,
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
    vw__report_list(report, VW__STYLE_YELLOW, "warning", warnings, warning_count);
    vw__report_list(report, VW__STYLE_PLAIN, "note", notes, note_count);
}
