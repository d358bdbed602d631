/* shelf.h - shelves and lanes: where free blocks are kept.
 *
 * A shelf is the free blocks of one size kind, small or large, of the default pool or of one
 * private pool. PyTorch keeps each in one set ordered by (stream, size, tie-break, address). A
 * block never serves another stream, so we keep one index per stream, a lane, and the shelf's
 * lanes in a list by rising stream: walking them in turn gives PyTorch's order. A tree beside the
 * list finds the lane of a stream: recordings may have thousands.
 *
 * Lanes are made when a stream first asks and live as long as their shelf: a few KiB per stream
 * and kind. */
#ifndef VW_ENGINE_SHELF_H
#define VW_ENGINE_SHELF_H

#include <stdbool.h>
#include <stddef.h> /* offsetof */
#include <stdint.h>

#include "vramwise/vramwise.h" /* vw_stream, vw_private_id */
#include "engine/counters.h"   /* vw__engine_size_kind */
#include "engine/free_index.h"

typedef struct vw__lane vw__lane;
typedef struct vw__shelf vw__shelf;
struct vw__private_pool; /* the engine's own */

struct vw__lane {
    vw__shelf *shelf;
    vw_stream stream;
    vw__lane *next;          /* the shelf's next higher stream */
    vw__tree_node node;      /* in the shelf's by_stream */
    vw__tree_node *unmapped; /* UNMAPPED blocks, by address */
    vw__free_index free;
};

struct vw__shelf {
    vw__engine_size_kind kind;
    struct vw__private_pool *private_pool; /* NULL: the default pool */
    vw_private_id private_id;
    int64_t clock;            /* searches so far; the ages of free blocks are counted in it */
    vw__lane *recent;         /* the lane asked for last; NULL before the first */
    vw__lane *lanes;          /* by rising stream */
    vw__tree_node *by_stream; /* the same */
};

static inline vw__lane *vw__lane_of_node(const vw__tree_node *node)
{
    return (vw__lane *)((uintptr_t)node - offsetof(vw__lane, node));
}

static inline bool vw__lane_before(const vw__tree_node *a, const vw__tree_node *b)
{
    return vw__lane_of_node(a)->stream < vw__lane_of_node(b)->stream;
}

/* The lane of a stream, made if it is new. NULL: out of host memory. */
vw__lane *vw__shelf_add_lane(vw__shelf *shelf, vw_stream stream);
void vw__shelf_deinit(vw__shelf *shelf);

/* The lane of a stream, or NULL if it has none yet. */
static inline vw__lane *vw__shelf_lane(vw__shelf *shelf, vw_stream stream)
{
    vw__lane *lane = shelf->recent;
    if (lane != NULL && lane->stream == stream)
        return lane;
    for (vw__tree_node *node = shelf->by_stream; node != NULL;) {
        lane = vw__lane_of_node(node);
        if (lane->stream == stream) {
            shelf->recent = lane;
            return lane;
        }
        node = lane->stream < stream ? node->right : node->left;
    }
    return NULL;
}

static inline vw__lane *vw__block_lane(const vw__block *block)
{
    return block->lane;
}

static inline vw_stream vw__block_stream(const vw__block *block)
{
    return block->lane->stream;
}

static inline vw__engine_size_kind vw__block_kind(const vw__block *block)
{
    return (vw__engine_size_kind)(block->nature & VW__BLOCK_NATURE_LARGE);
}

static inline vw_private_id vw__block_private_id(const vw__block *block)
{
    return block->lane->shelf->private_id;
}

/* Into the free index, as FREE and new: its age begins now. */
VW__TREE_INLINE void vw__lane_insert(vw__lane *lane, vw__block *block)
{
    block->state = VW__BLOCK_FREE;
    block->age_base = lane->shelf->clock;
    vw__free_index_insert(&lane->free, block);
}

VW__TREE_INLINE void vw__lane_remove(vw__lane *lane, vw__block *block)
{
    vw__free_index_remove(&lane->free, block);
}

/* Cuts the low `size_bytes` off a free block and returns them as a block in no index. The rest
 * stays in the free index, with the given age. One record must be spare. */
VW__TREE_INLINE vw__block *vw__lane_split_low(vw__block_source *records, vw__lane *lane,
                                              vw__block *block, uint64_t size_bytes,
                                              uint32_t tie_break, int64_t rest_age_base)
{
    block->age_base = rest_age_base;
    vw__block *low = vw__block_make_beside(records, block, block->address, size_bytes, tie_break);
    vw__block_link_before(low, block);
    vw__free_index_shrink(&lane->free, block, size_bytes);
    return low;
}

/* The free neighbours that a block was joined with. */
typedef struct vw__lane_joined {
    int64_t blocks;
    int64_t bytes;
} vw__lane_joined;

/* Makes `block`, which is in no index, FREE: joins it with free neighbours and puts it into the
 * free index. Its own record survives; the neighbours' become spare. */
VW__TREE_INLINE vw__lane_joined vw__lane_settle_free(vw__block_source *records, vw__lane *lane,
                                                     vw__block *block, int64_t age_base)
{
    vw__block *previous = block->previous, *next = block->next;
    bool joins_previous = previous != NULL && previous->state == VW__BLOCK_FREE;
    bool joins_next = next != NULL && next->state == VW__BLOCK_FREE;
    vw__lane_joined joined = {joins_previous + joins_next, 0};
    block->state = VW__BLOCK_FREE;
    block->age_base = age_base;
    if (joins_previous) {
        joined.bytes += (int64_t)previous->size_bytes;
        vw__block_absorb_previous(block);
    }
    if (joins_next) {
        joined.bytes += (int64_t)next->size_bytes;
        vw__block_absorb_next(block);
        if (joins_previous) {
            vw__free_index_remove(&lane->free, previous);
            vw__block_give_back(records, previous);
        }
        vw__free_index_replace(&lane->free, next, block);
        vw__block_give_back(records, next);
    } else if (joins_previous) {
        vw__free_index_replace(&lane->free, previous, block);
        vw__block_give_back(records, previous);
    } else {
        vw__free_index_insert(&lane->free, block);
    }
    return joined;
}

/* Makes `block`, which is in no index, UNMAPPED: joins it with unmapped neighbours and puts it into
 * the unmapped tree. Returns the neighbours' records, which the caller gives back. */
vw__block_pair vw__lane_settle_unmapped(vw__lane *lane, vw__block *block);

/* Into and out of the unmapped tree. */
void vw__lane_insert_unmapped(vw__lane *lane, vw__block *block);
void vw__lane_remove_unmapped(vw__lane *lane, vw__block *block);

/* The first unmapped block above `address`, or NULL. */
vw__block *vw__lane_unmapped_above(const vw__lane *lane, uint64_t address);

#endif /* VW_ENGINE_SHELF_H */
