/* block_map.c - the rare half of the map of live blocks: making, refilling and freeing tables.
 *
 * A map without memory points at two places that are always empty, so that the hot paths need not
 * test for it. They are constant: inserting without room stops the program at once. */
#include "engine/block_map.h"

#include "base/checked_math.h" /* vw__ceil_log2_u64, vw__floor_log2_u64 */
#include "base/host_memory.h"

enum { FIRST_CAPACITY = 64 };

/* Twice as many places for so many still fit a size_t, as a number of bytes as well. */
#define LARGEST_COUNT (SIZE_MAX / sizeof(vw__block_map_place) / VW__BLOCK_MAP_SPARSENESS / 2)

static const vw__block_map_place no_places[2];

static void use_table(vw__block_map *map, vw__block_map_place *places, size_t length)
{
    map->places = places;
    map->mask = length - 1;
    map->shift = 64 - vw__floor_log2_u64(length);
}

void vw__block_map_init(vw__block_map *map)
{
    use_table(map, (vw__block_map_place *)no_places, 2);
    map->room = 0;
    map->capacity = 0;
}

void vw__block_map_deinit(vw__block_map *map)
{
    if (map->capacity != 0)
        vw__host_free(map->places);
    vw__block_map_init(map);
}

size_t vw__block_map_wanted_capacity(const vw__block_map *map, size_t more)
{
    if (vw__block_map_has_room(map, more))
        return map->capacity;
    size_t count = vw__block_map_count(map);
    if (more > LARGEST_COUNT - count)
        return 0;
    size_t needed = VW__BLOCK_MAP_SPARSENESS * (count + more);
    return needed <= FIRST_CAPACITY ? FIRST_CAPACITY : (size_t)1 << vw__ceil_log2_u64(needed);
}

vw__block_map_place *vw__block_map_new_table(size_t capacity)
{
    return capacity != 0 ? vw__host_alloc_zeroed(capacity, sizeof(vw__block_map_place)) : NULL;
}

void vw__block_map_free_table(vw__block_map_place *table)
{
    vw__host_free(table);
}

vw__block_map_place *vw__block_map_adopt(vw__block_map *map, vw__block_map_place *table,
                                         size_t capacity)
{
    VW_ASSERT(table != NULL && capacity >= 2 && vw__is_power_of_two_u64(capacity));
    size_t most = capacity / VW__BLOCK_MAP_SPARSENESS;
    if (capacity <= map->capacity || most < vw__block_map_count(map))
        return table;

    vw__block_map old = *map;
    use_table(map, table, capacity);
    map->capacity = capacity;
    map->room = most;
    size_t cursor = 0;
    for (vw__block *block; (block = vw__block_map_next(&old, &cursor)) != NULL;)
        vw__block_map_insert(map, block);
    return old.capacity != 0 ? old.places : NULL;
}

bool vw__block_map_reserve(vw__block_map *map, size_t more)
{
    if (vw__block_map_has_room(map, more))
        return true;
    size_t capacity = vw__block_map_wanted_capacity(map, more);
    vw__block_map_place *table = vw__block_map_new_table(capacity);
    if (table == NULL)
        return false;
    vw__block_map_free_table(vw__block_map_adopt(map, table, capacity));
    return true;
}

vw__block *vw__block_map_next(const vw__block_map *map, size_t *cursor)
{
    while (*cursor < map->capacity) {
        const vw__block_map_place *place = &map->places[(*cursor)++];
        if (place->address != 0)
            return vw__block_map_block(place);
    }
    return NULL;
}
