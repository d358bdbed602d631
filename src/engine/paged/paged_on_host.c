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

size_t hr__paged_records_on_host(const hr__paged_handle *handle, hr__block *first)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    size_t count = 2;
    for (const hr__block *block = hr__paged_walk_to(first, begin);
         block != NULL && block->address < end; block = block->next)
        count += block->state == HR__BLOCK_FREE ? 2 : 0;
    return count;
}

/* Bytes of the handle are somebody's from now on, or nobody's: counted and told. */
static void count_part(hr__paged_engine *engine, const hr__paged_handle *handle,
                       const hr__block *part, bool is_there)
{
    hr__lane *lane = handle->home->segment->lane;
    int64_t bytes = (int64_t)part->size_bytes;
    hr__engine_count_held(&engine->base, lane->shelf, is_there ? bytes : -bytes);
    hr__engine_notice(&engine->base, is_there ? HR_ACTION_SEGMENT_MAP : HR_ACTION_SEGMENT_UNMAP,
                      lane, part->address, part->size_bytes,
                      hr__engine_event_tag(&engine->base, part));
}

static void keep_records(hr__paged_engine *engine, hr__paged_handle *handle)
{
    for (int i = 0; i < 2; i++) {
        hr__block *record = hr__block_take(&engine->base.records);
        record->node.left = (hr__tree_node *)(void *)handle->spare_records;
        handle->spare_records = record;
    }
}

static void give_back_records(hr__paged_engine *engine, hr__paged_handle *handle)
{
    while (handle->spare_records != NULL) {
        hr__block *record = handle->spare_records;
        handle->spare_records = (hr__block *)(void *)record->node.left;
        hr__block_give_back(&engine->base.records, record);
    }
}

static void count_spilled(hr__paged_engine *engine, uint64_t bytes)
{
    hr_paged_stats *stats = &engine->stats;
    stats->spilled_bytes += bytes;
    stats->peak_spilled_bytes = hr__max_u64(stats->peak_spilled_bytes, stats->spilled_bytes);
}

