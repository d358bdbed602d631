/* test_stream_order.c - a block that other streams use is not reused before they are done with it.
 *
 * The simulated device's streams complete when told, so each test says when work finishes. The pool
 * looks at events only when it allocates: poke() makes it look. */
#include "pool/stream_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/host_memory.h"
#include "pool/pool.h"

#include "support/cmocka_here.h"
#include "support/pool_fixture.h"

enum { POKE_STREAM = 99 };

static const vw_private_id first_pool = {1, 0}, second_pool = {2, 0};

static void open_on(vw_test_pool *t, const char *torch_version)
{
    vw_test_pool_open(
        t, &(vw_test_pool_setup){.manual_streams = true, .torch_version = torch_version});
}

static void use(vw_test_pool *t, vw_device_ptr address, vw_stream stream)
{
    vw_test_ok(t, vw_record_stream(t->pool, address, stream));
}

static void complete(vw_test_pool *t, vw_stream stream)
{
    assert_int_equal(vw_device_complete(t->device, stream), VW_OK);
}

static void fail_next_call(vw_test_pool *t)
{
    assert_int_equal(vw_device_fail_call(t->device, 1, VW_ERR_DEVICE), VW_OK);
}

static uint64_t count_of(vw_test_pool *t, vw_device_call kind)
{
    return vw_test_calls(t).count[kind];
}

/* Makes the pool look at its events; a stream of its own keeps the others' blocks out of it. */
static void poke(vw_test_pool *t)
{
    vw_test_free(t, vw_test_alloc_on(t, 1, POKE_STREAM));
}

/* Pokes, and compares the frees that were completed, in order, with `expected`. */
static void expect_completed_array(vw_test_pool *t, const vw_device_ptr *expected, size_t count,
                                   int line)
{
    vw_test_forget_events(t);
    poke(t);
    size_t found = 0;
    for (size_t i = 0; i < t->event_count; i++) {
        const vw_memory_event *event = &t->events[i];
        if (event->action != VW_ACTION_FREE_COMPLETED || event->stream == POKE_STREAM)
            continue;
        if (found >= count || event->address != expected[found])
            _fail(__FILE__, line);
        found++;
    }
    if (found != count)
        _fail(__FILE__, line);
}

#define expect_completed(t, ...)                                                                   \
    expect_completed_array(t, (const vw_device_ptr[]){__VA_ARGS__},                                \
                           sizeof((const vw_device_ptr[]){__VA_ARGS__}) / sizeof(vw_device_ptr),   \
                           __LINE__)
#define expect_none_completed(t) expect_completed_array(t, NULL, 0, __LINE__)

/* ---- announcing ------------------------------------------------------------------------------ */

static void a_blocks_own_stream_needs_no_announcement(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc_on(&t, 100, 5);
    use(&t, a, 5);
    vw_test_forget_events(&t);
    vw_test_free(&t, a);
    vw_test_expect_events(&t, {VW_ACTION_FREE_REQUESTED, a, 100},
                          {VW_ACTION_FREE_COMPLETED, a, 100});
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_CREATE), 0);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 0);
    vw_test_pool_close(&t);
}

static void only_live_blocks_can_be_announced(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 4096);
    vw_test_ok(&t, vw_record_stream(t.pool, VW_NULL, 1));
    vw_test_refused(&t, vw_record_stream(t.pool, a + 512, 1), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_refused(&t, vw_record_stream(t.pool, 12345, 1), VW_ERR_UNKNOWN_ADDRESS);
    use(&t, a, 1);
    vw_test_free(&t, a); /* pending now */
    vw_test_refused(&t, vw_record_stream(t.pool, a, 1), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_refused(&t, vw_free(t.pool, a), VW_ERR_UNKNOWN_ADDRESS);
    vw_block_place place;
    vw_test_refused(&t, vw_pool_find(t.pool, a, &place), VW_ERR_UNKNOWN_ADDRESS);
    complete(&t, 1);
    expect_completed(&t, a);
    vw_test_pool_close(&t);
}

static void a_stream_named_twice_is_waited_for_once(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 4096);
    for (int i = 0; i < 5; i++)
        use(&t, a, 1);
    vw_test_free(&t, a);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_CREATE), 1);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 1);
    complete(&t, 1);
    expect_completed(&t, a);
    vw_test_pool_close(&t);
}

