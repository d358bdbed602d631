/* shelf.c - making lanes, and their unmapped blocks. */
#include "engine/shelf.h"

#include "base/host_memory.h"

vw__lane *vw__shelf_add_lane(vw__shelf *shelf, vw_stream stream)
{
    vw__lane *lane = vw__shelf_lane(shelf, stream);
    if (lane != NULL)
        return lane;
    lane = vw__host_alloc_zeroed(1, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->shelf = shelf;
    lane->stream = stream;
    const vw__tree_node *lower =
        vw__tree_last_before(shelf->by_stream, &lane->node, vw__lane_before);
    vw__lane **link = lower != NULL ? &vw__lane_of_node(lower)->next : &shelf->lanes;
    lane->next = *link;
    *link = lane;
    vw__tree_insert(&shelf->by_stream, &lane->node, vw__lane_before);
    shelf->recent = lane;
    return lane;
}

void vw__shelf_deinit(vw__shelf *shelf)
{
    vw__lane *next;
    for (vw__lane *lane = shelf->lanes; lane != NULL; lane = next) {
        next = lane->next;
        vw__host_free(lane);
    }
    shelf->lanes = shelf->recent = NULL;
    shelf->by_stream = NULL;
}

void vw__lane_insert_unmapped(vw__lane *lane, vw__block *block)
{
    block->state = VW__BLOCK_UNMAPPED;
    vw__tree_insert(&lane->unmapped, &block->node, vw__block_address_before);
}

void vw__lane_remove_unmapped(vw__lane *lane, vw__block *block)
{
    vw__tree_remove(&lane->unmapped, &block->node);
}

vw__block_pair vw__lane_settle_unmapped(vw__lane *lane, vw__block *block)
{
    vw__block_pair gone = {NULL, NULL};
    if (block->previous != NULL && block->previous->state == VW__BLOCK_UNMAPPED) {
        gone.before = block->previous;
        vw__lane_remove_unmapped(lane, gone.before);
        vw__block_absorb_previous(block);
    }
    if (block->next != NULL && block->next->state == VW__BLOCK_UNMAPPED) {
        gone.after = block->next;
        vw__lane_remove_unmapped(lane, gone.after);
        vw__block_absorb_next(block);
    }
    vw__lane_insert_unmapped(lane, block);
    return gone;
}

vw__block *vw__lane_unmapped_above(const vw__lane *lane, uint64_t address)
{
    const vw__block key = {.address = address};
    vw__tree_node *node = vw__tree_after(lane->unmapped, &key.node, vw__block_address_before);
    return node != NULL ? vw__block_of_node(node) : NULL;
}
