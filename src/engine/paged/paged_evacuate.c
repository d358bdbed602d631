/* paged_evacuate.c - one handle, whose live data goes to other pages under the same addresses.
 *
 * A handle of several units that is held by a few live ones keeps the rest of them idle. To
 * *evacuate* it, each run of its live units gets memory of its own, the data is copied there, and
 * that memory is mapped in the old handle's place; the old handle goes back to the device, and what
 * nobody used of it becomes unmapped. A *deep* evacuation also parts units that are only partly
 * used from the others, so that they can share (paged_share.c).
 *
 * Nothing is lost if a call fails. The new memory is made and filled first, beside the old, through
 * scratch addresses; only then the mappings change, and the old handle is kept until the last of
 * them stands. If one cannot be made the old handle is mapped again; if that fails as well the pool
 * turns failed.
 *
 * New memory comes from the device while the limit allows, else from free handles of the pool,
 * which there are as a rule when a request found some memory but not enough. */
#include "engine/paged/paged_evacuate.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/paged/paged_books.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_moment.h"

enum { MOST_PIECES = 64 }; /* of new memory, for one handle */

bool vw__paged_is_unit_full(const vw__paged_engine *engine, vw__block *block, uint64_t address)
{
    uint64_t end = address + engine->unit_bytes;
    for (block = vw__paged_walk_to(block, address); block != NULL && block->address < end;
         block = block->next)
        if (!vw__paged_is_in_use(block))
            return false;
    return true;
}

/* ---- new memory for one handle --------------------------------------------------------------- */

typedef struct piece {
    uint64_t address; /* where it will be mapped */
    vw__paged_handle *handle;
    vw__paged_place *place;
    vw__paged_stuck *stuck; /* owned: a record for a scratch mapping that cannot be undone */
    bool is_new;            /* made for this; else a free handle of the pool */
    bool is_scratch;        /* mapped in the scratch range */
    bool is_mapped;         /* mapped at its address */
} piece;

typedef struct evacuation {
    vw__paged_engine *engine;
    vw__paged_handle *handle; /* that is left */
    vw__block *first;
    vw_stream stream; /* to copy on */
    uint64_t limit_bytes;
    bool is_deep;       /* units that are partly used get memory of their own */
    uint64_t new_bytes; /* made so far */
    size_t piece_count;
    piece pieces[MOST_PIECES];
} evacuation;

static uint64_t scratch_of(const evacuation *move, const piece *part)
{
    return move->engine->scratch->address + (part->address - move->handle->home->address);
}

/* Sees that engine->scratch has so many addresses. */
static vw_status reserve_scratch(vw__paged_engine *engine, uint64_t size_bytes)
{
    if (engine->scratch != NULL && engine->scratch->size_bytes >= size_bytes)
        return VW_OK;
    vw__paged_stuck *scratch = vw__host_alloc_zeroed(1, sizeof *scratch);
    if (scratch == NULL)
        return vw__fail_host_memory(sizeof *scratch, "addresses to copy through");
    vw_status status = vw__driver_reserve(&engine->base.owner, size_bytes, &scratch->address);
    if (status != VW_OK) {
        vw__host_free(scratch);
        return status;
    }
    scratch->size_bytes = size_bytes;
    scratch->is_reservation = true;
    vw__paged_stuck *old = engine->scratch;
    engine->scratch = scratch;
    if (old != NULL &&
        vw__driver_unreserve(&engine->base.owner, old->address, old->size_bytes) != VW_OK) {
        old->next = engine->stuck;
        engine->stuck = old;
        old = NULL;
    }
    vw__host_free(old);
    return VW_OK;
}

static vw_status make_piece(evacuation *move, uint64_t size_bytes, piece *part)
{
    vw__paged_engine *engine = move->engine;
    part->handle = vw__host_alloc_zeroed(1, sizeof *part->handle);
    if (part->handle == NULL)
        return vw__fail_host_memory(sizeof *part->handle, "a handle");
    part->handle->size_bytes = size_bytes;
    vw_status status = vw__paged_create(engine, size_bytes, &part->handle->device_handle);
    if (status != VW_OK) {
        vw__host_free(part->handle);
        part->handle = NULL;
        return status;
    }
    part->is_new = true;
    move->new_bytes += size_bytes;
    return VW_OK;
}

