/* report_text.h - text for people: paragraphs, facts, tables, numbers.
 *
 * A report is gathered in a buffer and sent at the end, so that a failure sends nothing. Nothing is
 * wider than the form says: paragraphs are wrapped, and a table that does not fit becomes one
 * paragraph per row.
 *
 * Strings from a recording may hold anything, escape sequences for the terminal included. All text
 * passes through one place that shows what cannot be shown as '?': control characters, bytes that
 * are not UTF-8, characters that turn the direction of writing, and without has_utf8 whatever is
 * not ASCII.
 *
 * Numbers do not depend on the locale. No locks: one thread at a time. */
#ifndef VW_REPORT_REPORT_TEXT_H
#define VW_REPORT_REPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/report.h"
#include "base/byte_buffer.h"
#include "base/utf8.h"

typedef enum vw__report_style {
    VW__REPORT_STYLE_PLAIN,
    VW__REPORT_STYLE_BOLD,
    VW__REPORT_STYLE_FAINT,
    VW__REPORT_STYLE_RED,
    VW__REPORT_STYLE_GREEN,
    VW__REPORT_STYLE_YELLOW,
} vw__report_style;

typedef struct vw__report {
    vw_report_form form;    /* complete: defaults fill what the caller's lacks */
    unsigned asked_columns; /* width_columns as the caller set it; 0 = not set */
    vw__byte_buffer buffer; /* what is to be sent */
    vw__byte_buffer said;   /* the sentence at hand */
    vw__byte_buffer shown;  /* the same, fit to be shown */
    size_t frames_bytes;    /* written so far of stacks, in JSON */
} vw__report;

/* `form` may be NULL. Takes no memory yet. */
void vw__report_init(vw__report *report, const vw_report_form *form);

/* Sends what was gathered. Frees everything, also on failure.
 *
 * VW_ERR_INVALID_ARGUMENT  no output
 * VW_ERR_HOST_MEMORY       there was too little to gather it; nothing was sent
 * VW_ERR_FILE              `write` ended it */
VW_MUST_CHECK vw_status vw__report_send(vw__report *report, const vw_output *output);

/* What a report is made of: how it reads for people and, as the fields of one JSON object behind
 * "schema", for programs. */
typedef struct vw__report_kind {
    const char *what; /* "replay": named in the error if `content` is NULL */
    void (*say)(vw__report *report, const void *content);
    const struct vw__report_fields *fields;
    const char *table; /* the list that CSV shows, as in report_csv.h; NULL: there is none */
} vw__report_kind;

/* Gathers `content` as text, or as JSON or CSV where the form says so. */
void vw__report_fill(vw__report *report, const vw__report_kind *kind, const void *content);

/* Makes a report of `content` and sends it. Fails as vw__report_send() does;
 * VW_ERR_INVALID_ARGUMENT also where `content` is NULL, or CSV is asked of what has no table. */
VW_MUST_CHECK vw_status vw__report_as(const vw__report_kind *kind, const void *content,
                                      const vw_report_form *form, const vw_output *output);

/* ---- paragraphs ------------------------------------------------------------------------------ */

/* A paragraph, wrapped at spaces; lines after the first are indented. */
__attribute__((format(printf, 3, 4))) void
vw__report_say(vw__report *report, vw__report_style style, const char *format, ...);

/* A paragraph behind a mark of ASCII ("- ", "12. "), wrapped at spaces but not between a number and
 * its unit. Lines after the first begin below the text; without a mark, two columns further in. */
__attribute__((format(printf, 5, 6))) void vw__report_prose(vw__report *report, size_t indent,
                                                            vw__report_style style,
                                                            const char *mark, const char *format,
                                                            ...);

/* "label       text": what goes together stands in one column. At most 12 letters of label. */
__attribute__((format(printf, 3, 4))) void vw__report_fact(vw__report *report, const char *label,
                                                           const char *format, ...);

/* A line, not wrapped but cut at the width. */
void vw__report_line(vw__report *report, const char *text, size_t size_bytes);

/* Of so many rows of a table those that are shown, and a line that says how many are not. */
size_t vw__report_shown_rows(const vw__report *report, size_t count);
void vw__report_say_rest(vw__report *report, size_t count, const char *noun);

