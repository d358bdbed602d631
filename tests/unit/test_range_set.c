/* test_range_set.c - held memory as disjoint ranges. */
#include "analysis/range_set.h"

#include <stdlib.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

enum { SMALL_WORLD = 64, RANDOM_STEPS = 4000 };

static void add(vw__range_set *set, uint64_t begin, uint64_t end)
{
    assert_int_equal(vw__range_set_add(set, begin, end), VW_OK);
}

static void ranges_that_touch_become_one(void **state)
{
    (void)state;
    vw__range_set set;
    vw__range_set_init(&set);
    add(&set, 0, 10);
    add(&set, 20, 30);
    assert_int_equal(set.ranges.count, 2);
    add(&set, 10, 20);
    assert_int_equal(set.ranges.count, 1);
    assert_true(vw__range_set_covers(&set, 0, 30));
    assert_false(vw__range_set_covers(&set, 0, 31));
    assert_false(vw__range_set_covers(&set, 5, 5));
    assert_true(vw__range_set_touches(&set, 29, 99));
    assert_false(vw__range_set_touches(&set, 30, 99));
    vw__range_set_deinit(&set);
}

static void what_is_taken_out_and_was_not_there_is_reported(void **state)
{
    (void)state;
    vw__range_set set, missing;
    vw__range_set_init(&set);
    vw__range_set_init(&missing);
    add(&set, 10, 20);
    add(&set, 30, 40);
    assert_int_equal(vw__range_set_remove(&set, 5, 35, &missing), VW_OK);
    assert_int_equal(set.ranges.count, 1);
    assert_true(vw__range_set_covers(&set, 35, 40));
    assert_false(vw__range_set_touches(&set, 34, 35));
    assert_false(vw__range_set_touches(&set, 40, 41));
    assert_int_equal(missing.ranges.count, 2);
    assert_true(vw__range_set_covers(&missing, 5, 10));
    assert_true(vw__range_set_covers(&missing, 20, 30));
    vw__range_set_deinit(&set);
    vw__range_set_deinit(&missing);
}

static void assert_ranges_are_apart(const vw__range_set *set)
{
    vw__ordered_list_place place = vw__ordered_list_begin();
    const vw__range_set_range *before, *behind;
    for (; (behind = vw__ordered_list_behind(&set->ranges, place)) != NULL;
         place = vw__ordered_list_next(&set->ranges, place)) {
        before = vw__ordered_list_before(&set->ranges, place);
        assert_true(behind->begin < behind->end);
        assert_true(before == NULL || before->end < behind->begin);
    }
}

/* The same with one flag for each address. */
static void random_changes_agree_with_one_flag_an_address(void **state)
{
    (void)state;
    bool is_in[SMALL_WORLD] = {false};
    vw__range_set set;
    vw__range_set_init(&set);
    srand(7);
    for (int step = 0; step < RANDOM_STEPS; step++) {
        uint64_t begin = (uint64_t)rand() % SMALL_WORLD;
        uint64_t end = begin + (uint64_t)rand() % (SMALL_WORLD - begin + 1);
        bool adds = rand() % 2 == 0;
        if (adds)
            add(&set, begin, end);
        else
            assert_int_equal(vw__range_set_remove(&set, begin, end, NULL), VW_OK);
        for (uint64_t i = begin; i < end; i++)
            is_in[i] = adds;
        for (uint64_t i = 0; i < SMALL_WORLD; i++)
            assert_int_equal(vw__range_set_covers(&set, i, i + 1), is_in[i]);
        assert_ranges_are_apart(&set);
    }
    vw__range_set_deinit(&set);
}

static bool fill(void *context)
{
    vw__range_set set, missing;
    bool is_done = true;
    (void)context;
    vw__range_set_init(&set);
    vw__range_set_init(&missing);
    for (uint64_t i = 0; is_done && i < 600; i++)
        is_done = vw__range_set_add(&set, i * 10, i * 10 + 5) == VW_OK &&
                  vw__range_set_remove(&set, i * 10 + 2, i * 10 + 7, &missing) == VW_OK;
    vw__range_set_deinit(&set);
    vw__range_set_deinit(&missing);
    return is_done;
}

static void every_failure_of_host_memory_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(fill, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_that_touch_become_one),
        cmocka_unit_test(what_is_taken_out_and_was_not_there_is_reported),
        cmocka_unit_test(random_changes_agree_with_one_flag_an_address),
        cmocka_unit_test(every_failure_of_host_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
