/* test_torch_expandable.c - segments that grow and shrink page by page, rule by rule.
 *
 * Most tests work in one large reservation at B with pages of 20 MiB, and speak of offsets in MiB:
 * AT(15) is 15 MiB above B. The layout "two ranges" is used where a choice has to be made:
 *
 *     0        15   20            60     67  69    74     80
 *     |  live  |free| unmapped    | hole |live live| free | unmapped ...
 */
#include "support/cmocka_here.h"
#include "support/pool_layout.h"

#define MIB VW_TEST_MIB
#define B UINT64_C(0x200000000000)
#define AT(mib) (B + (mib)*MIB)

static const char *const expandable = "expandable_segments:True";

/* A pool of 1 GiB whose first reservation is at B. */
static void open_at_b(vw_test_pool *test)
{
    vw_test_pool_open_with(test, NULL, expandable);
    vw_test_dictate(test, B);
}

static void assert_no_segments_counted(const vw_test_pool *test)
{
    vw_pool_stats stats = vw_test_stats(test);
    vw_test_expect_stat(stats.segment.all, 0, 0, 0, 0);
    vw_test_expect_stat(stats.oversize_segments, 0, 0, 0, 0);
    vw_test_expect_stat(stats.inactive_split.all, 0, 0, 0, 0);
    vw_test_expect_stat(stats.inactive_split_bytes.all, 0, 0, 0, 0);
}

/* ---- the worked vector ----------------------------------------------------------------------- */

static void v4_growth_reuse_and_a_partial_shrink(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.capacity_bytes = 100 * MIB, .conf = expandable};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_dictate(&test, B);
    assert_int_equal(vw_test_alloc(&test, 5 * MIB), B);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, B, 20 * MIB},
                          {VW_ACTION_ALLOC, B, 5 * MIB});
    assert_int_equal(vw_test_alloc(&test, 30 * MIB), B + 0x500000);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, B + 0x1400000, 20 * MIB},
                          {VW_ACTION_ALLOC, B + 0x500000, 30 * MIB});
    vw_test_expect_blocks(&test, VW_TEST_LIVE(B, 5 * MIB), VW_TEST_LIVE(B + 0x500000, 30 * MIB),
                          VW_TEST_FREE(B + 0x2300000, 5 * MIB));
    vw_test_free(&test, B);
    assert_int_equal(vw_test_alloc(&test, 2 * MIB), B);
    vw_test_free(&test, B + 0x500000);
    vw_test_forget_events(&test);
    vw_test_trim(&test);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_UNMAP, B + 0x1400000, 20 * MIB});
    vw_test_expect_blocks(&test, VW_TEST_LIVE(B, 2 * MIB), VW_TEST_FREE(B + 0x200000, 18 * MIB));
    assert_no_segments_counted(&test);
    vw_pool_stats stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.reserved_bytes.large_pool, 20 * MIB, 40 * MIB, 40 * MIB, 20 * MIB);
    assert_int_equal(stats.num_device_alloc, 2);
    assert_int_equal(stats.num_device_free, 1);
    vw_test_pool_close(&test);
}

/* ---- reservations and pages ------------------------------------------------------------------ */

static void
pages_have_2_mib_for_small_blocks_and_the_large_segment_size_for_large_ones(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open_with(&test, NULL, "expandable_segments:True,large_segment_size_mb:32");
    vw_device_ptr small = vw_test_alloc(&test, 1), large = vw_test_alloc(&test, 2 * MIB);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, small, 2 * MIB},
                          {VW_ACTION_ALLOC, small, 1}, {VW_ACTION_SEGMENT_MAP, large, 32 * MIB},
                          {VW_ACTION_ALLOC, large, 2 * MIB});
    assert_true(vw_test_segment_at(&test, small).is_expandable);
    assert_false(vw_test_segment_at(&test, small).is_large);
    assert_true(vw_test_segment_at(&test, large).is_large);
    vw_test_pool_close(&test);
}

