/* paged_on_host.c - handles whose pages are exchanged for the host's, under their address.
 *
 * The host's memory has a window, addresses at which it is mapped all its life (host_lender.h). To
 * leave, it is filled there beside the old memory, and only then the mapping changes. To come back
 * the mapping changes first, and the window, where the data still is, fills the new memory. If
 * anything fails the old memory is mapped again; if that fails as well the pool turns failed. So
 * the data is always where the address says, and whole. The handle stays the same record, at the
 * same place; only its memory is another.
 *
 * Blocks on the host stay in use. But nothing new is placed there, or a request would silently get
 * slow memory. So the free parts of a handle become SHADOW when it leaves, which no search finds,
 * and so does each block that is freed in it. After the last one the handle is *left*: its range
 * becomes one GHOST block and it goes out of the list of handles. At the next miss, since a free
 * must not call the driver, it is unmapped, after a mark in its stream, and given back to the
 * lender. The addresses can then be used like any others.
 *
 *   on the device   [ live A ][ free  ][ live B .....][ live C ]
 *   on the host     [ live A ][ shadow][ live B .....][ live C ]
 *   B comes free    [ live A ][ shadow][ shadow .....][ live C ]
 *
 * A block may reach beyond the handle: when it comes free it is cut there, and what lies on the
 * device becomes FREE as usual. Each of the handle's two ends is cut once at most, since nothing
 * new is put across it; the two records for that are kept with the handle, so that a free needs no
 * memory. */
#include "engine/paged/paged_on_host.h"

#include <inttypes.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "engine/driver_calls.h"
#include "engine/paged/paged_books.h"
#include "engine/paged/paged_handles.h"
#include "engine/paged/paged_moment.h"
#include "engine/paged/paged_share.h"

/* ---- wanted back ----------------------------------------------------------------------------- */

void vw__paged_want_early(vw__paged_engine *engine, vw__paged_handle *handle)
{
    handle->is_wanted_early = true;
    engine->spill->early_bytes += handle->size_bytes;
}

static void want_no_more(vw__paged_engine *engine, vw__paged_handle *handle)
{
    if (handle->is_wanted_early)
        engine->spill->early_bytes -= handle->size_bytes;
    handle->is_wanted_early = false;
}

/* ---- entering and leaving -------------------------------------------------------------------- */

/* To enter the host takes so many records. */
static size_t records_on_host(const vw__paged_handle *handle, vw__block *first)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    size_t count = 2;
    for (const vw__block *block = vw__paged_walk_to(first, begin);
         block != NULL && block->address < end; block = block->next)
        count += block->state == VW__BLOCK_FREE ? 2 : 0;
    return count;
}

/* Counts a part of the handle in or out of the bytes held, and tells listeners. */
static void count_part(vw__paged_engine *engine, const vw__paged_handle *handle,
                       const vw__block *part, bool is_there)
{
    vw__lane *lane = handle->home->segment->lane;
    int64_t bytes = (int64_t)part->size_bytes;
    vw__engine_count_held(&engine->base, lane->shelf, is_there ? bytes : -bytes);
    vw__engine_notice(&engine->base, is_there ? VW_ACTION_SEGMENT_MAP : VW_ACTION_SEGMENT_UNMAP,
                      lane, part->address, part->size_bytes,
                      vw__engine_event_tag(&engine->base, part));
}

static void keep_records(vw__paged_engine *engine, vw__paged_handle *handle)
{
    for (int i = 0; i < 2; i++) {
        vw__block *record = vw__block_take(&engine->base.records);
        record->node.left = (vw__tree_node *)(void *)handle->spare_records;
        handle->spare_records = record;
    }
}

static void give_back_records(vw__paged_engine *engine, vw__paged_handle *handle)
{
    while (handle->spare_records != NULL) {
        vw__block *record = handle->spare_records;
        handle->spare_records = (vw__block *)(void *)record->node.left;
        vw__block_give_back(&engine->base.records, record);
    }
}

