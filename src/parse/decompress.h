/* decompress.h - one table for three libraries.
 *
 * A decompressor is fed bytes as they come and gives bytes as there is room. Several compressed
 * streams one behind the other are one stream: gzip members, xz streams, zstd frames. */
#ifndef VW_PARSE_DECOMPRESS_H
#define VW_PARSE_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"

/* Pointers and sizes advance as bytes are used and made. */
typedef struct vw__decompress_span {
    const uint8_t *input;
    size_t input_bytes;
    bool is_input_over; /* nothing comes after `input` */
    uint8_t *output;
    size_t output_bytes; /* room */
} vw__decompress_span;

/* The most memory that a file may make a decompressor take, beside what --max-memory allows: `xz
 * -9` needs 65 MiB and `zstd --long` 128 MiB, and more is refused by zstd itself unless it is told;
 * twelve bytes of a hostile file could ask for gigabytes. */
#define VW__DECOMPRESS_MEMORY_LIMIT_LOG2 27

typedef struct vw__decompress_stream vw__decompress_stream;

struct vw__decompress_stream {
    /* Uses input or makes output, or both, as long as either can be had. `*is_finished`: the input
     * is over and everything has come out. VW_ERR_CORRUPT_FILE: damaged, or ends too early; the
     * detail says what, not where. VW_ERR_HOST_MEMORY, VW_ERR_UNSUPPORTED. */
    vw_status (*step)(vw__decompress_stream *self, vw__decompress_span *span, bool *is_finished);
    void (*destroy)(vw__decompress_stream *self);
};

VW_MUST_CHECK vw_status vw__decompress_gzip_create(vw__decompress_stream **out);
VW_MUST_CHECK vw_status vw__decompress_xz_create(vw__decompress_stream **out);
VW_MUST_CHECK vw_status vw__decompress_zstd_create(vw__decompress_stream **out);

#endif /* VW_PARSE_DECOMPRESS_H */