/* The largest request that one reservation holds is the reservation. */
static void check_reservation(const char *version, const char *conf, uint64_t total_bytes,
                              uint64_t expected_bytes)
{
    const vw_test_pool_setup setup = {
        .total_bytes = total_bytes, .torch_version = version, .conf = conf};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_alloc_fails(&test, expected_bytes + 1, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_test_stats(&test).num_ooms, 1);
    assert_int_equal(vw_test_stats(&test).reserved_bytes.all.current, 0);
    vw_test_alloc(&test, expected_bytes);
    assert_int_equal(vw_test_stats(&test).reserved_bytes.all.current, expected_bytes);
    vw_test_pool_close(&test);
}

static void a_reservation_is_nine_eighths_of_the_device_in_whole_pages(void **state)
{
    (void)state;
    check_reservation(NULL, expandable, 100 * MIB, 120 * MIB);
    check_reservation(NULL, expandable, 160 * MIB, 180 * MIB);
    check_reservation(NULL, expandable, 160 * MIB + 7, 200 * MIB); /* only the eighth is cut */
}

static void since_2_15_a_reservation_can_be_made_smaller_and_not_larger(void **state)
{
    (void)state;
    const char *half = "expandable_segments:True,expandable_segments_reserve:0.5";
    const char *gib = "expandable_segments:True,expandable_segments_reserve:0.25G";
    const char *much = "expandable_segments:True,expandable_segments_reserve:5G";
    check_reservation("2.15", expandable, 800 * MIB, 900 * MIB);
    check_reservation("2.15", half, 800 * MIB, 400 * MIB);
    check_reservation("2.15", gib, 800 * MIB, 260 * MIB); /* 256, in whole pages */
    check_reservation("2.15", much, 800 * MIB, 900 * MIB);
}

static void a_second_reservation_is_made_only_when_the_first_is_full(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.total_bytes = 16 * MIB, .conf = expandable};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup); /* small reservations of 18 MiB, large ones of 20 */
    for (int i = 0; i < 18; i++)
        vw_test_alloc(&test, MIB);
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_RESERVE), 1);
    vw_test_alloc(&test, MIB);
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_RESERVE), 2);
    vw_device_ptr first = vw_test_alloc(&test, 15 * MIB);
    vw_device_ptr second = vw_test_alloc(&test, 6 * MIB); /* 5 MiB are left in the first */
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_RESERVE), 4);
    assert_int_equal(vw_test_alloc(&test, 5 * MIB), first + 15 * MIB);
    assert_int_equal(vw_test_alloc(&test, 14 * MIB), second + 6 * MIB);
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_RESERVE), 4);
    vw_test_pool_close(&test);
}

static void each_stream_has_a_reservation_of_its_own(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_dictate(&test, AT(2000));
    assert_int_equal(vw_test_alloc(&test, 5 * MIB), B);
    assert_int_equal(vw_test_alloc_on(&test, 5 * MIB, 3), AT(2000));
    assert_int_equal(vw_test_alloc(&test, 5 * MIB), AT(5));
    assert_int_equal(vw_test_alloc_on(&test, 5 * MIB, 3), AT(2005));
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_RESERVE), 2);
    vw_test_pool_close(&test);
}

static void a_segment_without_a_mapped_page_gives_its_addresses_back(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_free(&test, vw_test_alloc(&test, 25 * MIB));
    vw_test_forget_events(&test);
    vw_test_trim(&test);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_UNMAP, B, 40 * MIB});
    vw_test_expect_no_blocks(&test);
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_UNRESERVE), 1);
    vw_test_alloc(&test, 5 * MIB);
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_RESERVE), 2);
    vw_test_pool_close(&test);
}

/* ---- growth ---------------------------------------------------------------------------------- */

