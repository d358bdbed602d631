/* paged_engine.h - our own engine: what its files share.
 *
 * Addresses are plentiful, physical memory is the resource. Every lane (a stream's small or large
 * blocks, of the default or a private pool) has reservations of addresses, *arenas*, far larger
 * than the device; under all of them lies one stock of physical memory, in *handles* of one or more
 * *units* (the device's granularity, 2 MiB). A handle that no block touches may be used at any
 * other address, so what one request leaves in pieces serves the next in one.
 *
 * A handle is mapped at one or more *places*. One is its *home*: there its bytes are free or used.
 * The others are *ghosts*: mapped still, but nobody's. When a free handle moves, its old home
 * becomes a ghost and stays mapped, for two reasons. Work on its stream may not have come to its
 * end: the mapping goes only after an event recorded at the move. And programs repeat themselves:
 * when the handle is wanted there again, its ghost is *revived*, which takes no call to the driver
 * at all. A training loop that alternates between shapes thus settles into several layouts over the
 * same memory.
 *
 *   paged_engine.c      a request from rounding to hand-out, and its way back; the hot paths
 *   paged_miss.c        what happens when no free block fits, in order
 *   paged_survey.c      which handles are free, and where a request would best go
 *   paged_handles.c     handles: create, map, move, revive, unmap, release
 *   paged_books.c       the records behind them, and what blocks become
 *   paged_arenas.c      reservations of addresses
 *   paged_copy.c        when live data goes to other pages, and which; paged_evacuate.c: how
 *   paged_share.c       pages in use at several addresses
 *   paged_spill.c       when live memory leaves the device, and which
 *   paged_return.c      when it comes back
 *   paged_swap.c        one handle, whose pages are exchanged under its address
 *   paged_on_host.c     what it means that a handle is in host memory; frees there
 *   host_stock.c        handles in host memory, made ahead and kept
 *   spill_choice.c      who leaves first; spill_limits.c: how much the machine allows
 *   paged_pins.c        memory that others can see
 *   paged_events.c      marks in streams, that moves and unmapping wait for
 *   paged_reclaim.c     giving memory back
 *   paged_lifecycle.c   making and ending the engine, its settings, its table
 *   paged_inspect.c     the invariants, walked
 *
 * Where live data may be copied a page may also have *guests*: other addresses at which it is in
 * use, in parts that do not overlap (paged_share.c). Where it may leave the device, a handle can be
 * *on the host*: what is in use of it is in use as ever, all else of it is nobody's
 * (paged_on_host.c).
 *
 * Invariants, walked by vw__paged_check():
 *   - a unit of an arena knows the place that covers it; FREE blocks lie in homes, LIVE and PENDING
 *     ones in homes and guests; each ghost has a GHOST block of just its range; UNMAPPED blocks
 *     cover no place; SHADOW blocks cover parts of pages that have guests, or are some
 *   - the handles' sizes add up to held_bytes, and so do the LIVE, PENDING and FREE blocks: every
 *     byte of physical memory belongs to one of them. Of a handle on the host only what is in use
 *     counts, as spilled_bytes too; the rest of it are SHADOW blocks, and it has no FREE ones
 *   - a handle has exactly one home; one with guests is a unit long, and at its home the bytes that
 *     its guests use are SHADOW blocks, one for each part of a block */
#ifndef VW_ENGINE_PAGED_PAGED_ENGINE_H
#define VW_ENGINE_PAGED_PAGED_ENGINE_H

#include "engine/engine_base.h"
#include "engine/engine_list.h" /* vw__engine_kind */
#include "engine/inspect.h"
#include "engine/private_pools.h"
#include "engine/torch/torch_conf.h"

typedef struct vw__place vw__place;
typedef struct vw__paged_handle vw__paged_handle;
typedef struct vw__mark vw__mark;
typedef struct vw__pin vw__pin;
typedef struct vw__paged_spill vw__paged_spill; /* paged_spill.h */

/* A mapping or a reservation of addresses that is in no arena. */
typedef struct vw__stuck {
    struct vw__stuck *next;
    vw_device_ptr address;
    uint64_t size_bytes;
    bool is_reservation;
} vw__stuck;

typedef enum vw__paged_mode {
    VW__PAGED_MOVES,  /* only free memory ever moves */
    VW__PAGED_RESCUE, /* live data is copied where the alternative is running out of memory */
    VW__PAGED_TIGHT,  /* live data is copied wherever the growth limit would be passed */
} vw__paged_mode;

