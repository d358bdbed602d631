/* report_text.h - text for people: paragraphs, facts, tables, numbers.
 *
 * A report is gathered in a buffer and handed over at the end, so that nobody sees half of one that
 * failed. Nothing is wider than the form says: paragraphs are wrapped, and a table that does not
 * fit is told row by row.
 *
 * Strings from a recording may hold anything, escape sequences for the terminal included. All text
 * passes through one place that shows what cannot be shown as '?': control characters, bytes that
 * are not UTF-8, characters that turn the direction of writing, and without has_utf8 whatever is
 * not ASCII.
 *
 * Numbers do not depend on the locale. No locks: one thread at a time. */
#ifndef HR_REPORT_REPORT_TEXT_H
#define HR_REPORT_REPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/report.h"
#include "base/byte_buffer.h"

typedef enum hr__style {
    HR__STYLE_PLAIN,
    HR__STYLE_BOLD,
    HR__STYLE_FAINT,
    HR__STYLE_RED,
    HR__STYLE_GREEN,
    HR__STYLE_YELLOW,
} hr__style;

typedef struct hr__report {
    hr_report_form form;    /* complete: what the caller's was too short for is filled in */
    hr__byte_buffer buffer; /* what is to be sent */
    hr__byte_buffer said;   /* the sentence at hand */
    hr__byte_buffer shown;  /* the same, fit to be shown */
} hr__report;

/* `form` may be NULL. Takes no memory yet. */
void hr__report_init(hr__report *report, const hr_report_form *form);

/* Sends what was gathered and frees everything, whatever becomes of it.
 *
 * HR_ERR_INVALID_ARGUMENT  no output
 * HR_ERR_HOST_MEMORY       there was too little to gather it; nothing was sent
 * HR_ERR_FILE              `write` ended it */
HR_MUST_CHECK hr_status hr__report_send(hr__report *report, const hr_output *output);

/* ---- paragraphs ------------------------------------------------------------------------------ */

/* A paragraph, wrapped at spaces; lines after the first are indented. */
__attribute__((format(printf, 3, 4))) void hr__report_say(hr__report *report, hr__style style,
                                                          const char *format, ...);

/* "label       text": what goes together stands in one column. At most 12 letters of label. */
__attribute__((format(printf, 3, 4))) void hr__report_fact(hr__report *report, const char *label,
                                                           const char *format, ...);

/* A line as it is, not wrapped; cut at the end where it is too wide. */
void hr__report_line(hr__report *report, const char *text, size_t size_bytes);

/* A line to be copied, in bold: never broken, however wide. */
void hr__report_verbatim(hr__report *report, const char *name, const char *value);

void hr__report_blank(hr__report *report);

/* Each as a paragraph of its own, "label: text". */
void hr__report_list(hr__report *report, hr__style style, const char *label,
                     const char *const *texts, size_t text_count);

/* ---- tables ---------------------------------------------------------------------------------- */

enum { HR__TABLE_MOST_COLUMNS = 10 };

typedef enum hr__column_kind {
    HR__COLUMN_NUMBER, /* to the right */
    HR__COLUMN_WORD,
    HR__COLUMN_NAME,  /* the one that gives way: wrapped. Heads the row where rows are told */
    HR__COLUMN_PLACE, /* the same, but its beginning is cut off: the end of a path says more */
} hr__column_kind;

typedef struct hr__column {
    const char *title;
    hr__column_kind kind; /* NAME or PLACE of one column at most */
} hr__column;

typedef struct hr__table {
    const hr__column *columns; /* borrowed */
    size_t column_count;
    size_t row_count;
    hr__byte_buffer rows; /* of each row: its kind, its style, its cells, each with a zero behind */
} hr__table;

/* `columns` without a cell that is not "" are left out. */
void hr__table_init(hr__table *table, const hr__column *columns, size_t column_count);

/* Begins a row; then one hr__table_cell() for each column, in order. NULL is "". */
void hr__table_row(hr__table *table, hr__style style);
void hr__table_cell(hr__table *table, const char *text);

/* A line below the row, as a PLACE, in faint. */
void hr__table_detail(hr__table *table, const char *text);

/* Appends the table to the report and frees it. Failure goes on into the report. */
void hr__table_end(hr__table *table, hr__report *report);

/* ---- numbers, by value ----------------------------------------------------------------------- */

typedef struct hr__text {
    char text[64];
} hr__text;

hr__text hr__size_text(uint64_t size_bytes); /* "13.4 GiB", "512 B"; unknown: "?" */
hr__text hr__change_text(uint64_t before_bytes, uint64_t after_bytes); /* "+1.20 GiB", "0 B" */
hr__text hr__count_text(uint64_t count);                               /* "220,134"; unknown: "?" */
hr__text hr__duration_text(uint64_t duration_ns);                      /* "12.3 ms" */
hr__text hr__ratio_text(double ratio);                                 /* "1.04" */
hr__text hr__percent_text(double ratio);                               /* "-0.8 %" of -0.008 */

/* "1 block", "2,000 blocks" */
hr__text hr__counted_text(uint64_t count, const char *noun);

#endif /* HR_REPORT_REPORT_TEXT_H */
