/* test_block_map.c - the map against a plain array, and the corners where open addressing breaks:
 * collisions, ways that wrap around the end of the table, counts that are full, and growth. */
#include "engine/block_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h" /* vw__is_power_of_two_u64 */

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

enum { MOST_BLOCKS = 4096 };

static vw__block blocks[MOST_BLOCKS];

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uintptr_t passed(const vw__block_map_place *place)
{
    return place->link & VW__BLOCK_MAP_PASSED;
}

/* The invariants at the top of block_map.h. */
static void check_map(const vw__block_map *map)
{
    size_t count = 0;
    size_t *expected = calloc(map->capacity + 1, sizeof *expected);
    assert_non_null(expected);
    if (map->capacity != 0)
        assert_true(vw__is_power_of_two_u64(map->capacity) && map->mask == map->capacity - 1);
    for (size_t i = 0; i < map->capacity; i++) {
        const vw__block_map_place *place = &map->places[i];
        assert_int_equal(place->address == 0, vw__block_map_block(place) == NULL);
        if (place->address == 0)
            continue;
        count++;
        assert_int_equal(place->address, vw__block_map_block(place)->address);
        size_t step = vw__block_map_home(map, place->address);
        assert_true(step < map->capacity);
        for (; step != i; step = (step + 1) & map->mask)
            expected[step]++;
    }
    for (size_t i = 0; i < map->capacity; i++)
        assert_true(passed(&map->places[i]) == expected[i] ||
                    passed(&map->places[i]) == VW__BLOCK_MAP_PASSED);
    assert_int_equal(count, vw__block_map_count(map));
    assert_true(VW__BLOCK_MAP_SPARSENESS * count <= map->capacity);
    free(expected);
}

/* Gives `count` blocks different addresses whose home is `home`. */
static void put_at_home(const vw__block_map *map, size_t home, size_t count, vw__block *first)
{
    static uint64_t address = 1 << 20; /* none twice, and none of those that tests name */
    for (size_t found = 0; found < count;) {
        address += 512;
        if (vw__block_map_home(map, address) == home)
            first[found++].address = address;
    }
}

static void an_empty_map_finds_nothing_and_has_no_room(void **state)
{
    (void)state;
    vw__block_map map;
    vw__block_map_init(&map);
    const uint64_t any[] = {0, 512, UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        assert_null(vw__block_map_get(&map, any[i]));
        assert_null(vw__block_map_remove(&map, any[i]));
    }
    assert_true(vw__block_map_has_room(&map, 0));
    assert_false(vw__block_map_has_room(&map, 1));
    size_t cursor = 0;
    assert_null(vw__block_map_next(&map, &cursor));
    check_map(&map);
    vw__block_map_deinit(&map);
    vw__block_map_deinit(&map);
}

/* Callers pass on what their callers gave them. */
static void addresses_that_are_no_block_are_not_found(void **state)
{
    (void)state;
    vw__block_map map;
    vw__block_map_init(&map);
    assert_true(vw__block_map_reserve(&map, 4));
    blocks[0].address = 5120;
    vw__block_map_insert(&map, &blocks[0]);
    put_at_home(&map, vw__block_map_home(&map, 5120), 1, &blocks[1]);
    vw__block_map_insert(&map, &blocks[1]); /* the block's place has been passed */
    const uint64_t wrong[] = {0, 1, 511, 5121, 5119, 5120 + 511, 5632, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(vw__block_map_get(&map, wrong[i]));
        assert_null(vw__block_map_remove(&map, wrong[i]));
    }
    blocks[2].address = 5120 + 256; /* a private pool's source need not keep to the grid */
    vw__block_map_insert(&map, &blocks[2]);
    check_map(&map);
    assert_ptr_equal(vw__block_map_remove(&map, 5120 + 256), &blocks[2]);
    assert_ptr_equal(vw__block_map_get(&map, 5120), &blocks[0]);
    assert_int_equal(vw__block_map_count(&map), 2);
    check_map(&map);
    vw__block_map_deinit(&map);
}

