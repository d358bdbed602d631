/* pinned_memory.c - where pinned memory comes from, and how it goes back.
 *
 * Three sources. The device, which takes and locks memory in one call and under a lock of its own.
 * Ordinary memory that is locked afterwards (pinned_use_cuda_host_register): its pages are touched
 * first, by several threads, since finding pages is most of the cost and then happens outside the
 * driver's lock. And the reserve: one large range, made by either of the two when the first block
 * is needed, from which blocks are cut without a call.
 *
 * The reserve only ever moves forward, as PyTorch's does. Its blocks are reused through the buckets
 * like others; one that leaves is forgotten, and its part of the range with it.
 *
 * Everything here runs without the pool's lock and takes it for the moment it looks. */
#include "pool/pinned_pool.h"

#include "base/checked_math.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "base/pinned_budget.h"

/* ---- touching pages -------------------------------------------------------------------------- */

typedef struct page_span {
    char *start;
    size_t size_bytes;
    pthread_t thread;
    bool has_thread;
} page_span;

static void *touch_pages(void *context)
{
    const page_span *span = context;
    for (size_t i = 0; i < span->size_bytes; i += HR__PINNED_PAGE_BYTES)
        *(volatile char *)(span->start + i) = 0;
    return NULL;
}

/* Where a thread cannot be had, its part is done here. */
static void touch_in_parallel(char *start, size_t size_bytes, size_t thread_count)
{
    page_span spans[HR__TORCH_MOST_REGISTER_THREADS];
    if (thread_count > HR__TORCH_MOST_REGISTER_THREADS ||
        size_bytes < thread_count * HR__PINNED_PAGE_BYTES)
        thread_count = 1;
    size_t share_bytes =
        (size_t)hr__align_down_u64(size_bytes / thread_count, HR__PINNED_PAGE_BYTES);
    for (size_t i = 0; i < thread_count; i++) {
        bool is_last = i + 1 == thread_count;
        spans[i].start = start + i * share_bytes;
        spans[i].size_bytes = is_last ? size_bytes - i * share_bytes : share_bytes;
        spans[i].has_thread =
            !is_last && pthread_create(&spans[i].thread, NULL, touch_pages, &spans[i]) == 0;
        if (!spans[i].has_thread)
            touch_pages(&spans[i]);
    }
    for (size_t i = 0; i < thread_count; i++)
        if (spans[i].has_thread)
            pthread_join(spans[i].thread, NULL);
}

/* ---- one range from the device --------------------------------------------------------------- */

static hr_status take_registered(const hr_pinned_pool *pool, size_t size_bytes, char **out)
{
    const hr_device *device = pool->device;
    if (device->table->host_register == NULL)
        return hr__fail(HR_ERR_UNSUPPORTED, "the device cannot lock memory that exists already");
    char *memory = hr__host_alloc_aligned(HR__PINNED_PAGE_BYTES, size_bytes);
    if (memory == NULL)
        return hr__fail_host_memory(size_bytes, "memory to be page-locked");
    size_t thread_count = (size_t)pool->settings.pinned_register_thread_count;
    touch_in_parallel(memory, size_bytes, thread_count != 0 ? thread_count : 1);
    hr_status status = device->table->host_register(device->context, memory, size_bytes);
    if (status != HR_OK) {
        hr__host_free(memory);
        return status;
    }
    *out = memory;
    return HR_OK;
}

static hr_status take_unbudgeted(const hr_pinned_pool *pool, size_t size_bytes, char **out)
{
    const hr_device *device = pool->device;
    void *memory = NULL;
    if (pool->settings.pinned_use_host_register)
        return take_registered(pool, size_bytes, out);
    HR__TRY(device->table->host_take(device->context, size_bytes, &memory));
    *out = memory;
    return HR_OK;
}

static hr_status take_range(hr_pinned_pool *pool, uint64_t size_bytes, char **out,
                            bool *is_registered)
{
    uint64_t start_ns = hr__clock_monotonic_ns();
    size_t host_bytes;
    if (!hr__narrow_size(size_bytes, &host_bytes))
        return hr__fail(HR_ERR_TOO_LARGE, "more pinned memory than this machine can address");
    if (!hr__pinned_budget_draw(pool->budget, size_bytes))
        return hr__fail(HR_ERR_HOST_MEMORY,
                        "%llu bytes of pinned memory are more than is left of its budget",
                        (unsigned long long)size_bytes);
    hr_status status = take_unbudgeted(pool, host_bytes, out);
    if (status != HR_OK) {
        hr__pinned_budget_put_back(pool->budget, size_bytes);
        return status;
    }
    *is_registered = pool->settings.pinned_use_host_register;
    uint64_t elapsed_ns = hr__clock_monotonic_ns() - start_ns;
    hr__pinned_lock(pool);
    hr__pinned_count_time(&pool->counters.host_alloc_time, elapsed_ns);
    hr__pinned_unlock(pool);
    return HR_OK;
}

