/* pinned_pool.h - what a pinned pool is made of, for the files that make it.
 *
 *   pinned_pool.c         create, destroy, and the two hot paths: allocate and free
 *   pinned_streams.c      uses by streams, and blocks that wait for them
 *   pinned_memory.c       where memory comes from and goes to: the device, the reserve
 *   pinned_background.c   the thread that looks after waiting blocks
 *   pinned_private.c      private pools, and which one a request belongs to
 *   pinned_inspect.c      statistics, and every invariant, walked
 *
 * Words: a *shelf* is the default pool or one private pool: 64 buckets of cached blocks, and the
 * queue of events that its freed blocks wait for. A block is
 *
 *   LIVE        handed out
 *   RECORDING   freed; its events are being recorded, without the lock
 *   WAITING     freed; some of its events are in the shelf's queue
 *   STUCK       freed; an event could not be recorded, since that failed or the stream was
 *               captured: waits for the whole device
 *   KEPT        freed, but part of a captured graph: never reused
 *   CACHED      in a bucket
 *   LEAVING     out of the tree, on its way back to the device, without the lock
 *
 * and is *active* in the first five. The tree holds all but LEAVING ones: the device may hand out a
 * leaving block's address again before we come back to its record.
 *
 * PyTorch has a lock per bucket, per queue and per block. Here one lock guards everything that does
 * not say otherwise; what can be slow (taking memory, giving it back, recording events, waiting)
 * happens without it. Looking at events happens under it: the search that follows must see the
 * blocks that came free.
 *
 * Two rules of PyTorch need no switch by version. Before 2.13 sizes were always powers of two and
 * the last block of a bucket was taken unseen; since then a bucket is searched from its end for a
 * block that is large enough. With powers of two only, that is the last one, and before 2.13 no
 * setting makes anything else. */
#ifndef VW_POOL_PINNED_POOL_H
#define VW_POOL_PINNED_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/pinned.h"
#include "base/error.h"
#include "base/fork_guard.h"
#include "base/guest_thread.h"
#include "base/ordered_tree.h"
#include "base/ranked_mutex.h"
#include "engine/torch/torch_settings.h"
#include "pool/listing.h"

#define VW__PINNED_BUCKETS 64
#define VW__PINNED_PAGE_BYTES 4096 /* PyTorch's, in the reserve */

typedef struct vw__pinned_shelf vw__pinned_shelf;
typedef struct vw__pinned_block vw__pinned_block;

typedef enum vw__pinned_state {
    VW__PINNED_LIVE,
    VW__PINNED_RECORDING,
    VW__PINNED_WAITING,
    VW__PINNED_STUCK,
    VW__PINNED_KEPT,
    VW__PINNED_CACHED,
    VW__PINNED_LEAVING,
} vw__pinned_state;

/* One stream's use of one block, with an event of its own: made when the use is announced, so that
 * free needs no memory, and recycled afterwards. */
typedef struct vw__pinned_use {
    struct vw__pinned_use *next; /* of the block's uses, the spare ones, or towards the oldest */
    struct vw__pinned_use *previous; /* in a queue: towards the newest */
    vw__pinned_block *block;
    vw_stream stream;
    vw_device_event event;
} vw__pinned_use;

struct vw__pinned_block {
    vw__tree_node node;     /* in the pool's tree, by address; first, to get back from it */
    vw__pinned_block *next; /* towards the newest: in a bucket, or in a list of stuck or leaving */
    vw__pinned_block *previous; /* in a bucket: towards the oldest */
    vw__pinned_shelf *shelf;    /* where it returns to */
    vw__pinned_use *uses;       /* of a live block */
    char *address;
    uint64_t size_bytes;
    size_t event_count; /* of a waiting block: its uses in the queue */
    size_t seen_count;  /* vw_pinned_pool_check()'s */
    vw__pinned_state state;
    bool is_from_capture; /* set whenever it is handed out */
    bool is_registered;   /* our own memory, locked by the device; else the device's */
    bool is_of_reserve;   /* cut from the reserve: not given back */
};