static void count_spilled(vw__paged_engine *engine, uint64_t bytes)
{
    vw_paged_stats *stats = &engine->stats;
    stats->spilled_bytes += bytes;
    stats->peak_spilled_bytes = vw__max_u64(stats->peak_spilled_bytes, stats->spilled_bytes);
}

static void enter_host(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                       vw__lender_handle *on_host)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    handle->device_handle = on_host->device_handle;
    handle->on_host = on_host;
    handle->survey = 0;
    handle->used_bytes = 0;
    vw__block *block = vw__paged_walk_to(first, begin);
    for (uint64_t at = begin; at < end;) {
        block = vw__paged_walk_to(block, at);
        uint64_t to = vw__min_u64(block->address + block->size_bytes, end);
        if (block->state == VW__BLOCK_FREE) {
            vw__paged_cut_out(engine, block, at, to - at);
            block->state = VW__BLOCK_SHADOW;
            count_part(engine, handle, block, false);
        } else {
            handle->used_bytes += to - at;
        }
        at = to;
    }
    keep_records(engine, handle);
    count_spilled(engine, handle->used_bytes);
    engine->spill->handle_count++;
    engine->watched_frees++;
}

static void leave_host(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                       vw_handle device_handle)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    handle->device_handle = device_handle;
    handle->on_host = NULL;
    want_no_more(engine, handle);
    engine->stats.spilled_bytes -= handle->used_bytes;
    engine->spill->handle_count--;
    engine->watched_frees--;
    give_back_records(engine, handle);
    for (vw__block *block = vw__paged_walk_to(first, begin); block != NULL && block->address < end;
         block = block->next) {
        if (block->state != VW__BLOCK_SHADOW)
            continue;
        count_part(engine, handle, block, true);
        block = vw__paged_open_block(engine, block);
    }
}

/* ---- exchanging pages ------------------------------------------------------------------------ */

/* `memory`, of the handle's size, takes its place at the address; or all is as it was. */
static vw_status exchange(vw__paged_engine *engine, const vw__paged_handle *handle,
                          vw_handle memory)
{
    const vw__paged_handle with = {.device_handle = memory, .size_bytes = handle->size_bytes};
    uint64_t address = handle->home->address;
    VW__TRY(vw__driver_unmap(&engine->base.owner, address, handle->size_bytes));
    vw_status status = vw__paged_map(engine, &with, address);
    if (status != VW_OK)
        vw__paged_map_back(engine, handle);
    return status;
}

/* The copy back failed: maps the handle's old memory again. */
static void undo_exchange(vw__paged_engine *engine, const vw__paged_handle *handle)
{
    uint64_t address = handle->home->address;
    if (vw__driver_unmap(&engine->base.owner, address, handle->size_bytes) == VW_OK)
        vw__paged_map_back(engine, handle);
    else
        vw__paged_turn_failed(engine, "memory at %#" PRIx64 " could be neither filled nor unmapped",
                              address);
}

static vw_status drop_ghosts(vw__paged_engine *engine, vw__paged_handle *handle)
{
    while (handle->ghosts != NULL)
        VW__TRY(vw__paged_drop_ghost(engine, handle->ghosts, true));
    return VW_OK;
}

static vw_status failure_or(const vw__paged_engine *engine, vw_status status)
{
    return engine->failure != NULL ? vw__fail(VW_ERR_DEVICE, "%s", engine->failure) : status;
}

vw_status vw__paged_swap_out(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                             vw_stream stream)
{
    vw__lender_handle *on_host = NULL;
    vw_handle memory = handle->device_handle;
    VW__TRY(drop_ghosts(engine, handle));
    if (!vw__block_source_reserve(&engine->base.records, records_on_host(handle, first)))
        return vw__fail_host_memory(sizeof(vw__block), "block records");
    VW__TRY(engine->spill->host.take(engine->spill->host.context, handle->size_bytes, &on_host));
    vw_status status = vw__paged_copy_live(engine, handle, first, on_host->window, stream);
    if (status == VW_OK)
        status = exchange(engine, handle, on_host->device_handle);
    if (status != VW_OK) {
        vw__paged_give_back_to_host(engine, on_host);
        return failure_or(engine, status);
    }
    enter_host(engine, handle, first, on_host);
    engine->stats.all_spilled_bytes += handle->used_bytes;
    engine->base.owner.counters->num_device_free++;
    return vw__driver_release(&engine->base.owner, memory);
}

