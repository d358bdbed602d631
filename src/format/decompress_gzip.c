/* decompress_gzip.c - gzip, with zlib.
 *
 * zlib ends at the end of a member; what follows may be another member, which continues the data,
 * or zeros, which tapes and block devices leave behind. Anything else is refused: it is not known
 * to be harmless. */
#include "format/decompress.h"

#include "base/checked_math.h" /* hr__min_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "format/zlib_memory.h"

typedef enum gzip_place {
    IN_MEMBER,
    BETWEEN_MEMBERS,
    IN_PADDING,
} gzip_place;

typedef struct gzip_decompressor {
    hr__decompressor table;
    z_stream stream;
    gzip_place place;
} gzip_decompressor;

/* Decides what the next byte begins, if there is one. */
static hr_status look_behind_member(gzip_decompressor *gzip, hr__decompress_span *span,
                                    bool *is_finished)
{
    while (gzip->place == IN_PADDING && span->input_bytes > 0 && *span->input == 0) {
        span->input++;
        span->input_bytes--;
    }
    if (span->input_bytes == 0) {
        *is_finished = span->is_input_over;
        return HR_OK;
    }
    if (gzip->place == BETWEEN_MEMBERS && *span->input == 0) {
        gzip->place = IN_PADDING;
        return HR_OK;
    }
    if (gzip->place == IN_PADDING || *span->input != 0x1f)
        return hr__fail(
            HR_ERR_CORRUPT_FILE,
            "behind the gzip data, expected the end or more gzip data, found byte 0x%02x",
            *span->input);
    inflateReset(&gzip->stream);
    gzip->place = IN_MEMBER;
    return HR_OK;
}

static hr_status inflate_some(gzip_decompressor *gzip, hr__decompress_span *span)
{
    uInt input_bytes = (uInt)hr__min_u64(span->input_bytes, UINT32_MAX);
    uInt output_bytes = (uInt)hr__min_u64(span->output_bytes, UINT32_MAX);
    gzip->stream.next_in = span->input;
    gzip->stream.avail_in = input_bytes;
    gzip->stream.next_out = span->output;
    gzip->stream.avail_out = output_bytes;
    int result = inflate(&gzip->stream, Z_NO_FLUSH);
    span->input += input_bytes - gzip->stream.avail_in;
    span->input_bytes -= input_bytes - gzip->stream.avail_in;
    span->output += output_bytes - gzip->stream.avail_out;
    span->output_bytes -= output_bytes - gzip->stream.avail_out;
    switch (result) {
    case Z_OK:
    case Z_BUF_ERROR: /* no progress possible: the caller has more input, or it is cut short */
        return HR_OK;
    case Z_STREAM_END:
        gzip->place = BETWEEN_MEMBERS;
        return HR_OK;
    case Z_MEM_ERROR:
        return hr__fail_host_memory(32 << 10, "the gzip window");
    default:
        return hr__fail(HR_ERR_CORRUPT_FILE, "damaged gzip data (%s)",
                        gzip->stream.msg != NULL ? gzip->stream.msg : "a dictionary is missing");
    }
}

static hr_status step(hr__decompressor *self, hr__decompress_span *span, bool *is_finished)
{
    gzip_decompressor *gzip = (gzip_decompressor *)self;
    while (!*is_finished) {
        size_t input_bytes = span->input_bytes, output_bytes = span->output_bytes;
        gzip_place place = gzip->place;
        if (place == IN_MEMBER)
            HR__TRY(inflate_some(gzip, span));
        else
            HR__TRY(look_behind_member(gzip, span, is_finished));
        if (span->input_bytes != input_bytes || span->output_bytes != output_bytes ||
            gzip->place != place)
            continue;
        if (place == IN_MEMBER && span->is_input_over && span->output_bytes != 0)
            return hr__fail(HR_ERR_CORRUPT_FILE, "the gzip data ends too early");
        break;
    }
    return HR_OK;
}

static void destroy(hr__decompressor *self)
{
    gzip_decompressor *gzip = (gzip_decompressor *)self;
    inflateEnd(&gzip->stream);
    hr__host_free(gzip);
}

hr_status hr__decompress_gzip_create(hr__decompressor **out)
{
    enum { LARGEST_WINDOW = 15, GZIP_HEADER = 16 };
    gzip_decompressor *gzip = hr__host_alloc_zeroed(1, sizeof *gzip);
    if (gzip == NULL)
        return hr__fail_host_memory(sizeof *gzip, "reading gzip");
    gzip->table = (hr__decompressor){.step = step, .destroy = destroy};
    hr__zlib_use_host_memory(&gzip->stream);
    if (inflateInit2(&gzip->stream, LARGEST_WINDOW + GZIP_HEADER) != Z_OK) {
        hr__host_free(gzip);
        return hr__fail_host_memory(32 << 10, "reading gzip");
    }
    *out = &gzip->table;
    return HR_OK;
}
