/* test_torch_reclaim.c - giving memory back, limits, garbage collection, and running out.
 *
 * The order in which things are given up is the rule most of these tests are about, so they compare
 * events, all of them, with those that one call may cause. */
#include "support/cmocka_here.h"
#include "support/pool_layout.h"

#include <string.h>

#define MIB VW_TEST_MIB
#define S0 UINT64_C(0x600000000000)
#define S1 UINT64_C(0x600100000000)
#define S2 UINT64_C(0x600200000000)
#define S3 UINT64_C(0x600300000000)
#define S4 UINT64_C(0x600400000000)
#define S5 UINT64_C(0x600500000000)

/* A segment of its own at `address`, still live. */
static void make_segment(vw_test_pool *test, vw_device_ptr address, uint64_t size_bytes,
                         vw_stream stream)
{
    vw_test_dictate(test, address);
    assert_int_equal(vw_test_alloc_on(test, size_bytes, stream), address);
}

/* And one that is free. */
static void cache_segment(vw_test_pool *test, vw_device_ptr address, uint64_t size_bytes)
{
    make_segment(test, address, size_bytes, 0);
    vw_test_free(test, address);
}

/* ---- empty_cache -------------------------------------------------------------------------------
 */

static void a_trim_goes_large_then_small_and_by_stream_size_address(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    make_segment(&test, S0, 1, 0);
    make_segment(&test, S1, 30 * MIB, 5);
    make_segment(&test, S2, 40 * MIB, 0);
    make_segment(&test, S5, 24 * MIB, 0);
    make_segment(&test, S4, 24 * MIB, 0);
    make_segment(&test, S3, 24 * MIB, 5);
    for (int i = 5; i >= 0; i--)
        vw_test_free(&test, S0 + (uint64_t)i * (S1 - S0));
    vw_test_forget_events(&test);
    vw_test_trim(&test);
    vw_test_expect_events(
        &test, {VW_ACTION_SEGMENT_FREE, S4, 24 * MIB}, {VW_ACTION_SEGMENT_FREE, S5, 24 * MIB},
        {VW_ACTION_SEGMENT_FREE, S2, 40 * MIB}, {VW_ACTION_SEGMENT_FREE, S3, 24 * MIB},
        {VW_ACTION_SEGMENT_FREE, S1, 30 * MIB}, {VW_ACTION_SEGMENT_FREE, S0, 2 * MIB});
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_device_free, 6);
    assert_int_equal(stats.num_sync_all_streams, 1);
    vw_test_expect_stat(stats.reserved_bytes.all, 0, 144 * MIB, 144 * MIB, 144 * MIB);
    vw_test_expect_stat(stats.segment.large_pool, 0, 5, 5, 5);
    vw_test_pool_close(&test);
}

static void a_segment_with_a_live_block_stays(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    make_segment(&test, S0, 5 * MIB, 0);
    vw_test_free(&test, vw_test_alloc(&test, 5 * MIB));
    vw_test_forget_events(&test);
    vw_test_trim(&test);
    vw_test_expect_no_events(&test);
    vw_test_expect_blocks(&test, VW_TEST_LIVE(S0, 5 * MIB), VW_TEST_FREE(S0 + 5 * MIB, 15 * MIB));
    vw_test_pool_close(&test);
}

static void a_trim_waits_for_blocks_that_other_streams_use(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.manual_streams = true};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    make_segment(&test, S0, 20 * MIB, 0);
    vw_test_ok(&test, vw_record_stream(test.pool, S0, 9));
    vw_test_free(&test, S0);
    vw_test_forget_events(&test);
    vw_test_trim(&test);
    vw_test_expect_events(&test, {VW_ACTION_FREE_COMPLETED, S0, 20 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S0, 20 * MIB});
    vw_test_pool_close(&test);
}

/* ---- the limit ---------------------------------------------------------------------------------
 */

static uint64_t limit_of(const char *version, uint64_t total_bytes, double fraction)
{
    const vw_test_pool_setup setup = {
        .total_bytes = total_bytes, .torch_version = version, .fraction = fraction};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    uint64_t limit_bytes = vw_test_stats(&test).limit_bytes;
    vw_test_pool_close(&test);
    return limit_bytes;
}

