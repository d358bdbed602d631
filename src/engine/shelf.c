/* shelf.c - making lanes, and their unmapped blocks. */
#include "engine/shelf.h"

#include "base/host_memory.h"

hr__lane *hr__shelf_add_lane(hr__shelf *shelf, hr_stream stream)
{
    hr__lane *lane = hr__shelf_lane(shelf, stream);
    if (lane != NULL)
        return lane;
    lane = hr__host_alloc_zeroed(1, sizeof *lane);
    if (lane == NULL)
        return NULL;
    lane->shelf = shelf;
    lane->stream = stream;
    hr__lane **link = &shelf->lanes;
    while (*link != NULL && (*link)->stream < stream)
        link = &(*link)->next;
    lane->next = *link;
    *link = lane;
    shelf->recent = lane;
    return lane;
}

void hr__shelf_deinit(hr__shelf *shelf)
{
    hr__lane *next;
    for (hr__lane *lane = shelf->lanes; lane != NULL; lane = next) {
        next = lane->next;
        hr__host_free(lane);
    }
    shelf->lanes = shelf->recent = NULL;
}

void hr__lane_insert_unmapped(hr__lane *lane, hr__block *block)
{
    block->state = HR__BLOCK_UNMAPPED;
    hr__tree_insert(&lane->unmapped, &block->node, hr__block_address_before);
}

void hr__lane_remove_unmapped(hr__lane *lane, hr__block *block)
{
    hr__tree_remove(&lane->unmapped, &block->node);
}

hr__block *hr__lane_unmapped_above(const hr__lane *lane, uint64_t address)
{
    const hr__block key = {.address = address};
    hr__tree_node *node = hr__tree_after(lane->unmapped, &key.node, hr__block_address_before);
    return node != NULL ? hr__block_of_node(node) : NULL;
}
