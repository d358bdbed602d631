/* block_map.h - from the address of a live block to its record.
 *
 * Every allocation and every free goes through here once. Open addressing with linear probing: a
 * search usually takes one cache line and ends where it begins, which the processor can predict.
 *
 * Records lie on cache lines of their own, so the low bits of a pointer to one are free to count: a
 * place knows how many records passed it, because it was taken, on the way from their home to their
 * own place. A search ends at the first place that nobody passed. A removal takes the address out
 * and counts back, and nothing moves: whatever lies behind need not be looked at, and a pool that
 * allocates and frees for weeks keeps searches as short as they were in its first second.
 *
 * Insertion never allocates, because it happens under a pool's lock. Growth is in steps, so that
 * the caller can take host memory outside that lock:
 *
 *   under the lock     vw__block_map_has_room(): go on if true
 *                      else capacity = vw__block_map_wanted_capacity()
 *   without the lock   table = vw__block_map_new_table(capacity)
 *   under the lock     spare = vw__block_map_adopt(map, table, capacity); ask again: others may
 *                      have filled the room in the meantime
 *   without the lock   vw__block_map_free_table(spare)
 *
 * Invariants, checked in tests/unit/test_block_map.c:
 *   - capacity is 0 or a power of two, and at least VW__BLOCK_MAP_SPARSENESS times the count
 *   - address 0 marks an empty place, and it has no block
 *   - a place's count is the number of records whose way from home leads over it; one that reached
 *     VW__BLOCK_MAP_PASSED stays there, since it may be more
 *
 * A block's address must not change while it is here. No locks: the caller has one. */
#ifndef VW_ENGINE_BLOCK_MAP_H
#define VW_ENGINE_BLOCK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address_map.h" /* vw__address_map_hash */
#include "base/error.h"       /* VW_ASSERT */
#include "engine/block.h"

#define VW__BLOCK_MAP_PASSED ((uintptr_t) _Alignof(vw__block) - 1) /* the bits that count */
enum { VW__BLOCK_MAP_SPARSENESS = 4 }; /* places for each record, at least */

typedef struct vw__block_map_place {
    uint64_t address; /* 0: empty */
    uintptr_t link;   /* to the block, and how many passed */
} vw__block_map_place;

typedef struct vw__block_map {
    vw__block_map_place *places; /* owned, unless capacity is 0; never NULL */
    size_t mask;                 /* length of `places` - 1 */
    unsigned shift;              /* 64 - log2(length of `places`) */
    size_t room;                 /* how many more may come */
    size_t capacity;             /* length of `places`; 0 while they are the shared empty ones */
} vw__block_map;

/* An empty map without memory: looking in it works, inserting needs room first. */
void vw__block_map_init(vw__block_map *map);

/* Frees the table, but not the blocks. The map is as after init. */
void vw__block_map_deinit(vw__block_map *map);

static inline size_t vw__block_map_count(const vw__block_map *map)
{
    return map->capacity / VW__BLOCK_MAP_SPARSENESS - map->room;
}

/* ---- looking, inserting, removing ------------------------------------------------------------ */

static inline size_t vw__block_map_home(const vw__block_map *map, uint64_t address)
{
    return (size_t)(vw__address_map_hash(address, VW__ADDRESS_MAP_GOLDEN) >> map->shift);
}

static inline vw__block *vw__block_map_block(const vw__block_map_place *place)
{
    return (vw__block *)(place->link & ~VW__BLOCK_MAP_PASSED);
}

/* One more record, or one less, whose way leads over `place`. */
static inline void vw__block_map_count_passing(vw__block_map_place *place, uintptr_t change)
{
    if ((place->link & VW__BLOCK_MAP_PASSED) != VW__BLOCK_MAP_PASSED)
        place->link += change;
}

/* Where the block at `address` is; NULL if it is nowhere. Any address may be asked for. */
static inline vw__block_map_place *vw__block_map_find(const vw__block_map *map, uint64_t address)
{
    size_t i = vw__block_map_home(map, address);
    while (map->places[i].address != address) {
        if ((map->places[i].link & VW__BLOCK_MAP_PASSED) == 0)
            return NULL;
        i = (i + 1) & map->mask;
    }
    return address != 0 ? &map->places[i] : NULL;
}

/* The block at `address`, or NULL. */
static inline vw__block *vw__block_map_get(const vw__block_map *map, uint64_t address)
{
    const vw__block_map_place *place = vw__block_map_find(map, address);
    return place != NULL ? vw__block_map_block(place) : NULL;
}

/* Is there room for `more` blocks? */
static inline bool vw__block_map_has_room(const vw__block_map *map, size_t more)
{
    return more <= map->room;
}

/* There must be room, and no block at the same address, which is not 0. */
static inline void vw__block_map_insert(vw__block_map *map, vw__block *block)
{
    VW_ASSERT(vw__block_map_has_room(map, 1) && block->address != 0);
    VW_ASSERT(vw__block_map_find(map, block->address) == NULL);
    size_t i = vw__block_map_home(map, block->address);
    while (map->places[i].address != 0) {
        vw__block_map_count_passing(&map->places[i], 1);
        i = (i + 1) & map->mask;
    }
    map->places[i].address = block->address;
    map->places[i].link |= (uintptr_t)block;
    map->room--;
}

/* Removes the block at `address` and returns it, or NULL if it was not there. Needs no memory. */
static inline vw__block *vw__block_map_remove(vw__block_map *map, uint64_t address)
{
    vw__block_map_place *found = vw__block_map_find(map, address);
    if (__builtin_expect(found == NULL, 0))
        return NULL;
    vw__block *block = vw__block_map_block(found);
    found->address = 0;
    found->link &= VW__BLOCK_MAP_PASSED;
    map->room++;
    for (size_t i = vw__block_map_home(map, address); &map->places[i] != found;
         i = (i + 1) & map->mask)
        vw__block_map_count_passing(&map->places[i], (uintptr_t)-1);
    return block;
}

/* ---- growing --------------------------------------------------------------------------------- */

/* The capacity for `more` blocks: the present one if they fit, else the power of two to grow to; 0
 * if no capacity is enough. */
size_t vw__block_map_wanted_capacity(const vw__block_map *map, size_t more);

/* A table for vw__block_map_adopt(), owned by the caller. NULL without host memory, and for
 * capacity 0. */
vw__block_map_place *vw__block_map_new_table(size_t capacity);

/* NULL does nothing. */
void vw__block_map_free_table(vw__block_map_place *table);

/* Moves everything into `table` and returns the old table, for the caller to free (NULL if there
 * was none). If another thread was faster and the map has at least `capacity` by now, or holds too
 * much for it, the map is unchanged and `table` is returned. */
vw__block_map_place *vw__block_map_adopt(vw__block_map *map, vw__block_map_place *table,
                                         size_t capacity);

/* All steps at once, for callers without a lock. false: no host memory, nothing changed. */
bool vw__block_map_reserve(vw__block_map *map, size_t more);

/* ---- walking --------------------------------------------------------------------------------- */

/* The next block in no particular order, or NULL after the last. `*cursor` starts at 0. The map
 * must not change during the walk. */
vw__block *vw__block_map_next(const vw__block_map *map, size_t *cursor);

#endif /* VW_ENGINE_BLOCK_MAP_H */
