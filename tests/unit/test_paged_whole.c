/* test_paged_whole.c - private pools whose segments are one handle each, to engine "vramwise": what
 * others can register, and what happens to it. */
#include "engine/paged/paged_engine.h"

#include "pool/pool.h"
#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define UNIT (2 * VW_TEST_MIB)

static const vw_private_id registered = {0, 5};

typedef struct scene {
    vw_test_pool t;
    vw_test_spy spy;
} scene;

static void scene_open_with(scene *s, const vw_test_pool_setup *setup,
                            const vw_private_options *options)
{
    vw_test_pool_setup used = *setup;
    s->spy = (vw_test_spy){.call_count = 0};
    used.spy = &s->spy;
    vw_test_pool_open(&s->t, &used);
    vw_test_ok(&s->t, vw_private_pool_retain(s->t.pool, registered, options));
    vw_test_forget_events(&s->t);
}

static void scene_open(scene *s, uint64_t capacity_bytes)
{
    const vw_private_options options = {.struct_size = sizeof options, .one_handle = true};
    const vw_test_pool_setup setup = {.engine = "vramwise",
                                      .capacity_bytes = capacity_bytes,
                                      .idle_share = 0.0001,
                                      .idle_floor_bytes = UNIT};
    scene_open_with(s, &setup, &options);
}

static vw_device_ptr take(scene *s, uint64_t size_bytes, vw_stream stream)
{
    vw_test_ok(&s->t, vw_private_pool_begin(s->t.pool, registered, NULL, NULL));
    vw_device_ptr block = vw_test_alloc_on(&s->t, size_bytes, stream);
    vw_test_ok(&s->t, vw_private_pool_end(s->t.pool, registered));
    vw_test_ok(&s->t, vw_private_pool_release(s->t.pool, registered)); /* the scope's */
    return block;
}

static void refuse(scene *s, uint64_t size_bytes)
{
    vw_test_ok(&s->t, vw_private_pool_begin(s->t.pool, registered, NULL, NULL));
    vw_test_alloc_fails(&s->t, size_bytes, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_ok(&s->t, vw_private_pool_end(s->t.pool, registered));
    vw_test_ok(&s->t, vw_private_pool_release(s->t.pool, registered));
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

/* Everything that was unmapped was unmapped after a wait for the stream that used it. */
static void expect_waited_for(const scene *s, vw_stream stream)
{
    const vw_test_call_made *waited = vw_test_spy_find(&s->spy, VW_TEST_STREAM_SYNCHRONIZE, NULL);
    const vw_test_call_made *unmapped = vw_test_spy_find(&s->spy, VW_TEST_UNMAP, NULL);
    assert_non_null(waited);
    assert_non_null(unmapped);
    assert_int_equal(waited->stream, stream);
    assert_true(waited < unmapped);
}

/* ---- one handle, one reservation, one segment ------------------------------------------------ */

static void a_segment_is_one_handle_in_a_reservation_of_its_own(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_device_ptr block = take(&s, 301 * VW_TEST_MIB, 0);
    const uint64_t bytes = 302 * VW_TEST_MIB;
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_RESERVE), 1);
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_CREATE), 1);
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_MAP), 1);
    assert_int_equal(vw_test_spy_find(&s.spy, VW_TEST_RESERVE, NULL)->size_bytes, bytes);
    assert_int_equal(vw_test_spy_find(&s.spy, VW_TEST_CREATE, NULL)->size_bytes, bytes);
    const vw_test_call_made *map = vw_test_spy_find(&s.spy, VW_TEST_MAP, NULL);
    assert_int_equal(map->address, block);
    assert_int_equal(map->size_bytes, bytes);
    vw_test_pool_close(&s.t);
}

static void listeners_and_walkers_see_a_plain_segment(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_device_ptr block = take(&s, 30 * VW_TEST_MIB, 0);
    vw_test_expect_events(&s.t, {VW_ACTION_SEGMENT_ALLOC, block, 30 * VW_TEST_MIB},
                          {VW_ACTION_ALLOC, block, 30 * VW_TEST_MIB});
    vw_segment_info segment = vw_test_segment_at(&s.t, block);
    assert_int_equal(segment.total_bytes, 30 * VW_TEST_MIB);
    assert_int_equal(segment.private_id.second, registered.second);
    assert_false(segment.is_expandable);
    assert_int_equal(vw_test_stats(&s.t).segment.large_pool.current, 1);
    vw_test_free(&s.t, block);
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, registered));
    vw_test_forget_events(&s.t);
    vw_test_trim(&s.t);
    vw_test_expect_events(&s.t, {VW_ACTION_SEGMENT_FREE, block, 30 * VW_TEST_MIB});
    assert_int_equal(vw_test_stats(&s.t).segment.all.current, 0);
    vw_test_pool_close(&s.t);
}

