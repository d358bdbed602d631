/* locked_memory.c - touching pages in parallel, then locking them. */
#include "pool/locked_memory.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/guest_thread.h"
#include "base/host_memory.h"
#include "device/device_table.h"

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

enum { MOST_THREADS = 128, MOST_USEFUL_THREADS = 8 };

bool vw__locked_memory_is_possible(const vw_device *device)
{
    return device->properties.has_bytes && device->properties.has_pinned_memory &&
           device->table->host_register != NULL;
}

size_t vw__locked_memory_thread_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return (size_t)vw__min_u64((uint64_t)CPU_COUNT(&set), MOST_USEFUL_THREADS);
}

/* ---- touching -------------------------------------------------------------------------------- */

typedef struct page_span {
    char *start;
    size_t size_bytes;
    pthread_t thread;
    bool has_thread;
} page_span;

static void *touch_pages(void *context)
{
    const page_span *span = context;
    for (size_t i = 0; i < span->size_bytes; i += VW__LOCKED_MEMORY_PAGE_BYTES)
        *(volatile char *)(span->start + i) = 0;
    return NULL;
}

/* Where a thread cannot be had, its part is done here. */
static void touch_in_parallel(char *start, size_t size_bytes, size_t thread_count)
{
    page_span spans[MOST_THREADS];
    if (thread_count > MOST_THREADS || size_bytes < thread_count * VW__LOCKED_MEMORY_PAGE_BYTES)
        thread_count = 1;
    size_t page_bytes = size_bytes / thread_count >= HUGE_PAGE_BYTES
                            ? HUGE_PAGE_BYTES
                            : (size_t)VW__LOCKED_MEMORY_PAGE_BYTES;
    size_t share_bytes = (size_t)vw__align_down_u64(size_bytes / thread_count, page_bytes);
    for (size_t i = 0; i < thread_count; i++) {
        bool is_last = i + 1 == thread_count;
        spans[i].start = start + i * share_bytes;
        spans[i].size_bytes = is_last ? size_bytes - i * share_bytes : share_bytes;
        spans[i].has_thread = !is_last && vw__guest_thread_start(&spans[i].thread, "vramwise-touch",
                                                                 touch_pages, &spans[i]);
        if (!spans[i].has_thread)
            touch_pages(&spans[i]);
    }
    for (size_t i = 0; i < thread_count; i++)
        if (spans[i].has_thread)
            pthread_join(spans[i].thread, NULL);
}

/* ---- taking and giving back ------------------------------------------------------------------ */

vw_status vw__locked_memory_take(const vw_device *device, size_t size_bytes, size_t thread_count,
                                 void **out)
{
    if (device->table->host_register == NULL)
        return vw__fail(VW_ERR_UNSUPPORTED, "the device cannot lock memory that exists already");
    bool is_huge = size_bytes >= HUGE_PAGE_BYTES;
    void *memory = vw__host_alloc_aligned(
        is_huge ? HUGE_PAGE_BYTES : (size_t)VW__LOCKED_MEMORY_PAGE_BYTES, size_bytes);
    if (memory == NULL)
        return vw__fail_host_memory(size_bytes, "memory to be page-locked");
    if (is_huge) /* a refusal costs time alone */
        (void)madvise(memory, (size_t)vw__align_down_u64(size_bytes, HUGE_PAGE_BYTES),
                      MADV_HUGEPAGE);
    touch_in_parallel(memory, size_bytes, thread_count);
    vw_status status = device->table->host_register(device->context, memory, size_bytes);
    if (status != VW_OK) {
        vw__host_free(memory);
        return status;
    }
    *out = memory;
    return VW_OK;
}

vw_status vw__locked_memory_give_back(const vw_device *device, void *memory)
{
    VW__TRY(device->table->host_unregister(device->context, memory));
    vw__host_free(memory);
    return VW_OK;
}
