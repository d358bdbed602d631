/* test_torch_engine.c - a request from rounding to hand-out and its way back, rule by rule.
 *
 * The worked vectors V1, V2, V3, V5 and V6 of the allocator's specification, number for number, and
 * then each rule of the search, the split, the new segment, the hand-out and the free on its own,
 * on both sides of the release that changed it. What an expandable segment, a shortage or a private
 * pool adds has a file of its own: test_torch_expandable, _reclaim, _private_pools. */
#include "support/cmocka_here.h"
#include "support/pool_layout.h"

#define MIB VW_TEST_MIB

/* Where segments are put, where it matters: far enough apart for the largest of them. */
#define S0 UINT64_C(0x600000000000)
#define S1 UINT64_C(0x600100000000)
#define S2 UINT64_C(0x600200000000)
#define S3 UINT64_C(0x600300000000)
#define S4 UINT64_C(0x600400000000)

/* ---- the worked vectors ---------------------------------------------------------------------- */

static void v1_five_sizes_take_three_segments_and_leave_three_remainders(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_dictate(&test, S0);
    vw_test_dictate(&test, S1);
    vw_test_dictate(&test, S2);
    assert_int_equal(vw_test_alloc(&test, 1), S0);
    assert_int_equal(vw_test_alloc(&test, 1048576), S0 + 0x200);
    assert_int_equal(vw_test_alloc(&test, 1048577), S1);
    assert_int_equal(vw_test_alloc(&test, 10485760), S1 + 0x100200);
    assert_int_equal(vw_test_alloc(&test, 10485761), S2);

    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_ALLOC, S0, 2 * MIB}, {VW_ACTION_ALLOC, S0, 1},
                          {VW_ACTION_ALLOC, S0 + 0x200, 1048576},
                          {VW_ACTION_SEGMENT_ALLOC, S1, 20 * MIB}, {VW_ACTION_ALLOC, S1, 1048577},
                          {VW_ACTION_ALLOC, S1 + 0x100200, 10485760},
                          {VW_ACTION_SEGMENT_ALLOC, S2, 12 * MIB}, {VW_ACTION_ALLOC, S2, 10485761});
    vw_test_expect_blocks(
        &test, VW_TEST_LIVE_ASKED(S0, 512, 1), VW_TEST_LIVE_ASKED(S0 + 0x200, 1048576, 1048576),
        VW_TEST_FREE_ASKED(S0 + 0x100200, 1048064, 0), VW_TEST_LIVE_ASKED(S1, 1049088, 1048577),
        VW_TEST_LIVE_ASKED(S1 + 0x100200, 10485760, 10485760),
        VW_TEST_FREE_ASKED(S1 + 0xB00200, 9436672, 0), VW_TEST_LIVE_ASKED(S2, 10486272, 10485761),
        VW_TEST_FREE_ASKED(S2 + 0xA00200, 2096640, 0));

    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.allocated_bytes.all.current, 23070208);
    assert_int_equal(stats.active_bytes.all.current, 23070208);
    assert_int_equal(stats.requested_bytes.all.current, 23068675);
    assert_int_equal(stats.reserved_bytes.all.current, 35651584);
    assert_int_equal(stats.reserved_bytes.small_pool.current, 2 * MIB);
    assert_int_equal(stats.reserved_bytes.large_pool.current, 32 * MIB);
    assert_int_equal(stats.allocation.all.current, 5);
    assert_int_equal(stats.active.all.current, 5);
    vw_test_expect_stat(stats.segment.all, 3, 3, 3, 0);
    vw_test_expect_stat(stats.segment.small_pool, 1, 1, 1, 0);
    vw_test_expect_stat(stats.segment.large_pool, 2, 2, 2, 0);
    vw_test_expect_stat(stats.inactive_split.all, 3, 3, 3, 0);
    vw_test_expect_stat(stats.inactive_split_bytes.all, 12581376, 20970496, 24115712, 11534336);
    vw_test_expect_stat(stats.inactive_split_bytes.small_pool, 1048064, 2096640, 2096640, 1048576);
    assert_int_equal(stats.num_device_alloc, 3);
    assert_int_equal(stats.num_device_free, 0);
    assert_int_equal(stats.largest_free_block_bytes, 9436672);
    vw_test_pool_close(&test);
}

static void v2_a_remainder_of_exactly_1_mib_is_not_split_off_and_512_more_is(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_dictate(&test, S0);
    vw_test_free(&test, vw_test_alloc(&test, 20 * MIB));
    assert_int_equal(vw_test_alloc(&test, 19 * MIB), S0);
    vw_test_expect_blocks(&test, VW_TEST_LIVE_ASKED(S0, 20971520, 19 * MIB));
    vw_test_free(&test, S0);
    assert_int_equal(vw_test_alloc(&test, 19 * MIB - 512), S0);
    vw_test_expect_blocks(&test, VW_TEST_LIVE(S0, 19 * MIB - 512),
                          VW_TEST_FREE(S0 + 19 * MIB - 512, 1049088));
    assert_int_equal(vw_test_stats(&test).num_device_alloc, 1);
    vw_test_pool_close(&test);
}