vw_status vw__paged_swap_in(vw__paged_engine *engine, vw__paged_handle *handle, vw_stream stream)
{
    vw__lender_handle *on_host = handle->on_host;
    vw__block *first = vw__engine_find(&engine->base, handle->home->address);
    vw_handle memory = 0;
    VW__TRY(vw__paged_create(engine, handle->size_bytes, &memory));
    vw_status status = exchange(engine, handle, memory);
    if (status == VW_OK) {
        status = vw__paged_copy_back(engine, handle, first, on_host->window, stream);
        if (status != VW_OK)
            undo_exchange(engine, handle);
    }
    if (status != VW_OK) {
        (void)vw__driver_release(&engine->base.owner, memory);
        return failure_or(engine, status);
    }
    engine->stats.returned_bytes += handle->used_bytes;
    engine->base.owner.counters->num_device_alloc++;
    leave_host(engine, handle, first, memory);
    vw__paged_give_back_to_host(engine, on_host);
    return VW_OK;
}

/* ---- coming free ----------------------------------------------------------------------------- */

/* The live bytes peak just before a free; this block is already counted off. */
void vw__paged_note_free(vw__paged_engine *engine, vw__block *block)
{
    if (block->advice != VW_ADVISE_NORMAL) {
        block->advice = VW_ADVISE_NORMAL;
        engine->watched_frees--;
    }
    if (engine->spill == NULL)
        return;
    engine->spill->peak_bytes =
        vw__max_u64(engine->spill->peak_bytes, vw__paged_live_bytes(engine) + block->size_bytes);
}

/* A part of `block`, in a record that the handle kept for this, linked to no neighbour. It stays
 * what the block is until its turn comes: what comes free beside it meanwhile must not join it. */
static vw__block *make_part(vw__paged_engine *engine, vw__paged_handle *handle,
                            const vw__block *block, uint64_t address, uint64_t size_bytes)
{
    vw__block *record = handle->spare_records;
    handle->spare_records = (vw__block *)(void *)record->node.left;
    vw__block_give_back(&engine->base.records, record);
    vw__block *part = vw__block_make(&engine->base.records, block->segment, address, size_bytes, 0);
    part->state = block->state;
    return part;
}

/* The blocks of a handle in which nothing is used any more become one GHOST. */
static void leave_behind(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *block)
{
    vw__paged_place *home = handle->home;
    block = vw__paged_walk_to(block, home->address);
    while (block->size_bytes < handle->size_bytes) {
        vw__block *next = block->next;
        vw__block_absorb_next(block);
        vw__block_give_back(&engine->base.records, next);
    }
    block->state = VW__BLOCK_GHOST;
    vw__paged_put_in(vw__block_lane(block), block);
    home->block = block;
    give_back_records(engine, handle);
    want_no_more(engine, handle);
    vw__paged_unlink_handle(engine, handle);
    handle->next = engine->spill->left;
    engine->spill->left = handle;
    engine->spill->handle_count--;
    engine->watched_frees--;
}

/* `part`, a block in no index that lies in the handle, is used no more. */
static void give_to_nobody(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *part)
{
    part->state = VW__BLOCK_SHADOW;
    count_part(engine, handle, part, false);
    handle->used_bytes -= part->size_bytes;
    engine->stats.spilled_bytes -= part->size_bytes;
    if (handle->used_bytes == 0)
        leave_behind(engine, handle, part);
}

