/* test_paged_private.c - memory that must stay where it is, to engine "vramwise": pinned blocks,
 * private pools in use, and everything while a graph is captured. */
#include "engine/paged/paged_engine.h"

#include <string.h>

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define UNIT (2 * VW_TEST_MIB)

static const vw_private_id graph = {7, 0};

typedef struct scene {
    vw_test_pool t;
    vw_test_spy spy;
} scene;

static void scene_open_as(scene *s, uint64_t capacity_bytes, const char *torch_version)
{
    s->spy = (vw_test_spy){.call_count = 0};
    vw_test_pool_open(&s->t, &(vw_test_pool_setup){.engine = "vramwise",
                                                   .torch_version = torch_version,
                                                   .capacity_bytes = capacity_bytes,
                                                   .idle_share = 0.0001,
                                                   .idle_floor_bytes = UNIT,
                                                   .spy = &s->spy});
}

static void scene_open(scene *s, uint64_t capacity_bytes)
{
    scene_open_as(s, capacity_bytes, "2.13");
}

static vw_paged_stats paged_stats(const scene *s)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(s->t.pool, &stats), VW_OK);
    return stats;
}

static uint64_t held_bytes(const scene *s)
{
    return vw_test_calls(&s->t).in_use_bytes;
}

/* ---- pins ------------------------------------------------------------------------------------ */

static void a_pinned_block_stays_mapped_after_it_was_freed(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr block = vw_test_alloc(&s.t, 30 * VW_TEST_MIB);
    vw_test_ok(&s.t, vw_pool_pin(s.t.pool, block));
    vw_test_free(&s.t, block);
    vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 1);
    vw_test_alloc_fails(&s.t, 30 * VW_TEST_MIB, 1, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(paged_stats(&s).moved_handles, 0);
    vw_test_trim(&s.t);
    assert_false(vw_test_spy_has_unmapped(&s.spy, block, 30 * VW_TEST_MIB));
    assert_true(held_bytes(&s) >= 60 * VW_TEST_MIB);
    assert_int_equal(vw_test_alloc(&s.t, 30 * VW_TEST_MIB), block); /* it serves as before */
    vw_test_free(&s.t, block);

    vw_test_ok(&s.t, vw_pool_unpin(s.t.pool, block));
    vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 1);
    assert_true(paged_stats(&s).moved_handles > 0);
    vw_test_pool_close(&s.t);
}

static void pins_nest_and_only_pinned_addresses_are_unpinned(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr block = vw_test_alloc(&s.t, 30 * VW_TEST_MIB);
    vw_test_refused(&s.t, vw_pool_unpin(s.t.pool, block), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_ok(&s.t, vw_pool_pin(s.t.pool, block));
    vw_test_ok(&s.t, vw_pool_pin(s.t.pool, block));
    vw_test_refused(&s.t, vw_pool_unpin(s.t.pool, block + 512), VW_ERR_UNKNOWN_ADDRESS);
    assert_non_null(strstr(vw_last_error(), "not pinned"));
    vw_test_free(&s.t, block);
    vw_test_ok(&s.t, vw_pool_unpin(s.t.pool, block));
    vw_test_trim(&s.t);
    assert_true(held_bytes(&s) >= 30 * VW_TEST_MIB); /* one pin is left */
    vw_test_ok(&s.t, vw_pool_unpin(s.t.pool, block));
    vw_test_refused(&s.t, vw_pool_unpin(s.t.pool, block), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 0);
    vw_test_pool_close(&s.t);
}

/* Only the pages under the block are pinned, and those of both of its ends. */
static void a_pin_holds_the_pages_under_its_block_and_no_others(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = vw_test_alloc(&s.t, VW_TEST_MIB);
    vw_test_ok(&s.t, vw_pool_pin(s.t.pool, blocks[2]));
    for (int i = 0; i < 8; i++)
        vw_test_free(&s.t, blocks[i]);
    vw_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), UNIT);
    vw_test_expect_blocks(&s.t, VW_TEST_FREE(blocks[2], UNIT));
    vw_test_pool_close(&s.t); /* pinned to the end */
}

