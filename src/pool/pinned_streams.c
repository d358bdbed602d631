/* pinned_streams.c - blocks that streams still use when they are freed.
 *
 * An event is recorded on every stream that was named, and pushed into the shelf's one queue. They
 * are looked at from the oldest on, up to the first that is not complete: everything freed later
 * waits behind it, also for streams that are long done. That is PyTorch's rule, and it decides
 * which requests need new memory, so it is kept. A block settles with its last event.
 *
 * What must not happen is a reuse while the device still copies. So where an event cannot be
 * recorded the block is stuck until the whole device has been waited for; PyTorch loses it for
 * good. It is kept out of the queue: nobody should wait behind it.
 *
 * A block allocated during a capture is used again at each replay of the graph, at times nobody can
 * record: once named with a stream it is kept, as in PyTorch, until the pool ends. */
#include "pool/pinned_pool.h"

#include "base/host_memory.h"

/* ---- announcing a use ------------------------------------------------------------------------ */

static bool is_used_on(const vw__pinned_block *block, vw_stream stream)
{
    const vw__pinned_use *use = block->uses;
    while (use != NULL && use->stream != stream)
        use = use->next;
    return use != NULL;
}

static void recycle(vw_pinned_pool *pool, vw__pinned_use *use)
{
    use->next = pool->spare_uses;
    pool->spare_uses = use;
}

static void recycle_all(vw_pinned_pool *pool, vw__pinned_use *uses)
{
    for (vw__pinned_use *next; uses != NULL; uses = next) {
        next = uses->next;
        recycle(pool, uses);
    }
}

/* Under the lock. False: there is no spare use. */
static bool add_use(vw_pinned_pool *pool, vw__pinned_block *block, vw_stream stream)
{
    vw__pinned_use *use = pool->spare_uses;
    if (is_used_on(block, stream))
        return true;
    if (use == NULL)
        return false;
    pool->spare_uses = use->next;
    use->block = block;
    use->stream = stream;
    use->next = block->uses;
    block->uses = use;
    return true;
}

/* One more spare use. Without the lock: it takes memory and calls the driver. Another thread may
 * have it before the caller looks again. */
static vw_status add_spare_use(vw_pinned_pool *pool)
{
    const vw_device *device = pool->device;
    vw__pinned_use *use = vw__host_alloc_zeroed(1, sizeof *use);
    if (use == NULL)
        return vw__fail_host_memory(sizeof *use, "the use of a pinned block by a stream");
    vw_status status = device->table->event_create(device->context, &use->event);
    if (status != VW_OK) {
        vw__host_free(use);
        return status;
    }
    vw__pinned_lock(pool);
    recycle(pool, use);
    vw__pinned_unlock(pool);
    return VW_OK;
}

vw_status vw_pinned_record_stream(vw_pinned_pool *pool, void *address, vw_stream stream)
{
    VW__TRY(vw__pinned_enter(pool));
    if (address == NULL)
        return VW_OK;
    for (;;) {
        vw__pinned_lock(pool);
        vw__pinned_block *block = vw__pinned_find_live(pool, address);
        bool is_done = block != NULL && add_use(pool, block, stream);
        vw__pinned_unlock(pool);
        if (block == NULL)
            return vw__fail(VW_ERR_UNKNOWN_ADDRESS, "%p is in no live block of this pinned pool",
                            address);
        if (is_done)
            return VW_OK;
        VW__TRY(add_spare_use(pool));
    }
}

/* ---- the queue ------------------------------------------------------------------------------- */

static void push_newest(vw__pinned_queue *queue, vw__pinned_use *use)
{
    use->previous = NULL;
    use->next = queue->newest;
    *(queue->newest != NULL ? &queue->newest->previous : &queue->oldest) = use;
    queue->newest = use;
    queue->count++;
}

static void pop_oldest(vw__pinned_queue *queue)
{
    vw__pinned_use *use = queue->oldest;
    queue->oldest = use->previous;
    *(queue->oldest != NULL ? &queue->oldest->next : &queue->newest) = NULL;
    queue->count--;
}

/* The oldest use is over. Returns whether its block settled. */
static bool finish_oldest(vw_pinned_pool *pool, vw__pinned_queue *queue, vw__pinned_list *leaving)
{
    vw__pinned_use *use = queue->oldest;
    vw__pinned_block *block = use->block;
    pop_oldest(queue);
    recycle(pool, use);
    if (--block->event_count > 0)
        return false;
    vw__pinned_settle(pool, block, leaving);
    return true;
}

vw_status vw__pinned_advance(vw_pinned_pool *pool, vw__pinned_shelf *shelf,
                             vw__pinned_list *leaving)
{
    const vw_device *device = pool->device;
    vw__pinned_queue *queue = &shelf->queue;
    while (queue->oldest != NULL) {
        vw_status status = device->table->event_query(device->context, queue->oldest->event);
        if (status != VW_OK)
            return status == VW_ERR_NOT_READY ? VW_OK : status;
        finish_oldest(pool, queue, leaving);
    }
    return VW_OK;
}

