/* pinned_pool.c - making and ending pinned pools, and the two hot paths.
 *
 * vw_pinned_alloc: lock; let finished frees return; search one bucket from its newest end; hand the
 * block out. Only if none fits is memory taken, without the lock: the shelf is promised a block
 * meanwhile, so that it does not end under us. vw_pinned_free: lock; find the block; cache it, or
 * let it wait for the streams that use it.
 *
 * Blocks above the caching limit leave at once. They are collected under the lock and given back
 * after it: cuMemFreeHost is slow, and waits for the device. */
#include "pool/pinned_pool.h"

#include <inttypes.h>

#include "vramwise/live.h"
#include "base/checked_math.h" /* vw__ceil_log2_u64 */
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "device/device_table.h"
#include "engine/torch/torch_rounding.h" /* VW__TORCH_MOST_REQUESTED_BYTES */

/* ---- buckets --------------------------------------------------------------------------------- */

unsigned vw__pinned_bucket(uint64_t size_bytes)
{
    return vw__ceil_log2_u64(size_bytes);
}

static vw__pinned_list *list_of(const vw__pinned_block *block)
{
    return &block->shelf->buckets[vw__pinned_bucket(block->size_bytes)];
}

static void shelve(vw__pinned_block *block, bool as_oldest)
{
    vw__pinned_list *list = list_of(block);
    block->state = VW__PINNED_CACHED;
    block->previous = as_oldest ? NULL : list->newest;
    block->next = as_oldest ? list->oldest : NULL;
    *(block->previous != NULL ? &block->previous->next : &list->oldest) = block;
    *(block->next != NULL ? &block->next->previous : &list->newest) = block;
}

/* Takes a cached block out of its bucket. */
static void unshelve(vw__pinned_block *block)
{
    vw__pinned_list *list = list_of(block);
    *(block->previous != NULL ? &block->previous->next : &list->oldest) = block->next;
    *(block->next != NULL ? &block->next->previous : &list->newest) = block->previous;
    block->next = block->previous = NULL;
}

static vw__pinned_block *find_cached(const vw__pinned_shelf *shelf, uint64_t size_bytes)
{
    vw__pinned_block *block = shelf->buckets[vw__pinned_bucket(size_bytes)].newest;
    while (block != NULL && block->size_bytes < size_bytes)
        block = block->previous;
    return block;
}

/* ---- the states of a block ------------------------------------------------------------------- */

static void insert_block(vw_pinned_pool *pool, vw__pinned_block *block)
{
    vw__tree_insert(&pool->blocks, &block->node, vw__pinned_before);
    block->shelf->block_count++;
}

static void hand_out(vw_pinned_pool *pool, vw__pinned_block *block, bool is_from_capture)
{
    block->state = VW__PINNED_LIVE;
    block->is_from_capture = is_from_capture;
    if (block->shelf == &pool->default_shelf) { /* PyTorch counts no others as active */
        unsigned bucket = vw__pinned_bucket(block->size_bytes);
        vw__pinned_count_up(&pool->counters.active_requests[bucket], 1);
        vw__pinned_count_up(&pool->counters.active_bytes[bucket], block->size_bytes);
    }
}

/* Takes a block that is in no list out of the tree and puts it on `leaving`. */
static void take_out(vw_pinned_pool *pool, vw__pinned_block *block, vw__pinned_list *leaving)
{
    vw__tree_remove(&pool->blocks, &block->node);
    block->shelf->block_count--;
    block->shelf->away_count++;
    pool->leaving_count++;
    block->state = VW__PINNED_LEAVING;
    block->next = NULL;
    *(leaving->newest != NULL ? &leaving->newest->next : &leaving->oldest) = block;
    leaving->newest = block;
}

void vw__pinned_settle(vw_pinned_pool *pool, vw__pinned_block *block, vw__pinned_list *leaving)
{
    if (block->shelf == &pool->default_shelf) {
        unsigned bucket = vw__pinned_bucket(block->size_bytes);
        vw__pinned_count_down(&pool->counters.active_requests[bucket], 1);
        vw__pinned_count_down(&pool->counters.active_bytes[bucket], block->size_bytes);
    }
    if (block->size_bytes > pool->settings.pinned_max_cached_bytes)
        take_out(pool, block, leaving);
    else
        shelve(block, false);
}

void vw__pinned_return(vw_pinned_pool *pool, vw__pinned_block *block, bool as_oldest)
{
    pool->leaving_count--;
    block->shelf->away_count--;
    insert_block(pool, block);
    shelve(block, as_oldest);
}

vw__pinned_block *vw__pinned_find_live(const vw_pinned_pool *pool, const void *address)
{
    /* The last block that does not begin after `address`. */
    uintptr_t place = (uintptr_t)address;
    vw__pinned_block *best = NULL;
    for (vw__tree_node *node = pool->blocks; node != NULL;) {
        vw__pinned_block *block = (vw__pinned_block *)(void *)node;
        if ((uintptr_t)block->address > place) {
            node = node->left;
        } else {
            best = block;
            node = node->right;
        }
    }
    bool is_inside = best != NULL && place - (uintptr_t)best->address < best->size_bytes;
    return is_inside && best->state == VW__PINNED_LIVE ? best : NULL;
}

