/* arena.c - chunks, and pieces cut from the newest one.
 *
 * Chunks double from FIRST_CHUNK_BYTES to LARGEST_CHUNK_BYTES, so a small document costs little
 * and a large one few calls. A piece too big for the next chunk gets its own chunk, second in the
 * list, and the first goes on serving small pieces. Near the limit, chunks are cut to what is still
 * allowed, so that the last bytes can be used. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/checked_math.h"
#include "base/error.h" /* VW_ASSERT */
#include "base/host_memory.h"

struct vw__arena_chunk {
    vw__arena_chunk *following;
    size_t size_bytes; /* header included */
};

enum { FIRST_CHUNK_BYTES = 4 << 10, LARGEST_CHUNK_BYTES = 1 << 20 };

void vw__arena_init(vw__arena *arena, size_t limit_bytes)
{
    *arena = (vw__arena){.limit_bytes = limit_bytes};
}

void vw__arena_deinit(vw__arena *arena)
{
    for (vw__arena_chunk *chunk = arena->chunks, *following; chunk != NULL; chunk = following) {
        following = chunk->following;
        vw__host_free(chunk);
    }
    vw__arena_init(arena, arena->limit_bytes);
}

static vw__arena_chunk *take_chunk(vw__arena *arena, size_t size_bytes)
{
    vw__arena_chunk *chunk = vw__host_alloc(size_bytes);
    if (chunk == NULL)
        return NULL;
    chunk->size_bytes = size_bytes;
    arena->held_bytes += size_bytes;
    return chunk;
}

/* The next piece from the first chunk, or NULL where it does not fit. */
static void *cut(vw__arena *arena, size_t size_bytes, size_t alignment_bytes)
{
    if (arena->chunks == NULL)
        return NULL;
    size_t padding = (size_t)(-(uintptr_t)arena->next & (alignment_bytes - 1));
    size_t left = (size_t)(arena->end - arena->next);
    if (padding > left || size_bytes > left - padding)
        return NULL;
    void *piece = arena->next + padding;
    arena->next += padding + size_bytes;
    return piece;
}

static void *cut_from_a_new_chunk(vw__arena *arena, size_t size_bytes, size_t alignment_bytes)
{
    size_t allowed_bytes = arena->limit_bytes - arena->held_bytes;
    uint64_t needed_bytes;
    if (!vw__add_u64(size_bytes, sizeof(vw__arena_chunk) + alignment_bytes - 1, &needed_bytes) ||
        needed_bytes > allowed_bytes) {
        arena->has_hit_limit = true;
        return NULL;
    }
    /* Doubling what is held doubles the chunks, until they are large enough. */
    uint64_t usual_bytes = vw__max_u64(arena->held_bytes, FIRST_CHUNK_BYTES);
    usual_bytes = vw__min_u64(vw__min_u64(usual_bytes, LARGEST_CHUNK_BYTES), allowed_bytes);

    bool is_alone = arena->chunks != NULL && needed_bytes > usual_bytes;
    vw__arena_chunk *chunk = take_chunk(arena, (size_t)vw__max_u64(needed_bytes, usual_bytes));
    if (chunk == NULL)
        return NULL;
    if (is_alone) {
        chunk->following = arena->chunks->following;
        arena->chunks->following = chunk;
        uintptr_t start = (uintptr_t)(chunk + 1);
        return (char *)(chunk + 1) + (-start & (alignment_bytes - 1));
    }
    chunk->following = arena->chunks;
    arena->chunks = chunk;
    arena->next = (char *)(chunk + 1);
    arena->end = (char *)chunk + chunk->size_bytes;
    return cut(arena, size_bytes, alignment_bytes);
}

void *vw__arena_alloc(vw__arena *arena, size_t size_bytes, size_t alignment_bytes)
{
    VW_ASSERT(vw__is_power_of_two_u64(alignment_bytes));
    if (size_bytes == 0)
        size_bytes = 1;
    void *piece = cut(arena, size_bytes, alignment_bytes);
    return piece != NULL ? piece : cut_from_a_new_chunk(arena, size_bytes, alignment_bytes);
}

void *vw__arena_alloc_array(vw__arena *arena, size_t count, size_t element_bytes,
                            size_t alignment_bytes)
{
    uint64_t size_bytes;
    if (!vw__mul_u64(count, element_bytes, &size_bytes)) {
        arena->has_hit_limit = true;
        return NULL;
    }
    void *array = vw__arena_alloc(arena, (size_t)size_bytes, alignment_bytes);
    if (array != NULL)
        memset(array, 0, (size_t)size_bytes);
    return array;
}

char *vw__arena_copy(vw__arena *arena, const void *bytes, size_t size_bytes)
{
    if (size_bytes == SIZE_MAX) {
        arena->has_hit_limit = true;
        return NULL;
    }
    char *copy = vw__arena_alloc(arena, size_bytes + 1, 1);
    if (copy == NULL)
        return NULL;
    if (size_bytes != 0)
        memcpy(copy, bytes, size_bytes);
    copy[size_bytes] = '\0';
    return copy;
}

const char *vw__arena_format(vw__arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vw__c_locale_vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : vw__arena_alloc(arena, (size_t)length + 1, 1);
    if (text == NULL)
        return NULL;
    va_start(args, format);
    vw__c_locale_vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}
