/* byte_buffer.h - output that grows, and fails once.
 *
 * A writer makes hundreds of small appends, and a check after each would bury the format it
 * writes. So failure sticks: the append that finds no host memory adds nothing, neither does any
 * later one, and the writer asks vw__byte_buffer_has_failed() once, at the end.
 *
 * There is always a zero behind the last byte, not counted, so that text can be used as a string.
 *
 * No locks: one thread at a time. */
#ifndef VW_BASE_BYTE_BUFFER_H
#define VW_BASE_BYTE_BUFFER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vw__byte_buffer {
    char *bytes; /* owned; NULL before the first append */
    size_t size_bytes;
    size_t capacity_bytes; /* > size_bytes, or 0 */
    bool has_failed;
} vw__byte_buffer;

/* Takes no memory yet. */
void vw__byte_buffer_init(vw__byte_buffer *buffer);

/* Frees the bytes. The buffer is as after init. */
void vw__byte_buffer_deinit(vw__byte_buffer *buffer);

/* Empties it, takes a failure back, keeps the memory. */
void vw__byte_buffer_clear(vw__byte_buffer *buffer);

/* Is something missing from what was appended? Then the bytes that are there are the appends
 * before the first failing one, each of them whole. */
static inline bool vw__byte_buffer_has_failed(const vw__byte_buffer *buffer)
{
    return buffer->has_failed;
}

/* The bytes so far, zero-terminated, never NULL; valid until the next change. */
static inline const char *vw__byte_buffer_text(const vw__byte_buffer *buffer)
{
    return buffer->bytes != NULL ? buffer->bytes : "";
}

static inline size_t vw__byte_buffer_size(const vw__byte_buffer *buffer)
{
    return buffer->size_bytes;
}

/* Hands the bytes over to the caller, who frees them with vw__host_free(), and leaves the buffer
 * as after init. NULL after a failure (the bytes are then freed) and where nothing was appended. */
char *vw__byte_buffer_detach(vw__byte_buffer *buffer, size_t *size_bytes);

/* ---- appending ------------------------------------------------------------------------------- */

/* `bytes` may be NULL where `size_bytes` is 0; they must not be the buffer's own. */
void vw__append_bytes(vw__byte_buffer *buffer, const void *bytes, size_t size_bytes);
void vw__append_text(vw__byte_buffer *buffer, const char *text); /* without its zero */

__attribute__((format(printf, 2, 3))) void vw__append_format(vw__byte_buffer *buffer,
                                                             const char *format, ...);
__attribute__((format(printf, 2, 0))) void vw__append_format_v(vw__byte_buffer *buffer,
                                                               const char *format, va_list args);

/* Integers, least significant byte first. */
void vw__append_u8(vw__byte_buffer *buffer, uint8_t value);
void vw__append_u16_le(vw__byte_buffer *buffer, uint16_t value);
void vw__append_u32_le(vw__byte_buffer *buffer, uint32_t value);
void vw__append_u64_le(vw__byte_buffer *buffer, uint64_t value);

#endif /* VW_BASE_BYTE_BUFFER_H */