/* ---- allocate -------------------------------------------------------------------------------- */

static uint64_t rounded(const vw__torch_settings *settings, uint64_t size_bytes)
{
    if (size_bytes > settings->pinned_max_round_threshold_bytes ||
        size_bytes > settings->pinned_max_cached_bytes)
        return size_bytes;
    return UINT64_C(1) << vw__ceil_log2_u64(size_bytes);
}

/* Gives back what has to leave. Under the lock, which is dropped for it. The first failure counts.
 */
static vw_status let_leave(vw_pinned_pool *pool, vw__pinned_list *leaving, vw_status status)
{
    if (leaving->oldest == NULL)
        return status;
    vw__pinned_unlock(pool);
    vw_status second = vw__pinned_give_back(pool, leaving, false);
    vw__pinned_lock(pool);
    return status != VW_OK ? status : second;
}

/* A cached block that fits, or NULL, after letting finished frees return. Under the lock, which may
 * be dropped in between. */
static vw_status search(vw_pinned_pool *pool, vw__pinned_shelf *shelf, uint64_t size_bytes,
                        vw__pinned_block **out)
{
    vw__pinned_list leaving = {NULL, NULL};
    /* The thread looks after the default shelf only. */
    if (shelf != &pool->default_shelf || !pool->is_background_running) {
        vw_status status = vw__pinned_advance(pool, shelf, &leaving);
        VW__TRY(let_leave(pool, &leaving, status));
    }
    *out = find_cached(shelf, size_bytes);
    if (*out == NULL && pool->settings.pinned_use_background_threads) {
        vw_status status = vw__pinned_advance_size(pool, shelf, size_bytes, &leaving);
        VW__TRY(let_leave(pool, &leaving, status));
        *out = find_cached(shelf, size_bytes);
    }
    return VW_OK;
}

/* A new block, in the tree but not handed out. Under the lock, which is dropped for taking it. */
static vw_status make_block(vw_pinned_pool *pool, vw__pinned_shelf *shelf, uint64_t size_bytes,
                            vw__pinned_block **out)
{
    vw__pinned_unlock(pool);
    vw__pinned_block *block = vw__host_alloc_zeroed(1, sizeof *block);
    vw_status status = VW_OK;
    if (block == NULL) {
        status = vw__fail_host_memory(sizeof *block, "the record of a pinned block");
    } else {
        block->shelf = shelf;
        block->size_bytes = size_bytes;
        if (pool->settings.pinned_use_background_threads)
            vw__pinned_background_start(pool);
        status = vw__pinned_take(pool, block);
    }
    vw__pinned_lock(pool);
    if (status != VW_OK) {
        vw__host_free(block);
        return status;
    }
    insert_block(pool, block);
    vw__pinned_count_up(&pool->counters.allocations, 1);
    vw__pinned_count_up(&pool->counters.allocated_bytes, size_bytes);
    *out = block;
    return VW_OK;
}

/* Under the lock, which may be dropped in between. */
static vw_status serve(vw_pinned_pool *pool, uint64_t size_bytes, vw_stream stream, void **out)
{
    bool is_from_capture = false;
    VW__TRY(vw__pinned_is_capturing(pool, stream, &is_from_capture));
    vw__pinned_shelf *shelf = vw__pinned_route(pool, stream);
    vw__pinned_block *block = NULL;
    shelf->away_count++; /* promised: the shelf stays while the lock is dropped */
    vw_status status = search(pool, shelf, size_bytes, &block);
    if (block != NULL)
        unshelve(block);
    else if (status == VW_OK)
        status = make_block(pool, shelf, size_bytes, &block);
    shelf->away_count--;
    VW__TRY(status);
    hand_out(pool, block, is_from_capture);
    *out = block->address;
    return VW_OK;
}

