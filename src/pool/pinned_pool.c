/* pinned_pool.c - making and ending pinned pools, and the two hot paths.
 *
 * hr_pinned_alloc: lock; let finished frees return; search one bucket from its newest end; hand the
 * block out. Only if none fits is memory taken, without the lock: the shelf is promised a block
 * meanwhile, so that it does not end under us. hr_pinned_free: lock; find the block; cache it, or
 * let it wait for the streams that use it.
 *
 * Blocks above the caching limit leave at once. They are collected under the lock and given back
 * after it: cuMemFreeHost is slow, and waits for the device. */
#include "pool/pinned_pool.h"

#include <inttypes.h>

#include "headroom/live.h"
#include "base/checked_math.h" /* hr__ceil_log2_u64 */
#include "base/host_memory.h"
#include "engine/torch/torch_rounding.h" /* HR__TORCH_MOST_REQUESTED_BYTES */

/* ---- buckets --------------------------------------------------------------------------------- */

unsigned hr__pinned_bucket(uint64_t size_bytes)
{
    return hr__ceil_log2_u64(size_bytes);
}

static hr__pinned_list *list_of(const hr__pinned_block *block)
{
    return &block->shelf->buckets[hr__pinned_bucket(block->size_bytes)];
}

static void shelve(hr__pinned_block *block, bool as_oldest)
{
    hr__pinned_list *list = list_of(block);
    block->state = HR__PINNED_CACHED;
    block->previous = as_oldest ? NULL : list->newest;
    block->next = as_oldest ? list->oldest : NULL;
    *(block->previous != NULL ? &block->previous->next : &list->oldest) = block;
    *(block->next != NULL ? &block->next->previous : &list->newest) = block;
}

void hr__pinned_unshelve(hr__pinned_block *block)
{
    hr__pinned_list *list = list_of(block);
    *(block->previous != NULL ? &block->previous->next : &list->oldest) = block->next;
    *(block->next != NULL ? &block->next->previous : &list->newest) = block->previous;
    block->next = block->previous = NULL;
}

static hr__pinned_block *find_cached(const hr__pinned_shelf *shelf, uint64_t size_bytes)
{
    hr__pinned_block *block = shelf->buckets[hr__pinned_bucket(size_bytes)].newest;
    while (block != NULL && block->size_bytes < size_bytes)
        block = block->previous;
    return block;
}

/* ---- the states of a block ------------------------------------------------------------------- */

static void insert_block(hr_pinned_pool *pool, hr__pinned_block *block)
{
    hr__tree_insert(&pool->blocks, &block->node, hr__pinned_before);
    block->shelf->block_count++;
}

static void hand_out(hr_pinned_pool *pool, hr__pinned_block *block, bool is_from_capture)
{
    block->state = HR__PINNED_LIVE;
    block->is_from_capture = is_from_capture;
    if (block->shelf == &pool->default_shelf) { /* PyTorch counts no others as active */
        unsigned bucket = hr__pinned_bucket(block->size_bytes);
        hr__pinned_count_up(&pool->counters.active_requests[bucket], 1);
        hr__pinned_count_up(&pool->counters.active_bytes[bucket], block->size_bytes);
    }
}

void hr__pinned_settle(hr_pinned_pool *pool, hr__pinned_block *block, hr__pinned_list *leaving)
{
    if (block->shelf == &pool->default_shelf) {
        unsigned bucket = hr__pinned_bucket(block->size_bytes);
        hr__pinned_count_down(&pool->counters.active_requests[bucket], 1);
        hr__pinned_count_down(&pool->counters.active_bytes[bucket], block->size_bytes);
    }
    if (block->size_bytes > pool->settings.pinned_max_cached_bytes)
        hr__pinned_leave(pool, block, leaving);
    else
        shelve(block, false);
}

void hr__pinned_leave(hr_pinned_pool *pool, hr__pinned_block *block, hr__pinned_list *leaving)
{
    hr__tree_remove(&pool->blocks, &block->node);
    block->shelf->block_count--;
    block->shelf->away_count++;
    pool->leaving_count++;
    block->state = HR__PINNED_LEAVING;
    block->next = NULL;
    *(leaving->newest != NULL ? &leaving->newest->next : &leaving->oldest) = block;
    leaving->newest = block;
}

void hr__pinned_return(hr_pinned_pool *pool, hr__pinned_block *block, bool as_oldest)
{
    pool->leaving_count--;
    block->shelf->away_count--;
    insert_block(pool, block);
    shelve(block, as_oldest);
}

hr__pinned_block *hr__pinned_find_live(const hr_pinned_pool *pool, const void *address)
{
    /* The last block that does not begin after `address`. */
    uintptr_t place = (uintptr_t)address;
    hr__pinned_block *best = NULL;
    for (hr__tree_node *node = pool->blocks; node != NULL;) {
        hr__pinned_block *block = (hr__pinned_block *)(void *)node;
        if ((uintptr_t)block->address > place) {
            node = node->left;
        } else {
            best = block;
            node = node->right;
        }
    }
    bool is_inside = best != NULL && place - (uintptr_t)best->address < best->size_bytes;
    return is_inside && best->state == HR__PINNED_LIVE ? best : NULL;
}

