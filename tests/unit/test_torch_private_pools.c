/* test_torch_private_pools.c - private pools, scopes, routing, captures; and what each release
 * made of them. */
#include "support/cmocka_here.h"
#include "support/pool_layout.h"

#include <string.h>

#define MIB VW_TEST_MIB
#define S0 UINT64_C(0x600000000000)
#define S1 UINT64_C(0x600100000000)
#define S2 UINT64_C(0x600200000000)
#define S3 UINT64_C(0x600300000000)
#define S4 UINT64_C(0x600400000000)

static const vw_private_id none = {0, 0}, graph = {1, 0}, other_graph = {2, 0}, mem_pool = {0, 1};

static bool same_id(vw_private_id a, vw_private_id b)
{
    return a.first == b.first && a.second == b.second;
}

#define assert_private(expected, found) assert_true(same_id(expected, found))

static void make_segment(vw_test_pool *test, vw_device_ptr address, uint64_t size_bytes)
{
    vw_test_dictate(test, address);
    assert_int_equal(vw_test_alloc(test, size_bytes), address);
}

/* A free segment that belongs to a private pool, or to none. */
static void cache_segment_in(vw_test_pool *test, vw_private_id id, vw_device_ptr address,
                             uint64_t size_bytes)
{
    bool is_private = !same_id(id, none);
    if (is_private)
        vw_test_ok(test, vw_private_pool_begin(test->pool, id, NULL, NULL));
    make_segment(test, address, size_bytes);
    if (is_private) {
        vw_test_ok(test, vw_private_pool_end(test->pool, id));
        vw_test_ok(test, vw_private_pool_release(test->pool, id));
    }
    vw_test_free(test, address);
    assert_private(id, vw_test_segment_at(test, address).private_id);
    vw_test_forget_events(test);
}

static bool is_stream(void *context, vw_stream stream)
{
    return stream == *(const vw_stream *)context;
}

static vw_stream nobody = 999;

/* ---- routing -----------------------------------------------------------------------------------
 */

static void a_private_pool_and_the_default_pool_share_no_memory(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    cache_segment_in(&test, none, S0, 20 * MIB);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    make_segment(&test, S1, 20 * MIB);
    assert_private(graph, test.events[0].private_id); /* segment_alloc */
    assert_private(graph, test.events[1].private_id); /* alloc */
    vw_test_ok(&test, vw_private_pool_end(test.pool, graph));
    vw_test_free(&test, S1);
    assert_private(graph, test.events[3].private_id); /* free_completed */
    assert_int_equal(vw_test_alloc(&test, 20 * MIB), S0);
    make_segment(&test, S2, 20 * MIB);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    assert_int_equal(vw_test_alloc(&test, 20 * MIB), S1);
    assert_private(graph, vw_test_segment_at(&test, S1).private_id);
    assert_private(none, vw_test_segment_at(&test, S2).private_id);
    vw_test_pool_close(&test);
}

static void a_filter_takes_the_requests_it_accepts_and_leaves_the_others(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_stream captured = 7;
    vw_test_pool_open(&test, NULL);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, is_stream, &captured));
    vw_test_ok(&test, vw_private_pool_begin(test.pool, mem_pool, is_stream, &nobody));
    vw_device_ptr inside = vw_test_alloc_on(&test, 20 * MIB, 7);
    vw_device_ptr outside = vw_test_alloc_on(&test, 20 * MIB, 8);
    assert_private(graph, vw_test_segment_at(&test, inside).private_id);
    assert_private(none, vw_test_segment_at(&test, outside).private_id);
    vw_test_pool_close(&test);
}

static vw_private_id winner_of_two_scopes(const char *version)
{
    vw_test_pool test;
    vw_test_pool_open_with(&test, version, NULL);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    vw_test_ok(&test, vw_private_pool_begin(test.pool, mem_pool, NULL, NULL));
    vw_test_ok(&test, vw_private_pool_begin(test.pool, other_graph, is_stream, &nobody));
    vw_private_id winner = vw_test_segment_at(&test, vw_test_alloc(&test, 1)).private_id;
    vw_test_pool_close(&test);
    return winner;
}

