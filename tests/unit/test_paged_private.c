/* test_paged_private.c - memory that must stay where it is, to engine "headroom": pinned blocks,
 * private pools in use, and everything while a graph is captured. */
#include "engine/paged/paged_engine.h"

#include <string.h>

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define UNIT (2 * HR_TEST_MIB)

static const hr_private_id graph = {7, 0};

typedef struct scene {
    hr_test_pool t;
    hr_test_spy spy;
} scene;

static void scene_open_as(scene *s, uint64_t capacity_bytes, const char *torch_version)
{
    s->spy = (hr_test_spy){.call_count = 0};
    hr_test_pool_open(&s->t, &(hr_test_pool_setup){.engine = "headroom",
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

static hr_paged_stats paged_stats(const scene *s)
{
    hr_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(hr_pool_get_paged_stats(s->t.pool, &stats), HR_OK);
    return stats;
}

/* Was anything unmapped between the two addresses? */
static bool was_unmapped(const scene *s, hr_device_ptr address, uint64_t size_bytes)
{
    for (const hr_test_call_made *made = NULL;
         (made = hr_test_spy_find(&s->spy, HR_TEST_UNMAP, made)) != NULL;)
        if (made->address < address + size_bytes && made->address + made->size_bytes > address)
            return true;
    return false;
}

static uint64_t held_bytes(const scene *s)
{
    return hr_test_calls(&s->t).in_use_bytes;
}

/* ---- pins ------------------------------------------------------------------------------------ */

static void a_pinned_block_stays_mapped_after_it_was_freed(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    hr_device_ptr block = hr_test_alloc(&s.t, 30 * HR_TEST_MIB);
    hr_test_ok(&s.t, hr_pool_pin(s.t.pool, block));
    hr_test_free(&s.t, block);
    hr_test_alloc_on(&s.t, 30 * HR_TEST_MIB, 1);
    hr_test_alloc_fails(&s.t, 30 * HR_TEST_MIB, 1, HR_ERR_OUT_OF_MEMORY);
    assert_int_equal(paged_stats(&s).moved_handles, 0);
    hr_test_trim(&s.t);
    assert_false(was_unmapped(&s, block, 30 * HR_TEST_MIB));
    assert_true(held_bytes(&s) >= 60 * HR_TEST_MIB);
    assert_int_equal(hr_test_alloc(&s.t, 30 * HR_TEST_MIB), block); /* it serves as before */
    hr_test_free(&s.t, block);

    hr_test_ok(&s.t, hr_pool_unpin(s.t.pool, block));
    hr_test_alloc_on(&s.t, 30 * HR_TEST_MIB, 1);
    assert_true(paged_stats(&s).moved_handles > 0);
    hr_test_pool_close(&s.t);
}

static void pins_nest_and_only_pinned_addresses_are_unpinned(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    hr_device_ptr block = hr_test_alloc(&s.t, 30 * HR_TEST_MIB);
    hr_test_refused(&s.t, hr_pool_unpin(s.t.pool, block), HR_ERR_UNKNOWN_ADDRESS);
    hr_test_ok(&s.t, hr_pool_pin(s.t.pool, block));
    hr_test_ok(&s.t, hr_pool_pin(s.t.pool, block));
    hr_test_refused(&s.t, hr_pool_unpin(s.t.pool, block + 512), HR_ERR_UNKNOWN_ADDRESS);
    assert_non_null(strstr(hr_last_error(), "not pinned"));
    hr_test_free(&s.t, block);
    hr_test_ok(&s.t, hr_pool_unpin(s.t.pool, block));
    hr_test_trim(&s.t);
    assert_true(held_bytes(&s) >= 30 * HR_TEST_MIB); /* one pin is left */
    hr_test_ok(&s.t, hr_pool_unpin(s.t.pool, block));
    hr_test_refused(&s.t, hr_pool_unpin(s.t.pool, block), HR_ERR_UNKNOWN_ADDRESS);
    hr_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 0);
    hr_test_pool_close(&s.t);
}

/* Only the pages under the block are pinned, and those of both of its ends. */
static void a_pin_holds_the_pages_under_its_block_and_no_others(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    hr_device_ptr blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = hr_test_alloc(&s.t, HR_TEST_MIB);
    hr_test_ok(&s.t, hr_pool_pin(s.t.pool, blocks[2]));
    for (int i = 0; i < 8; i++)
        hr_test_free(&s.t, blocks[i]);
    hr_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), UNIT);
    hr_test_expect_blocks(&s.t, HR_TEST_FREE(blocks[2], UNIT));
    hr_test_pool_close(&s.t); /* pinned to the end */
}

