/* decompress_zstd.c - zstd, which follows several frames and skips the skippable ones by itself.
 *
 * Its stable interface takes no allocator, so its memory is its own: at most the window of the
 * frame, which is bounded, and a little. */
#include "parse/decompress.h"

#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.h"
#include "base/host_memory.h"

typedef struct zstd_decompressor {
    vw__decompress_stream table;
    ZSTD_DStream *stream;
    bool is_between_frames; /* what has come out is whole */
} zstd_decompressor;

static vw_status explain(size_t result)
{
    switch (ZSTD_getErrorCode(result)) {
    case ZSTD_error_memory_allocation:
        return vw__fail(VW_ERR_HOST_MEMORY, "out of host memory: for the window of zstd data");
    case ZSTD_error_frameParameter_windowTooLarge:
        return vw__fail(VW_ERR_UNSUPPORTED, "zstd data with a window of more than 2^%d bytes",
                        VW__DECOMPRESS_MEMORY_LIMIT_LOG2);
    default:
        return vw__fail(VW_ERR_CORRUPT_FILE, "damaged zstd data (%s)", ZSTD_getErrorName(result));
    }
}

static vw_status step(vw__decompress_stream *self, vw__decompress_span *span, bool *is_finished)
{
    zstd_decompressor *zstd = (zstd_decompressor *)self;
    ZSTD_inBuffer input = {span->input, span->input_bytes, 0};
    ZSTD_outBuffer output = {span->output, span->output_bytes, 0};
    vw_status status = VW_OK;
    while (output.pos < output.size && (input.pos < input.size || !zstd->is_between_frames)) {
        size_t used = input.pos, made = output.pos;
        size_t result = ZSTD_decompressStream(zstd->stream, &output, &input);
        if (ZSTD_isError(result)) {
            status = explain(result);
            break;
        }
        zstd->is_between_frames = result == 0;
        if (input.pos == used && output.pos == made)
            break; /* it wants input that is not here */
    }
    span->input += input.pos;
    span->input_bytes -= input.pos;
    span->output += output.pos;
    span->output_bytes -= output.pos;
    if (status != VW_OK || !span->is_input_over || span->input_bytes != 0)
        return status;
    *is_finished = zstd->is_between_frames;
    if (!zstd->is_between_frames && span->output_bytes != 0)
        return vw__fail(VW_ERR_CORRUPT_FILE, "the zstd data ends too early");
    return VW_OK;
}

static void destroy(vw__decompress_stream *self)
{
    zstd_decompressor *zstd = (zstd_decompressor *)self;
    ZSTD_freeDStream(zstd->stream);
    vw__host_free(zstd);
}

vw_status vw__decompress_zstd_create(vw__decompress_stream **out)
{
    zstd_decompressor *zstd = vw__host_alloc_zeroed(1, sizeof *zstd);
    if (zstd == NULL)
        return vw__fail_host_memory(sizeof *zstd, "reading zstd");
    zstd->table = (vw__decompress_stream){.step = step, .destroy = destroy};
    zstd->stream = ZSTD_createDStream();
    zstd->is_between_frames = true;
    if (zstd->stream == NULL) {
        vw__host_free(zstd);
        return vw__fail(VW_ERR_HOST_MEMORY, "out of host memory: for reading zstd");
    }
    size_t result =
        ZSTD_DCtx_setParameter(zstd->stream, ZSTD_d_windowLogMax, VW__DECOMPRESS_MEMORY_LIMIT_LOG2);
    if (ZSTD_isError(result)) {
        destroy(&zstd->table);
        return explain(result);
    }
    *out = &zstd->table;
    return VW_OK;
}
