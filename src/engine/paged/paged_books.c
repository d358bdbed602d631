/* paged_books.c - the records behind handles and places, and what blocks become as memory comes and
 * goes. The device is called elsewhere; nothing here fails. */
#include "engine/paged/paged_engine.h"

#include "base/host_memory.h"

/* ---- records --------------------------------------------------------------------------------- */

hr__place *hr__paged_take_place(hr__paged_engine *engine)
{
    hr__place *place = engine->spare_places;
    if (place == NULL)
        return hr__host_alloc_zeroed(1, sizeof *place);
    engine->spare_places = place->next;
    return place;
}

void hr__paged_give_back_place(hr__paged_engine *engine, hr__place *place)
{
    place->next = engine->spare_places;
    engine->spare_places = place;
}

void hr__paged_link_handle(hr__paged_engine *engine, hr__paged_handle *handle)
{
    handle->next = engine->handles;
    handle->link = &engine->handles;
    if (handle->next != NULL)
        handle->next->link = &handle->next;
    engine->handles = handle;
    engine->stats.handle_count++;
}

void hr__paged_unlink_handle(hr__paged_engine *engine, hr__paged_handle *handle)
{
    *handle->link = handle->next;
    if (handle->next != NULL)
        handle->next->link = handle->link;
    engine->stats.handle_count--;
}

void hr__paged_fill_units(const hr__paged_engine *engine, const hr__place *place, hr__place *with)
{
    hr__place **units = hr__paged_units(place->segment);
    size_t first = (place->address - place->segment->address) / engine->unit_bytes;
    for (size_t i = 0; i < place->handle->size_bytes / engine->unit_bytes; i++)
        units[first + i] = with;
}

static hr__block *part_of(hr__paged_engine *engine, const hr__block *block, uint64_t address,
                          uint64_t size_bytes)
{
    hr__block *part = hr__block_make(&engine->base.records, block->segment, address, size_bytes, 0);
    part->state = block->state;
    part->age_base = block->age_base;
    part->segment_tag = block->segment_tag;
    return part;
}

void hr__paged_take_out(hr__lane *lane, hr__block *block)
{
    if (block->state == HR__BLOCK_FREE)
        hr__free_index_remove(&lane->free, block);
    else
        hr__tree_remove(&lane->unmapped, &block->node);
}

void hr__paged_put_in(hr__lane *lane, hr__block *block)
{
    if (block->state == HR__BLOCK_FREE)
        hr__free_index_insert(&lane->free, block);
    else
        hr__tree_insert(&lane->unmapped, &block->node, hr__block_address_before);
}

/* Leaves `block`, which is FREE or UNMAPPED, with just the given range, in no index; what it had
 * before and after stays what it was. Two records must be spare. */
void hr__paged_cut_out(hr__paged_engine *engine, hr__block *block, uint64_t address,
                       uint64_t size_bytes)
{
    hr__lane *lane = hr__block_lane(block);
    uint64_t before_bytes = address - block->address;
    uint64_t after_bytes = block->size_bytes - before_bytes - size_bytes;
    hr__paged_take_out(lane, block);
    if (before_bytes > 0) {
        hr__block *before = part_of(engine, block, block->address, before_bytes);
        hr__block_link_before(before, block);
        hr__paged_put_in(lane, before);
    }
    if (after_bytes > 0) {
        hr__block *after = part_of(engine, block, address + size_bytes, after_bytes);
        hr__block_link_after(after, block);
        hr__paged_put_in(lane, after);
    }
    block->address = address;
    block->size_bytes = size_bytes;
}

/* Candidates of a survey may know the record of a block that is merged into another: it leads to
 * that one, and is spare from the next survey on. */
static void retire(hr__paged_engine *engine, hr__block *merged, hr__block *into)
{
    merged->size_bytes = 0;
    merged->next = into;
    merged->node.left = (hr__tree_node *)(void *)engine->retired;
    engine->retired = merged;
}

void hr__paged_give_back_retired(hr__paged_engine *engine)
{
    while (engine->retired != NULL) {
        hr__block *record = engine->retired;
        engine->retired = (hr__block *)(void *)record->node.left;
        hr__block_give_back(&engine->base.records, record);
    }
}

void hr__paged_settle_unmapped(hr__paged_engine *engine, hr__block *block)
{
    hr__lane *lane = hr__block_lane(block);
    hr__block *previous = block->previous, *next = block->next;
    if (previous != NULL && previous->state == HR__BLOCK_UNMAPPED) {
        hr__paged_take_out(lane, previous);
        hr__block_absorb_previous(block);
        retire(engine, previous, block);
    }
    if (next != NULL && next->state == HR__BLOCK_UNMAPPED) {
        hr__paged_take_out(lane, next);
        hr__block_absorb_next(block);
        retire(engine, next, block);
    }
    block->state = HR__BLOCK_UNMAPPED;
    hr__paged_put_in(lane, block);
}

hr__block *hr__paged_open_block(hr__paged_engine *engine, hr__block *block)
{
    hr__lane *lane = hr__block_lane(block);
    hr__block *previous = block->previous;
    if (previous != NULL && previous->state == HR__BLOCK_FREE) {
        hr__paged_take_out(lane, previous);
        hr__block_absorb_next(previous);
        retire(engine, block, previous);
        block = previous;
    }
    hr__block *next = block->next;
    if (next != NULL && next->state == HR__BLOCK_FREE) {
        hr__paged_take_out(lane, next);
        hr__block_absorb_next(block);
        retire(engine, next, block);
    }
    block->state = HR__BLOCK_FREE;
    block->age_base = engine->clock;
    hr__paged_put_in(lane, block);
    return block;
}

hr__block *hr__paged_walk_to(hr__block *block, uint64_t address)
{
    while (block->size_bytes == 0) /* retired */
        block = block->next;
    while (block->address > address)
        block = block->previous;
    while (address - block->address >= block->size_bytes)
        block = block->next;
    return block;
}

hr__block *hr__paged_block_around(const hr__paged_handle *handle)
{
    return hr__paged_walk_to(handle->block, handle->home->address);
}

/* ---- what listeners and counters learn ------------------------------------------------------- */

uint64_t hr__paged_serving_tag(const hr__paged_engine *engine)
{
    return engine->base.serving != NULL ? engine->base.serving->tag : 0;
}

void hr__paged_come_home(hr__paged_engine *engine, hr__place *place)
{
    hr__lane *lane = place->segment->lane;
    uint64_t size_bytes = place->handle->size_bytes;
    place->handle->home = place;
    hr__engine_count_held(&engine->base, lane->shelf, (int64_t)size_bytes);
    hr__engine_notice(&engine->base, HR_ACTION_SEGMENT_MAP, lane, place->address, size_bytes,
                      hr__paged_serving_tag(engine));
}

void hr__paged_leave_home(hr__paged_engine *engine, const hr__place *place, const hr__block *block)
{
    hr__lane *lane = place->segment->lane;
    uint64_t size_bytes = place->handle->size_bytes;
    hr__engine_count_held(&engine->base, lane->shelf, -(int64_t)size_bytes);
    hr__engine_notice(&engine->base, HR_ACTION_SEGMENT_UNMAP, lane, place->address, size_bytes,
                      hr__engine_event_tag(&engine->base, block));
}
