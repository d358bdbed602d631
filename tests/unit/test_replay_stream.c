/* test_replay_stream.c - replays in which data takes turns on the device. */
#include "analysis/replay.h"

#include <string.h>

#include "vramwise/analysis.h"
#include "base/clock.h"
#include "support/cmocka_here.h"
#include "support/hand_made_script.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_run.h"

#define LAYER_BYTES (16 * RUN_MIB)
/* Between two events of a program whose steps hide all copies. */
#define TIME_TO_HIDE_US 100000

static hand_made_script hand; /* large, and one at a time */

/* ---- moves ----------------------------------------------------------------------------------- */

static void make_program(void)
{
    hand_begin(&hand);
    for (uint32_t i = 0; i < 3; i++)
        hand_alloc(&hand, i, 40 * MIB);
    hand_free(&hand, 1);
    hand_alloc(&hand, 1, 8 * MIB);
}

typedef struct moved_run {
    vw_status status;
    size_t stopped;
    uint64_t live_bytes; /* at the end */
    uint64_t peak_bytes;
} moved_run;

static moved_run play_with(const vw__player_move *moves, size_t count, uint64_t card_bytes)
{
    const vw__player_options options = {
        .engine = "vramwise",
        .torch_version = "2.11",
        .conf = "",
        .capacity_bytes = card_bytes,
        .fraction = 2.0,
        .moves = moves,
        .move_count = count,
    };
    moved_run run = {.stopped = 0};
    vw__player player;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw__player_init(&player, &hand.script, &options), VW_OK);
    run.status = vw__player_play(&player, 0, hand.script.op_count, &run.stopped);
    assert_int_equal(vw_pool_get_stats(player.pool, &stats), VW_OK);
    run.live_bytes = (uint64_t)stats.allocated_bytes.all.current;
    run.peak_bytes = (uint64_t)stats.allocated_bytes.all.peak;
    vw__player_deinit(&player);
    return run;
}

static void a_block_that_leaves_makes_room_and_comes_back(void **state)
{
    (void)state;
    make_program();
    const vw__player_move moves[] = {
        {2, 0, VW__PLAYER_MOVE_OUT},
        {4, 0, VW__PLAYER_MOVE_TRY_BACK},
        {4, 0, VW__PLAYER_MOVE_BACK}, /* it is there */
    };
    assert_int_equal(play_with(NULL, 0, 100 * MIB).status, VW_ERR_OUT_OF_MEMORY);
    moved_run run = play_with(moves, 3, 100 * MIB);
    assert_int_equal(run.status, VW_OK);
    assert_int_equal(run.live_bytes, 88 * MIB);
    assert_int_equal(run.peak_bytes, 88 * MIB);
    assert_int_equal(play_with(moves, 1, 100 * MIB).live_bytes, 48 * MIB); /* it stays away */
}

static void what_finds_no_room_stays_away_unless_it_must_come(void **state)
{
    (void)state;
    make_program();
    const vw__player_move tried[] = {{2, 0, VW__PLAYER_MOVE_OUT}, {3, 0, VW__PLAYER_MOVE_TRY_BACK}};
    const vw__player_move wanted[] = {{2, 0, VW__PLAYER_MOVE_OUT}, {3, 0, VW__PLAYER_MOVE_BACK}};
    moved_run run = play_with(tried, 2, 100 * MIB);
    assert_int_equal(run.status, VW_OK);
    assert_int_equal(run.live_bytes, 48 * MIB);
    run = play_with(wanted, 2, 100 * MIB);
    assert_int_equal(run.status, VW_ERR_OUT_OF_MEMORY);
    assert_int_equal(run.stopped, 3);
}

static void a_block_that_is_away_can_be_freed(void **state)
{
    (void)state;
    make_program();
    const vw__player_move moves[] = {{2, 1, VW__PLAYER_MOVE_OUT}, {3, 1, VW__PLAYER_MOVE_OUT}};
    moved_run run = play_with(moves, 2, 100 * MIB);
    assert_int_equal(run.status, VW_OK);
    assert_int_equal(run.live_bytes, 88 * MIB);
}

