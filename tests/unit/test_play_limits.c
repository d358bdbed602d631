/* test_play_limits.c - what playing a recording may take, in every call that plays one. */
#include <stdlib.h>
#include <string.h>

#include "vramwise/analysis.h"
#include "vramwise/plan.h"
#include "analysis/player.h"
#include "base/clock.h"
#include "support/hand_made_recording.h"

#define MIB (UINT64_C(1) << 20)
#define SECOND_NS UINT64_C(1000000000)
#define BASE (UINT64_C(1) << 40)

/* ---- time ------------------------------------------------------------------------------------ */

/* A clock of the processor that runs on by `leap_ns` whenever it is looked at. */
static uint64_t thread_now_ns, leap_ns;

static uint64_t leap(void)
{
    return thread_now_ns += leap_ns;
}

static uint64_t stand_still(void)
{
    return 0;
}

static void leap_by(uint64_t ns)
{
    static const vw__clock leaping = {stand_still, stand_still, leap};
    leap_ns = ns;
    vw__clock_replace(ns != 0 ? &leaping : NULL);
}

/* Ends as it began, so that its end is known. */
static const vw_recording *record_one_block(hand_made_recording *hand)
{
    record_begin(hand);
    record_new(hand, BASE, 20 * MIB, 20 * MIB);
    record_free(hand, BASE, 20 * MIB);
    record_event(hand, VW_ACTION_SEGMENT_FREE, BASE, 20 * MIB);
    return record_end(hand);
}

static void verifying_that_takes_too_long_is_given_up(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw_verify_result *result = NULL;
    const vw_recording *recording = record_one_block(&hand);
    leap_by(SECOND_NS);
    assert_int_equal(vw_recording_verify(recording, NULL, &result), VW_OK);
    assert_true(result->is_exact);
    vw_verify_result_free(result);
    leap_by(60 * SECOND_NS);
    assert_int_equal(vw_recording_verify(recording, NULL, &result), VW_ERR_UNSUPPORTED);
    assert_non_null(
        strstr(vw_last_error(), "the replay took more than 10 s for 5 operations, and was given"));
    leap_by(0);
    record_dispose(&hand);
}

static void a_summary_that_takes_too_long_is_left_out(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw_recording_stats *stats = NULL;
    const vw_recording *recording = record_one_block(&hand);
    leap_by(60 * SECOND_NS);
    assert_int_equal(vw_recording_stats_make(recording, NULL, &stats), VW_OK);
    leap_by(0);
    assert_null(stats->devices[0].summary);
    assert_string_equal(stats->devices[0].summary_reason,
                        "the replay would take more time or memory than is allowed");
    vw_recording_stats_free(stats);
    record_dispose(&hand);
}

static bool has_note(const vw_verify_result *result, const char *words)
{
    for (size_t i = 0; i < result->unverifiable_count; i++)
        if (strstr(result->unverifiable[i], words) != NULL)
            return true;
    return false;
}

/* The difference that was found is reported all the same. */
static void a_search_that_takes_half_of_the_time_is_given_up(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw_verify_result *result = NULL;
    record_begin(&hand);
    record_new(&hand, BASE, 20 * MIB, 4 * MIB);
    record_event(&hand, VW_ACTION_ALLOC, BASE + 8 * MIB, 4 * MIB); /* 4 MiB too high */
    const vw_recording *recording = record_end(&hand);
    leap_by(SECOND_NS);
    assert_int_equal(vw_recording_verify(recording, NULL, &result), VW_OK);
    assert_false(has_note(result, "was given up"));
    vw_verify_result_free(result);
    leap_by(4 * SECOND_NS);
    assert_int_equal(vw_recording_verify(recording, NULL, &result), VW_OK);
    leap_by(0);
    assert_true(has_note(result, "took too long, and was given up after 1 trial."));
    vw_verify_result_free(result);
    record_dispose(&hand);
}

/* One replay after the other, each of which takes `ns`, until one is given up. Returns their
 * number.
 */
static int replays_of(const vw_recording *recording, uint64_t ns)
{
    enum { ENOUGH = 200 };
    static const vw_replay_run native = {.policy = "native"};
    const vw_replay_options options = {.struct_size = sizeof options,
                                       .torch_version = "2.11",
                                       .runs = &native,
                                       .run_count = 1,
                                       .device = VW_BUSIEST_DEVICE};
    int count = 0;
    vw_replay_report *report = NULL;
    leap_by(ns);
    while (count < ENOUGH && vw_recording_replay(recording, &options, &report) == VW_OK) {
        vw_replay_report_free(report);
        count++;
    }
    leap_by(0);
    return count;
}

/* The limit is 10 s, and a replay looks at the clock a few times. */
static void all_replays_of_a_recording_have_the_time_of_one(void **state)
{
    (void)state;
    hand_made_recording hand;
    const vw_recording *recording = record_one_block(&hand);
    assert_int_equal(replays_of(recording, 1), 200);
    assert_in_range(replays_of(recording, SECOND_NS), 1, 9);
    assert_string_equal(vw_last_error(), "the replays of this recording took more than 10 s for 3 "
                                         "operations, all together, and were given up");
    assert_int_equal(replays_of(recording, SECOND_NS), 0);
    assert_int_equal(replays_of(recording, 1), 200); /* those that take no longer than usual */
    record_dispose(&hand);
}

