/* pickle_text.h - numbers and strings the way protocol 0 writes them: a line of text each.
 *
 * All take a line without its newline, borrowed. All return false where the line is not what it
 * should be, and then leave the results alone. */
#ifndef VW_FORMAT_PICKLE_TEXT_H
#define VW_FORMAT_PICKLE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/byte_buffer.h"

typedef struct vw__pickle_number {
    bool is_negative;
    bool is_huge; /* more than 64 bits; no magnitude then */
    uint64_t magnitude;
} vw__pickle_number;

/* Decimal digits, perhaps with a sign. */
bool vw__pickle_parse_integer(const char *line, size_t size_bytes, vw__pickle_number *out);

/* As Python's repr() writes a float; "inf" and "nan" too. The locale does not matter. */
bool vw__pickle_parse_float(const char *line, size_t size_bytes, double *out);

/* Appends what a string in quotes, with backslash escapes, stands for. Memory that runs out shows
 * in the buffer, not here. */
bool vw__pickle_unquote(const char *line, size_t size_bytes, vw__byte_buffer *out);

/* Appends, as UTF-8, what Python's raw-unicode-escape stands for: Latin-1 with \uXXXX and
 * \UXXXXXXXX. Halves of surrogate pairs become three bytes each, as they do in Python's own
 * pickles. */
bool vw__pickle_decode_raw_unicode(const char *line, size_t size_bytes, vw__byte_buffer *out);

#endif /* VW_FORMAT_PICKLE_TEXT_H */