vw_status vw_pinned_alloc_on(vw_pinned_pool *pool, uint64_t size_bytes, vw_stream stream,
                             void **out)
{
    VW__TRY(vw__pinned_enter(pool));
    if (out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no place for the address");
    if (size_bytes >= VW__TORCH_MOST_REQUESTED_BYTES)
        return vw__fail(VW_ERR_TOO_LARGE, "%" PRIu64 " bytes of pinned memory, 2^60 or more",
                        size_bytes);
    if (size_bytes == 0) {
        *out = NULL;
        return VW_OK;
    }
    vw__pinned_lock(pool);
    vw_status status = serve(pool, rounded(&pool->settings, size_bytes), stream, out);
    vw__pinned_unlock(pool);
    return status;
}

vw_status vw_pinned_alloc(vw_pinned_pool *pool, uint64_t size_bytes, void **out)
{
    return vw_pinned_alloc_on(pool, size_bytes, 0, out);
}

/* ---- free and trim --------------------------------------------------------------------------- */

vw_status vw_pinned_free(vw_pinned_pool *pool, void *address)
{
    VW__TRY(vw__pinned_enter(pool));
    if (address == NULL)
        return VW_OK;
    vw__pinned_list leaving = {NULL, NULL};
    vw_status status = VW_OK;
    vw__pinned_lock(pool);
    vw__pinned_block *block = vw__pinned_find_live(pool, address);
    if (block == NULL || block->address != address) {
        vw__pinned_unlock(pool);
        return vw__fail(VW_ERR_UNKNOWN_ADDRESS,
                        "%p is not the start of a live block of this pinned pool: a double free, "
                        "an inner pointer, or foreign memory",
                        address);
    }
    if (block->uses != NULL)
        status = vw__pinned_defer(pool, block);
    else
        vw__pinned_settle(pool, block, &leaving);
    status = let_leave(pool, &leaving, status);
    vw__pinned_unlock(pool);
    return pool->settings.pinned_free_catch_all ? VW_OK : status;
}

/* Everything cached on one shelf, the oldest of the smallest bucket first. */
static void clear_shelf(vw_pinned_pool *pool, vw__pinned_shelf *shelf, vw__pinned_list *leaving)
{
    for (unsigned bucket = 0; bucket < VW__PINNED_BUCKETS; bucket++) {
        for (vw__pinned_block *block; (block = shelf->buckets[bucket].oldest) != NULL;) {
            unshelve(block);
            take_out(pool, block, leaving);
        }
    }
}

static vw_status clear_shelves(vw_pinned_pool *pool, vw__pinned_list *leaving)
{
    VW__TRY(vw__pinned_advance(pool, &pool->default_shelf, leaving));
    clear_shelf(pool, &pool->default_shelf, leaving);
    for (vw__pinned_shelf *shelf = pool->private_shelves; shelf != NULL; shelf = shelf->next) {
        if (shelf->use_count > 0)
            continue;
        VW__TRY(vw__pinned_advance(pool, shelf, leaving));
        clear_shelf(pool, shelf, leaving);
    }
    return VW_OK;
}

vw_status vw_pinned_trim(vw_pinned_pool *pool)
{
    VW__TRY(vw__pinned_enter(pool));
    vw__pinned_list leaving = {NULL, NULL};
    vw_status status = vw__pinned_unstick(pool, &leaving);
    if (status == VW_OK) {
        vw__pinned_lock(pool);
        status = clear_shelves(pool, &leaving);
        vw__pinned_unlock(pool);
    }
    vw_status second = vw__pinned_give_back(pool, &leaving, true);
    vw__pinned_lock(pool);
    vw__pinned_drop_unused(pool);
    vw__pinned_unlock(pool);
    return status != VW_OK ? status : second;
}

/* ---- create and destroy ---------------------------------------------------------------------- */

static vw_status read_settings(const vw_pinned_options *options, vw__torch_settings *out)
{
    vw__torch_rules rules;
    VW__TRY(vw__torch_rules_of(options->torch_version, &rules));
    return vw__torch_settings_apply(out, &rules, options->conf,
                                    options->is_strict ? VW__TORCH_SETTINGS_STRICT
                                                       : VW__TORCH_SETTINGS_LIKE_TORCH);
}

vw_status vw_pinned_pool_create(vw_device *device, const vw_pinned_options *options,
                                vw_pinned_pool **out)
{
    vw_pinned_options used = {.struct_size = sizeof used};
    if (device == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a device and a place for the pool");
    VW__TRY(vw__device_check(device));
    VW__TRY(VW__STRUCT_IN(vw_pinned_options, options, &used));
    if (!device->properties.has_pinned_memory)
        return vw__fail(VW_ERR_UNSUPPORTED, "device \"%.63s\" has no page-locked host memory",
                        device->properties.name);

    vw__fork_guard_start();
    vw_pinned_pool *pool = vw__host_alloc_zeroed(1, sizeof *pool);
    if (pool == NULL)
        return vw__fail_host_memory(sizeof *pool, "a pinned pool");
    vw__mutex_init(&pool->lock, VW__LOCK_POOL);
    pool->fork_generation = vw__fork_generation();
    pool->device = device;
    pool->budget = used.budget;
    vw__torch_settings_init(&pool->settings);
    vw_status status = read_settings(&used, &pool->settings);
    if (status != VW_OK) {
        vw__host_free(pool);
        return status;
    }
    pool->listing = (vw__listing){.pinned = pool, .device = device};
    if (!used.is_unlisted && vw_live_is_wanted())
        vw__listing_add(&pool->listing, NULL);
    *out = pool;
    return VW_OK;
}

void vw_pinned_pool_destroy(vw_pinned_pool *pool)
{
    if (pool == NULL || pool->fork_generation != vw__fork_generation())
        return; /* the parent's memory is not ours to give back */
    vw__listing_remove(&pool->listing);
    if (!vw__pinned_background_stop(pool))
        return;
    vw__pinned_streams_deinit(pool);
    vw__pinned_memory_deinit(pool);
    vw__pinned_private_deinit(pool);
    vw__torch_settings_deinit(&pool->settings);
    vw__host_free(pool);
}