/* Five equal segments made at addresses that neither rise nor fall, all freed; then a request that
 * needs them gone. Equal sizes go by address through 2.11, by age of the segment since 2.12. */
static void check_v3(const char *version, const vw_device_ptr in_order[5])
{
    static const vw_device_ptr made_at[5] = {S3, S1, S4, S0, S2};
    const vw_test_pool_setup setup = {.capacity_bytes = 64 * MIB, .torch_version = version};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    for (int i = 0; i < 5; i++) {
        vw_test_dictate(&test, made_at[i]);
        assert_int_equal(vw_test_alloc(&test, 12 * MIB), made_at[i]);
    }
    for (int i = 0; i < 5; i++)
        vw_test_free(&test, made_at[i]);
    vw_test_forget_events(&test);
    vw_device_ptr address = vw_test_alloc(&test, 30 * MIB);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, in_order[0], 12 * MIB},
                          {VW_ACTION_SEGMENT_FREE, in_order[1], 12 * MIB},
                          {VW_ACTION_SEGMENT_FREE, in_order[2], 12 * MIB},
                          {VW_ACTION_SEGMENT_FREE, in_order[3], 12 * MIB},
                          {VW_ACTION_SEGMENT_FREE, in_order[4], 12 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, address, 31457280},
                          {VW_ACTION_ALLOC, address, 31457280});
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_alloc_retries, 1);
    assert_int_equal(stats.num_ooms, 0);
    assert_int_equal(stats.num_device_free, 5);
    assert_int_equal(stats.num_sync_all_streams, 1);
    vw_test_pool_close(&test);
}

static void v3_a_request_that_finds_no_room_gives_back_five_segments_and_is_served(void **state)
{
    (void)state;
    check_v3("2.11", (const vw_device_ptr[]){S0, S1, S2, S3, S4});
    check_v3("2.12", (const vw_device_ptr[]){S3, S1, S4, S0, S2});
    check_v3("2.13", (const vw_device_ptr[]){S3, S1, S4, S0, S2});
}

static void v5_oversize_blocks_are_refused_to_small_requests_and_handed_out_whole(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open_with(&test, NULL, "max_split_size_mb:200");
    vw_test_dictate(&test, S0);
    vw_test_dictate(&test, S1);
    vw_test_dictate(&test, S2);
    vw_test_free(&test, vw_test_alloc(&test, 210 * MIB));
    assert_int_equal(vw_test_alloc(&test, 100 * MIB), S1);
    assert_int_equal(vw_test_alloc(&test, 195 * MIB), S2);
    assert_int_equal(vw_test_alloc(&test, 200 * MIB), S0);
    vw_test_expect_blocks(&test, VW_TEST_LIVE(S0, 210 * MIB), VW_TEST_LIVE(S1, 100 * MIB),
                          VW_TEST_LIVE(S2, 196 * MIB));
    vw_pool_stats stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.oversize_allocations, 1, 1, 2, 1);
    vw_test_expect_stat(stats.oversize_segments, 1, 1, 1, 0);
    assert_int_equal(stats.max_split_size, 200 * MIB);
    vw_test_pool_close(&test);
}

static void v6_sizes_are_rounded_to_quarters_of_a_power_of_two(void **state)
{
    (void)state;
    static const struct {
        uint64_t asked, served;
    } cases[] = {{512, 512},   {513, 1024},        {1200, 1536},
                 {2049, 2560}, {1310721, 1572864}, {104857600, 117440512}};
    vw_test_pool test;
    vw_test_pool_open_with(&test, NULL, "roundup_power2_divisions:4");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(vw_test_served_bytes(&test, cases[i].asked), cases[i].served);
    vw_test_pool_close(&test);
}

/* ---- the search ------------------------------------------------------------------------------ */

static void the_smallest_block_that_fits_is_taken_wherever_it_lies(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    static const struct {
        vw_device_ptr address;
        uint64_t size_bytes;
    } segments[] = {{S0, 40 * MIB}, {S1, 24 * MIB}, {S2, 30 * MIB}, {S3, 22 * MIB}};
    for (int i = 0; i < 4; i++) {
        vw_test_dictate(&test, segments[i].address);
        vw_test_alloc(&test, segments[i].size_bytes);
    }
    for (int i = 0; i < 4; i++)
        vw_test_free(&test, segments[i].address);
    assert_int_equal(vw_test_alloc(&test, 22 * MIB + 1), S1);
    assert_int_equal(vw_test_alloc(&test, 24 * MIB), S2); /* which leaves 6 MiB there */
    assert_int_equal(vw_test_alloc(&test, 6 * MIB), S2 + 24 * MIB);
    assert_int_equal(vw_test_alloc(&test, 22 * MIB), S3);
    assert_int_equal(vw_test_alloc(&test, 12 * MIB), S0);
    vw_test_pool_close(&test);
}

