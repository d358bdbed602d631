/* test_address_map.c - the map against a plain array, and the corners where open addressing breaks:
 * collisions, clusters that wrap around the end of the table, and growth. */
#include "base/address_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked_math.h" /* vw__is_power_of_two_u64 */

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

enum { MOST_FOUND = 8 };

static int things[4096]; /* what values point at */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The invariants at the top of address_map.h. */
static void check_map(const vw__address_map *map)
{
    size_t count = 0;
    assert_true(4 * map->count <= map->capacity);
    if (map->capacity != 0)
        assert_true(vw__is_power_of_two_u64(map->capacity) && map->mask == map->capacity - 1);
    for (size_t i = 0; i < map->capacity; i++) {
        const vw__address_map_entry *entry = &map->entries[i];
        if (entry->address == 0) {
            assert_null(entry->value);
            continue;
        }
        count++;
        assert_non_null(entry->value);
        size_t step = vw__address_map_home(map, entry->address);
        assert_true(step < map->capacity);
        for (; step != i; step = (step + 1) & map->mask)
            assert_int_not_equal(map->entries[step].address, 0);
    }
    assert_int_equal(count, vw__address_map_count(map));
}

/* Stores `count` different addresses whose home is `home`. */
static void find_addresses_at_home(const vw__address_map *map, size_t home, size_t count,
                                   uint64_t *addresses)
{
    static uint64_t address;
    for (size_t found = 0; found < count;) {
        address += 512;
        if (vw__address_map_home(map, address) == home)
            addresses[found++] = address;
    }
}

static void an_empty_map_finds_nothing_and_has_no_room(void **state)
{
    (void)state;
    vw__address_map map;
    vw__address_map_init(&map);
    assert_null(vw__address_map_get(&map, 512));
    assert_null(vw__address_map_get(&map, 0));
    assert_null(vw__address_map_get(&map, UINT64_MAX));
    assert_null(vw__address_map_remove(&map, 512));
    assert_null(vw__address_map_remove(&map, 0));
    assert_true(vw__address_map_has_room(&map, 0));
    assert_false(vw__address_map_has_room(&map, 1));
    size_t cursor = 0;
    assert_null(vw__address_map_next(&map, &cursor));
    check_map(&map);
    vw__address_map_deinit(&map);
    vw__address_map_deinit(&map);
}

static void what_is_inserted_is_found_until_it_is_removed(void **state)
{
    (void)state;
    vw__address_map map;
    vw__address_map_init(&map);
    assert_true(vw__address_map_reserve(&map, 2));
    vw__address_map_insert(&map, 512, &things[1]);
    vw__address_map_insert(&map, UINT64_C(0x7f5200000000), &things[2]);
    assert_int_equal(vw__address_map_count(&map), 2);
    assert_ptr_equal(vw__address_map_get(&map, 512), &things[1]);
    assert_ptr_equal(vw__address_map_get(&map, UINT64_C(0x7f5200000000)), &things[2]);
    assert_ptr_equal(vw__address_map_remove(&map, 512), &things[1]);
    assert_null(vw__address_map_get(&map, 512));
    assert_null(vw__address_map_remove(&map, 512));
    assert_int_equal(vw__address_map_count(&map), 1);
    vw__address_map_insert(&map, 512, &things[3]);
    assert_ptr_equal(vw__address_map_get(&map, 512), &things[3]);
    check_map(&map);
    vw__address_map_deinit(&map);
}

/* Callers pass on what their callers gave them. */
static void addresses_that_are_no_block_are_not_found(void **state)
{
    (void)state;
    vw__address_map map;
    vw__address_map_init(&map);
    assert_true(vw__address_map_reserve(&map, 4));
    vw__address_map_insert(&map, 5120, &things[1]);
    const uint64_t wrong[] = {0, 1, 511, 5121, 5119, 5120 + 511, 5632, UINT64_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_null(vw__address_map_get(&map, wrong[i]));
        assert_null(vw__address_map_remove(&map, wrong[i]));
    }
    assert_int_equal(vw__address_map_count(&map), 1);
    check_map(&map);
    vw__address_map_deinit(&map);
}

/* Inserts `count` addresses, removes them in the order that `order` spells, a number in base
 * `count`, and looks for each after each removal. Says false where the order names one twice. */