/* While it was away nothing on the device waits for the other stream. */
static void a_block_that_is_away_can_be_freed_later(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 40 * MIB);
    hand_alloc(&hand, 1, 40 * MIB);
    hand_free_later(&hand, 0, 0);
    hand_alloc(&hand, 2, 40 * MIB);
    hand_complete(&hand, 0);
    const vw__player_move moves[] = {{1, 0, VW__PLAYER_MOVE_OUT}};
    moved_run run = play_with(moves, 1, 90 * MIB);
    assert_int_equal(run.status, VW_OK);
    assert_int_equal(run.live_bytes, 80 * MIB);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static const vw_recording *record_steps(made_up_run *run, int count)
{
    run_begin(run, true);
    for (int i = 0; i < count; i++)
        run_step(run, LAYER_BYTES);
    return run_end(run);
}

/* Live at the peak are 24 MiB of state, 24 of weights and gradients, and 193 of activations. */
static vw_replay_options options_of(uint64_t card_bytes)
{
    return (vw_replay_options){.struct_size = sizeof(vw_replay_options),
                               .torch_version = "2.11",
                               .device = VW_BUSIEST_DEVICE,
                               .card_bytes = card_bytes,
                               .spill_bytes = 1024 * RUN_MIB,
                               .stream = true};
}

static vw_replay_result replay(const vw_recording *recording, const vw_replay_options *options)
{
    vw_replay_report *report = NULL;
    assert_int_equal(vw_recording_replay(recording, options, &report), VW_OK);
    assert_int_equal(report->result_count, 1);
    assert_int_equal(report->stream, options->stream);
    vw_replay_result result = report->results[0];
    result.policy = result.conf = NULL;
    vw_replay_report_free(report);
    return result;
}

static void where_everything_fits_nothing_moves(void **state)
{
    (void)state;
    made_up_run run;
    vw_replay_options options = options_of(512 * RUN_MIB);
    vw_replay_result result = replay(record_steps(&run, 5), &options);
    assert_true(result.is_complete);
    assert_int_equal(result.step_cost_ns, 0);
    assert_int_equal(result.stream_state_bytes + result.stream_saved_bytes, 0);
    assert_int_equal(result.stream_stayed_bytes + result.stream_wait_ns, 0);
    assert_int_equal(result.spills, 0);
    assert_int_not_equal(result.step_ns, VW_UNKNOWN);
    run_dispose(&run, NULL);
}

/* The first step does not stream yet; the others need no spill any more. */
static void streams_take_the_place_of_spill(void **state)
{
    (void)state;
    made_up_run run;
    const vw_recording *recording = record_steps(&run, 8);
    vw_replay_options options = options_of(200 * RUN_MIB);
    vw_replay_result streamed = replay(recording, &options);
    options.stream = false;
    vw_replay_result spilled = replay(recording, &options);
    assert_true(streamed.is_complete && spilled.is_complete);
    assert_true(streamed.is_step_cost_settled);
    assert_true(streamed.stream_state_bytes > 0);
    assert_true(streamed.stream_saved_bytes > 0);
    assert_true(streamed.spills < spilled.spills);
    assert_true(streamed.all_spilled_bytes < spilled.all_spilled_bytes);
    assert_true(streamed.step_cost_ns > 0 && streamed.step_cost_ns < spilled.step_cost_ns);
    assert_int_equal(streamed.step_ns, spilled.step_ns);
    assert_int_equal(spilled.stream_state_bytes + spilled.stream_saved_bytes, 0);
    run_dispose(&run, NULL);
}

/* Streams and spill share the budget. */
static void host_memory_is_what_both_take(void **state)
{
    (void)state;
    made_up_run run;
    const vw_recording *recording = record_steps(&run, 8);
    vw_replay_options options = options_of(200 * RUN_MIB);
    vw_replay_result result = replay(recording, &options);
    assert_true(result.peak_host_bytes >= result.stream_state_bytes + result.stream_saved_bytes);
    assert_true(result.peak_host_bytes <= options.spill_bytes);
    options.spill_bytes = result.peak_host_bytes;
    assert_true(replay(recording, &options).is_complete);
    run_dispose(&run, NULL);
}

