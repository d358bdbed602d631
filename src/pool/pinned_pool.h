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
 *   STUCK       freed; an event could not be recorded: waits for the whole device
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
#ifndef HR_POOL_PINNED_POOL_H
#define HR_POOL_PINNED_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/pinned.h"
#include "base/error.h"
#include "base/fork_guard.h"
#include "base/ordered_tree.h"
#include "base/ranked_mutex.h"
#include "engine/torch/torch_settings.h"
#include "pool/listing.h"

#define HR__PINNED_BUCKETS 64
#define HR__PINNED_PAGE_BYTES 4096 /* PyTorch's, for pre-faulting and in the reserve */

typedef struct hr__pinned_shelf hr__pinned_shelf;
typedef struct hr__pinned_block hr__pinned_block;

typedef enum hr__pinned_state {
    HR__PINNED_LIVE,
    HR__PINNED_RECORDING,
    HR__PINNED_WAITING,
    HR__PINNED_STUCK,
    HR__PINNED_KEPT,
    HR__PINNED_CACHED,
    HR__PINNED_LEAVING,
} hr__pinned_state;

/* One stream's use of one block, with an event of its own: made when the use is announced, so that
 * free needs no memory, and recycled afterwards. */
typedef struct hr__pinned_use {
    struct hr__pinned_use *next; /* of the block's uses, the spare ones, or towards the oldest */
    struct hr__pinned_use *previous; /* in a queue: towards the newest */
    hr__pinned_block *block;
    hr_stream stream;
    hr_device_event event;
} hr__pinned_use;

struct hr__pinned_block {
    hr__tree_node node;     /* in the pool's tree, by address; first, to get back from it */
    hr__pinned_block *next; /* towards the newest: in a bucket, or in a list of stuck or leaving */
    hr__pinned_block *previous; /* in a bucket: towards the oldest */
    hr__pinned_shelf *shelf;    /* where it returns to */
    hr__pinned_use *uses;       /* of a live block */
    char *address;
    uint64_t size_bytes;
    size_t event_count; /* of a waiting block: its uses in the queue */
    size_t seen_count;  /* hr_pinned_pool_check()'s */
    hr__pinned_state state;
    bool is_from_capture; /* set whenever it is handed out */
    bool is_registered;   /* our own memory, locked by the device; else the device's */
    bool is_of_reserve;   /* cut from the reserve: not given back */
};

typedef struct hr__pinned_list {
    hr__pinned_block *oldest;
    hr__pinned_block *newest;
} hr__pinned_list;

/* Events are pushed at the newest end and looked at from the oldest. */
typedef struct hr__pinned_queue {
    hr__pinned_use *newest;
    hr__pinned_use *oldest;
    size_t count;
} hr__pinned_queue;

struct hr__pinned_shelf {
    hr__pinned_shelf *next; /* of the private ones, in the order they were made */
    hr_private_id id;       /* (0, 0): the default one */
    int use_count;          /* of a private one */
    size_t block_count;     /* in the tree */
    size_t away_count;      /* leaving, or promised: memory is being taken for them */
    hr__pinned_queue queue;
    hr__pinned_list buckets[HR__PINNED_BUCKETS]; /* by ceil(log2(size_bytes)) */
};

/* Requests routed to a private pool. */
typedef struct hr__pinned_scope {
    struct hr__pinned_scope *next; /* the one begun after it */
    hr__pinned_shelf *shelf;
    hr_scope_filter filter; /* NULL: every request */
    void *context;
} hr__pinned_scope;

/* A large range from which blocks are cut, one after the other. */
typedef struct hr__pinned_reserve {
    char *start; /* NULL: not there yet */
    uint64_t size_bytes;
    uint64_t used_bytes;
    bool is_registered;
    bool is_being_made; /* by a thread without the lock; others do without the reserve meanwhile */
} hr__pinned_reserve;

typedef struct hr__pinned_counters {
    hr_stat allocations;
    hr_stat allocated_bytes;
    hr_stat active_requests[HR__PINNED_BUCKETS];
    hr_stat active_bytes[HR__PINNED_BUCKETS];
    hr_duration_stat host_alloc_time; /* avg is filled in when somebody looks */
    hr_duration_stat host_free_time;
} hr__pinned_counters;

struct hr_pinned_pool {
    hr__mutex lock;
    uint32_t fork_generation;    /* set at creation, then read-only */
    hr_device *device;           /* set at creation, then read-only */
    hr_pinned_budget *budget;    /* likewise; or NULL */
    hr__torch_settings settings; /* set at creation, then read-only */

    hr__tree_node *blocks; /* all but the leaving ones, by address */
    hr__pinned_shelf default_shelf;
    hr__pinned_shelf *private_shelves;
    hr__pinned_scope *scopes; /* oldest first */
    hr__pinned_use *spare_uses;
    hr__pinned_block *stuck; /* linked by `next` */
    size_t leaving_count;
    hr__pinned_reserve reserve;
    hr__pinned_counters counters;

    pthread_t background_thread; /* read by destroy only */
    bool is_background_running;  /* the thread was started, or is about to be */
    bool is_background_stopping;
    hr__listing listing; /* the list's, not the lock's */
};