/* The first handle on the host from `address` on, before `end`; NULL: none. */
static vw__paged_handle *next_on_host(const vw__paged_engine *engine, const vw__segment *segment,
                                      uint64_t address, uint64_t end)
{
    while (address < end) {
        const vw__paged_place *place = vw__paged_place_at(engine, segment, address);
        if (place->handle->on_host != NULL)
            return place->handle;
        address = place->address + place->handle->size_bytes;
    }
    return NULL;
}

bool vw__paged_free_on_host(vw__paged_engine *engine, vw__block *block)
{
    vw__segment *segment = block->segment;
    uint64_t end = block->address + block->size_bytes;
    if (engine->spill == NULL || engine->spill->handle_count == 0)
        return false;
    vw__paged_handle *handle = next_on_host(engine, segment, block->address, end);
    if (handle == NULL)
        return false;
    for (; handle != NULL; handle = next_on_host(engine, segment, block->address, end)) {
        uint64_t from = vw__max_u64(handle->home->address, block->address);
        uint64_t to = vw__min_u64(handle->home->address + handle->size_bytes, end);
        vw__block *before = NULL, *after = NULL;
        if (from > block->address) {
            before = make_part(engine, handle, block, block->address, from - block->address);
            vw__block_link_before(before, block);
        }
        if (to < end) {
            after = make_part(engine, handle, block, to, end - to);
            vw__block_link_after(after, block);
        }
        block->address = from;
        block->size_bytes = to - from;
        give_to_nobody(engine, handle, block);
        if (before != NULL)
            vw__paged_free_part(engine, before);
        if (after == NULL)
            return true;
        block = after;
    }
    vw__paged_free_part(engine, block);
    return true;
}

/* ---- handles that are left ------------------------------------------------------------------- */

static bool has_to_stay(const vw__paged_engine *engine, const vw__paged_handle *handle)
{
    return handle->pin_count != 0 ||
           vw__engine_is_capturing(&engine->base, handle->home->segment->lane->stream);
}

/* VW_ERR_NOT_READY: its stream has not come to its end, and may not be waited for. */
static vw_status unmap_left(vw__paged_engine *engine, vw__paged_handle *handle, bool can_wait)
{
    const vw_device_table *table = vw__paged_device(engine);
    vw__paged_place *home = handle->home;
    bool is_complete = false;
    if (home->mark == NULL)
        VW__TRY(vw__paged_mark_stream(engine, home->segment->lane->stream, &home->mark));
    VW__TRY(vw__paged_mark_is_complete(engine, home->mark, &is_complete));
    if (!is_complete && !can_wait)
        return VW_ERR_NOT_READY;
    if (!is_complete)
        VW__TRY(table->event_synchronize(vw__paged_context(engine), home->mark->event));
    home->mark->is_complete = true;
    return vw__driver_unmap(&engine->base.owner, home->address, handle->size_bytes);
}

static void end_left(vw__paged_engine *engine, vw__paged_handle *handle)
{
    vw__paged_place *home = handle->home;
    vw__paged_fill_units(engine, home, NULL);
    vw__paged_leave_mark(engine, home->mark);
    vw__paged_take_out(vw__block_lane(home->block), home->block);
    vw__paged_settle_unmapped(engine, home->block);
    vw__paged_give_back_place(engine, home);
    vw__paged_give_back_to_host(engine, handle->on_host);
    vw__host_free(handle);
}

vw_status vw__paged_settle_left(vw__paged_engine *engine, bool can_wait)
{
    for (vw__paged_handle **link = &engine->spill->left; *link != NULL;) {
        vw__paged_handle *handle = *link;
        vw_status status =
            has_to_stay(engine, handle) ? VW_ERR_NOT_READY : unmap_left(engine, handle, can_wait);
        if (status == VW_ERR_NOT_READY) {
            link = &handle->next;
            continue;
        }
        VW__TRY(status);
        *link = handle->next;
        end_left(engine, handle);
    }
    return VW_OK;
}