static void sizes_are_those_of_plain_segments_in_pytorch(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_device_ptr tiny = take(&s, 100, 0), large = take(&s, 3 * VW_TEST_MIB, 0);
    assert_int_equal(vw_test_segment_at(&s.t, tiny).total_bytes, 2 * VW_TEST_MIB);
    assert_int_equal(vw_test_segment_at(&s.t, large).total_bytes, 20 * VW_TEST_MIB);
    vw_device_ptr second = take(&s, 17 * VW_TEST_MIB, 0); /* out of the same segment */
    assert_int_equal(second, large + 3 * VW_TEST_MIB);
    assert_int_equal(held_bytes(&s), 22 * VW_TEST_MIB);
    vw_test_pool_close(&s.t);
}

static void neighbouring_segments_stay_apart(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_test_dictate(&s.t, VW_TEST_GIB);
    vw_test_dictate(&s.t, VW_TEST_GIB + 10 * VW_TEST_MIB);
    vw_device_ptr first = take(&s, 10 * VW_TEST_MIB, 0), second = take(&s, 10 * VW_TEST_MIB, 0);
    assert_int_equal(second, first + 10 * VW_TEST_MIB);
    vw_test_free(&s.t, first);
    vw_test_free(&s.t, second);
    vw_test_expect_blocks(&s.t, VW_TEST_FREE(first, 10 * VW_TEST_MIB),
                          VW_TEST_FREE(second, 10 * VW_TEST_MIB));
    assert_int_equal(vw_test_segment_at(&s.t, second).block_count, 1);
    assert_int_equal(take(&s, 10 * VW_TEST_MIB, 0), first);
    assert_true(take(&s, 20 * VW_TEST_MIB, 0) > second);
    vw_test_pool_close(&s.t);
}

/* ---- it stays where it is -------------------------------------------------------------------- */

static bool always(void *context)
{
    (void)context;
    return true;
}

static void leave(void *context)
{
    (void)context;
}

static void nothing_moves_copies_or_spills_it(void **state)
{
    (void)state;
    scene s;
    const vw_private_options options = {.struct_size = sizeof options, .one_handle = true};
    const vw_test_pool_setup setup = {.engine = "vramwise:rescue",
                                      .capacity_bytes = 64 * VW_TEST_MIB,
                                      .idle_share = 0.0001,
                                      .idle_floor_bytes = UNIT,
                                      .safe_point = {always, leave, NULL}};
    scene_open_with(&s, &setup, &options);
    vw_device_ptr block = take(&s, 40 * VW_TEST_MIB, 0), small = take(&s, 100, 0);
    vw_test_free(&s.t, block);
    block = take(&s, 2 * VW_TEST_MIB, 0); /* the segment is nearly empty, and in use */
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, registered));
    vw_test_spy_forget(&s.spy);
    vw_test_alloc_fails(&s.t, 40 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_trim(&s.t);
    assert_false(vw_test_spy_has_unmapped(&s.spy, block, 40 * VW_TEST_MIB));
    assert_int_equal(paged_stats(&s).moved_handles + paged_stats(&s).copied_bytes, 0);
    vw_test_free(&s.t, block);
    vw_test_free(&s.t, small);
    vw_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 0);
    vw_test_pool_close(&s.t);
}

static void a_pool_in_use_keeps_its_idle_segments(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr block = take(&s, 40 * VW_TEST_MIB, 0);
    vw_test_free(&s.t, block);
    vw_test_trim(&s.t);
    vw_test_alloc_fails(&s.t, 40 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_false(vw_test_spy_has_unmapped(&s.spy, block, 40 * VW_TEST_MIB));
    assert_int_equal(take(&s, 40 * VW_TEST_MIB, 0), block);
    vw_test_pool_close(&s.t);
}

static void a_segment_that_others_pinned_stays_until_they_are_done(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_device_ptr block = take(&s, 30 * VW_TEST_MIB, 0);
    vw_test_ok(&s.t, vw_pool_pin(s.t.pool, block));
    vw_test_free(&s.t, block);
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, registered));
    vw_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 30 * VW_TEST_MIB);
    vw_test_ok(&s.t, vw_pool_unpin(s.t.pool, block));
    vw_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 0);
    assert_null(s.t.pool->engine->private_pools);
    vw_test_pool_close(&s.t);
}