static void a_fraction_becomes_a_limit_by_truncation_and_since_2_13_by_rounding(void **state)
{
    (void)state;
    assert_int_equal(limit_of("2.9", 1001, 0.5), 500);
    assert_int_equal(limit_of("2.12", 1001, 0.5), 500);
    assert_int_equal(limit_of("2.13", 1001, 0.5), 501);
    assert_int_equal(limit_of("2.13", 1001, 0.25), 250); /* 250.25 */
    assert_int_equal(limit_of("2.13", 1002, 0.5), 501);
}

static void a_fraction_of_one_is_a_limit_through_2_9_and_none_since(void **state)
{
    (void)state;
    assert_int_equal(limit_of("2.9", 1001, 1.0), 1001);
    assert_true(limit_of("2.10", 1001, 1.0) == UINT64_MAX);
    assert_true(limit_of("2.13", 1001, 1.0) == UINT64_MAX);
    assert_true(limit_of("2.9", 1001, 0) == UINT64_MAX); /* never set */
}

static void what_is_reserved_may_come_up_to_the_limit_and_not_beyond(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.fraction = 64.0 / 1024};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_device_ptr address = vw_test_alloc(&test, 62 * MIB);
    vw_test_alloc(&test, 1); /* a segment of 2 MiB: 64 in all */
    uint64_t takes = vw_test_call_count(&test, VW_DEVICE_CALL_TAKE);
    vw_test_forget_events(&test);
    vw_test_alloc_fails(&test, 2 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_alloc_fails(&test, 1, 4, VW_ERR_OUT_OF_MEMORY); /* a segment of 2 MiB as well */
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_TAKE), takes);
    vw_test_expect_events(&test, {VW_ACTION_OOM, 960 * MIB, 2 * MIB},
                          {VW_ACTION_OOM, 960 * MIB, 512});
    assert_int_equal(vw_test_stats(&test).num_ooms, 2);
    assert_int_equal(vw_test_stats(&test).num_alloc_retries, 2);

    vw_test_free(&test, address);
    vw_test_alloc_fails(&test, 62 * MIB + 1, 0, VW_ERR_OUT_OF_MEMORY); /* 64 + 2 */
    vw_test_pool_close(&test);
}

static void the_limit_looks_at_the_segment_and_not_at_the_request(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.fraction = 19.0 / 1024};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_alloc_fails(&test, 2 * MIB, 0, VW_ERR_OUT_OF_MEMORY); /* a segment of 20 MiB */
    vw_test_alloc(&test, 10 * MIB);                               /* a segment of 10 */
    vw_test_pool_close(&test);
}

static void a_new_limit_gives_nothing_back_and_counts_private_pools(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    cache_segment(&test, S0, 40 * MIB);
    const vw_private_id id = {1, 0};
    vw_test_ok(&test, vw_private_pool_begin(test.pool, id, NULL, NULL));
    make_segment(&test, S1, 40 * MIB, 0);
    vw_test_ok(&test, vw_private_pool_end(test.pool, id));
    vw_test_forget_events(&test);
    vw_test_ok(&test, vw_pool_set_fraction(test.pool, 80.0 / 1024));
    vw_test_expect_no_events(&test);
    make_segment(&test, S2, 38 * MIB, 3); /* 40 of the default pool have to go for it */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S2, 38 * MIB}, {VW_ACTION_ALLOC, S2, 38 * MIB});
    vw_test_pool_close(&test);
}

/* ---- the retry ---------------------------------------------------------------------------------
 */

static void a_retry_waits_for_blocks_that_other_streams_use(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.capacity_bytes = 40 * MIB, .manual_streams = true};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    make_segment(&test, S0, 30 * MIB, 0);
    vw_test_ok(&test, vw_record_stream(test.pool, S0, 9));
    vw_test_free(&test, S0);
    vw_test_forget_events(&test);
    make_segment(&test, S1, 30 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_FREE_COMPLETED, S0, 30 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S0, 30 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S1, 30 * MIB}, {VW_ACTION_ALLOC, S1, 30 * MIB});
    assert_int_equal(vw_test_stats(&test).num_alloc_retries, 1);
    assert_int_equal(vw_test_stats(&test).num_sync_all_streams, 1);
    vw_test_pool_close(&test);
}

