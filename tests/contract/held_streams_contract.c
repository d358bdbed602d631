/* held_streams_contract.c - streams that complete when told, and wait for each other.
 *
 * Only devices that tests can script hold their streams. What is asked of them here is what a GPU
 * does by itself, slowed down to one step at a time: events complete in the order of their stream,
 * and a stream that waits for an event goes no further before it is complete. */
#include "contract/device_contract.h"

#include <stdio.h>
#include <string.h>

static void need_script(const vw_device *device)
{
    need(vw_test_is_scripted(device), "nobody can script this device");
}

/* ---- completing ------------------------------------------------------------------------------ */

enum { EVENTS = 6 };

/* Two events on each of three streams, in the order 0 0 7 7 9 9, on a device whose streams are
 * held. */
static void record_on_held_streams(vw_device *device, vw_device_event events[EVENTS])
{
    const vw_stream streams[] = {0, 7, 9};
    assert_ok(vw_device_hold_streams(device, true));
    for (int i = 0; i < EVENTS; i++) {
        assert_ok(device->table->event_create(device->context, &events[i]));
        assert_ok(device->table->event_record(device->context, events[i], streams[i / 2]));
    }
}

/* `ready` has a digit for each event: 1 where it must be complete. Destroys them. */
static void assert_ready(vw_device *device, const vw_device_event events[EVENTS], const char *ready)
{
    for (int i = 0; i < EVENTS; i++) {
        vw_status expected = ready[i] == '1' ? VW_OK : VW_ERR_NOT_READY;
        assert_status(expected, device->table->event_query(device->context, events[i]));
        assert_ok(device->table->event_destroy(device->context, events[i]));
    }
}

static void held_events_complete_with_their_stream_an_event_or_the_device(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    vw_device_event events[EVENTS];
    record_on_held_streams(device, events);
    assert_ready(device, events, "000000");
    record_on_held_streams(device, events);
    assert_ok(vw_device_complete(device, 7));
    assert_ready(device, events, "001100");
    record_on_held_streams(device, events);
    assert_ok(vw_device_complete(device, 12345)); /* a stream nobody used */
    assert_ok(table->stream_synchronize(device->context, 0));
    assert_ready(device, events, "110000");
    record_on_held_streams(device, events);
    assert_ok(table->event_synchronize(device->context, events[4])); /* and what came before it */
    assert_ready(device, events, "000010");
    record_on_held_streams(device, events);
    assert_ok(table->event_synchronize(device->context, events[5]));
    assert_ready(device, events, "000011");
    record_on_held_streams(device, events);
    assert_ok(table->synchronize(device->context));
    assert_ready(device, events, "111111");
    record_on_held_streams(device, events);
    assert_ok(vw_device_hold_streams(device, false));
    assert_ready(device, events, "111111");
}

static void recording_an_event_again_moves_it(void **state)
{
    vw_device *device = *state;
    need_script(device);
    vw_device_event events[EVENTS];
    record_on_held_streams(device, events);
    assert_ok(device->table->event_record(device->context, events[0], 9));
    assert_ok(vw_device_complete(device, 0));
    assert_ok(vw_device_complete(device, 7));
    assert_ready(device, events, "011100");
    record_on_held_streams(device, events);
    assert_ok(vw_device_complete(device, 0)); /* complete, then recorded anew: not complete */
    assert_ok(device->table->event_record(device->context, events[1], 0));
    assert_ready(device, events, "100000");
}

static void an_event_that_is_not_ready_leaves_the_last_error_alone(void **state)
{
    vw_device *device = *state;
    need_script(device);
    vw_device_event events[EVENTS];
    record_on_held_streams(device, events);
    assert_status(VW_ERR_INVALID_ARGUMENT, device->table->give_back(device->context, VW_NULL));
    char before[256];
    snprintf(before, sizeof before, "%s", vw_last_error());
    assert_status(VW_ERR_NOT_READY, device->table->event_query(device->context, events[0]));
    assert_string_equal(vw_last_error(), before);
    assert_ok(vw_device_fail_call(device, 1, VW_ERR_NOT_READY));
    assert_status(VW_ERR_NOT_READY, device->table->event_query(device->context, events[0]));
    assert_string_equal(vw_last_error(), before);
}