static void a_use_that_is_taken_back_is_not_waited_for(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 4096), b = vw_test_alloc(&t, 4096);
    for (vw_stream stream = 1; stream <= 3; stream++) {
        use(&t, a, stream);
        use(&t, b, stream);
    }
    vw_test_ok(&t, vw_unrecord_stream(t.pool, VW_NULL, 1));
    vw_test_refused(&t, vw_unrecord_stream(t.pool, a + 512, 1), VW_ERR_UNKNOWN_ADDRESS);
    vw_test_ok(&t, vw_unrecord_stream(t.pool, a, 7)); /* which never used it */
    vw_test_ok(&t, vw_unrecord_stream(t.pool, a, 2)); /* from the middle */
    vw_test_free(&t, a);
    complete(&t, 1);
    expect_none_completed(&t);
    complete(&t, 3);
    expect_completed(&t, a);
    for (vw_stream stream = 1; stream <= 3; stream++)
        vw_test_ok(&t, vw_unrecord_stream(t.pool, b, stream));
    vw_test_forget_events(&t);
    vw_test_free(&t, b);
    vw_test_expect_events(&t, {VW_ACTION_FREE_REQUESTED, b, 4096},
                          {VW_ACTION_FREE_COMPLETED, b, 4096});
    vw_test_pool_close(&t);
}

static void events_are_used_again(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    for (int i = 0; i < 20; i++) {
        vw_device_ptr a = vw_test_alloc(&t, 4096), b = vw_test_alloc(&t, 4096);
        use(&t, a, 1);
        use(&t, b, 2);
        vw_test_free(&t, a);
        vw_test_free(&t, b);
        complete(&t, 1);
        complete(&t, 2);
        poke(&t);
        assert_int_equal(t.pool->order.pending_count, 0);
    }
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_CREATE), 2);
    vw_test_pool_close(&t);
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void a_block_is_not_reused_before_the_other_stream_is_done(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    const uint64_t size_bytes = 30 * VW_TEST_MIB; /* a segment of its own */
    vw_device_ptr a = vw_test_alloc(&t, size_bytes);
    use(&t, a, 1);
    vw_test_forget_events(&t);
    vw_test_free(&t, a);
    vw_test_expect_events(&t, {VW_ACTION_FREE_REQUESTED, a, size_bytes});
    vw_pool_stats stats = vw_test_stats(&t);
    assert_int_equal(stats.allocation.all.current, 0);
    assert_int_equal(stats.active.all.current, 1);
    assert_int_equal(stats.active_bytes.all.current, size_bytes);
    assert_int_equal(stats.requested_bytes.all.current, size_bytes);
    char *picture = vw_test_describe(&t);
    assert_non_null(strstr(picture, "pending"));
    free(picture);

    vw_device_ptr b = vw_test_alloc(&t, size_bytes);
    assert_int_not_equal(b, a);
    complete(&t, 2); /* not the one it waits for */
    vw_device_ptr c = vw_test_alloc(&t, size_bytes);
    assert_int_not_equal(c, a);
    complete(&t, 1);
    vw_test_forget_events(&t);
    vw_device_ptr d = vw_test_alloc(&t, size_bytes);
    assert_int_equal(d, a);
    vw_test_expect_events(&t, {VW_ACTION_FREE_COMPLETED, a, size_bytes},
                          {VW_ACTION_ALLOC, a, size_bytes});
    vw_test_pool_close(&t);
}