static void running_out_gives_everything_idle_up_first_and_then_says_so(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.capacity_bytes = 64 * MIB};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    cache_segment(&test, S0, 1);
    cache_segment(&test, S1, 20 * MIB);
    make_segment(&test, S2, 30 * MIB, 0);
    vw_test_forget_events(&test);
    vw_test_alloc_fails(&test, 40 * MIB - 1, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S1, 20 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S0, 2 * MIB},
                          {VW_ACTION_OOM, 34 * MIB, 40 * MIB});
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_ooms, 1);
    assert_int_equal(stats.num_alloc_retries, 1);
    assert_int_equal(stats.num_oom_rejections, 0);
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_TAKE), 5);

    vw_oom_report report = {.struct_size = sizeof report};
    vw_test_ok(&test, vw_last_out_of_memory(&report));
    assert_int_equal(report.requested_bytes, 40 * MIB - 1);
    assert_int_equal(report.rounded_bytes, 40 * MIB);
    assert_int_equal(report.segment_bytes, 40 * MIB);
    assert_int_equal(report.free_bytes, 34 * MIB);
    assert_int_equal(report.reserved_bytes, 30 * MIB);
    assert_false(report.is_rejection);
    vw_test_pool_close(&test);
}

/* ---- the program's own callback ----------------------------------------------------------------
 */

typedef struct giver {
    vw_test_pool test;
    vw_device_ptr gives; /* freed when asked; VW_NULL: nothing */
    bool answer;
    int calls;
} giver;

static bool give(void *context)
{
    giver *self = context;
    self->calls++;
    assert_int_equal(vw_free(self->test.pool, self->gives), VW_OK);
    return self->answer;
}

static void the_callback_is_asked_before_the_device_and_its_word_is_taken(void **state)
{
    (void)state;
    giver self = {.answer = true};
    const vw_test_pool_setup setup = {.reclaim = give, .reclaim_context = &self};
    vw_test_pool_open(&self.test, &setup);
    make_segment(&self.test, S0, 30 * MIB, 0);
    make_segment(&self.test, S1, 30 * MIB, 0);
    assert_int_equal(self.calls, 2);
    self.gives = S0;
    assert_int_equal(vw_test_alloc(&self.test, 30 * MIB), S0);
    assert_int_equal(vw_test_stats(&self.test).num_device_alloc, 2);

    self.gives = S1; /* freed, but said to be of no use: not looked for */
    self.answer = false;
    make_segment(&self.test, S2, 30 * MIB, 0);
    self.gives = VW_NULL;
    assert_int_equal(vw_test_alloc(&self.test, 30 * MIB), S1); /* a hit: nobody is asked */
    assert_int_equal(self.calls, 4);
    vw_test_pool_close(&self.test);
}

/* ---- giving up oversize blocks first -----------------------------------------------------------
 */

static const char *const max_split_100 = "max_split_size_mb:100";

static void one_oversize_block_that_is_enough_goes_alone(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.capacity_bytes = 600 * MIB, .conf = max_split_100};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    cache_segment(&test, S0, 300 * MIB);
    cache_segment(&test, S1, 180 * MIB);
    cache_segment(&test, S2, 110 * MIB);
    vw_test_forget_events(&test);
    make_segment(&test, S3, 150 * MIB, 0); /* 180 is the least that holds it, too large to serve */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S1, 180 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S3, 150 * MIB},
                          {VW_ACTION_ALLOC, S3, 150 * MIB});
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_alloc_retries, 0);
    assert_int_equal(stats.num_sync_all_streams, 0);
    vw_test_expect_stat(stats.oversize_segments, 3, 3, 4, 1);
    vw_test_pool_close(&test);
}

static void a_request_below_max_split_size_gives_up_the_least_oversize_block(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.capacity_bytes = 300 * MIB, .conf = max_split_100};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    cache_segment(&test, S0, 160 * MIB);
    cache_segment(&test, S1, 100 * MIB);
    cache_segment(&test, S2, 30 * MIB);
    vw_test_forget_events(&test);
    make_segment(&test, S3, 50 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S1, 100 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S3, 50 * MIB}, {VW_ACTION_ALLOC, S3, 50 * MIB});
    vw_test_pool_close(&test);
}