static void a_free_block_serves_its_own_stream_only(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_dictate(&test, S0);
    vw_test_dictate(&test, S1);
    vw_test_dictate(&test, S2);
    vw_test_free(&test, vw_test_alloc_on(&test, 30 * MIB, 7));
    assert_int_equal(vw_test_alloc_on(&test, 30 * MIB, 6), S1);
    assert_int_equal(vw_test_alloc_on(&test, 30 * MIB, 8), S2);
    assert_int_equal(vw_test_alloc_on(&test, 30 * MIB, 7), S0);
    assert_int_equal(vw_test_segment_at(&test, S1).stream, 6);
    vw_test_pool_close(&test);
}

static void small_and_large_blocks_never_serve_each_other(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_dictate(&test, S0);
    vw_test_dictate(&test, S1);
    vw_test_free(&test, vw_test_alloc(&test, MIB)); /* 2 MiB free, small */
    assert_int_equal(vw_test_alloc(&test, MIB + 1), S1);
    assert_int_equal(vw_test_alloc(&test, MIB), S0);
    assert_false(vw_test_segment_at(&test, S0).is_large);
    assert_true(vw_test_segment_at(&test, S1).is_large);
    vw_test_pool_close(&test);
}

/* Two segments of equal size, the later one below the earlier one. */
static vw_device_ptr winner_of_equal_segments(const char *version)
{
    vw_test_pool test;
    vw_test_pool_open_with(&test, version, NULL);
    vw_test_dictate(&test, S1);
    vw_test_dictate(&test, S0);
    vw_test_alloc(&test, 24 * MIB);
    vw_test_alloc(&test, 24 * MIB);
    vw_test_free(&test, S1);
    vw_test_free(&test, S0);
    vw_device_ptr winner = vw_test_alloc(&test, 24 * MIB);
    vw_test_pool_close(&test);
    return winner;
}

/* Two free blocks of equal size in one segment, the lower one with the younger record: it was split
 * off a block that was there before the other. */
static vw_device_ptr winner_of_equal_blocks(const char *version)
{
    vw_test_pool test;
    vw_test_pool_open_with(&test, version, NULL);
    vw_test_dictate(&test, S0);
    assert_int_equal(vw_test_alloc(&test, 1024), S0);
    for (vw_device_ptr address = S0 + 1024; address <= S0 + 2048; address += 512)
        assert_int_equal(vw_test_alloc(&test, 512), address);
    vw_test_free(&test, S0);
    assert_int_equal(vw_test_alloc(&test, 512), S0);       /* a new record */
    assert_int_equal(vw_test_alloc(&test, 512), S0 + 512); /* the one that had 1024 bytes */
    vw_test_free(&test, S0 + 1536);
    vw_test_free(&test, S0);
    vw_device_ptr winner = vw_test_alloc(&test, 512);
    vw_test_pool_close(&test);
    return winner;
}

static void equal_sizes_go_by_address_then_by_block_then_by_segment_as_releases_went(void **state)
{
    (void)state;
    assert_int_equal(winner_of_equal_segments("2.0"), S0);
    assert_int_equal(winner_of_equal_segments("2.11"), S0);
    assert_int_equal(winner_of_equal_segments("2.12"), S1);
    assert_int_equal(winner_of_equal_segments("2.13"), S1);
    assert_int_equal(winner_of_equal_segments("2.15"), S1);
    assert_int_equal(winner_of_equal_blocks("2.11"), S0);
    assert_int_equal(winner_of_equal_blocks("2.12"), S0 + 1536);
    assert_int_equal(winner_of_equal_blocks("2.13"), S0);
}

/* Parts of the older segment win over a whole younger one, though they lie above it. */
static void parts_of_a_segment_inherit_its_number(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open_with(&test, "2.13", NULL);
    vw_test_dictate(&test, S1);
    vw_test_dictate(&test, S0);
    assert_int_equal(vw_test_alloc(&test, 12 * MIB), S1);
    assert_int_equal(vw_test_alloc(&test, 24 * MIB), S0);
    vw_test_free(&test, S0);
    assert_int_equal(vw_test_alloc(&test, 12 * MIB), S0);
    vw_test_free(&test, S1); /* 12 MiB in S1, and 12 MiB behind the live half of S0 */
    assert_int_equal(vw_test_alloc(&test, 12 * MIB), S1);
    vw_test_free(&test, S0);
    assert_int_equal(vw_test_alloc(&test, 24 * MIB), S0);
    vw_test_pool_close(&test);
}

/* ---- oversize blocks ------------------------------------------------------------------------- */

