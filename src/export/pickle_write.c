/* pickle_write.c - the instructions, and a buffer in front of the sink.
 *
 * Numbers take the shortest form there is, as CPython writes them: one byte, two bytes, four bytes
 * with a sign, and beyond that LONG1 with as many bytes as the number needs (an address of the
 * device has six or seven). */
#include "export/pickle_write.h"

#include <string.h>

#include "base/checked_math.h" /* vw__min_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "base/utf8.h"

enum { MOST_IN_PORTION = 1000 }; /* as CPython */

/* By the names of Python's pickletools. */
enum {
    PROTO = 0x80,
    STOP = '.',
    MARK = '(',
    EMPTY_DICT = '}',
    SETITEMS = 'u',
    EMPTY_LIST = ']',
    APPENDS = 'e',
    TUPLE2 = 0x86,
    NEWTRUE = 0x88,
    NEWFALSE = 0x89,
    BININT = 'J',
    BININT1 = 'K',
    BININT2 = 'M',
    LONG1 = 0x8a,
    BINFLOAT = 'G',
    SHORT_BINUNICODE = 0x8c,
    BINUNICODE = 'X',
    MEMOIZE = 0x94,
    BINGET = 'h',
    LONG_BINGET = 'j',
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static void flush(vw__export_pickle *pickle)
{
    if (!pickle->has_failed && pickle->used_bytes != 0 &&
        !pickle->sink.write(pickle->sink.context, pickle->buffer, pickle->used_bytes))
        pickle->has_failed = true;
    pickle->used_bytes = 0;
}

static void put_bytes(vw__export_pickle *pickle, const void *bytes, size_t size_bytes)
{
    const char *from = bytes;
    while (size_bytes != 0) {
        if (pickle->used_bytes == VW__EXPORT_PICKLE_BUFFER_BYTES)
            flush(pickle);
        size_t piece_bytes =
            (size_t)vw__min_u64(size_bytes, VW__EXPORT_PICKLE_BUFFER_BYTES - pickle->used_bytes);
        memcpy(pickle->buffer + pickle->used_bytes, from, piece_bytes);
        pickle->used_bytes += piece_bytes;
        from += piece_bytes;
        size_bytes -= piece_bytes;
    }
}

/* An instruction and `count` bytes of a number, the least significant first. */
static void put(vw__export_pickle *pickle, int instruction, uint64_t number, size_t count)
{
    unsigned char bytes[9];
    bytes[0] = (unsigned char)instruction;
    for (size_t i = 0; i < count; i++)
        bytes[1 + i] = (unsigned char)(number >> (8 * i));
    put_bytes(pickle, bytes, 1 + count);
}

vw_status vw__export_pickle_init(vw__export_pickle *pickle, const vw__export_pickle_sink *sink)
{
    *pickle = (vw__export_pickle){.sink = *sink,
                                  .buffer = vw__host_alloc(VW__EXPORT_PICKLE_BUFFER_BYTES)};
    if (pickle->buffer == NULL)
        return vw__fail_host_memory(VW__EXPORT_PICKLE_BUFFER_BYTES, "a buffer for writing");
    put(pickle, PROTO, 4, 1);
    return VW_OK;
}

vw_status vw__export_pickle_finish(vw__export_pickle *pickle)
{
    put(pickle, STOP, 0, 0);
    flush(pickle);
    if (pickle->has_failed)
        return vw__fail(VW_ERR_FILE, "the recording could not be written to its end");
    return VW_OK;
}

void vw__export_pickle_deinit(vw__export_pickle *pickle)
{
    vw__host_free(pickle->buffer);
    pickle->buffer = NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

void vw__export_pickle_boolean(vw__export_pickle *pickle, bool is_true)
{
    put(pickle, is_true ? NEWTRUE : NEWFALSE, 0, 0);
}

/* Beyond 32 bits: two's complement in as few bytes as keep the sign. */
static void put_long(vw__export_pickle *pickle, uint64_t bits, bool is_negative)
{
    unsigned char bytes[11] = {LONG1, 0};
    size_t count = 0;
    uint64_t rest = is_negative ? ~bits : bits;
    do {
        bytes[2 + count++] = (unsigned char)bits;
        bits >>= 8;
        rest >>= 8;
        if (is_negative)
            bits |= UINT64_C(0xff) << 56;
    } while (rest != 0);
    bool has_sign_bit = (bytes[1 + count] & 0x80) != 0;
    if (has_sign_bit != is_negative)
        bytes[2 + count++] = is_negative ? 0xff : 0;
    bytes[1] = (unsigned char)count;
    put_bytes(pickle, bytes, 2 + count);
}

void vw__export_pickle_integer(vw__export_pickle *pickle, int64_t number)
{
    if (number >= 0)
        vw__export_pickle_unsigned(pickle, (uint64_t)number);
    else if (number >= INT32_MIN)
        put(pickle, BININT, (uint64_t)number, 4);
    else
        put_long(pickle, (uint64_t)number, true);
}

void vw__export_pickle_unsigned(vw__export_pickle *pickle, uint64_t number)
{
    if (number <= UINT8_MAX)
        put(pickle, BININT1, number, 1);
    else if (number <= UINT16_MAX)
        put(pickle, BININT2, number, 2);
    else if (number <= INT32_MAX)
        put(pickle, BININT, number, 4);
    else
        put_long(pickle, number, false);
}

void vw__export_pickle_float(vw__export_pickle *pickle, double number)
{
    uint64_t bits;
    _Static_assert(sizeof bits == sizeof number, "a double has 64 bits");
    memcpy(&bits, &number, sizeof bits);
    put(pickle, BINFLOAT, __builtin_bswap64(bits),
        8); /* the only one with the largest byte first */
}

/* ---- texts ----------------------------------------------------------------------------------- */

static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */

/* The length of the text with every wrong byte replaced; writes it too if `pickle` is not NULL. */
static uint64_t mend_text(vw__export_pickle *pickle, const char *bytes, size_t size_bytes)
{
    uint64_t mended_bytes = 0;
    uint32_t character;
    for (size_t at = 0, length; at < size_bytes; at += length) {
        length = vw__utf8_next(bytes + at, size_bytes - at, &character);
        bool is_valid = character != VW__UTF8_INVALID;
        size_t from_bytes = is_valid ? length : sizeof replacement;
        if (pickle != NULL)
            put_bytes(pickle, is_valid ? bytes + at : replacement, from_bytes);
        mended_bytes += from_bytes;
    }
    return mended_bytes;
}

void vw__export_pickle_text(vw__export_pickle *pickle, const char *bytes, size_t size_bytes)
{
    size_bytes = (size_t)vw__min_u64(size_bytes, UINT32_MAX / sizeof replacement);
    uint64_t mended_bytes = mend_text(NULL, bytes, size_bytes);
    if (mended_bytes <= UINT8_MAX)
        put(pickle, SHORT_BINUNICODE, mended_bytes, 1);
    else
        put(pickle, BINUNICODE, mended_bytes, 4);
    mend_text(pickle, bytes, size_bytes);
}

/* ---- containers ------------------------------------------------------------------------------ */

void vw__export_pickle_begin_dict(vw__export_pickle *pickle)
{
    put(pickle, EMPTY_DICT, 0, 0);
    put(pickle, MARK, 0, 0);
}

void vw__export_pickle_end_dict(vw__export_pickle *pickle)
{
    put(pickle, SETITEMS, 0, 0);
}

void vw__export_pickle_pair(vw__export_pickle *pickle)
{
    put(pickle, TUPLE2, 0, 0);
}

void vw__export_pickle_begin_list(vw__export_pickle *pickle, vw__export_pickle_list *list)
{
    list->in_portion = 0;
    put(pickle, EMPTY_LIST, 0, 0);
}

void vw__export_pickle_next_item(vw__export_pickle *pickle, vw__export_pickle_list *list)
{
    if (list->in_portion == MOST_IN_PORTION)
        vw__export_pickle_end_list(pickle, list);
    if (list->in_portion++ == 0)
        put(pickle, MARK, 0, 0);
}

void vw__export_pickle_end_list(vw__export_pickle *pickle, vw__export_pickle_list *list)
{
    if (list->in_portion != 0)
        put(pickle, APPENDS, 0, 0);
    list->in_portion = 0;
}

/* ---- the memo -------------------------------------------------------------------------------- */

uint32_t vw__export_pickle_memoize(vw__export_pickle *pickle)
{
    if (pickle->memo_count == UINT32_MAX) {
        pickle->has_failed = true;
        return 0;
    }
    put(pickle, MEMOIZE, 0, 0);
    return pickle->memo_count++;
}

void vw__export_pickle_fetch(vw__export_pickle *pickle, uint32_t memo)
{
    VW_ASSERT(memo < pickle->memo_count);
    if (memo <= UINT8_MAX)
        put(pickle, BINGET, memo, 1);
    else
        put(pickle, LONG_BINGET, memo, 4);
}