/* A later block at the same address may be larger; each pin is taken back once. */
static void a_second_pin_at_an_address_holds_the_larger_range(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr row[4];
    for (int i = 0; i < 4; i++)
        row[i] = vw_test_alloc(&s.t, VW_TEST_MIB);
    vw_test_ok(&s.t, vw_pool_pin(s.t.pool, row[0]));
    for (int i = 0; i < 4; i++)
        vw_test_free(&s.t, row[i]);
    vw_device_ptr large = VW_NULL;
    vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = VW_TEST_MIB, .at = row[0]};
    vw_test_ok(&s.t, vw_alloc_with(s.t.pool, &request, &large));
    vw_test_ok(&s.t, vw_pool_pin(s.t.pool, large));
    vw_test_free(&s.t, large);
    vw_test_ok(&s.t, vw_pool_unpin(s.t.pool, row[0]));
    vw_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), UNIT);
    vw_test_ok(&s.t, vw_pool_unpin(s.t.pool, row[0]));
    vw_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 0);
    vw_test_pool_close(&s.t);
}

/* ---- private pools --------------------------------------------------------------------------- */

static vw_device_ptr take_privately(scene *s, uint64_t size_bytes, vw_stream stream)
{
    vw_test_ok(&s->t, vw_private_pool_begin(s->t.pool, graph, NULL, NULL));
    vw_device_ptr block = vw_test_alloc_on(&s->t, size_bytes, stream);
    vw_test_ok(&s->t, vw_private_pool_end(s->t.pool, graph));
    return block;
}

static void handles_of_a_private_pool_in_use_are_never_taken(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr block = take_privately(&s, 40 * VW_TEST_MIB, 0); /* retained by the scope */
    vw_test_free(&s.t, block);
    vw_test_spy_forget(&s.spy);
    vw_test_alloc_fails(&s.t, 40 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_trim(&s.t);
    assert_int_equal(paged_stats(&s).moved_handles, 0);
    assert_false(vw_test_spy_has_unmapped(&s.spy, block, 40 * VW_TEST_MIB));
    assert_int_equal(vw_test_segment_at(&s.t, block).private_id.first, graph.first);
    assert_int_equal(take_privately(&s, 40 * VW_TEST_MIB, 0), block);
    vw_test_free(&s.t, block);

    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, graph));
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, graph)); /* once for each scope */
    vw_device_ptr other = vw_test_alloc(&s.t, 40 * VW_TEST_MIB);
    assert_true(paged_stats(&s).moved_handles > 0);
    vw_test_free(&s.t, other);
    vw_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 0);
    assert_int_equal(vw_private_pool_use_count(s.t.pool, graph), 0);
    assert_null(s.t.pool->engine->private_pools);
    vw_test_pool_close(&s.t);
}

/* The other way round is allowed: a private pool is served by what the default pool has idle. */
static void a_private_pool_takes_free_handles_of_others(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_test_free(&s.t, vw_test_alloc(&s.t, 60 * VW_TEST_MIB));
    take_privately(&s, 60 * VW_TEST_MIB, 0);
    assert_true(paged_stats(&s).moved_handles > 0);
    vw_test_alloc_fails(&s.t, 10 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_pool_close(&s.t);
}

/* A trim of one private pool takes its ghosts along, though its memory is elsewhere by now. */
static void a_released_pool_whose_memory_moved_away_can_be_trimmed(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_test_free(&s.t, take_privately(&s, 60 * VW_TEST_MIB, 0));
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, graph));
    vw_device_ptr other = vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 3);
    assert_true(paged_stats(&s).retiring_bytes > 0);
    vw_test_ok(&s.t, vw_private_pool_trim(s.t.pool, graph));
    assert_int_equal(paged_stats(&s).retiring_bytes, 0);
    assert_null(s.t.pool->engine->private_pools);
    assert_int_equal(vw_test_segment_at(&s.t, other).allocated_bytes, 60 * VW_TEST_MIB);
    vw_test_pool_close(&s.t);
}