static void the_oldest_scope_wins_through_2_9_and_the_newest_since_2_10(void **state)
{
    (void)state;
    assert_private(graph, winner_of_two_scopes("2.9"));
    assert_private(mem_pool, winner_of_two_scopes("2.10"));
    assert_private(mem_pool, winner_of_two_scopes("2.13"));
}

static void ending_the_newer_scope_leaves_the_older_one_open(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    vw_test_ok(&test, vw_private_pool_begin(test.pool, mem_pool, NULL, NULL));
    vw_test_ok(&test, vw_private_pool_end(test.pool, mem_pool));
    vw_device_ptr address = vw_test_alloc(&test, 1);
    assert_private(graph, vw_test_segment_at(&test, address).private_id);
    vw_test_pool_close(&test);
}

/* ---- lifetimes ---------------------------------------------------------------------------------
 */

static void uses_are_counted_by_retain_and_begin_and_release(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    assert_int_equal(vw_private_pool_use_count(test.pool, graph), 0);
    vw_test_ok(&test, vw_private_pool_retain(test.pool, graph, NULL));
    assert_int_equal(vw_private_pool_use_count(test.pool, graph), 1);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    assert_int_equal(vw_private_pool_use_count(test.pool, graph), 2);
    vw_test_ok(&test, vw_private_pool_end(test.pool, graph)); /* the scope, not the use */
    assert_int_equal(vw_private_pool_use_count(test.pool, graph), 2);
    vw_test_ok(&test, vw_private_pool_release(test.pool, graph));
    vw_test_ok(&test, vw_private_pool_release(test.pool, graph));
    assert_int_equal(vw_private_pool_use_count(test.pool, graph), 0);
    vw_test_refused(&test, vw_private_pool_release(test.pool, graph), VW_ERR_WRONG_STATE);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, mem_pool, NULL, NULL)); /* makes it */
    assert_int_equal(vw_private_pool_use_count(test.pool, mem_pool), 1);
    vw_test_pool_close(&test);
}

static void mistakes_are_refused_in_pytorchs_words_and_change_nothing(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    vw_test_refused(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL), VW_ERR_WRONG_STATE);
    assert_string_equal(vw_last_error(), "beginAllocateToPool: already recording to mempool_id");
    assert_int_equal(vw_private_pool_use_count(test.pool, graph), 1);
    vw_test_refused(&test, vw_private_pool_end(test.pool, mem_pool), VW_ERR_WRONG_STATE);
    assert_string_equal(vw_last_error(), "endAllocatePool: not currently recording to mempool_id");
    vw_test_refused(&test, vw_private_pool_retain(test.pool, none, NULL), VW_ERR_INVALID_ARGUMENT);
    vw_test_refused(&test, vw_private_pool_begin(test.pool, none, NULL, NULL),
                    VW_ERR_INVALID_ARGUMENT);
    vw_test_refused(&test, vw_private_pool_release(test.pool, graph), VW_ERR_WRONG_STATE);
    vw_test_ok(&test, vw_private_pool_end(test.pool, graph));
    vw_test_refused(&test, vw_private_pool_end(test.pool, graph), VW_ERR_WRONG_STATE);
    vw_test_refused(&test, vw_private_pool_set_no_split(test.pool, mem_pool, true),
                    VW_ERR_WRONG_STATE);
    vw_test_pool_close(&test);
}