/* Is a request served from a free block of `cached_bytes`? */
static bool is_reused(const char *version, const char *conf, uint64_t cached_bytes,
                      uint64_t size_bytes)
{
    vw_test_pool test;
    vw_test_pool_open_with(&test, version, conf);
    vw_test_dictate(&test, S0);
    vw_test_free(&test, vw_test_alloc(&test, cached_bytes));
    bool is_reused = vw_test_alloc(&test, size_bytes) == S0;
    vw_test_pool_close(&test);
    return is_reused;
}

static void a_block_counts_as_oversize_from_max_split_size_on(void **state)
{
    (void)state;
    const char *conf = "max_split_size_mb:200";
    assert_true(is_reused(NULL, conf, 198 * MIB, 100 * MIB));
    assert_false(is_reused(NULL, conf, 200 * MIB, 200 * MIB - 512));
    assert_true(is_reused(NULL, conf, 200 * MIB, 200 * MIB));
    assert_true(is_reused(NULL, NULL, 500 * MIB, 2 * MIB));
}

static void an_oversize_block_may_be_less_than_the_slack_larger_than_the_request(void **state)
{
    (void)state;
    const char *conf = "max_split_size_mb:200";
    assert_false(is_reused(NULL, conf, 220 * MIB, 200 * MIB));
    assert_true(is_reused(NULL, conf, 220 * MIB, 200 * MIB + 512));
    assert_true(is_reused(NULL, conf, 218 * MIB, 200 * MIB));
    assert_false(is_reused("1.10", conf, 220 * MIB, 200 * MIB));
    assert_true(is_reused("1.10", conf, 218 * MIB, 200 * MIB));
}

static void the_slack_can_be_set_since_2_6(void **state)
{
    (void)state;
    const char *conf = "max_split_size_mb:200,max_non_split_rounding_mb:32";
    assert_true(is_reused("2.6", conf, 230 * MIB, 200 * MIB));
    assert_false(is_reused("2.6", conf, 232 * MIB, 200 * MIB));
    assert_false(is_reused("2.6", "max_split_size_mb:200", 230 * MIB, 200 * MIB));
}

static void oversize_statistics_look_at_the_block_and_not_at_the_request(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open_with(&test, NULL, "max_split_size_mb:200");
    vw_device_ptr address = vw_test_alloc(&test, 199 * MIB); /* a block of 200 MiB, unsplit */
    vw_pool_stats stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.oversize_allocations, 1, 1, 1, 0);
    vw_test_expect_stat(stats.oversize_segments, 1, 1, 1, 0);
    vw_test_free(&test, address);
    vw_test_trim(&test);
    stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.oversize_allocations, 0, 1, 1, 1);
    vw_test_expect_stat(stats.oversize_segments, 0, 1, 1, 1);
    vw_test_alloc(&test, 198 * MIB);
    vw_test_expect_stat(vw_test_stats(&test).oversize_allocations, 0, 1, 1, 1);
    vw_test_pool_close(&test);
}

static void an_oversize_request_is_handed_the_whole_block(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open_with(&test, NULL, "max_split_size_mb:200");
    vw_test_dictate(&test, S0);
    vw_test_free(&test, vw_test_alloc(&test, 218 * MIB));
    assert_int_equal(vw_test_served_bytes(&test, 200 * MIB), 218 * MIB);
    vw_test_pool_close(&test);
    vw_test_pool_open(&test, NULL);
    vw_test_free(&test, vw_test_alloc(&test, 218 * MIB));
    assert_int_equal(vw_test_served_bytes(&test, 200 * MIB), 200 * MIB);
    vw_test_pool_close(&test);
}

/* ---- splits ---------------------------------------------------------------------------------- */

static void a_small_block_is_split_down_to_512_bytes(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_dictate(&test, S0);
    vw_test_alloc(&test, MIB);
    vw_test_alloc(&test, MIB - 512);
    vw_test_expect_blocks(&test, VW_TEST_LIVE(S0, MIB), VW_TEST_LIVE(S0 + MIB, MIB - 512),
                          VW_TEST_FREE(S0 + 2 * MIB - 512, 512));
    assert_int_equal(vw_test_alloc(&test, 1), S0 + 2 * MIB - 512);
    vw_test_expect_blocks(&test, VW_TEST_LIVE(S0, MIB), VW_TEST_LIVE(S0 + MIB, MIB - 512),
                          VW_TEST_LIVE(S0 + 2 * MIB - 512, 512));
    vw_test_pool_close(&test);
}