static void an_event_of_all_streams_completes_with_the_last_of_them(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    for (int last = 0; last < 2; last++) {
        vw_device_event events[EVENTS], all = 0;
        assert_ok(table->event_create(device->context, &all));
        record_on_held_streams(device, events);
        assert_ok(table->event_record_all(device->context, all));
        assert_ok(vw_device_complete(device, 0));
        assert_ok(table->event_record(device->context, events[1], 0)); /* later: not awaited */
        assert_ok(vw_device_complete(device, last == 0 ? 7 : 9));
        assert_status(VW_ERR_NOT_READY, table->event_query(device->context, all));
        assert_ok(vw_device_complete(device, last == 0 ? 9 : 7));
        assert_ok(table->event_query(device->context, all));
        assert_ready(device, events, "101111");
        assert_ok(table->event_destroy(device->context, all));
    }
}

static void a_stream_waits_for_all_streams_by_one_event(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    vw_device_event events[EVENTS], all = 0, behind = 0;
    assert_ok(table->event_create(device->context, &all));
    assert_ok(table->event_create(device->context, &behind));
    record_on_held_streams(device, events);
    assert_ok(table->event_record_all(device->context, all));
    assert_ok(table->stream_wait_event(device->context, 0, all));
    assert_ok(table->event_record(device->context, behind, 0));
    assert_ok(vw_device_complete(device, 0));
    assert_ok(vw_device_complete(device, 7));
    assert_status(VW_ERR_NOT_READY, table->event_query(device->context, behind));
    assert_ok(table->event_synchronize(device->context, behind)); /* runs what it waits for */
    assert_ready(device, events, "111111");
    assert_ok(table->event_destroy(device->context, all));
    assert_ok(table->event_destroy(device->context, behind));
}

/* ---- waiting for another stream -------------------------------------------------------------- */

/* The tests below speak of streams 1, 2 and 3. */
static vw_device_event record_on(vw_device *device, vw_stream stream)
{
    vw_device_event event = 0;
    assert_ok(device->table->event_create(device->context, &event));
    assert_ok(device->table->event_record(device->context, event, stream));
    return event;
}

static void wait_on(vw_device *device, vw_stream stream, vw_device_event event)
{
    assert_ok(device->table->stream_wait_event(device->context, stream, event));
}

static void assert_complete(vw_device *device, vw_device_event event)
{
    assert_ok(device->table->event_query(device->context, event));
}

static void assert_incomplete(vw_device *device, vw_device_event event)
{
    assert_status(VW_ERR_NOT_READY, device->table->event_query(device->context, event));
}

static void what_follows_a_wait_completes_only_when_the_event_does(void **state)
{
    vw_device *device = *state;
    need_script(device);
    assert_ok(vw_device_hold_streams(device, true));
    vw_device_event awaited = record_on(device, 1), later = record_on(device, 1);
    vw_device_event before = record_on(device, 2);
    wait_on(device, 2, awaited);
    vw_device_event after = record_on(device, 2);
    assert_ok(vw_device_complete(device, 2));
    assert_complete(device, before);
    assert_incomplete(device, after);
    assert_incomplete(device, awaited);
    assert_ok(device->table->event_synchronize(device->context, awaited));
    assert_complete(device, after); /* it went on by itself: the stream was told to */
    assert_incomplete(device, later);

    wait_on(device, 2, later);
    after = record_on(device, 2);
    assert_ok(vw_device_complete(device, 1));
    assert_complete(device, later);
    assert_incomplete(device, after); /* it may go on, but was not told to */
    assert_ok(vw_device_complete(device, 2));
    assert_complete(device, after);
}

static void waits_lead_from_stream_to_stream(void **state)
{
    vw_device *device = *state;
    need_script(device);
    assert_ok(vw_device_hold_streams(device, true));
    vw_device_event first = record_on(device, 1);
    wait_on(device, 2, first);
    vw_device_event second = record_on(device, 2);
    wait_on(device, 3, second);
    vw_device_event third = record_on(device, 3);
    wait_on(device, 1, third); /* and back to the first, which is further on by now */
    vw_device_event fourth = record_on(device, 1);
    assert_ok(vw_device_complete(device, 3));
    assert_ok(vw_device_complete(device, 2));
    assert_incomplete(device, second);
    assert_incomplete(device, third);
    assert_ok(vw_device_complete(device, 1));
    assert_complete(device, first);
    assert_complete(device, second);
    assert_complete(device, third);
    assert_complete(device, fourth);
}