/* Oversize blocks of 140, 120 and 100 MiB on stream 0, one of 100 on another, and one of 90. */
static void open_with_several(vw_test_pool *test, uint64_t capacity_bytes)
{
    const vw_test_pool_setup setup = {.capacity_bytes = capacity_bytes, .conf = max_split_100};
    vw_test_pool_open(test, &setup);
    make_segment(test, S4, 100 * MIB, 8);
    vw_test_free(test, S4);
    cache_segment(test, S0, 120 * MIB);
    cache_segment(test, S1, 100 * MIB);
    cache_segment(test, S2, 140 * MIB);
    cache_segment(test, S3, 90 * MIB);
    vw_test_forget_events(test);
}

static void several_oversize_blocks_go_from_the_largest_until_they_are_enough(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_several(&test, 560 * MIB);
    make_segment(&test, S5, 260 * MIB, 0);
    vw_test_expect_events(
        &test, {VW_ACTION_SEGMENT_FREE, S2, 140 * MIB}, {VW_ACTION_SEGMENT_FREE, S0, 120 * MIB},
        {VW_ACTION_SEGMENT_ALLOC, S5, 260 * MIB}, {VW_ACTION_ALLOC, S5, 260 * MIB});
    assert_int_equal(vw_test_stats(&test).num_alloc_retries, 0);
    vw_test_pool_close(&test);

    open_with_several(&test, 560 * MIB);
    make_segment(&test, S5, 262 * MIB, 0);
    vw_test_expect_events(
        &test, {VW_ACTION_SEGMENT_FREE, S2, 140 * MIB}, {VW_ACTION_SEGMENT_FREE, S0, 120 * MIB},
        {VW_ACTION_SEGMENT_FREE, S1, 100 * MIB}, {VW_ACTION_SEGMENT_ALLOC, S5, 262 * MIB},
        {VW_ACTION_ALLOC, S5, 262 * MIB});
    vw_test_pool_close(&test);
}

/* All that is oversize on this stream is not enough: it is gone, and the full retry follows. */
static void if_they_are_not_enough_everything_else_follows(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_several(&test, 560 * MIB);
    make_segment(&test, S5, 400 * MIB, 0);
    vw_test_expect_events(
        &test, {VW_ACTION_SEGMENT_FREE, S2, 140 * MIB}, {VW_ACTION_SEGMENT_FREE, S0, 120 * MIB},
        {VW_ACTION_SEGMENT_FREE, S1, 100 * MIB}, {VW_ACTION_SEGMENT_FREE, S3, 90 * MIB},
        {VW_ACTION_SEGMENT_FREE, S4, 100 * MIB}, {VW_ACTION_SEGMENT_ALLOC, S5, 400 * MIB},
        {VW_ACTION_ALLOC, S5, 400 * MIB});
    assert_int_equal(vw_test_stats(&test).num_alloc_retries, 1);
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_TAKE), 5 + 2); /* none in between */
    vw_test_pool_close(&test);
}

/* A block that would do, but is not oversize, is not what is given up: here one that came free
 * after the search. */
static void what_is_given_up_is_never_smaller_than_max_split_size(void **state)
{
    (void)state;
    giver self = {.answer = false};
    const vw_test_pool_setup setup = {.capacity_bytes = 190 * MIB,
                                      .conf = max_split_100,
                                      .reclaim = give,
                                      .reclaim_context = &self};
    vw_test_pool_open(&self.test, &setup);
    cache_segment(&self.test, S0, 120 * MIB);
    make_segment(&self.test, S1, 60 * MIB, 0);
    vw_test_forget_events(&self.test);
    self.gives = S1;
    make_segment(&self.test, S2, 50 * MIB, 0);
    vw_test_expect_events(&self.test, {VW_ACTION_FREE_REQUESTED, S1, 60 * MIB},
                          {VW_ACTION_FREE_COMPLETED, S1, 60 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S0, 120 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S2, 50 * MIB}, {VW_ACTION_ALLOC, S2, 50 * MIB});
    vw_test_pool_close(&self.test);
}

/* ---- garbage collection ------------------------------------------------------------------------
 */

/* 256 MiB allowed. On stream 9 a segment of 20 MiB that is never whole: a request there moves the
 * clock of the large shelf by one, and hits. */
static void open_with_garbage(vw_test_pool *test, const char *conf)
{
    const vw_test_pool_setup setup = {.conf = conf, .fraction = 0.25};
    vw_test_pool_open(test, &setup);
    make_segment(test, S5, 2 * MIB, 9);
}

