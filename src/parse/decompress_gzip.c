/* decompress_gzip.c - gzip, with zlib.
 *
 * zlib ends at the end of a member; what follows may be another member, which continues the data,
 * or zeros, which tapes and block devices leave behind. Anything else is refused: it is not known
 * to be harmless. */
#include "parse/decompress.h"

#include "base/checked_math.h" /* vw__min_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "parse/zlib_memory.h"

typedef enum gzip_place {
    IN_MEMBER,
    BETWEEN_MEMBERS,
    IN_PADDING,
} gzip_place;

typedef struct gzip_decompressor {
    vw__decompress_stream table;
    z_stream stream;
    gzip_place place;
} gzip_decompressor;

/* Decides what the next byte begins, if there is one. */
static vw_status look_behind_member(gzip_decompressor *gzip, vw__decompress_span *span,
                                    bool *is_finished)
{
    while (gzip->place == IN_PADDING && span->input_bytes > 0 && *span->input == 0) {
        span->input++;
        span->input_bytes--;
    }
    if (span->input_bytes == 0) {
        *is_finished = span->is_input_over;
        return VW_OK;
    }
    if (gzip->place == BETWEEN_MEMBERS && *span->input == 0) {
        gzip->place = IN_PADDING;
        return VW_OK;
    }
    if (gzip->place == IN_PADDING || *span->input != 0x1f)
        return vw__fail(
            VW_ERR_CORRUPT_FILE,
            "behind the gzip data, expected the end or more gzip data, found byte 0x%02x",
            *span->input);
    inflateReset(&gzip->stream);
    gzip->place = IN_MEMBER;
    return VW_OK;
}

static vw_status inflate_some(gzip_decompressor *gzip, vw__decompress_span *span)
{
    uInt input_bytes = (uInt)vw__min_u64(span->input_bytes, UINT32_MAX);
    uInt output_bytes = (uInt)vw__min_u64(span->output_bytes, UINT32_MAX);
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
        return VW_OK;
    case Z_STREAM_END:
        gzip->place = BETWEEN_MEMBERS;
        return VW_OK;
    case Z_MEM_ERROR:
        return vw__fail_host_memory(32 << 10, "the gzip window");
    default:
        return vw__fail(VW_ERR_CORRUPT_FILE, "damaged gzip data (%s)",
                        gzip->stream.msg != NULL ? gzip->stream.msg : "a dictionary is missing");
    }
}

static vw_status step(vw__decompress_stream *self, vw__decompress_span *span, bool *is_finished)
{
    gzip_decompressor *gzip = (gzip_decompressor *)self;
    while (!*is_finished) {
        size_t input_bytes = span->input_bytes, output_bytes = span->output_bytes;
        gzip_place place = gzip->place;
        if (place == IN_MEMBER)
            VW__TRY(inflate_some(gzip, span));
        else
            VW__TRY(look_behind_member(gzip, span, is_finished));
        if (span->input_bytes != input_bytes || span->output_bytes != output_bytes ||
            gzip->place != place)
            continue;
        if (place == IN_MEMBER && span->is_input_over && span->output_bytes != 0)
            return vw__fail(VW_ERR_CORRUPT_FILE, "the gzip data ends too early");
        break;
    }
    return VW_OK;
}

static void destroy(vw__decompress_stream *self)
{
    gzip_decompressor *gzip = (gzip_decompressor *)self;
    inflateEnd(&gzip->stream);
    vw__host_free(gzip);
}

vw_status vw__decompress_gzip_create(vw__decompress_stream **out)
{
    enum { LARGEST_WINDOW = 15, GZIP_HEADER = 16 };
    gzip_decompressor *gzip = vw__host_alloc_zeroed(1, sizeof *gzip);
    if (gzip == NULL)
        return vw__fail_host_memory(sizeof *gzip, "reading gzip");
    gzip->table = (vw__decompress_stream){.step = step, .destroy = destroy};
    vw__zlib_use_host_memory(&gzip->stream);
    if (inflateInit2(&gzip->stream, LARGEST_WINDOW + GZIP_HEADER) != Z_OK) {
        vw__host_free(gzip);
        return vw__fail_host_memory(32 << 10, "reading gzip");
    }
    *out = &gzip->table;
    return VW_OK;
}
