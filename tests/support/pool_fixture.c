/* pool_fixture.c - see pool_fixture.h. */
#include "support/pool_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/cmocka_here.h"

/* ---- opening and closing --------------------------------------------------------------------- */

/* Runs under the pool's lock. Running out of host memory here is not a test case. */
static void remember_event(void *context, const vw_memory_event *event)
{
    vw_test_pool *test = context;
    if (test->event_count == test->event_capacity) {
        test->event_capacity = test->event_capacity != 0 ? test->event_capacity * 2 : 64;
        test->events = realloc(test->events, test->event_capacity * sizeof *test->events);
        if (test->events == NULL)
            abort();
    }
    test->events[test->event_count++] = *event;
}

static vw_device *make_device(const vw_test_pool_setup *setup)
{
    uint64_t capacity_bytes = setup->capacity_bytes != 0 ? setup->capacity_bytes : VW_TEST_GIB;
    vw_device *device = NULL;
    if (setup->on_host) {
        assert_int_equal(vw_host_device_create(capacity_bytes, &device), VW_OK);
        assert_int_equal(vw_device_hold_streams(device, setup->manual_streams), VW_OK);
        return device;
    }
    const vw_simulated_options options = {
        .struct_size = sizeof options,
        .capacity_bytes = capacity_bytes,
        .total_bytes = setup->total_bytes,
        .manual_streams = setup->manual_streams,
    };
    assert_int_equal(vw_simulated_device_create(&options, &device), VW_OK);
    return device;
}

void vw_test_pool_open(vw_test_pool *test, const vw_test_pool_setup *setup)
{
    static const vw_test_pool_setup defaults;
    if (setup == NULL)
        setup = &defaults;
    *test = (vw_test_pool){.device = make_device(setup)};
    const vw_pool_options options = {
        .struct_size = sizeof options,
        .conf = setup->conf,
        .torch_version = setup->torch_version,
        .is_strict = setup->is_strict,
        .reclaim = setup->reclaim,
        .reclaim_context = setup->reclaim_context,
        .engine = setup->engine,
        .idle_share = setup->idle_share,
        .idle_floor_bytes = setup->idle_floor_bytes,
        .is_shareable = setup->is_shareable,
        .safe_point = setup->safe_point,
        .spill_bytes = setup->spill_bytes,
        .spill_ahead_bytes = setup->spill_ahead_bytes,
        .pinned_budget = setup->pinned_budget,
        .spill_listener = setup->spill_listener,
        .keep_free = setup->keep_free,
        .park_guard = setup->park_guard,
        .make_room = setup->make_room,
        .make_room_context = setup->make_room_context,
    };
    vw_device *device =
        setup->spy != NULL ? vw_test_spy_on(setup->spy, test->device) : test->device;
    vw_test_ok(test, vw_pool_create(device, &options, &test->pool));
    const vw_event_sink sink = {test, remember_event};
    vw_test_ok(test, vw_pool_set_sink(test->pool, &sink));
    if (setup->fraction != 0)
        vw_test_ok(test, vw_pool_set_fraction(test->pool, setup->fraction));
}

void vw_test_pool_close(vw_test_pool *test)
{
    vw_test_ok(test, VW_OK); /* a last look */
    vw_pool_destroy(test->pool);
    assert_int_equal(vw_test_calls(test).in_use_bytes, 0);
    vw_device_destroy(test->device);
    free(test->events);
    *test = (vw_test_pool){.pool = NULL};
}

/* ---- calls ----------------------------------------------------------------------------------- */

void vw_test_status_here(vw_test_pool *test, vw_status status, vw_status expected, const char *file,
                         int line)
{
    if (status != expected) {
        print_error("%s, expected %s: %s\n", vw_status_name(status), vw_status_name(expected),
                    vw_last_error());
        _fail(file, line);
    }
    if (test->pool != NULL && vw_pool_check(test->pool) != VW_OK) {
        print_error("the pool's check fails: %s\n", vw_last_error());
        _fail(file, line);
    }
}

vw_device_ptr vw_test_alloc_here(vw_test_pool *test, uint64_t size_bytes, vw_stream stream,
                                 const char *file, int line)
{
    vw_device_ptr address = VW_NULL;
    vw_test_status_here(test, vw_alloc(test->pool, size_bytes, stream, &address), VW_OK, file,
                        line);
    return address;
}