static void tick(vw_test_pool *test, int times)
{
    for (int i = 0; i < times; i++)
        vw_test_free(test, vw_test_alloc_on(test, 2 * MIB, 9));
}

/* Three segments of 40 MiB, 140 with that of stream 9, freed so that their ages at the next request
 * are as given, rising from the last: each at least 1, for the request's own search. */
static void cache_by_age(vw_test_pool *test, int age0, int age1, int age2)
{
    make_segment(test, S0, 40 * MIB, 0);
    make_segment(test, S1, 40 * MIB, 0);
    make_segment(test, S2, 40 * MIB, 0);
    vw_test_free(test, S0);
    tick(test, age0 - age1);
    vw_test_free(test, S1);
    tick(test, age1 - age2);
    vw_test_free(test, S2);
    tick(test, age2 - 1);
    vw_test_forget_events(test);
}

static void only_blocks_as_old_as_the_mean_are_collected(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.5"); /* 128 MiB */
    cache_by_age(&test, 5, 2, 1); /* a mean of 2.67; without the first it would be 1.5 */
    make_segment(&test, S3, 50 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S3, 50 * MIB}, {VW_ACTION_ALLOC, S3, 50 * MIB});
    assert_int_equal(vw_test_stats(&test).num_alloc_retries, 0);
    assert_int_equal(vw_test_stats(&test).num_device_free, 1);
    vw_test_pool_close(&test);
}

static void a_sweep_does_not_stop_when_enough_is_collected(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.5");
    cache_by_age(&test, 5, 5, 1); /* 12 MiB are too much, 80 go */
    make_segment(&test, S3, 50 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S1, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S3, 50 * MIB}, {VW_ACTION_ALLOC, S3, 50 * MIB});
    vw_test_pool_close(&test);
}

static void sweeps_follow_each_other_until_enough_is_collected(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.3125"); /* 80 MiB */
    cache_by_age(&test, 5, 2, 1); /* 60 MiB too much: one block, then of 2 and 1 one more */
    make_segment(&test, S3, 50 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S1, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S3, 50 * MIB}, {VW_ACTION_ALLOC, S3, 50 * MIB});
    vw_test_pool_close(&test);
}

static void blocks_of_one_age_are_all_as_old_as_the_mean(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.5");
    cache_by_age(&test, 3, 3, 3);
    make_segment(&test, S3, 50 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S1, 40 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S2, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S3, 50 * MIB}, {VW_ACTION_ALLOC, S3, 50 * MIB});
    vw_test_pool_close(&test);
}

static void nothing_is_collected_at_the_threshold_only_above_it(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.546875"); /* 140 MiB */
    cache_by_age(&test, 5, 2, 1);
    make_segment(&test, S3, 50 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_ALLOC, S3, 50 * MIB},
                          {VW_ACTION_ALLOC, S3, 50 * MIB});
    vw_test_pool_close(&test);
}

static void without_a_fraction_nothing_is_collected(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.total_bytes = 64 * MIB,
                                      .conf = "garbage_collection_threshold:0.5"};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    cache_segment(&test, S0, 60 * MIB);
    vw_test_forget_events(&test);
    make_segment(&test, S1, 62 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_ALLOC, S1, 62 * MIB},
                          {VW_ACTION_ALLOC, S1, 62 * MIB});
    vw_test_pool_close(&test);
}

/* A free small segment, a free private one, and a part of a segment: all older than what goes. */
static void only_whole_segments_of_the_default_large_shelf_are_collected(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.5");
    const vw_private_id id = {1, 0};
    vw_test_ok(&test, vw_private_pool_begin(test.pool, id, NULL, NULL));
    cache_segment(&test, S3, 60 * MIB);
    vw_test_ok(&test, vw_private_pool_end(test.pool, id));
    cache_segment(&test, S4, 1);
    tick(&test, 10); /* leaves 18 MiB of stream 9's segment free each time */
    cache_segment(&test, S0, 50 * MIB);
    vw_test_forget_events(&test);
    make_segment(&test, S1, 52 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 50 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S1, 52 * MIB}, {VW_ACTION_ALLOC, S1, 52 * MIB});
    vw_test_pool_close(&test);
}