static void to_synchronize_completes_what_is_awaited_and_nothing_else(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    for (int by_event = 0; by_event < 2; by_event++) {
        assert_ok(vw_device_hold_streams(device, true));
        vw_device_event first = record_on(device, 1), unrelated = record_on(device, 1);
        wait_on(device, 2, first);
        vw_device_event second = record_on(device, 2), beside = record_on(device, 2);
        wait_on(device, 3, second);
        vw_device_event third = record_on(device, 3);
        if (by_event) /* what the stream waits for after the event is not awaited */
            wait_on(device, 3, unrelated);
        if (by_event)
            assert_ok(table->event_synchronize(device->context, third));
        else
            assert_ok(table->stream_synchronize(device->context, 3));
        assert_complete(device, first);
        assert_complete(device, second);
        assert_complete(device, third);
        assert_incomplete(device, unrelated);
        assert_incomplete(device, beside);
        wait_on(device, 3, unrelated);
        third = record_on(device, 3);
        assert_ok(vw_device_hold_streams(device, false)); /* ends every wait */
        assert_complete(device, third);
        assert_complete(device, beside);
    }
}

static void to_synchronize_lets_other_streams_wait_on(void **state)
{
    vw_device *device = *state;
    need_script(device);
    assert_ok(vw_device_hold_streams(device, true));
    vw_device_event awaited = record_on(device, 1);
    wait_on(device, 2, awaited);
    vw_device_event blocked = record_on(device, 2);
    assert_ok(vw_device_complete(device, 2)); /* it would go on, if it could */
    vw_device_event unrelated = record_on(device, 3);
    assert_ok(device->table->stream_synchronize(device->context, 3));
    assert_complete(device, unrelated);
    assert_incomplete(device, awaited);
    assert_incomplete(device, blocked);
    assert_ok(device->table->event_synchronize(device->context, blocked));
    assert_complete(device, awaited);
    assert_complete(device, blocked);
}

static void a_wait_is_for_the_recording_there_was(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    assert_ok(vw_device_hold_streams(device, true));
    vw_device_event early = record_on(device, 1), gone = record_on(device, 1);
    wait_on(device, 2, early);
    vw_device_event after = record_on(device, 2);
    wait_on(device, 3, gone);
    vw_device_event after_gone = record_on(device, 3);
    assert_ok(table->event_record(device->context, early, 4)); /* recorded anew, elsewhere */
    assert_ok(table->event_destroy(device->context, gone));
    assert_ok(vw_device_complete(device, 2));
    assert_ok(vw_device_complete(device, 3));
    assert_incomplete(device, after);
    assert_incomplete(device, after_gone);
    assert_ok(vw_device_complete(device, 1));
    assert_complete(device, after);
    assert_complete(device, after_gone);
    assert_incomplete(device, early);
}

static void waiting_for_what_is_complete_or_ones_own_holds_nothing_up(void **state)
{
    vw_device *device = *state;
    need_script(device);
    vw_device_event never = 0;
    assert_ok(device->table->event_create(device->context, &never));
    assert_ok(vw_device_hold_streams(device, true));
    wait_on(device, 2, never);
    vw_device_event done = record_on(device, 1);
    assert_ok(vw_device_complete(device, 1));
    wait_on(device, 2, done);
    vw_device_event own = record_on(device, 2);
    wait_on(device, 2, own);
    vw_device_event after = record_on(device, 2);
    assert_ok(vw_device_complete(device, 2));
    assert_complete(device, after);
}

static void a_stream_that_is_destroyed_finishes_what_others_wait_for(void **state)
{
    vw_device *device = *state;
    need_script(device);
    vw_stream stream, another;
    assert_ok(vw_device_hold_streams(device, true));
    assert_ok(device->table->stream_create(device->context, &stream));
    vw_device_event awaited = record_on(device, stream);
    assert_ok(device->table->stream_destroy(device->context, stream));
    assert_ok(device->table->stream_create(device->context, &another));
    assert_true(another != stream);
    wait_on(device, another, awaited);
    vw_device_event after = record_on(device, another);
    assert_ok(vw_device_complete(device, another));
    assert_incomplete(device, after);
    assert_ok(vw_device_complete(device, stream));
    assert_complete(device, after);
    assert_ok(device->table->stream_destroy(device->context, another));
    assert_complete(device, after); /* also when nobody remembers the stream */
}

/* ---- capturing ------------------------------------------------------------------------------- */

static void a_stream_is_capturing_when_the_test_says_so(void **state)
{
    vw_device *device = *state;
    need_script(device);
    bool is_capturing = false;
    assert_ok(vw_device_set_capturing(device, 7, true));
    assert_ok(device->table->stream_is_capturing(device->context, 7, &is_capturing));
    assert_true(is_capturing);
    assert_ok(device->table->stream_is_capturing(device->context, 8, &is_capturing));
    assert_false(is_capturing);
    assert_ok(vw_device_set_capturing(device, 7, false));
    assert_ok(vw_device_set_capturing(device, 8, false));
    is_capturing = true;
    assert_ok(device->table->stream_is_capturing(device->context, 7, &is_capturing));
    assert_false(is_capturing);
    vw_stream stream;
    assert_ok(device->table->stream_create(device->context, &stream));
    assert_ok(vw_device_set_capturing(device, stream, true));
    assert_ok(device->table->stream_destroy(device->context, stream)); /* and it ends with it */
    is_capturing = true;
    assert_ok(device->table->stream_is_capturing(device->context, stream, &is_capturing));
    assert_false(is_capturing);
}

