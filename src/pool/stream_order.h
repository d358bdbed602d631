/* stream_order.h - blocks used by streams other than their own.
 *
 * A block belongs to one stream, and work queued there is done with it before work queued later
 * begins, so it can be reused at once. If another stream uses it too, its free is not complete
 * before that stream has come to the point of the free: an event is recorded on each such stream,
 * and the block waits, PENDING, until all are complete. Each stream has a queue of its own, in
 * order; its first incomplete event holds up only that queue.
 *
 * vw_free() must not need memory, so a use (a record with an event of its own) is made when the use
 * is announced, by vw_record_stream(), and recycled afterwards. Events are recorded without the
 * pool's lock; looking at them happens under it, because the search that follows must see the
 * blocks that came free.
 *
 * While a graph is captured no event may be looked at: frees are deferred until it ends, and uses
 * announced during the capture are dropped then, as PyTorch does. If the engine reuses blocks in
 * captures, the graph itself may say earlier that a block's uses are over (graph_order.h). */
#ifndef VW_POOL_STREAM_ORDER_H
#define VW_POOL_STREAM_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/vramwise.h"
#include "engine/block.h"
#include "pool/graph_order.h"

typedef struct vw__stream_order_use {
    struct vw__stream_order_use *next; /* of the block's uses, its queue, or the spare ones */
    vw_stream stream;
    vw_device_event event;
    vw__block *block;
    bool is_recorded;     /* false in a queue: recording failed, only waiting for all helps */
    bool is_from_capture; /* announced only for work that is part of a graph */
    bool is_in_graph;     /* announced for such work, too */
    vw__graph_order_marks *marks; /* owned; with the first use of a deferred block, else NULL */
} vw__stream_order_use;

typedef struct vw__stream_order_queue {
    struct vw__stream_order_queue *next;
    vw_stream stream;
    vw__stream_order_use *first;
    vw__stream_order_use *last;
} vw__stream_order_queue;

typedef struct vw__stream_order {
    size_t pending_count;   /* blocks that wait, deferred ones and those below included */
    size_t recording_count; /* of those, blocks whose events are being recorded without the lock */
    vw__stream_order_queue *queues; /* one per stream that was ever named */
    vw__stream_order_use *spare;
    vw__block *deferred;         /* freed while capturing, linked through node.left, oldest first */
    vw__block **deferred_end;    /* where the next one goes */
    vw__graph_order graph_order; /* for the marks of those */
} vw__stream_order;

void vw__stream_order_init(vw__stream_order *order);

/* Ends every event; the blocks are the engine's. */
void vw__stream_order_deinit(vw_pool *pool);

/* Before a request on `stream`: finishes the frees whose streams have come far enough; while the
 * stream is captured, those of its own that the graph has put in order. Under the lock. */
vw_status vw__stream_order_advance(vw_pool *pool, vw_stream stream);

/* After the end of a scope that routed to `id`. Under the lock. */
void vw__stream_order_end_scope(vw_pool *pool, vw_private_id id);

/* Waits for all of them, or for those of one private pool. Under the lock. */
vw_status vw__stream_order_finish(vw_pool *pool, const vw_private_id *only);

/* Frees a block that has uses: under the lock, which is dropped around the driver calls and held
 * again on return. */
vw_status vw__stream_order_defer(vw_pool *pool, vw__block *block);

/* For a live block that is to be free at once: waits for the streams named for it, as they are now
 * (VW_ERR_WRONG_STATE if one of them is captured); and forgets them. Under the lock, which is kept;
 * the wait changes nothing. */
vw_status vw__stream_order_wait_for_uses(vw_pool *pool, const vw__block *block);
void vw__stream_order_forget_uses(vw_pool *pool, vw__block *block);

/* NULL if all is well, else what is not. Under the lock. */
const char *vw__stream_order_check(const vw_pool *pool);

#endif /* VW_POOL_STREAM_ORDER_H */
