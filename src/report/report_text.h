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
#ifndef VW_REPORT_REPORT_TEXT_H
#define VW_REPORT_REPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/report.h"
#include "base/byte_buffer.h"
#include "export/json_write.h"

typedef enum vw__style {
    VW__STYLE_PLAIN,
    VW__STYLE_BOLD,
    VW__STYLE_FAINT,
    VW__STYLE_RED,
    VW__STYLE_GREEN,
    VW__STYLE_YELLOW,
} vw__style;

typedef struct vw__report {
    vw_report_form form;    /* complete: what the caller's was too short for is filled in */
    unsigned asked_columns; /* width_columns as the caller set it; 0 = not set */
    vw__byte_buffer buffer; /* what is to be sent */
    vw__byte_buffer said;   /* the sentence at hand */
    vw__byte_buffer shown;  /* the same, fit to be shown */
} vw__report;

/* `form` may be NULL. Takes no memory yet. */
void vw__report_init(vw__report *report, const vw_report_form *form);

/* Sends what was gathered and frees everything, whatever becomes of it.
 *
 * VW_ERR_INVALID_ARGUMENT  no output
 * VW_ERR_HOST_MEMORY       there was too little to gather it; nothing was sent
 * VW_ERR_FILE              `write` ended it */
VW_MUST_CHECK vw_status vw__report_send(vw__report *report, const vw_output *output);

/* What a report is made of: how it reads for people and, as the fields of one JSON object behind
 * "schema", for programs. */
typedef struct vw__report_kind {
    const char *what; /* "replay": what is missing where there is nothing to report */
    void (*say)(vw__report *report, const void *content);
    void (*write)(vw__report *report, vw__json *json, const void *content);
} vw__report_kind;

/* Writes `content` as text, or as JSON where the form says so, and sends it. As vw__report_send();
 * VW_ERR_INVALID_ARGUMENT also where `content` is NULL. */
VW_MUST_CHECK vw_status vw__report_as(const vw__report_kind *kind, const void *content,
                                      const vw_report_form *form, const vw_output *output);

/* ---- paragraphs ------------------------------------------------------------------------------ */

/* A paragraph, wrapped at spaces; lines after the first are indented. */
__attribute__((format(printf, 3, 4))) void vw__report_say(vw__report *report, vw__style style,
                                                          const char *format, ...);

/* "label       text": what goes together stands in one column. At most 12 letters of label. */
__attribute__((format(printf, 3, 4))) void vw__report_fact(vw__report *report, const char *label,
                                                           const char *format, ...);

/* A line as it is, not wrapped; cut at the end where it is too wide. */
void vw__report_line(vw__report *report, const char *text, size_t size_bytes);

/* A line to be copied, in bold: never broken, however wide. */
void vw__report_verbatim(vw__report *report, const char *name, const char *value);

void vw__report_blank(vw__report *report);

/* Each as a paragraph of its own, "label: text". */
void vw__report_list(vw__report *report, vw__style style, const char *label,
                     const char *const *texts, size_t text_count);

/* The last of a report: a blank line, then the warnings, then the notes. Nothing without any. */
void vw__report_remarks(vw__report *report, const char *const *warnings, size_t warning_count,
                        const char *const *notes, size_t note_count);

/* ---- tables ---------------------------------------------------------------------------------- */

enum { VW__TABLE_MOST_COLUMNS = 10 };

typedef enum vw__column_kind {
    VW__COLUMN_NUMBER, /* to the right */
    VW__COLUMN_WORD,
    VW__COLUMN_NAME,  /* the one that gives way: wrapped. Heads the row where rows are told */
    VW__COLUMN_PLACE, /* the same, but its beginning is cut off: the end of a path says more */
} vw__column_kind;

typedef struct vw__column {
    const char *title;
    vw__column_kind kind; /* NAME or PLACE of one column at most */
} vw__column;

typedef struct vw__table {
    const vw__column *columns; /* borrowed */
    size_t column_count;
    size_t row_count;
    vw__byte_buffer rows; /* of each row: its kind, its style, its cells, each with a zero behind */
} vw__table;

/* `columns` without a cell that is not "" are left out. */
void vw__table_init(vw__table *table, const vw__column *columns, size_t column_count);

/* Begins a row; then one vw__table_cell() for each column, in order. NULL is "". */
void vw__table_row(vw__table *table, vw__style style);
void vw__table_cell(vw__table *table, const char *text);

/* A line below the row, as a PLACE, in faint. */
void vw__table_detail(vw__table *table, const char *text);

/* Appends the table to the report and frees it. Failure goes on into the report. */
void vw__table_end(vw__table *table, vw__report *report);

/* ---- numbers, by value ----------------------------------------------------------------------- */

typedef struct vw__text {
    char text[64];
} vw__text;

vw__text vw__size_text(uint64_t size_bytes); /* "13.40 GiB", "512 B"; unknown: "?" */
vw__text vw__change_text(uint64_t before_bytes, uint64_t after_bytes); /* "+1.20 GiB", "0 B" */
vw__text vw__count_text(uint64_t count);                               /* "220,134"; unknown: "?" */
vw__text vw__duration_text(uint64_t duration_ns);                      /* "12.3 ms" */
vw__text vw__ratio_text(double ratio);                                 /* "1.04" */
vw__text vw__share_text(double share);                                 /* "-0.8 %" of -0.008 */

/* "1 block", "2,000 blocks" */
vw__text vw__counted_text(uint64_t count, const char *noun);

#endif /* VW_REPORT_REPORT_TEXT_H */
