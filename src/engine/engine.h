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
 * serving: hr__engine_table.check() holds after it, always.
 *
 * Before allocate() and allocate_at() the owner sees to it that HR__ENGINE_SPARE_RECORDS block
 * records are spare, so that the usual path takes no host memory under the lock. An engine takes
 * more only where it is about to call the driver anyway, which costs a thousand times more. */
#ifndef HR_ENGINE_ENGINE_H
#define HR_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "headroom/headroom.h" /* hr_action, hr_private_id, hr_walker, hr_private_options */
#include "engine/block.h"
#include "engine/counters.h"
#include "engine/shelf.h"
#include "engine/torch/torch_settings.h" /* hr__torch_settings */
#include "engine/torch/torch_versions.h" /* hr__torch_rules */

typedef struct hr__engine hr__engine;
typedef struct hr__driver_meter hr__driver_meter; /* driver_calls.h */
struct hr__private_pool;                          /* private_pools.h */
struct hr__scope;

/* Records an allocation may need without the device: the low part of a split, the prefix of an
 * allocation at an exact address, and what an expandable segment's first growth leaves over. */
#define HR__ENGINE_SPARE_RECORDS 8

typedef struct hr__request {
    uint64_t size_bytes; /* as the caller asked: from 1 to 2^60 - 1 */
    hr_stream stream;
    uint64_t tag;
} hr__request;

/* What went on in a request that failed; the owner writes its report from it. */
typedef struct hr__refusal {
    uint64_t rounded_bytes;
    uint64_t segment_bytes;
    hr_private_id private_id; /* the pool it was routed to */
    bool is_expandable;
} hr__refusal;

/* What the owner is doing, for listeners: the last two fields of hr_memory_event. */
typedef struct hr__cause {
    uint64_t request;
    const void *caller;
} hr__cause;

typedef struct hr__engine_owner {
    void *context;
    hr__counters *counters;
    hr_device *device;              /* its memory: through driver_calls.h */
    hr__driver_meter *driver_meter; /* or NULL */

    /* Tells listeners, and adds the cause; called only while `*has_listener`. */
    const bool *has_listener;
    void (*notice)(void *context, const hr_memory_event *event);

    /* Waits for the blocks that wait for other streams, those of one private pool if `only` is not
     * NULL, and calls the engine's free() for each. */
    hr_status (*finish_pending)(void *context, const hr_private_id *only);

    /* Lets the program free something, with the lock dropped meanwhile. Is another search worth
     * while? */
    bool (*reclaim)(void *context);

    /* Around a device call during which other threads may go on, and cause things of their own. */
    hr__cause (*pause_lock)(void *context);
    void (*resume_lock)(void *context, hr__cause cause);

    /* hr_safe_point, for copying live data. Entering drops the lock while the program is asked, so
     * the engine must be whole and look at everything anew; false: not now, or never. Leaving keeps
     * the lock, and comes once after each true. */
    bool (*enter_safe_point)(void *context);
    void (*leave_safe_point)(void *context);
} hr__engine_owner;

/* A piece of physical memory: a handle, mapped as a whole at `address`. */
typedef hr_status (*hr__piece_visitor)(void *context, hr_device_ptr address, uint64_t size_bytes,
                                       hr_handle handle);

