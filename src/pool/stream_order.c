/* stream_order.c - see stream_order.h. */
#include "pool/stream_order.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "pool/pool.h"

void hr__stream_order_init(hr__stream_order *order)
{
    *order = (hr__stream_order){.pending_count = 0};
    order->deferred_end = &order->deferred;
}

/* ---- announcing a use ------------------------------------------------------------------------ */

static hr__stream_queue *find_queue(const hr__stream_order *order, hr_stream stream)
{
    hr__stream_queue *queue = order->queues;
    while (queue != NULL && queue->stream != stream)
        queue = queue->next;
    return queue;
}

static hr__stream_use *find_use(const hr__block *block, hr_stream stream)
{
    hr__stream_use *use = block->uses;
    while (use != NULL && use->stream != stream)
        use = use->next;
    return use;
}

/* Makes sure that a spare use and the stream's queue exist. Without the lock: it takes memory and
 * calls the driver. Another thread may have the use when the caller looks again. */
static hr_status prepare_use(hr_pool *pool, hr_stream stream)
{
    const hr_device *device = pool->device;
    hr__stream_use *use = hr__host_alloc_zeroed(1, sizeof *use);
    hr__stream_queue *queue = hr__host_alloc_zeroed(1, sizeof *queue);
    hr_status status = HR_OK;
    if (use == NULL || queue == NULL)
        status =
            hr__fail_host_memory(sizeof *use + sizeof *queue, "the use of a block by a stream");
    else
        status = device->table->event_create(device->context, &use->event);
    if (status != HR_OK) {
        hr__host_free(use);
        hr__host_free(queue);
        return status;
    }
    hr__pool_lock(pool);
    use->next = pool->order.spare;
    pool->order.spare = use;
    if (find_queue(&pool->order, stream) == NULL) {
        queue->stream = stream;
        queue->next = pool->order.queues;
        pool->order.queues = queue;
        queue = NULL;
    }
    hr__pool_unlock(pool);
    hr__host_free(queue);
    return HR_OK;
}

/* Under the lock. False: a spare use or the queue is missing. */
static bool add_use(hr_pool *pool, hr__block *block, hr_stream stream)
{
    hr__stream_order *order = &pool->order;
    bool is_capturing = pool->engine->table->is_capturing(pool->engine, stream);
    hr__stream_use *use = find_use(block, stream);
    if (use == NULL) {
        if (order->spare == NULL || find_queue(order, stream) == NULL)
            return false;
        use = order->spare;
        order->spare = use->next;
        use->stream = stream;
        use->block = block;
        use->is_recorded = false;
        use->is_from_capture = false;
        use->next = block->uses;
        block->uses = use;
    }
    use->is_from_capture |= is_capturing;
    return true;
}