static void every_stream_is_swept_in_the_order_of_the_free_set(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.5");
    make_segment(&test, S0, 40 * MIB, 11);
    make_segment(&test, S1, 40 * MIB, 0);
    make_segment(&test, S2, 30 * MIB, 11);
    vw_test_free(&test, S0);
    vw_test_free(&test, S1);
    vw_test_free(&test, S2);
    vw_test_forget_events(&test);
    make_segment(&test, S3, 50 * MIB, 3);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S1, 40 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S2, 30 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S3, 50 * MIB}, {VW_ACTION_ALLOC, S3, 50 * MIB});
    vw_test_pool_close(&test);
}

/* A search that fails ages the free blocks as one that succeeds. */
static void every_search_of_the_large_shelf_ages_its_blocks(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.5");
    make_segment(&test, S0, 40 * MIB, 0);
    make_segment(&test, S1, 40 * MIB, 0);
    vw_test_free(&test, S0);
    make_segment(&test, S3, 20 * MIB, 8); /* fails to find anything: 120 MiB held */
    vw_test_free(&test, S1);
    make_segment(&test, S4, 20 * MIB, 7); /* 120 held: not yet too much; now 140 */
    vw_test_forget_events(&test);
    make_segment(&test, S2, 50 * MIB, 0); /* ages 3 and 2 */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S2, 50 * MIB}, {VW_ACTION_ALLOC, S2, 50 * MIB});
    vw_test_pool_close(&test);
}

static void searches_of_the_small_shelf_age_nothing_on_the_large_one(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.5");
    cache_segment(&test, S4, 1);
    make_segment(&test, S0, 40 * MIB, 0);
    make_segment(&test, S1, 40 * MIB, 0);
    make_segment(&test, S2, 40 * MIB, 0);
    vw_test_free(&test, S0);
    for (int i = 0; i < 20; i++)
        vw_test_free(&test, vw_test_alloc(&test, 1));
    tick(&test, 1);
    vw_test_free(&test, S1);
    tick(&test, 1);
    vw_test_free(&test, S2);
    vw_test_forget_events(&test);
    make_segment(&test, S3, 50 * MIB, 0); /* ages 3, 2, 1; with those searches 23, 2, 1 */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S1, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S3, 50 * MIB}, {VW_ACTION_ALLOC, S3, 50 * MIB});
    vw_test_pool_close(&test);
}

static void a_block_that_was_handed_out_again_is_young_again(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_garbage(&test, "garbage_collection_threshold:0.5");
    cache_by_age(&test, 9, 5, 4);
    assert_int_equal(vw_test_alloc(&test, 40 * MIB), S0);
    vw_test_free(&test, S0); /* now 1, and the others 6 and 5 at the next request: a mean of 4 */
    vw_test_forget_events(&test);
    make_segment(&test, S3, 50 * MIB, 0);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S1, 40 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S2, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S3, 50 * MIB}, {VW_ACTION_ALLOC, S3, 50 * MIB});
    vw_test_pool_close(&test);
}

/* ---- rejections --------------------------------------------------------------------------------
 */

static void a_rejection_gives_nothing_up_and_is_no_out_of_memory(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {
        .torch_version = "2.12",
        .conf = "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.0625",
    };
    vw_test_pool test;
    vw_test_pool_open(&test, &setup); /* 64 MiB of 1 GiB */
    vw_test_ok(&test, vw_pool_set_fraction(test.pool, 1.0));
    cache_segment(&test, S0, 40 * MIB);
    make_segment(&test, S1, 22 * MIB, 2);
    vw_test_alloc_on(&test, 1, 2); /* 64 MiB exactly */
    vw_test_forget_events(&test);
    vw_test_alloc_fails(&test, 41 * MIB, 0, VW_ERR_REJECTED);
    assert_non_null(strstr(vw_last_error(), "Requested size: 41.00 MiB"));
    vw_test_expect_no_events(&test);
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_oom_rejections, 1);
    assert_int_equal(stats.num_ooms, 0);
    assert_int_equal(stats.num_alloc_retries, 0);
    assert_int_equal(stats.reserved_bytes.all.current, 64 * MIB);
    vw_oom_report report = {.struct_size = sizeof report};
    vw_test_ok(&test, vw_last_out_of_memory(&report));
    assert_true(report.is_rejection);
    assert_int_equal(vw_test_alloc(&test, 40 * MIB), S0); /* what is cached still serves */
    vw_test_pool_close(&test);
}