static void a_pool_in_use_keeps_its_idle_memory_even_from_a_retry(void **state)
{
    (void)state;
    const vw_test_pool_setup setup = {.capacity_bytes = 50 * MIB};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    vw_test_ok(&test, vw_private_pool_retain(test.pool, graph, NULL));
    cache_segment_in(&test, graph, S0, 40 * MIB); /* one use is left */
    vw_test_trim(&test);
    vw_test_ok(&test, vw_private_pool_trim(test.pool, graph));
    vw_test_alloc_fails(&test, 20 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_expect_events(&test, {VW_ACTION_OOM, 10 * MIB, 20 * MIB});
    vw_test_ok(&test, vw_private_pool_release(test.pool, graph));
    make_segment(&test, S1, 20 * MIB); /* nobody uses it now */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 40 * MIB},
                          {VW_ACTION_SEGMENT_ALLOC, S1, 20 * MIB}, {VW_ACTION_ALLOC, S1, 20 * MIB});
    vw_test_pool_close(&test);
}

/* Default large and small, then each private pool small and large. */
static void released_pools_come_after_the_default_pool_and_small_before_large(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_ok(&test, vw_private_pool_retain(test.pool, graph, NULL));
    cache_segment_in(&test, graph, S0, 20 * MIB);
    cache_segment_in(&test, graph, S1, 1);
    cache_segment_in(&test, none, S2, 1);
    cache_segment_in(&test, none, S3, 20 * MIB);
    vw_test_ok(&test, vw_private_pool_release(test.pool, graph));
    vw_test_trim(&test);
    vw_test_expect_events(
        &test, {VW_ACTION_SEGMENT_FREE, S3, 20 * MIB}, {VW_ACTION_SEGMENT_FREE, S2, 2 * MIB},
        {VW_ACTION_SEGMENT_FREE, S1, 2 * MIB}, {VW_ACTION_SEGMENT_FREE, S0, 20 * MIB});
    vw_test_pool_close(&test);
}

static void a_released_pool_ends_with_its_last_segment(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    make_segment(&test, S0, 20 * MIB);
    make_segment(&test, S1, 30 * MIB);
    vw_test_ok(&test, vw_private_pool_end(test.pool, graph));
    vw_test_ok(&test, vw_private_pool_release(test.pool, graph));
    vw_test_free(&test, S0);
    vw_test_trim(&test); /* S1 is live: the pool goes on */
    vw_test_expect_blocks(&test, VW_TEST_LIVE(S1, 30 * MIB));
    vw_test_refused(&test, vw_private_pool_retain(test.pool, graph, NULL), VW_ERR_WRONG_STATE);
    vw_test_free(&test, S1);
    vw_test_trim(&test);
    vw_test_expect_no_blocks(&test);
    vw_test_ok(&test, vw_private_pool_retain(test.pool, graph, NULL)); /* a new one, by that id */
    assert_int_equal(vw_private_pool_use_count(test.pool, graph), 1);
    vw_test_pool_close(&test);
}

static void one_released_pool_can_be_trimmed_alone(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    cache_segment_in(&test, none, S0, 20 * MIB);
    cache_segment_in(&test, graph, S1, 20 * MIB);
    cache_segment_in(&test, mem_pool, S2, 20 * MIB);
    vw_test_ok(&test, vw_private_pool_trim(test.pool, mem_pool));
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S2, 20 * MIB});
    assert_int_equal(vw_test_stats(&test).num_sync_all_streams, 1);
    vw_test_ok(&test, vw_private_pool_trim(test.pool, mem_pool)); /* it is gone: nothing */
    assert_int_equal(vw_test_stats(&test).num_sync_all_streams, 1);
    vw_test_ok(&test, vw_private_pool_trim(test.pool, none)); /* the whole: vw_pool_trim() */
    vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 20 * MIB},
                          {VW_ACTION_SEGMENT_FREE, S1, 20 * MIB});
    vw_test_pool_close(&test);
}

static void private_pools_count_in_the_same_statistics(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    vw_test_alloc(&test, 5 * MIB);
    vw_pool_stats stats = vw_test_stats(&test);
    vw_test_expect_stat(stats.segment.large_pool, 1, 1, 1, 0);
    vw_test_expect_stat(stats.reserved_bytes.large_pool, 20 * MIB, 20 * MIB, 20 * MIB, 0);
    vw_test_expect_stat(stats.inactive_split_bytes.all, 15 * MIB, 15 * MIB, 15 * MIB, 0);
    vw_test_pool_close(&test);
}

