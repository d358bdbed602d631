/* engine.h - the engine table: the rules that decide where a block lives, and when memory is taken
 * from the device or given back.
 *
 * Words: a *shelf* is the free blocks of one size kind, small or large, of the default pool or of
 * one private pool; a *lane* is the part of a shelf that serves one stream. A *scope* routes
 * requests to a private pool. The *owner* is whoever drives the engine: the pool.
 *
 * The owner holds its lock around every call, calls from one thread at a time, and provides the
 * things an engine must not know: who listens, how frees that wait for other streams are finished,
 * what may be reclaimed elsewhere. Where a call may fail, a failure leaves the engine whole and
 * serving: vw__engine_table.check() holds after it, always.
 *
 * Before allocate() and allocate_at() the owner sees to it that VW__ENGINE_SPARE_RECORDS block
 * records are spare, so that the usual path takes no host memory under the lock. An engine takes
 * more only where it is about to call the driver anyway, which costs a thousand times more. */
#ifndef VW_ENGINE_ENGINE_H
#define VW_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_action, vw_private_id, vw_walker, vw_private_options */
#include "engine/block.h"
#include "engine/counters.h"
#include "engine/shelf.h"
#include "engine/torch/torch_settings.h" /* vw__torch_settings */
#include "engine/torch/torch_versions.h" /* vw__torch_rules */

typedef struct vw__engine vw__engine;
typedef struct vw__driver_meter vw__driver_meter; /* driver_calls.h */
struct vw__private_pool;                          /* private_pools.h */
struct vw__scope;

/* Records an allocation may need without the device: the low part of a split, the prefix of an
 * allocation at an exact address, and what an expandable segment's first growth leaves over. */
#define VW__ENGINE_SPARE_RECORDS 8

typedef struct vw__request {
    uint64_t size_bytes; /* as the caller asked: from 1 to 2^60 - 1 */
    vw_stream stream;
    uint64_t tag;
} vw__request;

/* What went on in a request that failed; the owner writes its report from it. */
typedef struct vw__refusal {
    uint64_t rounded_bytes;
    uint64_t segment_bytes;
    vw_private_id private_id; /* the pool it was routed to */
    bool is_expandable;
} vw__refusal;

/* What the owner is doing, for listeners: the last two fields of vw_memory_event. */
typedef struct vw__cause {
    uint64_t request;
    const void *caller;
} vw__cause;

typedef struct vw__engine_owner {
    void *context;
    vw__counters *counters;
    vw_device *device;              /* its memory: through driver_calls.h */
    vw__driver_meter *driver_meter; /* or NULL */

    /* Tells listeners, and adds the cause; called only while `*has_listener`. */
    const bool *has_listener;
    void (*notice)(void *context, const vw_memory_event *event);

    /* Waits for the blocks that wait for other streams, those of one private pool if `only` is not
     * NULL, and calls the engine's free() for each. */
    vw_status (*finish_pending)(void *context, const vw_private_id *only);

    /* Lets the program free something, with the lock dropped meanwhile. Is another search worth
     * while? */
    bool (*reclaim)(void *context);

    /* Around a device call during which other threads may go on, and cause things of their own. */
    vw__cause (*pause_lock)(void *context);
    void (*resume_lock)(void *context, vw__cause cause);

    /* vw_safe_point, for copying live data. Entering drops the lock while the program is asked, so
     * the engine must be whole and look at everything anew; false: not now, or never. Leaving keeps
     * the lock, and comes once after each true. */
    bool (*enter_safe_point)(void *context);
    void (*leave_safe_point)(void *context);
} vw__engine_owner;

/* A piece of physical memory: a handle, mapped as a whole at `address`. */
typedef vw_status (*vw__piece_visitor)(void *context, vw_device_ptr address, uint64_t size_bytes,
                                       vw_handle handle);

