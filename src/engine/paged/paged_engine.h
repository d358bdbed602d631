/* paged_engine.h - our own engine: the types that its files share, and how they find each other.
 *
 * Addresses are plentiful, physical memory is the resource. Every lane (a stream's small or large
 * blocks, of the default or a private pool) has reservations of addresses, *arenas*, far larger
 * than the device; under all of them lies one stock of physical memory, in *handles* of one or more
 * *units* (the device's granularity, 2 MiB). A handle that no block touches may be used at any
 * other address, so what one request leaves in pieces serves the next in one.
 *
 * A handle is mapped at one or more *places*. One is its *home*: there its bytes are free or used.
 * The others are *ghosts*: still mapped, but unused. When a free handle moves, its old home becomes
 * a ghost and stays mapped, for two reasons. Work on its stream may still be running: the mapping
 * goes only after an event recorded at the move. And programs repeat themselves: when the handle is
 * wanted there again, its ghost is *revived*, which takes no driver call at all. A training loop
 * that alternates between shapes thus settles into several layouts over the same memory.
 *
 * The files, from a request down to the driver. Each has a header, and calls those below it:
 *
 *   paged_engine.c      a request from rounding to hand-out, and its way back; the hot paths
 *   paged_miss.c        what happens when no free block fits: every step, in order
 *   paged_fill.c        a range of addresses gets memory, piece by piece
 *   paged_copy.c        when live data goes to other pages; paged_evacuate.c: how
 *   paged_whole.c       private pools whose segments are one handle each
 *   paged_share.c       pages in use at several addresses
 *   paged_spill.c       when live memory leaves the device, and which; paged_return.c: when it
 *                       comes back; paged_spill_list.c: what both do
 *   spill_choice.c      who leaves first
 *   paged_on_host.c     exchanging a handle's pages for the host's; frees there
 *   paged_moment.c      safe moments, and copying live data in them
 *   paged_survey.c      which handles are free, and where a request would best go
 *   paged_handles.c     arenas and handles: create, map, move, revive, unmap, release; marks in
 *                       streams, that moves and unmapping wait for
 *   paged_books.c       the records behind them, and what blocks become
 *
 * and beside that way:
 *
 *   paged_lifecycle.c   making and ending the engine, its settings, its tables
 *   paged_reclaim.c     giving memory back; paged_habit.c: what the program will take again
 *   paged_pins.c        memory that others can see
 *   paged_park.c        parking: what goes, in which order, and who is refused meanwhile;
 *                       paged_park_tape.c: all of it; paged_park_region.c: a region alone
 *   paged_inspect.c     the invariants, walked
 *
 * Where live data may be copied a page may also have *guests*: other addresses at which it is in
 * use, in parts that do not overlap (paged_share.c). Where live memory may leave the device, a
 * handle can be *on the host*: its blocks stay in use, and nothing new is placed in it
 * (paged_on_host.c).
 *
 * Invariants, walked by vw__paged_check():
 *   - a unit of an arena knows the place that covers it; FREE blocks lie in homes, LIVE and PENDING
 *     ones in homes and guests; each ghost has a GHOST block of just its range; UNMAPPED blocks
 *     cover no place; SHADOW blocks cover parts of pages that have guests, or are some
 *   - the handles' sizes add up to held_bytes, and so do the LIVE, PENDING and FREE blocks: every
 *     byte of physical memory belongs to one of them. A handle on the host counts with its
 *     used bytes only, also as spilled_bytes; the rest of it are SHADOW blocks, never FREE ones
 *   - a handle has exactly one home; one with guests is a unit long, and at its home the bytes that
 *     its guests use are SHADOW blocks, one for each part of a block
 *   - a parked handle counts for nothing in held_bytes; its blocks are what they were */
#ifndef VW_ENGINE_PAGED_PAGED_ENGINE_H
#define VW_ENGINE_PAGED_PAGED_ENGINE_H

#include "engine/engine_base.h"
#include "engine/engine_list.h" /* vw__engine_kind */
#include "engine/inspect.h"
#include "engine/paged/spill_choice.h" /* vw__paged_spill_clock */
#include "engine/private_pools.h"
#include "engine/torch/torch_conf.h"

typedef struct vw__paged_place vw__paged_place;
typedef struct vw__paged_handle vw__paged_handle;
typedef struct vw__paged_mark vw__paged_mark;
typedef struct vw__paged_pinned vw__paged_pinned;
typedef struct vw__paged_spill vw__paged_spill;
typedef struct vw__paged_parking vw__paged_parking; /* paged_park.h */

