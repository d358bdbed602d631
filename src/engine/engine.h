/* engine.h - the engine table: the rules that decide where a block lives, and when memory is taken
 * from the device or given back.
 *
 * Words: a *shelf* is the free blocks of one size kind, small or large, of the default pool or of
 * one private pool; a *lane* is the part of a shelf that serves one stream. A *scope* routes
 * requests to a private pool. The *owner* is whoever drives the engine: the pool.
 *
 * The owner cannot tell one engine from another. What an engine may lack is a capability: an entry
 * that its table leaves NULL, and the comment at the entry says what the owner does then. Options
 * are read and kept by the engine they are for. engine_list.h has the engines there are, and
 * tests/contract/test_engine_plain.c is the smallest one that serves.
 *
 * The owner holds its lock around every call, calls from one thread at a time, and provides the
 * things an engine must not know: who listens, how frees that wait for other streams are finished,
 * what may be reclaimed elsewhere. An engine has no locks and no threads. Where a call may fail, a
 * failure leaves the engine whole and serving: vw__engine_table.check() holds after it, always.
 *
 * Before allocate() and allocate_at() the owner sees to it that VW__ENGINE_SPARE_RECORDS block
 * records are spare, so that the usual path takes no host memory under the lock. An engine takes
 * more only where it is about to call the driver anyway, which costs a thousand times more. */
#ifndef VW_ENGINE_ENGINE_H
#define VW_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/park.h"     /* vw_park_report */
#include "vramwise/vramwise.h" /* vw_action, vw_private_id, vw_walker, vw_private_options */
#include "engine/block.h"
#include "engine/counters.h"
#include "engine/host_lender.h"
#include "engine/park_store.h"

typedef struct vw__engine vw__engine;             /* engine_base.h */
typedef struct vw__driver_meter vw__driver_meter; /* driver_calls.h */

/* Records an allocation may need without the device: the low part of a split, the prefix of an
 * allocation at an exact address, and what an expandable segment's first growth leaves over. */
#define VW__ENGINE_SPARE_RECORDS 8

#define VW__ENGINE_GRID_BYTES UINT64_C(512) /* blocks begin at multiples of this */

/* The owner refuses requests from this size on before the engine sees them. */
#define VW__ENGINE_MOST_REQUESTED_BYTES (UINT64_C(1) << 60)

typedef struct vw__engine_request {
    uint64_t size_bytes; /* as the caller asked: not 0, below VW__ENGINE_MOST_REQUESTED_BYTES */
    vw_stream stream;
    uint64_t tag;
    bool is_optional; /* vw_alloc_request.is_optional; an engine may ignore it */
} vw__engine_request;

/* Details of a request that failed, for the owner's report. */
typedef struct vw__engine_refusal {
    uint64_t rounded_bytes;
    uint64_t segment_bytes;
    vw_private_id private_id; /* the pool it was routed to */
    bool is_expandable;
} vw__engine_refusal;

/* The request or call that events are attributed to: the last two fields of vw_memory_event. */
typedef struct vw__engine_cause {
    uint64_t request;
    const void *caller;
} vw__engine_cause;

typedef struct vw__engine_owner {
    void *context;
    vw__counters *counters;
    vw_device *device;              /* its memory: through driver_calls.h */
    vw__driver_meter *driver_meter; /* or NULL */
    uint64_t keep_free_bytes;       /* vw_pool_options.keep_free; 0 = none */

    /* Tells listeners, and adds the cause; called only while `*has_listener`. */
    const bool *has_listener;
    void (*notice)(void *context, const vw_memory_event *event);

    /* Waits for the blocks that wait for other streams, those of one private pool if `only` is not
     * NULL, and calls the engine's free() for each. */
    vw_status (*finish_pending)(void *context, const vw_private_id *only);

    /* Lets the program free something, with the lock dropped meanwhile. True: another search is
     * worth while. */
    bool (*reclaim)(void *context);

    /* The same as the last thing before live memory leaves the device, with the size of the
     * request. NULL: the program has nothing to give. */
    bool (*make_room)(void *context, uint64_t size_bytes);

    /* Around a device call during which other threads may go on, and cause things of their own. */
    vw__engine_cause (*pause_lock)(void *context);
    void (*resume_lock)(void *context, vw__engine_cause cause);

    /* vw_safe_point, for copying live data. Entering drops the lock while the program is asked, so
     * the engine must be whole and look at everything anew; false: not now, or never. Leaving keeps
     * the lock, and comes once after each true. */
    bool (*enter_safe_point)(void *context);
    void (*leave_safe_point)(void *context);

    /* One may be asked for soon. Drops the lock as entering does. NULL: nobody wants to know. */
    void (*prepare_safe_point)(void *context);

    /* Handles in host memory, by the pool options that speak of them. Asked for once at most; the
     * lender lives until after destroy(). */
    vw_status (*open_host_lender)(void *context, vw__lender *out);

    /* vw_park_guard, inside a safe point. hold(): false, with a message, where launches cannot be
     * held back and nobody promised that there are none. let_go() comes once after each true. */
    bool (*hold_launches)(void *context);
    void (*let_launches_go)(void *context);
} vw__engine_owner;