typedef struct vw__pinned_list {
    vw__pinned_block *oldest;
    vw__pinned_block *newest;
} vw__pinned_list;

/* Events are pushed at the newest end and looked at from the oldest. */
typedef struct vw__pinned_queue {
    vw__pinned_use *newest;
    vw__pinned_use *oldest;
    size_t count;
} vw__pinned_queue;

struct vw__pinned_shelf {
    vw__pinned_shelf *next; /* of the private ones, in the order they were made */
    vw_private_id id;       /* (0, 0): the default one */
    int use_count;          /* of a private one */
    size_t block_count;     /* in the tree */
    size_t away_count;      /* leaving, or promised: memory is being taken for them */
    vw__pinned_queue queue;
    vw__pinned_list buckets[VW__PINNED_BUCKETS]; /* by ceil(log2(size_bytes)) */
};

/* Requests routed to a private pool. */
typedef struct vw__pinned_scope {
    struct vw__pinned_scope *next; /* the one begun after it */
    vw__pinned_shelf *shelf;
    vw_scope_filter filter; /* NULL: every request */
    void *context;
} vw__pinned_scope;

/* A large range from which blocks are cut, one after the other. */
typedef struct vw__pinned_reserve {
    char *start; /* NULL: not there yet */
    uint64_t size_bytes;
    uint64_t used_bytes;
    bool is_registered;
    bool is_being_made; /* by a thread without the lock; others do without the reserve meanwhile */
} vw__pinned_reserve;

typedef struct vw__pinned_counters {
    vw_stat allocations;
    vw_stat allocated_bytes;
    vw_stat active_requests[VW__PINNED_BUCKETS];
    vw_stat active_bytes[VW__PINNED_BUCKETS];
    vw_duration_stat host_alloc_time; /* avg is filled in when somebody looks */
    vw_duration_stat host_free_time;
} vw__pinned_counters;

struct vw_pinned_pool {
    vw__mutex lock;
    uint32_t fork_generation;    /* set at creation, then read-only */
    vw_device *device;           /* set at creation, then read-only */
    vw_pinned_budget *budget;    /* likewise; or NULL */
    vw__torch_settings settings; /* set at creation, then read-only */

    vw__tree_node *blocks; /* all but the leaving ones, by address */
    vw__pinned_shelf default_shelf;
    vw__pinned_shelf *private_shelves;
    vw__pinned_scope *scopes; /* oldest first */
    vw__pinned_use *spare_uses;
    vw__pinned_block *stuck; /* linked by `next` */
    size_t leaving_count;
    vw__pinned_reserve reserve;
    vw__pinned_counters counters;

    vw__guest_thread_listed background; /* the list's */
    bool is_background_running;         /* the thread was started, or is about to be */
    bool is_background_stopping;
    vw__listing listing; /* the list's, not the lock's */
};

/* VW_OK if the pool may be used: not NULL, and not the parent process's. */
static inline vw_status vw__pinned_enter(const vw_pinned_pool *pool)
{
    if (pool == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "the pinned pool is NULL");
    if (pool->fork_generation != vw__fork_generation())
        return vw__fail(VW_ERR_WRONG_PROCESS,
                        "the pinned pool belongs to the parent process: make one after fork()");
    return VW_OK;
}

static inline void vw__pinned_lock(const vw_pinned_pool *pool)
{
    vw__mutex_lock((vw__mutex *)(uintptr_t)&pool->lock);
}

static inline void vw__pinned_unlock(const vw_pinned_pool *pool)
{
    vw__mutex_unlock((vw__mutex *)(uintptr_t)&pool->lock);
}

static inline bool vw__pinned_before(const vw__tree_node *a, const vw__tree_node *b)
{
    return ((const vw__pinned_block *)(const void *)a)->address <
           ((const vw__pinned_block *)(const void *)b)->address;
}

static inline bool vw__pinned_same_id(vw_private_id a, vw_private_id b)
{
    return a.first == b.first && a.second == b.second;
}

/* ---- pinned_pool.c: all under the lock ------------------------------------------------------- */