typedef struct hr__engine_table {
    const char *name;

    void (*destroy)(hr__engine *engine); /* gives everything back to the device */

    /* HR_ERR_OUT_OF_MEMORY and HR_ERR_REJECTED fill `*refusal` and leave the words to the owner. */
    hr_status (*allocate)(hr__engine *engine, const hr__request *request, hr__block **out,
                          hr__refusal *refusal);
    /* `*prefix` gets a block that was carved off before the address, for the owner to free, or
     * NULL. */
    hr_status (*allocate_at)(hr__engine *engine, const hr__request *request, hr_device_ptr address,
                             hr__block **prefix, hr__block **out);

    /* The block is no longer used by anyone. Merges; never calls the device, never fails. */
    void (*free)(hr__engine *engine, hr__block *block);

    /* The next three are for a private pool that is put back as it was. First the owner asks for so
     * many spare records (HR_ERR_HOST_MEMORY; an engine that has failed says why); then it has just
     * the range handed out, which lies in `block`, a FREE one, whatever the rules for splitting
     * say. That takes two records at most, calls no device and cannot fail; what was free behind
     * the range is the next block of the one returned. */
    bool restores_as_torch; /* PyTorch's traces and statistics: free blocks are handed out, too */
    hr_status (*see_to_records)(hr__engine *engine, size_t count);
    hr__block *(*hand_out_at)(hr__engine *engine, hr__block *block, hr_device_ptr address,
                              uint64_t size_bytes, uint64_t tag);

    /* Visits the handles under a live block by rising address, each whole, to be handed to others
     * (HR_ERR_UNSUPPORTED: one cannot be); with NULL every mapping there is, in no order. Plain
     * memory has none. A visitor that fails ends it. */
    hr_status (*walk_pieces)(hr__engine *engine, const hr__block *under, hr__piece_visitor visit,
                             void *context);

    /* Gives idle memory back: of everything, or of one private pool. */
    hr_status (*trim)(hr__engine *engine, const hr_private_id *only);

    hr_status (*set_fraction)(hr__engine *engine, double fraction);
    hr_status (*configure)(hr__engine *engine, const char *conf);

    /* Must frees and events wait because a graph is being captured? */
    bool (*is_capturing)(const hr__engine *engine, hr_stream stream);

    /* NULL: no segment holds the address. The block may be in any state. */
    hr__block *(*find)(hr__engine *engine, hr_device_ptr address);
    void (*walk)(hr__engine *engine, const hr_walker *walker);
    hr_status (*check)(hr__engine *engine);

    uint64_t (*largest_free)(const hr__engine *engine, const hr_stream *only_stream);
    uint64_t (*private_idle)(const hr__engine *engine);

    hr_status (*private_retain)(hr__engine *engine, hr_private_id id,
                                const hr_private_options *options);
    hr_status (*private_release)(hr__engine *engine, hr_private_id id);
    int (*private_use_count)(const hr__engine *engine, hr_private_id id);
    hr_status (*private_set)(hr__engine *engine, hr_private_id id, const bool *use_on_oom,
                             const bool *no_split);
    hr_status (*scope_begin)(hr__engine *engine, hr_private_id id, hr_scope_filter filter,
                             void *context);
    hr_status (*scope_end)(hr__engine *engine, hr_private_id id);

    /* NULL in an engine whose blocks stay where they are. To pin, the block is live; to unpin, the
     * engine knows which addresses are pinned: HR_ERR_UNKNOWN_ADDRESS for any other. */
    hr_status (*pin)(hr__engine *engine, hr__block *block);
    hr_status (*unpin)(hr__engine *engine, hr_device_ptr address);
    /* NULL in an engine that spills nothing. The block is live. A marked step may enter the safe
     * point. */
    void (*advise)(hr__engine *engine, hr__block *block, hr_advice advice);
    hr_status (*mark_step)(hr__engine *engine);
    /* Fills what comes after struct_size, which is the owner's; everything is zero before. */
    void (*paged_stats)(const hr__engine *engine, hr_paged_stats *stats);
} hr__engine_table;

/* What one private pool has reserved; kept after the pool's end, as PyTorch keeps it. */
typedef struct hr__private_stat {
    struct hr__private_stat *next; /* in order of creation */
    hr_private_id id;
    hr__counter reserved_bytes;
} hr__private_stat;

/* What every engine begins with; what is shared besides works on it: segments.h, private_pools.h,
 * inspect.h. */
struct hr__engine {
    const hr__engine_table *table;  /* set at creation, then read-only */
    const hr__torch_rules *wording; /* the release whose texts and statistics users are shown */
    const hr__torch_settings *conf; /* what was read of `conf`, as users are shown it */
    hr__engine_owner owner;         /* set at creation, then read-only */
    hr__block_source records;
    uint64_t limit_bytes;     /* reserve at most this; UINT64_MAX = no limit */
    double fraction;          /* that the limit came from */
    uint64_t max_split_bytes; /* blocks from this size on are "oversize"; UINT64_MAX = none */
    uint64_t held_bytes;  /* reserved from the device, all pools: what the limit is compared with */
    hr__shelf shelves[2]; /* the default pool, by hr__size_kind */
    hr__tree_node *segments; /* by address */
    struct hr__private_pool *private_pools;
    struct hr__scope *scopes;        /* newest first */
    const hr__request *serving;      /* the request in progress, or NULL */
    hr__private_stat *private_stats; /* one for each private pool that ever was */
};

static inline hr_private_id hr__no_private_id(void)
{
    hr_private_id id = {0, 0};
    return id;
}

static inline bool hr__same_private_id(hr_private_id a, hr_private_id b)
{
    return a.first == b.first && a.second == b.second;
}

#endif /* HR_ENGINE_ENGINE_H */