/* ---- pools that help out -----------------------------------------------------------------------
 */

/* 40 MiB idle in `mem_pool`, which may help out, 20 MiB idle in the default pool; 70 in all. */
static void open_with_helper(vw_test_pool *test, const char *version, const char *conf)
{
    const vw_test_pool_setup setup = {
        .capacity_bytes = 70 * MIB, .torch_version = version, .conf = conf};
    const vw_private_options helps = {.struct_size = sizeof helps, .use_on_oom = true};
    vw_test_pool_open(test, &setup);
    vw_test_ok(test, vw_private_pool_retain(test->pool, mem_pool, &helps));
    cache_segment_in(test, mem_pool, S0, 40 * MIB);
    cache_segment_in(test, none, S1, 20 * MIB);
}

static void since_2_11_a_helper_is_asked_before_anything_is_given_up(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_helper(&test, "2.11", NULL);
    assert_int_equal(vw_test_alloc(&test, 32 * MIB), S0);
    vw_test_expect_events(&test, {VW_ACTION_ALLOC, S0, 32 * MIB});
    vw_pool_stats stats = vw_test_stats(&test);
    assert_int_equal(stats.num_alloc_retries, 0);
    assert_int_equal(stats.num_ooms, 0);
    vw_test_expect_blocks(&test, VW_TEST_LIVE(S0, 32 * MIB), VW_TEST_FREE(S0 + 32 * MIB, 8 * MIB),
                          VW_TEST_FREE(S1, 20 * MIB));
    assert_private(mem_pool, vw_test_segment_at(&test, S0).private_id); /* it stays the helper's */
    vw_test_free(&test, S0);
    assert_private(mem_pool, test.events[0].private_id);
    assert_int_equal(vw_test_alloc(&test, 8 * MIB), S1); /* not for those who need no help */
    vw_test_pool_close(&test);
}

static void from_2_8_to_2_10_a_helper_is_asked_last(void **state)
{
    (void)state;
    static const char *const versions[] = {"2.8", "2.9", "2.10"};
    for (int i = 0; i < 3; i++) {
        vw_test_pool test;
        open_with_helper(&test, versions[i], NULL);
        assert_int_equal(vw_test_alloc(&test, 32 * MIB), S0);
        vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S1, 20 * MIB},
                              {VW_ACTION_ALLOC, S0, 32 * MIB});
        assert_int_equal(vw_test_stats(&test).num_alloc_retries, 1);
        assert_int_equal(vw_test_stats(&test).num_ooms, 0);
        vw_test_pool_close(&test);
    }
}