/* Which bucket a size belongs to. The size is not 0 and below 2^63. */
unsigned vw__pinned_bucket(uint64_t size_bytes);

/* The live block that holds `address`, or NULL. */
vw__pinned_block *vw__pinned_find_live(const vw_pinned_pool *pool, const void *address);

/* A freed block that nobody uses any more: no longer active; cached, or, above the limit, taken out
 * of the tree and put on `leaving` for vw__pinned_give_back(). */
void vw__pinned_settle(vw_pinned_pool *pool, vw__pinned_block *block, vw__pinned_list *leaving);

/* Puts a leaving block back into the tree and into its bucket: as the newest, or as the oldest. */
void vw__pinned_return(vw_pinned_pool *pool, vw__pinned_block *block, bool as_oldest);

/* ---- pinned_streams.c ------------------------------------------------------------------------ */

/* Lets blocks settle whose events are complete, oldest event first, up to the first that is not.
 * Under the lock. */
vw_status vw__pinned_advance(vw_pinned_pool *pool, vw__pinned_shelf *shelf,
                             vw__pinned_list *leaving);

/* Looks through the whole queue for one block of exactly `size_bytes` that can settle. Under the
 * lock. */
vw_status vw__pinned_advance_size(vw_pinned_pool *pool, vw__pinned_shelf *shelf,
                                  uint64_t size_bytes, vw__pinned_list *leaving);

/* Frees a block that has uses. Under the lock, which is dropped while events are recorded and held
 * again on return. */
vw_status vw__pinned_defer(vw_pinned_pool *pool, vw__pinned_block *block);

/* Waits for the whole device if there are stuck blocks, and settles them. Without the lock. */
vw_status vw__pinned_unstick(vw_pinned_pool *pool, vw__pinned_list *leaving);

/* Ends every event. */
void vw__pinned_streams_deinit(vw_pinned_pool *pool);

/* ---- pinned_memory.c: all without the lock --------------------------------------------------- */

/* Fills in where `block` lies, from the reserve or the device; its size is set already. */
vw_status vw__pinned_take(vw_pinned_pool *pool, vw__pinned_block *block);

/* Gives the list of leaving blocks back and ends their records, in order, up to the first failure.
 * Those left return to their buckets: to the old end if they were cached before (`were_cached`). */
vw_status vw__pinned_give_back(vw_pinned_pool *pool, vw__pinned_list *leaving, bool were_cached);

/* At the end of the pool: gives back whatever it holds, the reserve last. */
void vw__pinned_memory_deinit(vw_pinned_pool *pool);

/* ---- pinned_background.c --------------------------------------------------------------------- */

/* Starts the thread if it does not run. Where none can be had the allocations go on looking at
 * events themselves, and the next call tries again. Without the lock. */
void vw__pinned_background_start(vw_pinned_pool *pool);

/* Ends it, if it runs. False: the process ends, and the thread is stuck in the driver. It still has
 * the pool. */
bool vw__pinned_background_stop(vw_pinned_pool *pool);

/* ---- pinned_private.c: all under the lock ---------------------------------------------------- */

/* Where a request made on `stream` belongs. */
vw__pinned_shelf *vw__pinned_route(vw_pinned_pool *pool, vw_stream stream);

/* True if `stream` is capturing. A capture begins inside a scope, so without one the device is not
 * asked.
 */
vw_status vw__pinned_is_capturing(const vw_pinned_pool *pool, vw_stream stream, bool *out);

/* Ends the private shelves that nobody uses and that hold nothing. */
void vw__pinned_drop_unused(vw_pinned_pool *pool);

void vw__pinned_private_deinit(vw_pinned_pool *pool);

/* ---- pinned_inspect.c: all under the lock ---------------------------------------------------- */

void vw__pinned_count_up(vw_stat *stat, uint64_t amount);
void vw__pinned_count_down(vw_stat *stat, uint64_t amount);
void vw__pinned_count_time(vw_duration_stat *stat, uint64_t nanoseconds);

#endif /* VW_POOL_PINNED_POOL_H */
