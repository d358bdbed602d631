/* pool.h - what a pool is made of, for the files that make it.
 *
 *   pool.c             the two hot paths: vw_alloc, vw_free
 *   pool_lifecycle.c   create, destroy, settings
 *   pool_conf.c        the settings in force
 *   stream_order.c     frees that wait for other streams; graph_order.c: or for a captured graph
 *   pool_private.c     private pools
 *   pool_stats.c       statistics, put together from counters
 *   pool_summary.c     memory_summary()'s text
 *   pool_walk.c        walking, finding, the sink
 *   pool_restore.c     a private pool as it was at a checkpoint
 *   pool_sharing.c     what other processes, devices and GPUs may use
 *   shared_memory.c    other processes' memory; of no pool
 *   pool_paged.c       for engines that move memory: pins, advice, statistics
 *   keep_free.c        idle memory that goes back where the device runs low
 *   host_stock.c       handles in host memory, made ahead and kept, for engines that spill
 *   pool_park.c        parking: its turn, who waits meanwhile, what a full device says;
 *                      park_memory.c and park_file.c: where the bytes go
 *   pool_check.c       every invariant, walked
 *   listing.c          pools that others can watch; listing_values.c: what they tell
 *   oom_report.c       the out-of-memory report; oom_text.c has each release's words for it
 *
 * (Pinned pools are another thing: pinned_pool.h.)
 *
 * Words: live, pending (freed, but another stream may still use it), free. A live block is in
 * `live` under its address; a pending one is not, so a second free of it is refused.
 *
 * One lock guards everything except what says otherwise. */
#ifndef VW_POOL_POOL_H
#define VW_POOL_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "vramwise/vramwise.h"
#include "base/error.h"
#include "base/fork_guard.h"
#include "base/ranked_mutex.h"
#include "engine/block_map.h"
#include "engine/driver_calls.h"
#include "engine/engine_base.h"
#include "engine/engine_list.h"          /* vw__engine_kind */
#include "engine/torch/torch_versions.h" /* vw__torch_rules */
#include "pool/host_stock.h"
#include "pool/keep_free.h"
#include "pool/listing.h"
#include "pool/stream_order.h"

/* Parking, besides what the engine does. */
typedef struct vw__pool_parking {
    vw_park_guard guard;  /* set at creation, then read-only; both functions, or none */
    pthread_mutex_t turn; /* held by whoever parks or wakes; taken before the pool's lock */
    bool is_promised;     /* by whoever has the turn */
    bool is_held;         /* launches are, by the guard; guarded by the pool's lock */
    vw__stock *regions;   /* owned; NULL: none yet; guarded by the pool's lock until it is there */
    vw__stock *tape;      /* likewise: what everything is parked on */

    pthread_mutex_t lock; /* guards the rest; held while nothing else is taken */
    pthread_cond_t has_woken;
    uint64_t wakes;
    uint64_t wait_ms; /* that a request for parked memory waits */
} vw__pool_parking;

struct vw_pool {
    /* A waiter looks at it: on a line of its own, and on one that processors do not fetch together
     * with the next. */
    vw__mutex lock __attribute__((aligned(128)));

    vw__engine *engine __attribute__((aligned(128)));
    vw__block_map live;       /* the live blocks, by address */
    vw__stream_order order;   /* uses by other streams, and frees that wait for them */
    uint32_t fork_generation; /* set at creation, then read-only */
    bool has_sink;
    vw_event_sink sink;
    vw__engine_cause
        cause; /* of events now; zero whenever the lock is free; unused without a sink */
    uint64_t request_count; /* served since there is a sink */
    vw__counters counters;  /* shared with the engine */