static void a_block_waits_for_all_of_its_streams(void **state)
{
    (void)state;
    for (unsigned order = 0; order < 6; order++) { /* every order in which three streams end */
        static const vw_stream orders[6][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3},
                                               {2, 3, 1}, {3, 1, 2}, {3, 2, 1}};
        vw_test_pool t;
        open_on(&t, NULL);
        vw_device_ptr a = vw_test_alloc(&t, 100);
        for (vw_stream stream = 1; stream <= 3; stream++)
            use(&t, a, stream);
        vw_test_free(&t, a);
        expect_none_completed(&t);
        for (int i = 0; i < 2; i++) {
            complete(&t, orders[order][i]);
            expect_none_completed(&t);
        }
        complete(&t, orders[order][2]);
        expect_completed(&t, a);
        vw_test_pool_close(&t);
    }
}

static void frees_of_one_stream_complete_in_their_order(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 3000), b = vw_test_alloc(&t, 3000),
                  c = vw_test_alloc(&t, 3000);
    use(&t, a, 1);
    use(&t, b, 1);
    use(&t, c, 1);
    vw_test_free(&t, b);
    vw_test_free(&t, c);
    vw_test_free(&t, a);
    complete(&t, 1);
    expect_completed(&t, b, c, a);
    vw_test_pool_close(&t);
}

static void the_first_incomplete_event_holds_up_its_own_queue_only(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 3000), b = vw_test_alloc(&t, 3000),
                  c = vw_test_alloc(&t, 3000), d = vw_test_alloc(&t, 3000);
    use(&t, a, 1);
    use(&t, b, 1);
    use(&t, c, 2);
    use(&t, d, 2);
    vw_test_free(&t, a);
    complete(&t, 1); /* a's event is complete, b's will not be */
    vw_test_free(&t, b);
    vw_test_free(&t, c);
    vw_test_free(&t, d);
    expect_completed(&t, a);
    complete(&t, 2);
    uint64_t queries = count_of(&t, VW_DEVICE_CALL_EVENT_QUERY);
    expect_completed(&t, c, d);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_QUERY) - queries, 3); /* b, c, d */
    complete(&t, 1);
    expect_completed(&t, b);
    vw_test_pool_close(&t);
}

static void a_waiting_block_does_not_merge_with_its_neighbours(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512), b = vw_test_alloc(&t, 512),
                  c = vw_test_alloc(&t, 512);
    use(&t, b, 1);
    vw_test_free(&t, b);
    vw_test_free(&t, a);
    vw_test_free(&t, c);
    assert_int_equal(vw_test_stats(&t).inactive_split.all.current, 2);
    complete(&t, 1);
    expect_completed(&t, b);
    assert_int_equal(vw_test_stats(&t).largest_free_block_bytes, 2 * VW_TEST_MIB);
    vw_test_pool_close(&t);
}

static void freeing_needs_no_host_memory(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    for (int is_known = 0; is_known < 2; is_known++) { /* the device itself notes a new stream */
        vw_device_ptr a = vw_test_alloc(&t, 512);
        use(&t, a, 1);
        use(&t, a, 2);
        uint64_t calls = vw__host_memory_get_use().call_count;
        assert_int_equal(vw_free(t.pool, a), VW_OK);
        if (is_known)
            assert_int_equal(vw__host_memory_get_use().call_count, calls);
    }
    vw_test_pool_close(&t);
}

/* ---- waiting for all of them ----------------------------------------------------------------- */

static void trim_waits_for_every_stream_and_gives_the_memory_back(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 30 * VW_TEST_MIB), b = vw_test_alloc_on(&t, 100, 3);
    use(&t, a, 1);
    use(&t, a, 2);
    use(&t, b, 1);
    vw_test_free(&t, a);
    vw_test_free(&t, b);
    vw_test_trim(&t);
    assert_int_equal(vw_test_calls(&t).in_use_bytes, 0);
    assert_int_equal(t.pool->order.pending_count, 0);
    assert_int_equal(vw_test_stats(&t).num_sync_all_streams, 1);
    vw_test_pool_close(&t);
}

