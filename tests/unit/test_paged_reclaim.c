/* test_paged_reclaim.c - idle memory given back in slices, for the pool's keep_free: the longest
 * idle first, a few handles at a time, and nothing that the device may still use. */
#include "engine/paged/paged_reclaim.h"

#include "engine/paged/paged_books.h"
#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define BLOCK (64 * VW_TEST_MIB)

enum { STREAM = 5, OTHER = 6 };

typedef struct scene {
    vw_test_pool t;
    vw_test_spy spy;
} scene;

static void scene_open(scene *s, bool manual_streams)
{
    s->spy = (vw_test_spy){.call_count = 0};
    vw_test_pool_open(&s->t, &(vw_test_pool_setup){.engine = "vramwise",
                                                   .capacity_bytes = 4 * VW_TEST_GIB,
                                                   .manual_streams = manual_streams,
                                                   .spy = &s->spy});
}

static uint64_t reserved(const scene *s)
{
    return (uint64_t)vw_test_stats(&s->t).reserved_bytes.all.current;
}

static uint64_t given_back(const scene *s)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(s->t.pool, &stats), VW_OK);
    return stats.given_back_bytes;
}

static vw__engine_slice give(scene *s, uint64_t wanted_bytes, size_t most_handles)
{
    vw__engine *engine = s->t.pool->engine;
    vw__engine_slice slice = {.wanted_bytes = wanted_bytes, .most_handles = most_handles};
    vw_test_ok(&s->t, engine->table->give_back(engine, &slice));
    return slice;
}

/* The first look marks the streams; with streams that are not held, the second finds them passed.
 */
static uint64_t give_all(scene *s)
{
    uint64_t sum_bytes = 0;
    vw__engine_slice slice;
    do {
        slice = give(s, UINT64_MAX, 8);
        sum_bytes += slice.given_bytes;
    } while (slice.given_bytes != 0 || slice.is_waiting);
    return sum_bytes;
}

static void expect_no_wait(const scene *s)
{
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_SYNCHRONIZE), 0);
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_STREAM_SYNCHRONIZE), 0);
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_EVENT_SYNCHRONIZE), 0);
}

static void all_idle_memory_goes_and_is_counted(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, false);
    vw_device_ptr live = vw_test_alloc(&s.t, BLOCK);
    vw_test_free(&s.t, vw_test_alloc(&s.t, 4 * BLOCK));
    uint64_t before_bytes = reserved(&s);
    uint64_t given_bytes = give_all(&s);
    assert_true(given_bytes >= 4 * BLOCK);
    assert_int_equal(reserved(&s), before_bytes - given_bytes);
    assert_int_equal(given_back(&s), given_bytes);
    assert_int_equal(vw_test_calls(&s.t).in_use_bytes, reserved(&s));
    expect_no_wait(&s);
    vw_test_free(&s.t, live);
    vw_test_alloc(&s.t, 6 * BLOCK); /* and it serves on */
    vw_test_pool_close(&s.t);
}

static void a_slice_is_no_larger_than_asked_for(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, false);
    vw_test_free(&s.t, vw_test_alloc(&s.t, 8 * BLOCK));
    (void)give(&s, 1, 1); /* marks */
    vw_test_spy_forget(&s.spy);
    vw__engine_slice slice = give(&s, UINT64_MAX, 3);
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_RELEASE), 3);
    assert_true(slice.given_bytes > 0);
    vw_test_spy_forget(&s.spy);
    slice = give(&s, 1, 100); /* one handle is enough */
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_RELEASE), 1);
    slice = give(&s, 0, 100);
    assert_int_equal(slice.given_bytes, 0);
    vw_test_pool_close(&s.t);
}

static void the_longest_idle_goes_first(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, false);
    vw_device_ptr first = vw_test_alloc(&s.t, BLOCK), between = vw_test_alloc(&s.t, BLOCK);
    vw_device_ptr second = vw_test_alloc(&s.t, BLOCK), end = vw_test_alloc(&s.t, BLOCK);
    vw_test_free(&s.t, second);
    vw_test_free(&s.t, vw_test_alloc(&s.t, 100)); /* time passes */
    vw_test_free(&s.t, first);
    (void)give(&s, 1, 1);
    vw_test_spy_forget(&s.spy);
    (void)give(&s, 1, 1);
    const vw_test_call_made *unmapped = vw_test_spy_find(&s.spy, VW_TEST_UNMAP, NULL);
    assert_non_null(unmapped);
    assert_in_range(unmapped->address, second, second + BLOCK - 1);
    vw_test_free(&s.t, between);
    vw_test_free(&s.t, end);
    vw_test_pool_close(&s.t);
}