static void through_2_7_nobody_helps(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_helper(&test, "2.7", NULL);
    vw_test_alloc_fails(&test, 32 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_pool_close(&test);
}

static void a_helper_helps_its_own_stream_and_only_while_it_is_willing(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_helper(&test, NULL, NULL);
    vw_test_alloc_fails(&test, 32 * MIB, 5, VW_ERR_OUT_OF_MEMORY);
    vw_test_ok(&test, vw_private_pool_set_use_on_oom(test.pool, mem_pool, false));
    vw_test_alloc_fails(&test, 32 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_ok(&test, vw_private_pool_set_use_on_oom(test.pool, mem_pool, true));
    assert_int_equal(vw_test_alloc(&test, 32 * MIB), S0);
    vw_test_pool_close(&test);
}

static void private_pools_are_not_helped(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_helper(&test, NULL, NULL);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    vw_test_alloc_fails(&test, 32 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_private(graph, test.events[0].private_id); /* of the request that ran out */
    vw_test_expect_events(&test, {VW_ACTION_OOM, 10 * MIB, 32 * MIB});
    vw_test_pool_close(&test);
}

/* With expandable segments on a helper's plain block is found, and split as if they were off; its
 * expandable blocks are not found at all. */
static void help_is_searched_as_if_expandable_segments_were_off(void **state)
{
    (void)state;
    vw_test_pool test;
    open_with_helper(&test, NULL, NULL);
    vw_test_ok(&test, vw_pool_configure(test.pool, "expandable_segments:True"));
    assert_int_equal(vw_test_served_bytes(&test, 39 * MIB), 40 * MIB);
    vw_test_pool_close(&test);

    const vw_test_pool_setup setup = {.capacity_bytes = 70 * MIB,
                                      .conf = "expandable_segments:True"};
    const vw_private_options helps = {.struct_size = sizeof helps, .use_on_oom = true};
    vw_test_pool_open(&test, &setup);
    vw_test_ok(&test, vw_private_pool_retain(test.pool, mem_pool, &helps));
    cache_segment_in(&test, mem_pool, S0, 40 * MIB);
    vw_test_alloc_fails(&test, 39 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_pool_close(&test);
}

/* ---- pools that are not split ------------------------------------------------------------------
 */

static void a_no_split_pool_hands_its_blocks_out_whole(void **state)
{
    (void)state;
    const vw_private_options whole = {.struct_size = sizeof whole, .no_split = true};
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    vw_test_ok(&test, vw_private_pool_retain(test.pool, mem_pool, &whole));
    vw_test_ok(&test, vw_private_pool_begin(test.pool, mem_pool, NULL, NULL));
    assert_int_equal(vw_test_served_bytes(&test, 1), 2 * MIB);
    assert_int_equal(vw_test_served_bytes(&test, 2 * MIB), 20 * MIB);
    assert_int_equal(vw_test_served_bytes(&test, 11 * MIB), 12 * MIB);
    vw_test_expect_stat(vw_test_stats(&test).inactive_split.all, 0, 0, 0, 0);
    vw_test_ok(&test, vw_private_pool_set_no_split(test.pool, mem_pool, false));
    assert_int_equal(vw_test_served_bytes(&test, 1), 512);
    vw_test_pool_close(&test);
}

/* ---- memory from elsewhere ---------------------------------------------------------------------
 */

typedef struct source {
    vw_device_ptr next; /* what take() returns */
    int taken;
    int given_back;
    uint64_t last_bytes;
    vw_stream last_stream;
} source;

static vw_device_ptr take(void *context, uint64_t size_bytes, int device, vw_stream stream)
{
    source *self = context;
    assert_int_equal(device, 0);
    self->taken++;
    self->last_bytes = size_bytes;
    self->last_stream = stream;
    return self->next;
}

static void give_back(void *context, vw_device_ptr address, uint64_t size_bytes, int device,
                      vw_stream stream)
{
    source *self = context;
    assert_int_equal(device, 0);
    assert_int_equal(address, self->next);
    self->given_back++;
    self->last_bytes = size_bytes;
    self->last_stream = stream;
}

static void retain_with_source(vw_test_pool *test, source *self)
{
    const vw_private_options options = {.struct_size = sizeof options,
                                        .take = take,
                                        .give_back = give_back,
                                        .source_context = self};
    vw_test_ok(test, vw_private_pool_retain(test->pool, mem_pool, &options));
    vw_test_ok(test, vw_private_pool_begin(test->pool, mem_pool, NULL, NULL));
}

static void a_source_sees_segments_and_gets_them_back(void **state)
{
    (void)state;
    source self = {.next = S0};
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    retain_with_source(&test, &self);
    assert_int_equal(vw_test_alloc_on(&test, 5 * MIB, 6), S0);
    assert_int_equal(vw_test_alloc_on(&test, 5 * MIB, 6), S0 + 5 * MIB);
    assert_int_equal(self.taken, 1);
    assert_int_equal(self.last_bytes, 20 * MIB);
    assert_int_equal(self.last_stream, 6);
    assert_int_equal(vw_test_calls(&test).in_use_bytes, 0);
    vw_test_expect_stat(vw_test_stats(&test).segment.all, 1, 1, 1, 0);
    assert_int_equal(vw_test_stats(&test).num_device_alloc, 1);

    vw_test_ok(&test, vw_private_pool_end(test.pool, mem_pool));
    vw_test_ok(&test, vw_private_pool_release(test.pool, mem_pool));
    vw_test_ok(&test, vw_private_pool_release(test.pool, mem_pool));
    vw_test_free(&test, S0);
    vw_test_free(&test, S0 + 5 * MIB);
    self.last_bytes = self.last_stream = 0;
    vw_test_trim(&test);
    assert_int_equal(self.given_back, 1);
    assert_int_equal(self.last_bytes, 20 * MIB);
    assert_int_equal(self.last_stream, 6);
    vw_test_pool_close(&test);
}

/* What it was registered with has to let go first. */
static void hear_before_the_source(void *context, const vw_memory_event *event)
{
    const source *self = context;
    if (event->action == VW_ACTION_SEGMENT_FREE)
        assert_int_equal(self->given_back, 0);
}

static void listeners_hear_of_the_end_before_the_source(void **state)
{
    (void)state;
    source self = {.next = S0};
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    retain_with_source(&test, &self);
    vw_test_free(&test, vw_test_alloc(&test, 5 * MIB));
    vw_test_ok(&test, vw_private_pool_end(test.pool, mem_pool));
    vw_test_ok(&test, vw_private_pool_release(test.pool, mem_pool));
    vw_test_ok(&test, vw_private_pool_release(test.pool, mem_pool));
    const vw_event_sink sink = {&self, hear_before_the_source};
    vw_test_ok(&test, vw_pool_set_sink(test.pool, &sink));
    vw_test_trim(&test);
    assert_int_equal(self.given_back, 1);
    vw_test_pool_close(&test);
}

static void a_source_that_returns_nothing_is_out_of_memory(void **state)
{
    (void)state;
    source self = {.next = VW_NULL};
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    cache_segment_in(&test, none, S1, 20 * MIB);
    retain_with_source(&test, &self);
    vw_test_ok(&test, vw_private_pool_end(test.pool, mem_pool));
    vw_test_ok(&test, vw_private_pool_begin(test.pool, mem_pool, NULL, NULL));
    vw_test_alloc_fails(&test, 5 * MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_test_stats(&test).num_ooms, 1);
    assert_int_equal(self.taken, 1); /* a scope is open: no retry in this release */
    vw_test_pool_close(&test);
}

static void live_blocks_go_back_to_their_source_when_the_pool_ends(void **state)
{
    (void)state;
    source self = {.next = S0};
    vw_test_pool test;
    vw_test_pool_open(&test, NULL);
    retain_with_source(&test, &self);
    vw_test_alloc(&test, 5 * MIB);
    vw_test_pool_close(&test);
    assert_int_equal(self.given_back, 1);
}

static int takes_with_expandable(const char *version)
{
    source self = {.next = S0};
    vw_test_pool test;
    vw_test_pool_open_with(&test, version, "expandable_segments:True");
    retain_with_source(&test, &self);
    vw_device_ptr address = vw_test_alloc(&test, 5 * MIB);
    assert_int_equal(vw_test_segment_at(&test, address).is_expandable, self.taken == 0);
    vw_test_pool_close(&test);
    return self.taken;
}

static void a_pool_with_a_source_ignores_expandable_segments_since_2_10(void **state)
{
    (void)state;
    assert_int_equal(takes_with_expandable("2.9"), 0);
    assert_int_equal(takes_with_expandable("2.10"), 1);
}

static void a_pool_without_a_source_has_expandable_segments_of_its_own(void **state)
{
    (void)state;
    vw_test_pool test;
    vw_test_pool_open_with(&test, NULL, "expandable_segments:True");
    vw_test_alloc(&test, 5 * MIB);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, NULL, NULL));
    vw_device_ptr address = vw_test_alloc(&test, 5 * MIB);
    assert_true(vw_test_segment_at(&test, address).is_expandable);
    assert_private(graph, vw_test_segment_at(&test, address).private_id);
    assert_int_equal(vw_test_call_count(&test, VW_DEVICE_CALL_RESERVE), 2);
    vw_test_ok(&test, vw_private_pool_end(test.pool, graph));
    vw_test_ok(&test, vw_private_pool_release(test.pool, graph));
    vw_test_free(&test, address);
    vw_test_trim(&test);
    vw_test_ok(&test, vw_private_pool_retain(test.pool, graph, NULL)); /* it had ended */
    vw_test_pool_close(&test);
}

/* ---- captures ----------------------------------------------------------------------------------
 */

typedef enum outcome { KEPT, GIVEN_UP } outcome;

/* What a request of the default pool that finds no room does to idle memory, with a scope open
 * that is not its own; `is_capturing`: the device says that its stream is being captured. */
static outcome retry_in_a_scope(const char *version, bool is_capturing)
{
    const vw_test_pool_setup setup = {.capacity_bytes = 50 * MIB, .torch_version = version};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    cache_segment_in(&test, none, S0, 30 * MIB);
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, is_stream, &nobody));
    vw_test_ok(&test, vw_device_set_capturing(test.device, 0, is_capturing));
    vw_device_ptr address = VW_NULL;
    vw_status status = vw_alloc(test.pool, 40 * MIB, 0, &address);
    outcome found = vw_test_stats(&test).num_alloc_retries == 0 ? KEPT : GIVEN_UP;
    vw_test_refused(&test, status, found == KEPT ? VW_ERR_OUT_OF_MEMORY : VW_OK);
    vw_test_pool_close(&test);
    return found;
}

