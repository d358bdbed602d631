/* block.c - chunks of block records. */
#include "engine/block.h"

#include "base/host_memory.h"

struct vw__block_chunk {
    struct vw__block_chunk *next;
    vw__block records[VW__BLOCK_CHUNK_RECORDS];
};

void vw__block_source_init(vw__block_source *source)
{
    source->spare = NULL;
    source->spare_count = 0;
    source->chunks = NULL;
}

void vw__block_source_deinit(vw__block_source *source)
{
    struct vw__block_chunk *next;
    for (struct vw__block_chunk *chunk = source->chunks; chunk != NULL; chunk = next) {
        next = chunk->next;
        vw__host_free(chunk);
    }
    vw__block_source_init(source);
}

struct vw__block_chunk *vw__block_chunk_new(void)
{
    return vw__host_alloc_aligned(_Alignof(vw__block), sizeof(struct vw__block_chunk));
}

void vw__block_source_add(vw__block_source *source, struct vw__block_chunk *chunk)
{
    chunk->next = source->chunks;
    source->chunks = chunk;
    for (size_t i = VW__BLOCK_CHUNK_RECORDS; i-- > 0;)
        vw__block_give_back(source, &chunk->records[i]);
}

bool vw__block_source_reserve(vw__block_source *source, size_t count)
{
    while (source->spare_count < count) {
        struct vw__block_chunk *chunk = vw__block_chunk_new();
        if (chunk == NULL)
            return false;
        vw__block_source_add(source, chunk);
    }
    return true;
}