static void growth_maps_what_the_rounded_request_lacks_and_no_more(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_alloc(&test, 19 * MIB);
    vw_test_forget_events(&test);
    /* 1 MiB is free in front: 20 are missing, where a segment of 22 MiB would need two pages. */
    assert_int_equal(vw_test_alloc(&test, 21 * MIB), AT(19));
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, AT(20), 20 * MIB},
                          {VW_ACTION_ALLOC, AT(19), 21 * MIB});
    vw_test_expect_blocks(&test, VW_TEST_LIVE(B, 19 * MIB), VW_TEST_LIVE(AT(19), 21 * MIB));
    vw_test_alloc(&test, 41 * MIB);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, AT(40), 60 * MIB},
                          {VW_ACTION_ALLOC, AT(40), 41 * MIB});
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_device_alloc, 3); /* one for each growth, not for each page */
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_CREATE), 5);
    assert_no_segments_counted(&test);
    vw_test_pool_close(&test);
}

static void a_live_or_waiting_block_before_the_unmapped_range_is_left_out(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.conf = expandable, .manual_streams = true};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_dictate(&test, B);
    vw_test_alloc(&test, 15 * MIB);
    vw_test_alloc(&test, 5 * MIB);
    vw_test_ok(&test, vw_record_stream(test.pool, AT(15), 9));
    vw_test_free(&test, AT(15)); /* pending */
    assert_int_equal(vw_test_alloc(&test, 20 * MIB), AT(20));
    vw_test_pool_close(&test);
}

/* See the picture at the top. */
static void open_two_ranges(vw_test_pool *test)
{
    open_at_b(test);
    assert_int_equal(vw_test_alloc(test, 15 * MIB), AT(0));
    assert_int_equal(vw_test_alloc(test, 45 * MIB), AT(15));
    assert_int_equal(vw_test_alloc(test, 7 * MIB), AT(60));
    assert_int_equal(vw_test_alloc(test, 2 * MIB), AT(67));
    assert_int_equal(vw_test_alloc(test, 5 * MIB), AT(69));
    vw_test_free(test, AT(15));
    vw_test_forget_events(test);
    vw_test_trim(test);
    vw_test_expect_events(test, {VW_ACTION_SEGMENT_UNMAP, AT(20), 40 * MIB});
}

static void growth_begins_in_the_lowest_unmapped_range_that_has_room(void **state)
{
    (void)state;
    vw_test_pool test;
    open_two_ranges(&test);
    vw_test_forget_events(&test);
    assert_int_equal(vw_test_alloc(&test, 30 * MIB), AT(15));
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, AT(20), 40 * MIB},
                          {VW_ACTION_ALLOC, AT(15), 30 * MIB});
    vw_test_pool_close(&test);
}

static void a_range_without_room_is_passed_over(void **state)
{
    (void)state;
    vw_test_pool test;
    open_two_ranges(&test);
    assert_int_equal(vw_test_alloc(&test, 46 * MIB), AT(74)); /* 45 would have fitted below */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, AT(80), 40 * MIB},
                          {VW_ACTION_ALLOC, AT(74), 46 * MIB});
    vw_test_pool_close(&test);
}

static void a_range_is_joined_with_the_free_blocks_on_both_sides_of_it(void **state)
{
    (void)state;
    vw_test_pool test;
    open_two_ranges(&test);
    vw_test_free(&test, AT(60));
    vw_test_forget_events(&test);
    assert_int_equal(vw_test_alloc(&test, 46 * MIB), AT(15)); /* 5 + 40 + 7 */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, AT(20), 40 * MIB},
                          {VW_ACTION_ALLOC, AT(15), 46 * MIB});
    vw_test_pool_close(&test);
}

/* ---- which free block ------------------------------------------------------------------------ */

