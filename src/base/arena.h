/* arena.h - memory that is freed all at once.
 *
 * For thousands of small pieces with one lifetime: a document that was read, a table that only
 * grows. The arena bumps a pointer through chunks that double in size, and frees them in one call:
 * no bookkeeping per piece, no leak on an error path half way through a file.
 *
 * Input may be hostile, so an arena has a limit on the host memory it holds, chunk headers and
 * unused ends included. A refused piece changes nothing.
 *
 *   held_bytes <= limit_bytes, always
 *
 * No locks: one thread at a time. */
#ifndef VW_BASE_ARENA_H
#define VW_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#define VW__ARENA_NO_LIMIT ((size_t)-1)

typedef struct vw__arena_chunk vw__arena_chunk;

typedef struct vw__arena {
    vw__arena_chunk *chunks; /* owned; the one that pieces are cut from comes first */
    char *next;              /* first unused byte of the first chunk */
    char *end;               /* behind its last byte */
    size_t held_bytes;       /* taken from the host */
    size_t limit_bytes;      /* of held_bytes; owners of further memory may lower it */
    bool has_hit_limit;      /* a piece was refused because of the limit, not for lack of memory */
} vw__arena;

/* Takes no memory yet. */
void vw__arena_init(vw__arena *arena, size_t limit_bytes);

/* Gives everything back. The arena is as after init. */
void vw__arena_deinit(vw__arena *arena);

/* `size_bytes` (0 is served as 1) at a multiple of `alignment_bytes`, a power of two; valid until
 * deinit; not cleared. NULL when the limit or the host refuses; sets no error detail. */
void *vw__arena_alloc(vw__arena *arena, size_t size_bytes, size_t alignment_bytes);

/* The same for `count` elements, all bytes zero. A product that overflows is refused as by the
 * limit. */
void *vw__arena_alloc_array(vw__arena *arena, size_t count, size_t element_bytes,
                            size_t alignment_bytes);

/* A copy of `size_bytes` bytes with a zero behind them that is not counted. NULL as above. */
char *vw__arena_copy(vw__arena *arena, const void *bytes, size_t size_bytes);

#endif /* VW_BASE_ARENA_H */
