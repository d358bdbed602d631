/* test_replay_spill.c - runs whose live memory may leave the device: what moves, and what a step
 * costs. */
#include "analysis/replay.h"

#include <string.h>

#include "vramwise/analysis.h"
#include "analysis/spill_cost.h"
#include "support/cmocka_here.h"
#include "support/hand_made_recording.h"
#include "support/hand_made_script.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_run.h"

#define GIB (UINT64_C(1) << 30)

static const uint64_t base = UINT64_C(0x7f0000000000);

static const vw__replay_setting spilling = {
    .engine = "vramwise", .conf = "", .spill_bytes = 1024 * MIB};

static hand_made_script hand; /* large, and one at a time */

static vw_replay_result run_on(const vw__replay_work *work, vw__replay_setting setting,
                               uint64_t card_bytes)
{
    vw_replay_result result = {.policy = "vramwise"};
    assert_int_equal(
        vw__replay_run(work, setting, vw__replay_card_of(card_bytes), false, NULL, &result), VW_OK);
    return result;
}

/* Three blocks of which two fit; then one of them makes room. */
static void make_program(void)
{
    hand_begin(&hand);
    for (uint32_t i = 0; i < 3; i++)
        hand_alloc(&hand, i, 40 * MIB);
    hand_free(&hand, 0);
    hand_alloc(&hand, 0, 8 * MIB);
}

static void what_does_not_fit_leaves_the_device_and_is_counted(void **state)
{
    (void)state;
    make_program();
    const vw__replay_work work = {.script = hand.script, .torch_version = "2.11"};
    const vw__replay_setting plain = {.engine = "vramwise", .conf = ""};
    assert_false(run_on(&work, plain, 100 * MIB).is_complete);
    vw_replay_result result = run_on(&work, spilling, 100 * MIB);
    assert_true(result.is_complete);
    assert_int_equal(result.spills, 1);
    assert_true(result.peak_spilled_bytes >= 20 * MIB && result.peak_spilled_bytes <= 40 * MIB);
    assert_int_equal(result.all_spilled_bytes, result.peak_spilled_bytes);
    assert_true(result.peak_host_bytes >= result.peak_spilled_bytes);
    assert_int_equal(result.returns, 0);
    assert_int_equal(result.step_cost_ns, VW_UNKNOWN); /* no steps */
}

static void too_small_a_budget_is_of_no_help(void **state)
{
    (void)state;
    make_program();
    const vw__replay_work work = {.script = hand.script, .torch_version = "2.11"};
    vw__replay_setting setting = spilling;
    setting.spill_bytes = 2 * MIB;
    vw_replay_result result = run_on(&work, setting, 100 * MIB);
    assert_false(result.is_complete);
    assert_int_equal(result.spills, 0);
}

static void a_step_costs_what_was_spilled_in_it_and_its_part_of_the_moves(void **state)
{
    (void)state;
    make_program();
    size_t steps[] = {3, 4};
    vw__replay_work work = {.script = hand.script, .torch_version = "2.11"};
    work.steps = steps;
    work.step_count = 2;
    vw_replay_result result = run_on(&work, spilling, 100 * MIB);
    assert_true(result.is_complete);
    assert_int_equal(result.spills, 1);
    assert_true(result.spill_wait_ns > 0);
    assert_int_equal(result.step_cost_ns,
                     vw__spill_cost_touch_ns(result.peak_spilled_bytes) + result.spill_wait_ns / 2);
    assert_false(result.is_step_cost_settled);
    result = run_on(&work, spilling, 500 * MIB);
    assert_int_equal(result.spills, 0);
    assert_int_equal(result.spill_wait_ns, 0);
    assert_int_equal(result.step_cost_ns, 0);
}

/* In them host memory is made, which the others find. */
static void the_first_two_steps_do_not_count_where_there_are_more(void **state)
{
    (void)state;
    make_program();
    size_t steps[] = {3, 4, 4};
    vw__replay_work work = {.script = hand.script, .torch_version = "2.11"};
    work.steps = steps;
    work.step_count = 3;
    vw_replay_result result = run_on(&work, spilling, 100 * MIB);
    assert_int_equal(result.spills, 1);
    assert_true(result.spill_wait_ns > 0);
    assert_int_equal(result.step_cost_ns, vw__spill_cost_touch_ns(result.peak_spilled_bytes));
    assert_true(result.is_step_cost_settled);
}

/* Of two blocks the younger leaves, and comes back once the other is gone. Where it is hot the
 * other leaves, and is freed while it is away: nothing is left to come back. */
