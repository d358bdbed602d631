/* test_paged_streams.c - moves between streams, and within one: which events are recorded, who
 * waits for whom, and when an old mapping goes.
 *
 * The simulated device's streams are held, so that nothing is complete before a test says so, and a
 * spy between pool and device keeps the order of calls. */
#include "engine/paged/paged_engine.h"

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"
#include "support/pool_layout.h"

#define UNIT (2 * VW_TEST_MIB)

typedef struct scene {
    vw_test_pool t;
    vw_test_spy spy;
} scene;

static void scene_open(scene *s, uint64_t capacity_bytes)
{
    s->spy = (vw_test_spy){.call_count = 0};
    vw_test_pool_open(&s->t, &(vw_test_pool_setup){.engine = "vramwise",
                                                   .capacity_bytes = capacity_bytes,
                                                   .idle_share = 0.0001,
                                                   .idle_floor_bytes = UNIT,
                                                   .manual_streams = true,
                                                   .spy = &s->spy});
}

static vw_paged_stats paged_stats(const scene *s)
{
    vw_paged_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_paged_stats(s->t.pool, &stats), VW_OK);
    return stats;
}

static size_t count(const scene *s, vw_test_call call)
{
    return vw_test_spy_count(&s->spy, call);
}

/* No call in which the host waits. */
static void expect_no_wait(const scene *s)
{
    assert_int_equal(count(s, VW_TEST_SYNCHRONIZE), 0);
    assert_int_equal(count(s, VW_TEST_STREAM_SYNCHRONIZE), 0);
    assert_int_equal(count(s, VW_TEST_EVENT_SYNCHRONIZE), 0);
    assert_int_equal(vw_test_call_count(&s->t, VW_DEVICE_CALL_SYNCHRONIZE), 0);
}

/* ---- one stream ------------------------------------------------------------------------------ */

/* Small and large blocks have different addresses: between them, memory moves on one stream. */
static void a_move_within_a_stream_records_one_event_and_waits_for_nothing(void **state)
{
    (void)state;
    scene s;
    vw_device_ptr small[20];
    scene_open(&s, 64 * VW_TEST_MIB);
    for (int i = 0; i < 20; i++)
        small[i] = vw_test_alloc_on(&s.t, VW_TEST_MIB, 5);
    for (int i = 0; i < 20; i++)
        vw_test_free(&s.t, small[i]);
    assert_int_equal(count(&s, VW_TEST_EVENT_RECORD), 0);
    vw_test_spy_forget(&s.spy);

    vw_test_alloc_on(&s.t, 20 * VW_TEST_MIB, 5);
    assert_true(paged_stats(&s).moved_handles >= 8);
    assert_int_equal(paged_stats(&s).crossed_handles, 0);
    assert_int_equal(count(&s, VW_TEST_EVENT_RECORD), 1);
    assert_int_equal(vw_test_spy_find(&s.spy, VW_TEST_EVENT_RECORD, NULL)->stream, 5);
    assert_int_equal(count(&s, VW_TEST_STREAM_WAIT_EVENT), 0);
    assert_int_equal(count(&s, VW_TEST_UNMAP), 0);
    assert_int_equal(count(&s, VW_TEST_MAP), count(&s, VW_TEST_SET_ACCESS));
    expect_no_wait(&s);
    vw_test_pool_close(&s.t);
}

static void hits_and_growth_record_no_event(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 256 * VW_TEST_MIB);
    for (int round = 0; round < 3; round++) {
        vw_device_ptr a = vw_test_alloc_on(&s.t, 40 * VW_TEST_MIB, 0);
        vw_device_ptr b = vw_test_alloc_on(&s.t, 3000, 0);
        vw_device_ptr c = vw_test_alloc_on(&s.t, 20 * VW_TEST_MIB, 1);
        vw_test_free(&s.t, b);
        vw_test_free(&s.t, a);
        vw_test_free(&s.t, c);
    }
    assert_int_equal(paged_stats(&s).moved_handles, 0);
    assert_int_equal(count(&s, VW_TEST_EVENT_RECORD), 0);
    assert_int_equal(count(&s, VW_TEST_EVENT_QUERY), 0);
    expect_no_wait(&s);
    vw_test_pool_close(&s.t);
}

/* ---- two streams ----------------------------------------------------------------------------- */

static void another_stream_waits_on_the_device_for_the_stream_of_last_use(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 1));
    vw_test_spy_forget(&s.spy);
    vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 2);
    assert_true(paged_stats(&s).crossed_handles > 1);
    assert_int_equal(count(&s, VW_TEST_EVENT_RECORD), 1);
    const vw_test_call_made *recorded = vw_test_spy_find(&s.spy, VW_TEST_EVENT_RECORD, NULL);
    assert_int_equal(recorded->stream, 1);
    const vw_test_call_made *waited = vw_test_spy_find(&s.spy, VW_TEST_STREAM_WAIT_EVENT, NULL);
    assert_non_null(waited);
    assert_true(waited > recorded);
    for (; waited != NULL; waited = vw_test_spy_find(&s.spy, VW_TEST_STREAM_WAIT_EVENT, waited)) {
        assert_int_equal(waited->stream, 2);
        assert_int_equal(waited->event, recorded->event);
    }
    assert_int_equal(count(&s, VW_TEST_UNMAP), 0);
    assert_int_equal(paged_stats(&s).retiring_bytes, paged_stats(&s).moved_bytes);
    expect_no_wait(&s);
    vw_test_pool_close(&s.t);
}