/* A free handle of at most `room_bytes`: the smallest that is enough, else the largest. */
static vw__paged_handle *find_free_handle(const vw__paged_engine *engine, uint64_t wanted_bytes,
                                          uint64_t room_bytes)
{
    vw__paged_handle *best = NULL;
    for (size_t i = 0; i < engine->candidate_count; i++) {
        vw__paged_handle *handle = engine->candidates[i].handle;
        if (!vw__paged_is_free(engine, handle) || handle->size_bytes > room_bytes)
            continue;
        bool is_enough = handle->size_bytes >= wanted_bytes;
        bool best_is_enough = best != NULL && best->size_bytes >= wanted_bytes;
        if (best == NULL || is_enough > best_is_enough ||
            (is_enough == best_is_enough && is_enough == (handle->size_bytes < best->size_bytes) &&
             handle->size_bytes != best->size_bytes))
            best = handle;
    }
    return best;
}

/* Memory for up to `wanted_bytes` from `address` on, where `room_bytes` may be covered.
 * VW_ERR_OUT_OF_MEMORY: there is none. */
static vw_status add_piece(evacuation *move, uint64_t address, uint64_t wanted_bytes,
                           uint64_t room_bytes, uint64_t *got_bytes)
{
    vw__paged_engine *engine = move->engine;
    if (move->piece_count == MOST_PIECES)
        return VW_ERR_OUT_OF_MEMORY;
    piece *part = &move->pieces[move->piece_count];
    *part = (piece){.address = address};
    part->place = vw__paged_take_place(engine);
    if (part->place == NULL)
        return vw__fail_host_memory(sizeof *part->place, "a handle's place");
    move->piece_count++;
    part->stuck = vw__host_alloc_zeroed(1, sizeof *part->stuck);
    if (part->stuck == NULL)
        return vw__fail_host_memory(sizeof *part->stuck, "a handle's place");
    vw_status status = VW_ERR_OUT_OF_MEMORY;
    if (engine->base.held_bytes + move->new_bytes + wanted_bytes <= move->limit_bytes)
        status = make_piece(move, wanted_bytes, part);
    if (status == VW_ERR_OUT_OF_MEMORY) {
        part->handle = find_free_handle(engine, wanted_bytes, room_bytes);
        if (part->handle == NULL)
            return VW_ERR_OUT_OF_MEMORY;
        part->handle->survey = 0;
        status = VW_OK;
    }
    VW__TRY(status);
    *part->place = (vw__paged_place){
        .handle = part->handle, .segment = move->handle->home->segment, .address = address};
    *got_bytes = part->handle->size_bytes;
    return VW_OK;
}

/* The next run of live units from `address` on, in [*from, *to); false: there is none. */
static bool next_live_run(const evacuation *move, uint64_t address, uint64_t *from, uint64_t *to)
{
    const vw__paged_engine *engine = move->engine;
    const vw__segment *segment = move->handle->home->segment;
    uint64_t begin = move->handle->home->address, end = begin + move->handle->size_bytes;
    bool is_found = false;
    for (const vw__block *block = move->first; block != NULL && block->address < end;
         block = block->next) {
        uint64_t block_end = block->address + block->size_bytes;
        if (!vw__paged_is_in_use(block) || block_end <= address)
            continue;
        uint64_t first = vw__paged_unit_at(engine, segment, vw__max_u64(block->address, address));
        uint64_t last = begin + vw__paged_whole_units(engine, vw__min_u64(block_end, end) - begin);
        if (!is_found) {
            *from = first;
            *to = last;
            is_found = true;
        } else if (first <= *to) {
            *to = vw__max_u64(*to, last);
        } else {
            break;
        }
    }
    return is_found;
}

static vw_status fill_run(evacuation *move, uint64_t from, uint64_t to, uint64_t room_end)
{
    while (from < to) {
        uint64_t got_bytes = 0;
        VW__TRY(add_piece(move, from, to - from, room_end - from, &got_bytes));
        from += got_bytes;
    }
    return VW_OK;
}

/* A run in parts: units wholly in use, as long as they follow each other, and single others. */
static vw_status fill_run_by_units(evacuation *move, uint64_t from, uint64_t to)
{
    uint64_t unit_bytes = move->engine->unit_bytes;
    while (from < to) {
        uint64_t end = from;
        while (end < to && vw__paged_is_unit_full(move->engine, move->first, end))
            end += unit_bytes;
        if (end == from)
            end += unit_bytes;
        VW__TRY(fill_run(move, from, end, end));
        from = end;
    }
    return VW_OK;
}

