/* report_text.c - a report from beginning to end, what of a text can be shown, and numbers.
 * Sentences are in report_prose.c, tables in report_table.c. base/human_units.h has the rule for
 * sizes, durations and shares; no locale has a say in the decimal point. */
#include "report/report_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ascii.h"
#include "base/error.h"
#include "base/human_units.h"
#include "base/byte_buffer.h"
#include "base/struct_size.h"
#include "report/report_csv.h"
#include "report/report_fields.h"

enum {
    USUAL_WIDTH_COLUMNS = 80,
    SMALLEST_WIDTH_COLUMNS = 40,
    USUAL_ROWS = 10,
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
    if (report->form.is_csv)
        report->form.has_utf8 = true; /* as JSON */
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

void vw__report_fill(vw__report *report, const vw__report_kind *kind, const void *content)
{
    vw__json json;
    if (report->form.is_csv && kind->table != NULL) {
        vw__report_csv_table(report, kind->fields, kind->table, content);
        return;
    }
    if (!report->form.is_json) {
        kind->say(report, content);
        return;
    }
    vw__json_init(&json, &report->buffer);
    vw__json_begin_object(&json, NULL);
    vw__json_unsigned(&json, "schema", 1);
    vw__report_json_members(report, &json, kind->fields, content);
    vw__json_end_object(&json);
    vw__append_text(&report->buffer, "\n");
}

vw_status vw__report_as(const vw__report_kind *kind, const void *content,
                        const vw_report_form *form, const vw_output *output)
{
    vw__report report;
    if (content == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no %s to report: it is NULL", kind->what);
    vw__report_init(&report, form);
    if (report.form.is_csv && kind->table == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "a %s has no table for CSV", kind->what);
    vw__report_fill(&report, kind, content);
    return vw__report_send(&report, output);
}

/* ---- what can be shown ----------------------------------------------------------------------- */

const char *vw__report_style_code(const vw__report *report, vw__report_style style)
{
    static const char *const codes[] = {
        [VW__REPORT_STYLE_PLAIN] = "\033[0m",  [VW__REPORT_STYLE_BOLD] = "\033[1m",
        [VW__REPORT_STYLE_FAINT] = "\033[2m",  [VW__REPORT_STYLE_RED] = "\033[31m",
        [VW__REPORT_STYLE_GREEN] = "\033[32m", [VW__REPORT_STYLE_YELLOW] = "\033[33m",
    };
    return report->form.has_colour ? codes[style] : "";
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
    if (character == VW__UTF8_INVALID || vw__utf8_is_steering(character) ||
        (character > 0x7E && !has_utf8))
        return "?";
    *shown_bytes = *length;
    return bytes;
}

void vw__report_show(const vw__report *report, vw__byte_buffer *out, const char *bytes,
                     size_t size_bytes)
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

size_t vw__report_columns_of(const char *bytes, size_t size_bytes)
{
    size_t columns = 0;
    for (size_t at = 0; at < size_bytes;) {
        uint32_t character = 0;
        at += vw__utf8_next(bytes + at, size_bytes - at, &character);
        columns += columns_of_character(character);
    }
    return columns;
}

size_t vw__report_bytes_within(const char *bytes, size_t size_bytes, size_t most_columns)
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
        size_t wider = columns + vw__report_columns_of(shown, shown_bytes);
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

void vw__report_append_spaces(vw__byte_buffer *buffer, size_t count)
{
    static const char spaces[] = "                                ";
    for (; count > sizeof spaces - 1; count -= sizeof spaces - 1)
        vw__append_bytes(buffer, spaces, sizeof spaces - 1);
    vw__append_bytes(buffer, spaces, count);
}

void vw__report_append_cut(const vw__report *report, vw__byte_buffer *out, const char *text,
                           size_t room_columns)
{
    enum { LONGEST_WORD_BYTES = 14 }; /* what is longer is no word but code or a path */
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
        const size_t half_bytes = within_bytes / 2;
        const size_t least_bytes =
            half_bytes > LONGEST_WORD_BYTES ? within_bytes - LONGEST_WORD_BYTES : half_bytes;
        size_bytes = within_bytes;
        while (size_bytes > least_bytes && safe[size_bytes] != ' ')
            size_bytes--;
        if (size_bytes <= least_bytes)
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

/* ---- numbers --------------------------------------------------------------------------------- */

vw__report_text vw__report_size(uint64_t size_bytes)
{
    vw__report_text result = {"?"};
    if (size_bytes != VW_UNKNOWN)
        vw__human_size(size_bytes, result.text);
    return result;
}

vw__report_text vw__report_change(uint64_t before_bytes, uint64_t after_bytes)
{
    vw__report_text result;
    if (before_bytes == VW_UNKNOWN || after_bytes == VW_UNKNOWN)
        return (vw__report_text){"?"};
    if (before_bytes == after_bytes)
        return (vw__report_text){"0 B"};
    const bool has_grown = after_bytes > before_bytes;
    const vw__report_text size =
        vw__report_size(has_grown ? after_bytes - before_bytes : before_bytes - after_bytes);
    snprintf(result.text, sizeof result.text, "%c%.30s", has_grown ? '+' : '-', size.text);
    return result;
}

vw__report_text vw__report_count(uint64_t count)
{
    vw__report_text result;
    char digits[24];
    if (count == VW_UNKNOWN)
        return (vw__report_text){"?"};
    size_t length = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, count);
    size_t out = 0;
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            result.text[out++] = ',';
        result.text[out++] = digits[i];
    }
    result.text[out] = '\0';
    return result;
}

vw__report_text vw__report_counted(uint64_t count, const char *noun)
{
    vw__report_text result;
    snprintf(result.text, sizeof result.text, "%.28s %.30s%s", vw__report_count(count).text, noun,
             count == 1 ? "" : "s");
    return result;
}

vw__report_text vw__report_duration(uint64_t duration_ns)
{
    vw__report_text result;
    vw__human_duration(duration_ns, result.text);
    return result;
}

vw__report_text vw__report_ratio(double ratio)
{
    vw__report_text result;
    if (!(ratio >= 0 && ratio < 1e9))
        return (vw__report_text){"?"};
    uint64_t hundredths = (uint64_t)(ratio * 100 + 0.5);
    snprintf(result.text, sizeof result.text, "%" PRIu64 ".%02" PRIu64, hundredths / 100,
             hundredths % 100);
    return result;
}

vw__report_text vw__report_share(double share)
{
    vw__report_text result;
    vw__human_share(share, result.text);
    return result;
}

/* ---- a name as a shell takes it -------------------------------------------------------------- */

static bool send(const vw_output *output, const char *bytes, size_t size_bytes)
{
    return output->write(output->context, bytes, size_bytes);
}

/* A quote inside quotes: end them, write an escaped quote, begin again. */
static bool send_quoted(const char *word, const vw_output *output)
{
    static const char escaped[] = "'\\''";
    bool is_sent = send(output, "'", 1);
    while (is_sent && *word != '\0') {
        size_t length = strcspn(word, "'");
        is_sent = length == 0 || send(output, word, length);
        word += length;
        if (is_sent && *word == '\'') {
            is_sent = send(output, escaped, sizeof escaped - 1);
            word++;
        }
    }
    return is_sent && send(output, "'", 1);
}

bool vw_write_shell_word(const char *word, const vw_output *output)
{
    const bool is_plain = word[0] != '-' && vw__ascii_is_shell_word(word);
    return is_plain ? send(output, word, strlen(word)) : send_quoted(word, output);
}