/* A line to be copied, in bold: never broken, however wide. */
void vw__report_verbatim(vw__report *report, const char *name, const char *value);

void vw__report_blank(vw__report *report);

/* One paragraph for each text: "label: text". */
void vw__report_list(vw__report *report, vw__report_style style, const char *label,
                     const char *const *texts, size_t text_count);

/* The last of a report: a blank line, then the warnings, then the notes. Nothing without any. */
void vw__report_remarks(vw__report *report, const char *const *warnings, size_t warning_count,
                        const char *const *notes, size_t note_count);

/* ---- characters and their columns --------------------------------------------------------------
 */

/* What to print to switch to `style`: "" without colour. Static strings. */
const char *vw__report_style_code(const vw__report *report, vw__report_style style);

/* Appends `bytes` to `out`, with '?' for what cannot be shown and a space for a line's end. */
void vw__report_show(const vw__report *report, vw__byte_buffer *out, const char *bytes,
                     size_t size_bytes);

/* Columns that shown text takes; and how many of its bytes, whole characters, take no more than
 * `most_columns`. */
size_t vw__report_columns_of(const char *bytes, size_t size_bytes);
size_t vw__report_bytes_within(const char *bytes, size_t size_bytes, size_t most_columns);

void vw__report_append_spaces(vw__byte_buffer *buffer, size_t count);

/* Appends `text`, fit to be shown, in at most `room_columns`: where it is longer, its end gives way
 * to dots, back to the end of a word. Code and paths are cut wherever the room ends. */
void vw__report_append_cut(const vw__report *report, vw__byte_buffer *out, const char *text,
                           size_t room_columns);

/* ---- tables ---------------------------------------------------------------------------------- */

enum { VW__REPORT_MOST_COLUMNS = 10 };

typedef enum vw__report_column_kind {
    VW__REPORT_COLUMN_NUMBER, /* to the right */
    VW__REPORT_COLUMN_WORD,
    VW__REPORT_COLUMN_NAME,  /* gives way: wrapped. Begins the paragraph where a row becomes one */
    VW__REPORT_COLUMN_PLACE, /* the same, but its beginning is cut off: the end of a path says more
                              */
} vw__report_column_kind;

typedef struct vw__report_column {
    const char *title;           /* a line feed in it begins a second line */
    vw__report_column_kind kind; /* NAME or PLACE of one column at most */
} vw__report_column;

typedef struct vw__report_table {
    vw__report_column columns[VW__REPORT_MOST_COLUMNS]; /* their titles are borrowed */
    size_t column_count;
    size_t row_count;
    vw__byte_buffer rows; /* of each row: its kind, its style, its cells, each with a zero behind */
} vw__report_table;

/* `columns` without a cell that is not "" are left out. */
void vw__report_table_init(vw__report_table *table, const vw__report_column *columns,
                           size_t column_count);

/* Begins a row; then one vw__report_table_cell() for each column, in order. NULL is "". */
void vw__report_table_row(vw__report_table *table, vw__report_style style);
void vw__report_table_cell(vw__report_table *table, const char *text);

/* A line below the row, as a PLACE, in faint. */
void vw__report_table_detail(vw__report_table *table, const char *text);

/* Appends the table to the report and frees it. Failure goes on into the report. */
void vw__report_table_end(vw__report_table *table, vw__report *report);

/* ---- numbers, by value ----------------------------------------------------------------------- */

typedef struct vw__report_text {
    char text[64];
} vw__report_text;

vw__report_text vw__report_size(uint64_t size_bytes); /* "13.40 GiB", "512 B"; unknown: "?" */
vw__report_text vw__report_change(uint64_t before_bytes,
                                  uint64_t after_bytes);   /* "+1.20 GiB", "0 B" */
vw__report_text vw__report_count(uint64_t count);          /* "220,134"; unknown: "?" */
vw__report_text vw__report_duration(uint64_t duration_ns); /* "12.3 ms" */
vw__report_text vw__report_ratio(double ratio);            /* "1.04" */
vw__report_text vw__report_share(double share);            /* "-0.8 %" of -0.008 */

/* "1 block", "2,000 blocks" */
vw__report_text vw__report_counted(uint64_t count, const char *noun);

#endif /* VW_REPORT_REPORT_TEXT_H */