static vw_status gather_pieces(evacuation *move)
{
    uint64_t end = move->handle->home->address + move->handle->size_bytes;
    uint64_t from = 0, to = 0;
    for (uint64_t at = move->handle->home->address;
         at < end && next_live_run(move, at, &from, &to);) {
        uint64_t next_from = 0, next_to = 0;
        uint64_t room_end = next_live_run(move, to, &next_from, &next_to) ? next_from : end;
        if (move->is_deep)
            VW__TRY(fill_run_by_units(move, from, to));
        else
            VW__TRY(fill_run(move, from, to, room_end));
        const piece *last = &move->pieces[move->piece_count - 1];
        at = last->address + last->handle->size_bytes;
    }
    return VW_OK;
}

/* ---- copying --------------------------------------------------------------------------------- */

/* After vw__paged_map(): a mapping that it could not undo failed the pool. */
static bool is_mapped_after(const evacuation *move, vw_status status)
{
    return status == VW_OK || move->engine->failure != NULL;
}

static vw_status map_scratch(evacuation *move)
{
    for (size_t i = 0; i < move->piece_count; i++) {
        piece *part = &move->pieces[i];
        vw_status status = vw__paged_map(move->engine, part->handle, scratch_of(move, part));
        part->is_scratch = is_mapped_after(move, status);
        VW__TRY(status);
    }
    return VW_OK;
}

/* A mapping that the device would not undo takes nothing but its addresses: they are left alone,
 * and the end tries again. */
/* Unmaps what was mapped at scratch addresses. Where the device refuses, `stuck` is taken to
 * remember it, and false returned: the addresses are lost then (lose_scratch). */
static bool unmap_at(vw__paged_engine *engine, uint64_t address, uint64_t size_bytes,
                     vw__paged_stuck *stuck)
{
    if (vw__driver_unmap(&engine->base.owner, address, size_bytes) == VW_OK)
        return true;
    *stuck = (vw__paged_stuck){engine->stuck, address, size_bytes, .is_reservation = false};
    engine->stuck = stuck;
    return false;
}

static void lose_scratch(vw__paged_engine *engine)
{
    vw__paged_stuck **end = &engine->stuck; /* behind the mappings in it */
    while (*end != NULL)
        end = &(*end)->next;
    *end = engine->scratch;
    engine->scratch = NULL;
}

static void unmap_scratch(evacuation *move)
{
    vw__paged_engine *engine = move->engine;
    bool is_lost = false;
    for (size_t i = 0; i < move->piece_count; i++) {
        piece *part = &move->pieces[i];
        if (part->is_scratch &&
            !unmap_at(engine, scratch_of(move, part), part->handle->size_bytes, part->stuck)) {
            part->stuck = NULL;
            is_lost = true;
        }
        vw__host_free(part->stuck);
    }
    if (is_lost)
        lose_scratch(engine);
}

/* Those that the device does not let go stay noted as mapped, and fail the pool. */
static void unmap_pieces(evacuation *move)
{
    vw__paged_engine *engine = move->engine;
    for (size_t i = 0; i < move->piece_count; i++) {
        piece *part = &move->pieces[i];
        if (!part->is_mapped)
            continue;
        part->is_mapped =
            vw__driver_unmap(&engine->base.owner, part->address, part->handle->size_bytes) != VW_OK;
        if (part->is_mapped)
            vw__paged_turn_failed(engine, "a page at %#" PRIx64 " cannot be unmapped",
                                  part->address);
    }
}

/* The pool has failed over a page that is mapped still: the end must know it. */
static void keep_stuck(vw__paged_engine *engine, const piece *part)
{
    vw__paged_handle *handle = part->handle;
    if (part->is_new) {
        handle->home = part->place;
        vw__paged_link_handle(engine, handle);
        return;
    }
    part->place->next = handle->ghosts;
    handle->ghosts = part->place;
}

/* Takes everything back that was prepared. */
static void give_up(evacuation *move)
{
    vw__paged_engine *engine = move->engine;
    unmap_scratch(move);
    for (size_t i = 0; i < move->piece_count; i++) {
        piece *part = &move->pieces[i];
        if (part->is_mapped) {
            keep_stuck(engine, part);
            continue;
        }
        vw__paged_give_back_place(engine, part->place);
        if (part->handle != NULL && !part->is_new)
            part->handle->survey = engine->survey; /* free as before */
        if (part->handle == NULL || !part->is_new)
            continue;
        (void)vw__driver_release(&engine->base.owner, part->handle->device_handle);
        vw__host_free(part->handle);
    }
}

