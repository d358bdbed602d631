/* cut_text.h - text into a buffer of fixed size, counting what did not fit.
 *
 * What is said when memory runs out must not need memory, and a caller who brings a buffer wants to
 * know how long it should have been. So text is written as far as it fits, always with a zero
 * behind it, and its whole length is counted. */
#ifndef VW_POOL_CUT_TEXT_H
#define VW_POOL_CUT_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct vw__cut_text {
    char *buffer; /* the caller's; may be NULL where `capacity` is 0 */
    size_t capacity;
    size_t length; /* of the whole text so far, without its zero: may exceed `capacity` */
} vw__cut_text;

static inline void vw__cut_text_init(vw__cut_text *text, char *buffer, size_t capacity)
{
    *text = (vw__cut_text){buffer, capacity, 0};
    if (capacity > 0)
        buffer[0] = '\0';
}

/* True if all of the text, and the zero behind it, is in the buffer. */
static inline bool vw__cut_text_fits(const vw__cut_text *text)
{
    return text->length < text->capacity;
}

__attribute__((format(printf, 2, 3))) static inline void
vw__cut_text_append(vw__cut_text *text, const char *format, ...)
{
    size_t room = text->length < text->capacity ? text->capacity - text->length : 0;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(room > 0 ? text->buffer + text->length : NULL, room, format, args);
    va_end(args);
    if (length > 0)
        text->length += (size_t)length;
}

#endif /* VW_POOL_CUT_TEXT_H */
