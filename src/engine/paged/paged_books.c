/* paged_books.c - records, and what blocks become. */
#include "engine/paged/paged_books.h"

#include "base/host_memory.h"

/* ---- records --------------------------------------------------------------------------------- */

vw__paged_place *vw__paged_take_place(vw__paged_engine *engine)
{
    vw__paged_place *place = engine->spare_places;
    if (place == NULL)
        return vw__host_alloc_zeroed(1, sizeof *place);
    engine->spare_places = place->next;
    return place;
}

void vw__paged_give_back_place(vw__paged_engine *engine, vw__paged_place *place)
{
    place->next = engine->spare_places;
    engine->spare_places = place;
}

void vw__paged_link_handle(vw__paged_engine *engine, vw__paged_handle *handle)
{
    handle->next = engine->handles;
    handle->link = &engine->handles;
    if (handle->next != NULL)
        handle->next->link = &handle->next;
    engine->handles = handle;
    engine->stats.handle_count++;
}

void vw__paged_unlink_handle(vw__paged_engine *engine, vw__paged_handle *handle)
{
    *handle->link = handle->next;
    if (handle->next != NULL)
        handle->next->link = handle->link;
    engine->stats.handle_count--;
}

void vw__paged_fill_units(const vw__paged_engine *engine, const vw__paged_place *place,
                          vw__paged_place *with)
{
    vw__paged_place **units = vw__paged_units(place->segment);
    size_t first = (place->address - place->segment->address) / engine->unit_bytes;
    for (size_t i = 0; i < place->handle->size_bytes / engine->unit_bytes; i++)
        units[first + i] = with;
}

void vw__paged_take_out(vw__lane *lane, vw__block *block)
{
    if (block->state == VW__BLOCK_FREE)
        vw__free_index_remove(&lane->free, block);
    else
        vw__tree_remove(&lane->unmapped, &block->node);
}

void vw__paged_put_in(vw__lane *lane, vw__block *block)
{
    if (block->state == VW__BLOCK_FREE)
        vw__free_index_insert(&lane->free, block);
    else
        vw__tree_insert(&lane->unmapped, &block->node, vw__block_address_before);
}

/* A part of a block that was cut stays what the block was. */
static void put_in_rest(vw__lane *lane, vw__block *rest, const vw__block *block)
{
    if (rest == NULL)
        return;
    rest->state = block->state;
    rest->age_base = block->age_base;
    rest->segment_tag = block->segment_tag;
    vw__paged_put_in(lane, rest);
}

void vw__paged_cut_out(vw__paged_engine *engine, vw__block *block, uint64_t address,
                       uint64_t size_bytes)
{
    vw__lane *lane = vw__block_lane(block);
    vw__paged_take_out(lane, block);
    vw__block_pair rest = vw__block_cut_out(&engine->base.records, block, address, size_bytes);
    put_in_rest(lane, rest.before, block);
    put_in_rest(lane, rest.after, block);
}

/* Candidates of a survey may know the record of a block that is merged into another: it leads to
 * that one, and is spare from the next survey on. */
static void retire(vw__paged_engine *engine, vw__block *merged, vw__block *into)
{
    merged->size_bytes = 0;
    merged->next = into;
    merged->node.left = (vw__tree_node *)(void *)engine->retired;
    engine->retired = merged;
}

void vw__paged_give_back_retired(vw__paged_engine *engine)
{
    while (engine->retired != NULL) {
        vw__block *record = engine->retired;
        engine->retired = (vw__block *)(void *)record->node.left;
        vw__block_give_back(&engine->base.records, record);
    }
}

void vw__paged_settle_unmapped(vw__paged_engine *engine, vw__block *block)
{
    vw__block_pair gone = vw__lane_settle_unmapped(vw__block_lane(block), block);
    if (gone.before != NULL)
        retire(engine, gone.before, block);
    if (gone.after != NULL)
        retire(engine, gone.after, block);
}

void vw__paged_settle_free(vw__paged_engine *engine, vw__block *block, int64_t age)
{
    vw__lane_settle_free(&engine->base.records, vw__block_lane(block), block, age);
}

vw__block *vw__paged_open_block(vw__paged_engine *engine, vw__block *block)
{
    vw__lane *lane = vw__block_lane(block);
    vw__block *previous = block->previous;
    if (previous != NULL && previous->state == VW__BLOCK_FREE) {
        vw__paged_take_out(lane, previous);
        vw__block_absorb_next(previous);
        retire(engine, block, previous);
        block = previous;
    }
    vw__block *next = block->next;
    if (next != NULL && next->state == VW__BLOCK_FREE) {
        vw__paged_take_out(lane, next);
        vw__block_absorb_next(block);
        retire(engine, next, block);
    }
    block->state = VW__BLOCK_FREE;
    block->age_base = engine->clock;
    vw__paged_put_in(lane, block);
    return block;
}

/* The block that a record was merged into, in the end. Halves the way for whoever comes next: many
 * blocks that are merged one after the other are a long one. */
static vw__block *follow_retired(vw__block *block)
{
    while (block->size_bytes == 0) {
        if (block->next->size_bytes == 0)
            block->next = block->next->next;
        block = block->next;
    }
    return block;
}

vw__block *vw__paged_walk_to(vw__block *block, uint64_t address)
{
    block = follow_retired(block);
    while (block->address > address)
        block = block->previous;
    while (address - block->address >= block->size_bytes)
        block = block->next;
    return block;
}

vw__block *vw__paged_block_around(const vw__paged_handle *handle)
{
    return vw__paged_walk_to(handle->block, handle->home->address);
}

/* ---- what listeners and counters learn ------------------------------------------------------- */

uint64_t vw__paged_serving_tag(const vw__paged_engine *engine)
{
    return engine->base.serving != NULL ? engine->base.serving->tag : 0;
}

/* A whole segment counts and is shown as a plain one: whoever registers memory looks for those. */
void vw__paged_come_home(vw__paged_engine *engine, vw__paged_place *place)
{
    vw__lane *lane = place->segment->lane;
    uint64_t size_bytes = place->handle->size_bytes;
    bool is_whole = vw__segment_is_whole(place->segment);
    place->handle->home = place;
    vw__engine_count_held(&engine->base, lane->shelf, (int64_t)size_bytes);
    if (is_whole)
        vw__counter_up(&engine->base.owner.counters->segment, lane->shelf->kind, 1);
    vw__engine_notice(&engine->base, is_whole ? VW_ACTION_SEGMENT_ALLOC : VW_ACTION_SEGMENT_MAP,
                      lane, place->address, size_bytes, vw__paged_serving_tag(engine));
}

void vw__paged_leave_home(vw__paged_engine *engine, const vw__paged_place *place,
                          const vw__block *block)
{
    vw__lane *lane = place->segment->lane;
    uint64_t size_bytes = place->handle->size_bytes;
    bool is_whole = vw__segment_is_whole(place->segment);
    vw__engine_count_held(&engine->base, lane->shelf, -(int64_t)size_bytes);
    if (is_whole)
        vw__counter_down(&engine->base.owner.counters->segment, lane->shelf->kind, 1);
    vw__engine_notice(&engine->base, is_whole ? VW_ACTION_SEGMENT_FREE : VW_ACTION_SEGMENT_UNMAP,
                      lane, place->address, size_bytes, vw__engine_event_tag(&engine->base, block));
}
