/* host_memory.h - the only door to host memory.
 *
 * Every byte the libraries take from the host goes through here, so that a test can shut the door
 * at the n-th call and run a scenario again with one more call allowed, until it succeeds; and so
 * that the libraries can say what they cost. Safe from any thread. */
#ifndef VW_BASE_HOST_MEMORY_H
#define VW_BASE_HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* NULL when there is none, or when a test said so; these set no error detail: the caller knows
 * what the memory was for (vw__fail_host_memory). A size of zero is served as one byte. */
void *vw__host_alloc(size_t size_bytes);
void *vw__host_alloc_zeroed(size_t count, size_t size_bytes); /* overflow of the product: NULL */
void *vw__host_alloc_aligned(size_t alignment_bytes, size_t size_bytes); /* a power of two */

/* As realloc: on failure the old memory is still there. NULL is a first allocation. Not for memory
 * from vw__host_alloc_aligned(). */
void *vw__host_realloc(void *memory, size_t size_bytes);

/* NULL does nothing. */
void vw__host_free(void *memory);

/* What is held now, and how many allocations were asked for so far, failed ones included. */
typedef struct vw__host_memory_use {
    uint64_t in_use_bytes; /* as malloc_usable_size() counts */
    uint64_t call_count;
} vw__host_memory_use;

vw__host_memory_use vw__host_memory_get_use(void);

/* For tests: the allocation number `nth` from now (1 = the next) fails, and only that one. 0 takes
 * an earlier order back. */
void vw__host_memory_fail_at(uint64_t nth);

#endif /* VW_BASE_HOST_MEMORY_H */
