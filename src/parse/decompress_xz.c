/* decompress_xz.c - xz, with liblzma, which follows several streams and their padding by itself. */
#include "parse/decompress.h"

#include <lzma.h>

#include "base/error.h"
#include "base/host_memory.h"

#define MEMORY_LIMIT_BYTES (UINT64_C(1) << VW__DECOMPRESS_MEMORY_LIMIT_LOG2)

typedef struct xz_decompressor {
    vw__decompress_stream table;
    lzma_stream stream;
    lzma_allocator allocator;
} xz_decompressor;

static void *take_memory(void *context, size_t count, size_t size_bytes)
{
    (void)context;
    size_t product_bytes;
    return __builtin_mul_overflow(count, size_bytes, &product_bytes)
               ? NULL
               : vw__host_alloc(product_bytes);
}

static void free_memory(void *context, void *memory)
{
    (void)context;
    vw__host_free(memory);
}

static vw_status explain(lzma_stream *stream, lzma_ret result)
{
    switch (result) {
    case LZMA_MEM_ERROR:
        return vw__fail_host_memory(lzma_memusage(stream), "reading xz");
    case LZMA_MEMLIMIT_ERROR:
        return vw__fail(VW_ERR_UNSUPPORTED,
                        "this xz data needs %llu bytes of host memory to read, the limit is %llu",
                        (unsigned long long)lzma_memusage(stream),
                        (unsigned long long)MEMORY_LIMIT_BYTES);
    case LZMA_OPTIONS_ERROR:
        return vw__fail(VW_ERR_CORRUPT_FILE, "xz data of a kind that liblzma %s cannot read",
                        lzma_version_string());
    case LZMA_BUF_ERROR:
        return vw__fail(VW_ERR_CORRUPT_FILE, "the xz data ends too early");
    default: /* liblzma does not tell the two apart */
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "damaged xz data, or something else behind it (liblzma result %d)",
                        (int)result);
    }
}

static vw_status step(vw__decompress_stream *self, vw__decompress_span *span, bool *is_finished)
{
    lzma_stream *stream = &((xz_decompressor *)self)->stream;
    stream->next_in = span->input;
    stream->avail_in = span->input_bytes;
    stream->next_out = span->output;
    stream->avail_out = span->output_bytes;
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK && stream->avail_out > 0 &&
           (stream->avail_in > 0 || span->is_input_over))
        result = lzma_code(stream, span->is_input_over ? LZMA_FINISH : LZMA_RUN);
    span->input = stream->next_in;
    span->input_bytes = stream->avail_in;
    span->output = stream->next_out;
    span->output_bytes = stream->avail_out;
    *is_finished = result == LZMA_STREAM_END;
    return result == LZMA_OK || result == LZMA_STREAM_END ? VW_OK : explain(stream, result);
}

static void destroy(vw__decompress_stream *self)
{
    xz_decompressor *xz = (xz_decompressor *)self;
    lzma_end(&xz->stream);
    vw__host_free(xz);
}

vw_status vw__decompress_xz_create(vw__decompress_stream **out)
{
    xz_decompressor *xz = vw__host_alloc_zeroed(1, sizeof *xz);
    if (xz == NULL)
        return vw__fail_host_memory(sizeof *xz, "reading xz");
    xz->table = (vw__decompress_stream){.step = step, .destroy = destroy};
    xz->stream = (lzma_stream)LZMA_STREAM_INIT;
    xz->allocator = (lzma_allocator){.alloc = take_memory, .free = free_memory};
    xz->stream.allocator = &xz->allocator;
    lzma_ret result = lzma_stream_decoder(&xz->stream, MEMORY_LIMIT_BYTES, LZMA_CONCATENATED);
    if (result != LZMA_OK) {
        vw_status status = explain(&xz->stream, result);
        destroy(&xz->table);
        return status;
    }
    *out = &xz->table;
    return VW_OK;
}
