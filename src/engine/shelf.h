/* shelf.h - shelves and lanes: where free blocks are kept.
 *
 * A shelf is the free blocks of one size kind, small or large, of the default pool or of one
 * private pool. PyTorch keeps each in one set ordered by (stream, size, tie-break, address). A
 * block never serves another stream, so we keep one index per stream, a lane, and the shelf's
 * lanes in a list by rising stream: walking them in turn gives PyTorch's order.
 *
 * Lanes are made when a stream first asks and live as long as their shelf: a few KiB per stream
 * and kind. */
#ifndef HR_ENGINE_SHELF_H
#define HR_ENGINE_SHELF_H

#include <stdbool.h>
#include <stdint.h>

#include "headroom/headroom.h" /* hr_stream, hr_private_id */
#include "engine/counters.h"   /* hr__size_kind */
#include "engine/free_index.h"

typedef struct hr__lane hr__lane;
typedef struct hr__shelf hr__shelf;
struct hr__private_pool; /* the engine's own */

struct hr__lane {
    hr__shelf *shelf;
    hr_stream stream;
    hr__lane *next;          /* the shelf's next higher stream */
    hr__tree_node *unmapped; /* UNMAPPED blocks, by address */
    hr__free_index free;
};

struct hr__shelf {
    hr__size_kind kind;
    struct hr__private_pool *private_pool; /* NULL: the default pool */
    hr_private_id private_id;
    int64_t clock;    /* searches so far; the ages of free blocks are counted in it */
    hr__lane *recent; /* the lane asked for last; NULL before the first */
    hr__lane *lanes;  /* by rising stream */
};

/* The lane of a stream, made if it is new. NULL: out of host memory. */
hr__lane *hr__shelf_add_lane(hr__shelf *shelf, hr_stream stream);
void hr__shelf_deinit(hr__shelf *shelf);

/* The lane of a stream, or NULL if it has none yet. */
static inline hr__lane *hr__shelf_lane(hr__shelf *shelf, hr_stream stream)
{
    hr__lane *lane = shelf->recent;
    if (lane != NULL && lane->stream == stream)
        return lane;
    for (lane = shelf->lanes; lane != NULL; lane = lane->next) {
        if (lane->stream == stream) {
            shelf->recent = lane;
            return lane;
        }
    }
    return NULL;
}

static inline hr__lane *hr__block_lane(const hr__block *block)
{
    return block->segment->lane;
}

static inline hr_stream hr__block_stream(const hr__block *block)
{
    return block->segment->lane->stream;
}

static inline hr__size_kind hr__block_kind(const hr__block *block)
{
    return (hr__size_kind)(block->nature & HR__NATURE_LARGE);
}

static inline hr_private_id hr__block_private_id(const hr__block *block)
{
    return block->segment->lane->shelf->private_id;
}

/* Into the free index, as FREE and new: its age begins now. */
HR__INLINE void hr__lane_insert(hr__lane *lane, hr__block *block)
{
    block->state = HR__BLOCK_FREE;
    block->age_base = lane->shelf->clock;
    hr__free_index_insert(&lane->free, block);
}

HR__INLINE void hr__lane_remove(hr__lane *lane, hr__block *block)
{
    hr__free_index_remove(&lane->free, block);
}

/* `block` takes a free neighbour's place in the index, with the neighbour's bytes. */
HR__INLINE void hr__lane_replace(hr__lane *lane, hr__block *gone, hr__block *block)
{
    block->state = HR__BLOCK_FREE;
    block->age_base = lane->shelf->clock;
    hr__free_index_replace(&lane->free, gone, block);
}

/* A free block loses bytes at its low end: what is left counts as new. */
HR__INLINE void hr__lane_shrink(hr__lane *lane, hr__block *block, uint64_t bytes)
{
    block->age_base = lane->shelf->clock;
    hr__free_index_shrink(&lane->free, block, bytes);
}

/* Into and out of the unmapped tree. */
void hr__lane_insert_unmapped(hr__lane *lane, hr__block *block);
void hr__lane_remove_unmapped(hr__lane *lane, hr__block *block);

/* The first unmapped block above `address`, or NULL. */
hr__block *hr__lane_unmapped_above(const hr__lane *lane, uint64_t address);

#endif /* HR_ENGINE_SHELF_H */