/* ---- giving back ----------------------------------------------------------------------------- */

static size_t position_of_event(const vw_test_pool *test, vw_action action)
{
    size_t i = 0;
    while (i < test->event_count && test->events[i].action != action)
        i++;
    assert_true(i < test->event_count);
    return i;
}

static struct {
    const vw_test_spy *spy;
    size_t unmaps_before;
} heard;

static void hear(void *context, const vw_memory_event *event)
{
    (void)context;
    if (event->action == VW_ACTION_SEGMENT_FREE)
        heard.unmaps_before = vw_test_spy_count(heard.spy, VW_TEST_UNMAP);
}

static void listeners_hear_of_the_end_while_the_memory_is_there(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_test_free(&s.t, take(&s, 30 * VW_TEST_MIB, 3));
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, registered));
    const vw_event_sink sink = {NULL, hear};
    heard.spy = &s.spy;
    heard.unmaps_before = 77;
    vw_test_ok(&s.t, vw_pool_set_sink(s.t.pool, &sink));
    vw_test_trim(&s.t);
    assert_int_equal(heard.unmaps_before, 0);
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_UNMAP), 1);
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_UNRESERVE), 1);
    expect_waited_for(&s, 3);
    vw_test_pool_close(&s.t);
}

static void a_segment_that_cannot_go_is_announced_again(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_device_ptr block = take(&s, 30 * VW_TEST_MIB, 0);
    vw_test_free(&s.t, block);
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, registered));
    vw_test_forget_events(&s.t);
    s.spy.refused_unmaps = 1;
    vw_test_refused(&s.t, vw_pool_trim(s.t.pool), VW_ERR_DEVICE);
    assert_true(position_of_event(&s.t, VW_ACTION_SEGMENT_FREE) <
                position_of_event(&s.t, VW_ACTION_SEGMENT_ALLOC));
    assert_int_equal(vw_test_segment_at(&s.t, block).total_bytes, 30 * VW_TEST_MIB);
    vw_test_trim(&s.t);
    assert_int_equal(held_bytes(&s), 0);
    vw_test_pool_close(&s.t);
}

static void idle_pages_of_others_make_room(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_test_free(&s.t, vw_test_alloc(&s.t, 60 * VW_TEST_MIB));
    vw_test_spy_forget(&s.spy);
    vw_device_ptr block = take(&s, 20 * VW_TEST_MIB, 3);
    assert_int_equal(vw_test_segment_at(&s.t, block).total_bytes, 20 * VW_TEST_MIB);
    assert_true(held_bytes(&s) > 40 * VW_TEST_MIB); /* no more of them than it takes */
    expect_waited_for(&s, 0);
    refuse(&s, 50 * VW_TEST_MIB);
    vw_test_pool_close(&s.t);
}

static void near_the_limit_a_segment_is_as_large_as_the_request(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_test_alloc(&s.t, 50 * VW_TEST_MIB);
    vw_device_ptr block = take(&s, 3 * VW_TEST_MIB, 0);
    assert_int_equal(vw_test_segment_at(&s.t, block).total_bytes, 4 * VW_TEST_MIB);
    vw_test_pool_close(&s.t);
}

static void the_limit_of_the_pool_is_for_whole_segments_too(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_test_ok(&s.t, vw_pool_set_fraction(s.t.pool, 0.0625)); /* 64 MiB */
    take(&s, 40 * VW_TEST_MIB, 0);
    refuse(&s, 30 * VW_TEST_MIB);
    take(&s, 24 * VW_TEST_MIB, 0);
    vw_test_pool_close(&s.t);
}

static void others_get_the_idle_segments_of_a_pool_that_nobody_uses(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr block = take(&s, 50 * VW_TEST_MIB, 0);
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, registered));
    vw_test_alloc_fails(&s.t, 40 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    vw_test_free(&s.t, block);
    vw_test_alloc(&s.t, 40 * VW_TEST_MIB);
    vw_test_pool_close(&s.t);
}