static hr_status give_back_range(hr_pinned_pool *pool, char *address, uint64_t size_bytes,
                                 bool is_registered)
{
    const hr_device *device = pool->device;
    uint64_t start_ns = hr__clock_monotonic_ns();
    if (is_registered) {
        HR__TRY(device->table->host_unregister(device->context, address));
        hr__host_free(address);
    } else {
        HR__TRY(device->table->host_give_back(device->context, address));
    }
    hr__pinned_budget_put_back(pool->budget, size_bytes);
    uint64_t elapsed_ns = hr__clock_monotonic_ns() - start_ns;
    hr__pinned_lock(pool);
    hr__pinned_count_time(&pool->counters.host_free_time, elapsed_ns);
    hr__pinned_unlock(pool);
    return HR_OK;
}

/* ---- the reserve ----------------------------------------------------------------------------- */

/* Makes it if that was asked for and not done yet. One thread does; others go to the device
 * meanwhile rather than wait. */
static hr_status make_reserve(hr_pinned_pool *pool)
{
    hr__pinned_reserve *reserve = &pool->reserve;
    uint64_t size_bytes = pool->settings.pinned_reserve_segment_bytes;
    hr__pinned_lock(pool);
    bool is_ours = size_bytes != 0 && reserve->start == NULL && !reserve->is_being_made;
    if (is_ours)
        reserve->is_being_made = true;
    hr__pinned_unlock(pool);
    if (!is_ours)
        return HR_OK;
    char *start = NULL;
    bool is_registered = false;
    hr_status status = take_range(pool, size_bytes, &start, &is_registered);
    hr__pinned_lock(pool);
    reserve->is_being_made = false;
    if (status == HR_OK) {
        reserve->start = start;
        reserve->size_bytes = size_bytes;
        reserve->is_registered = is_registered;
    }
    hr__pinned_unlock(pool);
    return status;
}

static char *cut_from_reserve(hr_pinned_pool *pool, uint64_t size_bytes)
{
    hr__pinned_reserve *reserve = &pool->reserve;
    char *address = NULL;
    uint64_t step_bytes;
    if (!hr__align_up_u64(size_bytes, HR__PINNED_PAGE_BYTES, &step_bytes))
        return NULL;
    hr__pinned_lock(pool);
    if (reserve->start != NULL && step_bytes <= reserve->size_bytes - reserve->used_bytes) {
        address = reserve->start + reserve->used_bytes;
        reserve->used_bytes += step_bytes;
    }
    hr__pinned_unlock(pool);
    return address;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

hr_status hr__pinned_take(hr_pinned_pool *pool, hr__pinned_block *block)
{
    HR__TRY(make_reserve(pool));
    block->address = cut_from_reserve(pool, block->size_bytes);
    block->is_of_reserve = block->address != NULL;
    if (block->is_of_reserve)
        return HR_OK;
    return take_range(pool, block->size_bytes, &block->address, &block->is_registered);
}

static hr_status give_back_memory(hr_pinned_pool *pool, const hr__pinned_block *block)
{
    return block->is_of_reserve
               ? HR_OK
               : give_back_range(pool, block->address, block->size_bytes, block->is_registered);
}

/* What the device would not take. To the old end the last one goes first, so that all lie as they
 * did. */
static void return_all(hr_pinned_pool *pool, hr__pinned_block *rest, bool as_oldest)
{
    hr__pinned_block *ordered = rest;
    if (as_oldest) {
        ordered = NULL;
        for (hr__pinned_block *next; rest != NULL; rest = next) {
            next = rest->next;
            rest->next = ordered;
            ordered = rest;
        }
    }
    hr__pinned_lock(pool);
    for (hr__pinned_block *next; ordered != NULL; ordered = next) {
        next = ordered->next;
        hr__pinned_return(pool, ordered, as_oldest);
    }
    hr__pinned_unlock(pool);
}

hr_status hr__pinned_give_back(hr_pinned_pool *pool, hr__pinned_list *leaving, bool were_cached)
{
    hr__pinned_block *block = leaving->oldest;
    *leaving = (hr__pinned_list){NULL, NULL};
    for (hr__pinned_block *next; block != NULL; block = next) {
        next = block->next;
        hr_status status = give_back_memory(pool, block);
        if (status != HR_OK) {
            return_all(pool, block, were_cached);
            return status;
        }
        hr__pinned_lock(pool);
        pool->leaving_count--;
        block->shelf->away_count--;
        hr__pinned_count_down(&pool->counters.allocations, 1);
        hr__pinned_count_down(&pool->counters.allocated_bytes, block->size_bytes);
        hr__pinned_unlock(pool);
        hr__host_free(block);
    }
    return HR_OK;
}

void hr__pinned_memory_deinit(hr_pinned_pool *pool)
{
    while (pool->blocks != NULL) {
        hr__tree_node *node = hr__tree_first(pool->blocks);
        hr__pinned_block *block = (hr__pinned_block *)(void *)node;
        hr__tree_remove(&pool->blocks, node);
        (void)give_back_memory(pool, block); /* nobody is left to be told */
        hr__host_free(block);
    }
    if (pool->reserve.start != NULL)
        (void)give_back_range(pool, pool->reserve.start, pool->reserve.size_bytes,
                              pool->reserve.is_registered);
}