static void what_is_hot_stays_as_long_as_something_else_can_leave(void **state)
{
    (void)state;
    uint8_t advice[5] = {VW_ADVISE_NORMAL};
    size_t steps[] = {4, 4, 4, 4, 4, 4, 4, 4}; /* quiet ones: memory may come back */
    make_program();
    vw__replay_work work = {.script = hand.script, .torch_version = "2.11"};
    work.steps = steps;
    work.step_count = sizeof steps / sizeof steps[0];
    work.advice = advice;
    vw_replay_result result = run_on(&work, spilling, 100 * MIB);
    assert_true(result.is_complete);
    assert_int_equal(result.spills, 1);
    assert_true(result.returns > 0);
    advice[1] = VW_ADVISE_HOT;
    result = run_on(&work, spilling, 100 * MIB);
    assert_true(result.is_complete);
    assert_int_equal(result.spills, 1);
    assert_int_equal(result.returns, 0);
    advice[0] = VW_ADVISE_HOT; /* both: it is as before, rather than that memory runs out */
    result = run_on(&work, spilling, 100 * MIB);
    assert_true(result.is_complete);
    assert_true(result.returns > 0);
}

static void a_run_says_the_same_each_time(void **state)
{
    (void)state;
    make_program();
    size_t steps[] = {3, 4};
    vw__replay_work work = {.script = hand.script, .torch_version = "2.11"};
    work.steps = steps;
    work.step_count = 2;
    vw_replay_result one = run_on(&work, spilling, 100 * MIB);
    vw_replay_result other = run_on(&work, spilling, 100 * MIB);
    assert_memory_equal(&one, &other, sizeof one);
}

static void with_spill_a_card_may_be_smaller_than_what_is_live(void **state)
{
    (void)state;
    make_program();
    const vw__replay_work work = {.script = hand.script, .torch_version = "2.11"};
    vw__replay_smallest smallest;
    assert_int_equal(vw__replay_smallest_card(&work, spilling, NULL, &smallest), VW_OK);
    uint64_t bytes = smallest.bytes;
    assert_true(bytes < 120 * MIB);
    assert_true(run_on(&work, spilling, bytes).is_complete);
    assert_false(run_on(&work, spilling, bytes - 2 * MIB).is_complete);
}

/* 949 MiB of an optimizer's state, as measured. */
static void touching_takes_what_was_measured(void **state)
{
    (void)state;
    assert_int_equal(vw__spill_cost_touch_ns(0), 0);
    assert_int_equal(vw__spill_cost_touch_ns(949 * MIB), 22940000);
    assert_int_equal(vw__spill_cost_touch_ns(2 * 949 * MIB), 45880000);
}

static void a_budget_is_easy_to_type_and_never_less(void **state)
{
    (void)state;
    assert_int_equal(vw__spill_cost_budget(0), 256 * MIB);
    assert_int_equal(vw__spill_cost_budget(256 * MIB), 256 * MIB);
    assert_int_equal(vw__spill_cost_budget(256 * MIB + 1), 512 * MIB);
    assert_int_equal(vw__spill_cost_budget(4 * GIB - 1), 4 * GIB);
    assert_int_equal(vw__spill_cost_budget(4 * GIB), 4 * GIB);
    assert_int_equal(vw__spill_cost_budget(4 * GIB + 1), 5 * GIB);
    assert_int_equal(vw__spill_cost_budget(UINT64_MAX), UINT64_MAX);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static vw_replay_options options_of(uint64_t card_bytes)
{
    return (vw_replay_options){.struct_size = sizeof(vw_replay_options),
                               .torch_version = "2.11",
                               .device = VW_BUSIEST_DEVICE,
                               .card_bytes = card_bytes,
                               .spill_bytes = 1024 * MIB};
}

static const vw_recording *record_program(hand_made_recording *recording)
{
    record_begin(recording);
    for (uint64_t i = 0; i < 3; i++)
        record_new(recording, base + i * 64 * MIB, 40 * MIB, 40 * MIB);
    for (size_t step = 0; step < 4; step++) {
        record_step_end(recording);
        record_free(recording, base, 40 * MIB);
        record_event(recording, VW_ACTION_ALLOC, base, 40 * MIB);
    }
    return record_end(recording);
}

static void only_policies_of_our_own_can_spill(void **state)
{
    (void)state;
    static const vw_replay_run runs[] = {{.policy = "vramwise"}, {.policy = "expandable"}};
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    const vw_recording *opened = record_program(&recording);
    vw_replay_options options = options_of(100 * MIB);
    options.runs = runs;
    options.run_count = 2;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(vw_last_error(), "policy expandable cannot spill: vramwise, "));
    options.run_count = 1;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_OK);
    vw_replay_report_free(report);
    record_dispose(&recording);
}

