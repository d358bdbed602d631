/* byte_buffer.c - growth by doubling, and the one place where failure is noted. */
#include "base/byte_buffer.h"

#include <stdio.h>
#include <string.h>

#include "base/checked_math.h" /* hr__add_u64, hr__max_u64 */
#include "base/host_memory.h"

enum { FIRST_CAPACITY_BYTES = 256 };

void hr__byte_buffer_init(hr__byte_buffer *buffer)
{
    *buffer = (hr__byte_buffer){0};
}

void hr__byte_buffer_deinit(hr__byte_buffer *buffer)
{
    hr__host_free(buffer->bytes);
    hr__byte_buffer_init(buffer);
}

void hr__byte_buffer_clear(hr__byte_buffer *buffer)
{
    buffer->size_bytes = 0;
    buffer->has_failed = false;
    if (buffer->bytes != NULL)
        buffer->bytes[0] = '\0';
}

char *hr__byte_buffer_detach(hr__byte_buffer *buffer, size_t *size_bytes)
{
    if (buffer->has_failed || buffer->bytes == NULL) {
        hr__byte_buffer_deinit(buffer);
        return NULL;
    }
    char *bytes = buffer->bytes;
    *size_bytes = buffer->size_bytes;
    hr__byte_buffer_init(buffer);
    return bytes;
}

/* Room for `more` bytes and the zero behind them? Notes the failure if not. */
static bool make_room(hr__byte_buffer *buffer, size_t more)
{
    if (buffer->has_failed)
        return false;
    if (more < buffer->capacity_bytes - buffer->size_bytes)
        return true;
    uint64_t needed_bytes;
    char *grown = NULL;
    /* An object larger than half the address space cannot be, so doubling does not overflow. */
    if (hr__add_u64(more, buffer->size_bytes, &needed_bytes) && needed_bytes < PTRDIFF_MAX) {
        uint64_t capacity_bytes = hr__max_u64(needed_bytes + 1, FIRST_CAPACITY_BYTES);
        capacity_bytes = hr__max_u64(capacity_bytes, 2 * (uint64_t)buffer->capacity_bytes);
        grown = hr__host_realloc(buffer->bytes, (size_t)capacity_bytes);
        if (grown != NULL) {
            buffer->bytes = grown;
            buffer->capacity_bytes = (size_t)capacity_bytes;
        }
    }
    buffer->has_failed = grown == NULL;
    return grown != NULL;
}

static void moved_on(hr__byte_buffer *buffer, size_t size_bytes)
{
    buffer->size_bytes += size_bytes;
    buffer->bytes[buffer->size_bytes] = '\0';
}

void hr__append_bytes(hr__byte_buffer *buffer, const void *bytes, size_t size_bytes)
{
    if (!make_room(buffer, size_bytes))
        return;
    if (size_bytes != 0)
        memcpy(buffer->bytes + buffer->size_bytes, bytes, size_bytes);
    moved_on(buffer, size_bytes);
}

void hr__append_text(hr__byte_buffer *buffer, const char *text)
{
    hr__append_bytes(buffer, text, strlen(text));
}

void hr__append_format_v(hr__byte_buffer *buffer, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    char on_stack[256]; /* most of what is formatted fits, and is then formatted once */
    int length = vsnprintf(on_stack, sizeof on_stack, format, args);
    if (length < 0) {
        buffer->has_failed = true;
    } else if ((size_t)length < sizeof on_stack) {
        hr__append_bytes(buffer, on_stack, (size_t)length);
    } else if (make_room(buffer, (size_t)length)) {
        vsnprintf(buffer->bytes + buffer->size_bytes, (size_t)length + 1, format, again);
        moved_on(buffer, (size_t)length);
    }
    va_end(again);
}

void hr__append_format(hr__byte_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    hr__append_format_v(buffer, format, args);
    va_end(args);
}

static void append_unsigned(hr__byte_buffer *buffer, uint64_t value, unsigned width)
{
    uint8_t bytes[8];
    for (unsigned i = 0; i < width; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    hr__append_bytes(buffer, bytes, width);
}

void hr__append_u8(hr__byte_buffer *buffer, uint8_t value)
{
    append_unsigned(buffer, value, 1);
}

void hr__append_u16_le(hr__byte_buffer *buffer, uint16_t value)
{
    append_unsigned(buffer, value, 2);
}

void hr__append_u32_le(hr__byte_buffer *buffer, uint32_t value)
{
    append_unsigned(buffer, value, 4);
}

void hr__append_u64_le(hr__byte_buffer *buffer, uint64_t value)
{
    append_unsigned(buffer, value, 8);
}