static void a_request_that_finds_no_room_waits_for_pending_blocks(void **state)
{
    (void)state;
    vw_test_pool t;
    vw_test_pool_open(
        &t, &(vw_test_pool_setup){.manual_streams = true, .capacity_bytes = 100 * VW_TEST_MIB});
    vw_device_ptr a = vw_test_alloc(&t, 60 * VW_TEST_MIB);
    use(&t, a, 1);
    vw_test_free(&t, a);
    vw_test_forget_events(&t);
    vw_device_ptr b = vw_test_alloc(&t, 70 * VW_TEST_MIB);
    vw_test_expect_events(&t, {VW_ACTION_FREE_COMPLETED, a, 60 * VW_TEST_MIB},
                          {VW_ACTION_SEGMENT_FREE, a, 60 * VW_TEST_MIB},
                          {VW_ACTION_SEGMENT_ALLOC, b, 70 * VW_TEST_MIB},
                          {VW_ACTION_ALLOC, b, 70 * VW_TEST_MIB});
    vw_test_pool_close(&t);
}

/* Blocks of three owners wait in one queue. Whichever place the trimmed pool's have, the others
 * stay, in their order. */
static void trimming_one_private_pool_leaves_the_others_waiting(void **state)
{
    (void)state;
    static const int patterns[][4] = {{2, 1, 0, 1}, {1, 2, 0, 1}, {1, 0, 2, 1}, {1, 0, 1, 2},
                                      {2, 2, 1, 0}, {1, 2, 2, 0}, {0, 1, 2, 2}, {2, 1, 0, 2},
                                      {2, 1, 2, 0}, {1, 2, 1, 2}};
    for (size_t pattern = 0; pattern < sizeof patterns / sizeof patterns[0]; pattern++) {
        vw_test_pool t;
        open_on(&t, NULL);
        vw_device_ptr blocks[4], kept[4];
        size_t kept_count = 0;
        for (int i = 0; i < 4; i++) {
            int owner = patterns[pattern][i];
            const vw_private_id id = {(uint64_t)owner, 0};
            if (owner != 0)
                vw_test_ok(&t, vw_private_pool_begin(t.pool, id, NULL, NULL));
            blocks[i] = vw_test_alloc(&t, 4 * VW_TEST_MIB);
            if (owner != 0)
                vw_test_ok(&t, vw_private_pool_end(t.pool, id));
            use(&t, blocks[i], 1);
            if (owner != 2)
                kept[kept_count++] = blocks[i];
        }
        for (int i = 0; i < 4; i++)
            vw_test_free(&t, blocks[i]);
        while (vw_private_pool_use_count(t.pool, second_pool) > 0)
            vw_test_ok(&t, vw_private_pool_release(t.pool, second_pool));
        vw_test_ok(&t, vw_private_pool_trim(t.pool, second_pool));
        assert_int_equal(t.pool->order.pending_count, kept_count);
        complete(&t, 1); /* what came before a trimmed block was complete when its event was */
        expect_completed_array(&t, kept, kept_count, __LINE__);
        vw_test_pool_close(&t);
    }
}

/* ---- captures -------------------------------------------------------------------------------- */

/* Streams 1 and 2 join a capture, or leave it. */
static void set_capturing(vw_test_pool *t, bool is_capturing)
{
    for (vw_stream stream = 1; stream <= 2; stream++)
        assert_int_equal(vw_device_set_capturing(t->device, stream, is_capturing), VW_OK);
}

static void begin(vw_test_pool *t, vw_private_id id)
{
    vw_test_ok(t, vw_private_pool_begin(t->pool, id, NULL, NULL));
    set_capturing(t, true);
}

static void end(vw_test_pool *t, vw_private_id id)
{
    set_capturing(t, false);
    vw_test_ok(t, vw_private_pool_end(t->pool, id));
}

static void frees_during_a_capture_are_deferred_until_it_ends(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512), b = vw_test_alloc(&t, 512);
    use(&t, a, 1);
    use(&t, b, 1);
    begin(&t, first_pool);
    vw_test_free(&t, b);
    vw_test_free(&t, a);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 0);
    complete(&t, 1);
    expect_none_completed(&t);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_QUERY), 0);
    end(&t, first_pool);
    expect_none_completed(&t); /* only now are their events recorded */
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 2);
    complete(&t, 1);
    expect_completed(&t, b, a);
    vw_test_pool_close(&t);
}