static bool removed_in_order(vw__address_map *map, const uint64_t *addresses, size_t count,
                             size_t order)
{
    bool is_gone[MOST_FOUND] = {false};
    size_t chosen[MOST_FOUND];
    for (size_t i = 0; i < count; i++, order /= count) {
        chosen[i] = order % count;
        if (is_gone[chosen[i]])
            return false;
        is_gone[chosen[i]] = true;
    }
    memset(is_gone, 0, sizeof is_gone);
    for (size_t i = 0; i < count; i++)
        vw__address_map_insert(map, addresses[i], &things[i]);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(vw__address_map_remove(map, addresses[chosen[i]]), &things[chosen[i]]);
        is_gone[chosen[i]] = true;
        check_map(map);
        for (size_t j = 0; j < count; j++)
            assert_ptr_equal(vw__address_map_get(map, addresses[j]),
                             is_gone[j] ? NULL : &things[j]);
    }
    assert_int_equal(vw__address_map_count(map), 0);
    return true;
}

static void check_every_order_of_removal(vw__address_map *map, const uint64_t *addresses)
{
    enum { COUNT = 5, ORDERS = 5 * 5 * 5 * 5 * 5 };
    int tried = 0;
    for (size_t order = 0; order < ORDERS; order++)
        tried += removed_in_order(map, addresses, COUNT, order);
    assert_int_equal(tried, 120);
}

static void colliding_addresses_can_be_removed_in_every_order(void **state)
{
    (void)state;
    vw__address_map map;
    uint64_t addresses[5];
    vw__address_map_init(&map);
    assert_true(vw__address_map_reserve(&map, 32));
    find_addresses_at_home(&map, 20, 5, addresses);
    check_every_order_of_removal(&map, addresses);
    vw__address_map_deinit(&map);
}

static void clusters_that_wrap_around_the_end_can_be_removed_in_every_order(void **state)
{
    (void)state;
    vw__address_map map;
    uint64_t addresses[5];
    vw__address_map_init(&map);
    assert_true(vw__address_map_reserve(&map, 32));
    /* Homes at the end and at the start, in several mixtures, some displaced past the end. */
    static const int mixtures[][5] = {
        {-1, -1, -1, -1, -1}, {-2, -1, 0, -1, 0}, {-1, 0, -1, 0, 1}, {0, -1, -1, 1, -2}};
    for (size_t mixture = 0; mixture < sizeof mixtures / sizeof *mixtures; mixture++) {
        for (size_t i = 0; i < 5; i++) {
            size_t home = (map.capacity + (size_t)mixtures[mixture][i]) & map.mask;
            find_addresses_at_home(&map, home, 1, &addresses[i]);
        }
        check_every_order_of_removal(&map, addresses);
    }
    vw__address_map_deinit(&map);
}

/* The universe is small, so the same few homes are taken and left again and again; the table is as
 * full as it may be. Half of the addresses have their homes in the last and first few places. */
static void random_use_agrees_with_a_plain_array(void **state)
{
    (void)state;
    enum { UNIVERSE = 64 };
    uint64_t seed = UINT64_C(88172645463325252);
    uint64_t addresses[UNIVERSE];
    void *expected[UNIVERSE] = {NULL};
    vw__address_map map;
    vw__address_map_init(&map);
    assert_true(vw__address_map_reserve(&map, 16));
    assert_int_equal(map.capacity, 64);
    for (size_t i = 0; i < UNIVERSE; i++) {
        size_t home = i % 2 == 0 ? (60 + i / 2 % 8) & map.mask : next_random(&seed) & map.mask;
        find_addresses_at_home(&map, home, 1, &addresses[i]);
    }
    size_t fullest = 0;
    for (int step = 0; step < 100000; step++) {
        size_t i = next_random(&seed) % UNIVERSE;
        assert_ptr_equal(vw__address_map_get(&map, addresses[i]), expected[i]);
        if (expected[i] != NULL || !vw__address_map_has_room(&map, 1)) {
            assert_ptr_equal(vw__address_map_remove(&map, addresses[i]), expected[i]);
            expected[i] = NULL;
        } else {
            expected[i] = &things[step % 4096];
            vw__address_map_insert(&map, addresses[i], expected[i]);
        }
        if (vw__address_map_count(&map) > fullest)
            fullest = vw__address_map_count(&map);
        if (step % 16 == 0)
            check_map(&map);
    }
    assert_int_equal(fullest, 16);
    vw__address_map_deinit(&map);
}

