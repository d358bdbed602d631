/* byte_buffer.h - a growing buffer for output, whose failure sticks.
 *
 * A writer makes hundreds of small appends, and a check after each would bury the format it writes.
 * So failure sticks: an append without host memory adds nothing, nor does any later one, and the
 * writer asks vw__byte_buffer_has_failed() once, at the end.
 *
 * A zero that is not counted follows the last byte, so that text can be used as a string.
 *
 * No locks: one thread at a time. */
#ifndef VW_BASE_BYTE_BUFFER_H
#define VW_BASE_BYTE_BUFFER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/output.h"
#include "vramwise/status.h"

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

/* Empties the buffer and clears a failure; keeps the memory. */
void vw__byte_buffer_clear(vw__byte_buffer *buffer);

/* Returns whether an append failed. The buffer then has all appends before that one, each of them
 * complete. */
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
void vw__append_u32_le(vw__byte_buffer *buffer, uint32_t value);
void vw__append_u64_le(vw__byte_buffer *buffer, uint64_t value);

/* ---- sending --------------------------------------------------------------------------------- */

/* Writes all of `buffer` to `output`, in one piece; `what` is its name in a sentence, "a report".
 *
 * VW_ERR_INVALID_ARGUMENT  no output
 * VW_ERR_HOST_MEMORY       something is missing from the buffer; nothing was sent
 * VW_ERR_FILE              `write` ended it */
VW_MUST_CHECK vw_status vw__byte_buffer_send(const vw__byte_buffer *buffer, const vw_output *output,
                                             const char *what);

#endif /* VW_BASE_BYTE_BUFFER_H */