static void uses_announced_in_a_capture_are_dropped_when_it_ends(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    begin(&t, first_pool);
    vw_device_ptr a = vw_test_alloc(&t, 512), b = vw_test_alloc(&t, 512);
    use(&t, b, 1);
    use(&t, a, 1);
    use(&t, a, 2);
    vw_test_free(&t, b);
    vw_test_free(&t, a);
    expect_none_completed(&t);
    end(&t, first_pool);
    expect_completed(&t, b, a);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 0);
    vw_test_pool_close(&t);
}

static void of_uses_from_before_and_during_a_capture_the_former_count(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512), b = vw_test_alloc(&t, 512);
    use(&t, a, 1);
    use(&t, b, 1);
    begin(&t, first_pool);
    use(&t, a, 2);
    use(&t, b, 1); /* named in the capture, too */
    vw_test_free(&t, a);
    vw_test_free(&t, b);
    end(&t, first_pool);
    expect_none_completed(&t);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 2);
    complete(&t, 2);
    expect_none_completed(&t);
    complete(&t, 1);
    expect_completed(&t, a, b);
    vw_test_pool_close(&t);
}

/* Releases before 2.13 take every scope for a capture, and forget the use. */
static void a_use_announced_in_a_scope_without_a_capture_is_waited_for(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512);
    vw_test_ok(&t, vw_private_pool_begin(t.pool, first_pool, NULL, NULL));
    use(&t, a, 1);
    vw_test_free(&t, a);
    vw_test_ok(&t, vw_private_pool_end(t.pool, first_pool));
    expect_none_completed(&t);
    complete(&t, 1);
    expect_completed(&t, a);
    vw_test_pool_close(&t);
}

static void a_block_freed_after_the_capture_waits_for_uses_from_within(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    begin(&t, first_pool);
    vw_device_ptr a = vw_test_alloc(&t, 512);
    use(&t, a, 1);
    end(&t, first_pool);
    vw_test_ok(&t, vw_unrecord_stream(t.pool, a, 1)); /* the graph may run again */
    vw_test_free(&t, a);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 1);
    expect_none_completed(&t);
    complete(&t, 1);
    expect_completed(&t, a);
    vw_test_pool_close(&t);
}

/* However early the stream was announced first: the graph runs again. */
static void a_use_that_is_also_in_a_graph_is_not_taken_back(void **state)
{
    (void)state;
    for (int is_freed_within = 0; is_freed_within < 2; is_freed_within++) {
        vw_test_pool t;
        open_on(&t, NULL);
        vw_device_ptr a = vw_test_alloc(&t, 512);
        use(&t, a, 1);
        begin(&t, first_pool);
        use(&t, a, 1);
        vw_test_ok(&t, vw_unrecord_stream(t.pool, a, 1));
        if (is_freed_within)
            vw_test_free(&t, a);
        expect_none_completed(&t);
        end(&t, first_pool);
        vw_test_ok(&t, is_freed_within ? VW_OK : vw_unrecord_stream(t.pool, a, 1));
        if (!is_freed_within)
            vw_test_free(&t, a);
        expect_none_completed(&t);
        assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 1);
        complete(&t, 1);
        expect_completed(&t, a);
        vw_test_pool_close(&t);
    }
}

/* From 2.13 on only a stream that really captures defers. */
static void newer_releases_ask_the_device_whether_a_stream_captures(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, "2.13");
    vw_device_ptr a = vw_test_alloc_on(&t, 512, 5), b = vw_test_alloc_on(&t, 512, 6);
    use(&t, a, 3);
    use(&t, b, 3);
    begin(&t, first_pool);
    assert_int_equal(vw_device_set_capturing(t.device, 6, true), VW_OK);
    vw_test_free(&t, a);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 1);
    vw_test_free(&t, b);
    assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 1);
    assert_int_equal(t.pool->order.pending_count, 2);
    end(&t, first_pool);
    vw_test_pool_close(&t);
}