/* The mappings change hands: all of them or none. */
static vw_status swap(evacuation *move)
{
    vw__paged_engine *engine = move->engine;
    const vw__paged_handle *old = move->handle;
    VW__TRY(vw__driver_unmap(&engine->base.owner, old->home->address, old->size_bytes));
    vw_status status = VW_OK;
    for (size_t i = 0; i < move->piece_count && status == VW_OK; i++) {
        status = vw__paged_map(engine, move->pieces[i].handle, move->pieces[i].address);
        move->pieces[i].is_mapped = is_mapped_after(move, status);
    }
    if (status == VW_OK)
        return VW_OK;
    unmap_pieces(move);
    vw__paged_map_back(engine, old);
    return status;
}

/* ---- the books ------------------------------------------------------------------------------- */

/* The parts between the pieces lose their memory. */
static void unmap_gap(evacuation *move, uint64_t address, uint64_t end)
{
    if (address >= end)
        return;
    vw__block *block = vw__paged_walk_to(move->first, address);
    vw__paged_cut_out(move->engine, block, address, end - address);
    vw__paged_settle_unmapped(move->engine, block);
    move->first = block;
}

static void settle_piece(evacuation *move, piece *part, vw__paged_mark *mark)
{
    vw__paged_engine *engine = move->engine;
    if (part->is_new) {
        vw__paged_link_handle(engine, part->handle);
        engine->base.owner.counters->num_device_alloc++;
    } else {
        mark->users++;
        vw__paged_become_ghost(engine, part->handle, mark);
    }
    vw__paged_fill_units(engine, part->place, part->place);
    vw__paged_come_home(engine, part->place);
}

static vw_status settle(evacuation *move, vw__paged_mark *mark)
{
    vw__paged_engine *engine = move->engine;
    vw__paged_handle *old = move->handle;
    vw__paged_place *home = old->home;
    uint64_t at = home->address, end = home->address + old->size_bytes;
    vw__paged_leave_home(engine, home, move->first);
    vw__paged_fill_units(engine, home, NULL);
    for (size_t i = 0; i < move->piece_count; i++) {
        piece *part = &move->pieces[i];
        unmap_gap(move, at, part->address);
        at = part->address + part->handle->size_bytes;
        settle_piece(move, part, mark);
    }
    unmap_gap(move, at, end);
    unmap_scratch(move);
    return vw__paged_end_handle(engine, old);
}

static uint64_t bytes_of_pieces(const evacuation *move)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < move->piece_count; i++)
        bytes += move->pieces[i].handle->size_bytes;
    return bytes;
}

/* VW_ERR_OUT_OF_MEMORY: there is no memory to copy to, or as much as would be gained; nothing
 * changed. */
static vw_status evacuate(evacuation *move)
{
    vw__paged_engine *engine = move->engine;
    vw__paged_mark *mark = NULL;
    while (move->handle->ghosts != NULL)
        VW__TRY(vw__paged_drop_ghost(engine, move->handle->ghosts, true));
    if (!vw__block_source_reserve(&engine->base.records, 4 * (MOST_PIECES + 1)))
        return vw__fail_host_memory(sizeof(vw__block), "block records");
    VW__TRY(reserve_scratch(engine, move->handle->size_bytes));
    VW__TRY(vw__paged_mark_stream(engine, move->stream, &mark));
    vw_status status = gather_pieces(move);
    if (status == VW_OK && !move->is_deep && bytes_of_pieces(move) >= move->handle->size_bytes)
        status = VW_ERR_OUT_OF_MEMORY; /* free handles that are too large */
    if (status == VW_OK)
        status = map_scratch(move);
    if (status == VW_OK)
        status = vw__paged_copy_live(engine, move->handle, move->first, engine->scratch->address,
                                     move->stream);
    if (status == VW_OK)
        status = swap(move);
    if (status == VW_OK)
        status = settle(move, mark);
    else
        give_up(move);
    vw__paged_leave_mark(engine, mark);
    return engine->failure != NULL ? vw__fail(VW_ERR_DEVICE, "%s", engine->failure) : status;
}

/* ---- the whole of it ------------------------------------------------------------------------- */

vw_status vw__paged_evacuate(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                             vw_stream stream, bool is_deep, uint64_t *gained_bytes)
{
    uint64_t size_bytes = handle->size_bytes;
    evacuation move = {.engine = engine,
                       .handle = handle,
                       .first = vw__paged_walk_to(first, handle->home->address),
                       .stream = stream,
                       .limit_bytes = vw__paged_limit_bytes(engine),
                       .is_deep = is_deep};
    VW__TRY(evacuate(&move));
    *gained_bytes += size_bytes - bytes_of_pieces(&move);
    return VW_OK;
}