static void steps_that_are_not_alike_are_played_all_the_same(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 8; i++) {
        run_step(&run, i == 4 ? 2 * LAYER_BYTES : LAYER_BYTES + (uint64_t)(i % 2) * RUN_MIB);
        run_graph graph = run_forward(&run, LAYER_BYTES, false); /* an evaluation */
        run_free(&run, graph.output);
    }
    vw_replay_options options = options_of(220 * RUN_MIB);
    vw_replay_result result = replay(run_end(&run), &options);
    assert_true(result.is_complete);
    assert_true(result.stream_saved_bytes > 0);
    run_dispose(&run, NULL);
}

static void a_smaller_card_is_found_with_streams_too(void **state)
{
    (void)state;
    made_up_run run;
    vw_replay_options options = options_of(0);
    options.find_smallest_card = true;
    vw_replay_result result = replay(record_steps(&run, 5), &options);
    assert_true(result.smallest_card_bytes < 200 * RUN_MIB);
    run_dispose(&run, NULL);
}

static void a_replay_says_the_same_each_time(void **state)
{
    (void)state;
    made_up_run run;
    const vw_recording *recording = record_steps(&run, 6);
    vw_replay_options options = options_of(200 * RUN_MIB);
    vw_replay_result one = replay(recording, &options), other = replay(recording, &options);
    assert_memory_equal(&one, &other, sizeof one);
    run_dispose(&run, NULL);
}

static bool has_note(const vw_replay_report *report, const char *words)
{
    size_t i = 0;
    while (i < report->note_count && strstr(report->notes[i], words) == NULL)
        i++;
    return i < report->note_count;
}

/* Without stacks nobody knows what could leave. */
static void what_streams_cost_is_unknown_where_nothing_shows_it(void **state)
{
    (void)state;
    made_up_run run;
    vw_replay_report *report = NULL;
    vw_replay_options options = options_of(200 * RUN_MIB);
    run_begin(&run, false);
    for (int i = 0; i < 5; i++)
        run_step(&run, LAYER_BYTES);
    assert_int_equal(vw_recording_replay(run_end(&run), &options, &report), VW_OK);
    assert_true(report->results[0].is_complete);
    assert_int_equal(report->results[0].step_cost_ns, VW_UNKNOWN);
    assert_true(has_note(report, "What streams move is not known"));
    vw_replay_report_free(report);
    run_dispose(&run, NULL);
}

/* What is copied beside the computation depends on how long that takes. */
static void without_times_the_cost_is_unknown(void **state)
{
    (void)state;
    made_up_run run;
    vw_replay_options options = options_of(200 * RUN_MIB);
    run_begin(&run, true);
    for (int i = 0; i < 5; i++) {
        run.small.time_us = VW__MODEL_UNKNOWN_TIME;
        run_step(&run, LAYER_BYTES);
    }
    vw_replay_result result = replay(run_end(&run), &options);
    assert_true(result.is_complete);
    assert_int_equal(result.step_ns, VW_UNKNOWN);
    assert_int_equal(result.step_cost_ns, VW_UNKNOWN);
    run_dispose(&run, NULL);
}

static void streams_need_host_memory(void **state)
{
    (void)state;
    made_up_run run;
    vw_replay_report *report = NULL;
    const vw_recording *recording = record_steps(&run, 3);
    vw_replay_options options = options_of(200 * RUN_MIB);
    options.spill_bytes = 0;
    assert_int_equal(vw_recording_replay(recording, &options, &report), VW_ERR_INVALID_ARGUMENT);
    options.struct_size = offsetof(vw_replay_options, stream); /* built before there were streams */
    assert_int_equal(vw_recording_replay(recording, &options, &report), VW_OK);
    assert_false(report->stream);
    vw_replay_report_free(report);
    run_dispose(&run, NULL);
}

/* Thousands of blocks of state, and next to nothing else: nobody trains so, and the moves of long
 * runs would take all memory. */
static void more_moves_than_a_program_can_have_are_refused(void **state)
{
    (void)state;
    made_up_run run;
    vw_replay_report *report = NULL;
    vw_replay_options options = options_of(400 * RUN_MIB);
    options.spill_bytes = 64 * 1024 * RUN_MIB;
    run_begin(&run, true);
    run.small.us_between = TIME_TO_HIDE_US;
    run_step(&run, LAYER_BYTES);
    for (int i = 0; i < 4000; i++)
        (void)run_alloc(&run, RUN_MIB, run.optimizer);
    for (int i = 0; i < 900; i++)
        run_step(&run, LAYER_BYTES);
    assert_int_equal(vw_recording_replay(run_end(&run), &options, &report), VW_ERR_UNSUPPORTED);
    run_dispose(&run, NULL);
}

