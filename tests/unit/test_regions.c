/* test_regions.c - segments and reservations, told from events alone. */
#include "analysis/regions.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define PAGE UINT64_C(100)

static const vw__regions_entry *take(vw__regions *regions, uint64_t address, uint64_t size_bytes,
                                     bool is_expandable, bool is_new_expected)
{
    const vw__regions_entry *region = NULL;
    bool is_new = !is_new_expected;
    assert_int_equal(
        vw__regions_take(regions, address, size_bytes, is_expandable, &region, &is_new), VW_OK);
    assert_int_equal(is_new, is_new_expected);
    return region;
}

static void give_back(vw__regions *regions, uint64_t address, uint64_t size_bytes,
                      bool is_gone_expected)
{
    vw__regions_entry was;
    bool is_gone = !is_gone_expected;
    assert_true(vw__regions_give_back(regions, address, size_bytes, &was, &is_gone));
    assert_int_equal(is_gone, is_gone_expected);
}

static void plain_segments_are_regions_of_their_own_even_side_by_side(void **state)
{
    (void)state;
    vw__regions regions;
    vw__regions_init(&regions);
    (void)take(&regions, 1000, PAGE, false, true);
    (void)take(&regions, 1100, PAGE, false, true);
    assert_int_equal(vw__regions_find(&regions, 1099)->address, 1000);
    assert_int_equal(vw__regions_find(&regions, 1100)->address, 1100);
    assert_null(vw__regions_find(&regions, 999));
    assert_null(vw__regions_find(&regions, 1200));
    give_back(&regions, 1000, PAGE, true);
    assert_null(vw__regions_find(&regions, 1000));
    assert_int_equal(regions.made_count, 2);
    vw__regions_deinit(&regions);
}

static void a_mapping_at_the_highest_end_grows_the_reservation(void **state)
{
    (void)state;
    vw__regions regions;
    vw__regions_init(&regions);
    (void)take(&regions, 1000, PAGE, true, true);
    (void)take(&regions, 1100, PAGE, true, false);
    assert_int_equal(vw__regions_find(&regions, 1150)->address, 1000);
    (void)take(&regions, 9000, PAGE, true, true); /* farther than anything grew: another one */
    (void)take(&regions, 1200, PAGE, true, false);
    assert_int_equal(regions.held.count, 2);
    vw__regions_deinit(&regions);
}

static void a_gap_that_was_unmapped_is_filled_again(void **state)
{
    (void)state;
    vw__regions regions;
    vw__regions_init(&regions);
    (void)take(&regions, 1000, 3 * PAGE, true, true);
    give_back(&regions, 1000, PAGE, false);
    give_back(&regions, 1200, PAGE, false);
    (void)take(&regions, 1200, 2 * PAGE, true, false);
    (void)take(&regions, 1000, PAGE, true, false);
    assert_int_equal(vw__regions_find(&regions, 1000)->held_bytes, 4 * PAGE);
    assert_int_equal(vw__regions_find(&regions, 1000)->end, 1400);
    vw__regions_deinit(&regions);
}

static void a_reservation_ends_with_its_last_page(void **state)
{
    (void)state;
    vw__regions regions;
    vw__regions_entry was;
    bool is_gone;
    vw__regions_init(&regions);
    (void)take(&regions, 1000, 2 * PAGE, true, true);
    give_back(&regions, 1100, PAGE, false);
    give_back(&regions, 1000, PAGE, true);
    assert_int_equal(regions.held.count, 0);
    assert_false(vw__regions_give_back(&regions, 1000, PAGE, &was, &is_gone));
    const vw__regions_entry *again = take(&regions, 1000, PAGE, true, true);
    assert_int_equal(again->number, 1);
    assert_false(vw__regions_give_back(&regions, 1000, 2 * PAGE, &was, &is_gone)); /* too much */
    vw__regions_deinit(&regions);
}

static bool take_many(void *context)
{
    vw__regions regions;
    const vw__regions_entry *region;
    bool is_new, is_done = true;
    (void)context;
    vw__regions_init(&regions);
    for (uint64_t i = 0; is_done && i < 200; i++)
        is_done = vw__regions_take(&regions, i * 1000, PAGE, false, &region, &is_new) == VW_OK;
    vw__regions_deinit(&regions);
    return is_done;
}

static void every_failure_of_host_memory_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(take_many, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_segments_are_regions_of_their_own_even_side_by_side),
        cmocka_unit_test(a_mapping_at_the_highest_end_grows_the_reservation),
        cmocka_unit_test(a_gap_that_was_unmapped_is_filled_again),
        cmocka_unit_test(a_reservation_ends_with_its_last_page),
        cmocka_unit_test(every_failure_of_host_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