/* A point in a stream's work, shared by all that one call of the allocator has to order there. */
struct vw__mark {
    vw__mark *next; /* of all marks, or of the spare ones */
    vw_device_event event;
    vw_stream stream;
    uint64_t call;  /* the call of the allocator it was made in */
    uint32_t users; /* ghosts that wait for it; 0: spare */
    bool is_complete;
};

struct vw__place {
    vw__place *next; /* ghosts of the handle, newest first, or its guests; a spare place's list */
    vw__paged_handle *handle;
    vw__segment *segment;
    uint64_t address;
    vw__block *block; /* a ghost's; NULL for a home or a guest */
    vw__mark *mark;   /* a ghost's: after the last use of the handle there */

    /* A guest's. */
    bool is_guest;
    uint32_t used_pieces;     /* parts of blocks in use in it; 0: it is vacated */
    vw__block *shadows;       /* at the home, one for each of those; linked through node.left */
    vw__block *spare_records; /* two, linked through node.left, for frees that need them */
    vw__place *next_vacated;
};

struct vw__paged_handle {
    vw__paged_handle *next; /* all handles, in no order */
    vw__paged_handle **link;
    vw_handle device_handle;
    uint64_t size_bytes;
    vw__place *home;
    vw__place *ghosts;
    uint32_t ghost_count;
    uint32_t guest_count;
    vw__place *guests;  /* see paged_share.c */
    uint32_t pin_count; /* not 0: stays where it is */

    /* On the host: paged_on_host.c. */
    vw__host_handle *on_host; /* NULL: on the device */
    uint64_t used_bytes;      /* of blocks in use; at 0 it is left, and in no list of handles */
    bool is_wanted_early;     /* back on the device: paged_return.c */
    vw__block *spare_records; /* two, linked through node.left, for frees that need them */

    uint64_t survey;  /* the last survey that found it free */
    vw__block *block; /* the FREE block around it then; by now perhaps a neighbour of that, or one
                         merged into a neighbour, which leads there (paged_books.c) */
};

/* A handle that a survey found free. */
typedef struct vw__candidate_handle {
    vw__paged_handle *handle;
    int64_t age; /* the clock when its block came free: lower is older */
} vw__candidate_handle;

typedef struct vw__paged_engine {
    vw__engine base;
    vw__torch_conf conf; /* of its settings only the memory fraction counts */
    vw__paged_mode mode;
    uint64_t unit_bytes;
    double idle_share;
    uint64_t idle_floor_bytes;
    bool is_shareable;

    uint64_t peak_live_bytes; /* as far as misses saw it: what growth is tied to */
    int64_t clock;            /* requests so far */
    uint64_t call;            /* misses and trims so far: marks are shared within one */
    uint64_t survey;
    double fineness; /* how much smaller handles are made than at first: 1 or more */

    vw__paged_handle *handles;
    vw__place *spare_places;
    vw__mark *marks;
    vw__mark *spare_marks;
    vw__candidate_handle *candidates; /* of the last survey, arena by arena */
    size_t candidate_count;
    size_t candidate_capacity;
    uint64_t candidate_bytes;

    uint64_t watched_frees; /* not 0: a free has more to do: shared pages, handles on the host,
                               blocks that were advised */
    vw__paged_spill *spill; /* NULL: live memory stays on the device */

    vw__block *retired; /* records merged into others since the last survey */
    vw__place *vacated; /* guests that nobody uses any more, to become ghosts */
    vw__pin *pins;
    vw_paged_stats stats;
    const char *failure; /* not NULL: the pool has failed, and why */
    char failure_text[256];

    vw__stuck *scratch; /* addresses to copy through; NULL: none yet */
    vw__stuck *stuck;   /* what the end has to try again; mappings before their reservations */
} vw__paged_engine;

/* Where a request would go. */
typedef struct vw__paged_window {
    vw__segment *segment;
    vw__block *first; /* the first block it touches */
    uint64_t address;
    uint64_t size_bytes;
    uint64_t missing_bytes; /* of it, without a mapping that could be used */
    uint64_t ghost_bytes;
    uint64_t range_bytes; /* of the range it lies in */
} vw__paged_window;

static inline vw__paged_engine *vw__paged_of(vw__engine *engine)
{
    return (vw__paged_engine *)(void *)engine; /* `base` is the first field */
}

