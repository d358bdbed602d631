/* stream_order.c - see stream_order.h. */
#include "pool/stream_order.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "pool/pool.h"

void vw__stream_order_init(vw__stream_order *order)
{
    *order = (vw__stream_order){.pending_count = 0};
    order->deferred_end = &order->deferred;
}

/* ---- announcing a use ------------------------------------------------------------------------ */

static vw__stream_order_queue *find_queue(const vw__stream_order *order, vw_stream stream)
{
    vw__stream_order_queue *queue = order->queues;
    while (queue != NULL && queue->stream != stream)
        queue = queue->next;
    return queue;
}

static vw__stream_order_use *find_use(const vw__block *block, vw_stream stream)
{
    vw__stream_order_use *use = block->uses;
    while (use != NULL && use->stream != stream)
        use = use->next;
    return use;
}

static void recycle(vw__stream_order *order, vw__stream_order_use *use)
{
    use->next = order->spare;
    order->spare = use;
}

/* Makes sure that a spare use and the stream's queue exist. Without the lock: it takes memory and
 * calls the driver. Another thread may have the use when the caller looks again. */
static vw_status prepare_use(vw_pool *pool, vw_stream stream)
{
    const vw_device *device = pool->device;
    vw__stream_order_use *use = vw__host_alloc_zeroed(1, sizeof *use);
    vw__stream_order_queue *queue = vw__host_alloc_zeroed(1, sizeof *queue);
    vw_status status = VW_OK;
    if (use == NULL || queue == NULL)
        status =
            vw__fail_host_memory(sizeof *use + sizeof *queue, "the use of a block by a stream");
    else
        status = device->table->event_create(device->context, &use->event);
    if (status != VW_OK) {
        vw__host_free(use);
        vw__host_free(queue);
        return status;
    }
    vw__pool_lock(pool);
    use->next = pool->order.spare;
    pool->order.spare = use;
    if (find_queue(&pool->order, stream) == NULL) {
        queue->stream = stream;
        queue->next = pool->order.queues;
        pool->order.queues = queue;
        queue = NULL;
    }
    vw__pool_unlock(pool);
    vw__host_free(queue);
    return VW_OK;
}

typedef enum capture_state { NOT_CAPTURED, CAPTURED, NOBODY_KNOWS } capture_state;

/* Asks the device: an engine may take every scope for a capture, and a scope may end while a graph
 * is still captured in another. */
static capture_state ask_device(const vw_pool *pool, vw_stream stream)
{
    const vw_device *device = pool->device;
    bool is_capturing = false;
    if (device->table->stream_is_capturing(device->context, stream, &is_capturing) != VW_OK)
        return NOBODY_KNOWS;
    return is_capturing ? CAPTURED : NOT_CAPTURED;
}

/* Under the lock. False: a spare use or the queue is missing. Where nobody knows whether the use is
 * part of a graph, it is waited for as if it were not, and kept as if it were. */
static bool add_use(vw_pool *pool, vw__block *block, vw_stream stream)
{
    vw__stream_order *order = &pool->order;
    capture_state state = pool->engine->table->is_capturing(pool->engine, stream)
                              ? ask_device(pool, stream)
                              : NOT_CAPTURED;
    vw__stream_order_use *use = find_use(block, stream);
    if (use == NULL) {
        if (order->spare == NULL || find_queue(order, stream) == NULL)
            return false;
        use = order->spare;
        order->spare = use->next;
        use->stream = stream;
        use->block = block;
        use->is_recorded = false;
        use->is_from_capture = true;
        use->is_in_graph = false;
        use->next = block->uses;
        block->uses = use;
    }
    use->is_from_capture &= state == CAPTURED;
    use->is_in_graph |= state != NOT_CAPTURED;
    return true;
}

vw_status vw_record_stream(vw_pool *pool, vw_device_ptr address, vw_stream stream)
{
    VW__TRY(vw__pool_enter(pool));
    if (address == VW_NULL)
        return VW_OK;
    for (;;) {
        vw__pool_lock(pool);
        vw__block *block = vw__block_map_get(&pool->live, address);
        bool is_done =
            block != NULL && (vw__block_stream(block) == stream || add_use(pool, block, stream));
        vw__pool_unlock(pool);
        if (block == NULL)
            return vw__pool_not_live(address);
        if (is_done)
            return VW_OK;
        VW__TRY(prepare_use(pool, stream));
    }
}