/* One that is a little slower than usual counts from its beginning: 20,000 operations may take
 * 14 s, and each replay of them, at 2.5 us for each, 50 ms. */
static void a_replay_that_is_slower_than_usual_counts_wholly(void **state)
{
    (void)state;
    enum { OPS = 20000, MOST = 14000 / 50 };
    hand_made_recording hand;
    record_begin(&hand);
    record_new(&hand, BASE, 20 * MIB, 512);
    for (uint64_t i = 1; i < OPS; i++)
        record_event(&hand, VW_ACTION_ALLOC, BASE + i * 512, 512);
    const vw__model *model = record_end(&hand)->model;
    int count = -1;
    vw_status status = VW_OK;
    leap_by(1);
    for (; status == VW_OK; count++) {
        vw__player_time time = vw__player_time_begin(OPS);
        thread_now_ns += OPS * UINT64_C(1250); /* fast so far */
        assert_int_equal(vw__player_time_check_shared(&time, model), VW_OK);
        thread_now_ns += OPS * UINT64_C(1250);
        status = vw__player_time_check_shared(&time, model);
    }
    leap_by(0);
    assert_int_equal(status, VW_ERR_UNSUPPORTED);
    assert_in_range(count, MOST - 1, MOST);
    record_dispose(&hand);
}

/* One operation can take a second: few are played between two looks at the time. */
static void a_replay_looks_at_the_time_often(void **state)
{
    (void)state;
    hand_made_recording hand;
    record_begin(&hand);
    record_new(&hand, BASE, 2 * MIB, 512);
    for (uint64_t i = 1; i < 500; i++)
        record_event(&hand, VW_ACTION_ALLOC, BASE + i * 512, 512);
    assert_int_equal(replays_of(record_end(&hand), SECOND_NS), 0);
    record_dispose(&hand);
}

static vw_plan *plan_of(const vw_plan_model *model, uint64_t ns)
{
    vw_plan *plan = NULL;
    vw_plan_settings settings;
    vw_plan_settings_init(&settings);
    leap_by(ns);
    assert_int_equal(vw_plan_make(model, &settings, NULL, &plan), VW_OK);
    leap_by(0);
    return plan;
}

/* What PyTorch's allocator would hold is unknown then; the rest of the plan is there. */
static void a_plan_is_made_without_replays_that_take_too_long(void **state)
{
    (void)state;
    vw_plan_model *model = NULL;
    assert_int_equal(vw_plan_model_open("gpt2", &model), VW_OK);
    vw_plan *plan = plan_of(model, 1), *slow_plan = plan_of(model, 60 * SECOND_NS);
    for (size_t i = 0; i < 3; i++) {
        assert_int_not_equal(plan->reserved_bytes[i], VW_UNKNOWN);
        assert_int_equal(slow_plan->reserved_bytes[i], VW_UNKNOWN);
    }
    assert_int_equal(slow_plan->phase_peaks[0], plan->phase_peaks[0]);
    assert_true(slow_plan->peak_device_bytes > slow_plan->peak_allocated_bytes);
    vw_plan_free(plan);
    vw_plan_free(slow_plan);
    vw_plan_model_close(model);
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { MANY_STREAMS = 3000 }; /* of about 28 KiB each: 82 MiB, and four at once are 328 MiB */

static void record_on_stream(hand_made_recording *hand, unsigned action, uint64_t address,
                             uint64_t size_bytes, vw_stream of)
{
    size_t index = 0;
    vw__model_event event = {.address = address,
                             .size_bytes = size_bytes,
                             .time_us = VW__MODEL_UNKNOWN_TIME,
                             .context = VW__MODEL_NO_CONTEXT,
                             .note = VW__MODEL_NO_NOTE,
                             .pool = VW__MODEL_UNKNOWN_POOL,
                             .action = (uint8_t)action};
    assert_int_equal(vw__model_add_stream(hand->builder, of, &event.stream), VW_OK);
    assert_int_equal(vw__model_add_event(hand->builder, &event, &index), VW_OK);
    hand->event_count++;
}

static const vw_recording *record_streams(hand_made_recording *hand, size_t count)
{
    record_begin(hand);
    for (size_t i = 0; i < count; i++) {
        uint64_t address = BASE + i * 2 * MIB;
        record_on_stream(hand, VW_ACTION_SEGMENT_ALLOC, address, 2 * MIB, i);
        record_on_stream(hand, VW_ACTION_ALLOC, address, 512, i);
    }
    return record_end(hand);
}

static void assert_refused(vw_status status)
{
    assert_int_equal(status, VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "a replay with 3000 streams, counted for each private "
                                            "pool, and 1.46 MiB live would take more than 16.0 MiB "
                                            "of memory; --max-memory allows more"));
}