static void no_retry_with_a_scope_open_through_2_12_and_while_capturing_since(void **state)
{
    (void)state;
    assert_int_equal(retry_in_a_scope("2.8", false), KEPT);
    assert_int_equal(retry_in_a_scope("2.12", false), KEPT);
    assert_int_equal(retry_in_a_scope("2.13", false), GIVEN_UP);
    assert_int_equal(retry_in_a_scope("2.13", true), KEPT);
}

/* The same of a trim, the capture being on a stream that allocated in the scope. */
static outcome trim_in_a_scope(const char *version, bool is_capturing)
{
    vw_stream captured = 7;
    vw_test_pool test;
    vw_test_pool_open_with(&test, version, NULL);
    cache_segment_in(&test, none, S0, 20 * MIB);
    cache_segment_in(&test, mem_pool, S1, 20 * MIB); /* released: goes in any case */
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, is_stream, &captured));
    vw_test_ok(&test, vw_device_set_capturing(test.device, 7, is_capturing));
    vw_test_alloc_on(&test, 5 * MIB, 7);
    vw_test_forget_events(&test);
    vw_test_trim(&test);
    outcome found = test.event_count == 1 ? KEPT : GIVEN_UP;
    if (found == KEPT)
        vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S1, 20 * MIB});
    else
        vw_test_expect_events(&test, {VW_ACTION_SEGMENT_FREE, S0, 20 * MIB},
                              {VW_ACTION_SEGMENT_FREE, S1, 20 * MIB});
    assert_int_equal(vw_test_stats(&test).num_sync_all_streams, found == GIVEN_UP);
    vw_test_pool_close(&test);
    return found;
}

