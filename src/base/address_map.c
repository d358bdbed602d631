/* address_map.c - the rare half of the address map: making, refilling and freeing tables.
 *
 * A map without memory points at two entries that are always empty, so that the hot paths need not
 * test for it. They are constant: inserting without room stops the program at once. */
#include "base/address_map.h"

#include "base/checked_math.h" /* vw__ceil_log2_u64, vw__floor_log2_u64 */
#include "base/host_memory.h"
#include "base/secret_hash.h"

enum { FIRST_CAPACITY = 64 };

/* Twice this still fits a size_t, as a number of bytes as well. */
#define LARGEST_COUNT (SIZE_MAX / sizeof(vw__address_map_entry) / 4)

static const vw__address_map_entry no_entries[2];

static void use_table(vw__address_map *map, vw__address_map_entry *entries, size_t length)
{
    map->entries = entries;
    map->mask = length - 1;
    map->shift = 64 - vw__floor_log2_u64(length);
}

static void be_empty(vw__address_map *map)
{
    use_table(map, (vw__address_map_entry *)no_entries, 2);
    map->count = 0;
    map->capacity = 0;
}

void vw__address_map_init(vw__address_map *map)
{
    be_empty(map);
    map->multiplier = VW__ADDRESS_MAP_GOLDEN;
}

void vw__address_map_init_for_file(vw__address_map *map)
{
    be_empty(map);
    map->multiplier = vw__secret_hash_of_process().multiplier;
}

void vw__address_map_deinit(vw__address_map *map)
{
    if (map->capacity != 0)
        vw__host_free(map->entries);
    be_empty(map);
}

size_t vw__address_map_wanted_capacity(const vw__address_map *map, size_t more)
{
    if (vw__address_map_has_room(map, more))
        return map->capacity;
    if (more > LARGEST_COUNT - map->count)
        return 0;
    size_t needed = 4 * (map->count + more);
    return needed <= FIRST_CAPACITY ? FIRST_CAPACITY : (size_t)1 << vw__ceil_log2_u64(needed);
}

vw__address_map_entry *vw__address_map_new_table(size_t capacity)
{
    if (capacity == 0)
        return NULL;
    return vw__host_alloc_zeroed(capacity, sizeof(vw__address_map_entry));
}

void vw__address_map_free_table(vw__address_map_entry *table)
{
    vw__host_free(table);
}

vw__address_map_entry *vw__address_map_adopt(vw__address_map *map, vw__address_map_entry *table,
                                             size_t capacity)
{
    VW_ASSERT(table != NULL && capacity >= 2 && vw__is_power_of_two_u64(capacity));
    if (capacity <= map->capacity || capacity / 4 < map->count)
        return table;

    vw__address_map old = *map;
    use_table(map, table, capacity);
    map->capacity = capacity;
    map->count = 0;
    size_t cursor = 0;
    for (const vw__address_map_entry *entry; (entry = vw__address_map_next(&old, &cursor));)
        vw__address_map_insert(map, entry->address, entry->value);
    return old.capacity != 0 ? old.entries : NULL;
}

bool vw__address_map_reserve(vw__address_map *map, size_t more)
{
    if (vw__address_map_has_room(map, more))
        return true;
    size_t capacity = vw__address_map_wanted_capacity(map, more);
    vw__address_map_entry *table = vw__address_map_new_table(capacity);
    if (table == NULL)
        return false;
    vw__address_map_free_table(vw__address_map_adopt(map, table, capacity));
    return true;
}
