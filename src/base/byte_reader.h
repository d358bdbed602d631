/* byte_reader.h - a cursor over bytes nobody vouches for.
 *
 * A length in a hostile file is any number at all. So every read compares what is asked for with
 * what remains, by subtraction, which cannot overflow, before it touches a byte; counts are 64 bits
 * wide because that is how files hold them. A read that fails returns false, moves nothing and
 * leaves its out-parameter alone, so a parser can report the offset at which the trouble began.
 *
 * The bytes are borrowed and never written; they need no alignment. No locks, no memory. */
#ifndef VW_BASE_BYTE_READER_H
#define VW_BASE_BYTE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vw__byte_reader {
    const uint8_t *bytes; /* borrowed; never NULL */
    size_t size_bytes;
    size_t offset_bytes; /* of the next byte; <= size_bytes */
} vw__byte_reader;

/* `bytes` may be NULL where `size_bytes` is 0. */
static inline void vw__byte_reader_init(vw__byte_reader *reader, const void *bytes,
                                        size_t size_bytes)
{
    reader->bytes = bytes != NULL ? bytes : (const void *)"";
    reader->size_bytes = size_bytes;
    reader->offset_bytes = 0;
}

static inline size_t vw__byte_reader_remaining(const vw__byte_reader *reader)
{
    return reader->size_bytes - reader->offset_bytes;
}

static inline size_t vw__byte_reader_offset(const vw__byte_reader *reader)
{
    return reader->offset_bytes;
}

static inline bool vw__skip_bytes(vw__byte_reader *reader, uint64_t count)
{
    if (count > vw__byte_reader_remaining(reader))
        return false;
    reader->offset_bytes += (size_t)count;
    return true;
}

/* Stores where the next `count` bytes lie, inside the reader's own, and moves past them. */
static inline bool vw__take_bytes(vw__byte_reader *reader, uint64_t count, const uint8_t **out)
{
    const uint8_t *start = reader->bytes + reader->offset_bytes;
    if (!vw__skip_bytes(reader, count))
        return false;
    *out = start;
    return true;
}

/* ---- integers -------------------------------------------------------------------------------- */

/* vw__read_u8, and vw__read_{u16,u32,u64}_{le,be}: bool (reader, type *out). */

/* `width` bytes as one number, the least or the most significant first. */
static inline bool vw__read_unsigned(vw__byte_reader *reader, unsigned width, bool is_big_endian,
                                     uint64_t *out)
{
    const uint8_t *bytes;
    if (!vw__take_bytes(reader, width, &bytes))
        return false;
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | bytes[is_big_endian ? i : width - 1 - i];
    *out = value;
    return true;
}

#define VW__DEFINE_READ(name, type, width, is_big_endian)                                          \
    static inline bool name(vw__byte_reader *reader, type *out)                                    \
    {                                                                                              \
        uint64_t value;                                                                            \
        if (!vw__read_unsigned(reader, width, is_big_endian, &value))                              \
            return false;                                                                          \
        *out = (type)value;                                                                        \
        return true;                                                                               \
    }

VW__DEFINE_READ(vw__read_u8, uint8_t, 1, false)
VW__DEFINE_READ(vw__read_u16_le, uint16_t, 2, false)
VW__DEFINE_READ(vw__read_u32_le, uint32_t, 4, false)
VW__DEFINE_READ(vw__read_u64_le, uint64_t, 8, false)
VW__DEFINE_READ(vw__read_u16_be, uint16_t, 2, true)
VW__DEFINE_READ(vw__read_u32_be, uint32_t, 4, true)
VW__DEFINE_READ(vw__read_u64_be, uint64_t, 8, true)
#undef VW__DEFINE_READ

#endif /* VW_BASE_BYTE_READER_H */