/* A later block at the same address may be larger; each pin is taken back once. */
static void a_second_pin_at_an_address_holds_the_larger_range(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    hr_device_ptr row[4];
    for (int i = 0; i < 4; i++)
        row[i] = hr_test_alloc(&s.t, HR_TEST_MIB);
    hr_test_ok(&s.t, hr_pool_pin(s.t.pool, row[0]));
    for (int i = 0; i < 4; i++)
        hr_test_free(&s.t, row[i]);
    hr_device_ptr large = HR_NULL;
    hr_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = HR_TEST_MIB, .at = row[0]};
    hr_test_ok(&s.t, hr_alloc_with(s.t.pool, &request, &large));
    hr_test_ok(&s.t, hr_pool_pin(s.t.pool, large));
    hr_test_free(&s.t, large);
    hr_test_ok(&s.t, hr_pool_unpin(s.t.pool, row[0]));
    hr_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), UNIT);
    hr_test_ok(&s.t, hr_pool_unpin(s.t.pool, row[0]));
    hr_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 0);
    hr_test_pool_close(&s.t);
}

/* ---- private pools --------------------------------------------------------------------------- */

static hr_device_ptr take_privately(scene *s, uint64_t size_bytes, hr_stream stream)
{
    hr_test_ok(&s->t, hr_private_pool_begin(s->t.pool, graph, NULL, NULL));
    hr_device_ptr block = hr_test_alloc_on(&s->t, size_bytes, stream);
    hr_test_ok(&s->t, hr_private_pool_end(s->t.pool, graph));
    return block;
}

static void handles_of_a_private_pool_in_use_are_never_taken(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    hr_device_ptr block = take_privately(&s, 40 * HR_TEST_MIB, 0); /* retained by the scope */
    hr_test_free(&s.t, block);
    hr_test_spy_forget(&s.spy);
    hr_test_alloc_fails(&s.t, 40 * HR_TEST_MIB, 0, HR_ERR_OUT_OF_MEMORY);
    hr_test_trim(&s.t);
    assert_int_equal(paged_stats(&s).moved_handles, 0);
    assert_false(was_unmapped(&s, block, 40 * HR_TEST_MIB));
    assert_int_equal(hr_test_segment_at(&s.t, block).private_id.first, graph.first);
    assert_int_equal(take_privately(&s, 40 * HR_TEST_MIB, 0), block);
    hr_test_free(&s.t, block);

    hr_test_ok(&s.t, hr_private_pool_release(s.t.pool, graph));
    hr_test_ok(&s.t, hr_private_pool_release(s.t.pool, graph)); /* once for each scope */
    hr_device_ptr other = hr_test_alloc(&s.t, 40 * HR_TEST_MIB);
    assert_true(paged_stats(&s).moved_handles > 0);
    hr_test_free(&s.t, other);
    hr_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 0);
    assert_int_equal(hr_private_pool_use_count(s.t.pool, graph), 0);
    assert_null(s.t.pool->engine->private_pools);
    hr_test_pool_close(&s.t);
}

/* The other way round is allowed: a private pool is served by what the default pool has idle. */
static void a_private_pool_takes_free_handles_of_others(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    hr_test_free(&s.t, hr_test_alloc(&s.t, 60 * HR_TEST_MIB));
    take_privately(&s, 60 * HR_TEST_MIB, 0);
    assert_true(paged_stats(&s).moved_handles > 0);
    hr_test_alloc_fails(&s.t, 10 * HR_TEST_MIB, 0, HR_ERR_OUT_OF_MEMORY);
    hr_test_pool_close(&s.t);
}

