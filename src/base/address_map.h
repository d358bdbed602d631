/* address_map.h - from the address of a block to its record.
 *
 * For records of any kind; a pool's live blocks have a map of their own (engine/block_map.h), which
 * takes fewer cache lines. Open addressing with linear probing: a hit usually costs one cache line.
 * Block addresses are multiples of 512, so the low nine bits say nothing and are dropped. The rest
 * are multiplied by 2^64 over the golden ratio, folded, and multiplied again; the TOP bits of the
 * product are the home of the address (low bits of a product depend on low bits only). One
 * multiplication would be cheaper, but a model's blocks often lie at even steps, and it keeps steps
 * even: if a step comes out near a fraction of the table, blocks pile up, hundreds of probes deep.
 * The fold in between breaks the steps. Addresses that a file names are multiplied by the process's
 * secret (base/secret_hash.h) first, and not by the golden ratio: all of them could else be chosen
 * to have one home.
 *
 * At most a quarter of the entries are in use: a probe then almost always ends where it began,
 * which the processor can predict. Half full, mispredicted probes cost a tenth of an allocation.
 *
 * Removal closes the gap by moving later entries back instead of leaving a tombstone: a pool that
 * allocates and frees for weeks keeps probes as short as they were in its first second.
 *
 * Insertion never allocates, because it happens under a pool's lock. Growth is in steps, so that
 * the caller can take host memory outside that lock:
 *
 *   under the lock     vw__address_map_has_room(): go on if true
 *                      else capacity = vw__address_map_wanted_capacity()
 *   without the lock   table = vw__address_map_new_table(capacity)
 *   under the lock     spare = vw__address_map_adopt(map, table, capacity); ask again: others may
 *                      have filled the room in the meantime
 *   without the lock   vw__address_map_free_table(spare)
 *
 * Invariants, checked in tests/unit/test_address_map.c:
 *   - capacity is 0 or a power of two; 4 * count <= capacity
 *   - address 0 marks an empty entry, and its value is NULL
 *   - between the home of a stored address and its entry there is no empty entry
 *
 * No locks here: the caller has one. */
#ifndef VW_BASE_ADDRESS_MAP_H
#define VW_BASE_ADDRESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h" /* VW_ASSERT */

typedef struct vw__address_map_entry {
    uint64_t address; /* 0: empty */
    void *value;      /* borrowed; NULL where empty */
} vw__address_map_entry;

typedef struct vw__address_map {
    vw__address_map_entry *entries; /* owned, unless capacity is 0; never NULL */
    size_t mask;                    /* length of `entries` - 1 */
    unsigned shift;                 /* 64 - log2(length of `entries`) */
    size_t count;
    size_t capacity;     /* length of `entries`; 0 while they are the shared empty ones */
    uint64_t multiplier; /* the first one */
} vw__address_map;

/* An empty map without memory: looking in it works, inserting needs room first. */
void vw__address_map_init(vw__address_map *map);

/* The same, for addresses that a file names. */
void vw__address_map_init_for_file(vw__address_map *map);

/* Frees the table, but not what the values point at. The map is as after init. */
void vw__address_map_deinit(vw__address_map *map);

static inline size_t vw__address_map_count(const vw__address_map *map)
{
    return map->count;
}

/* ---- looking, inserting, removing ------------------------------------------------------------ */

#define VW__ADDRESS_MAP_GOLDEN UINT64_C(0x9E3779B97F4A7C15)

static inline uint64_t vw__address_map_hash(uint64_t address, uint64_t multiplier)
{
    uint64_t mixed = (address >> 9) * multiplier;
    return (mixed ^ (mixed >> 32)) * VW__ADDRESS_MAP_GOLDEN;
}

static inline size_t vw__address_map_home(const vw__address_map *map, uint64_t address)
{
    return (size_t)(vw__address_map_hash(address, map->multiplier) >> map->shift);
}