static void while_its_stream_is_captured_a_segment_stays(void **state)
{
    (void)state;
    static const vw_private_id graph = {7, 0};
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_test_free(&s.t, take(&s, 50 * VW_TEST_MIB, 3));
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, registered));
    vw_test_ok(&s.t, vw_private_pool_begin(s.t.pool, graph, NULL, NULL));
    assert_int_equal(vw_device_set_capturing(s.t.device, 3, true), VW_OK);
    vw_test_spy_forget(&s.spy);
    vw_test_alloc_fails(&s.t, 40 * VW_TEST_MIB, 3, VW_ERR_OUT_OF_MEMORY);
    vw_test_alloc_fails(&s.t, 40 * VW_TEST_MIB, 0, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_UNMAP), 0);
    assert_int_equal(vw_device_set_capturing(s.t.device, 3, false), VW_OK);
    vw_test_alloc_on(&s.t, 40 * VW_TEST_MIB, 0);
    vw_test_ok(&s.t, vw_private_pool_end(s.t.pool, graph));
    vw_test_pool_close(&s.t);
}

static void a_captured_stream_gets_a_segment_and_nobody_waits(void **state)
{
    (void)state;
    static const vw_test_call forbidden[] = {VW_TEST_EVENT_RECORD, VW_TEST_EVENT_SYNCHRONIZE,
                                             VW_TEST_STREAM_SYNCHRONIZE, VW_TEST_SYNCHRONIZE,
                                             VW_TEST_UNMAP};
    scene s;
    static const vw_private_id unused = {0, 6};
    const vw_private_options options = {.struct_size = sizeof options, .one_handle = true};
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_test_ok(&s.t, vw_private_pool_retain(s.t.pool, unused, &options));
    vw_test_ok(&s.t, vw_private_pool_begin(s.t.pool, unused, NULL, NULL));
    vw_test_free(&s.t, vw_test_alloc(&s.t, 50 * VW_TEST_MIB)); /* idle, and in the way */
    vw_test_ok(&s.t, vw_private_pool_end(s.t.pool, unused));
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, unused));
    vw_test_ok(&s.t, vw_private_pool_release(s.t.pool, unused));
    vw_test_ok(&s.t, vw_private_pool_begin(s.t.pool, registered, NULL, NULL));
    assert_int_equal(vw_device_set_capturing(s.t.device, 3, true), VW_OK);
    vw_test_spy_forget(&s.spy);
    vw_device_ptr block = vw_test_alloc_on(&s.t, 4 * VW_TEST_MIB, 3);
    assert_int_equal(vw_test_segment_at(&s.t, block).total_bytes, 4 * VW_TEST_MIB);
    vw_test_alloc_fails(&s.t, 40 * VW_TEST_MIB, 3, VW_ERR_OUT_OF_MEMORY);
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++)
        assert_int_equal(vw_test_spy_count(&s.spy, forbidden[i]), 0);
    assert_int_equal(vw_device_set_capturing(s.t.device, 3, false), VW_OK);
    vw_test_ok(&s.t, vw_private_pool_end(s.t.pool, registered));
    vw_test_pool_close(&s.t);
}

/* ---- what it shares with other private pools ------------------------------------------------- */