typedef struct vw__engine_table {
    const char *name;

    void (*destroy)(vw__engine *engine); /* gives everything back to the device */

    /* VW_ERR_OUT_OF_MEMORY and VW_ERR_REJECTED fill `*refusal` and leave the words to the owner. */
    vw_status (*allocate)(vw__engine *engine, const vw__request *request, vw__block **out,
                          vw__refusal *refusal);
    /* `*prefix` gets a block that was carved off before the address, for the owner to free, or
     * NULL. */
    vw_status (*allocate_at)(vw__engine *engine, const vw__request *request, vw_device_ptr address,
                             vw__block **prefix, vw__block **out);

    /* The block is no longer used by anyone. Merges; never calls the device, never fails. */
    void (*free)(vw__engine *engine, vw__block *block);

    /* The next three are for a private pool that is put back as it was. First the owner asks for so
     * many spare records (VW_ERR_HOST_MEMORY; an engine that has failed says why); then it has just
     * the range handed out, which lies in `block`, a FREE one, whatever the rules for splitting
     * say. That takes two records at most, calls no device and cannot fail; what was free behind
     * the range is the next block of the one returned. */
    bool restores_as_torch; /* PyTorch's traces and statistics: free blocks are handed out, too */
    vw_status (*see_to_records)(vw__engine *engine, size_t count);
    vw__block *(*hand_out_at)(vw__engine *engine, vw__block *block, vw_device_ptr address,
                              uint64_t size_bytes, uint64_t tag);

    /* Visits the handles under a live block by rising address, each whole, to be handed to others
     * (VW_ERR_UNSUPPORTED: one cannot be); with NULL every mapping there is, in no order. Plain
     * memory has none. A visitor that fails ends it. */
    vw_status (*walk_pieces)(vw__engine *engine, const vw__block *under, vw__piece_visitor visit,
                             void *context);

    /* Gives idle memory back: of everything, or of one private pool. */
    vw_status (*trim)(vw__engine *engine, const vw_private_id *only);

    vw_status (*set_fraction)(vw__engine *engine, double fraction);
    vw_status (*configure)(vw__engine *engine, const char *conf);

    /* Must frees and events wait because a graph is being captured? */
    bool (*is_capturing)(const vw__engine *engine, vw_stream stream);

    /* NULL: no segment holds the address. The block may be in any state. */
    vw__block *(*find)(vw__engine *engine, vw_device_ptr address);
    void (*walk)(vw__engine *engine, const vw_walker *walker);
    vw_status (*check)(vw__engine *engine);

    uint64_t (*largest_free)(const vw__engine *engine, const vw_stream *only_stream);
    uint64_t (*private_idle)(const vw__engine *engine);

    vw_status (*private_retain)(vw__engine *engine, vw_private_id id,
                                const vw_private_options *options);
    vw_status (*private_release)(vw__engine *engine, vw_private_id id);
    int (*private_use_count)(const vw__engine *engine, vw_private_id id);
    vw_status (*private_set)(vw__engine *engine, vw_private_id id, const bool *use_on_oom,
                             const bool *no_split);
    vw_status (*scope_begin)(vw__engine *engine, vw_private_id id, vw_scope_filter filter,
                             void *context);
    vw_status (*scope_end)(vw__engine *engine, vw_private_id id);

    /* NULL in an engine whose blocks stay where they are. To pin, the block is live; to unpin, the
     * engine knows which addresses are pinned: VW_ERR_UNKNOWN_ADDRESS for any other. */
    vw_status (*pin)(vw__engine *engine, vw__block *block);
    vw_status (*unpin)(vw__engine *engine, vw_device_ptr address);
    /* NULL in an engine that spills nothing. The block is live. A marked step may enter the safe
     * point. */
    void (*advise)(vw__engine *engine, vw__block *block, vw_advice advice);
    vw_status (*mark_step)(vw__engine *engine);
    /* Fills everything but struct_size; everything is zero before. */
    void (*paged_stats)(const vw__engine *engine, vw_paged_stats *stats);
} vw__engine_table;

/* What one private pool has reserved; kept after the pool's end, as PyTorch keeps it. */
typedef struct vw__private_stat {
    struct vw__private_stat *next; /* in order of creation */
    vw_private_id id;
    vw__counter reserved_bytes;
} vw__private_stat;

/* What every engine begins with; what is shared besides works on it: segments.h, private_pools.h,
 * inspect.h. */
struct vw__engine {
    const vw__engine_table *table;  /* set at creation, then read-only */
    const vw__torch_rules *wording; /* the release whose texts and statistics users are shown */
    const vw__torch_settings *conf; /* what was read of `conf`, as users are shown it */
    vw__engine_owner owner;         /* set at creation, then read-only */
    vw__block_source records;
    uint64_t limit_bytes;     /* reserve at most this; UINT64_MAX = no limit */
    double fraction;          /* that the limit came from */
    uint64_t max_split_bytes; /* blocks from this size on are "oversize"; UINT64_MAX = none */
    uint64_t held_bytes;  /* reserved from the device, all pools: what the limit is compared with */
    vw__shelf shelves[2]; /* the default pool, by vw__size_kind */
    vw__tree_node *segments; /* by address */
    struct vw__private_pool *private_pools;
    struct vw__scope *scopes;        /* newest first */
    const vw__request *serving;      /* the request in progress, or NULL */
    vw__private_stat *private_stats; /* one for each private pool that ever was */
};

static inline vw_private_id vw__no_private_id(void)
{
    vw_private_id id = {0, 0};
    return id;
}

static inline bool vw__same_private_id(vw_private_id a, vw_private_id b)
{
    return a.first == b.first && a.second == b.second;
}

#endif /* VW_ENGINE_ENGINE_H */