/* The value stored under `address`, or NULL. Any address may be asked for, 0 included. */
static inline void *vw__address_map_get(const vw__address_map *map, uint64_t address)
{
    const vw__address_map_entry *entries = map->entries;
    size_t i = vw__address_map_home(map, address);
    while (entries[i].address != address) {
        if (entries[i].address == 0)
            return NULL;
        i = (i + 1) & map->mask;
    }
    return entries[i].value; /* address 0 ends at an empty entry, whose value is NULL */
}

/* Is there room for `more` addresses? */
static inline bool vw__address_map_has_room(const vw__address_map *map, size_t more)
{
    size_t most = map->capacity / 4;
    return more <= most && map->count <= most - more;
}

/* There must be room; `address` must be neither 0 nor present, and `value` not NULL. */
static inline void vw__address_map_insert(vw__address_map *map, uint64_t address, void *value)
{
    VW_ASSERT(vw__address_map_has_room(map, 1));
    VW_ASSERT(address != 0 && value != NULL);
    vw__address_map_entry *entries = map->entries;
    size_t i = vw__address_map_home(map, address);
    while (entries[i].address != 0) {
        VW_ASSERT(entries[i].address != address);
        i = (i + 1) & map->mask;
    }
    entries[i].address = address;
    entries[i].value = value;
    map->count++;
}

/* Removes `address` and returns its value, or NULL if it was not there. Needs no memory. */
static inline void *vw__address_map_remove(vw__address_map *map, uint64_t address)
{
    vw__address_map_entry *entries = map->entries;
    size_t mask = map->mask;
    size_t hole = vw__address_map_home(map, address);
    while (entries[hole].address != address) {
        if (entries[hole].address == 0)
            return NULL;
        hole = (hole + 1) & mask;
    }
    void *value = entries[hole].value;
    if (value == NULL)
        return NULL; /* address 0 */
    map->count--;
    /* Entries up to the next empty one that would no longer be found, because the hole lies between
     * them and their home, move into the hole and leave a hole themselves. */
    for (size_t i = (hole + 1) & mask; entries[i].address != 0; i = (i + 1) & mask) {
        size_t from_home = (i - vw__address_map_home(map, entries[i].address)) & mask;
        size_t from_hole = (i - hole) & mask;
        if (from_home >= from_hole) {
            entries[hole] = entries[i];
            hole = i;
        }
    }
    entries[hole].address = 0;
    entries[hole].value = NULL;
    return value;
}

/* ---- growing --------------------------------------------------------------------------------- */

/* The capacity for `more` addresses: the present one if they fit, else the power of two to grow to;
 * 0 if no capacity is enough. */
size_t vw__address_map_wanted_capacity(const vw__address_map *map, size_t more);

/* A table for vw__address_map_adopt(), owned by the caller. NULL without host memory, and for
 * capacity 0. */
vw__address_map_entry *vw__address_map_new_table(size_t capacity);

/* NULL does nothing. */
void vw__address_map_free_table(vw__address_map_entry *table);

/* Moves everything into `table` and returns the old table, for the caller to free (NULL if there
 * was none). If another thread was faster and the map has at least `capacity` by now, or holds too
 * much for it, the map is unchanged and `table` is returned. */
vw__address_map_entry *vw__address_map_adopt(vw__address_map *map, vw__address_map_entry *table,
                                             size_t capacity);

/* All steps at once, for callers without a lock. false: no host memory, nothing changed. */
bool vw__address_map_reserve(vw__address_map *map, size_t more);

/* ---- walking --------------------------------------------------------------------------------- */

/* The next entry in no particular order, or NULL after the last. `*cursor` starts at 0. The map
 * must not change during the walk. */
static inline const vw__address_map_entry *vw__address_map_next(const vw__address_map *map,
                                                                size_t *cursor)
{
    while (*cursor < map->capacity) {
        const vw__address_map_entry *entry = &map->entries[(*cursor)++];
        if (entry->address != 0)
            return entry;
    }
    return NULL;
}

#endif /* VW_BASE_ADDRESS_MAP_H */