static void an_event_of_a_captured_stream_is_nobodys(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    vw_device_event event;
    assert_ok(table->event_create(device->context, &event));
    assert_ok(vw_device_set_capturing(device, 7, true));
    assert_ok(table->event_record(device->context, event, 7));
    assert_ok(vw_device_set_capturing(device, 7, false)); /* also later */
    assert_int_equal(table->event_query(device->context, event), VW_ERR_DEVICE);
    assert_int_equal(table->event_synchronize(device->context, event), VW_ERR_DEVICE);
    assert_ok(table->event_record(device->context, event, 7));
    assert_ok(vw_device_complete(device, 7));
    assert_ok(table->event_query(device->context, event));
    assert_ok(table->event_destroy(device->context, event));
}

static void a_captured_graph_is_as_the_test_says(void **state)
{
    vw_device *device = *state;
    need_script(device);
    const vw_device_table *table = device->table;
    const vw_graph_node last[] = {11, 12}, before[] = {10};
    vw_graph_node nodes[2] = {77, 77};
    uint64_t capture = 77;
    size_t count = 77;
    assert_ok(vw_device_set_capture_nodes(device, 7, 5, last, 2));
    assert_ok(table->stream_capture_nodes(device->context, 7, &capture, nodes, 2, &count));
    assert_true(capture == 0 && count == 0 && nodes[0] == 77); /* it is not capturing */
    assert_ok(vw_device_set_capturing(device, 7, true));
    assert_ok(table->stream_capture_nodes(device->context, 7, &capture, nodes, 1, &count));
    assert_true(capture == 5 && count == 2 && nodes[0] == 11 && nodes[1] == 77);
    assert_ok(table->stream_capture_nodes(device->context, 7, &capture, nodes, 2, &count));
    assert_true(count == 2 && nodes[1] == 12);
    assert_ok(vw_device_set_node_parents(device, 11, last, 2));
    assert_ok(vw_device_set_node_parents(device, 11, before, 1)); /* the last word counts */
    assert_ok(table->graph_node_parents(device->context, 11, nodes, 2, &count));
    assert_true(count == 1 && nodes[0] == 10 && nodes[1] == 12);
    assert_ok(table->graph_node_parents(device->context, 10, nodes, 2, &count));
    assert_int_equal(count, 0);
    assert_ok(vw_device_set_capturing(device, 7, false)); /* forgets */
    assert_ok(vw_device_set_capturing(device, 7, true));
    assert_ok(table->stream_capture_nodes(device->context, 7, &capture, nodes, 2, &count));
    assert_true(capture == 1 && count == 0);
    assert_ok(vw_device_set_capturing(device, 7, false));
}

/* ---- contents -------------------------------------------------------------------------------- */

#define check(name) cmocka_unit_test_setup_teardown(name, vw_test_make_device, vw_test_end_device)

int vw_test_held_streams_contract(const vw_test_device_factory *factory)
{
    const struct CMUnitTest tests[] = {
        check(held_events_complete_with_their_stream_an_event_or_the_device),
        check(recording_an_event_again_moves_it),
        check(an_event_of_all_streams_completes_with_the_last_of_them),
        check(a_stream_waits_for_all_streams_by_one_event),
        check(an_event_that_is_not_ready_leaves_the_last_error_alone),
        check(what_follows_a_wait_completes_only_when_the_event_does),
        check(waits_lead_from_stream_to_stream),
        check(to_synchronize_completes_what_is_awaited_and_nothing_else),
        check(to_synchronize_lets_other_streams_wait_on),
        check(a_wait_is_for_the_recording_there_was),
        check(waiting_for_what_is_complete_or_ones_own_holds_nothing_up),
        check(a_stream_that_is_destroyed_finishes_what_others_wait_for),
        check(a_stream_is_capturing_when_the_test_says_so),
        check(an_event_of_a_captured_stream_is_nobodys),
        check(a_captured_graph_is_as_the_test_says),
    };
    vw_test_use_factory(factory);
    return cmocka_run_group_tests_name(factory->name, tests, NULL, NULL);
}