static void a_pool_used_on_oom_serves_who_would_run_out(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    const vw_private_options options = {.struct_size = sizeof options, .use_on_oom = true};
    vw_test_ok(&s.t, vw_private_pool_retain(s.t.pool, graph, &options));
    vw_device_ptr block = take_privately(&s, 40 * VW_TEST_MIB, 0);
    vw_test_free(&s.t, block);
    vw_device_ptr other = vw_test_alloc(&s.t, 38 * VW_TEST_MIB);
    assert_int_equal(other, block);
    vw_test_free(&s.t, other);
    vw_test_ok(&s.t, vw_private_pool_set_use_on_oom(s.t.pool, graph, false));
    vw_test_alloc_fails(&s.t, 38 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_pool_close(&s.t);
}

static void a_pool_that_does_not_split_hands_out_whole_blocks(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    const vw_private_options options = {.struct_size = sizeof options, .no_split = true};
    vw_test_ok(&s.t, vw_private_pool_retain(s.t.pool, graph, &options));
    vw_device_ptr block = take_privately(&s, 16 * VW_TEST_MIB, 0);
    vw_test_free(&s.t, block);
    assert_int_equal(take_privately(&s, 9 * VW_TEST_MIB, 0), block);
    vw_test_expect_blocks(&s.t, VW_TEST_LIVE_ASKED(block, 16 * VW_TEST_MIB, 9 * VW_TEST_MIB));
    vw_test_pool_close(&s.t);
}

static void a_source_of_its_own_is_refused(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    const vw_private_options options = {
        .struct_size = sizeof options,
        .take = (vw_device_ptr(*)(void *, uint64_t, int, vw_stream))(uintptr_t)1,
        .give_back = (void (*)(void *, vw_device_ptr, uint64_t, int, vw_stream))(uintptr_t)1};
    vw_test_refused(&s.t, vw_private_pool_retain(s.t.pool, graph, &options), VW_ERR_UNSUPPORTED);
    assert_int_equal(vw_private_pool_use_count(s.t.pool, graph), 0);
    vw_test_pool_close(&s.t);
}

/* ---- capture --------------------------------------------------------------------------------- */

/* Everything that a capture forbids. */
static void expect_nothing_forbidden(const scene *s)
{
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_EVENT_RECORD), 0);
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_EVENT_QUERY), 0);
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_EVENT_SYNCHRONIZE), 0);
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_STREAM_WAIT_EVENT), 0);
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_STREAM_SYNCHRONIZE), 0);
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_SYNCHRONIZE), 0);
    assert_int_equal(vw_test_spy_count(&s->spy, VW_TEST_UNMAP), 0);
}

static void during_capture_nothing_moves_and_no_event_is_touched(void **state)
{
    (void)state;
    static const char *const versions[] = {"2.13", "2.11", "1.10"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        scene s;
        scene_open_as(&s, 64 * VW_TEST_MIB, versions[i]);
        vw_test_free(&s.t, vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 1));
        vw_test_free(&s.t, vw_test_alloc_on(&s.t, 20 * VW_TEST_MIB, 2));
        vw_test_ok(&s.t, vw_private_pool_begin(s.t.pool, graph, NULL, NULL));
        assert_int_equal(vw_device_set_capturing(s.t.device, 1, true), VW_OK);
        vw_test_spy_forget(&s.spy);
        uint64_t moved = paged_stats(&s).moved_handles;

        vw_test_alloc_on(&s.t, 500, 1);
        vw_device_ptr inside = vw_test_alloc_on(&s.t, 10 * VW_TEST_MIB, 1);
        vw_test_alloc_fails(&s.t, 30 * VW_TEST_MIB, 1, VW_ERR_OUT_OF_MEMORY);
        vw_test_ok(&s.t, vw_record_stream(s.t.pool, inside, 2));
        vw_test_free(&s.t, inside);
        assert_int_equal(paged_stats(&s).moved_handles, moved);
        expect_nothing_forbidden(&s);

        assert_int_equal(vw_device_set_capturing(s.t.device, 1, false), VW_OK);
        vw_test_ok(&s.t, vw_private_pool_end(s.t.pool, graph));
        vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 3); /* what is idle outside the graph's pool */
        assert_true(paged_stats(&s).moved_handles > moved);
        vw_test_pool_close(&s.t);
    }
}