/* What is of another size, or not complete, goes to the other end. PyTorch stops after two more
 * than there were, so the queue comes out turned by two: kept, since it decides who is looked at
 * next. */
vw_status vw__pinned_advance_size(vw_pinned_pool *pool, vw__pinned_shelf *shelf,
                                  uint64_t size_bytes, vw__pinned_list *leaving)
{
    const vw_device *device = pool->device;
    vw__pinned_queue *queue = &shelf->queue;
    size_t turns_left = queue->count + 2;
    while (queue->oldest != NULL && turns_left > 0) {
        vw__pinned_use *use = queue->oldest;
        vw_status status = VW_ERR_NOT_READY;
        turns_left--;
        if (turns_left > 0 && use->block->size_bytes == size_bytes)
            status = device->table->event_query(device->context, use->event);
        if (status == VW_OK) {
            if (finish_oldest(pool, queue, leaving))
                return VW_OK;
        } else if (status == VW_ERR_NOT_READY) {
            pop_oldest(queue);
            push_newest(queue, use);
        } else {
            return status;
        }
    }
    return VW_OK;
}

/* ---- freeing a block that is used ------------------------------------------------------------ */

static vw_status record_all(const vw_pinned_pool *pool, const vw__pinned_use *uses)
{
    const vw_device *device = pool->device;
    for (const vw__pinned_use *use = uses; use != NULL; use = use->next)
        VW__TRY(device->table->event_record(device->context, use->event, use->stream));
    return VW_OK;
}

/* An event recorded there becomes part of the graph: nobody can ask for it or wait for it. */
static vw_status is_any_captured(const vw_pinned_pool *pool, const vw__pinned_use *uses, bool *out)
{
    *out = false;
    for (const vw__pinned_use *use = uses; use != NULL && !*out; use = use->next)
        VW__TRY(vw__pinned_is_capturing(pool, use->stream, out));
    return VW_OK;
}

static void stick(vw_pinned_pool *pool, vw__pinned_block *block, vw__pinned_use *uses)
{
    block->state = VW__PINNED_STUCK;
    block->next = pool->stuck;
    pool->stuck = block;
    recycle_all(pool, uses);
}

vw_status vw__pinned_defer(vw_pinned_pool *pool, vw__pinned_block *block)
{
    vw__pinned_use *uses = block->uses;
    block->uses = NULL;
    if (block->is_from_capture) {
        block->state = VW__PINNED_KEPT;
        recycle_all(pool, uses);
        return VW_OK;
    }
    bool is_captured = false;
    vw_status status = is_any_captured(pool, uses, &is_captured);
    if (status != VW_OK || is_captured) {
        stick(pool, block, uses);
        return status;
    }
    /* It is no longer live, so nobody can free it or add uses. */
    block->state = VW__PINNED_RECORDING;
    vw__pinned_unlock(pool);
    status = record_all(pool, uses);
    vw__pinned_lock(pool);
    if (status != VW_OK) {
        stick(pool, block, uses);
        return status;
    }
    block->state = VW__PINNED_WAITING;
    block->event_count = 0;
    for (vw__pinned_use *next; uses != NULL; uses = next) {
        next = uses->next;
        push_newest(&block->shelf->queue, uses);
        block->event_count++;
    }
    return VW_OK;
}

vw_status vw__pinned_unstick(vw_pinned_pool *pool, vw__pinned_list *leaving)
{
    vw__pinned_lock(pool);
    vw__pinned_block *stuck = pool->scopes == NULL ? pool->stuck : NULL; /* a wait ends a capture */
    if (stuck != NULL)
        pool->stuck = NULL;
    vw__pinned_unlock(pool);
    if (stuck == NULL)
        return VW_OK;
    vw_status status = pool->device->table->synchronize(pool->device->context);
    vw__pinned_lock(pool);
    for (vw__pinned_block *next; stuck != NULL; stuck = next) {
        next = stuck->next;
        if (status == VW_OK) {
            vw__pinned_settle(pool, stuck, leaving);
        } else {
            stuck->next = pool->stuck;
            pool->stuck = stuck;
        }
    }
    vw__pinned_unlock(pool);
    return status;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void end_uses(const vw_device *device, vw__pinned_use *uses)
{
    for (vw__pinned_use *next; uses != NULL; uses = next) {
        next = uses->next;
        (void)device->table->event_destroy(device->context, uses->event);
        vw__host_free(uses);
    }
}

void vw__pinned_streams_deinit(vw_pinned_pool *pool)
{
    end_uses(pool->device, pool->spare_uses);
    end_uses(pool->device, pool->default_shelf.queue.newest);
    for (vw__pinned_shelf *shelf = pool->private_shelves; shelf != NULL; shelf = shelf->next)
        end_uses(pool->device, shelf->queue.newest);
    for (vw__tree_node *node = vw__tree_first(pool->blocks); node != NULL;
         node = vw__tree_after(pool->blocks, node, vw__pinned_before))
        end_uses(pool->device, ((vw__pinned_block *)(void *)node)->uses);
}