static void a_trim_keeps_the_default_pool_in_scopes_from_2_8_and_in_captures_from_2_13(void **state)
{
    (void)state;
    assert_int_equal(trim_in_a_scope("2.7", false), GIVEN_UP);
    assert_int_equal(trim_in_a_scope("2.7", true), GIVEN_UP);
    assert_int_equal(trim_in_a_scope("2.8", false), KEPT);
    assert_int_equal(trim_in_a_scope("2.12", false), KEPT);
    assert_int_equal(trim_in_a_scope("2.13", false), GIVEN_UP);
    assert_int_equal(trim_in_a_scope("2.13", true), KEPT);
}

/* Does a request look at the events of freed blocks? The block at S0 was used by stream 9, which
 * is done with it. */
static bool looks_at_events(const char *version, bool is_capturing)
{
    const vw_test_pool_setup setup = {.torch_version = version, .manual_streams = true};
    vw_test_pool test;
    vw_test_pool_open(&test, &setup);
    make_segment(&test, S0, 20 * MIB);
    vw_test_ok(&test, vw_record_stream(test.pool, S0, 9));
    vw_test_free(&test, S0);
    vw_test_ok(&test, vw_device_complete(test.device, 9));
    vw_test_ok(&test, vw_private_pool_begin(test.pool, graph, is_stream, &nobody));
    vw_test_ok(&test, vw_device_set_capturing(test.device, 0, is_capturing));
    bool is_reused = vw_test_alloc(&test, 20 * MIB) == S0;
    vw_test_ok(&test, vw_private_pool_end(test.pool, graph));
    vw_test_ok(&test, vw_device_set_capturing(test.device, 0, false));
    if (!is_reused)
        assert_int_equal(vw_test_alloc(&test, 20 * MIB), S0); /* now it does */
    vw_test_pool_close(&test);
    return is_reused;
}