static inline const vw__paged_engine *vw__paged_of_const(const vw__engine *engine)
{
    return (const vw__paged_engine *)(const void *)engine;
}

static inline vw__place **vw__paged_units(const vw__segment *segment)
{
    return (vw__place **)segment->detail;
}

static inline vw__place *vw__paged_place_at(const vw__paged_engine *engine,
                                            const vw__segment *segment, uint64_t address)
{
    return vw__paged_units(segment)[(address - segment->address) / engine->unit_bytes];
}

/* Did the last survey find it free, and is it still where it was? */
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

/* What is handed out, pending blocks included. */
static inline uint64_t vw__paged_live_bytes(const vw__paged_engine *engine)
{
    const vw__counter *active = &engine->base.owner.counters->active_bytes;
    return (uint64_t)(active->current[VW__SMALL] + active->current[VW__LARGE]);
}

/* ---- paged_engine.c -------------------------------------------------------------------------- */
vw_status vw__paged_allocate(vw__engine *engine, const vw__request *request, vw__block **out,
                             vw__refusal *refusal);
vw_status vw__paged_allocate_at(vw__engine *engine, const vw__request *request,
                                vw_device_ptr address, vw__block **prefix, vw__block **out);
vw__block *vw__paged_hand_out_at(vw__engine *engine, vw__block *block, vw_device_ptr address,
                                 uint64_t size_bytes, uint64_t tag);
void vw__paged_free(vw__engine *engine, vw__block *block);

/* `block`, in no index, is used no more, and lies in no handle on the host. */
void vw__paged_free_part(vw__paged_engine *engine, vw__block *block);

/* `block`, in no index, becomes FREE: joined with free neighbours, and indexed. */
void vw__paged_settle_free(vw__paged_engine *engine, vw__block *block, int64_t age);

/* ---- paged_miss.c ---------------------------------------------------------------------------- */

/* A free block of `lane` with at least `size_bytes`. */
vw_status vw__paged_serve_miss(vw__paged_engine *engine, vw__lane *lane, uint64_t size_bytes,
                               vw__block **out);

/* ---- paged_survey.c -------------------------------------------------------------------------- */
vw_status vw__paged_survey(vw__paged_engine *engine, vw_stream stream);
vw_status vw__paged_survey_all(vw__paged_engine *engine);
bool vw__paged_choose_window(vw__paged_engine *engine, const vw__lane *lane, uint64_t size_bytes,
                             bool at_end_only, vw__paged_window *out);

bool vw__paged_is_inside(const vw__paged_engine *engine, const vw__paged_window *window,
                         const vw__place *place);

/* ---- paged_books.c --------------------------------------------------------------------------- */
vw__place *vw__paged_take_place(vw__paged_engine *engine); /* NULL: out of host memory */
void vw__paged_give_back_place(vw__paged_engine *engine, vw__place *place);
void vw__paged_link_handle(vw__paged_engine *engine, vw__paged_handle *handle);
void vw__paged_unlink_handle(vw__paged_engine *engine, vw__paged_handle *handle);

/* The units that `place` covers know `with` from now on: the place itself, or NULL. */
void vw__paged_fill_units(const vw__paged_engine *engine, const vw__place *place, vw__place *with);

/* Into and out of the index that a FREE, UNMAPPED or GHOST block is in. */
void vw__paged_take_out(vw__lane *lane, vw__block *block);
void vw__paged_put_in(vw__lane *lane, vw__block *block);

/* Leaves `block`, which is FREE or UNMAPPED, with just the given range, in no index; what it had
 * before and after stays what it was. Two records must be spare. */
void vw__paged_cut_out(vw__paged_engine *engine, vw__block *block, uint64_t address,
                       uint64_t size_bytes);

/* `block`, in no index, becomes UNMAPPED: joined with unmapped neighbours, and indexed. */
void vw__paged_settle_unmapped(vw__paged_engine *engine, vw__block *block);

/* `block`, in no index, becomes FREE, newly so, while candidates of a survey are in use. Returns
 * the record that stays: its own, or that of the free block before it. */
vw__block *vw__paged_open_block(vw__paged_engine *engine, vw__block *block);

/* Before a survey: nobody knows records that were merged into others any more. */
void vw__paged_give_back_retired(vw__paged_engine *engine);

/* The block that holds `address`, looked for from a block of the same arena. */
vw__block *vw__paged_walk_to(vw__block *block, uint64_t address);

/* The FREE block around a candidate's home now. */
vw__block *vw__paged_block_around(const vw__paged_handle *handle);