static void a_block_that_can_grow_is_spared_if_the_next_larger_one_cannot(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_alloc(&test, 2 * MIB);
    vw_test_alloc(&test, 6 * MIB);
    vw_test_alloc(&test, 7 * MIB); /* 5 MiB are left before the unmapped tail */
    vw_test_free(&test, AT(2));
    assert_int_equal(vw_test_alloc(&test, 5 * MIB), AT(2));
    assert_int_equal(vw_test_alloc(&test, 5 * MIB), AT(15)); /* nothing else is left */
    vw_test_pool_close(&test);
}

static void of_blocks_that_can_grow_to_the_same_size_the_first_is_taken(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    for (int i = 0; i < 5; i++)
        vw_test_alloc(&test, 4 * MIB);
    vw_test_free(&test, AT(4));
    vw_test_free(&test, AT(12));
    assert_int_equal(vw_test_alloc(&test, 4 * MIB), AT(4));
    vw_test_pool_close(&test);
}

static void the_look_ahead_goes_on_while_each_block_can_grow_to_less(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_alloc(&test, 14 * MIB);
    vw_test_alloc(&test, 46 * MIB);
    vw_test_alloc(&test, 8 * MIB);
    vw_test_alloc(&test, 7 * MIB);
    vw_test_free(&test, AT(14));
    vw_test_trim(&test);
    vw_test_free(&test, AT(60));
    /* 5 MiB that can grow to the end, 6 that can grow to 46, 8 that cannot. */
    vw_test_expect_blocks(&test, VW_TEST_LIVE(B, 14 * MIB), VW_TEST_FREE(AT(14), 6 * MIB),
                          VW_TEST_FREE(AT(60), 8 * MIB), VW_TEST_LIVE(AT(68), 7 * MIB),
                          VW_TEST_FREE(AT(75), 5 * MIB));
    assert_int_equal(vw_test_alloc(&test, 5 * MIB), AT(60));
    vw_test_pool_close(&test);
}

static void the_look_ahead_stops_at_the_first_block_that_can_grow_to_more(void **state)
{
    (void)state;
    vw_test_pool test;
    open_two_ranges(&test);
    vw_test_free(&test, AT(60));
    /* 5 MiB that can grow to 45, 6 that can grow to the end, 7 that cannot: not looked at. */
    assert_int_equal(vw_test_alloc(&test, 5 * MIB), AT(15));
    vw_test_pool_close(&test);
}

static void a_remainder_of_512_bytes_is_split_off(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_alloc(&test, 20 * MIB - 512);
    vw_test_expect_blocks(&test, VW_TEST_LIVE(B, 20 * MIB - 512), VW_TEST_FREE(AT(20) - 512, 512));
    vw_test_pool_close(&test);
}

/* ---- shrinking ------------------------------------------------------------------------------- */

static void unmapping_leaves_the_parts_of_pages_at_both_ends(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_alloc(&test, 15 * MIB);
    vw_test_alloc(&test, 50 * MIB);
    vw_test_alloc(&test, 15 * MIB);
    vw_test_free(&test, AT(15));
    vw_test_forget_events(&test);
    vw_test_trim(&test);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_UNMAP, AT(20), 40 * MIB});
    vw_test_expect_blocks(&test, VW_TEST_LIVE(B, 15 * MIB), /* the new records remember nothing */
                          VW_TEST_FREE_ASKED(AT(15), 5 * MIB, 0),
                          VW_TEST_FREE_ASKED(AT(60), 5 * MIB, 0), VW_TEST_LIVE(AT(65), 15 * MIB));
    assert_int_equal(vw_test_stats(&test).reserved_bytes.all.current, 40 * MIB);
    assert_int_equal(vw_test_stats(&test).num_device_free, 1);
    assert_int_equal(vw_test_segment_at(&test, B).total_bytes, 20 * MIB);
    assert_int_equal(vw_test_segment_at(&test, AT(60)).total_bytes, 20 * MIB);
    vw_test_trim(&test); /* no whole page is left in either */
    vw_test_expect_no_events(&test);

    /* The record that was unmapped comes back with what it remembers, and is the high part. */
    assert_int_equal(vw_test_alloc(&test, 45 * MIB), AT(15));
    vw_test_expect_blocks(
        &test, VW_TEST_LIVE(B, 15 * MIB), VW_TEST_LIVE_ASKED(AT(15), 45 * MIB, 45 * MIB),
        VW_TEST_FREE_ASKED(AT(60), 5 * MIB, 50 * MIB), VW_TEST_LIVE(AT(65), 15 * MIB));
    vw_test_pool_close(&test);
}

