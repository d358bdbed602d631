/* block.c - chunks of block records. */
#include "engine/block.h"

#include "base/host_memory.h"

struct hr__block_chunk {
    struct hr__block_chunk *next;
    hr__block records[HR__BLOCK_CHUNK_RECORDS];
};

void hr__block_source_init(hr__block_source *source)
{
    source->spare = NULL;
    source->spare_count = 0;
    source->chunks = NULL;
}

void hr__block_source_deinit(hr__block_source *source)
{
    struct hr__block_chunk *next;
    for (struct hr__block_chunk *chunk = source->chunks; chunk != NULL; chunk = next) {
        next = chunk->next;
        hr__host_free(chunk);
    }
    hr__block_source_init(source);
}

struct hr__block_chunk *hr__block_chunk_new(void)
{
    return hr__host_alloc_aligned(_Alignof(hr__block), sizeof(struct hr__block_chunk));
}

void hr__block_source_add(hr__block_source *source, struct hr__block_chunk *chunk)
{
    chunk->next = source->chunks;
    source->chunks = chunk;
    for (size_t i = HR__BLOCK_CHUNK_RECORDS; i-- > 0;)
        hr__block_give_back(source, &chunk->records[i]);
}

bool hr__block_source_reserve(hr__block_source *source, size_t count)
{
    while (source->spare_count < count) {
        struct hr__block_chunk *chunk = hr__block_chunk_new();
        if (chunk == NULL)
            return false;
        hr__block_source_add(source, chunk);
    }
    return true;
}
