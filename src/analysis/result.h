/* result.h - what a call of analysis.h hands out: one struct, and an arena for all it points at.
 *
 * The caller holds a pointer to the struct; the arena lies in front of it. */
#ifndef VW_ANALYSIS_RESULT_H
#define VW_ANALYSIS_RESULT_H

#include <stddef.h>

#include "base/arena.h"
#include "base/host_memory.h"

/* The alignment of anything. */
typedef union vw__result_header {
    vw__arena arena;
    max_align_t align;
} vw__result_header;

/* Zeroed; NULL without host memory. */
static inline void *vw__result_create(size_t size_bytes)
{
    vw__result_header *header = vw__host_alloc_zeroed(1, sizeof *header + size_bytes);
    if (header == NULL)
        return NULL;
    vw__arena_init(&header->arena, VW__ARENA_NO_LIMIT);
    return header + 1;
}

static inline vw__arena *vw__result_arena(void *result)
{
    return &((vw__result_header *)result - 1)->arena;
}

/* NULL is allowed. */
static inline void vw__result_free(void *result)
{
    if (result == NULL)
        return;
    vw__arena_deinit(vw__result_arena(result));
    vw__host_free((vw__result_header *)result - 1);
}

#endif /* VW_ANALYSIS_RESULT_H */