static void the_four_ways_of_a_hand_out_count_their_remainders(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_dictate(&test, S0);
    vw_test_dictate(&test, S1);

    vw_test_alloc(&test, 24 * MIB); /* no split, alone: nothing */
    vw_pool_stats stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.inactive_split.all, 0, 0, 0, 0);
    vw_test_expect_stat(stats.inactive_split_bytes.all, 0, 0, 0, 0);

    vw_test_alloc(&test, 5 * MIB); /* a split of a whole segment: the rest is counted */
    stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.inactive_split.large_pool, 1, 1, 1, 0);
    vw_test_expect_stat(stats.inactive_split_bytes.large_pool, 15 * MIB, 15 * MIB, 15 * MIB, 0);

    vw_test_alloc(&test, 6 * MIB); /* a split of a part: less of it */
    stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.inactive_split.large_pool, 1, 1, 1, 0);
    vw_test_expect_stat(stats.inactive_split_bytes.large_pool, 9 * MIB, 15 * MIB, 15 * MIB,
                        6 * MIB);

    vw_test_alloc(&test, 8 * MIB); /* a part handed out whole, 1 MiB more than asked */
    stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.inactive_split.large_pool, 0, 1, 1, 1);
    vw_test_expect_stat(stats.inactive_split_bytes.large_pool, 0, 15 * MIB, 15 * MIB, 15 * MIB);
    vw_test_expect_stat(stats.inactive_split.small_pool, 0, 0, 0, 0);
    assert_int_equal(stats.allocated_bytes.all.current, 44 * MIB);
    assert_int_equal(stats.requested_bytes.all.current, 43 * MIB);
    vw_test_pool_close(&test);
}

/* ---- new segments ---------------------------------------------------------------------------- */

static void check_segment_size(const char *conf, uint64_t size_bytes, uint64_t segment_bytes)
{
    vw_test_pool test;
    vw_test_pool_open_with(&test, NULL, conf);
    vw_device_ptr address = vw_test_alloc(&test, size_bytes);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_ALLOC, address, segment_bytes},
                          {VW_ACTION_ALLOC, address, size_bytes});
    assert_int_equal(vw_test_stats(&test).reserved_bytes.all.current, segment_bytes);
    vw_test_pool_close(&test);
}

static void segments_have_2_mib_or_20_mib_or_the_size_rounded_up_to_2_mib(void **state)
{
    (void)state;
    check_segment_size(NULL, 1, 2 * MIB);
    check_segment_size(NULL, MIB, 2 * MIB);
    check_segment_size(NULL, MIB + 1, 20 * MIB);
    check_segment_size(NULL, 10 * MIB - 512, 20 * MIB);
    check_segment_size(NULL, 10 * MIB - 511, 10 * MIB); /* rounded, it has 10 MiB */
    check_segment_size(NULL, 10 * MIB + 1, 12 * MIB);
    check_segment_size(NULL, 21 * MIB, 22 * MIB);
}

static void the_middle_size_can_be_set_since_2_11(void **state)
{
    (void)state;
    const char *conf = "large_segment_size_mb:32";
    check_segment_size(conf, MIB, 2 * MIB);
    check_segment_size(conf, MIB + 1, 32 * MIB);
    check_segment_size(conf, 10 * MIB - 512, 32 * MIB);
    check_segment_size(conf, 10 * MIB, 10 * MIB);

    vw_device *device = NULL;
    vw_pool *pool = NULL;
    const vw_pool_options options = {
        .struct_size = sizeof options, .torch_version = "2.10", .conf = conf};
    assert_int_equal(vw_simulated_device_create(NULL, &device), VW_OK);
    assert_int_equal(vw_pool_create(device, &options, &pool), VW_ERR_BAD_SETTING);
    vw_device_destroy(device);
}

static void a_refusal_by_the_device_emits_and_counts_nothing_by_itself(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.capacity_bytes = 30 * MIB};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_free(&test, vw_test_alloc(&test, 20 * MIB));
    vw_test_forget_events(&test);
    vw_test_alloc(&test, 24 * MIB); /* the first try is refused */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, VW_TEST_ANY, 20 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, VW_TEST_ANY, 24 * MIB},
                          {VW_ACTION_ALLOC, VW_TEST_ANY, 24 * MIB});
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_device_alloc, 2);
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_TAKE), 3);
    vw_test_expect_stat(stats.segment.all, 1, 1, 2, 1);
    vw_test_pool_close(&test);
}

/* Its failure is the request's, at once: nothing cached is given up for it. */
static void a_driver_error_other_than_a_shortage_ends_the_request(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_free(&test, vw_test_alloc(&test, 20 * MIB));
    vw_test_forget_events(&test);
    vw_test_ok(&test, vw_device_fail_call(test.device, 1, VW_ERR_DEVICE));
    vw_test_alloc_fails(&test, 24 * MIB, 0, VW_ERR_DEVICE);
    vw_test_expect_no_events(&test);
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_ooms, 0);
    assert_int_equal(stats.num_alloc_retries, 0);
    assert_int_equal(stats.reserved_bytes.all.current, 20 * MIB);
    vw_test_pool_close(&test);
}