static void its_parts_go_to_another_process_as_one(void **state)
{
    (void)state;
    scene s;
    const vw_private_options options = {.struct_size = sizeof options, .one_handle = true};
    const vw_test_pool_setup setup = {.engine = "vramwise", .on_host = true, .is_shareable = true};
    scene_open_with(&s, &setup, &options);
    vw_device_ptr first = take(&s, 11 * VW_TEST_MIB, 0), second = take(&s, 200 * VW_TEST_MIB, 0);
    size_t count = 0;
    uint64_t offset_bytes = 0;
    vw_test_refused(&s.t, vw_pool_share(s.t.pool, second, NULL, 0, &count, &offset_bytes),
                    VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(count, 1);
    assert_int_equal(offset_bytes, 0);
    vw_block_place place;
    vw_test_ok(&s.t, vw_pool_find(s.t.pool, first, &place));
    assert_true(place.is_expandable); /* virtual memory, to be shared piece by piece */
    assert_int_equal(place.segment_bytes, 12 * VW_TEST_MIB);
    vw_test_pool_close(&s.t);
}

static void a_checkpoint_is_put_back(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_private_state *saved = NULL;
    vw_device_ptr first = take(&s, 30 * VW_TEST_MIB, 0);
    vw_test_ok(&s.t, vw_private_pool_checkpoint(s.t.pool, registered, &saved));
    vw_test_free(&s.t, first);
    vw_device_ptr second = take(&s, 50 * VW_TEST_MIB, 0);
    vw_test_ok(&s.t, vw_private_pool_restore(s.t.pool, saved, NULL));
    vw_test_expect_blocks(&s.t, VW_TEST_LIVE(first, 30 * VW_TEST_MIB),
                          VW_TEST_FREE(second, 50 * VW_TEST_MIB));
    vw_private_state_free(saved);
    vw_test_pool_close(&s.t);
}

/* Plain memory is of one piece anyway: only what could expand must not. */
static void engine_torch_makes_plain_segments_of_it(void **state)
{
    (void)state;
    scene s;
    const vw_private_options options = {.struct_size = sizeof options, .one_handle = true};
    const vw_test_pool_setup setup = {.conf = "expandable_segments:True"};
    scene_open_with(&s, &setup, &options);
    vw_device_ptr block = take(&s, 30 * VW_TEST_MIB, 0);
    assert_false(vw_test_segment_at(&s.t, block).is_expandable);
    assert_int_equal(vw_test_spy_count(&s.spy, VW_TEST_MAP), 0);
    assert_true(vw_test_segment_at(&s.t, vw_test_alloc(&s.t, 30 * VW_TEST_MIB)).is_expandable);
    vw_test_pool_close(&s.t);
}

/* What is parked can leave. */
static void a_region_has_no_such_segments(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, VW_TEST_GIB);
    vw_test_ok(&s.t, vw_private_pool_set_region(s.t.pool, registered, "weights", true));
    assert_true(vw_test_segment_at(&s.t, take(&s, 30 * VW_TEST_MIB, 0)).is_expandable);
    vw_test_pool_close(&s.t);

    scene_open(&s, VW_TEST_GIB);
    vw_device_ptr block = take(&s, 30 * VW_TEST_MIB, 0);
    vw_test_refused(&s.t, vw_private_pool_set_region(s.t.pool, registered, "weights", true),
                    VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "segments of one handle"));
    assert_false(vw_test_segment_at(&s.t, block).is_expandable);
    vw_test_pool_close(&s.t);
}

/* A caller that was built before the option existed: what lies behind its struct is not read. */
static void callers_of_older_headers_get_what_they_got(void **state)
{
    (void)state;
    scene s;
    const vw_private_options options = {.struct_size = offsetof(vw_private_options, one_handle),
                                        .one_handle = true};
    const vw_test_pool_setup setup = {.engine = "vramwise"};
    scene_open_with(&s, &setup, &options);
    assert_true(vw_test_segment_at(&s.t, take(&s, 30 * VW_TEST_MIB, 0)).is_expandable);
    vw_test_pool_close(&s.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_is_one_handle_in_a_reservation_of_its_own),
        cmocka_unit_test(listeners_and_walkers_see_a_plain_segment),
        cmocka_unit_test(sizes_are_those_of_plain_segments_in_pytorch),
        cmocka_unit_test(neighbouring_segments_stay_apart),
        cmocka_unit_test(nothing_moves_copies_or_spills_it),
        cmocka_unit_test(a_pool_in_use_keeps_its_idle_segments),
        cmocka_unit_test(a_segment_that_others_pinned_stays_until_they_are_done),
        cmocka_unit_test(listeners_hear_of_the_end_while_the_memory_is_there),
        cmocka_unit_test(a_segment_that_cannot_go_is_announced_again),
        cmocka_unit_test(idle_pages_of_others_make_room),
        cmocka_unit_test(near_the_limit_a_segment_is_as_large_as_the_request),
        cmocka_unit_test(the_limit_of_the_pool_is_for_whole_segments_too),
        cmocka_unit_test(others_get_the_idle_segments_of_a_pool_that_nobody_uses),
        cmocka_unit_test(while_its_stream_is_captured_a_segment_stays),
        cmocka_unit_test(a_captured_stream_gets_a_segment_and_nobody_waits),
        cmocka_unit_test(its_parts_go_to_another_process_as_one),
        cmocka_unit_test(a_checkpoint_is_put_back),
        cmocka_unit_test(engine_torch_makes_plain_segments_of_it),
        cmocka_unit_test(a_region_has_no_such_segments),
        cmocka_unit_test(callers_of_older_headers_get_what_they_got),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