/* Nor does a request that runs out wait for what other streams still use. */
static void during_capture_nothing_is_waited_for(void **state)
{
    (void)state;
    scene s;
    s.spy = (vw_test_spy){.call_count = 0};
    vw_test_pool_open(&s.t, &(vw_test_pool_setup){.engine = "vramwise",
                                                  .torch_version = "2.13",
                                                  .capacity_bytes = 64 * VW_TEST_MIB,
                                                  .manual_streams = true,
                                                  .spy = &s.spy});
    vw_device_ptr block = vw_test_alloc_on(&s.t, 40 * VW_TEST_MIB, 2);
    vw_test_ok(&s.t, vw_record_stream(s.t.pool, block, 3));
    vw_test_free(&s.t, block);
    vw_test_ok(&s.t, vw_private_pool_begin(s.t.pool, graph, NULL, NULL));
    assert_int_equal(vw_device_set_capturing(s.t.device, 1, true), VW_OK);
    vw_test_spy_forget(&s.spy);
    vw_test_alloc_fails(&s.t, 40 * VW_TEST_MIB, 1, VW_ERR_OUT_OF_MEMORY);
    expect_nothing_forbidden(&s);
    assert_int_equal(vw_test_stats(&s.t).active.all.current, 1); /* still pending */
    vw_test_pool_close(&s.t);
}

static bool is_first_stream(void *context, vw_stream stream)
{
    (void)context;
    return stream == 1;
}

/* Another stream may move memory meanwhile, but not that of the stream that is captured. */
static void memory_of_a_captured_stream_stays_though_another_asks(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr first = vw_test_alloc_on(&s.t, 40 * VW_TEST_MIB, 1);
    vw_test_free(&s.t, first);
    vw_test_ok(&s.t, vw_private_pool_begin(s.t.pool, graph, is_first_stream, NULL));
    assert_int_equal(vw_device_set_capturing(s.t.device, 1, true), VW_OK);
    vw_test_spy_forget(&s.spy);
    vw_test_alloc_fails(&s.t, 40 * VW_TEST_MIB, 2, VW_ERR_OUT_OF_MEMORY);
    vw_test_alloc_on(&s.t, 20 * VW_TEST_MIB, 2);
    assert_int_equal(paged_stats(&s).moved_handles, 0);
    expect_nothing_forbidden(&s);
    assert_int_equal(vw_device_set_capturing(s.t.device, 1, false), VW_OK);
    vw_test_ok(&s.t, vw_private_pool_end(s.t.pool, graph));
    assert_int_equal(vw_test_alloc_on(&s.t, 40 * VW_TEST_MIB, 1), first);
    vw_test_pool_close(&s.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pinned_block_stays_mapped_after_it_was_freed),
        cmocka_unit_test(pins_nest_and_only_pinned_addresses_are_unpinned),
        cmocka_unit_test(a_pin_holds_the_pages_under_its_block_and_no_others),
        cmocka_unit_test(a_second_pin_at_an_address_holds_the_larger_range),
        cmocka_unit_test(handles_of_a_private_pool_in_use_are_never_taken),
        cmocka_unit_test(a_private_pool_takes_free_handles_of_others),
        cmocka_unit_test(a_released_pool_whose_memory_moved_away_can_be_trimmed),
        cmocka_unit_test(a_pool_used_on_oom_serves_who_would_run_out),
        cmocka_unit_test(a_pool_that_does_not_split_hands_out_whole_blocks),
        cmocka_unit_test(a_source_of_its_own_is_refused),
        cmocka_unit_test(during_capture_nothing_moves_and_no_event_is_touched),
        cmocka_unit_test(during_capture_nothing_is_waited_for),
        cmocka_unit_test(memory_of_a_captured_stream_stays_though_another_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