static void unmapped_neighbours_become_one_range(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    for (int i = 0; i < 4; i++)
        vw_test_alloc(&test, 20 * MIB);
    vw_test_free(&test, AT(20));
    vw_test_trim(&test);
    vw_test_free(&test, AT(40));
    vw_test_trim(&test);
    vw_test_forget_events(&test);
    assert_int_equal(vw_test_alloc(&test, 40 * MIB), AT(20)); /* mapped in one go */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, AT(20), 40 * MIB},
                          {VW_ACTION_ALLOC, AT(20), 40 * MIB});
    vw_test_pool_close(&test);
}

/* ---- shortage -------------------------------------------------------------------------------- */

/* Page 0 live, page 1 unmapped, page 2 free, the rest unmapped; 20 MiB of the device are free. A
 * request of 50 MiB maps page 1 and then fails at page 3. */
static void open_short_of_a_page(vw_test_pool *test)
{
    const vw_test_pool_setup setup = {.capacity_bytes = 60 * MIB, .conf = expandable};
    vw_test_pool_open(test, &setup);
    vw_test_dictate(test, B);
    for (int i = 0; i < 3; i++)
        vw_test_alloc(test, 20 * MIB);
    vw_test_free(test, AT(20));
    vw_test_trim(test);
    vw_test_free(test, AT(40));
    vw_test_forget_events(test);
}

static bool no_stream(void *context, vw_stream stream)
{
    (void)context;
    (void)stream;
    return false;
}

/* A scope keeps a request from being retried, so that what the failure left can be seen. */
static void pages_mapped_before_the_failure_stay_free_and_counted(void **state)
{
    (void)state;
    vw_test_pool test;
    open_short_of_a_page(&test);
    const vw_private_id id = {0, 1};
    vw_test_ok(&test, vw_private_pool_begin(test.pool, id, no_stream, NULL));
    vw_test_ok(&test, vw_pool_reset_accumulated(test.pool));
    vw_test_alloc_fails(&test, 50 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, AT(20), 20 * MIB},
                          {VW_ACTION_OOM, 0, 50 * MIB});
    vw_test_expect_blocks(&test, VW_TEST_LIVE(B, 20 * MIB), VW_TEST_FREE(AT(20), 40 * MIB));
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_device_alloc, 1);
    vw_test_expect_stat(stats.reserved_bytes.all, 60 * MIB, 60 * MIB, 20 * MIB, 0);
    assert_int_equal(stats.num_ooms, 1);
    assert_int_equal(stats.num_alloc_retries, 0);
    assert_int_equal(vw_test_alloc(&test, 40 * MIB), AT(20));
    vw_test_pool_close(&test);
}

static void a_retry_gives_such_pages_back_before_it_fails(void **state)
{
    (void)state;
    vw_test_pool test;
    open_short_of_a_page(&test);
    vw_test_alloc_fails(&test, 50 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, AT(20), 20 * MIB},
                          {VW_ACTION_SEGMENT_UNMAP, AT(20), 40 * MIB},
                          {VW_ACTION_OOM, 40 * MIB, 50 * MIB});
    assert_int_equal(vw_test_stats(&test).num_alloc_retries, 1);
    assert_int_equal(vw_test_calls(&test).in_use_bytes, 20 * MIB);
    vw_test_pool_close(&test);
}

