/* zlib_memory.h - makes zlib take its memory from base/host_memory.h. */
#ifndef VW_PARSE_ZLIB_MEMORY_H
#define VW_PARSE_ZLIB_MEMORY_H

#define ZLIB_CONST /* input may be const */
#include <zlib.h>

#include "base/host_memory.h"

static inline voidpf vw__zlib_take_memory(voidpf context, uInt count, uInt size_bytes)
{
    (void)context;
    return vw__host_alloc_zeroed(count, size_bytes);
}

static inline void vw__zlib_free_memory(voidpf context, voidpf memory)
{
    (void)context;
    vw__host_free(memory);
}

/* Call it before the stream's init function. */
static inline void vw__zlib_use_host_memory(z_stream *stream)
{
    stream->zalloc = vw__zlib_take_memory;
    stream->zfree = vw__zlib_free_memory;
}

#endif /* VW_PARSE_ZLIB_MEMORY_H */