static void steps_of_a_recording_are_marked_and_counted(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = options_of(100 * MIB);
    assert_int_equal(vw_recording_replay(record_program(&recording), &options, &report), VW_OK);
    assert_int_equal(report->result_count, 1);
    assert_string_equal(report->results[0].policy, "vramwise");
    assert_int_equal(report->spill_bytes, 1024 * MIB);
    assert_int_equal(report->step_count, 4);
    assert_true(report->results[0].is_complete);
    assert_true(report->results[0].spills > 0);
    assert_true(report->results[0].step_cost_ns != VW_UNKNOWN);
    assert_true(report->results[0].step_cost_ns > 0);
    vw_replay_report_free(report);
    record_dispose(&recording);
}

/* Built before there was spill_bytes: what lies behind its struct is not ours to read. */
static void a_program_that_knows_no_spill_gets_none(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    const vw_recording *opened = record_program(&recording);
    vw_replay_options options = options_of(100 * MIB);
    options.struct_size = offsetof(vw_replay_options, spill_bytes);
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_OK);
    assert_int_equal(report->spill_bytes, 0);
    assert_true(report->result_count > 1);
    vw_replay_report_free(report);
    options.struct_size = 0;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_ERR_INVALID_ARGUMENT);
    record_dispose(&recording);
}

/* Does a note of a replay of the run have these words? */
static bool is_noted(made_up_run *run, const char *words)
{
    vw_replay_options options = options_of(1024 * MIB);
    vw_replay_report *report = NULL;
    bool is_there = false;
    assert_int_equal(vw_recording_replay(&run->recording, &options, &report), VW_OK);
    for (size_t i = 0; i < report->note_count; i++)
        is_there = is_there || strstr(report->notes[i], words) != NULL;
    vw_replay_report_free(report);
    return is_there;
}

static void an_optimizers_state_is_advised_as_cold_and_weights_as_hot(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 3; i++)
        run_step(&run, 4 * RUN_MIB);
    (void)run_end(&run);
    assert_true(is_noted(&run, "12 blocks of an optimizer's state (24.0 MiB) are taken to be "
                               "advised as cold"));
    assert_true(is_noted(&run, "12 blocks of weights (12.0 MiB) are taken to be advised as hot"));
    run_dispose(&run, NULL);
}

/* No optimizer is given them: nobody would say anything of them. */
static void weights_of_what_does_not_train_are_not_advised(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 3; i++) {
        run_graph graph = run_forward(&run, 4 * RUN_MIB, false);
        run_free(&run, graph.output);
    }
    (void)run_end(&run);
    assert_false(is_noted(&run, "of weights"));
    assert_true(is_noted(&run, "No block is known to be an optimizer's state"));
    run_dispose(&run, NULL);
}

static void without_stacks_nothing_is_advised(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, false);
    for (int i = 0; i < 3; i++)
        run_step(&run, 4 * RUN_MIB);
    (void)run_end(&run);
    assert_false(is_noted(&run, "of weights"));
    assert_true(is_noted(&run, "No block is known to be an optimizer's state"));
    run_dispose(&run, NULL);
}

static bool replay_all(void *context)
{
    vw_replay_options options = options_of(100 * MIB);
    vw_replay_report *report = NULL;
    options.find_smallest_card = true;
    if (vw_recording_replay(context, &options, &report) != VW_OK)
        return false;
    vw_replay_report_free(report);
    return true;
}

static void running_out_of_host_memory_anywhere_leaves_nothing_behind(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_test_sweep_host_memory(replay_all, (void *)(uintptr_t)record_program(&recording));
    record_dispose(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_leaves_the_device_and_is_counted),
        cmocka_unit_test(too_small_a_budget_is_of_no_help),
        cmocka_unit_test(a_step_costs_what_was_spilled_in_it_and_its_part_of_the_moves),
        cmocka_unit_test(the_first_two_steps_do_not_count_where_there_are_more),
        cmocka_unit_test(what_is_hot_stays_as_long_as_something_else_can_leave),
        cmocka_unit_test(a_run_says_the_same_each_time),
        cmocka_unit_test(with_spill_a_card_may_be_smaller_than_what_is_live),
        cmocka_unit_test(touching_takes_what_was_measured),
        cmocka_unit_test(a_budget_is_easy_to_type_and_never_less),
        cmocka_unit_test(only_policies_of_our_own_can_spill),
        cmocka_unit_test(steps_of_a_recording_are_marked_and_counted),
        cmocka_unit_test(a_program_that_knows_no_spill_gets_none),
        cmocka_unit_test(an_optimizers_state_is_advised_as_cold_and_weights_as_hot),
        cmocka_unit_test(weights_of_what_does_not_train_are_not_advised),
        cmocka_unit_test(without_stacks_nothing_is_advised),
        cmocka_unit_test(running_out_of_host_memory_anywhere_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
