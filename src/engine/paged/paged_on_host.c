/* paged_on_host.c - what it means that a handle is in host memory.
 *
 * Blocks in use there are in use as ever. But nothing new is to be put there, or a request would be
 * given slow memory without a word. So what is free of the handle when it leaves becomes SHADOW,
 * which no search finds, and so does each block that comes free in it. When the last one has, the
 * handle is *left*: its range becomes one GHOST block, it goes out of the list of handles, and at
 * the next miss, since a free must not call the driver, it is unmapped, after a mark in its stream,
 * and goes back to the stock. The addresses can then be used like any others.
 *
 *   on the device   [ live A ][ free  ][ live B .....][ live C ]
 *   on the host     [ live A ][ shadow][ live B .....][ live C ]
 *   B comes free    [ live A ][ shadow][ shadow .....][ live C ]
 *
 * A block may reach beyond the handle: when it comes free it is cut there, and what lies on the
 * device becomes FREE as usual. Each of the handle's two ends is cut once at most, since nothing
 * new is put across it; the two records for that are kept with the handle, so that a free needs no
 * memory. */
#include "engine/paged/paged_spill.h"

#include "engine/driver_calls.h"
#include "base/checked_math.h"
#include "base/host_memory.h"

/* ---- entering and leaving -------------------------------------------------------------------- */

size_t vw__paged_records_on_host(const vw__paged_handle *handle, vw__block *first)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    size_t count = 2;
    for (const vw__block *block = vw__paged_walk_to(first, begin);
         block != NULL && block->address < end; block = block->next)
        count += block->state == VW__BLOCK_FREE ? 2 : 0;
    return count;
}

/* Bytes of the handle are somebody's from now on, or nobody's: counted and told. */
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

void vw__paged_enter_host(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                          vw__host_handle *on_host)
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

void vw__paged_leave_host(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                          vw_handle device_handle)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    handle->device_handle = device_handle;
    handle->on_host = NULL;
    vw__paged_want_no_more(engine, handle);
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

/* ---- coming free ----------------------------------------------------------------------------- */

/* What is live is never more than just before something comes free; it is counted off by now. */
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

/* A record that the handle kept for this, linked to no neighbour. */
static vw__block *spare_record(vw__paged_engine *engine, vw__paged_handle *handle,
                               vw__segment *segment, uint64_t address, uint64_t size_bytes)
{
    vw__block *record = handle->spare_records;
    handle->spare_records = (vw__block *)(void *)record->node.left;
    vw__block_give_back(&engine->base.records, record);
    return vw__block_make(&engine->base.records, segment, address, size_bytes, 0);
}

/* The blocks of a handle in which nothing is used any more become one GHOST. */
static void leave_behind(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *block)
{
    vw__place *home = handle->home;
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
    vw__paged_want_no_more(engine, handle);
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
        const vw__place *place = vw__paged_place_at(engine, segment, address);
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
            before = spare_record(engine, handle, segment, block->address, from - block->address);
            vw__block_link_before(before, block);
        }
        if (to < end) {
            after = spare_record(engine, handle, segment, to, end - to);
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
    vw__place *home = handle->home;
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
    vw__place *home = handle->home;
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