static void one_growth_maps_all_of_its_pages_or_none(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {
        .capacity_bytes = 60 * MIB, .total_bytes = 200 * MIB, .conf = expandable};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_alloc(&test, 15 * MIB);
    vw_test_forget_events(&test);
    vw_test_alloc_fails(&test, 50 * MIB, 0, VW_ERR_OUT_OF_MEMORY); /* three pages, two fit */
    vw_test_expect_events(&test, {VW_ACTION_OOM, 40 * MIB, 50 * MIB});
    assert_int_equal(vw_test_calls(&test).in_use_bytes, 20 * MIB);
    assert_int_equal(vw_test_stats(&test).reserved_bytes.all.current, 20 * MIB);
    assert_int_equal(vw_test_stats(&test).num_device_alloc, 1);
    vw_test_pool_close(&test);
}

static void the_limit_is_held_against_the_segment_size_and_not_the_growth(void **state)
{
    (void)state;
    vw_test_pool_setup setup = {.conf = expandable, .fraction = 60.0 / 1024};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_alloc(&test, 5 * MIB);                                 /* holds a page of 20 MiB */
    vw_test_alloc_fails(&test, 41 * MIB, 0, VW_ERR_OUT_OF_MEMORY); /* 42 + 20 > 60; it lacks 26 */
    vw_test_alloc(&test, 40 * MIB);                                /* 40 + 20 = 60 */
    assert_int_equal(vw_test_stats(&test).reserved_bytes.all.current, 60 * MIB);
    vw_test_pool_close(&test);

    setup.fraction = 30.0 / 1024;
    vw_test_pool_open(&test, &setup);
    vw_test_alloc(&test, 20 * MIB);
    vw_test_alloc(&test, 10 * MIB); /* 10 + 20 = 30, and a page more than that is mapped */
    assert_int_equal(vw_test_stats(&test).reserved_bytes.all.current, 40 * MIB);
    vw_test_pool_close(&test);
}

/* ---- switched off and on --------------------------------------------------------------------- */

static void switched_off_only_plain_blocks_are_found(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_alloc(&test, 2 * MIB);
    vw_test_alloc(&test, 14 * MIB);
    vw_test_alloc(&test, 4 * MIB);
    vw_test_alloc(&test, 5 * MIB); /* 15 MiB free behind it */
    vw_test_free(&test, AT(2));    /* and 14 here */
    vw_test_ok(&test, vw_pool_configure(test.pool, "expandable_segments:False"));
    vw_test_forget_events(&test);
    vw_device_ptr plain = vw_test_alloc(&test, 14 * MIB);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_ALLOC, plain, 14 * MIB},
                          {VW_ACTION_ALLOC, plain, 14 * MIB});
    vw_device_ptr larger = vw_test_alloc(&test, 16 * MIB);
    vw_test_free(&test, larger);
    assert_int_equal(vw_test_alloc(&test, 14 * MIB), larger); /* past both */
    vw_test_free(&test, larger);
    vw_test_free(&test, plain);
    vw_test_free(&test, AT(0)); /* comes back to its own kind */
    vw_test_free(&test, AT(16));
    vw_test_free(&test, AT(20));
    vw_test_forget_events(&test);
    vw_test_trim(&test); /* plain segments first, then pages */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, plain, 14 * MIB},
                          {VW_ACTION_SEGMENT_FREE, larger, 16 * MIB},
                          {VW_ACTION_SEGMENT_UNMAP, B, 40 * MIB});
    vw_test_pool_close(&test);
}

static void switched_off_small_requests_take_new_segments_too(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_free(&test, vw_test_alloc(&test, 512)); /* 2 MiB expandable and free */
    vw_test_ok(&test, vw_pool_configure(test.pool, "expandable_segments:False"));
    assert_true(vw_test_alloc(&test, 512) != B);
    vw_test_expect_stat(vw_test_stats(&test).segment.small_pool, 1, 1, 1, 0);
    vw_test_pool_close(&test);
}