/* ---- the way back ---------------------------------------------------------------------------- */

/* Blocks of 512, 1024 and 1536 bytes, and the rest of a small segment. */
static void open_three_blocks(vw_test_pool *test)
{
    vw_test_pool_open(test, NULL);
    vw_test_dictate(test, S0);
    assert_int_equal(vw_test_alloc(test, 512), S0);
    assert_int_equal(vw_test_alloc(test, 1024), S0 + 512);
    assert_int_equal(vw_test_alloc(test, 1536), S0 + 1536);
    vw_test_ok(test, vw_pool_reset_accumulated(test->pool));
    vw_test_forget_events(test);
}

enum { REST = 2097152 - 3072 };

static void a_free_block_joins_what_is_free_on_either_side(void **state)
{
    (void)state;
    vw_test_pool test;
    open_three_blocks(&test);
    vw_test_free(&test, S0);
    vw_test_expect_blocks(&test, VW_TEST_FREE(S0, 512), VW_TEST_LIVE(S0 + 512, 1024),
                          VW_TEST_LIVE(S0 + 1536, 1536), VW_TEST_FREE(S0 + 3072, REST));
    vw_test_free(&test, S0 + 512);
    vw_test_expect_blocks(&test, VW_TEST_FREE(S0, 1536), VW_TEST_LIVE(S0 + 1536, 1536),
                          VW_TEST_FREE(S0 + 3072, REST));
    vw_test_free(&test, S0 + 1536);
    vw_test_expect_blocks(&test, VW_TEST_FREE(S0, 2 * MIB));
    vw_test_expect_events(
        &test, {VW_ACTION_FREE_REQUESTED, S0, 512}, {VW_ACTION_FREE_COMPLETED, S0, 512},
        {VW_ACTION_FREE_REQUESTED, S0 + 512, 1024}, {VW_ACTION_FREE_COMPLETED, S0 + 512, 1024},
        {VW_ACTION_FREE_REQUESTED, S0 + 1536, 1536}, {VW_ACTION_FREE_COMPLETED, S0 + 1536, 1536});
    vw_test_pool_close(&test);
}

static void a_merge_counts_its_net_change_as_one_step(void **state)
{
    (void)state;
    vw_test_pool test;
    open_three_blocks(&test);
    vw_test_free(&test, S0 + 1536); /* into the rest: one block as before, 1536 bytes more */
    vw_pool_stats stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.inactive_split.all, 1, 1, 0, 0);
    vw_test_expect_stat(stats.inactive_split_bytes.all, REST + 1536, 2 * MIB - 512, 1536, 0);
    vw_test_free(&test, S0); /* alone: one block more */
    stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.inactive_split.all, 2, 2, 1, 0);
    vw_test_expect_stat(stats.inactive_split_bytes.all, REST + 2048, 2 * MIB - 512, 2048, 0);
    vw_test_free(&test, S0 + 512); /* both sides, and the segment is whole: both go */
    stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.inactive_split.all, 0, 2, 1, 2);
    vw_test_expect_stat(stats.inactive_split_bytes.all, 0, 2 * MIB - 512, 2048, REST + 2048);
    vw_test_pool_close(&test);
}

static void a_merge_of_three_that_leaves_a_part_is_one_block_less(void **state)
{
    (void)state;
    vw_test_pool test;
    open_three_blocks(&test);
    vw_test_alloc(&test, 2048); /* at 3072: keeps the segment split */
    vw_test_free(&test, S0);
    vw_test_free(&test, S0 + 1536);
    vw_test_ok(&test, vw_pool_reset_accumulated(test.pool));
    vw_test_free(&test, S0 + 512); /* three into one of 3072 bytes: -2 + 1 */
    vw_pool_stats stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.inactive_split.all, 2, 3, 0, 1);
    assert_int_equal(stats.inactive_split_bytes.all.allocated, 1024);
    assert_int_equal(stats.inactive_split_bytes.all.freed, 0);
    vw_test_pool_close(&test);
}

