/* view_deflate.c - see view_deflate.h. */
#include "view/view_deflate.h"

#include "base/error.h"

#ifdef VW_HAS_ZLIB

#include "base/host_memory.h"
#include "format/zlib_memory.h"

enum { CHUNK_BYTES = 16 << 10 };
enum { LEVEL = 4 }; /* twice as fast as 6, and a tenth larger */

struct vw__view_deflate {
    z_stream stream;
};

vw_status vw__view_deflate_begin(vw__view_deflate **deflate)
{
    if (*deflate != NULL) {
        deflateReset(&(*deflate)->stream);
        return VW_OK;
    }
    vw__view_deflate *made = vw__host_alloc_zeroed(1, sizeof *made);
    if (made == NULL)
        return vw__fail_host_memory(sizeof *made, "compressing a view");
    vw__zlib_use_host_memory(&made->stream);
    if (deflateInit(&made->stream, LEVEL) != Z_OK) {
        vw__host_free(made);
        return vw__fail_host_memory(256 << 10, "compressing a view");
    }
    *deflate = made;
    return VW_OK;
}

static vw_status run(z_stream *stream, const uint8_t *bytes, size_t size_bytes, int flush,
                     vw__byte_buffer *buffer)
{
    uint8_t out[CHUNK_BYTES];
    stream->next_in = bytes;
    stream->avail_in = (uInt)size_bytes;
    do {
        stream->next_out = out;
        stream->avail_out = sizeof out;
        if (deflate(stream, flush) == Z_STREAM_ERROR)
            return vw__fail(VW_ERR_WRONG_STATE, "zlib refused to compress a column");
        vw__append_bytes(buffer, out, sizeof out - stream->avail_out);
    } while (stream->avail_out == 0);
    return VW_OK;
}

vw_status vw__view_deflate_add(vw__view_deflate *deflate, const uint8_t *bytes, size_t size_bytes,
                               vw__byte_buffer *out)
{
    return run(&deflate->stream, bytes, size_bytes, Z_NO_FLUSH, out);
}

vw_status vw__view_deflate_end(vw__view_deflate *deflate, vw__byte_buffer *out)
{
    static const uint8_t nothing;
    return run(&deflate->stream, &nothing, 0, Z_FINISH, out);
}

void vw__view_deflate_destroy(vw__view_deflate *deflate)
{
    if (deflate == NULL)
        return;
    deflateEnd(&deflate->stream);
    vw__host_free(deflate);
}

#else

vw_status vw__view_deflate_begin(vw__view_deflate **deflate)
{
    (void)deflate;
    return vw__fail(VW_ERR_UNSUPPORTED, "this build has no zlib, which the page needs");
}

vw_status vw__view_deflate_add(vw__view_deflate *deflate, const uint8_t *bytes, size_t size_bytes,
                               vw__byte_buffer *out)
{
    (void)bytes, (void)size_bytes, (void)out;
    return vw__view_deflate_begin(&deflate);
}

vw_status vw__view_deflate_end(vw__view_deflate *deflate, vw__byte_buffer *out)
{
    (void)out;
    return vw__view_deflate_begin(&deflate);
}

void vw__view_deflate_destroy(vw__view_deflate *deflate)
{
    (void)deflate;
}

#endif
