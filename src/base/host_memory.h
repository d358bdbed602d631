/* host_memory.h - every allocation of host memory.
 *
 * The libraries take host memory through these functions only, so that a test can let the n-th
 * allocation fail, for every n until the scenario succeeds, and so that memory use can be counted.
 * Safe from any thread. */
#ifndef VW_BASE_HOST_MEMORY_H
#define VW_BASE_HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* NULL without memory, or when a test wants a failure. They set no message: the caller knows what
 * the memory was for (vw__fail_host_memory). A size of zero is served as one byte. */
void *vw__host_alloc(size_t size_bytes);
void *vw__host_alloc_zeroed(size_t count, size_t size_bytes); /* overflow of the product: NULL */
void *vw__host_alloc_aligned(size_t alignment_bytes, size_t size_bytes); /* a power of two */

/* As realloc(): on failure the old memory stays. Not for memory from vw__host_alloc_aligned(). */
void *vw__host_realloc(void *memory, size_t size_bytes);

/* NULL does nothing. */
void vw__host_free(void *memory);

/* Memory held now, and allocations so far, failed ones included. */
typedef struct vw__host_memory_use {
    uint64_t in_use_bytes; /* as malloc_usable_size() counts */
    uint64_t call_count;
} vw__host_memory_use;

vw__host_memory_use vw__host_memory_get_use(void);

/* For tests: only the `nth` allocation from now (1 = the next) fails. 0 cancels this. */
void vw__host_memory_fail_at(uint64_t nth);

#endif /* VW_BASE_HOST_MEMORY_H */