static void a_free_record_remembers_what_its_last_owner_asked_for(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_dictate(&test, S0);
    vw_test_free(&test, vw_test_alloc(&test, 100)); /* the freed record survives the merge */
    vw_test_expect_blocks(&test, VW_TEST_FREE_ASKED(S0, 2 * MIB, 100));
    vw_test_alloc(&test, 700); /* a split leaves the old value on the high part */
    vw_test_alloc(&test, 300);
    vw_test_expect_blocks(&test, VW_TEST_LIVE_ASKED(S0, 1024, 700),
                          VW_TEST_LIVE_ASKED(S0 + 1024, 512, 300),
                          VW_TEST_FREE_ASKED(S0 + 1536, 2 * MIB - 1536, 100));
    vw_test_free(&test, S0);
    vw_test_expect_blocks(&test, VW_TEST_FREE_ASKED(S0, 1024, 700),
                          VW_TEST_LIVE_ASKED(S0 + 1024, 512, 300),
                          VW_TEST_FREE_ASKED(S0 + 1536, 2 * MIB - 1536, 100));
    vw_test_alloc(&test, 400); /* the low part of it is new, the high part remembers */
    vw_test_expect_blocks(&test, VW_TEST_LIVE_ASKED(S0, 512, 400),
                          VW_TEST_FREE_ASKED(S0 + 512, 512, 700),
                          VW_TEST_LIVE_ASKED(S0 + 1024, 512, 300),
                          VW_TEST_FREE_ASKED(S0 + 1536, 2 * MIB - 1536, 100));
    vw_test_free(&test, S0 + 1024); /* previous and next lose theirs */
    vw_test_expect_blocks(&test, VW_TEST_LIVE_ASKED(S0, 512, 400),
                          VW_TEST_FREE_ASKED(S0 + 512, 2 * MIB - 512, 300));
    assert_int_equal(vw_test_segment_at(&test, S0).requested_bytes, 400);
    vw_test_pool_close(&test);
}

static void a_segments_tag_is_with_the_record_that_made_it(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_dictate(&test, S0);
    vw_test_alloc_tagged(&test, 20 * MIB, 7);
    assert_int_equal(vw_test_segment_at(&test, S0).tag, 7);
    vw_test_free(&test, S0);
    assert_int_equal(vw_test_segment_at(&test, S0).tag, 7);

    vw_test_alloc_tagged(&test, 5 * MIB, 8); /* the low part is a new record */
    assert_int_equal(vw_test_segment_at(&test, S0).tag, 0);
    vw_test_alloc_tagged(&test, 15 * MIB, 9); /* the record of 7, with the rest */
    vw_test_free(&test, S0);
    vw_test_free(&test, S0 + 5 * MIB); /* takes over previous's, which has none */
    assert_int_equal(vw_test_segment_at(&test, S0).tag, 0);
    vw_test_pool_close(&test);
}

static void a_merge_with_the_next_block_keeps_the_survivors_segment_tag(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_dictate(&test, S0);
    vw_test_alloc_tagged(&test, 5 * MIB, 7);
    vw_test_free(&test, S0); /* the low record survives; 7 was with the high one */
    assert_int_equal(vw_test_segment_at(&test, S0).tag, 0);
    vw_test_forget_events(&test);
    vw_test_trim(&test);
    assert_int_equal(test.events[0].action, VW_ACTION_SEGMENT_FREE);
    assert_int_equal(test.events[0].tag, 0);
    vw_test_pool_close(&test);
}

static void events_carry_the_tag_of_the_request_or_of_what_is_given_back(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.capacity_bytes = 30 * MIB};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_free(&test, vw_test_alloc_tagged(&test, 20 * MIB, 7));
    vw_device_ptr address = vw_test_alloc_tagged(&test, 24 * MIB, 8); /* 7's segment must go */
    vw_test_free(&test, address);
    vw_test_trim(&test);
    vw_test_free(&test, vw_test_alloc_tagged(&test, 20 * MIB, 9));
    vw_test_alloc(&test, 24 * MIB); /* 9's segment must go, for a request without a tag */
    static const struct {
        vw_action action;
        uint64_t tag;
    } expected[] = {
        {VW_ACTION_SEGMENT_ALLOC, 7},  {VW_ACTION_ALLOC, 7},          {VW_ACTION_FREE_REQUESTED, 7},
        {VW_ACTION_FREE_COMPLETED, 7}, {VW_ACTION_SEGMENT_FREE, 8},   {VW_ACTION_SEGMENT_ALLOC, 8},
        {VW_ACTION_ALLOC, 8},          {VW_ACTION_FREE_REQUESTED, 8}, {VW_ACTION_FREE_COMPLETED, 8},
        {VW_ACTION_SEGMENT_FREE, 8},   {VW_ACTION_SEGMENT_ALLOC, 9},  {VW_ACTION_ALLOC, 9},
        {VW_ACTION_FREE_REQUESTED, 9}, {VW_ACTION_FREE_COMPLETED, 9}, {VW_ACTION_SEGMENT_FREE, 0},
        {VW_ACTION_SEGMENT_ALLOC, 0},  {VW_ACTION_ALLOC, 0},
    };
    assert_int_equal(test.event_count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < test.event_count; i++) {
        assert_int_equal(test.events[i].action, expected[i].action);
        assert_int_equal(test.events[i].tag, expected[i].tag);
    }
    vw_test_pool_close(&test);
}