void vw_test_alloc_fails_here(vw_test_pool *test, uint64_t size_bytes, vw_stream stream,
                              vw_status expected, const char *file, int line)
{
    vw_device_ptr address = 77;
    vw_test_status_here(test, vw_alloc(test->pool, size_bytes, stream, &address), expected, file,
                        line);
    if (address != 77) {
        print_error("a failed request stored address %#" PRIx64 "\n", address);
        _fail(file, line);
    }
}

void vw_test_free_here(vw_test_pool *test, vw_device_ptr address, const char *file, int line)
{
    vw_test_status_here(test, vw_free(test->pool, address), VW_OK, file, line);
}

vw_pool_stats vw_test_stats(const vw_test_pool *test)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_stats(test->pool, &stats), VW_OK);
    return stats;
}

vw_device_calls vw_test_calls(const vw_test_pool *test)
{
    vw_device_calls calls;
    assert_int_equal(vw_device_get_calls(test->device, &calls), VW_OK);
    return calls;
}

/* ---- events ---------------------------------------------------------------------------------- */

static const char *action_name(vw_action action)
{
    static const char *const names[] = {
#define ACTION_NAME(upper, lower) #lower,
        VW_ACTION_LIST(ACTION_NAME)
#undef ACTION_NAME
    };
    return (size_t)action < sizeof names / sizeof names[0] ? names[action] : "?";
}

static bool is_like(uint64_t found, uint64_t expected)
{
    return expected == VW_TEST_ANY || found == expected;
}

static bool is_event(const vw_memory_event *found, const vw_test_event *expected)
{
    return found->action == expected->action && is_like(found->address, expected->address) &&
           is_like(found->size_bytes, expected->size_bytes);
}

void vw_test_compare_events_here(vw_test_pool *test, const vw_test_event *expected, size_t count,
                                 const char *file, int line)
{
    bool is_same = test->event_count == count;
    for (size_t i = 0; i < count && is_same; i++)
        is_same = is_event(&test->events[i], &expected[i]);
    if (!is_same) {
        for (size_t i = 0; i < test->event_count; i++)
            print_error("%2zu found    %-14s %#" PRIx64 " %" PRIu64 "\n", i,
                        action_name(test->events[i].action), test->events[i].address,
                        test->events[i].size_bytes);
        for (size_t i = 0; i < count; i++)
            print_error("%2zu expected %-14s %#" PRIx64 " %" PRIu64 "\n", i,
                        action_name(expected[i].action), expected[i].address,
                        expected[i].size_bytes);
        _fail(file, line);
    }
    vw_test_forget_events(test);
}

void vw_test_forget_events(vw_test_pool *test)
{
    test->event_count = 0;
}

/* ---- the picture ----------------------------------------------------------------------------- */

static bool describe_segment(void *context, const vw_segment_info *segment)
{
    fprintf(context,
            "segment %#" PRIx64 " %" PRIu64 " allocated %" PRIu64 " active %" PRIu64
            " requested %" PRIu64 " stream %" PRIu64 " private %" PRIu64 ",%" PRIu64 " tag %" PRIu64
            " blocks %zu%s%s\n",
            segment->address, segment->total_bytes, segment->allocated_bytes, segment->active_bytes,
            segment->requested_bytes, segment->stream, segment->private_id.first,
            segment->private_id.second, segment->tag, segment->block_count,
            segment->is_large ? " large" : " small", segment->is_expandable ? " expandable" : "");
    return true;
}

static bool describe_block(void *context, const vw_segment_info *segment,
                           const vw_block_info *block)
{
    static const char *const states[] = {"live", "pending", "free"};
    (void)segment;
    fprintf(context, "  %#" PRIx64 " %" PRIu64 " requested %" PRIu64 " tag %" PRIu64 " %s\n",
            block->address, block->size_bytes, block->requested_bytes, block->tag,
            states[block->state]);
    return true;
}

char *vw_test_describe(const vw_test_pool *test)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    const vw_walker walker = {stream, describe_segment, describe_block};
    assert_int_equal(vw_pool_walk(test->pool, &walker, false), VW_OK);
    assert_int_equal(fclose(stream), 0);
    return text;
}