static void switched_on_plain_blocks_still_serve_and_are_split_at_512_bytes(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_device_ptr plain = vw_test_alloc(&test, 20 * MIB);
    vw_test_free(&test, plain);
    vw_test_ok(&test, vw_pool_configure(test.pool, expandable));
    assert_int_equal(vw_test_alloc(&test, 20 * MIB - 512), plain);
    vw_test_expect_blocks(&test, VW_TEST_LIVE(plain, 20 * MIB - 512),
                          VW_TEST_FREE(plain + 20 * MIB - 512, 512));
    vw_test_expect_stat(vw_test_stats(&test).inactive_split.all, 1, 1, 1, 0);
    vw_test_forget_events(&test);
    vw_device_ptr grown = vw_test_alloc(&test, 2 * MIB);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, grown, 20 * MIB},
                          {VW_ACTION_ALLOC, grown, 2 * MIB});
    vw_test_pool_close(&test);
}

static void the_look_ahead_may_leave_a_growable_block_for_a_plain_one(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_device_ptr plain = vw_test_alloc(&test, 18 * MIB);
    vw_test_ok(&test, vw_pool_configure(test.pool, expandable));
    vw_test_alloc(&test, 4 * MIB); /* 16 MiB free behind it */
    vw_test_free(&test, plain);
    assert_int_equal(vw_test_alloc(&test, 16 * MIB), plain);
    vw_test_pool_close(&test);
}

static void settings_that_do_not_name_it_leave_it_on(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_ok(&test, vw_pool_configure(test.pool, "max_split_size_mb:100"));
    vw_test_alloc(&test, 5 * MIB);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_MAP, B, 20 * MIB},
                          {VW_ACTION_ALLOC, B, 5 * MIB});
    vw_test_pool_close(&test);
}

/* ---- what records remember ------------------------------------------------------------------- */

static void the_segment_tag_stays_with_the_front_of_the_segment(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_alloc_tagged(&test, 20 * MIB, 7);
    vw_test_alloc_tagged(&test, 20 * MIB, 8);
    assert_int_equal(vw_test_segment_at(&test, B).tag, 7);
    vw_test_free(&test, B);
    vw_test_forget_events(&test);
    vw_test_trim(&test); /* outside a request: what the record remembers */
    assert_int_equal(test.events[0].action, VW_ACTION_SEGMENT_UNMAP);
    assert_int_equal(test.events[0].tag, 7);
    assert_int_equal(vw_test_segment_at(&test, AT(20)).tag, 0); /* 8 did not map the front */

    vw_test_forget_events(&test);
    vw_test_alloc_tagged(&test, 20 * MIB, 9); /* maps it again; the record has a tag already */
    assert_int_equal(test.events[0].action, VW_ACTION_SEGMENT_MAP);
    assert_int_equal(test.events[0].tag, 9);
    assert_int_equal(vw_test_segment_at(&test, B).tag, 7);

    vw_test_free(&test, B);
    vw_test_free(&test, AT(20)); /* joins the block before it, and takes over its tag */
    assert_int_equal(vw_test_segment_at(&test, B).tag, 7);
    vw_test_alloc_tagged(&test, 5 * MIB, 10); /* a new record in front */
    assert_int_equal(vw_test_segment_at(&test, B).tag, 0);
    vw_test_pool_close(&test);
}

static void a_growing_block_takes_over_the_tag_of_the_block_before_it(void **state)
{
    (void)state;
    vw_test_pool test;
    open_at_b(&test);
    vw_test_free(&test, vw_test_alloc_tagged(&test, 20 * MIB, 7));
    vw_test_alloc_tagged(&test, 40 * MIB, 8); /* the record of the second page survives */
    vw_test_expect_blocks(&test, VW_TEST_LIVE_ASKED(B, 40 * MIB, 40 * MIB));
    assert_int_equal(vw_test_segment_at(&test, B).tag, 7);
    vw_test_pool_close(&test);
}

