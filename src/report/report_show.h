/* report_show.h - what report_text.c and report_table.c share: characters and their columns. */
#ifndef VW_REPORT_REPORT_SHOW_H
#define VW_REPORT_REPORT_SHOW_H

#include <stddef.h>

#include "base/utf8.h"
#include "report/report_text.h"

/* What to print to switch to `style`: "" without colour. Static strings. */
const char *vw__style_code(const vw__report *report, vw__style style);

/* Appends `bytes` to `out`, with '?' for what cannot be shown and a space for a line's end. */
void vw__show(const vw__report *report, vw__byte_buffer *out, const char *bytes, size_t size_bytes);

/* Columns that shown text takes; and how many of its bytes, whole characters, take no more than
 * `most_columns`. */
size_t vw__columns_of(const char *bytes, size_t size_bytes);
size_t vw__bytes_within(const char *bytes, size_t size_bytes, size_t most_columns);

void vw__append_spaces(vw__byte_buffer *buffer, size_t count);

#endif /* VW_REPORT_REPORT_SHOW_H */