/* Its own stream is not captured, but one that uses it: an event there would be the graph's. */
static void a_block_that_a_captured_stream_uses_waits_for_the_end(void **state)
{
    (void)state;
    const vw_test_pool_setup setups[] = {{.manual_streams = true, .torch_version = "2.12"},
                                         {.manual_streams = true, .torch_version = "2.13"},
                                         {.manual_streams = true, .engine = "vramwise"}};
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
        vw_test_pool t;
        vw_test_pool_open(&t, &setups[i]);
        vw_device_ptr before = vw_test_alloc_on(&t, 512, 5), within = vw_test_alloc_on(&t, 512, 5);
        use(&t, before, 1);
        begin(&t, first_pool);
        use(&t, within, 1);
        vw_test_free(&t, before);
        vw_test_free(&t, within);
        assert_int_equal(t.pool->order.pending_count, 2);
        expect_none_completed(&t);
        assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 0);
        end(&t, first_pool);
        expect_completed(&t, within);
        assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 1);
        complete(&t, 1);
        expect_completed(&t, before);
        vw_test_pool_close(&t);
    }
}

static vw_status nobody_knows(void *context, vw_stream stream, bool *out)
{
    (void)context, (void)stream, (void)out;
    return VW_ERR_DEVICE;
}

/* A driver refuses to say of the default stream while another is captured. */
static void a_use_that_may_be_in_a_graph_is_waited_for_and_not_taken_back(void **state)
{
    (void)state;
    for (int is_taken_back = 0; is_taken_back < 2; is_taken_back++) {
        vw_test_pool t;
        open_on(&t, "2.12");
        vw_device_ptr a = vw_test_alloc(&t, 512);
        vw_test_ok(&t, vw_private_pool_begin(t.pool, first_pool, NULL, NULL));
        vw_device *device = t.pool->device;
        vw_device_table table = *device->table;
        vw_device silent = *device;
        table.stream_is_capturing = nobody_knows;
        silent.table = &table;
        t.pool->device = &silent;
        use(&t, a, 1);
        if (is_taken_back)
            vw_test_ok(&t, vw_unrecord_stream(t.pool, a, 1));
        t.pool->device = device;
        vw_test_free(&t, a);
        vw_test_ok(&t, vw_private_pool_end(t.pool, first_pool));
        expect_none_completed(&t);
        complete(&t, 1);
        expect_completed(&t, a);
        vw_test_pool_close(&t);
    }
}

/* Another private pool's memory can be given back while a graph is captured. What the capture has
 * deferred must stay deferred: its uses are part of the graph, and no event can be recorded. */
static void trimming_a_private_pool_leaves_a_capture_under_way_alone(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_test_ok(&t, vw_private_pool_retain(t.pool, second_pool, NULL));
    vw_test_ok(&t, vw_private_pool_release(t.pool, second_pool));
    begin(&t, first_pool);
    vw_device_ptr a = vw_test_alloc(&t, 512);
    use(&t, a, 1);
    vw_test_free(&t, a);
    vw_test_forget_events(&t);
    (void)vw_private_pool_trim(t.pool, second_pool);
    vw_test_expect_no_events(&t);
    assert_int_not_equal(vw_test_alloc(&t, 512), a);
    end(&t, first_pool);
    expect_completed(&t, a);
    vw_test_pool_close(&t);
}

static void the_end_finds_blocks_that_wait_in_every_way(void **state)
{
    (void)state;
    uint64_t host_bytes = vw__host_memory_get_use().in_use_bytes;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512), b = vw_test_alloc(&t, 512),
                  c = vw_test_alloc(&t, 512);
    use(&t, a, 1);
    use(&t, a, 2);
    use(&t, b, 1);
    use(&t, c, 3);
    vw_test_free(&t, a); /* queued twice; b stays live with a use */
    begin(&t, first_pool);
    vw_test_free(&t, c); /* deferred */
    vw_test_pool_close(&t);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, host_bytes); /* events and all */
}