/* ---- allocate -------------------------------------------------------------------------------- */

static uint64_t rounded(const hr__torch_settings *settings, uint64_t size_bytes)
{
    if (size_bytes > settings->pinned_max_round_threshold_bytes ||
        size_bytes > settings->pinned_max_cached_bytes)
        return size_bytes;
    return UINT64_C(1) << hr__ceil_log2_u64(size_bytes);
}

/* Gives back what has to leave. Under the lock, which is dropped for it. The first failure counts.
 */
static hr_status let_leave(hr_pinned_pool *pool, hr__pinned_list *leaving, hr_status status)
{
    if (leaving->oldest == NULL)
        return status;
    hr__pinned_unlock(pool);
    hr_status second = hr__pinned_give_back(pool, leaving, false);
    hr__pinned_lock(pool);
    return status != HR_OK ? status : second;
}

/* A cached block that fits, or NULL, after letting finished frees return. Under the lock, which may
 * be dropped in between. */
static hr_status search(hr_pinned_pool *pool, hr__pinned_shelf *shelf, uint64_t size_bytes,
                        hr__pinned_block **out)
{
    hr__pinned_list leaving = {NULL, NULL};
    /* The thread looks after the default shelf only. */
    if (shelf != &pool->default_shelf || !pool->is_background_running) {
        hr_status status = hr__pinned_advance(pool, shelf, &leaving);
        HR__TRY(let_leave(pool, &leaving, status));
    }
    *out = find_cached(shelf, size_bytes);
    if (*out == NULL && pool->settings.pinned_use_background_threads) {
        hr_status status = hr__pinned_advance_size(pool, shelf, size_bytes, &leaving);
        HR__TRY(let_leave(pool, &leaving, status));
        *out = find_cached(shelf, size_bytes);
    }
    return HR_OK;
}

/* A new block, in the tree but not handed out. Under the lock, which is dropped for taking it. */
static hr_status make_block(hr_pinned_pool *pool, hr__pinned_shelf *shelf, uint64_t size_bytes,
                            hr__pinned_block **out)
{
    hr__pinned_unlock(pool);
    hr__pinned_block *block = hr__host_alloc_zeroed(1, sizeof *block);
    hr_status status = HR_OK;
    if (block == NULL) {
        status = hr__fail_host_memory(sizeof *block, "the record of a pinned block");
    } else {
        block->shelf = shelf;
        block->size_bytes = size_bytes;
        if (pool->settings.pinned_use_background_threads)
            hr__pinned_background_start(pool);
        status = hr__pinned_take(pool, block);
    }
    hr__pinned_lock(pool);
    if (status != HR_OK) {
        hr__host_free(block);
        return status;
    }
    insert_block(pool, block);
    hr__pinned_count_up(&pool->counters.allocations, 1);
    hr__pinned_count_up(&pool->counters.allocated_bytes, size_bytes);
    *out = block;
    return HR_OK;
}

/* Under the lock, which may be dropped in between. */
static hr_status serve(hr_pinned_pool *pool, uint64_t size_bytes, hr_stream stream, void **out)
{
    bool is_from_capture = false;
    HR__TRY(hr__pinned_is_capturing(pool, stream, &is_from_capture));
    hr__pinned_shelf *shelf = hr__pinned_route(pool, stream);
    hr__pinned_block *block = NULL;
    shelf->away_count++; /* promised: the shelf stays while the lock is dropped */
    hr_status status = search(pool, shelf, size_bytes, &block);
    if (block != NULL)
        hr__pinned_unshelve(block);
    else if (status == HR_OK)
        status = make_block(pool, shelf, size_bytes, &block);
    shelf->away_count--;
    HR__TRY(status);
    hand_out(pool, block, is_from_capture);
    *out = block->address;
    return HR_OK;
}

hr_status hr_pinned_alloc_on(hr_pinned_pool *pool, uint64_t size_bytes, hr_stream stream,
                             void **out)
{
    HR__TRY(hr__pinned_enter(pool));
    if (out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "no place for the address");
    if (size_bytes >= HR__TORCH_MOST_REQUESTED_BYTES)
        return hr__fail(HR_ERR_TOO_LARGE, "%" PRIu64 " bytes of pinned memory, 2^60 or more",
                        size_bytes);
    if (size_bytes == 0) {
        *out = NULL;
        return HR_OK;
    }
    hr__pinned_lock(pool);
    hr_status status = serve(pool, rounded(&pool->settings, size_bytes), stream, out);
    hr__pinned_unlock(pool);
    return status;
}

hr_status hr_pinned_alloc(hr_pinned_pool *pool, uint64_t size_bytes, void **out)
{
    return hr_pinned_alloc_on(pool, size_bytes, 0, out);
}

/* ---- free and trim --------------------------------------------------------------------------- */