static void random_use_with_growth_agrees_with_a_plain_array(void **state)
{
    (void)state;
    enum { UNIVERSE = 4096 };
    uint64_t seed = UINT64_C(362436069);
    static void *expected[UNIVERSE];
    vw__address_map map;
    vw__address_map_init(&map);
    for (int step = 0; step < 200000; step++) {
        size_t i = next_random(&seed) % UNIVERSE;
        uint64_t address = UINT64_C(0x7f0000000000) + i * 512;
        if (vw__address_map_get(&map, address) != NULL) {
            assert_ptr_equal(vw__address_map_remove(&map, address), expected[i]);
            expected[i] = NULL;
        } else {
            assert_null(expected[i]);
            assert_true(vw__address_map_reserve(&map, 1));
            expected[i] = &things[i];
            vw__address_map_insert(&map, address, expected[i]);
        }
        if (step % 10000 == 0)
            check_map(&map);
    }
    check_map(&map);
    for (size_t i = 0; i < UNIVERSE; i++)
        assert_ptr_equal(vw__address_map_get(&map, UINT64_C(0x7f0000000000) + i * 512),
                         expected[i]);
    vw__address_map_deinit(&map);
}

/* Blocks of one size lie in even steps; a hash that keeps the steps even piles some of them up.
 * A perfectly random one needs 1.2 probes for each at this load. */
static void check_probes(uint64_t step_bytes)
{
    enum { COUNT = 4096 };
    vw__address_map map;
    vw__address_map_init(&map);
    assert_true(vw__address_map_reserve(&map, COUNT));
    for (uint64_t i = 0; i < COUNT; i++)
        vw__address_map_insert(&map, UINT64_C(0x7f0000000000) + i * step_bytes, &things[i]);
    size_t probes = 0;
    for (size_t i = 0; i < map.capacity; i++) {
        uint64_t address = map.entries[i].address;
        if (address != 0)
            probes += 1 + ((i - vw__address_map_home(&map, address)) & map.mask);
    }
    assert_in_range(probes, COUNT, 2 * COUNT);
    vw__address_map_deinit(&map);
}

static void addresses_in_even_steps_are_found_in_few_probes(void **state)
{
    (void)state;
    for (uint64_t i = 1; i <= 300; i++) {
        check_probes(i * 512);
        check_probes(i << 21);
    }
    for (unsigned log2 = 9; log2 < 35; log2++)
        check_probes(UINT64_C(1) << log2);
}

static void the_walk_visits_every_entry_once(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static bool is_visited[COUNT];
    vw__address_map map;
    vw__address_map_init(&map);
    assert_true(vw__address_map_reserve(&map, COUNT));
    for (uint64_t i = 0; i < COUNT; i++)
        vw__address_map_insert(&map, (i + 1) * 512, &things[i]);
    size_t cursor = 0, count = 0;
    for (const vw__address_map_entry *entry; (entry = vw__address_map_next(&map, &cursor));) {
        size_t i = entry->address / 512 - 1;
        assert_true(i < COUNT && !is_visited[i]);
        assert_ptr_equal(entry->value, &things[i]);
        is_visited[i] = true;
        count++;
    }
    assert_int_equal(count, COUNT);
    assert_null(vw__address_map_next(&map, &cursor));
    vw__address_map_deinit(&map);
}

/* ---- growing --------------------------------------------------------------------------------- */

static void the_wanted_capacity_keeps_three_quarters_of_the_table_empty(void **state)
{
    (void)state;
    vw__address_map map;
    vw__address_map_init(&map);
    assert_int_equal(vw__address_map_wanted_capacity(&map, 0), 0);
    assert_int_equal(vw__address_map_wanted_capacity(&map, 1), 64);
    assert_int_equal(vw__address_map_wanted_capacity(&map, 16), 64);
    assert_int_equal(vw__address_map_wanted_capacity(&map, 17), 128);
    assert_int_equal(vw__address_map_wanted_capacity(&map, 1024), 4096);
    assert_int_equal(vw__address_map_wanted_capacity(&map, 1025), 8192);
    assert_int_equal(vw__address_map_wanted_capacity(&map, SIZE_MAX), 0);
    assert_int_equal(vw__address_map_wanted_capacity(&map, SIZE_MAX / 8), 0);
    assert_null(vw__address_map_new_table(0));
    assert_false(vw__address_map_reserve(&map, SIZE_MAX));

    assert_true(vw__address_map_reserve(&map, 16));
    for (uint64_t i = 1; i <= 10; i++)
        vw__address_map_insert(&map, i * 512, &things[i]);
    assert_true(vw__address_map_has_room(&map, 6));
    assert_false(vw__address_map_has_room(&map, 7));
    assert_int_equal(vw__address_map_wanted_capacity(&map, 6), 64);
    assert_int_equal(vw__address_map_wanted_capacity(&map, 7), 128);
    assert_int_equal(vw__address_map_wanted_capacity(&map, SIZE_MAX), 0);
    vw__address_map_deinit(&map);
}