/* ---- a device that fails --------------------------------------------------------------------- */

static void without_an_event_a_use_is_refused_and_the_block_as_before(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512);
    fail_next_call(&t);
    vw_test_refused(&t, vw_record_stream(t.pool, a, 1), VW_ERR_DEVICE);
    vw_test_forget_events(&t);
    vw_test_free(&t, a);
    vw_test_expect_events(&t, {VW_ACTION_FREE_REQUESTED, a, 512},
                          {VW_ACTION_FREE_COMPLETED, a, 512});
    vw_test_pool_close(&t);
}

static void a_block_whose_event_failed_waits_for_the_whole_device(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512), b = vw_test_alloc(&t, 512),
                  c = vw_test_alloc(&t, 512);
    use(&t, a, 1);
    use(&t, b, 1);
    use(&t, c, 2);
    fail_next_call(&t);
    vw_test_refused(&t, vw_free(t.pool, a), VW_ERR_DEVICE);
    vw_test_refused(&t, vw_free(t.pool, a), VW_ERR_UNKNOWN_ADDRESS); /* it is free */
    vw_test_free(&t, b);
    vw_test_free(&t, c);
    complete(&t, 1);
    complete(&t, 2);
    expect_completed(&t, c); /* a holds up its queue, and b in it */
    assert_int_equal(t.pool->order.pending_count, 2);
    vw_test_forget_events(&t);
    vw_test_trim(&t);
    assert_int_equal(t.events[0].action, VW_ACTION_FREE_COMPLETED);
    assert_int_equal(t.events[0].address, a);
    assert_int_equal(t.events[1].address, b);
    assert_int_equal(t.pool->order.pending_count, 0);
    vw_test_pool_close(&t);
}

/* vramwise.h says so: the block is free, whatever the device says. */
static void a_device_without_host_memory_for_an_event_frees_the_block(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512);
    use(&t, a, 1);
    assert_int_equal(vw_device_fail_call(t.device, 1, VW_ERR_HOST_MEMORY), VW_OK);
    vw_test_refused(&t, vw_free(t.pool, a), VW_ERR_HOST_MEMORY);
    vw_test_refused(&t, vw_free(t.pool, a), VW_ERR_UNKNOWN_ADDRESS);
    complete(&t, 1);
    vw_test_trim(&t);
    assert_int_equal(t.pool->order.pending_count, 0);
    vw_test_pool_close(&t);
}

static void of_several_events_one_may_fail(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        vw_test_pool t;
        open_on(&t, NULL);
        vw_device_ptr a = vw_test_alloc(&t, 512);
        for (vw_stream stream = 1; stream <= 3; stream++)
            use(&t, a, stream);
        assert_int_equal(vw_device_fail_call(t.device, nth, VW_ERR_DEVICE), VW_OK);
        vw_test_refused(&t, vw_free(t.pool, a), VW_ERR_DEVICE);
        assert_int_equal(count_of(&t, VW_DEVICE_CALL_EVENT_RECORD), 3);
        for (vw_stream stream = 1; stream <= 3; stream++)
            complete(&t, stream);
        expect_none_completed(&t);
        vw_test_trim(&t);
        assert_int_equal(t.pool->order.pending_count, 0);
        vw_test_pool_close(&t);
    }
}

static void an_event_that_cannot_be_looked_at_fails_the_request_only(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    vw_device_ptr a = vw_test_alloc(&t, 512);
    use(&t, a, 1);
    vw_test_free(&t, a);
    complete(&t, 1);
    fail_next_call(&t);
    vw_test_alloc_fails(&t, 512, 0, VW_ERR_DEVICE);
    assert_int_equal(t.pool->order.pending_count, 1);
    expect_completed(&t, a);
    vw_test_pool_close(&t);
}

