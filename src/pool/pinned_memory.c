/* pinned_memory.c - where pinned memory comes from, and how it goes back.
 *
 * Three sources. The device, which takes and locks memory in one call and under a lock of its own.
 * Ordinary memory that is locked afterwards (pinned_use_cuda_host_register; locked_memory.h). And
 * the reserve: one large range, made by either of the two when the first block is needed, from
 * which blocks are cut without a call.
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
#include "pool/locked_memory.h"

/* ---- one range from the device --------------------------------------------------------------- */

static vw_status take_unbudgeted(const vw_pinned_pool *pool, size_t size_bytes, char **out)
{
    const vw_device *device = pool->device;
    void *memory = NULL;
    size_t thread_count = (size_t)pool->settings.pinned_register_thread_count;
    VW__TRY(pool->settings.pinned_use_host_register
                ? vw__locked_memory_take(device, size_bytes, thread_count != 0 ? thread_count : 1,
                                         &memory)
                : device->table->host_take(device->context, size_bytes, &memory));
    *out = memory;
    return VW_OK;
}

static vw_status take_range(vw_pinned_pool *pool, uint64_t size_bytes, char **out,
                            bool *is_registered)
{
    uint64_t start_ns = vw__clock_monotonic_ns();
    size_t host_bytes;
    if (!vw__narrow_size(size_bytes, &host_bytes))
        return vw__fail(VW_ERR_TOO_LARGE, "more pinned memory than this machine can address");
    if (!vw__pinned_budget_draw(pool->budget, size_bytes))
        return vw__fail(VW_ERR_HOST_MEMORY,
                        "%llu bytes of pinned memory are more than is left of its budget",
                        (unsigned long long)size_bytes);
    vw_status status = take_unbudgeted(pool, host_bytes, out);
    if (status != VW_OK) {
        vw__pinned_budget_put_back(pool->budget, size_bytes);
        return status;
    }
    *is_registered = pool->settings.pinned_use_host_register;
    uint64_t elapsed_ns = vw__clock_monotonic_ns() - start_ns;
    vw__pinned_lock(pool);
    vw__pinned_count_time(&pool->counters.host_alloc_time, elapsed_ns);
    vw__pinned_unlock(pool);
    return VW_OK;
}

static vw_status give_back_range(vw_pinned_pool *pool, char *address, uint64_t size_bytes,
                                 bool is_registered)
{
    const vw_device *device = pool->device;
    uint64_t start_ns = vw__clock_monotonic_ns();
    VW__TRY(is_registered ? vw__locked_memory_give_back(device, address)
                          : device->table->host_give_back(device->context, address));
    vw__pinned_budget_put_back(pool->budget, size_bytes);
    uint64_t elapsed_ns = vw__clock_monotonic_ns() - start_ns;
    vw__pinned_lock(pool);
    vw__pinned_count_time(&pool->counters.host_free_time, elapsed_ns);
    vw__pinned_unlock(pool);
    return VW_OK;
}

/* ---- the reserve ----------------------------------------------------------------------------- */

/* Makes it if that was asked for and not done yet. One thread does; others go to the device
 * meanwhile rather than wait. */
static vw_status make_reserve(vw_pinned_pool *pool)
{
    vw__pinned_reserve *reserve = &pool->reserve;
    uint64_t size_bytes = pool->settings.pinned_reserve_segment_bytes;
    vw__pinned_lock(pool);
    bool is_ours = size_bytes != 0 && reserve->start == NULL && !reserve->is_being_made;
    if (is_ours)
        reserve->is_being_made = true;
    vw__pinned_unlock(pool);
    if (!is_ours)
        return VW_OK;
    char *start = NULL;
    bool is_registered = false;
    vw_status status = take_range(pool, size_bytes, &start, &is_registered);
    vw__pinned_lock(pool);
    reserve->is_being_made = false;
    if (status == VW_OK) {
        reserve->start = start;
        reserve->size_bytes = size_bytes;
        reserve->is_registered = is_registered;
    }
    vw__pinned_unlock(pool);
    return status;
}

static char *cut_from_reserve(vw_pinned_pool *pool, uint64_t size_bytes)
{
    vw__pinned_reserve *reserve = &pool->reserve;
    char *address = NULL;
    uint64_t step_bytes;
    if (!vw__align_up_u64(size_bytes, VW__PINNED_PAGE_BYTES, &step_bytes))
        return NULL;
    vw__pinned_lock(pool);
    if (reserve->start != NULL && step_bytes <= reserve->size_bytes - reserve->used_bytes) {
        address = reserve->start + reserve->used_bytes;
        reserve->used_bytes += step_bytes;
    }
    vw__pinned_unlock(pool);
    return address;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

vw_status vw__pinned_take(vw_pinned_pool *pool, vw__pinned_block *block)
{
    VW__TRY(make_reserve(pool));
    block->address = cut_from_reserve(pool, block->size_bytes);
    block->is_of_reserve = block->address != NULL;
    if (block->is_of_reserve)
        return VW_OK;
    return take_range(pool, block->size_bytes, &block->address, &block->is_registered);
}

static vw_status give_back_memory(vw_pinned_pool *pool, const vw__pinned_block *block)
{
    return block->is_of_reserve
               ? VW_OK
               : give_back_range(pool, block->address, block->size_bytes, block->is_registered);
}

/* What the device would not take. To the old end the last one goes first, so that all lie as they
 * did. */
static void return_all(vw_pinned_pool *pool, vw__pinned_block *rest, bool as_oldest)
{
    vw__pinned_block *ordered = rest;
    if (as_oldest) {
        ordered = NULL;
        for (vw__pinned_block *next; rest != NULL; rest = next) {
            next = rest->next;
            rest->next = ordered;
            ordered = rest;
        }
    }
    vw__pinned_lock(pool);
    for (vw__pinned_block *next; ordered != NULL; ordered = next) {
        next = ordered->next;
        vw__pinned_return(pool, ordered, as_oldest);
    }
    vw__pinned_unlock(pool);
}

vw_status vw__pinned_give_back(vw_pinned_pool *pool, vw__pinned_list *leaving, bool were_cached)
{
    vw__pinned_block *block = leaving->oldest;
    *leaving = (vw__pinned_list){NULL, NULL};
    for (vw__pinned_block *next; block != NULL; block = next) {
        next = block->next;
        vw_status status = give_back_memory(pool, block);
        if (status != VW_OK) {
            return_all(pool, block, were_cached);
            return status;
        }
        vw__pinned_lock(pool);
        pool->leaving_count--;
        block->shelf->away_count--;
        vw__pinned_count_down(&pool->counters.allocations, 1);
        vw__pinned_count_down(&pool->counters.allocated_bytes, block->size_bytes);
        vw__pinned_unlock(pool);
        vw__host_free(block);
    }
    return VW_OK;
}

void vw__pinned_memory_deinit(vw_pinned_pool *pool)
{
    while (pool->blocks != NULL) {
        vw__tree_node *node = vw__tree_first(pool->blocks);
        vw__pinned_block *block = (vw__pinned_block *)(void *)node;
        vw__tree_remove(&pool->blocks, node);
        (void)give_back_memory(pool, block); /* nobody is left to be told */
        vw__host_free(block);
    }
    if (pool->reserve.start != NULL)
        (void)give_back_range(pool, pool->reserve.start, pool->reserve.size_bytes,
                              pool->reserve.is_registered);
}