static void an_adopted_table_holds_everything_and_the_old_one_comes_back(void **state)
{
    (void)state;
    vw__address_map map;
    vw__address_map_init(&map);
    vw__address_map_entry *first = vw__address_map_new_table(64);
    assert_non_null(first);
    assert_null(vw__address_map_adopt(&map, first, 64)); /* there was none before */
    for (uint64_t i = 1; i <= 16; i++)
        vw__address_map_insert(&map, i * 512, &things[i]);
    vw__address_map_entry *second = vw__address_map_new_table(128);
    assert_non_null(second);
    assert_ptr_equal(vw__address_map_adopt(&map, second, 128), first);
    vw__address_map_free_table(first);
    assert_int_equal(vw__address_map_count(&map), 16);
    for (uint64_t i = 1; i <= 16; i++)
        assert_ptr_equal(vw__address_map_get(&map, i * 512), &things[i]);
    check_map(&map);
    vw__address_map_deinit(&map);
}

/* Two threads saw that there was no room; the slower one comes with its table. */
static void a_table_that_comes_too_late_is_handed_back(void **state)
{
    (void)state;
    vw__address_map map;
    vw__address_map_init(&map);
    assert_true(vw__address_map_reserve(&map, 32));
    for (uint64_t i = 1; i <= 20; i++)
        vw__address_map_insert(&map, i * 512, &things[i]);
    for (size_t capacity = 64; capacity <= 128; capacity *= 2) { /* too small, and no larger */
        vw__address_map_entry *late = vw__address_map_new_table(capacity);
        assert_non_null(late);
        assert_ptr_equal(vw__address_map_adopt(&map, late, capacity), late);
        vw__address_map_free_table(late);
    }
    assert_int_equal(map.capacity, 128);
    for (uint64_t i = 1; i <= 20; i++)
        assert_ptr_equal(vw__address_map_get(&map, i * 512), &things[i]);
    vw__address_map_deinit(&map);
}

static bool grow_step_by_step(void *context)
{
    (void)context;
    bool has_succeeded = true;
    vw__address_map map;
    vw__address_map_init(&map);
    for (uint64_t i = 1; i <= 1000; i++) {
        size_t count = vw__address_map_count(&map);
        if (!vw__address_map_reserve(&map, 1)) {
            has_succeeded = false;
            assert_int_equal(vw__address_map_count(&map), count); /* and all is as before */
            check_map(&map);
            continue;
        }
        vw__address_map_insert(&map, i * 512, &things[i]);
    }
    vw__address_map_deinit(&map);
    return has_succeeded;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(grow_step_by_step, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_finds_nothing_and_has_no_room),
        cmocka_unit_test(what_is_inserted_is_found_until_it_is_removed),
        cmocka_unit_test(addresses_that_are_no_block_are_not_found),
        cmocka_unit_test(colliding_addresses_can_be_removed_in_every_order),
        cmocka_unit_test(clusters_that_wrap_around_the_end_can_be_removed_in_every_order),
        cmocka_unit_test(random_use_agrees_with_a_plain_array),
        cmocka_unit_test(random_use_with_growth_agrees_with_a_plain_array),
        cmocka_unit_test(addresses_in_even_steps_are_found_in_few_probes),
        cmocka_unit_test(the_walk_visits_every_entry_once),
        cmocka_unit_test(the_wanted_capacity_keeps_three_quarters_of_the_table_empty),
        cmocka_unit_test(an_adopted_table_holds_everything_and_the_old_one_comes_back),
        cmocka_unit_test(a_table_that_comes_too_late_is_handed_back),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