/* From 1 to 2 to 3: each is ordered after the one before, and so after all of them. */
static void a_second_move_is_ordered_after_the_first(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 32 * VW_TEST_MIB);
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 1));
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 2));
    vw_test_spy_forget(&s.spy);
    vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 3);
    const vw_test_call_made *recorded = NULL;
    bool after_second = false;
    while ((recorded = vw_test_spy_find(&s.spy, VW_TEST_EVENT_RECORD, recorded)) != NULL)
        after_second |= recorded->stream == 2;
    assert_true(after_second);
    assert_true(count(&s, VW_TEST_STREAM_WAIT_EVENT) > 0);
    expect_no_wait(&s);
    vw_test_pool_close(&s.t);
}

/* A ghost that is wanted again is another move: the stream that had the memory meanwhile is waited
 * for. But nothing is mapped. */
static void a_revived_ghost_is_ordered_and_calls_for_no_mapping(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr first = vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 1);
    vw_test_free(&s.t, first);
    vw_device_ptr second = vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 2);
    vw_test_free(&s.t, second);
    for (int round = 0; round < 4; round++) {
        vw_stream stream = round % 2 == 0 ? 1 : 2;
        vw_test_spy_forget(&s.spy);
        vw_device_ptr again = vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, stream);
        assert_int_equal(again, stream == 1 ? first : second);
        vw_test_free(&s.t, again);
        assert_int_equal(count(&s, VW_TEST_MAP), 0);
        assert_int_equal(count(&s, VW_TEST_UNMAP), 0);
        assert_int_equal(count(&s, VW_TEST_SET_ACCESS), 0);
        assert_int_equal(count(&s, VW_TEST_CREATE), 0);
        assert_int_equal(count(&s, VW_TEST_EVENT_RECORD), 1);
        assert_int_equal(vw_test_spy_find(&s.spy, VW_TEST_EVENT_RECORD, NULL)->stream, 3 - stream);
        const vw_test_call_made *waited = vw_test_spy_find(&s.spy, VW_TEST_STREAM_WAIT_EVENT, NULL);
        assert_non_null(waited);
        assert_int_equal(waited->stream, stream);
    }
    expect_no_wait(&s);
    vw_test_pool_close(&s.t);
}

/* ---- when an old mapping goes ---------------------------------------------------------------- */

/* One unit wanders from stream to stream. Its oldest ghost goes at last, when its event is
 * complete and not before. */
static void an_old_mapping_goes_after_its_event_is_complete(void **state)
{
    (void)state;
    enum { HELD_STREAMS = 40 };
    scene s;
    vw_device_ptr first = VW_NULL;
    scene_open(&s, UNIT);
    for (vw_stream stream = 0; stream < HELD_STREAMS; stream++) {
        vw_device_ptr block = vw_test_alloc_on(&s.t, VW_TEST_MIB, stream);
        first = stream == 0 ? block : first;
        vw_test_free(&s.t, block);
    }
    assert_int_equal(count(&s, VW_TEST_UNMAP), 0);
    assert_int_equal(paged_stats(&s).retiring_bytes, (HELD_STREAMS - 1) * UNIT);

    assert_int_equal(vw_device_complete(s.t.device, 1), VW_OK); /* not the oldest: nothing goes */
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, VW_TEST_MIB, HELD_STREAMS));
    assert_int_equal(count(&s, VW_TEST_UNMAP), 0);
    assert_int_equal(vw_device_complete(s.t.device, 0), VW_OK);
    vw_test_free(&s.t, vw_test_alloc_on(&s.t, VW_TEST_MIB, HELD_STREAMS + 1));
    assert_true(count(&s, VW_TEST_UNMAP) >= 1);
    assert_int_equal(vw_test_spy_find(&s.spy, VW_TEST_UNMAP, NULL)->address, first);
    assert_int_equal(vw_test_spy_find(&s.spy, VW_TEST_UNMAP, NULL)->size_bytes, UNIT);
    expect_no_wait(&s);
    vw_test_pool_close(&s.t);
}

