/* byte_cursor.h - reads back what vw__append_...() wrote, from bytes nobody vouches for.
 *
 * The counterpart of byte_buffer.h: failure sticks here as well. A read beyond the end gives zeros,
 * as does every later one, and the reader asks has_failed once, at the end. Counts that come from
 * the bytes must be checked against vw__byte_cursor_left() before memory is taken for them. */
#ifndef VW_BASE_BYTE_CURSOR_H
#define VW_BASE_BYTE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vw__byte_cursor {
    const uint8_t *next, *end; /* borrowed */
    bool has_failed;
} vw__byte_cursor;

vw__byte_cursor vw__byte_cursor_of(const void *bytes, size_t size_bytes);

static inline size_t vw__byte_cursor_left(const vw__byte_cursor *cursor)
{
    return (size_t)(cursor->end - cursor->next);
}

uint8_t vw__byte_cursor_u8(vw__byte_cursor *cursor);
uint32_t vw__byte_cursor_u32(vw__byte_cursor *cursor);
uint64_t vw__byte_cursor_u64(vw__byte_cursor *cursor);

/* `size_bytes` bytes, as a part of what is read; NULL beyond the end. */
const void *vw__byte_cursor_bytes(vw__byte_cursor *cursor, size_t size_bytes);

#endif /* VW_BASE_BYTE_CURSOR_H */