uint64_t vw__paged_serving_tag(const vw__paged_engine *engine);

/* The handle's home is now `place`, or no longer: counted and told. */
void vw__paged_come_home(vw__paged_engine *engine, vw__place *place);
void vw__paged_leave_home(vw__paged_engine *engine, const vw__place *place, const vw__block *block);

/* ---- paged_handles.c ------------------------------------------------------------------------- */

/* Physical memory of its own, mapped nowhere. */
vw_status vw__paged_create(vw__paged_engine *engine, uint64_t size_bytes, vw_handle *out);
/* Maps a handle and makes it accessible, or neither. */
vw_status vw__paged_map(vw__paged_engine *engine, const vw__paged_handle *handle, uint64_t address);

/* Makes `handle_bytes` of memory and maps it at an UNMAPPED address. */
vw_status vw__paged_grow(vw__paged_engine *engine, vw__block *unmapped, uint64_t address,
                         uint64_t handle_bytes);
/* Maps a free handle at an UNMAPPED address; its home becomes a ghost. */
vw_status vw__paged_move(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *unmapped,
                         uint64_t address);
/* Makes a ghost of a free handle its home. No driver call but to order streams. */
vw_status vw__paged_revive(vw__paged_engine *engine, vw__place *ghost);
/* `block`, in no index, has just the range of a place that is neither home nor guest any more. */
void vw__paged_add_ghost(vw__paged_engine *engine, vw__place *place, vw__block *block,
                         vw__mark *mark);
/* The home of a free handle becomes a ghost, which `mark` is for; the handle has none then. */
void vw__paged_become_ghost(vw__paged_engine *engine, vw__paged_handle *handle, vw__mark *mark);
/* Unmaps a ghost: VW_ERR_NOT_READY if its mark is not complete and may not be waited for. */
vw_status vw__paged_drop_ghost(vw__paged_engine *engine, vw__place *ghost, bool can_wait);
/* A handle whose home was unmapped to put others in its place is mapped there again. Where it
 * cannot be, live memory is out of reach: the pool turns failed. */
void vw__paged_map_back(vw__paged_engine *engine, const vw__paged_handle *handle);
/* A handle that is mapped nowhere goes back to the device, and its records with it. */
vw_status vw__paged_end_handle(vw__paged_engine *engine, vw__paged_handle *handle);
/* Gives a free handle without ghosts back to the device. Its streams have come to their end. */
vw_status vw__paged_release(vw__paged_engine *engine, vw__paged_handle *handle);
/* At the engine's end: whatever is in it. */
void vw__paged_abandon(vw__paged_engine *engine);

/* What the pool may hold, handles on the host included: its limit is for the device. */
static inline uint64_t vw__paged_limit_bytes(const vw__paged_engine *engine)
{
    uint64_t limit_bytes = engine->base.limit_bytes;
    return limit_bytes != UINT64_MAX ? limit_bytes + engine->stats.spilled_bytes : UINT64_MAX;
}

/* ---- paged_arenas.c -------------------------------------------------------------------------- */
vw_status vw__paged_add_arena(vw__paged_engine *engine, vw__lane *lane, uint64_t size_bytes);
vw_status vw__paged_end_arena(vw__paged_engine *engine, vw__segment *segment);

/* ---- paged_copy.c ---------------------------------------------------------------------------- */

/* How much the pool may hold: its limit, less what copying needs to begin with. */
uint64_t vw__paged_most_bytes(const vw__paged_engine *engine);

/* Each handle that a block in use touches at its home, and that may be copied off: not pinned, not
 * a graph's. `first` is the block at its beginning. */
typedef vw_status (*vw__paged_home_visitor)(void *context, vw__paged_engine *engine,
                                            vw__paged_handle *handle, vw__block *first);
vw_status vw__paged_each_home_in_use(vw__paged_engine *engine, vw__paged_home_visitor visit,
                                     void *context);

/* Copies what is in use of a handle to the same offsets from `to_address` on, and waits for it. */
vw_status vw__paged_copy_live(vw__paged_engine *engine, const vw__paged_handle *handle,
                              vw__block *first, uint64_t to_address, vw_stream stream);

/* From there, the other way. */
vw_status vw__paged_copy_back(vw__paged_engine *engine, const vw__paged_handle *handle,
                              vw__block *first, uint64_t from_address, vw_stream stream);

