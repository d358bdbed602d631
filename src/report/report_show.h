/* report_show.h - what report_text.c and report_table.c share: characters and their columns. */
#ifndef HR_REPORT_REPORT_SHOW_H
#define HR_REPORT_REPORT_SHOW_H

#include <stddef.h>

#include "base/utf8.h"
#include "report/report_text.h"

/* What to print to switch to `style`: "" without colour. Static strings. */
const char *hr__style_code(const hr__report *report, hr__style style);

/* Appends `bytes` to `out`, with '?' for what cannot be shown and a space for a line's end. */
void hr__show(const hr__report *report, hr__byte_buffer *out, const char *bytes, size_t size_bytes);

/* Columns that shown text takes; and how many of its bytes, whole characters, take no more than
 * `most_columns`. */
size_t hr__columns_of(const char *bytes, size_t size_bytes);
size_t hr__bytes_within(const char *bytes, size_t size_bytes, size_t most_columns);

void hr__append_spaces(hr__byte_buffer *buffer, size_t count);

#endif /* HR_REPORT_REPORT_SHOW_H */