/* A mapping or a reservation of addresses that is in no arena. */
typedef struct vw__paged_stuck {
    struct vw__paged_stuck *next;
    vw_device_ptr address;
    uint64_t size_bytes;
    bool is_reservation;
} vw__paged_stuck;

typedef enum vw__paged_mode {
    VW__PAGED_MOVES,  /* only free memory moves: a pool without safe points, or that spills */
    VW__PAGED_RESCUE, /* live data is copied where the alternative is running out of memory */
    VW__PAGED_TIGHT,  /* live data is copied wherever the growth limit would be passed */
} vw__paged_mode;

/* A point in a stream's work, shared by all that one call of the allocator has to order there. */
struct vw__paged_mark {
    vw__paged_mark *next; /* of all marks, or of the spare ones */
    vw_device_event event;
    vw_stream stream;
    uint64_t call;  /* the call of the allocator it was made in */
    uint32_t users; /* ghosts that wait for it; 0: spare */
    bool is_complete;
};

struct vw__paged_place {
    vw__paged_place
        *next; /* ghosts of the handle, newest first, or its guests; a spare place's list */
    vw__paged_handle *handle;
    vw__segment *segment;
    uint64_t address;
    vw__block *block;     /* a ghost's; NULL for a home or a guest */
    vw__paged_mark *mark; /* a ghost's: after the last use of the handle there */

    /* A guest's. */
    bool is_guest;
    uint32_t used_pieces;     /* parts of blocks in use in it; 0: it is vacated */
    vw__block *shadows;       /* at the home, one for each of those; linked through node.left */
    vw__block *spare_records; /* two, linked through node.left, for frees that need them */
    vw__paged_place *next_vacated;
};

struct vw__paged_handle {
    vw__paged_handle *next; /* all handles, in no order */
    vw__paged_handle **link;
    vw_handle device_handle;
    uint64_t size_bytes;
    vw__paged_place *home;
    vw__paged_place *ghosts;
    uint32_t ghost_count;
    uint32_t guest_count;
    vw__paged_place *guests; /* see paged_share.c */
    uint32_t pin_count;      /* not 0: stays where it is */

    /* On the host: paged_on_host.c. */
    vw__lender_handle *on_host; /* NULL: on the device */
    uint64_t used_bytes;        /* of blocks in use; at 0 it is left, and in no list of handles */
    bool is_wanted_early;       /* back on the device: paged_return.c */
    vw__block *spare_records;   /* two, linked through node.left, for frees that need them */

    /* Parked: it has no memory on the device, and is in no sum of bytes held. */
    vw__paged_parking *parking; /* NULL: it is not */
    vw__lender_handle
        *stand_in; /* host memory mapped in its place; NULL: nothing is mapped there */

    uint64_t survey;  /* the last survey that found it free */
    vw__block *block; /* the FREE block around it then; by now perhaps a neighbour of that, or one
                         merged into a neighbour, which leads there (paged_books.c) */
};

/* Live memory that leaves the device. Words: a handle is *on the host* while its memory is the
 * host's. It *leaves* or *comes back*: its pages are exchanged, under the same address, in a safe
 * moment. It is *left* when the last block in it was freed: still mapped, but unused.
 * docs/design/010-spill.md has the whole. */
struct vw__paged_spill {
    vw__lender host;
    uint64_t ahead_bytes; /* set at creation, then read-only, like the next */
    vw_spill_listener listener;
    vw__paged_spill_clock clock; /* its `now` is set before it is used */
    vw__paged_handle *left;      /* in no other list */
    uint64_t handle_count;       /* on the host, and not left */

    /* When to come back by steps: paged_return.c. */
    uint64_t peak_bytes;         /* of live memory, since quiet_steps began */
    unsigned quiet_steps;        /* since memory left or came back */
    unsigned patience;           /* how many it takes */
    unsigned steps_since_return; /* or as many as it takes to be forgotten */
    bool has_help;               /* the program has made room (vw_pool_options.make_room) */

    /* When to come back within a step. Times are the engine's clock: requests. */
    uint64_t early_bytes;   /* of handles that should */
    uint64_t full_bytes;    /* the most that was on the device since memory left */
    int64_t left_at;        /* when it did, or was last wanted back in vain */
    int64_t returned_at;    /* when some last came back, or should have */
    int64_t early_patience; /* how long after `left_at` */
    unsigned steps_since_longer;
    const vw__engine_table *usual_table;
    vw__engine_table due_table; /* the engine's while memory can come back within the step */

    /* Bytes held, and number of spills so far, when handles were last wished for. */
    uint64_t wished_held_bytes;
    uint64_t wished_spills;
};