static void a_wait_that_fails_can_be_repeated(void **state)
{
    (void)state;
    for (int is_recorded = 0; is_recorded < 2; is_recorded++) {
        vw_test_pool t;
        open_on(&t, NULL);
        vw_device_ptr a = vw_test_alloc(&t, 512);
        use(&t, a, 1);
        if (!is_recorded)
            fail_next_call(&t);
        assert_int_equal(vw_free(t.pool, a), is_recorded ? VW_OK : VW_ERR_DEVICE);
        fail_next_call(&t);
        vw_test_refused(&t, vw_pool_trim(t.pool), VW_ERR_DEVICE);
        assert_int_equal(t.pool->order.pending_count, 1);
        vw_test_trim(&t);
        assert_int_equal(vw_test_calls(&t).in_use_bytes, 0);
        vw_test_pool_close(&t);
    }
}

static void an_event_that_fails_after_a_capture_makes_its_block_wait_for_all(void **state)
{
    (void)state;
    vw_test_pool t;
    open_on(&t, NULL);
    poke(&t); /* its segment is there before the failure */
    vw_device_ptr a = vw_test_alloc(&t, 512);
    use(&t, a, 1);
    begin(&t, first_pool);
    vw_test_free(&t, a);
    end(&t, first_pool);
    fail_next_call(&t); /* the event of the deferred free */
    expect_none_completed(&t);
    complete(&t, 1);
    expect_none_completed(&t);
    vw_test_trim(&t);
    assert_int_equal(t.pool->order.pending_count, 0);
    vw_test_pool_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_blocks_own_stream_needs_no_announcement),
        cmocka_unit_test(only_live_blocks_can_be_announced),
        cmocka_unit_test(a_stream_named_twice_is_waited_for_once),
        cmocka_unit_test(events_are_used_again),
        cmocka_unit_test(a_use_that_is_taken_back_is_not_waited_for),
        cmocka_unit_test(a_block_is_not_reused_before_the_other_stream_is_done),
        cmocka_unit_test(a_block_waits_for_all_of_its_streams),
        cmocka_unit_test(frees_of_one_stream_complete_in_their_order),
        cmocka_unit_test(the_first_incomplete_event_holds_up_its_own_queue_only),
        cmocka_unit_test(a_waiting_block_does_not_merge_with_its_neighbours),
        cmocka_unit_test(freeing_needs_no_host_memory),
        cmocka_unit_test(trim_waits_for_every_stream_and_gives_the_memory_back),
        cmocka_unit_test(a_request_that_finds_no_room_waits_for_pending_blocks),
        cmocka_unit_test(trimming_one_private_pool_leaves_the_others_waiting),
        cmocka_unit_test(frees_during_a_capture_are_deferred_until_it_ends),
        cmocka_unit_test(uses_announced_in_a_capture_are_dropped_when_it_ends),
        cmocka_unit_test(of_uses_from_before_and_during_a_capture_the_former_count),
        cmocka_unit_test(a_use_announced_in_a_scope_without_a_capture_is_waited_for),
        cmocka_unit_test(a_block_freed_after_the_capture_waits_for_uses_from_within),
        cmocka_unit_test(a_use_that_is_also_in_a_graph_is_not_taken_back),
        cmocka_unit_test(newer_releases_ask_the_device_whether_a_stream_captures),
        cmocka_unit_test(a_block_that_a_captured_stream_uses_waits_for_the_end),
        cmocka_unit_test(a_use_that_may_be_in_a_graph_is_waited_for_and_not_taken_back),
        cmocka_unit_test(trimming_a_private_pool_leaves_a_capture_under_way_alone),
        cmocka_unit_test(the_end_finds_blocks_that_wait_in_every_way),
        cmocka_unit_test(without_an_event_a_use_is_refused_and_the_block_as_before),
        cmocka_unit_test(a_block_whose_event_failed_waits_for_the_whole_device),
        cmocka_unit_test(a_device_without_host_memory_for_an_event_frees_the_block),
        cmocka_unit_test(of_several_events_one_may_fail),
        cmocka_unit_test(an_event_that_cannot_be_looked_at_fails_the_request_only),
        cmocka_unit_test(a_wait_that_fails_can_be_repeated),
        cmocka_unit_test(an_event_that_fails_after_a_capture_makes_its_block_wait_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