hr_status hr_pinned_free(hr_pinned_pool *pool, void *address)
{
    HR__TRY(hr__pinned_enter(pool));
    if (address == NULL)
        return HR_OK;
    hr__pinned_list leaving = {NULL, NULL};
    hr_status status = HR_OK;
    hr__pinned_lock(pool);
    hr__pinned_block *block = hr__pinned_find_live(pool, address);
    if (block == NULL || block->address != address) {
        hr__pinned_unlock(pool);
        return hr__fail(HR_ERR_UNKNOWN_ADDRESS,
                        "%p is not the start of a live block of this pinned pool: a double free, "
                        "an inner pointer, or foreign memory",
                        address);
    }
    if (block->uses != NULL)
        status = hr__pinned_defer(pool, block);
    else
        hr__pinned_settle(pool, block, &leaving);
    status = let_leave(pool, &leaving, status);
    hr__pinned_unlock(pool);
    return pool->settings.pinned_free_catch_all ? HR_OK : status;
}

/* Everything cached on one shelf, the oldest of the smallest bucket first. */
static void clear_shelf(hr_pinned_pool *pool, hr__pinned_shelf *shelf, hr__pinned_list *leaving)
{
    for (unsigned bucket = 0; bucket < HR__PINNED_BUCKETS; bucket++) {
        for (hr__pinned_block *block; (block = shelf->buckets[bucket].oldest) != NULL;) {
            hr__pinned_unshelve(block);
            hr__pinned_leave(pool, block, leaving);
        }
    }
}

static hr_status clear_shelves(hr_pinned_pool *pool, hr__pinned_list *leaving)
{
    HR__TRY(hr__pinned_advance(pool, &pool->default_shelf, leaving));
    clear_shelf(pool, &pool->default_shelf, leaving);
    for (hr__pinned_shelf *shelf = pool->private_shelves; shelf != NULL; shelf = shelf->next) {
        if (shelf->use_count > 0)
            continue;
        HR__TRY(hr__pinned_advance(pool, shelf, leaving));
        clear_shelf(pool, shelf, leaving);
    }
    return HR_OK;
}

hr_status hr_pinned_trim(hr_pinned_pool *pool)
{
    HR__TRY(hr__pinned_enter(pool));
    hr__pinned_list leaving = {NULL, NULL};
    hr_status status = hr__pinned_unstick(pool, &leaving);
    if (status == HR_OK) {
        hr__pinned_lock(pool);
        status = clear_shelves(pool, &leaving);
        hr__pinned_unlock(pool);
    }
    hr_status second = hr__pinned_give_back(pool, &leaving, true);
    hr__pinned_lock(pool);
    hr__pinned_drop_unused(pool);
    hr__pinned_unlock(pool);
    return status != HR_OK ? status : second;
}

/* ---- create and destroy ---------------------------------------------------------------------- */

static hr_status read_settings(const hr_pinned_options *options, hr__torch_settings *out)
{
    int version = HR__TORCH_DEFAULT_VERSION;
    hr__torch_rules rules;
    if (options->torch_version != NULL)
        HR__TRY(hr__torch_parse_version(options->torch_version, &version));
    HR__TRY(hr__torch_rules_for(version, &rules));
    return hr__torch_settings_apply(out, &rules, options->conf,
                                    options->is_strict ? HR__TORCH_SETTINGS_STRICT
                                                       : HR__TORCH_SETTINGS_LIKE_TORCH);
}

hr_status hr_pinned_pool_create(hr_device *device, const hr_pinned_options *options,
                                hr_pinned_pool **out)
{
    static const hr_pinned_options defaults = {.struct_size = sizeof defaults};
    if (device == NULL || out == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "expected a device and a place for the pool");
    if (options == NULL)
        options = &defaults;
    if (options->struct_size < sizeof *options)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "options of %zu bytes, expected at least %zu",
                        options->struct_size, sizeof *options);
    if (!device->properties.has_pinned_memory)
        return hr__fail(HR_ERR_UNSUPPORTED, "device \"%.63s\" has no page-locked host memory",
                        device->properties.name);

    hr__fork_guard_start();
    hr_pinned_pool *pool = hr__host_alloc_zeroed(1, sizeof *pool);
    if (pool == NULL)
        return hr__fail_host_memory(sizeof *pool, "a pinned pool");
    hr__mutex_init(&pool->lock, HR__LOCK_POOL);
    pool->fork_generation = hr__fork_generation();
    pool->device = device;
    pool->budget = options->budget;
    hr__torch_settings_init(&pool->settings);
    hr_status status = read_settings(options, &pool->settings);
    if (status != HR_OK) {
        hr__host_free(pool);
        return status;
    }
    pool->listing = (hr__listing){.pinned = pool, .device = device};
    if (!options->is_unlisted && hr_live_is_wanted())
        hr__listing_add(&pool->listing, NULL);
    *out = pool;
    return HR_OK;
}

void hr_pinned_pool_destroy(hr_pinned_pool *pool)
{
    if (pool == NULL || pool->fork_generation != hr__fork_generation())
        return; /* the parent's memory is not ours to give back */
    hr__listing_remove(&pool->listing);
    hr__pinned_background_stop(pool);
    hr__pinned_streams_deinit(pool);
    hr__pinned_memory_deinit(pool);
    hr__pinned_private_deinit(pool);
    hr__torch_settings_deinit(&pool->settings);
    hr__host_free(pool);
}