/* Inserts five blocks, removes them in the order that `order` spells, a number in base five, and
 * looks for each after each removal. False where the order names one twice. */
static bool removed_in_order(vw__block_map *map, size_t order)
{
    enum { COUNT = 5 };
    bool is_gone[COUNT] = {false};
    size_t chosen[COUNT];
    for (size_t i = 0; i < COUNT; i++, order /= COUNT) {
        chosen[i] = order % COUNT;
        if (is_gone[chosen[i]])
            return false;
        is_gone[chosen[i]] = true;
    }
    memset(is_gone, 0, sizeof is_gone);
    for (size_t i = 0; i < COUNT; i++)
        vw__block_map_insert(map, &blocks[i]);
    for (size_t i = 0; i < COUNT; i++) {
        vw__block *gone = &blocks[chosen[i]];
        assert_ptr_equal(vw__block_map_remove(map, gone->address), gone);
        is_gone[chosen[i]] = true;
        check_map(map);
        for (size_t j = 0; j < COUNT; j++)
            assert_ptr_equal(vw__block_map_get(map, blocks[j].address),
                             is_gone[j] ? NULL : &blocks[j]);
    }
    assert_int_equal(vw__block_map_count(map), 0);
    return true;
}

static void blocks_can_be_removed_in_every_order(void **state)
{
    (void)state;
    vw__block_map map;
    vw__block_map_init(&map);
    assert_true(vw__block_map_reserve(&map, 16));
    /* One home; homes at the end and at the start, some ways leading over the end. */
    static const int mixtures[][5] = {{20, 20, 20, 20, 20},
                                      {-1, -1, -1, -1, -1},
                                      {-2, -1, 0, -1, 0},
                                      {-1, 0, -1, 0, 1},
                                      {0, -1, -1, 1, -2}};
    for (size_t mixture = 0; mixture < sizeof mixtures / sizeof *mixtures; mixture++) {
        int tried = 0;
        for (size_t i = 0; i < 5; i++)
            put_at_home(&map, (map.capacity + (size_t)mixtures[mixture][i]) & map.mask, 1,
                        &blocks[i]);
        for (size_t order = 0; order < 5 * 5 * 5 * 5 * 5; order++)
            tried += removed_in_order(&map, order);
        assert_int_equal(tried, 120);
    }
    vw__block_map_deinit(&map);
}

/* The table is small and as full as it may be, so that the same few homes are taken and left again
 * and again. */
static void random_use_agrees_with_a_plain_array(void **state)
{
    (void)state;
    enum { UNIVERSE = 64 };
    uint64_t seed = UINT64_C(88172645463325252);
    bool is_in[UNIVERSE] = {false};
    vw__block_map map;
    vw__block_map_init(&map);
    assert_true(vw__block_map_reserve(&map, 16));
    size_t most = vw__block_map_count(&map) + map.room, count = 0;
    for (size_t i = 0; i < UNIVERSE; i++)
        put_at_home(&map, (map.capacity + i % 8 - 4) & map.mask, 1, &blocks[i]);
    for (int step = 0; step < 100000; step++) {
        size_t i = next_random(&seed) % UNIVERSE;
        assert_ptr_equal(vw__block_map_get(&map, blocks[i].address), is_in[i] ? &blocks[i] : NULL);
        if (is_in[i]) {
            assert_ptr_equal(vw__block_map_remove(&map, blocks[i].address), &blocks[i]);
            count--;
        } else if (count == most) {
            assert_false(vw__block_map_has_room(&map, 1));
            continue;
        } else {
            vw__block_map_insert(&map, &blocks[i]);
            count++;
        }
        is_in[i] = !is_in[i];
        if (step % 64 == 0)
            check_map(&map);
    }
    vw__block_map_deinit(&map);
}