/* What the program does with memory that it gives back: paged_habit.c. */
typedef struct vw__paged_habit {
    bool has_call; /* all idle memory was to be given back, once or more */
    int64_t clock; /* at the last of these calls, as the next two */
    uint64_t live_bytes;
    uint64_t idle_bytes;
    uint64_t used_bytes; /* the most that was live between calls, forgotten with time; 0: the
                            program had no habit then */
} vw__paged_habit;

/* How far the work on a stream has come, for memory that is given back without waiting. */
typedef struct vw__paged_passed {
    struct vw__paged_passed *next;
    vw_stream stream;
    vw__paged_mark *mark; /* not complete when last looked at, or NULL */
    uint64_t call;        /* in which it was */
    int64_t marked_at;    /* the clock: what came free up to then is unused once the mark is
                             complete */
    int64_t passed_at;    /* what came free up to then is unused */
} vw__paged_passed;

/* A handle that a survey found free. */
typedef struct vw__paged_candidate {
    vw__paged_handle *handle;
    int64_t age; /* the clock when its block came free: lower is older */
} vw__paged_candidate;

typedef struct vw__paged_engine {
    vw__engine base;
    vw__torch_conf conf; /* of its settings the memory fraction counts, and reuse in captures */
    vw__paged_mode mode;
    uint64_t unit_bytes;
    double idle_share;
    uint64_t idle_floor_bytes;
    bool is_shareable;

    uint64_t peak_live_bytes; /* as far as misses saw it: what growth is tied to */
    uint64_t full_bytes;      /* on the device when it had no more for us; UINT64_MAX: it has */
    int64_t clock;            /* requests so far */
    uint64_t call;            /* misses and trims so far: marks are shared within one */
    uint64_t survey;
    bool drops_ghosts; /* a window may cover ghosts of handles in use, since the last survey */
    double fineness;   /* how much smaller handles are made than at first: 1 or more */
    uint64_t
        look_ahead_bytes; /* held, at which to see whether memory gets short (paged_moment.c) */
    bool is_short;        /* it is: the owner was told */

    vw__paged_handle *handles;
    vw__paged_place *spare_places;
    vw__paged_mark *marks;
    vw__paged_mark *spare_marks;
    vw__paged_candidate *candidates; /* of the last survey, arena by arena */
    size_t candidate_count;
    size_t candidate_capacity;
    uint64_t candidate_bytes;
    uint64_t window_looks; /* of the last search: paged_survey.c */

    uint64_t watched_frees; /* not 0: a free has more to do: shared pages, handles on the host,
                               blocks that were advised */
    vw__paged_spill *spill; /* NULL: live memory stays on the device */

    uint32_t under_way;          /* calls that may have dropped the lock: nothing is parked then */
    bool is_parked;              /* the whole pool is */
    vw__paged_parking *parkings; /* newest first */
    vw__engine_table parked_table; /* the engine's while there is one */

    vw__block *retired;       /* records merged into others since the last survey */
    vw__paged_place *vacated; /* guests that nobody uses any more, to become ghosts */
    vw__paged_pinned *pins;
    vw__paged_habit habit;
    vw__paged_passed *passed;
    int64_t owed_at; /* the clock: a trim has left what came free up to then for give_back(); -1: it
                        left nothing */
    vw_paged_stats stats;
    const char *failure; /* not NULL: the pool has failed, and why */
    char failure_text[256];

    vw__paged_stuck *scratch; /* addresses to copy through; NULL: none yet */
    vw__paged_stuck *stuck; /* what the end has to try again; mappings before their reservations */
} vw__paged_engine;

static inline vw__paged_engine *vw__paged_of(vw__engine *engine)
{
    return (vw__paged_engine *)(void *)engine; /* `base` is the first field */
}

static inline const vw__paged_engine *vw__paged_of_const(const vw__engine *engine)
{
    return (const vw__paged_engine *)(const void *)engine;
}

static inline vw__paged_place **vw__paged_units(const vw__segment *segment)
{
    return (vw__paged_place **)segment->detail;
}

static inline vw__paged_place *vw__paged_place_at(const vw__paged_engine *engine,
                                                  const vw__segment *segment, uint64_t address)
{
    return vw__paged_units(segment)[(address - segment->address) / engine->unit_bytes];
}

/* True if the last survey found it free, and it has not moved since. */
static inline bool vw__paged_is_free(const vw__paged_engine *engine, const vw__paged_handle *handle)
{
    return handle->survey == engine->survey;
}

/* Handed out, or given back but used by another stream still. */
static inline bool vw__paged_is_in_use(const vw__block *block)
{
    return block->state <= VW__BLOCK_PENDING;
}

/* The unit of an arena that holds an address, and as many bytes as the units that hold so many. */
static inline uint64_t vw__paged_unit_at(const vw__paged_engine *engine, const vw__segment *segment,
                                         uint64_t address)
{
    return address - (address - segment->address) % engine->unit_bytes;
}

