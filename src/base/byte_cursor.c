/* byte_cursor.c - integers, least significant byte first, and bytes. */
#include "base/byte_cursor.h"

vw__byte_cursor vw__byte_cursor_of(const void *bytes, size_t size_bytes)
{
    const uint8_t *first = bytes;
    return (vw__byte_cursor){.next = first, .end = first + size_bytes};
}

const void *vw__byte_cursor_bytes(vw__byte_cursor *cursor, size_t size_bytes)
{
    if (cursor->has_failed || size_bytes > vw__byte_cursor_left(cursor)) {
        cursor->has_failed = true;
        return NULL;
    }
    const uint8_t *bytes = cursor->next;
    cursor->next += size_bytes;
    return bytes;
}

static uint64_t take(vw__byte_cursor *cursor, size_t size_bytes)
{
    const uint8_t *bytes = vw__byte_cursor_bytes(cursor, size_bytes);
    uint64_t value = 0;
    for (size_t i = size_bytes; bytes != NULL && i > 0; i--)
        value = value << 8 | bytes[i - 1];
    return value;
}

uint8_t vw__byte_cursor_u8(vw__byte_cursor *cursor)
{
    return (uint8_t)take(cursor, sizeof(uint8_t));
}

uint32_t vw__byte_cursor_u32(vw__byte_cursor *cursor)
{
    return (uint32_t)take(cursor, sizeof(uint32_t));
}

uint64_t vw__byte_cursor_u64(vw__byte_cursor *cursor)
{
    return take(cursor, sizeof(uint64_t));
}