static void what_the_device_may_use_waits_for_its_stream(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, true);
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, BLOCK, STREAM));
    uint64_t before_bytes = reserved(&s);
    for (int i = 0; i < 3; i++) {
        vw__engine_slice slice = give(&s, UINT64_MAX, 100);
        assert_true(slice.is_waiting);
        assert_int_equal(slice.given_bytes, 0);
    }
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_EVENT_RECORD), 1);
    assert_int_equal(reserved(&s), before_bytes);
    assert_int_equal(vw_device_complete(s.t.device, STREAM), VW_OK);
    vw__engine_slice slice = give(&s, UINT64_MAX, 100);
    assert_int_equal(slice.given_bytes, before_bytes);
    assert_false(slice.is_waiting);
    expect_no_wait(&s);
    vw_test_pool_close(&s.t);
}

/* Used and freed again after the mark: the mark says nothing about that use. */
static void memory_that_was_used_since_waits_for_another_mark(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, true);
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, BLOCK, STREAM));
    assert_true(give(&s, UINT64_MAX, 100).is_waiting);
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, BLOCK, STREAM));
    assert_int_equal(vw_device_complete(s.t.device, STREAM), VW_OK);
    vw__engine_slice slice = give(&s, UINT64_MAX, 100);
    assert_int_equal(slice.given_bytes, 0);
    assert_true(slice.is_waiting);
    assert_int_equal(vw_device_complete(s.t.device, STREAM), VW_OK);
    assert_int_equal(give(&s, UINT64_MAX, 100).given_bytes, BLOCK);
    vw_test_pool_close(&s.t);
}

/* Freed after the mark, without a request between: the clock alone must tell them apart. */
static void memory_freed_after_the_mark_is_not_covered_by_it(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, true);
    vw_device_ptr early = vw_test_alloc_on(&s.t, BLOCK, STREAM);
    vw_device_ptr between = vw_test_alloc_on(&s.t, BLOCK, STREAM);
    vw_device_ptr late = vw_test_alloc_on(&s.t, BLOCK, STREAM);
    vw_test_free(&s.t, early);
    assert_true(give(&s, UINT64_MAX, 100).is_waiting);
    vw_test_free(&s.t, late);
    assert_int_equal(vw_device_complete(s.t.device, STREAM), VW_OK);
    vw__engine_slice slice = give(&s, UINT64_MAX, 100);
    assert_true(slice.given_bytes <= BLOCK);
    assert_true(slice.is_waiting);
    assert_true(reserved(&s) >= 2 * BLOCK);
    vw_test_free(&s.t, between);
    vw_test_pool_close(&s.t);
}

static void a_stream_that_is_behind_holds_up_no_other(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, true);
    vw_device_ptr first = vw_test_alloc_on(&s.t, BLOCK, STREAM);
    vw_device_ptr second = vw_test_alloc_on(&s.t, 2 * BLOCK, OTHER);
    vw_test_free(&s.t, first);
    vw_test_free(&s.t, second);
    assert_int_equal(give(&s, UINT64_MAX, 100).given_bytes, 0);
    assert_int_equal(vw_device_complete(s.t.device, OTHER), VW_OK);
    vw__engine_slice slice = give(&s, UINT64_MAX, 100);
    assert_true(slice.is_waiting);
    assert_int_equal(slice.given_bytes, 2 * BLOCK);
    vw_test_pool_close(&s.t);
}

/* A handle that moved is still mapped where it was, for work that may be under way there. */
static void a_ghost_is_waited_for(void **state)
{
    (void)state;
    scene s;
    s.spy = (vw_test_spy){.call_count = 0};
    vw_test_pool_open(&s.t, &(vw_test_pool_setup){.engine = "vramwise",
                                                  .capacity_bytes = BLOCK,
                                                  .manual_streams = true,
                                                  .spy = &s.spy});
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, BLOCK, STREAM));
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, BLOCK, OTHER));
    assert_true(give(&s, UINT64_MAX, 1000).is_waiting);
    assert_int_equal(reserved(&s), BLOCK);
    assert_int_equal(vw_device_complete(s.t.device, STREAM), VW_OK);
    assert_int_equal(vw_device_complete(s.t.device, OTHER), VW_OK);
    assert_int_equal(give(&s, UINT64_MAX, 1000).given_bytes, BLOCK);
    expect_no_wait(&s);
    vw_test_pool_close(&s.t);
}

