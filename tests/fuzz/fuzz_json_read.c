/* fuzz_json_read.c - any bytes as JSON.
 *
 * The reading must come to an end within its memory; a refusal must say where; and what is accepted
 * must be a tree that can be walked. */
#include <stdlib.h>
#include <string.h>

#include "parse/json_read.h"
#include "base/host_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool claim)
{
    if (!claim)
        abort();
}

/* JSON shares nothing, so a walk visits each value once. */
static size_t walk(const vw__document *document, vw__value value)
{
    size_t count = 1, size_bytes = 0, pair_count = 0;
    vw__value item;
    if (vw__value_get_kind(value) == VW__VALUE_STRING)
        must(vw__value_string(document, value, &size_bytes)[size_bytes] == '\0');
    if (vw__value_get_kind(value) == VW__VALUE_LIST)
        for (uint64_t cursor = 0; vw__value_next_item(document, value, &cursor, &item);)
            count += walk(document, item);
    if (vw__value_get_kind(value) == VW__VALUE_DICT) {
        const vw__value *pairs = vw__value_pairs(document, value, &pair_count);
        for (size_t i = 0; i < 2 * pair_count; i++)
            count += walk(document, pairs[i]);
    }
    return count;
}

static void read_one(const uint8_t *data, size_t size)
{
    const vw__document_limits limits = {.memory_bytes = 16 << 20};
    const vw__byte_source_options options = {.output_limit_bytes = 8 << 20};
    vw__byte_source *source;
    vw__document *document;
    vw__value root;
    if (vw__byte_source_open_memory(data, size, &options, &source) != VW_OK)
        return;
    must(vw__document_create(&limits, NULL, &document) == VW_OK);
    vw_status status = vw__document_read_json(source, document, &root);
    if (status == VW_OK)
        must(walk(document, root) > 0);
    else
        must((status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED) &&
             vw_last_error()[0] != '\0');
    vw__document_destroy(document);
    vw__byte_source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    read_one(data, size);
    must(vw__host_memory_get_use().in_use_bytes == before_bytes);
    return 0;
}
