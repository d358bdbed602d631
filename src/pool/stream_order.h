/* stream_order.h - blocks used by streams other than their own.
 *
 * A block belongs to one stream, and work queued there is done with it before work queued later
 * begins, so it can be reused at once. If another stream uses it too, its free is not complete
 * before that stream has come to the point of the free: an event is recorded on each such stream,
 * and the block waits, PENDING, until all are complete. Each stream has a queue of its own, in
 * order; its first incomplete event holds up only that queue.
 *
 * hr_free() must not need memory, so a use (a record with an event of its own) is made when the use
 * is announced, by hr_record_stream(), and recycled afterwards. Events are recorded without the
 * pool's lock; looking at them happens under it, because the search that follows must see the
 * blocks that came free.
 *
 * While a graph is captured no event may be looked at: frees are deferred until it ends, and uses
 * announced during the capture are dropped then, as PyTorch does. */
#ifndef HR_POOL_STREAM_ORDER_H
#define HR_POOL_STREAM_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/headroom.h"
#include "engine/block.h"

typedef struct hr__stream_use {
    struct hr__stream_use *next; /* of the block's uses, its queue, or the spare ones */
    hr_stream stream;
    hr_device_event event;
    hr__block *block;
    bool is_recorded;     /* false in a queue: recording failed, only waiting for all helps */
    bool is_from_capture; /* announced while capturing */
} hr__stream_use;

typedef struct hr__stream_queue {
    struct hr__stream_queue *next;
    hr_stream stream;
    hr__stream_use *first;
    hr__stream_use *last;
} hr__stream_queue;

typedef struct hr__stream_order {
    size_t pending_count;   /* blocks that wait, deferred ones and those below included */
    size_t recording_count; /* of those, blocks whose events are being recorded without the lock */
    hr__stream_queue *queues; /* one per stream that was ever named */
    hr__stream_use *spare;
    hr__block *deferred;      /* freed while capturing, linked through node.left, oldest first */
    hr__block **deferred_end; /* where the next one goes */
} hr__stream_order;

void hr__stream_order_init(hr__stream_order *order);

/* Ends every event; the blocks are the engine's. */
void hr__stream_order_deinit(hr_pool *pool);

/* Finishes the frees whose streams have come far enough. Under the lock. */
hr_status hr__stream_order_advance(hr_pool *pool);

/* Waits for all of them, or for those of one private pool. Under the lock. */
hr_status hr__stream_order_finish(hr_pool *pool, const hr_private_id *only);

/* Frees a block that has uses: under the lock, which is dropped around the driver calls and held
 * again on return. */
hr_status hr__stream_order_defer(hr_pool *pool, hr__block *block);

/* For a live block that is to be free at once: waits for the streams named for it, as they are now
 * (HR_ERR_WRONG_STATE if one of them is captured); and forgets them. Under the lock, which is kept;
 * the wait changes nothing. */
hr_status hr__stream_order_wait_for_uses(hr_pool *pool, const hr__block *block);
void hr__stream_order_forget_uses(hr_pool *pool, hr__block *block);

/* NULL if all is well, else what is not. Under the lock. */
const char *hr__stream_order_check(const hr_pool *pool);

#endif /* HR_POOL_STREAM_ORDER_H */