vw_status vw_unrecord_stream(vw_pool *pool, vw_device_ptr address, vw_stream stream)
{
    VW__TRY(vw__pool_enter(pool));
    if (address == VW_NULL)
        return VW_OK;
    vw__pool_lock(pool);
    vw__block *block = vw__block_map_get(&pool->live, address);
    vw__stream_order_use **link = block != NULL ? &block->uses : NULL;
    while (link != NULL && *link != NULL && (*link)->stream != stream)
        link = &(*link)->next;
    if (link != NULL && *link != NULL && !(*link)->is_in_graph) {
        vw__stream_order_use *use = *link;
        *link = use->next;
        recycle(&pool->order, use);
    }
    vw__pool_unlock(pool);
    return block != NULL ? VW_OK : vw__pool_not_live(address);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void enqueue(vw__stream_order *order, vw__stream_order_use *use)
{
    vw__stream_order_queue *queue =
        find_queue(order, use->stream); /* made when the use was announced */
    use->next = NULL;
    if (queue->last != NULL)
        queue->last->next = use;
    else
        queue->first = use;
    queue->last = use;
}

static vw_status record(const vw_pool *pool, vw__stream_order_use *uses)
{
    vw_status status = VW_OK;
    for (vw__stream_order_use *use = uses; use != NULL; use = use->next) {
        vw_status one =
            pool->device->table->event_record(pool->device->context, use->event, use->stream);
        use->is_recorded = one == VW_OK;
        if (status == VW_OK)
            status = one;
    }
    return status;
}

static uint32_t enqueue_all(vw__stream_order *order, vw__stream_order_use *uses)
{
    uint32_t count = 0;
    for (vw__stream_order_use *next; uses != NULL; uses = next, count++) {
        next = uses->next;
        enqueue(order, uses);
    }
    return count;
}

/* ---- deferred frees -------------------------------------------------------------------------- */

static void append_deferred(vw__stream_order *order, vw__block *block)
{
    block->node.left = NULL;
    *order->deferred_end = block;
    order->deferred_end = (vw__block **)(void *)&block->node.left;
}

/* All of them, off the list: each goes on, or is appended again. */
static vw__block *take_deferred(vw__stream_order *order)
{
    vw__block *first = order->deferred;
    order->deferred = NULL;
    order->deferred_end = &order->deferred;
    return first;
}

static void unmark(vw__block *block)
{
    vw__host_free(block->uses->marks);
    block->uses->marks = NULL;
}

/* An event recorded in a stream that is captured becomes part of the graph: nobody can ask for it
 * or wait for it, then or later. */
static bool is_used_by_captured_stream(const vw_pool *pool, const vw__block *block)
{
    const vw__stream_order_use *use = block->uses;
    while (use != NULL && !pool->engine->table->is_capturing(pool->engine, use->stream))
        use = use->next;
    return use != NULL;
}

vw_status vw__stream_order_defer(vw_pool *pool, vw__block *block)
{
    vw__stream_order *order = &pool->order;
    block->state = VW__BLOCK_PENDING;
    order->pending_count++;
    bool is_in_capture = pool->engine->table->is_capturing(pool->engine, vw__block_stream(block));
    if (is_in_capture && pool->engine->reuse != VW__ENGINE_REUSE_NOTHING)
        block->uses->marks = vw__graph_order_mark(pool->device, block);
    if (is_in_capture || is_used_by_captured_stream(pool, block)) {
        append_deferred(order, block);
        return VW_OK;
    }
    /* Nobody else can reach the block now, and nobody takes its uses. */
    vw__stream_order_use *uses = block->uses;
    block->uses = NULL;
    order->recording_count++;
    vw__pool_unlock(pool);
    vw_status status = record(pool, uses);
    vw__pool_lock(pool);
    order->recording_count--;
    block->pending_events = enqueue_all(order, uses);
    return status;
}

static void complete(vw_pool *pool, vw__block *block)
{
    pool->order.pending_count--;
    vw__pool_complete_free(pool, block);
}

/* The use at the front of the queue is over. */
static void pop(vw_pool *pool, vw__stream_order_queue *queue)
{
    vw__stream_order_use *use = queue->first;
    vw__block *block = use->block;
    queue->first = use->next;
    if (queue->first == NULL)
        queue->last = NULL;
    recycle(&pool->order, use);
    if (--block->pending_events == 0)
        complete(pool, block);
}

/* The uses of a block that are not part of a graph, in a list of their own. */
static vw__stream_order_use *keep_uses_outside_capture(vw__stream_order *order,
                                                       vw__stream_order_use *uses)
{
    vw__stream_order_use *kept = NULL;
    for (vw__stream_order_use *next; uses != NULL; uses = next) {
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
static void resume_deferred(vw_pool *pool)
{
    vw__stream_order *order = &pool->order;
    vw__engine *engine = pool->engine;
    vw__block *block = take_deferred(order);
    for (vw__block *next; block != NULL; block = next) {
        next = vw__block_of_node(block->node.left);
        if (engine->table->is_capturing(engine, vw__block_stream(block)) ||
            is_used_by_captured_stream(pool, block)) {
            append_deferred(order, block);
            continue;
        }
        unmark(block);
        vw__stream_order_use *uses = keep_uses_outside_capture(order, block->uses);
        block->uses = NULL;
        (void)record(pool, uses); /* what failed waits for vw__stream_order_finish() */
        block->pending_events = enqueue_all(order, uses);
        if (block->pending_events == 0)
            complete(pool, block);
    }
}

/* The graph has the uses in order, or they are part of one that was captured: nobody waits. */
static void complete_without_events(vw_pool *pool, vw__block *block)
{
    unmark(block);
    vw__stream_order_forget_uses(pool, block);
    complete(pool, block);
}

static bool is_marked_on(const vw__block *block, vw_stream stream)
{
    return block->uses->marks != NULL && vw__block_stream(block) == stream;
}

static bool has_marked_on(const vw__stream_order *order, vw_stream stream)
{
    const vw__block *block = order->deferred;
    while (block != NULL && !is_marked_on(block, stream))
        block = vw__block_of_node(block->node.left);
    return block != NULL;
}

static __attribute__((cold, noinline)) void free_what_the_graph_orders(vw_pool *pool,
                                                                       vw_stream stream)
{
    vw__stream_order *order = &pool->order;
    const vw__graph_order_past *past =
        has_marked_on(order, stream)
            ? vw__graph_order_look(&order->graph_order, pool->device, stream)
            : NULL;
    if (past == NULL)
        return;
    vw__block *block = take_deferred(order);
    for (vw__block *next; block != NULL; block = next) {
        next = vw__block_of_node(block->node.left);
        if (is_marked_on(block, stream) && vw__graph_order_is_over(past, block->uses->marks))
            complete_without_events(pool, block);
        else
            append_deferred(order, block);
    }
}

/* A use from before the capture is none of the graph's, and its event can be recorded only when the
 * pool looks at events again. */
static bool is_used_by_captures_only(const vw__block *block)
{
    for (const vw__stream_order_use *use = block->uses; use != NULL; use = use->next)
        if (!use->is_from_capture)
            return false;
    return true;
}

void vw__stream_order_end_scope(vw_pool *pool, vw_private_id id)
{
    vw__stream_order *order = &pool->order;
    vw__graph_order_forget(&order->graph_order);
    if (pool->engine->reuse != VW__ENGINE_REUSE_ALSO_AT_END)
        return;
    vw__block *block = take_deferred(order);
    for (vw__block *next; block != NULL; block = next) {
        next = vw__block_of_node(block->node.left);
        if (vw__private_id_same(vw__block_private_id(block), id) &&
            is_used_by_captures_only(block) &&
            ask_device(pool, vw__block_stream(block)) == NOT_CAPTURED)
            complete_without_events(pool, block);
        else
            append_deferred(order, block);
    }
}

vw_status vw__stream_order_advance(vw_pool *pool, vw_stream stream)
{
    const vw_device *device = pool->device;
    if (pool->engine->table->is_capturing(pool->engine, stream)) {
        if (pool->engine->reuse != VW__ENGINE_REUSE_NOTHING)
            free_what_the_graph_orders(pool, stream);
        return VW_OK;
    }
    resume_deferred(pool);
    for (vw__stream_order_queue *queue = pool->order.queues; queue != NULL; queue = queue->next) {
        while (queue->first != NULL && queue->first->is_recorded) {
            vw_status status = device->table->event_query(device->context, queue->first->event);
            if (status == VW_ERR_NOT_READY)
                break;
            VW__TRY(status);
            pop(pool, queue);
        }
    }
    return VW_OK;
}

static vw_status wait_for(const vw_device *device, const vw__stream_order_use *use)
{
    return use->is_recorded ? device->table->event_synchronize(device->context, use->event)
                            : device->table->synchronize(device->context);
}

vw_status vw__stream_order_finish(vw_pool *pool, const vw_private_id *only)
{
    pool->counters.num_sync_all_streams++;
    resume_deferred(pool);
    for (vw__stream_order_queue *queue = pool->order.queues; queue != NULL; queue = queue->next) {
        vw__stream_order_use *kept =
            NULL; /* the last use of another private pool, left in its place */
        vw__stream_order_use *use = queue->first;
        while (use != NULL) {
            vw__stream_order_use *next = use->next;
            if (only != NULL && !vw__private_id_same(vw__block_private_id(use->block), *only)) {
                kept = use;
            } else {
                VW__TRY(wait_for(pool->device, use));
                if (kept == NULL) {
                    pop(pool, queue);
                } else {
                    kept->next = next;
                    if (next == NULL)
                        queue->last = kept;
                    vw__block *block = use->block;
                    recycle(&pool->order, use);
                    if (--block->pending_events == 0)
                        complete(pool, block);
                }
            }
            use = next;
        }
    }
    return VW_OK;
}

/* ---- not waiting its turn -------------------------------------------------------------------- */

vw_status vw__stream_order_wait_for_uses(vw_pool *pool, const vw__block *block)
{
    const vw_device *device = pool->device;
    for (const vw__stream_order_use *use = block->uses; use != NULL; use = use->next) {
        if (use->is_from_capture)
            continue; /* part of a graph */
        if (pool->engine->table->is_capturing(pool->engine, use->stream))
            return vw__fail(VW_ERR_WRONG_STATE,
                            "block %#" PRIx64 " is used by stream %#" PRIx64
                            ", which is being captured",
                            block->address, use->stream);
        VW__TRY(device->table->event_record(device->context, use->event, use->stream));
        VW__TRY(device->table->event_synchronize(device->context, use->event));
    }
    return VW_OK;
}

void vw__stream_order_forget_uses(vw_pool *pool, vw__block *block)
{
    while (block->uses != NULL) {
        vw__stream_order_use *use = block->uses;
        block->uses = use->next;
        recycle(&pool->order, use);
    }
}

/* ---- the end, and checks --------------------------------------------------------------------- */

static void end_uses(const vw_device *device, vw__stream_order_use *use)
{
    for (vw__stream_order_use *next; use != NULL; use = next) {
        next = use->next;
        (void)device->table->event_destroy(device->context, use->event);
        vw__host_free(use->marks);
        vw__host_free(use);
    }
}

void vw__stream_order_deinit(vw_pool *pool)
{
    vw__stream_order *order = &pool->order;
    size_t cursor = 0;
    for (const vw__block *block; (block = vw__block_map_next(&pool->live, &cursor)) != NULL;)
        end_uses(pool->device, block->uses);
    for (vw__block *block = order->deferred; block != NULL;
         block = vw__block_of_node(block->node.left))
        end_uses(pool->device, block->uses);
    for (vw__stream_order_queue *queue = order->queues, *next; queue != NULL; queue = next) {
        next = queue->next;
        end_uses(pool->device, queue->first);
        vw__host_free(queue);
    }
    end_uses(pool->device, order->spare);
    vw__graph_order_forget(&order->graph_order);
    vw__stream_order_init(order);
}

/* How many blocks wait in the queues, if each has as many uses there as it waits for: then the
 * shares of its uses add up to one. */
static const char *check_queues(const vw__stream_order *order, double *block_count)
{
    for (const vw__stream_order_queue *queue = order->queues; queue != NULL; queue = queue->next) {
        if ((queue->first == NULL) != (queue->last == NULL))
            return "a queue's ends disagree";
        for (const vw__stream_order_use *use = queue->first; use != NULL; use = use->next) {
            if (use->stream != queue->stream)
                return "a use waits in another stream's queue";
            if (use->block->state != VW__BLOCK_PENDING || use->block->pending_events == 0)
                return "a use waits for a block that is not pending";
            if (use->next == NULL && queue->last != use)
                return "a queue does not know its last use";
            *block_count += 1.0 / use->block->pending_events;
        }
    }
    return NULL;
}

const char *vw__stream_order_check(const vw_pool *pool)
{
    const vw__stream_order *order = &pool->order;
    double block_count = 0;
    const char *wrong = check_queues(order, &block_count);
    if (wrong != NULL)
        return wrong;
    for (vw__block *block = order->deferred; block != NULL;
         block = vw__block_of_node(block->node.left), block_count += 1.0)
        if (block->state != VW__BLOCK_PENDING)
            return "a deferred block is not pending";
    double missing = (double)(order->pending_count - order->recording_count) - block_count;
    if (missing > 0.01 || missing < -0.01)
        return "pending blocks wait for more or fewer uses than there are";
    return NULL;
}