static void a_limit_in_force_comes_before_a_rejection(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {
        .torch_version = "2.12",
        .conf = "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.0625",
    };
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    cache_segment(&test, S0, 40 * MIB);
    vw_test_forget_events(&test);
    vw_test_alloc_fails(&test, 66 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_OOM, 1024 * MIB, 66 * MIB});
    assert_int_equal(vw_test_stats(&test).num_oom_rejections, 0);
    assert_int_equal(vw_test_stats(&test).num_ooms, 1);
    vw_test_pool_close(&test);
}

static void a_fraction_set_while_running_rejects_but_does_not_limit(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.torch_version = "2.12",
                                      .conf = "throw_on_cudamalloc_oom:True"};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_alloc(&test, 100 * MIB);
    vw_test_ok(&test, vw_pool_configure(test.pool, "per_process_memory_fraction:0.125"));
    assert_true(vw_test_stats(&test).limit_bytes == UINT64_MAX);
    vw_test_alloc(&test, 28 * MIB); /* 128 MiB in all */
    vw_test_alloc_fails(&test, 1, 0, VW_ERR_REJECTED);
    vw_test_pool_close(&test);
}

static void a_shortage_of_the_device_is_no_rejection(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.capacity_bytes = 100 * MIB,
                                      .total_bytes = 200 * MIB,
                                      .torch_version = "2.12",
                                      .conf = "throw_on_cudamalloc_oom:True"};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_alloc_fails(&test, 150 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_alloc_fails(&test, 202 * MIB, 0, VW_ERR_REJECTED);
    assert_int_equal(vw_test_stats(&test).num_ooms, 1);
    vw_test_pool_close(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trim_goes_large_then_small_and_by_stream_size_address),
        cmocka_unit_test(a_segment_with_a_live_block_stays),
        cmocka_unit_test(a_trim_waits_for_blocks_that_other_streams_use),
        cmocka_unit_test(a_fraction_becomes_a_limit_by_truncation_and_since_2_13_by_rounding),
        cmocka_unit_test(a_fraction_of_one_is_a_limit_through_2_9_and_none_since),
        cmocka_unit_test(what_is_reserved_may_come_up_to_the_limit_and_not_beyond),
        cmocka_unit_test(the_limit_looks_at_the_segment_and_not_at_the_request),
        cmocka_unit_test(a_new_limit_gives_nothing_back_and_counts_private_pools),
        cmocka_unit_test(a_retry_waits_for_blocks_that_other_streams_use),
        cmocka_unit_test(running_out_gives_everything_idle_up_first_and_then_says_so),
        cmocka_unit_test(the_callback_is_asked_before_the_device_and_its_word_is_taken),
        cmocka_unit_test(one_oversize_block_that_is_enough_goes_alone),
        cmocka_unit_test(a_request_below_max_split_size_gives_up_the_least_oversize_block),
        cmocka_unit_test(several_oversize_blocks_go_from_the_largest_until_they_are_enough),
        cmocka_unit_test(if_they_are_not_enough_everything_else_follows),
        cmocka_unit_test(what_is_given_up_is_never_smaller_than_max_split_size),
        cmocka_unit_test(only_blocks_as_old_as_the_mean_are_collected),
        cmocka_unit_test(a_sweep_does_not_stop_when_enough_is_collected),
        cmocka_unit_test(sweeps_follow_each_other_until_enough_is_collected),
        cmocka_unit_test(blocks_of_one_age_are_all_as_old_as_the_mean),
        cmocka_unit_test(nothing_is_collected_at_the_threshold_only_above_it),
        cmocka_unit_test(without_a_fraction_nothing_is_collected),
        cmocka_unit_test(only_whole_segments_of_the_default_large_shelf_are_collected),
        cmocka_unit_test(every_stream_is_swept_in_the_order_of_the_free_set),
        cmocka_unit_test(every_search_of_the_large_shelf_ages_its_blocks),
        cmocka_unit_test(searches_of_the_small_shelf_age_nothing_on_the_large_one),
        cmocka_unit_test(a_block_that_was_handed_out_again_is_young_again),
        cmocka_unit_test(a_rejection_gives_nothing_up_and_is_no_out_of_memory),
        cmocka_unit_test(a_limit_in_force_comes_before_a_rejection),
        cmocka_unit_test(a_fraction_set_while_running_rejects_but_does_not_limit),
        cmocka_unit_test(a_shortage_of_the_device_is_no_rejection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
