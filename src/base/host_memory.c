/* host_memory.c - malloc, calloc, realloc and free, counted, and failing when a test asks.
 *
 * The counters are relaxed atomics: they publish no other data. The countdown is an atomic too, so
 * that exactly one allocation fails, whichever thread makes it. */
#include "base/host_memory.h"

#include <malloc.h> /* malloc_usable_size */
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic uint64_t in_use_bytes;
static _Atomic uint64_t call_count;
static _Atomic int64_t calls_until_failure; /* 0: none ordered */

static int is_shut(void)
{
    atomic_fetch_add_explicit(&call_count, 1, memory_order_relaxed);
    if (atomic_load_explicit(&calls_until_failure, memory_order_relaxed) <= 0)
        return 0;
    return atomic_fetch_sub_explicit(&calls_until_failure, 1, memory_order_relaxed) == 1;
}

static void *counted(void *memory)
{
    if (memory != NULL)
        atomic_fetch_add_explicit(&in_use_bytes, malloc_usable_size(memory), memory_order_relaxed);
    return memory;
}

void *vw__host_alloc(size_t size_bytes)
{
    return is_shut() ? NULL : counted(malloc(size_bytes != 0 ? size_bytes : 1));
}

void *vw__host_alloc_zeroed(size_t count, size_t size_bytes)
{
    size_t product_bytes; /* calloc looks for this, too, but sanitizers take it for a mistake */
    if (count == 0 || size_bytes == 0)
        count = size_bytes = 1;
    if (is_shut() || __builtin_mul_overflow(count, size_bytes, &product_bytes))
        return NULL;
    return counted(calloc(count, size_bytes));
}

void *vw__host_alloc_aligned(size_t alignment_bytes, size_t size_bytes)
{
    void *memory = NULL;
    if (is_shut() || posix_memalign(&memory, alignment_bytes, size_bytes != 0 ? size_bytes : 1))
        return NULL;
    return counted(memory);
}

void *vw__host_realloc(void *memory, size_t size_bytes)
{
    if (is_shut())
        return NULL;
    size_t old_bytes = memory != NULL ? malloc_usable_size(memory) : 0;
    void *grown = realloc(memory, size_bytes != 0 ? size_bytes : 1);
    if (grown != NULL)
        atomic_fetch_sub_explicit(&in_use_bytes, old_bytes, memory_order_relaxed);
    return counted(grown);
}

void vw__host_free(void *memory)
{
    if (memory == NULL)
        return;
    atomic_fetch_sub_explicit(&in_use_bytes, malloc_usable_size(memory), memory_order_relaxed);
    free(memory);
}

vw__host_memory_use vw__host_memory_get_use(void)
{
    vw__host_memory_use use = {
        .in_use_bytes = atomic_load_explicit(&in_use_bytes, memory_order_relaxed),
        .call_count = atomic_load_explicit(&call_count, memory_order_relaxed),
    };
    return use;
}

void vw__host_memory_fail_at(uint64_t nth)
{
    atomic_store_explicit(&calls_until_failure, (int64_t)nth, memory_order_relaxed);
}