hr_status hr_record_stream(hr_pool *pool, hr_device_ptr address, hr_stream stream)
{
    HR__TRY(hr__pool_enter(pool));
    if (address == HR_NULL)
        return HR_OK;
    for (;;) {
        hr__pool_lock(pool);
        hr__block *block = hr__address_map_get(&pool->live, address);
        bool is_done =
            block != NULL && (hr__block_stream(block) == stream || add_use(pool, block, stream));
        hr__pool_unlock(pool);
        if (block == NULL)
            return hr__fail(HR_ERR_UNKNOWN_ADDRESS,
                            "%#" PRIx64 " is not the start of a live block of this pool", address);
        if (is_done)
            return HR_OK;
        HR__TRY(prepare_use(pool, stream));
    }
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void enqueue(hr__stream_order *order, hr__stream_use *use)
{
    hr__stream_queue *queue = find_queue(order, use->stream); /* made when the use was announced */
    use->next = NULL;
    if (queue->last != NULL)
        queue->last->next = use;
    else
        queue->first = use;
    queue->last = use;
}

static void recycle(hr__stream_order *order, hr__stream_use *use)
{
    use->next = order->spare;
    order->spare = use;
}

static hr_status record(const hr_pool *pool, hr__stream_use *uses)
{
    hr_status status = HR_OK;
    for (hr__stream_use *use = uses; use != NULL; use = use->next) {
        hr_status one =
            pool->device->table->event_record(pool->device->context, use->event, use->stream);
        use->is_recorded = one == HR_OK;
        if (status == HR_OK)
            status = one;
    }
    return status;
}

static uint32_t enqueue_all(hr__stream_order *order, hr__stream_use *uses)
{
    uint32_t count = 0;
    for (hr__stream_use *next; uses != NULL; uses = next, count++) {
        next = uses->next;
        enqueue(order, uses);
    }
    return count;
}

static void append_deferred(hr__stream_order *order, hr__block *block)
{
    block->node.left = NULL;
    *order->deferred_end = block;
    order->deferred_end = (hr__block **)(void *)&block->node.left;
}

hr_status hr__stream_order_defer(hr_pool *pool, hr__block *block)
{
    hr__stream_order *order = &pool->order;
    block->state = HR__BLOCK_PENDING;
    order->pending_count++;
    if (pool->engine->table->is_capturing(pool->engine, hr__block_stream(block))) {
        append_deferred(order, block);
        return HR_OK;
    }
    /* Nobody else can reach the block now, and nobody takes its uses. */
    hr__stream_use *uses = block->uses;
    block->uses = NULL;
    order->recording_count++;
    hr__pool_unlock(pool);
    hr_status status = record(pool, uses);
    hr__pool_lock(pool);
    order->recording_count--;
    block->pending_events = enqueue_all(order, uses);
    return status;
}

static void complete(hr_pool *pool, hr__block *block)
{
    pool->order.pending_count--;
    hr__pool_complete_free(pool, block);
}

/* The use at the front of the queue is over. */
static void pop(hr_pool *pool, hr__stream_queue *queue)
{
    hr__stream_use *use = queue->first;
    hr__block *block = use->block;
    queue->first = use->next;
    if (queue->first == NULL)
        queue->last = NULL;
    recycle(&pool->order, use);
    if (--block->pending_events == 0)
        complete(pool, block);
}

/* The uses of a block that are not part of a graph, in a list of their own. */
static hr__stream_use *keep_uses_outside_capture(hr__stream_order *order, hr__stream_use *uses)
{
    hr__stream_use *kept = NULL;
    for (hr__stream_use *next; uses != NULL; uses = next) {
        next = uses->next;
        if (uses->is_from_capture) {
            recycle(order, uses);
        } else {
            uses->next = kept;
            kept = uses;
        }
    }
    return kept;
}

/* Deferred frees whose capture is over go the usual way; the others stay. Events are recorded under
 * the lock here, since the queues must be whole before anyone looks at them. */
static void resume_deferred(hr_pool *pool)
{
    hr__stream_order *order = &pool->order;
    hr__engine *engine = pool->engine;
    hr__block *block = order->deferred;
    order->deferred = NULL;
    order->deferred_end = &order->deferred;
    for (hr__block *next; block != NULL; block = next) {
        next = hr__block_of_node(block->node.left);
        if (engine->table->is_capturing(engine, hr__block_stream(block))) {
            append_deferred(order, block);
            continue;
        }
        hr__stream_use *uses = keep_uses_outside_capture(order, block->uses);
        block->uses = NULL;
        (void)record(pool, uses); /* what failed waits for hr__stream_order_finish() */
        block->pending_events = enqueue_all(order, uses);
        if (block->pending_events == 0)
            complete(pool, block);
    }
}

hr_status hr__stream_order_advance(hr_pool *pool)
{
    const hr_device *device = pool->device;
    resume_deferred(pool);
    for (hr__stream_queue *queue = pool->order.queues; queue != NULL; queue = queue->next) {
        while (queue->first != NULL && queue->first->is_recorded) {
            hr_status status = device->table->event_query(device->context, queue->first->event);
            if (status == HR_ERR_NOT_READY)
                break;
            HR__TRY(status);
            pop(pool, queue);
        }
    }
    return HR_OK;
}

static hr_status wait_for(const hr_device *device, const hr__stream_use *use)
{
    return use->is_recorded ? device->table->event_synchronize(device->context, use->event)
                            : device->table->synchronize(device->context);
}

hr_status hr__stream_order_finish(hr_pool *pool, const hr_private_id *only)
{
    pool->counters.num_sync_all_streams++;
    resume_deferred(pool);
    for (hr__stream_queue *queue = pool->order.queues; queue != NULL; queue = queue->next) {
        hr__stream_use *kept = NULL; /* the last use of another private pool, left in its place */
        hr__stream_use *use = queue->first;
        while (use != NULL) {
            hr__stream_use *next = use->next;
            if (only != NULL && !hr__same_private_id(hr__block_private_id(use->block), *only)) {
                kept = use;
            } else {
                HR__TRY(wait_for(pool->device, use));
                if (kept == NULL) {
                    pop(pool, queue);
                } else {
                    kept->next = next;
                    if (next == NULL)
                        queue->last = kept;
                    hr__block *block = use->block;
                    recycle(&pool->order, use);
                    if (--block->pending_events == 0)
                        complete(pool, block);
                }
            }
            use = next;
        }
    }
    return HR_OK;
}

/* ---- not waiting its turn -------------------------------------------------------------------- */

hr_status hr__stream_order_wait_for_uses(hr_pool *pool, const hr__block *block)
{
    const hr_device *device = pool->device;
    for (const hr__stream_use *use = block->uses; use != NULL; use = use->next) {
        if (use->is_from_capture)
            continue; /* part of a graph */
        if (pool->engine->table->is_capturing(pool->engine, use->stream))
            return hr__fail(HR_ERR_WRONG_STATE,
                            "block %#" PRIx64 " is used by stream %#" PRIx64
                            ", which is being captured",
                            block->address, use->stream);
        HR__TRY(device->table->event_record(device->context, use->event, use->stream));
        HR__TRY(device->table->event_synchronize(device->context, use->event));
    }
    return HR_OK;
}

void hr__stream_order_forget_uses(hr_pool *pool, hr__block *block)
{
    while (block->uses != NULL) {
        hr__stream_use *use = block->uses;
        block->uses = use->next;
        recycle(&pool->order, use);
    }
}

/* ---- the end, and checks --------------------------------------------------------------------- */

static void end_uses(const hr_device *device, hr__stream_use *use)
{
    for (hr__stream_use *next; use != NULL; use = next) {
        next = use->next;
        (void)device->table->event_destroy(device->context, use->event);
        hr__host_free(use);
    }
}

void hr__stream_order_deinit(hr_pool *pool)
{
    hr__stream_order *order = &pool->order;
    size_t cursor = 0;
    for (const hr__address_map_entry *entry; (entry = hr__address_map_next(&pool->live, &cursor));)
        end_uses(pool->device, ((hr__block *)entry->value)->uses);
    for (hr__block *block = order->deferred; block != NULL;
         block = hr__block_of_node(block->node.left))
        end_uses(pool->device, block->uses);
    for (hr__stream_queue *queue = order->queues, *next; queue != NULL; queue = next) {
        next = queue->next;
        end_uses(pool->device, queue->first);
        hr__host_free(queue);
    }
    end_uses(pool->device, order->spare);
    hr__stream_order_init(order);
}

/* How many blocks wait in the queues, if each has as many uses there as it waits for: then the
 * shares of its uses add up to one. */
static const char *check_queues(const hr__stream_order *order, double *block_count)
{
    for (const hr__stream_queue *queue = order->queues; queue != NULL; queue = queue->next) {
        if ((queue->first == NULL) != (queue->last == NULL))
            return "a queue's ends disagree";
        for (const hr__stream_use *use = queue->first; use != NULL; use = use->next) {
            if (use->stream != queue->stream)
                return "a use waits in another stream's queue";
            if (use->block->state != HR__BLOCK_PENDING || use->block->pending_events == 0)
                return "a use waits for a block that is not pending";
            if (use->next == NULL && queue->last != use)
                return "a queue does not know its last use";
            *block_count += 1.0 / use->block->pending_events;
        }
    }
    return NULL;
}

const char *hr__stream_order_check(const hr_pool *pool)
{
    const hr__stream_order *order = &pool->order;
    double block_count = 0;
    const char *wrong = check_queues(order, &block_count);
    if (wrong != NULL)
        return wrong;
    for (hr__block *block = order->deferred; block != NULL;
         block = hr__block_of_node(block->node.left), block_count += 1.0)
        if (block->state != HR__BLOCK_PENDING)
            return "a deferred block is not pending";
    double missing = (double)(order->pending_count - order->recording_count) - block_count;
    if (missing > 0.01 || missing < -0.01)
        return "pending blocks wait for more or fewer uses than there are";
    return NULL;
}