static void no_event_is_looked_at_in_scopes_through_2_12_and_in_captures_since(void **state)
{
    (void)state;
    assert_false(looks_at_events("2.8", false));
    assert_false(looks_at_events("2.12", false));
    assert_true(looks_at_events("2.13", false));
    assert_false(looks_at_events("2.13", true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_private_pool_and_the_default_pool_share_no_memory),
        cmocka_unit_test(a_filter_takes_the_requests_it_accepts_and_leaves_the_others),
        cmocka_unit_test(the_oldest_scope_wins_through_2_9_and_the_newest_since_2_10),
        cmocka_unit_test(ending_the_newer_scope_leaves_the_older_one_open),
        cmocka_unit_test(uses_are_counted_by_retain_and_begin_and_release),
        cmocka_unit_test(mistakes_are_refused_in_pytorchs_words_and_change_nothing),
        cmocka_unit_test(a_pool_in_use_keeps_its_idle_memory_even_from_a_retry),
        cmocka_unit_test(released_pools_come_after_the_default_pool_and_small_before_large),
        cmocka_unit_test(a_released_pool_ends_with_its_last_segment),
        cmocka_unit_test(one_released_pool_can_be_trimmed_alone),
        cmocka_unit_test(private_pools_count_in_the_same_statistics),
        cmocka_unit_test(since_2_11_a_helper_is_asked_before_anything_is_given_up),
        cmocka_unit_test(from_2_8_to_2_10_a_helper_is_asked_last),
        cmocka_unit_test(through_2_7_nobody_helps),
        cmocka_unit_test(a_helper_helps_its_own_stream_and_only_while_it_is_willing),
        cmocka_unit_test(private_pools_are_not_helped),
        cmocka_unit_test(help_is_searched_as_if_expandable_segments_were_off),
        cmocka_unit_test(a_no_split_pool_hands_its_blocks_out_whole),
        cmocka_unit_test(a_source_sees_segments_and_gets_them_back),
        cmocka_unit_test(listeners_hear_of_the_end_before_the_source),
        cmocka_unit_test(a_source_that_returns_nothing_is_out_of_memory),
        cmocka_unit_test(live_blocks_go_back_to_their_source_when_the_pool_ends),
        cmocka_unit_test(a_pool_with_a_source_ignores_expandable_segments_since_2_10),
        cmocka_unit_test(a_pool_without_a_source_has_expandable_segments_of_its_own),
        cmocka_unit_test(no_retry_with_a_scope_open_through_2_12_and_while_capturing_since),
        cmocka_unit_test(
            a_trim_keeps_the_default_pool_in_scopes_from_2_8_and_in_captures_from_2_13),
        cmocka_unit_test(no_event_is_looked_at_in_scopes_through_2_12_and_in_captures_since),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