    vw_device *device;              /* set at creation, then read-only */
    const char *engine_name;        /* the same: the engine's table may change while it runs */
    int64_t max_split_at_creation;  /* as memory_stats() shows it; read-only */
    bool (*reclaim)(void *context); /* set at creation, then read-only; may be NULL */
    void *reclaim_context;
    bool (*make_room)(void *context, uint64_t size_bytes); /* the same */
    void *make_room_context;
    bool is_shareable;        /* set at creation, then read-only */
    vw_safe_point safe_point; /* set at creation, then read-only; both functions, or none */
    void (*prepare_safe_point)(void *context); /* the same; with its context; may be NULL */
    vw__torch_rules wording;         /* the release whose texts and statistics users are shown;
                                        set at creation, then read-only */
    vw__stock *host_stock;           /* owned, with its thread; NULL: the engine wants none */
    vw_pinned_budget *pinned_budget; /* for the stock, like the next; set at creation */
    uint64_t spill_bytes;
    uint64_t keep_free_bytes;      /* set at creation, then read-only */
    vw__keep_free *keeper;         /* owned, with its thread; NULL: none is wanted */
    vw__driver_meter driver_meter; /* atomic: some calls are made without the lock */
    vw__listing listing;           /* the list's, not the pool's lock's */
    vw__pool_parking parking;
};

/* A call that events name as their cause, by its return address: never part of its caller. */
#define VW__POOL_NAMED_CALL __attribute__((noinline))

/* VW_OK if the pool may be used: not NULL, and not the parent process's. */
static inline vw_status vw__pool_enter(const vw_pool *pool)
{
    if (__builtin_expect(pool == NULL, 0))
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "the pool is NULL");
    if (__builtin_expect(pool->fork_generation != vw__fork_generation(), 0))
        return vw__fail(VW_ERR_WRONG_PROCESS,
                        "the pool belongs to the parent process: make one after fork()");
    return VW_OK;
}

/* Refuses an address. */
vw_status vw__pool_not_live(vw_device_ptr address);

static inline void vw__pool_lock(const vw_pool *pool)
{
    vw__mutex_lock((vw__mutex *)(uintptr_t)&pool->lock);
}

static inline void vw__pool_unlock(const vw_pool *pool)
{
    vw__mutex_unlock((vw__mutex *)(uintptr_t)&pool->lock);
}

/* The one place where listeners are called. */
static inline void vw__pool_tell(const vw_pool *pool, vw_memory_event event)
{
    event.request = pool->cause.request;
    event.caller = pool->cause.caller;
    pool->sink.notice(pool->sink.context, &event);
}

/* Takes the listener away if it is the one with this context. */
vw_status vw__pool_take_sink_away(vw_pool *pool, const void *sink_context);

/* Tells the listener about a block. */
static inline void vw__pool_notice(vw_pool *pool, vw_action action, const vw__block *block)
{
    if (__builtin_expect(!pool->has_sink, 1))
        return;
    vw__pool_tell(pool, (vw_memory_event){
                            .action = action,
                            .address = block->address,
                            .size_bytes = block->requested_bytes,
                            .stream = vw__block_stream(block),
                            .private_id = vw__block_private_id(block),
                            .tag = block->tag,
                        });
}

/* Attributes later events to this request, or to the named API call. Under the lock, as everything
 * here; vw__pool_end_cause() comes before it is dropped. */
static inline void vw__pool_begin_request(vw_pool *pool, const void *caller)
{
    if (__builtin_expect(pool->has_sink, 0))
        pool->cause = (vw__engine_cause){++pool->request_count, caller};
}

static inline void vw__pool_begin_call(vw_pool *pool, const void *caller)
{
    pool->cause = (vw__engine_cause){0, caller};
}

static inline void vw__pool_end_cause(vw_pool *pool)
{
    if (__builtin_expect(pool->has_sink, 0))
        pool->cause = (vw__engine_cause){0, NULL};
}

/* Drops the lock in the middle of a request, and takes it again. */
static inline vw__engine_cause vw__pool_pause(vw_pool *pool)
{
    vw__engine_cause cause = pool->cause;
    pool->cause = (vw__engine_cause){0, NULL};
    vw__pool_unlock(pool);
    return cause;
}

static inline void vw__pool_resume(vw_pool *pool, vw__engine_cause cause)
{
    vw__pool_lock(pool);
    pool->cause = cause;
}

/* Counts a block off that nobody uses any more, tells listeners and gives it back to the engine.
 * Under the lock. */
