/* fuzz_byte_source.c - any bytes as a file that may be compressed.
 *
 * Read twice, once with small peeks and once with large ones: the same bytes must come out, and the
 * same verdict. What is not compressed must come out as it went in. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parse/byte_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUTPUT_LIMIT_BYTES = 64 << 10 };

static void must(bool claim)
{
    if (!claim)
        abort();
}

typedef struct outcome {
    vw_status status;
    uint64_t size_bytes;
    uint64_t checksum;
} outcome;

static outcome read_all(const uint8_t *data, size_t size, size_t peek_bytes, size_t take_bytes)
{
    vw__byte_source_options options = {.output_limit_bytes = OUTPUT_LIMIT_BYTES};
    vw__byte_source *source;
    outcome result = {.checksum = 14695981039346656037u};
    result.status = vw__byte_source_open_memory(data, size, &options, &source);
    if (result.status != VW_OK)
        return result;
    bool is_plain = vw__byte_source_compression(source) == VW__BYTE_SOURCE_PLAIN;
    for (;;) {
        const uint8_t *bytes;
        size_t size_bytes;
        result.status = vw__byte_source_peek(source, peek_bytes, &bytes, &size_bytes);
        if (result.status != VW_OK) {
            must(vw_last_error()[0] != '\0');
            break;
        }
        if (size_bytes == 0)
            break;
        must(vw__byte_source_offset(source) == result.size_bytes);
        if (is_plain)
            must(size_bytes <= size - result.size_bytes &&
                 memcmp(bytes, data + result.size_bytes, size_bytes) == 0);
        size_t taken = size_bytes < take_bytes ? size_bytes : take_bytes;
        for (size_t i = 0; i < taken; i++)
            result.checksum = (result.checksum ^ bytes[i]) * 1099511628211u;
        vw__byte_source_take(source, taken);
        result.size_bytes += taken;
        must(result.size_bytes <= OUTPUT_LIMIT_BYTES);
    }
    if (is_plain)
        must(result.status == VW_OK && result.size_bytes == size);
    vw__byte_source_close(source);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    outcome small = read_all(data, size, 1, 7000);
    outcome large = read_all(data, size, 1 << 20, SIZE_MAX);
    /* A failure comes when its window is made: what came out before it depends on the peeks. */
    must((small.status == VW_OK) == (large.status == VW_OK));
    if (small.status == VW_OK)
        must(small.size_bytes == large.size_bytes && small.checksum == large.checksum);
    return 0;
}