/* A trim of one private pool takes its ghosts along, though its memory is elsewhere by now. */
static void a_released_pool_whose_memory_moved_away_can_be_trimmed(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    hr_test_free(&s.t, take_privately(&s, 60 * HR_TEST_MIB, 0));
    hr_test_ok(&s.t, hr_private_pool_release(s.t.pool, graph));
    hr_device_ptr other = hr_test_alloc_on(&s.t, 60 * HR_TEST_MIB, 3);
    assert_true(paged_stats(&s).retiring_bytes > 0);
    hr_test_ok(&s.t, hr_private_pool_trim(s.t.pool, graph));
    assert_int_equal(paged_stats(&s).retiring_bytes, 0);
    assert_null(s.t.pool->engine->private_pools);
    assert_int_equal(hr_test_segment_at(&s.t, other).allocated_bytes, 60 * HR_TEST_MIB);
    hr_test_pool_close(&s.t);
}

static void a_pool_used_on_oom_serves_who_would_run_out(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    const hr_private_options options = {.struct_size = sizeof options, .use_on_oom = true};
    hr_test_ok(&s.t, hr_private_pool_retain(s.t.pool, graph, &options));
    hr_device_ptr block = take_privately(&s, 40 * HR_TEST_MIB, 0);
    hr_test_free(&s.t, block);
    hr_device_ptr other = hr_test_alloc(&s.t, 38 * HR_TEST_MIB);
    assert_int_equal(other, block);
    hr_test_free(&s.t, other);
    hr_test_ok(&s.t, hr_private_pool_set_use_on_oom(s.t.pool, graph, false));
    hr_test_alloc_fails(&s.t, 38 * HR_TEST_MIB, 0, HR_ERR_OUT_OF_MEMORY);
    hr_test_pool_close(&s.t);
}

static void a_pool_that_does_not_split_hands_out_whole_blocks(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    const hr_private_options options = {.struct_size = sizeof options, .no_split = true};
    hr_test_ok(&s.t, hr_private_pool_retain(s.t.pool, graph, &options));
    hr_device_ptr block = take_privately(&s, 16 * HR_TEST_MIB, 0);
    hr_test_free(&s.t, block);
    assert_int_equal(take_privately(&s, 9 * HR_TEST_MIB, 0), block);
    hr_test_expect_blocks(&s.t, HR_TEST_LIVE_ASKED(block, 16 * HR_TEST_MIB, 9 * HR_TEST_MIB));
    hr_test_pool_close(&s.t);
}

static void a_source_of_its_own_is_refused(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    const hr_private_options options = {
        .struct_size = sizeof options,
        .take = (hr_device_ptr(*)(void *, uint64_t, int, hr_stream))(uintptr_t)1,
        .give_back = (void (*)(void *, hr_device_ptr, uint64_t, int, hr_stream))(uintptr_t)1};
    hr_test_refused(&s.t, hr_private_pool_retain(s.t.pool, graph, &options), HR_ERR_UNSUPPORTED);
    assert_int_equal(hr_private_pool_use_count(s.t.pool, graph), 0);
    hr_test_pool_close(&s.t);
}

/* ---- capture --------------------------------------------------------------------------------- */

/* Everything that a capture forbids. */
static void expect_nothing_forbidden(const scene *s)
{
    assert_int_equal(hr_test_spy_count(&s->spy, HR_TEST_EVENT_RECORD), 0);
    assert_int_equal(hr_test_spy_count(&s->spy, HR_TEST_EVENT_QUERY), 0);
    assert_int_equal(hr_test_spy_count(&s->spy, HR_TEST_EVENT_SYNCHRONIZE), 0);
    assert_int_equal(hr_test_spy_count(&s->spy, HR_TEST_STREAM_WAIT_EVENT), 0);
    assert_int_equal(hr_test_spy_count(&s->spy, HR_TEST_STREAM_SYNCHRONIZE), 0);
    assert_int_equal(hr_test_spy_count(&s->spy, HR_TEST_SYNCHRONIZE), 0);
    assert_int_equal(hr_test_spy_count(&s->spy, HR_TEST_UNMAP), 0);
}