/* The bits are not enough for so many, nor are they ever known to be few again. */
static void a_count_that_is_full_stays_and_all_are_found(void **state)
{
    (void)state;
    enum { MANY = 300 };
    vw__block_map map;
    vw__block_map_init(&map);
    assert_true(vw__block_map_reserve(&map, MANY));
    put_at_home(&map, 5, MANY, blocks);
    for (size_t i = 0; i < MANY; i++)
        vw__block_map_insert(&map, &blocks[i]);
    check_map(&map);
    assert_int_equal(passed(&map.places[5]), VW__BLOCK_MAP_PASSED);
    for (size_t i = 0; i < MANY; i++)
        assert_ptr_equal(vw__block_map_get(&map, blocks[i].address), &blocks[i]);
    for (size_t i = 0; i < MANY; i++) {
        assert_ptr_equal(vw__block_map_remove(&map, blocks[i].address), &blocks[i]);
        if (i + 1 < MANY)
            assert_ptr_equal(vw__block_map_get(&map, blocks[MANY - 1].address), &blocks[MANY - 1]);
    }
    check_map(&map);
    assert_int_equal(vw__block_map_count(&map), 0);
    assert_int_equal(passed(&map.places[5]), VW__BLOCK_MAP_PASSED);
    assert_null(vw__block_map_get(&map, blocks[0].address));
    vw__block_map_deinit(&map);
}

/* ---- growing --------------------------------------------------------------------------------- */

static void growth_keeps_what_is_there(void **state)
{
    (void)state;
    vw__block_map map;
    vw__block_map_init(&map);
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        blocks[i].address = (i + 1) * (UINT64_C(2) << 20);
        assert_true(vw__block_map_reserve(&map, 1));
        vw__block_map_insert(&map, &blocks[i]);
        assert_int_equal(vw__block_map_count(&map), i + 1);
    }
    check_map(&map);
    size_t cursor = 0, walked = 0;
    for (const vw__block *block; (block = vw__block_map_next(&map, &cursor)) != NULL; walked++)
        assert_ptr_equal(vw__block_map_get(&map, block->address), block);
    assert_int_equal(walked, MOST_BLOCKS);
    vw__block_map_deinit(&map);
}

static void a_table_that_comes_too_late_is_given_back(void **state)
{
    (void)state;
    vw__block_map map;
    vw__block_map_init(&map);
    assert_true(vw__block_map_reserve(&map, 100));
    vw__block_map_place *late = vw__block_map_new_table(64);
    assert_non_null(late);
    assert_ptr_equal(vw__block_map_adopt(&map, late, 64), late);
    vw__block_map_free_table(late);
    assert_null(vw__block_map_new_table(0));
    vw__block_map_free_table(NULL);
    assert_int_equal(vw__block_map_wanted_capacity(&map, 1), map.capacity);
    assert_int_equal(vw__block_map_wanted_capacity(&map, SIZE_MAX), 0);
    assert_false(vw__block_map_reserve(&map, SIZE_MAX));
    assert_false(vw__block_map_reserve(&map, SIZE_MAX / 64));
    vw__block_map_deinit(&map);
}

static bool grow_twice(void *context)
{
    (void)context;
    vw__block_map map;
    vw__block_map_init(&map);
    bool is_done = vw__block_map_reserve(&map, 1);
    if (is_done) {
        blocks[0].address = 512;
        vw__block_map_insert(&map, &blocks[0]);
        is_done = vw__block_map_reserve(&map, 1000);
        assert_ptr_equal(vw__block_map_get(&map, 512), &blocks[0]);
    }
    vw__block_map_deinit(&map);
    return is_done;
}

static void without_host_memory_nothing_changes(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(grow_twice, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_nothing_and_has_no_room),
        cmocka_unit_test(addresses_that_are_no_block_are_not_found),
        cmocka_unit_test(blocks_can_be_removed_in_every_order),
        cmocka_unit_test(random_use_agrees_with_a_plain_array),
        cmocka_unit_test(a_count_that_is_full_stays_and_all_are_found),
        cmocka_unit_test(growth_keeps_what_is_there),
        cmocka_unit_test(a_table_that_comes_too_late_is_given_back),
        cmocka_unit_test(without_host_memory_nothing_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