/* Copies live data off handles that are mostly free, until a request of `size_bytes` would find the
 * memory it misses if the pool held up to `limit_bytes`, as far as that goes. False in
 * `*is_worth_while`: nothing was gained. */
vw_status vw__paged_make_room(vw__paged_engine *engine, vw_stream stream, uint64_t size_bytes,
                              uint64_t limit_bytes, bool *is_worth_while);

/* A moment in which nobody touches live data, with the lock dropped meanwhile: until
 * vw__paged_end_moment(). False: not now, or never. The pool may have failed by then. */
bool vw__paged_begin_moment(vw__paged_engine *engine);
void vw__paged_end_moment(vw__paged_engine *engine);

/* May its blocks be copied? Not what graphs replay into. */
bool vw__paged_may_be_copied(const vw__paged_engine *engine, const vw__lane *lane);

/* How far the pool may still grow towards `limit_bytes`: not at all where it is the device that
 * has no more. */
uint64_t vw__paged_room_bytes(const vw__paged_engine *engine, uint64_t limit_bytes);

/* ---- paged_evacuate.c ------------------------------------------------------------------------ */

/* `first` is a block of the handle's arena, near its beginning. Adds to `*gained_bytes` what goes
 * back to the device and was not needed for the copy. VW_ERR_OUT_OF_MEMORY: there is no memory to
 * copy to, or not without taking as much as would be gained; nothing changed. */
vw_status vw__paged_evacuate(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                             vw_stream stream, bool is_deep, uint64_t *gained_bytes);

/* Sees that engine->scratch has so many addresses. */
vw_status vw__paged_reserve_scratch(vw__paged_engine *engine, uint64_t size_bytes);
/* Unmaps what was mapped at scratch addresses. Where the device refuses, `stuck` is taken to
 * remember it, and false returned: the addresses are lost then (vw__paged_lose_scratch). */
bool vw__paged_unmap_scratch(vw__paged_engine *engine, uint64_t address, uint64_t size_bytes,
                             vw__stuck *stuck);
void vw__paged_lose_scratch(vw__paged_engine *engine);

/* Is every byte of the unit at `address` in use? `block` is one of its arena, not far from it. */
bool vw__paged_is_unit_full(const vw__paged_engine *engine, vw__block *block, uint64_t address);

/* ---- paged_share.c --------------------------------------------------------------------------- */

/* Lets pages that are partly in use share one, until `wanted_bytes` are given back, as far as that
 * goes. At a safe point, with the device idle. Adds to `*gained_bytes`. */
vw_status vw__paged_share_pages(vw__paged_engine *engine, vw_stream stream, uint64_t wanted_bytes,
                                uint64_t *gained_bytes);

/* A block that lies in a guest comes free; false: it does not, and nothing was done. */
bool vw__paged_free_in_guests(vw__paged_engine *engine, vw__block *block);

/* Guests that nobody uses become ghosts. Records events: not while capturing. */
vw_status vw__paged_settle_vacated(vw__paged_engine *engine);

/* ---- paged_events.c -------------------------------------------------------------------------- */
vw_status vw__paged_mark_stream(vw__paged_engine *engine, vw_stream stream, vw__mark **out);
void vw__paged_leave_mark(vw__paged_engine *engine, vw__mark *mark);
vw_status vw__paged_mark_is_complete(vw__paged_engine *engine, vw__mark *mark, bool *out);
void vw__paged_end_marks(vw__paged_engine *engine);

/* ---- paged_pins.c ---------------------------------------------------------------------------- */
vw_status vw__paged_pin(vw__engine *engine, vw__block *block);
vw_status vw__paged_unpin(vw__engine *engine, vw_device_ptr address);
void vw__paged_end_pins(vw__paged_engine *engine);
vw_status vw__paged_walk_pieces(vw__engine *engine, const vw__block *under, vw__piece_visitor visit,
                                void *context);

/* ---- paged_reclaim.c ------------------------------------------------------------------------- */
vw_status vw__paged_trim(vw__engine *engine, const vw_private_id *only);

/* ---- paged_lifecycle.c ----------------------------------------------------------------------- */
extern const vw__engine_kind vw__paged_kind;

/* From now on every call answers VW_ERR_DEVICE with this text. */
void vw__paged_turn_failed(vw__paged_engine *engine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- paged_inspect.c ------------------------------------------------------------------------- */
vw_status vw__paged_check(vw__engine *engine);

#endif /* VW_ENGINE_PAGED_PAGED_ENGINE_H */