static inline void vw__pool_complete_free(vw_pool *pool, vw__block *block)
{
    vw__counters *counters = &pool->counters;
    vw__engine_size_kind kind = vw__block_kind(block);
    vw__pool_notice(pool, VW_ACTION_FREE_COMPLETED, block);
    vw__counter_down(&counters->active, kind, 1);
    vw__counter_down(&counters->active_bytes, kind, (int64_t)block->size_bytes);
    vw__counter_down(&counters->requested_bytes, kind, (int64_t)block->requested_bytes);
    pool->engine->table->free(pool->engine, block);
}

/* Files a block that the engine hands out under its address, counts it and tells listeners. Under
 * the lock; there is room in the map of live blocks. */
static inline void vw__pool_file_block(vw_pool *pool, vw__block *block)
{
    vw__counters *counters = &pool->counters;
    vw__engine_size_kind kind = vw__block_kind(block);
    int64_t size_bytes = (int64_t)block->size_bytes;
    vw__block_map_insert(&pool->live, block);
    vw__counter_up(&counters->allocation, kind, 1);
    vw__counter_up(&counters->allocated_bytes, kind, size_bytes);
    vw__counter_up(&counters->active, kind, 1);
    vw__counter_up(&counters->active_bytes, kind, size_bytes);
    vw__counter_up(&counters->requested_bytes, kind, (int64_t)block->requested_bytes);
    if (block->size_bytes >= pool->engine->max_split_bytes)
        vw__counter_up(&counters->oversize_allocations, VW__ENGINE_LARGE, 1);
    vw__pool_notice(pool, VW_ACTION_ALLOC, block);
}

/* The block is out of the map of live blocks. Under the lock, which stream order may drop for a
 * while. */
static inline vw_status vw__pool_take_back(vw_pool *pool, vw__block *block)
{
    vw__counters *counters = &pool->counters;
    vw__engine_size_kind kind = vw__block_kind(block);
    vw__counter_down(&counters->allocation, kind, 1);
    vw__counter_down(&counters->allocated_bytes, kind, (int64_t)block->size_bytes);
    vw__pool_notice(pool, VW_ACTION_FREE_REQUESTED, block);
    if (__builtin_expect(block->size_bytes >= pool->engine->max_split_bytes, 0))
        vw__counter_down(&counters->oversize_allocations, VW__ENGINE_LARGE, 1);
    if (__builtin_expect(block->uses != NULL, 0))
        return vw__stream_order_defer(pool, block);
    vw__pool_complete_free(pool, block);
    return VW_OK;
}

/* vw_pool_create(), with an engine of any kind: options->engine does not choose. */
vw_status vw__pool_create(vw_device *device, const vw_pool_options *options,
                          const vw__engine_kind *kind, vw_pool **out);

/* The use count of a private pool. Under the lock. */
static inline int vw__pool_use_count(const vw_pool *pool, vw_private_id id)
{
    const vw__engine_table *table = pool->engine->table;
    return table->private_use_count != NULL ? table->private_use_count(pool->engine, id) : 0;
}

/* VW_ERR_UNSUPPORTED: the engine's table leaves out what `what` takes. */
vw_status vw__pool_unsupported(const vw_pool *pool, const char *what);

/* Statistics of memory that moves, after struct_size. False: the engine has none. */
bool vw__pool_move_stats(const vw_pool *pool, vw_paged_stats *stats);

/* ---- pool_park.c ---- */

void vw__pool_begin_parking(vw_pool *pool, const vw_park_guard *guard);
void vw__pool_end_parking(vw_pool *pool); /* after the engine */
/* For the engine, under the lock. */
bool vw__pool_hold_launches(void *context);
void vw__pool_let_launches_go(void *context);
/* Takes the lock. */
bool vw__pool_can_park(const vw_pool *pool);
/* The number of wakes so far; and waiting, without the lock, until there are more. False: not
 * within the time that was asked for, which began at `since_ns`. */
uint64_t vw__pool_count_wakes(vw_pool *pool);
bool vw__pool_wait_for_wake(vw_pool *pool, uint64_t wakes, uint64_t since_ns);

/* pool_stats.c: since the pool was made, whatever was reset. Under the lock. */
vw__counter_forgotten vw__pool_ever(const vw_pool *pool);

#endif /* VW_POOL_POOL_H */