/* HR_OK if the pool may be used: not NULL, and not the parent process's. */
static inline hr_status hr__pinned_enter(const hr_pinned_pool *pool)
{
    if (pool == NULL)
        return hr__fail(HR_ERR_INVALID_ARGUMENT, "the pinned pool is NULL");
    if (pool->fork_generation != hr__fork_generation())
        return hr__fail(HR_ERR_WRONG_PROCESS,
                        "the pinned pool belongs to the parent process: make one after fork()");
    return HR_OK;
}

static inline void hr__pinned_lock(const hr_pinned_pool *pool)
{
    hr__mutex_lock((hr__mutex *)(uintptr_t)&pool->lock);
}

static inline void hr__pinned_unlock(const hr_pinned_pool *pool)
{
    hr__mutex_unlock((hr__mutex *)(uintptr_t)&pool->lock);
}

static inline bool hr__pinned_before(const hr__tree_node *a, const hr__tree_node *b)
{
    return ((const hr__pinned_block *)(const void *)a)->address <
           ((const hr__pinned_block *)(const void *)b)->address;
}

static inline bool hr__pinned_same_id(hr_private_id a, hr_private_id b)
{
    return a.first == b.first && a.second == b.second;
}

/* ---- pinned_pool.c: all under the lock ------------------------------------------------------- */

/* Which bucket a size belongs to. The size is not 0 and below 2^63. */
unsigned hr__pinned_bucket(uint64_t size_bytes);

/* The live block that holds `address`, or NULL. */
hr__pinned_block *hr__pinned_find_live(const hr_pinned_pool *pool, const void *address);

/* A freed block that nobody uses any more: no longer active; cached, or, above the limit, taken out
 * of the tree and put on `leaving` for hr__pinned_give_back(). */
void hr__pinned_settle(hr_pinned_pool *pool, hr__pinned_block *block, hr__pinned_list *leaving);

/* Takes a cached block out of its bucket. */
void hr__pinned_unshelve(hr__pinned_block *block);

/* Takes a block that is in no list out of the tree and puts it on `leaving`. */
void hr__pinned_leave(hr_pinned_pool *pool, hr__pinned_block *block, hr__pinned_list *leaving);

/* Puts a leaving block back into the tree and into its bucket: as the newest, or as the oldest. */
void hr__pinned_return(hr_pinned_pool *pool, hr__pinned_block *block, bool as_oldest);

/* ---- pinned_streams.c ------------------------------------------------------------------------ */

/* Lets blocks settle whose events are complete, oldest event first, up to the first that is not.
 * Under the lock. */
hr_status hr__pinned_advance(hr_pinned_pool *pool, hr__pinned_shelf *shelf,
                             hr__pinned_list *leaving);

/* Looks through the whole queue for one block of exactly `size_bytes` that can settle. Under the
 * lock. */
hr_status hr__pinned_advance_size(hr_pinned_pool *pool, hr__pinned_shelf *shelf,
                                  uint64_t size_bytes, hr__pinned_list *leaving);

/* Frees a block that has uses. Under the lock, which is dropped while events are recorded and held
 * again on return. */
hr_status hr__pinned_defer(hr_pinned_pool *pool, hr__pinned_block *block);

/* Waits for the whole device if there are stuck blocks, and settles them. Without the lock. */
hr_status hr__pinned_unstick(hr_pinned_pool *pool, hr__pinned_list *leaving);

/* Ends every event. */
void hr__pinned_streams_deinit(hr_pinned_pool *pool);

/* ---- pinned_memory.c: all without the lock --------------------------------------------------- */

/* Fills in where `block` lies, from the reserve or the device; its size is set already. */
hr_status hr__pinned_take(hr_pinned_pool *pool, hr__pinned_block *block);

/* Gives the list of leaving blocks back and ends their records, in order, up to the first failure.
 * Those left return to their buckets: to the old end if they were cached before (`were_cached`). */
hr_status hr__pinned_give_back(hr_pinned_pool *pool, hr__pinned_list *leaving, bool were_cached);

/* At the end of the pool: gives back whatever it holds, the reserve last. */
void hr__pinned_memory_deinit(hr_pinned_pool *pool);

/* ---- pinned_background.c --------------------------------------------------------------------- */

/* Starts the thread if it does not run. Where none can be had the allocations go on looking at
 * events themselves, and the next call tries again. Without the lock. */
void hr__pinned_background_start(hr_pinned_pool *pool);

/* Ends it, if it runs. */
void hr__pinned_background_stop(hr_pinned_pool *pool);

/* ---- pinned_private.c: all under the lock ---------------------------------------------------- */

/* Where a request made on `stream` belongs. */
hr__pinned_shelf *hr__pinned_route(hr_pinned_pool *pool, hr_stream stream);

/* Is `stream` capturing? A capture begins inside a scope, so without one the device is not asked.
 */
hr_status hr__pinned_is_capturing(const hr_pinned_pool *pool, hr_stream stream, bool *out);

/* Ends the private shelves that nobody uses and that hold nothing. */
void hr__pinned_drop_unused(hr_pinned_pool *pool);

void hr__pinned_private_deinit(hr_pinned_pool *pool);

/* ---- pinned_inspect.c: all under the lock ---------------------------------------------------- */

void hr__pinned_count_up(hr_stat *stat, uint64_t amount);
void hr__pinned_count_down(hr_stat *stat, uint64_t amount);
void hr__pinned_count_time(hr_duration_stat *stat, uint64_t nanoseconds);

#endif /* HR_POOL_PINNED_POOL_H */