static void more_streams_than_memory_is_allowed_for_are_refused(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw_verify_result *verified = NULL;
    vw_replay_report *replayed = NULL;
    const vw_replay_run native = {.policy = "native"};
    const vw_replay_options options = {
        .struct_size = sizeof options, .runs = &native, .run_count = 1};
    const vw_recording *recording = record_streams(&hand, MANY_STREAMS);
    vw_reading_limit_set(64 * MIB);
    assert_refused(vw_recording_verify(recording, NULL, &verified));
    assert_refused(vw_recording_replay(recording, &options, &replayed));
    vw_reading_limit_set(400 * MIB);
    assert_int_equal(vw_recording_verify(recording, NULL, &verified), VW_OK);
    assert_int_equal(vw_recording_replay(recording, &options, &replayed), VW_OK);
    vw_reading_limit_set(0);
    vw_verify_result_free(verified);
    vw_replay_report_free(replayed);
    record_dispose(&hand);
}

/* Our engine keeps 3 MiB of tables for each of the 100 streams, four at once: 1.2 GiB. */
static void tables_of_addresses_are_counted(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw_replay_report *replayed = NULL;
    const vw_replay_run own = {.policy = "vramwise"}, native = {.policy = "native"};
    vw_replay_options options = {.struct_size = sizeof options, .runs = &own, .run_count = 1};
    const vw_recording *recording = record_streams(&hand, 100);
    vw_reading_limit_set(64 * MIB);
    assert_int_equal(vw_recording_replay(recording, &options, &replayed), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "a replay with 100 streams"));
    options.runs = &native;
    assert_int_equal(vw_recording_replay(recording, &options, &replayed), VW_OK);
    vw_replay_report_free(replayed);
    options.runs = &own;
    options.card_bytes = 1024 * MIB; /* a smaller card, smaller tables */
    assert_int_equal(vw_recording_replay(recording, &options, &replayed), VW_OK);
    vw_replay_report_free(replayed);
    vw_reading_limit_set(0);
    record_dispose(&hand);
}

static void a_few_streams_are_played_whatever_the_limit(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw_verify_result *verified = NULL;
    const vw_recording *recording = record_streams(&hand, 100);
    vw_reading_limit_set(1);
    assert_int_equal(vw_recording_verify(recording, NULL, &verified), VW_OK);
    vw_reading_limit_set(0);
    vw_verify_result_free(verified);
    record_dispose(&hand);
}

/* A few events may claim any size, and each page of it is kept account of. */
static void more_live_memory_than_there_is_room_to_count_is_refused(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw_verify_result *verified = NULL;
    record_begin(&hand);
    record_new(&hand, BASE, (uint64_t)MIB << 24, (uint64_t)MIB << 24);
    const vw_recording *recording = record_end(&hand);
    vw_reading_limit_set(64 * MIB);
    assert_int_equal(vw_recording_verify(recording, NULL, &verified), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "16.00 TiB live would take more than 16.0 MiB"));
    vw_reading_limit_set(1024 * MIB);
    assert_int_equal(vw_recording_verify(recording, NULL, &verified), VW_OK);
    vw_reading_limit_set(0);
    vw_verify_result_free(verified);
    record_dispose(&hand);
}

/* Streams count for each pool, and small and large requests apart. */
static void an_index_is_counted_once(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw__script script;
    record_begin(&hand);
    for (size_t i = 0; i < 400; i++) {
        uint64_t address = BASE + i * 4 * MIB;
        record_on_stream(&hand, VW_ACTION_SEGMENT_ALLOC, address, 4 * MIB, i % 200);
        record_on_stream(&hand, VW_ACTION_ALLOC, address, i < 300 ? 512 : 2 * MIB, i % 200);
    }
    const vw__model *model = record_end(&hand)->model;
    assert_int_equal(vw__script_make(model, &model->traces[0], &script), VW_OK);
    assert_int_equal(script.lane_count, 300);
    vw__script_deinit(&script);
    record_dispose(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verifying_that_takes_too_long_is_given_up),
        cmocka_unit_test(a_summary_that_takes_too_long_is_left_out),
        cmocka_unit_test(a_search_that_takes_half_of_the_time_is_given_up),
        cmocka_unit_test(all_replays_of_a_recording_have_the_time_of_one),
        cmocka_unit_test(a_replay_that_is_slower_than_usual_counts_wholly),
        cmocka_unit_test(a_replay_looks_at_the_time_often),
        cmocka_unit_test(a_plan_is_made_without_replays_that_take_too_long),
        cmocka_unit_test(more_streams_than_memory_is_allowed_for_are_refused),
        cmocka_unit_test(more_live_memory_than_there_is_room_to_count_is_refused),
        cmocka_unit_test(tables_of_addresses_are_counted),
        cmocka_unit_test(a_few_streams_are_played_whatever_the_limit),
        cmocka_unit_test(an_index_is_counted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
