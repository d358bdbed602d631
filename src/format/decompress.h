/* decompress.h - one table for three libraries.
 *
 * A decompressor is fed bytes as they come and gives bytes as there is room. Several compressed
 * streams one behind the other are one stream: gzip members, xz streams, zstd frames. */
#ifndef HR_FORMAT_DECOMPRESS_H
#define HR_FORMAT_DECOMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"

/* Pointers and numbers move on as bytes are used and made. */
typedef struct hr__decompress_span {
    const uint8_t *input;
    size_t input_bytes;
    bool is_input_over; /* nothing comes after `input` */
    uint8_t *output;
    size_t output_bytes; /* room */
} hr__decompress_span;

/* The most memory that a file may make a decompressor take: `xz -9` needs 65 MiB and `zstd --long`
 * 128 MiB; twelve bytes of a hostile file could ask for gigabytes. */
#define HR__DECOMPRESS_MEMORY_LIMIT_LOG2 30

typedef struct hr__decompressor hr__decompressor;

struct hr__decompressor {
    /* Uses input or makes output, or both, as long as either can be had. `*is_finished`: the input
     * is over and everything has come out. HR_ERR_CORRUPT_FILE: damaged, or ends too early; the
     * detail says what, not where. HR_ERR_HOST_MEMORY, HR_ERR_UNSUPPORTED. */
    hr_status (*step)(hr__decompressor *self, hr__decompress_span *span, bool *is_finished);
    void (*destroy)(hr__decompressor *self);
};

HR_MUST_CHECK hr_status hr__decompress_gzip_create(hr__decompressor **out);
HR_MUST_CHECK hr_status hr__decompress_xz_create(hr__decompressor **out);
HR_MUST_CHECK hr_status hr__decompress_zstd_create(hr__decompressor **out);

#endif /* HR_FORMAT_DECOMPRESS_H */