static void pinned_memory_and_pools_in_use_stay(void **state)
{
    (void)state;
    const vw_private_id id = {1, 0};
    scene s;
    scene_open(&s, false);
    vw_device_ptr pinned = vw_test_alloc(&s.t, BLOCK);
    vw_test_ok(&s.t, vw_pool_pin(s.t.pool, pinned));
    vw_test_free(&s.t, pinned);
    vw_test_ok(&s.t, vw_private_pool_begin(s.t.pool, id, NULL, NULL));
    vw_test_free(&s.t, vw_test_alloc(&s.t, BLOCK));
    vw_test_ok(&s.t, vw_private_pool_end(s.t.pool, id));
    (void)give_all(&s);
    assert_int_equal(reserved(&s), 2 * BLOCK);
    vw_test_ok(&s.t, vw_pool_unpin(s.t.pool, pinned));
    (void)give_all(&s);
    assert_int_equal(reserved(&s), BLOCK);
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, id));
    (void)give_all(&s);
    assert_int_equal(reserved(&s), 0);
    vw_test_pool_close(&s.t);
}

static void nothing_goes_and_no_event_is_recorded_while_a_graph_is_captured(void **state)
{
    (void)state;
    const vw_private_id id = {1, 0};
    scene s;
    scene_open(&s, false);
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, BLOCK, STREAM));
    vw_test_ok(&s.t, vw_private_pool_begin(s.t.pool, id, NULL, NULL));
    assert_int_equal(vw_device_set_capturing(s.t.device, STREAM, true), VW_OK);
    vw_test_alloc_on(&s.t, BLOCK, STREAM);
    vw_test_spy_forget(&s.spy);
    vw__engine_slice slice = give(&s, UINT64_MAX, 100);
    assert_int_equal(slice.given_bytes, 0);
    assert_int_equal(s.spy.call_count, 0);
    assert_int_equal(vw_device_set_capturing(s.t.device, STREAM, false), VW_OK);
    vw_test_ok(&s.t, vw_private_pool_end(s.t.pool, id));
    assert_int_equal(give_all(&s), BLOCK);
    vw_test_pool_close(&s.t);
}

static void a_device_that_refuses_leaves_the_pool_whole(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, false);
    vw_test_free(&s.t, vw_test_alloc(&s.t, 4 * BLOCK));
    (void)give(&s, 1, 1);
    vw__engine *engine = s.t.pool->engine;
    uint64_t before_bytes = reserved(&s);
    s.spy.refused_unmaps = 1;
    vw__engine_slice slice = {.wanted_bytes = UINT64_MAX, .most_handles = 8};
    vw_test_refused(&s.t, engine->table->give_back(engine, &slice), VW_ERR_DEVICE);
    assert_int_equal(reserved(&s), before_bytes);
    assert_int_equal(give_all(&s), before_bytes);
    vw_test_pool_close(&s.t);
}

/* With keep_free somebody comes for what a trim leaves, so that it need not take long. */
static void a_trim_leaves_many_handles_to_the_slices(void **state)
{
    enum { BLOCKS = 300 };
    (void)state;
    static vw_device_ptr blocks[BLOCKS];
    scene s;
    scene_open(&s, false);
    vw_device_ptr live = vw_test_alloc(&s.t, 1000); /* with handles of one unit */
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = vw_test_alloc_on(&s.t, 2 * VW_TEST_MIB, STREAM);
    for (int i = 0; i < BLOCKS; i++)
        vw_test_free(&s.t, blocks[i]);
    s.t.pool->engine->owner.keep_free_bytes = VW_TEST_MIB;
    vw_test_spy_forget(&s.spy);
    vw_test_trim(&s.t);
    size_t released = vw_test_spy_count(&s.spy, VW_TEST_RELEASE);
    assert_in_range(released, 32, 64);
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, 10 * VW_TEST_MIB, OTHER)); /* is not theirs */
    vw__engine_slice slice;
    do
        slice = give(&s, 0, 8);
    while (slice.given_bytes != 0 || slice.is_waiting);
    assert_true(reserved(&s) >= 10 * VW_TEST_MIB);
    assert_true(reserved(&s) <= 14 * VW_TEST_MIB);
    assert_int_equal(give(&s, 0, 8).given_bytes, 0);
    vw_test_free(&s.t, live);
    vw_test_pool_close(&s.t);
}