void hr__paged_enter_host(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *first,
                          hr__host_handle *on_host)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    handle->device_handle = on_host->device_handle;
    handle->on_host = on_host;
    handle->survey = 0;
    handle->used_bytes = 0;
    hr__block *block = hr__paged_walk_to(first, begin);
    for (uint64_t at = begin; at < end;) {
        block = hr__paged_walk_to(block, at);
        uint64_t to = hr__min_u64(block->address + block->size_bytes, end);
        if (block->state == HR__BLOCK_FREE) {
            hr__paged_cut_out(engine, block, at, to - at);
            block->state = HR__BLOCK_SHADOW;
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

void hr__paged_leave_host(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *first,
                          hr_handle device_handle)
{
    uint64_t begin = handle->home->address, end = begin + handle->size_bytes;
    handle->device_handle = device_handle;
    handle->on_host = NULL;
    hr__paged_want_no_more(engine, handle);
    engine->stats.spilled_bytes -= handle->used_bytes;
    engine->spill->handle_count--;
    engine->watched_frees--;
    give_back_records(engine, handle);
    for (hr__block *block = hr__paged_walk_to(first, begin); block != NULL && block->address < end;
         block = block->next) {
        if (block->state != HR__BLOCK_SHADOW)
            continue;
        count_part(engine, handle, block, true);
        block = hr__paged_open_block(engine, block);
    }
}

/* ---- coming free ----------------------------------------------------------------------------- */

/* What is live is never more than just before something comes free; it is counted off by now. */
void hr__paged_note_free(hr__paged_engine *engine, hr__block *block)
{
    if (block->advice != HR_ADVISE_NORMAL) {
        block->advice = HR_ADVISE_NORMAL;
        engine->watched_frees--;
    }
    if (engine->spill == NULL)
        return;
    engine->spill->peak_bytes =
        hr__max_u64(engine->spill->peak_bytes, hr__paged_live_bytes(engine) + block->size_bytes);
}

/* A record that the handle kept for this, linked to no neighbour. */
static hr__block *spare_record(hr__paged_engine *engine, hr__paged_handle *handle,
                               hr__segment *segment, uint64_t address, uint64_t size_bytes)
{
    hr__block *record = handle->spare_records;
    handle->spare_records = (hr__block *)(void *)record->node.left;
    hr__block_give_back(&engine->base.records, record);
    return hr__block_make(&engine->base.records, segment, address, size_bytes, 0);
}

/* The blocks of a handle in which nothing is used any more become one GHOST. */
static void leave_behind(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *block)
{
    hr__place *home = handle->home;
    block = hr__paged_walk_to(block, home->address);
    while (block->size_bytes < handle->size_bytes) {
        hr__block *next = block->next;
        hr__block_absorb_next(block);
        hr__block_give_back(&engine->base.records, next);
    }
    block->state = HR__BLOCK_GHOST;
    hr__paged_put_in(hr__block_lane(block), block);
    home->block = block;
    give_back_records(engine, handle);
    hr__paged_want_no_more(engine, handle);
    hr__paged_unlink_handle(engine, handle);
    handle->next = engine->spill->left;
    engine->spill->left = handle;
    engine->spill->handle_count--;
    engine->watched_frees--;
}

/* `part`, a block in no index that lies in the handle, is used no more. */
static void give_to_nobody(hr__paged_engine *engine, hr__paged_handle *handle, hr__block *part)
{
    part->state = HR__BLOCK_SHADOW;
    count_part(engine, handle, part, false);
    handle->used_bytes -= part->size_bytes;
    engine->stats.spilled_bytes -= part->size_bytes;
    if (handle->used_bytes == 0)
        leave_behind(engine, handle, part);
}

/* The first handle on the host from `address` on, before `end`; NULL: none. */
static hr__paged_handle *next_on_host(const hr__paged_engine *engine, const hr__segment *segment,
                                      uint64_t address, uint64_t end)
{
    while (address < end) {
        const hr__place *place = hr__paged_place_at(engine, segment, address);
        if (place->handle->on_host != NULL)
            return place->handle;
        address = place->address + place->handle->size_bytes;
    }
    return NULL;
}

bool hr__paged_free_on_host(hr__paged_engine *engine, hr__block *block)
{
    hr__segment *segment = block->segment;
    uint64_t end = block->address + block->size_bytes;
    if (engine->spill == NULL || engine->spill->handle_count == 0)
        return false;
    hr__paged_handle *handle = next_on_host(engine, segment, block->address, end);
    if (handle == NULL)
        return false;
    for (; handle != NULL; handle = next_on_host(engine, segment, block->address, end)) {
        uint64_t from = hr__max_u64(handle->home->address, block->address);
        uint64_t to = hr__min_u64(handle->home->address + handle->size_bytes, end);
        hr__block *before = NULL, *after = NULL;
        if (from > block->address) {
            before = spare_record(engine, handle, segment, block->address, from - block->address);
            hr__block_link_before(before, block);
        }
        if (to < end) {
            after = spare_record(engine, handle, segment, to, end - to);
            hr__block_link_after(after, block);
        }
        block->address = from;
        block->size_bytes = to - from;
        give_to_nobody(engine, handle, block);
        if (before != NULL)
            hr__paged_free_part(engine, before);
        if (after == NULL)
            return true;
        block = after;
    }
    hr__paged_free_part(engine, block);
    return true;
}

/* ---- handles that are left ------------------------------------------------------------------- */

static bool has_to_stay(const hr__paged_engine *engine, const hr__paged_handle *handle)
{
    return handle->pin_count != 0 ||
           hr__engine_is_capturing(&engine->base, handle->home->segment->lane->stream);
}

/* HR_ERR_NOT_READY: its stream has not come to its end, and may not be waited for. */
static hr_status unmap_left(hr__paged_engine *engine, hr__paged_handle *handle, bool can_wait)
{
    const hr_device_table *table = hr__paged_device(engine);
    hr__place *home = handle->home;
    bool is_complete = false;
    if (home->mark == NULL)
        HR__TRY(hr__paged_mark_stream(engine, home->segment->lane->stream, &home->mark));
    HR__TRY(hr__paged_mark_is_complete(engine, home->mark, &is_complete));
    if (!is_complete && !can_wait)
        return HR_ERR_NOT_READY;
    if (!is_complete)
        HR__TRY(table->event_synchronize(hr__paged_context(engine), home->mark->event));
    home->mark->is_complete = true;
    return hr__driver_unmap(&engine->base.owner, home->address, handle->size_bytes);
}

static void end_left(hr__paged_engine *engine, hr__paged_handle *handle)
{
    hr__place *home = handle->home;
    hr__paged_fill_units(engine, home, NULL);
    hr__paged_leave_mark(engine, home->mark);
    hr__paged_take_out(hr__block_lane(home->block), home->block);
    hr__paged_settle_unmapped(engine, home->block);
    hr__paged_give_back_place(engine, home);
    hr__host_stock_give_back(engine->spill->stock, handle->on_host);
    hr__host_free(handle);
}

hr_status hr__paged_settle_left(hr__paged_engine *engine, bool can_wait)
{
    for (hr__paged_handle **link = &engine->spill->left; *link != NULL;) {
        hr__paged_handle *handle = *link;
        hr_status status =
            has_to_stay(engine, handle) ? HR_ERR_NOT_READY : unmap_left(engine, handle, can_wait);
        if (status == HR_ERR_NOT_READY) {
            link = &handle->next;
            continue;
        }
        HR__TRY(status);
        *link = handle->next;
        end_left(engine, handle);
    }
    return HR_OK;
}
