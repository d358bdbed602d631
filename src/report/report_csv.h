/* report_csv.h - the table of a report as comma-separated values (RFC 4180), from the lists of
 * fields that JSON is written from: the same names, and the same values.
 *
 * A field of one value is a column, called by its key; those of an object below are columns as
 * well, "oom.event"; a list of texts is one, with "; " between them; other lists are left out. What
 * is null in JSON is empty. */
#ifndef VW_REPORT_REPORT_CSV_H
#define VW_REPORT_REPORT_CSV_H

#include "report/report_fields.h"

/* The line of names, and a line for each object of the list that `path` leads to from `content`, by
 * keys with dots between: "devices.peak.usages". A list on the way gives each line its first field.
 */
void vw__report_csv_table(vw__report *report, const vw__report_fields *fields, const char *path,
                          const void *content);

/* For a table that is put together: a comma goes before everything but the first of a line. */
void vw__report_csv_names(vw__report *report, const vw__report_fields *fields);
void vw__report_csv_values(vw__report *report, const vw__report_fields *fields, const void *object);
void vw__report_csv_text(vw__report *report, const char *text);  /* NULL: empty */
void vw__report_csv_number(vw__report *report, uint64_t number); /* VW_UNKNOWN: empty */
void vw__report_csv_end_line(vw__report *report);

#endif /* VW_REPORT_REPORT_CSV_H */
