/* json_write.h - JSON, written as it comes.
 *
 * Appends to a byte buffer; commas and nesting are kept here, so that a report reads like the
 * object it makes. Failure sticks in the buffer (byte_buffer.h). Strings are escaped, and bytes
 * that are not UTF-8 become U+FFFD, so the output always parses. Nesting deeper than
 * HR__JSON_DEEPEST counts as a failure too. */
#ifndef HR_EXPORT_JSON_WRITE_H
#define HR_EXPORT_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_buffer.h"

enum { HR__JSON_DEEPEST = 32 };

typedef struct hr__json {
    hr__byte_buffer *buffer; /* borrowed */
    unsigned depth;
    bool needs_comma[HR__JSON_DEEPEST];
} hr__json;

void hr__json_init(hr__json *json, hr__byte_buffer *buffer);

/* `key` is NULL inside an array and for the outermost value. */
void hr__json_begin_object(hr__json *json, const char *key);
void hr__json_end_object(hr__json *json);
void hr__json_begin_array(hr__json *json, const char *key);
void hr__json_end_array(hr__json *json);

void hr__json_text(hr__json *json, const char *key, const char *text); /* NULL text: null */
void hr__json_bytes(hr__json *json, const char *key, const char *bytes, size_t size_bytes);
void hr__json_unsigned(hr__json *json, const char *key, uint64_t number);
void hr__json_known(hr__json *json, const char *key, uint64_t number); /* UINT64_MAX: null */
void hr__json_integer(hr__json *json, const char *key, int64_t number);
void hr__json_double(hr__json *json, const char *key, double number); /* not finite: null */
void hr__json_boolean(hr__json *json, const char *key, bool is_true);
void hr__json_null(hr__json *json, const char *key);

/* A value that is JSON already, as it is. */
void hr__json_ready(hr__json *json, const char *key, const char *bytes, size_t size_bytes);

#endif /* HR_EXPORT_JSON_WRITE_H */