static inline uint64_t vw__paged_whole_units(const vw__paged_engine *engine, uint64_t size_bytes)
{
    return (size_bytes + engine->unit_bytes - 1) / engine->unit_bytes * engine->unit_bytes;
}

static inline const vw_device_table *vw__paged_device(const vw__paged_engine *engine)
{
    return engine->base.owner.device->table;
}

static inline void *vw__paged_context(const vw__paged_engine *engine)
{
    return engine->base.owner.device->context;
}

/* Bytes handed out, pending blocks included. */
static inline uint64_t vw__paged_live_bytes(const vw__paged_engine *engine)
{
    const vw__counter *active = &engine->base.owner.counters->active_bytes;
    return (uint64_t)(active->current[VW__ENGINE_SMALL] + active->current[VW__ENGINE_LARGE]);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* The memory that the pool could come to hold: its card's, or its limit if that is less. */
static inline uint64_t vw__paged_card_bytes(const vw__paged_engine *engine)
{
    uint64_t card_bytes = engine->base.owner.device->properties.total_bytes;
    return card_bytes < engine->base.limit_bytes ? card_bytes : engine->base.limit_bytes;
}

/* The most bytes the pool may hold, handles on the host included: its limit is for the device. */
static inline uint64_t vw__paged_limit_bytes(const vw__paged_engine *engine)
{
    uint64_t limit_bytes = engine->base.limit_bytes;
    return limit_bytes != UINT64_MAX ? limit_bytes + engine->stats.spilled_bytes : UINT64_MAX;
}

enum {
    VW__PAGED_RESERVED_UNITS = 2, /* that copying needs to begin with */
    VW__PAGED_RESERVED_PARTS = 64 /* of a full device, at most */
};

/* How much the pool may hold: its limit. Where the mode lets it copy, less what copying needs, and
 * no more than the device turned out to have: a pool that holds all of it could not begin. */
static inline uint64_t vw__paged_most_bytes(const vw__paged_engine *engine)
{
    uint64_t limit_bytes = vw__paged_limit_bytes(engine);
    uint64_t reserved_bytes = VW__PAGED_RESERVED_UNITS * engine->unit_bytes;
    if (engine->mode == VW__PAGED_MOVES)
        return limit_bytes;
    if (engine->full_bytes != UINT64_MAX &&
        engine->full_bytes / VW__PAGED_RESERVED_PARTS >= reserved_bytes &&
        engine->full_bytes + engine->stats.spilled_bytes < limit_bytes)
        limit_bytes = engine->full_bytes + engine->stats.spilled_bytes;
    if (limit_bytes == UINT64_MAX || limit_bytes < reserved_bytes)
        return limit_bytes;
    return limit_bytes - reserved_bytes;
}

/* How far the pool may still grow towards `limit_bytes`. 0 without a limit: it is the device then
 * that has no more. */
static inline uint64_t vw__paged_room_bytes(const vw__paged_engine *engine, uint64_t limit_bytes)
{
    uint64_t most_bytes = vw__paged_most_bytes(engine);
    most_bytes = limit_bytes < most_bytes ? limit_bytes : most_bytes;
    uint64_t held_bytes = engine->base.held_bytes;
    return most_bytes != UINT64_MAX && most_bytes > held_bytes ? most_bytes - held_bytes : 0;
}

static inline uint64_t vw__paged_on_device_bytes(const vw__paged_engine *engine)
{
    return engine->base.held_bytes - engine->stats.spilled_bytes;
}

/* ---- paged_engine.c: the engine table's ------------------------------------------------------ */

vw_status vw__paged_allocate(vw__engine *engine, const vw__engine_request *request, vw__block **out,
                             vw__engine_refusal *refusal);
vw_status vw__paged_allocate_at(vw__engine *engine, const vw__engine_request *request,
                                vw_device_ptr address, vw__block **prefix, vw__block **out);
vw__block *vw__paged_hand_out_at(vw__engine *engine, vw__block *block, vw_device_ptr address,
                                 uint64_t size_bytes, uint64_t tag);
void vw__paged_free(vw__engine *engine, vw__block *block);

/* ---- paged_lifecycle.c ----------------------------------------------------------------------- */

extern const vw__engine_kind vw__paged_kind;

/* The engine's table while nothing has failed and nothing is parked. */
const vw__engine_table *vw__paged_table(void);

/* From now on every call answers VW_ERR_DEVICE with this text. */
void vw__paged_turn_failed(vw__paged_engine *engine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* VW_ENGINE_PAGED_PAGED_ENGINE_H */