/* 4000 blocks of state that leave and return in each of 60 steps. */
static void moves_keep_to_the_memory_that_is_allowed(void **state)
{
    (void)state;
    made_up_run run;
    vw_replay_report *report = NULL;
    vw_replay_options options = options_of(400 * RUN_MIB);
    options.spill_bytes = 64 * 1024 * RUN_MIB;
    run_begin(&run, true);
    run.small.us_between = TIME_TO_HIDE_US;
    run_step(&run, LAYER_BYTES);
    for (int i = 0; i < 4000; i++)
        (void)run_alloc(&run, RUN_MIB, run.optimizer);
    for (int i = 0; i < 60; i++)
        run_step(&run, LAYER_BYTES);
    const vw_recording *recording = run_end(&run);
    vw_reading_limit_set(16 * RUN_MIB);
    assert_int_equal(vw_recording_replay(recording, &options, &report), VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "which takes more memory than a replay may"));
    vw_reading_limit_set(1024 * RUN_MIB);
    assert_int_equal(vw_recording_replay(recording, &options, &report), VW_OK);
    vw_reading_limit_set(0);
    vw_replay_report_free(report);
    run_dispose(&run, NULL);
}

static uint64_t next_minute(void)
{
    static uint64_t now_ns;
    return now_ns += UINT64_C(60000000000);
}

/* It is given up before anything is played. */
static void listing_moves_takes_of_the_time_of_a_replay(void **state)
{
    (void)state;
    static const vw__clock minutes = {next_minute, next_minute, next_minute};
    made_up_run run;
    vw_replay_report *report = NULL;
    const vw_recording *recording = record_steps(&run, 3);
    vw_replay_options options = options_of(200 * RUN_MIB);
    uint64_t played = vw__replay_play_count();
    vw__clock_replace(&minutes);
    vw_status status = vw_recording_replay(recording, &options, &report);
    vw__clock_replace(NULL);
    assert_int_equal(status, VW_ERR_UNSUPPORTED);
    assert_int_equal(vw__replay_play_count(), played);
    run_dispose(&run, NULL);
}

static bool replay_all(void *context)
{
    vw_replay_options options = options_of(200 * RUN_MIB);
    vw_replay_report *report = NULL;
    if (vw_recording_replay(context, &options, &report) != VW_OK)
        return false;
    vw_replay_report_free(report);
    return true;
}

static void running_out_of_host_memory_anywhere_leaves_nothing_behind(void **state)
{
    (void)state;
    made_up_run run;
    vw_test_sweep_host_memory(replay_all, (void *)(uintptr_t)record_steps(&run, 3));
    run_dispose(&run, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_that_leaves_makes_room_and_comes_back),
        cmocka_unit_test(what_finds_no_room_stays_away_unless_it_must_come),
        cmocka_unit_test(a_block_that_is_away_can_be_freed),
        cmocka_unit_test(a_block_that_is_away_can_be_freed_later),
        cmocka_unit_test(where_everything_fits_nothing_moves),
        cmocka_unit_test(streams_take_the_place_of_spill),
        cmocka_unit_test(host_memory_is_what_both_take),
        cmocka_unit_test(steps_that_are_not_alike_are_played_all_the_same),
        cmocka_unit_test(a_smaller_card_is_found_with_streams_too),
        cmocka_unit_test(a_replay_says_the_same_each_time),
        cmocka_unit_test(what_streams_cost_is_unknown_where_nothing_shows_it),
        cmocka_unit_test(without_times_the_cost_is_unknown),
        cmocka_unit_test(streams_need_host_memory),
        cmocka_unit_test(more_moves_than_a_program_can_have_are_refused),
        cmocka_unit_test(moves_keep_to_the_memory_that_is_allowed),
        cmocka_unit_test(listing_moves_takes_of_the_time_of_a_replay),
        cmocka_unit_test(running_out_of_host_memory_anywhere_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