static void during_capture_nothing_moves_and_no_event_is_touched(void **state)
{
    (void)state;
    static const char *const versions[] = {"2.13", "2.11", "1.10"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        scene s;
        scene_open_as(&s, 64 * HR_TEST_MIB, versions[i]);
        hr_test_free(&s.t, hr_test_alloc_on(&s.t, 30 * HR_TEST_MIB, 1));
        hr_test_free(&s.t, hr_test_alloc_on(&s.t, 20 * HR_TEST_MIB, 2));
        hr_test_ok(&s.t, hr_private_pool_begin(s.t.pool, graph, NULL, NULL));
        assert_int_equal(hr_device_set_capturing(s.t.device, 1, true), HR_OK);
        hr_test_spy_forget(&s.spy);
        uint64_t moved = paged_stats(&s).moved_handles;

        hr_test_alloc_on(&s.t, 500, 1);
        hr_device_ptr inside = hr_test_alloc_on(&s.t, 10 * HR_TEST_MIB, 1);
        hr_test_alloc_fails(&s.t, 30 * HR_TEST_MIB, 1, HR_ERR_OUT_OF_MEMORY);
        hr_test_ok(&s.t, hr_record_stream(s.t.pool, inside, 2));
        hr_test_free(&s.t, inside);
        assert_int_equal(paged_stats(&s).moved_handles, moved);
        expect_nothing_forbidden(&s);

        assert_int_equal(hr_device_set_capturing(s.t.device, 1, false), HR_OK);
        hr_test_ok(&s.t, hr_private_pool_end(s.t.pool, graph));
        hr_test_alloc_on(&s.t, 30 * HR_TEST_MIB, 3); /* what is idle outside the graph's pool */
        assert_true(paged_stats(&s).moved_handles > moved);
        hr_test_pool_close(&s.t);
    }
}

/* Nor does a request that runs out wait for what other streams still use. */
static void during_capture_nothing_is_waited_for(void **state)
{
    (void)state;
    scene s;
    s.spy = (hr_test_spy){.call_count = 0};
    hr_test_pool_open(&s.t, &(hr_test_pool_setup){.engine = "headroom",
                                                  .torch_version = "2.13",
                                                  .capacity_bytes = 64 * HR_TEST_MIB,
                                                  .manual_streams = true,
                                                  .spy = &s.spy});
    hr_device_ptr block = hr_test_alloc_on(&s.t, 40 * HR_TEST_MIB, 2);
    hr_test_ok(&s.t, hr_record_stream(s.t.pool, block, 3));
    hr_test_free(&s.t, block);
    hr_test_ok(&s.t, hr_private_pool_begin(s.t.pool, graph, NULL, NULL));
    assert_int_equal(hr_device_set_capturing(s.t.device, 1, true), HR_OK);
    hr_test_spy_forget(&s.spy);
    hr_test_alloc_fails(&s.t, 40 * HR_TEST_MIB, 1, HR_ERR_OUT_OF_MEMORY);
    expect_nothing_forbidden(&s);
    assert_int_equal(hr_test_stats(&s.t).active.all.current, 1); /* still pending */
    hr_test_pool_close(&s.t);
}

static bool is_first_stream(void *context, hr_stream stream)
{
    (void)context;
    return stream == 1;
}

/* Another stream may move memory meanwhile, but not that of the stream that is captured. */
static void memory_of_a_captured_stream_stays_though_another_asks(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * HR_TEST_MIB);
    hr_device_ptr first = hr_test_alloc_on(&s.t, 40 * HR_TEST_MIB, 1);
    hr_test_free(&s.t, first);
    hr_test_ok(&s.t, hr_private_pool_begin(s.t.pool, graph, is_first_stream, NULL));
    assert_int_equal(hr_device_set_capturing(s.t.device, 1, true), HR_OK);
    hr_test_spy_forget(&s.spy);
    hr_test_alloc_fails(&s.t, 40 * HR_TEST_MIB, 2, HR_ERR_OUT_OF_MEMORY);
    hr_test_alloc_on(&s.t, 20 * HR_TEST_MIB, 2);
    assert_int_equal(paged_stats(&s).moved_handles, 0);
    expect_nothing_forbidden(&s);
    assert_int_equal(hr_device_set_capturing(s.t.device, 1, false), HR_OK);
    hr_test_ok(&s.t, hr_private_pool_end(s.t.pool, graph));
    assert_int_equal(hr_test_alloc_on(&s.t, 40 * HR_TEST_MIB, 1), first);
    hr_test_pool_close(&s.t);
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