/* A little idle memory that is to be given back. */
typedef struct vw__engine_slice {
    uint64_t wanted_bytes; /* in: enough */
    size_t most_handles;   /* in: so that the owner's lock is free again soon */
    uint64_t given_bytes;  /* out: may be more than was wanted, by a part of a handle */
    bool is_waiting;       /* out: more will do once the device has come to the end of its work */
} vw__engine_slice;

/* What to park, and where to put it. */
typedef struct vw__engine_park {
    const vw_private_id *only; /* a region; NULL: everything */
    vw__park_store store;      /* for everything */
    vw__lender host;           /* for a region; the owner's */
    bool is_taken;             /* set by the engine: `store` is its own from now on */
} vw__engine_park;

/* A piece of physical memory: a handle, mapped as a whole at `address`. */
typedef vw_status (*vw__engine_piece_visitor)(void *context, vw_device_ptr address,
                                              uint64_t size_bytes, vw_handle handle);

typedef struct vw__engine_table {
    const char *name;

    void (*destroy)(vw__engine *engine); /* gives everything back to the device */

    /* VW_ERR_OUT_OF_MEMORY and VW_ERR_REJECTED fill `*refusal` and leave the words to the owner. */
    vw_status (*allocate)(vw__engine *engine, const vw__engine_request *request, vw__block **out,
                          vw__engine_refusal *refusal);

    /* The block is no longer used by anyone. Merges; never calls the device, never fails. */
    void (*free)(vw__engine *engine, vw__block *block);

    /* Gives idle memory back: of everything, or of one private pool. */
    vw_status (*trim)(vw__engine *engine, const vw_private_id *only);

    /* True if frees and events must wait because a graph is being captured. */
    bool (*is_capturing)(const vw__engine *engine, vw_stream stream);

    /* NULL: no segment holds the address. The block may be in any state. */
    vw__block *(*find)(vw__engine *engine, vw_device_ptr address);
    void (*walk)(vw__engine *engine, const vw_walker *walker);
    vw_status (*check)(vw__engine *engine);
    uint64_t (*largest_free)(const vw__engine *engine, const vw_stream *only_stream);
    uint64_t (*private_idle)(const vw__engine *engine);

    /* ---- capabilities: any of the following may be NULL ---- */

    /* Serves a request at just this address. `*prefix` gets a block that was carved off before the
     * address, for the owner to free, or NULL. Without it: VW_ERR_UNSUPPORTED. */
    vw_status (*allocate_at)(vw__engine *engine, const vw__engine_request *request,
                             vw_device_ptr address, vw__block **prefix, vw__block **out);

    /* Limits the bytes held to a share of the device's memory. Without it: VW_ERR_UNSUPPORTED. */
    vw_status (*set_fraction)(vw__engine *engine, double fraction);

    /* Reads a settings string, and shows the settings in force under the names and in the spelling
     * of PyTorch's snapshots. Without them: VW_ERR_UNSUPPORTED; and there is nothing to show. */
    vw_status (*configure)(vw__engine *engine, const char *conf);
    void (*walk_conf)(const vw__engine *engine, vw_conf_visitor visit, void *context);

    /* Private pools: all of them or none, which is private_retain. Without them:
     * VW_ERR_UNSUPPORTED, and every use count is 0. private_pools.h has them ready. */
    vw_status (*private_retain)(vw__engine *engine, vw_private_id id,
                                const vw_private_options *options);
    vw_status (*private_release)(vw__engine *engine, vw_private_id id);
    int (*private_use_count)(const vw__engine *engine, vw_private_id id);
    vw_status (*private_set)(vw__engine *engine, vw_private_id id, const bool *use_on_oom,
                             const bool *no_split);
    vw_status (*scope_begin)(vw__engine *engine, vw_private_id id, vw_scope_filter filter,
                             void *context);
    vw_status (*scope_end)(vw__engine *engine, vw_private_id id);

    /* For a private pool that is put back as it was. First the owner asks for so many spare records
     * (VW_ERR_HOST_MEMORY; an engine that has failed says why). Then it has just the range handed
     * out, which lies in `block`, a FREE one, whatever the rules for splitting say. That takes two
     * records at most, calls no device and cannot fail; what was free behind the range is the next
     * block of the one returned. Without them: VW_ERR_UNSUPPORTED. */
    vw_status (*see_to_records)(vw__engine *engine, size_t count);
    vw__block *(*hand_out_at)(vw__engine *engine, vw__block *block, vw_device_ptr address,
                              uint64_t size_bytes, uint64_t tag);
    bool restores_free_blocks; /* hands the free blocks of a checkpoint out, too, and frees them:
                                  PyTorch's traces and statistics show that */

    /* Visits the handles under a live block by rising address, each whole, to be handed to others
     * (VW_ERR_UNSUPPORTED: one cannot be); with NULL every mapping there is, in no order. Plain
     * memory has no handles. A visitor that fails ends it. Without it: all memory is plain. */
    vw_status (*walk_pieces)(vw__engine *engine, const vw__block *under,
                             vw__engine_piece_visitor visit, void *context);

    /* Keeps a live block's memory where it is, until it is unpinned: VW_ERR_UNKNOWN_ADDRESS for an
     * address that is not pinned. Without them: blocks stay where they are anyway. */
    vw_status (*pin)(vw__engine *engine, vw__block *block);
    vw_status (*unpin)(vw__engine *engine, vw_device_ptr address);

    /* The program's advice about a live block; and the end of a step, which may enter the safe
     * point. Without them: both are ignored. */
    void (*advise)(vw__engine *engine, vw__block *block, vw_advice advice);
    vw_status (*mark_step)(vw__engine *engine);

    /* Gives a slice of the idle memory back, the longest idle first, and never waits for the
     * device. A failure leaves what was given so far in `slice`. Without it:
     * vw_pool_options.keep_free is refused. */
    vw_status (*give_back)(vw__engine *engine, vw__engine_slice *slice);

    /* Statistics of memory that moves. Fills everything but struct_size; everything is zero before.
     * Without it: VW_ERR_UNSUPPORTED. */
    void (*move_stats)(const vw__engine *engine, vw_paged_stats *stats);

    /* Parking (park.h), all three or none. They fill what `report` has about bytes; zero before.
     * park(): VW_ERR_NOT_READY if another request is under way with the lock dropped; not called
     * where is_parked(), whose `only` may be no region. While something is parked, requests for it
     * answer VW_ERR_PARKED. Without them: VW_ERR_UNSUPPORTED. */
    bool (*is_parked)(vw__engine *engine, const vw_private_id *only);
    vw_status (*park)(vw__engine *engine, vw__engine_park *how, vw_park_report *report);
    vw_status (*wake)(vw__engine *engine, const vw_private_id *only, vw_park_report *report);
    vw_status (*set_region)(vw__engine *engine, vw_private_id id, const char *name,
                            bool keeps_data);
} vw__engine_table;

static inline vw_private_id vw__private_id_none(void)
{
    vw_private_id id = {0, 0};
    return id;
}

static inline bool vw__private_id_same(vw_private_id a, vw_private_id b)
{
    return a.first == b.first && a.second == b.second;
}

#endif /* VW_ENGINE_ENGINE_H */
