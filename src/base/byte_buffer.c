/* byte_buffer.c - growth by doubling; make_room() is the one place that notes a failure. */
#include "base/byte_buffer.h"

#include <string.h>

#include "base/c_locale.h"
#include "base/checked_math.h" /* vw__add_u64, vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"

enum { FIRST_CAPACITY_BYTES = 256 };

void vw__byte_buffer_init(vw__byte_buffer *buffer)
{
    *buffer = (vw__byte_buffer){0};
}

void vw__byte_buffer_deinit(vw__byte_buffer *buffer)
{
    vw__host_free(buffer->bytes);
    vw__byte_buffer_init(buffer);
}

void vw__byte_buffer_clear(vw__byte_buffer *buffer)
{
    buffer->size_bytes = 0;
    buffer->has_failed = false;
    if (buffer->bytes != NULL)
        buffer->bytes[0] = '\0';
}

char *vw__byte_buffer_detach(vw__byte_buffer *buffer, size_t *size_bytes)
{
    if (buffer->has_failed || buffer->bytes == NULL) {
        vw__byte_buffer_deinit(buffer);
        return NULL;
    }
    char *bytes = buffer->bytes;
    *size_bytes = buffer->size_bytes;
    vw__byte_buffer_init(buffer);
    return bytes;
}

/* What the next growth asks for at least. */
static uint64_t next_capacity_bytes(const vw__byte_buffer *buffer)
{
    return vw__max_u64(2 * (uint64_t)buffer->capacity_bytes, FIRST_CAPACITY_BYTES);
}

/* Makes room for `more` bytes and the zero after them, or notes the failure. */
static bool make_room(vw__byte_buffer *buffer, size_t more)
{
    if (buffer->has_failed)
        return false;
    if (more < buffer->capacity_bytes - buffer->size_bytes)
        return true;
    uint64_t needed_bytes;
    char *grown = NULL;
    /* An object larger than half the address space cannot be, so doubling does not overflow. */
    if (vw__add_u64(more, buffer->size_bytes, &needed_bytes) && needed_bytes < PTRDIFF_MAX) {
        uint64_t capacity_bytes = vw__max_u64(needed_bytes + 1, next_capacity_bytes(buffer));
        grown = vw__host_realloc(buffer->bytes, (size_t)capacity_bytes);
        if (grown != NULL) {
            buffer->bytes = grown;
            buffer->capacity_bytes = (size_t)capacity_bytes;
        }
    }
    buffer->has_failed = grown == NULL;
    return grown != NULL;
}

static void moved_on(vw__byte_buffer *buffer, size_t size_bytes)
{
    buffer->size_bytes += size_bytes;
    buffer->bytes[buffer->size_bytes] = '\0';
}

void vw__append_bytes(vw__byte_buffer *buffer, const void *bytes, size_t size_bytes)
{
    if (!make_room(buffer, size_bytes))
        return;
    if (size_bytes != 0)
        memcpy(buffer->bytes + buffer->size_bytes, bytes, size_bytes);
    moved_on(buffer, size_bytes);
}

void vw__append_text(vw__byte_buffer *buffer, const char *text)
{
    vw__append_bytes(buffer, text, strlen(text));
}

void vw__append_format_v(vw__byte_buffer *buffer, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    char on_stack[256]; /* most of what is formatted fits, and is then formatted once */
    int length = vw__c_locale_vsnprintf(on_stack, sizeof on_stack, format, args);
    if (length < 0) {
        buffer->has_failed = true;
    } else if ((size_t)length < sizeof on_stack) {
        vw__append_bytes(buffer, on_stack, (size_t)length);
    } else if (make_room(buffer, (size_t)length)) {
        vw__c_locale_vsnprintf(buffer->bytes + buffer->size_bytes, (size_t)length + 1, format,
                               again);
        moved_on(buffer, (size_t)length);
    }
    va_end(again);
}

void vw__append_format(vw__byte_buffer *buffer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vw__append_format_v(buffer, format, args);
    va_end(args);
}

void vw__append_u8(vw__byte_buffer *buffer, uint8_t value)
{
    vw__append_bytes(buffer, &value, 1);
}

void vw__append_u32_le(vw__byte_buffer *buffer, uint32_t value)
{
    const uint8_t bytes[] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                             (uint8_t)(value >> 24)};
    vw__append_bytes(buffer, bytes, sizeof bytes);
}

void vw__append_u64_le(vw__byte_buffer *buffer, uint64_t value)
{
    uint8_t bytes[sizeof value];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    vw__append_bytes(buffer, bytes, sizeof bytes);
}

vw_status vw__byte_buffer_send(const vw__byte_buffer *buffer, const vw_output *output,
                               const char *what)
{
    size_t size_bytes = vw__byte_buffer_size(buffer);
    if (output == NULL || output->write == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "%s needs an output to write to, not NULL", what);
    if (vw__byte_buffer_has_failed(buffer))
        return vw__fail_host_memory((size_t)next_capacity_bytes(buffer), what);
    if (!output->write(output->context, vw__byte_buffer_text(buffer), size_bytes))
        return vw__fail(VW_ERR_FILE, "the output took no more of %s of %zu bytes", what,
                        size_bytes);
    return VW_OK;
}
