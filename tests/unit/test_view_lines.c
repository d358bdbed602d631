/* test_view_lines.c - reserved bytes and times over instants; and the names of streams and pools.
 */
#include "view/view_lines.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/small_model.h"
#include "view/view_blocks.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- reserved bytes -------------------------------------------------------------------------- */

static void only_changes_of_reserved_bytes_are_points(void **state)
{
    (void)state;
    small_model small;
    vw__timeline timeline;
    vw__view_reserved reserved;
    small_model_begin(&small);
    small_model_alloc(&small, A + 64 * MIB, 512, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_SEGMENT_MAP, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_SEGMENT_MAP, A + 2 * MIB, 0, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A + 64 * MIB, 20 * MIB, 512, VW__MODEL_NO_CONTEXT);
    vw__model *model = small_model_finish(&small);
    assert_int_equal(vw__timeline_make(model, vw__model_trace_of(model, 0), &timeline), VW_OK);
    assert_int_equal(vw__view_reserved_make(&timeline, &reserved), VW_OK);
    static const uint32_t instants[] = {0, 2, 4};
    static const uint64_t bytes[] = {20 * MIB, 22 * MIB, 20 * MIB};
    assert_int_equal(reserved.count, 3);
    assert_memory_equal(reserved.instants, instants, sizeof instants);
    assert_memory_equal(reserved.bytes, bytes, sizeof bytes);
    vw__view_reserved_deinit(&reserved);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

/* ---- times ----------------------------------------------------------------------------------- */

static vw__view_times times_of(const int64_t *times_us, size_t count)
{
    vw__model_event *events = calloc(count + 1, sizeof *events);
    vw__view_times times;
    for (size_t i = 0; i < count; i++)
        events[i].time_us = times_us[i];
    const vw__model_trace trace = {.events = events, .event_count = count};
    assert_int_equal(vw__view_times_make(&trace, &times), VW_OK);
    free(events);
    return times;
}

static void time_goes_on_where_it_is_missing_or_set_back(void **state)
{
    (void)state;
    static const int64_t given[] = {VW__MODEL_UNKNOWN_TIME, 100, 130,
                                    VW__MODEL_UNKNOWN_TIME, 90,  131};
    static const uint64_t expected[] = {0, 0, 0, 30, 30, 30, 31};
    vw__view_times times = times_of(given, COUNT_OF(given));
    assert_int_equal(times.first_us, 100);
    assert_int_equal(times.every, 1);
    assert_int_equal(times.count, COUNT_OF(expected));
    assert_memory_equal(times.since, expected, sizeof expected);
    vw__view_times_deinit(&times);
}

static void the_longest_time_there_can_be_fits(void **state)
{
    (void)state;
    static const int64_t given[] = {INT64_MIN + 1, INT64_MAX};
    vw__view_times times = times_of(given, COUNT_OF(given));
    assert_true(times.since[2] == UINT64_MAX - 1);
    vw__view_times_deinit(&times);
}

static void without_any_time_there_is_no_line(void **state)
{
    (void)state;
    static const int64_t given[] = {VW__MODEL_UNKNOWN_TIME, VW__MODEL_UNKNOWN_TIME};
    vw__view_times times = times_of(given, COUNT_OF(given));
    assert_true(times.first_us == VW__MODEL_UNKNOWN_TIME);
    assert_int_equal(times.count, 0);
    vw__view_times_deinit(&times);
}

static void a_long_trace_is_sampled(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    int64_t *given = calloc(MANY, sizeof *given);
    for (size_t i = 0; i < MANY; i++)
        given[i] = 1000 + (int64_t)i;
    vw__view_times times = times_of(given, MANY);
    assert_int_equal(times.every, 8);
    assert_int_equal(times.count, MANY / 8 + 1);
    assert_true(times.count <= VW__VIEW_MOST_TIMES);
    assert_int_equal(times.since[0], 0);
    for (size_t i = 1; i < times.count; i++)
        assert_int_equal(times.since[i], 8 * i - 1); /* of the event before the instant */
    vw__view_times_deinit(&times);
    free(given);
}

/* ---- streams and pools ----------------------------------------------------------------------- */

static void streams_and_pools_are_numbered_as_they_are_met(void **state)
{
    (void)state;
    static const vw_stream streams[] = {0, 0x7f12, UINT64_MAX};
    static const vw_private_id pools[] = {{0, 0}, {0, 7}};
    const vw__model model = {
        .streams = streams, .stream_count = 3, .pools = pools, .pool_count = 2};
    vw__view_places places;
    vw__byte_buffer buffer;
    vw__json json;
    assert_int_equal(vw__view_places_init(&places, &model), VW_OK);
    assert_int_equal(vw__view_places_stream(&places, 2), 0);
    assert_int_equal(vw__view_places_stream(&places, 0), 1);
    assert_int_equal(vw__view_places_stream(&places, 2), 0);
    assert_int_equal(vw__view_places_pool(&places, 1), 0);
    assert_int_equal(vw__view_places_pool(&places, VW__MODEL_UNKNOWN_POOL), VW__VIEW_NO_POOL);
    assert_int_equal(vw__view_places_pool(&places, VW__MODEL_DEFAULT_POOL), 1);
    vw__byte_buffer_init(&buffer);
    vw__json_init(&json, &buffer);
    vw__json_begin_object(&json, NULL);
    vw__view_places_json(&places, &json);
    vw__json_end_object(&json);
    assert_string_equal(vw__byte_buffer_text(&buffer),
                        "{\"streams\": [\"0xffffffffffffffff\", \"0x0\"], "
                        "\"pools\": [\"(0, 7)\", \"default\"]}");
    vw__byte_buffer_deinit(&buffer);
    vw__view_places_deinit(&places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_changes_of_reserved_bytes_are_points),
        cmocka_unit_test(time_goes_on_where_it_is_missing_or_set_back),
        cmocka_unit_test(the_longest_time_there_can_be_fits),
        cmocka_unit_test(without_any_time_there_is_no_line),
        cmocka_unit_test(a_long_trace_is_sampled),
        cmocka_unit_test(streams_and_pools_are_numbered_as_they_are_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