static void a_block_that_waits_for_another_stream_is_neither_joined_nor_reused(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.manual_streams = true};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_dictate(&test, S0);
    vw_test_alloc(&test, 512);
    vw_test_alloc(&test, 512);
    vw_test_alloc(&test, 512);
    vw_test_ok(&test, vw_record_stream(test.pool, S0 + 512, 9));
    vw_test_free(&test, S0 + 512);
    vw_test_free(&test, S0);
    vw_test_free(&test, S0 + 1024);
    vw_test_expect_blocks(&test, VW_TEST_FREE(S0, 512), VW_TEST_PENDING(S0 + 512, 512),
                          VW_TEST_FREE(S0 + 1024, 2 * MIB - 1024));
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.allocation.all.current, 0);
    assert_int_equal(stats.active.all.current, 1);
    assert_int_equal(stats.active_bytes.all.current, 512);
    assert_int_equal(stats.requested_bytes.all.current, 512);

    vw_test_ok(&test, vw_device_complete(test.device, 9));
    vw_test_forget_events(&test);
    vw_test_alloc(&test, 1024); /* the wait is over at the next request, before its search */
    vw_test_expect_events(&test, {VW_ACTION_FREE_COMPLETED, S0 + 512, 512},
                          {VW_ACTION_ALLOC, S0, 1024});
    vw_test_expect_blocks(&test, VW_TEST_LIVE(S0, 1024), VW_TEST_FREE(S0 + 1024, 2 * MIB - 1024));
    vw_test_pool_close(&test);
}

/* 1.12 and 1.13 with a division count of 1 leave sizes unrounded: blocks then lie off the grid of
 * 512 bytes, several sizes to a bin, and best fit must still be a fit. */
static void sizes_off_the_grid_are_served_by_blocks_that_hold_them(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open_with(&t, "1.13", "roundup_power2_divisions:1");
    vw_device_ptr small = vw_test_alloc(&t, 600);
    vw_device_ptr between = vw_test_alloc(&t, 1000);
    vw_test_free(&t, small); /* free, and in the bin of a request for 1001 bytes, but too small */
    vw_device_ptr larger = vw_test_alloc(&t, 1001);
    assert_int_not_equal(larger, small);
    assert_true(larger >= between + 1000);
    assert_int_equal(vw_test_alloc(&t, 600), small);
    vw_test_pool_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1_five_sizes_take_three_segments_and_leave_three_remainders),
        cmocka_unit_test(v2_a_remainder_of_exactly_1_mib_is_not_split_off_and_512_more_is),
        cmocka_unit_test(v3_a_request_that_finds_no_room_gives_back_five_segments_and_is_served),
        cmocka_unit_test(v5_oversize_blocks_are_refused_to_small_requests_and_handed_out_whole),
        cmocka_unit_test(v6_sizes_are_rounded_to_quarters_of_a_power_of_two),
        cmocka_unit_test(the_smallest_block_that_fits_is_taken_wherever_it_lies),
        cmocka_unit_test(a_free_block_serves_its_own_stream_only),
        cmocka_unit_test(small_and_large_blocks_never_serve_each_other),
        cmocka_unit_test(equal_sizes_go_by_address_then_by_block_then_by_segment_as_releases_went),
        cmocka_unit_test(parts_of_a_segment_inherit_its_number),
        cmocka_unit_test(a_block_counts_as_oversize_from_max_split_size_on),
        cmocka_unit_test(an_oversize_block_may_be_less_than_the_slack_larger_than_the_request),
        cmocka_unit_test(the_slack_can_be_set_since_2_6),
        cmocka_unit_test(oversize_statistics_look_at_the_block_and_not_at_the_request),
        cmocka_unit_test(an_oversize_request_is_handed_the_whole_block),
        cmocka_unit_test(a_small_block_is_split_down_to_512_bytes),
        cmocka_unit_test(the_four_ways_of_a_hand_out_count_their_remainders),
        cmocka_unit_test(segments_have_2_mib_or_20_mib_or_the_size_rounded_up_to_2_mib),
        cmocka_unit_test(the_middle_size_can_be_set_since_2_11),
        cmocka_unit_test(a_refusal_by_the_device_emits_and_counts_nothing_by_itself),
        cmocka_unit_test(a_driver_error_other_than_a_shortage_ends_the_request),
        cmocka_unit_test(a_free_block_joins_what_is_free_on_either_side),
        cmocka_unit_test(a_merge_counts_its_net_change_as_one_step),
        cmocka_unit_test(a_merge_of_three_that_leaves_a_part_is_one_block_less),
        cmocka_unit_test(a_free_record_remembers_what_its_last_owner_asked_for),
        cmocka_unit_test(a_segments_tag_is_with_the_record_that_made_it),
        cmocka_unit_test(a_merge_with_the_next_block_keeps_the_survivors_segment_tag),
        cmocka_unit_test(events_carry_the_tag_of_the_request_or_of_what_is_given_back),
        cmocka_unit_test(a_block_that_waits_for_another_stream_is_neither_joined_nor_reused),
        cmocka_unit_test(sizes_off_the_grid_are_served_by_blocks_that_hold_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