/* As PyTorch on a platform without virtual memory: the option is read and has no effect. */
static void without_virtual_memory_segments_are_plain(void **state)
{
    (void)state;
    const vw_simulated_options simulated = {.struct_size = sizeof simulated,
                                            .without_virtual_memory = true};
    const vw_pool_options options = {.struct_size = sizeof options,
                                     .conf = "expandable_segments:True"};
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    vw_device_ptr address = VW_NULL;
    vw_block_place place;
    assert_int_equal(vw_simulated_device_create(&simulated, &device), VW_OK);
    assert_int_equal(vw_pool_create(device, &options, &pool), VW_OK);
    assert_int_equal(vw_alloc(pool, 5 << 20, 0, &address), VW_OK);
    assert_int_equal(vw_pool_find(pool, address, &place), VW_OK);
    assert_false(place.is_expandable);
    assert_int_equal(place.segment_bytes, 20 << 20);
    assert_int_equal(vw_pool_check(pool), VW_OK);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v4_growth_reuse_and_a_partial_shrink),
        cmocka_unit_test(
            pages_have_2_mib_for_small_blocks_and_the_large_segment_size_for_large_ones),
        cmocka_unit_test(a_reservation_is_nine_eighths_of_the_device_in_whole_pages),
        cmocka_unit_test(since_2_15_a_reservation_can_be_made_smaller_and_not_larger),
        cmocka_unit_test(a_second_reservation_is_made_only_when_the_first_is_full),
        cmocka_unit_test(each_stream_has_a_reservation_of_its_own),
        cmocka_unit_test(a_segment_without_a_mapped_page_gives_its_addresses_back),
        cmocka_unit_test(growth_maps_what_the_rounded_request_lacks_and_no_more),
        cmocka_unit_test(a_live_or_waiting_block_before_the_unmapped_range_is_left_out),
        cmocka_unit_test(growth_begins_in_the_lowest_unmapped_range_that_has_room),
        cmocka_unit_test(a_range_without_room_is_passed_over),
        cmocka_unit_test(a_range_is_joined_with_the_free_blocks_on_both_sides_of_it),
        cmocka_unit_test(a_block_that_can_grow_is_spared_if_the_next_larger_one_cannot),
        cmocka_unit_test(of_blocks_that_can_grow_to_the_same_size_the_first_is_taken),
        cmocka_unit_test(the_look_ahead_goes_on_while_each_block_can_grow_to_less),
        cmocka_unit_test(the_look_ahead_stops_at_the_first_block_that_can_grow_to_more),
        cmocka_unit_test(a_remainder_of_512_bytes_is_split_off),
        cmocka_unit_test(unmapping_leaves_the_parts_of_pages_at_both_ends),
        cmocka_unit_test(unmapped_neighbours_become_one_range),
        cmocka_unit_test(pages_mapped_before_the_failure_stay_free_and_counted),
        cmocka_unit_test(a_retry_gives_such_pages_back_before_it_fails),
        cmocka_unit_test(one_growth_maps_all_of_its_pages_or_none),
        cmocka_unit_test(the_limit_is_held_against_the_segment_size_and_not_the_growth),
        cmocka_unit_test(switched_off_only_plain_blocks_are_found),
        cmocka_unit_test(switched_off_small_requests_take_new_segments_too),
        cmocka_unit_test(switched_on_plain_blocks_still_serve_and_are_split_at_512_bytes),
        cmocka_unit_test(the_look_ahead_may_leave_a_growable_block_for_a_plain_one),
        cmocka_unit_test(settings_that_do_not_name_it_leave_it_on),
        cmocka_unit_test(the_segment_tag_stays_with_the_front_of_the_segment),
        cmocka_unit_test(a_growing_block_takes_over_the_tag_of_the_block_before_it),
        cmocka_unit_test(without_virtual_memory_segments_are_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