/* The ghosts are waited for one by one, then their homes' streams; the device as a whole never. */
static void a_trim_waits_for_each_stream_before_it_unmaps(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr first = vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 1);
    vw_test_free(&s.t, first);
    vw_device_ptr second = vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 2);
    vw_test_free(&s.t, second);
    vw_test_spy_forget(&s.spy);
    vw_test_trim(&s.t);
    assert_int_equal(vw_test_stats(&s.t).reserved_bytes.all.current, 0);
    assert_int_equal(paged_stats(&s).retiring_bytes, 0);
    assert_int_equal(paged_stats(&s).handle_count, 0);
    assert_int_equal(count(&s, VW_TEST_SYNCHRONIZE), 0);
    const vw_test_call_made *waited = vw_test_spy_find(&s.spy, VW_TEST_STREAM_SYNCHRONIZE, NULL);
    assert_non_null(waited);
    for (const vw_test_call_made *unmapped = NULL;
         (unmapped = vw_test_spy_find(&s.spy, VW_TEST_UNMAP, unmapped)) != NULL;) {
        bool is_of_second =
            unmapped->address >= second && unmapped->address - second < 64 * VW_TEST_MIB;
        bool was_waited_for = false;
        for (const vw_test_call_made *made = s.spy.calls; made < unmapped; made++)
            was_waited_for |=
                is_of_second ? made->call == VW_TEST_STREAM_SYNCHRONIZE && made->stream == 2
                             : (made->call == VW_TEST_EVENT_SYNCHRONIZE && made->status == VW_OK) ||
                                   (made->call == VW_TEST_EVENT_QUERY && made->status == VW_OK) ||
                                   (made->call == VW_TEST_STREAM_SYNCHRONIZE && made->stream == 1);
        assert_true(was_waited_for);
    }
    assert_int_equal(vw_test_call_count(&s.t, VW_DEVICE_CALL_RESERVE),
                     vw_test_call_count(&s.t, VW_DEVICE_CALL_UNRESERVE));
    vw_test_pool_close(&s.t);
}

/* ---- record_stream --------------------------------------------------------------------------- */

static void memory_that_waits_for_another_stream_does_not_move(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr block = vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 1);
    vw_test_ok(&s.t, vw_record_stream(s.t.pool, block, 2));
    vw_test_free(&s.t, block);
    vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 3); /* the rest of the device */
    assert_int_equal(paged_stats(&s).moved_handles, 0);
    vw_test_expect_stat(vw_test_stats(&s.t).active.all, 2, 2, 2, 0);

    assert_int_equal(vw_device_complete(s.t.device, 2), VW_OK);
    vw_test_spy_forget(&s.spy);
    vw_test_alloc_on(&s.t, 30 * VW_TEST_MIB, 4);
    assert_true(paged_stats(&s).crossed_handles > 0);
    assert_int_equal(vw_test_spy_find(&s.spy, VW_TEST_EVENT_RECORD, NULL)->stream, 1);
    expect_no_wait(&s);
    vw_test_pool_close(&s.t);
}

/* Rather than run out of memory the pool waits for it, as PyTorch does. */
static void a_request_that_would_run_out_waits_for_pending_memory(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr block = vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 1);
    vw_test_ok(&s.t, vw_record_stream(s.t.pool, block, 2));
    vw_test_free(&s.t, block);
    vw_test_alloc_on(&s.t, 40 * VW_TEST_MIB, 3);
    assert_int_equal(vw_test_stats(&s.t).active.all.current, 1);
    assert_int_equal(vw_test_stats(&s.t).num_alloc_retries, 1);
    vw_test_pool_close(&s.t);
}

static void a_wait_that_the_device_refuses_leaves_the_pool_as_it_was(void **state)
{
    (void)state;
    scene s;
    scene_open(&s, 64 * VW_TEST_MIB);
    vw_device_ptr block = vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 1);
    vw_test_free(&s.t, block);
    s.spy.refused_wait_events = 1;
    vw_test_alloc_fails(&s.t, 60 * VW_TEST_MIB, 2, VW_ERR_DEVICE);
    assert_int_equal(s.spy.refused_wait_events, 0);
    assert_int_equal(paged_stats(&s).moved_handles, 0);
    assert_int_equal(vw_test_alloc_on(&s.t, 60 * VW_TEST_MIB, 1), block);
    vw_test_pool_close(&s.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_move_within_a_stream_records_one_event_and_waits_for_nothing),
        cmocka_unit_test(hits_and_growth_record_no_event),
        cmocka_unit_test(another_stream_waits_on_the_device_for_the_stream_of_last_use),
        cmocka_unit_test(a_second_move_is_ordered_after_the_first),
        cmocka_unit_test(a_revived_ghost_is_ordered_and_calls_for_no_mapping),
        cmocka_unit_test(an_old_mapping_goes_after_its_event_is_complete),
        cmocka_unit_test(a_trim_waits_for_each_stream_before_it_unmaps),
        cmocka_unit_test(memory_that_waits_for_another_stream_does_not_move),
        cmocka_unit_test(a_request_that_would_run_out_waits_for_pending_memory),
        cmocka_unit_test(a_wait_that_the_device_refuses_leaves_the_pool_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
