/* json_write.h - JSON, written as it comes.
 *
 * Appends to a byte buffer; commas and nesting are kept here, so that a report reads like the
 * object it makes. Failure sticks in the buffer (byte_buffer.h). Strings are escaped, and bytes
 * that are not UTF-8 become U+FFFD, so the output always parses. Nesting deeper than
 * VW__JSON_DEEPEST counts as a failure too. */
#ifndef VW_EXPORT_JSON_WRITE_H
#define VW_EXPORT_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_buffer.h"

enum { VW__JSON_DEEPEST = 32 };

typedef struct vw__json {
    vw__byte_buffer *buffer; /* borrowed */
    unsigned depth;
    bool needs_comma[VW__JSON_DEEPEST];
} vw__json;

void vw__json_init(vw__json *json, vw__byte_buffer *buffer);

/* `key` is NULL inside an array and for the outermost value. */
void vw__json_begin_object(vw__json *json, const char *key);
void vw__json_end_object(vw__json *json);
void vw__json_begin_array(vw__json *json, const char *key);
void vw__json_end_array(vw__json *json);

void vw__json_text(vw__json *json, const char *key, const char *text); /* NULL text: null */
void vw__json_bytes(vw__json *json, const char *key, const char *bytes, size_t size_bytes);
void vw__json_unsigned(vw__json *json, const char *key, uint64_t number);
void vw__json_known(vw__json *json, const char *key, uint64_t number); /* UINT64_MAX: null */
void vw__json_integer(vw__json *json, const char *key, int64_t number);
void vw__json_double(vw__json *json, const char *key, double number); /* not finite: null */
void vw__json_boolean(vw__json *json, const char *key, bool is_true);
void vw__json_null(vw__json *json, const char *key);

/* A value that is JSON already, as it is. */
void vw__json_ready(vw__json *json, const char *key, const char *bytes, size_t size_bytes);

#endif /* VW_EXPORT_JSON_WRITE_H */