/* The device has less than that free: idle memory is used before more is taken. */
static void a_request_uses_idle_memory_before_it_takes_the_last(void **state)
{
    (void)state;
    for (int has_limit = 0; has_limit < 2; has_limit++) {
        scene s;
        scene_open(&s, false);
        vw_device_ptr live = vw_test_alloc_on(&s.t, 8 * BLOCK, STREAM);
        vw_test_free(&s.t, vw_test_alloc_on(&s.t, 4 * BLOCK, STREAM));
        vw_test_free(&s.t, live);
        vw_test_alloc_on(&s.t, 8 * BLOCK, STREAM);
        uint64_t before_bytes = reserved(&s);
        if (has_limit)
            s.t.pool->engine->owner.keep_free_bytes = 4 * VW_TEST_GIB;
        vw_test_alloc_on(&s.t, 2 * BLOCK, OTHER);
        if (has_limit)
            assert_int_equal(reserved(&s), before_bytes);
        vw_test_alloc_on(&s.t, 16 * BLOCK, OTHER); /* what must be, is */
        assert_true(reserved(&s) > before_bytes);
        vw_test_pool_close(&s.t);
    }
}

static bool give_back_scenario(void *context)
{
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    vw_pool_options options = {
        .struct_size = sizeof options, .engine = "vramwise", .is_unlisted = true};
    vw_device_ptr first = VW_NULL, second = VW_NULL;
    (void)context;
    if (vw_simulated_device_create(NULL, &device) != VW_OK)
        return false;
    if (vw_pool_create(device, &options, &pool) != VW_OK) {
        vw_device_destroy(device);
        return false;
    }
    bool is_done = vw_alloc(pool, BLOCK, STREAM, &first) == VW_OK &&
                   vw_alloc(pool, BLOCK, OTHER, &second) == VW_OK;
    assert_int_equal(vw_free(pool, first), VW_OK);
    assert_int_equal(vw_free(pool, second), VW_OK);
    for (int i = 0; i < 4; i++) {
        vw__engine_slice slice = {.wanted_bytes = UINT64_MAX, .most_handles = 100};
        is_done &= pool->engine->table->give_back(pool->engine, &slice) == VW_OK;
        assert_int_equal(vw_pool_check(pool), VW_OK);
    }
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return is_done;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(give_back_scenario, NULL);
}

enum { MERGED = 1000, WALKS = 10 };

/* Each trim merges thousands of blocks, and looks for each of them. */
static void the_way_to_what_records_were_merged_into_becomes_short(void **state)
{
    (void)state;
    static vw__block merged[MERGED];
    vw__block whole = {.address = 512, .size_bytes = 4096};
    for (int i = 0; i < MERGED; i++)
        merged[i].next = i + 1 < MERGED ? &merged[i + 1] : &whole;
    for (int i = 0; i < WALKS; i++)
        assert_ptr_equal(vw__paged_walk_to(&merged[0], 1024), &whole);
    assert_ptr_equal(merged[0].next, &whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_idle_memory_goes_and_is_counted),
        cmocka_unit_test(a_slice_is_no_larger_than_asked_for),
        cmocka_unit_test(the_longest_idle_goes_first),
        cmocka_unit_test(what_the_device_may_use_waits_for_its_stream),
        cmocka_unit_test(memory_that_was_used_since_waits_for_another_mark),
        cmocka_unit_test(memory_freed_after_the_mark_is_not_covered_by_it),
        cmocka_unit_test(a_stream_that_is_behind_holds_up_no_other),
        cmocka_unit_test(a_ghost_is_waited_for),
        cmocka_unit_test(pinned_memory_and_pools_in_use_stay),
        cmocka_unit_test(nothing_goes_and_no_event_is_recorded_while_a_graph_is_captured),
        cmocka_unit_test(a_device_that_refuses_leaves_the_pool_whole),
        cmocka_unit_test(a_trim_leaves_many_handles_to_the_slices),
        cmocka_unit_test(a_request_uses_idle_memory_before_it_takes_the_last),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(the_way_to_what_records_were_merged_into_becomes_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
