/* test_report_replay.c - runs side by side, and the JSON that cli.md names. */
#include "vramwise/report.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_samples.h"
#include "support/report_wording.h"

static const char *const notes[] = {"3 events before the recording were made up"};

static const vw_replay_report sample = {
    .event_count = 5000,
    .peak_live_bytes = 20 * SAMPLE_GIB,
    .peak_live_event = 1100,
    .recorded_oom_event = 1200,
    .step_count = 12,
    .results = sample_results,
    .result_count = 2,
    .notes = notes,
    .note_count = 1,
};

static const char *text_of(const vw_replay_report *report, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_replay(report, form, &output), VW_OK);
    return captured.text;
}

static void the_answer_comes_first_and_the_runs_stand_side_by_side(void **state)
{
    const vw_report_form form = {.width_columns = 90};
    (void)state;
    text_of(&sample, &form);
    keep_wording("two runs, one of which completes");
    assert_shows("1|2|expandable|21.00 GiB|1.05|20.00 GiB"); /* the answer */
    assert_shows("recorded|23.00 GiB|1.15|2|12.3 ms|max_split_size_mb"
                 "|expandable|21.00 GiB|1.05|0|1.00 us|21.00 GiB"); /* a row for each */
    assert_shows("max_split_size_mb:128|1,200|700 MiB|23.00 GiB|3.00 GiB"
                 "|5,000|0|20.00 GiB|1,100|24.00 GiB|1,200|12"
                 "|3 events before the recording were made up");
}

static void when_none_completes_that_is_the_answer(void **state)
{
    vw_replay_report failed = sample;
    (void)state;
    failed.result_count = 1;
    text_of(&failed, NULL);
    keep_wording("no run completes");
    assert_shows("out of memory|1");
    assert_false(report_capture_begins_with(&captured, "recorded"));
}

static void json_has_the_fields_others_rely_on(void **state)
{
    (void)state;
    assert_string_equal(
        text_of(&sample, &(vw_report_form){.is_json = true, .file = "a"}),
        "{\"schema\": 1, \"file\": \"a\", \"device\": 0, \"events\": 5000, \"peak_live_bytes\": "
        "21474836480, \"peak_live_event\": 1100, \"recorded_oom_event\": 1200, \"steps\": 12, "
        "\"spill_bytes\": null, \"results\": [{\"policy\": \"recorded\", \"conf\": "
        "\"max_split_size_mb:128\", "
        "\"card_bytes\": 25769803776, \"completed\": false, \"events_done\": 1200, "
        "\"peak_reserved_bytes\": 24696061952, \"peak_live_bytes\": 21474836480, "
        "\"peak_allocated_bytes\": 21474836480, \"ratio\": 1.15, \"retries\": 2, \"trims\": 0, "
        "\"oom\": {\"event\": 1200, \"tried_bytes\": 734003200, \"reserved_bytes\": 24696061952, "
        "\"allocated_bytes\": 21474836480}, \"past_recorded_oom\": false, \"device_calls\": "
        "{\"alloc\": 100, \"free\": 7, \"create\": 0, \"release\": 0, \"map\": 0, \"unmap\": 0, "
        "\"set_access\": 0}, \"device_us\": 12345.678, \"longest_stall_us\": 1.5, "
        "\"smallest_card_bytes\": null, \"settled_device_us\": null, \"settled_share\": null, "
        "\"moved_bytes\": 0, \"copied_bytes\": 0, \"spilled_bytes\": 0, \"spills\": 0, "
        "\"all_spilled_bytes\": 0, \"returns\": 0, \"returned_bytes\": 0, \"host_bytes\": 0, "
        "\"spill_wait_us\": 0, \"step_cost_us\": 0, \"step_cost_settled\": false, "
        "\"first_card_bytes\": null, \"step_us\": 0, \"stream_state_bytes\": 0, "
        "\"stream_saved_bytes\": 0, \"stream_stayed_bytes\": 0, \"stream_wait_us\": 0}, "
        "{\"policy\": "
        "\"expandable\", \"conf\": "
        "\"expandable_segments:True\", \"card_bytes\": 25769803776, \"completed\": true, "
        "\"events_done\": 5000, \"peak_reserved_bytes\": 22548578304, \"peak_live_bytes\": "
        "21474836480, \"peak_allocated_bytes\": 21474836480, \"ratio\": 1.05, \"retries\": 0, "
        "\"trims\": 0, \"oom\": null, \"past_recorded_oom\": true, \"device_calls\": {\"alloc\": "
        "0, \"free\": 0, \"create\": 5, \"release\": 4, \"map\": 3, \"unmap\": 2, \"set_access\": "
        "1}, \"device_us\": 1, \"longest_stall_us\": 0, \"smallest_card_bytes\": 22548578304, "
        "\"settled_device_us\": 0.5, \"settled_share\": 0.00125, \"moved_bytes\": 0, "
        "\"copied_bytes\": 0, \"spilled_bytes\": 0, \"spills\": 0, "
        "\"all_spilled_bytes\": 0, \"returns\": 0, \"returned_bytes\": 0, \"host_bytes\": 0, "
        "\"spill_wait_us\": 0, \"step_cost_us\": 0, \"step_cost_settled\": false, "
        "\"first_card_bytes\": 21474836480, \"step_us\": 0, \"stream_state_bytes\": 0, "
        "\"stream_saved_bytes\": 0, \"stream_stayed_bytes\": 0, \"stream_wait_us\": 0}], "
        "\"notes\": [\"3 events before the recording were made up\"], \"stream\": false}\n");
}

static void an_unlimited_card_is_null_and_not_mentioned(void **state)
{
    vw_replay_result endless = sample_results[1];
    vw_replay_report report = sample;
    (void)state;
    endless.card_bytes = VW_UNKNOWN;
    report.results = &endless;
    report.result_count = 1;
    report.recorded_oom_event = VW_UNKNOWN;
    text_of(&report, NULL);
    keep_wording("one run, with no memory limit");
    assert_shows("expandable|21.00 GiB|1.05|20.00 GiB");
    assert_false(report_capture_has(&captured, "\ncard"));
    assert_false(report_capture_has(&captured, "\nrecorded"));
    text_of(&report, &(vw_report_form){.is_json = true});
    assert_true(report_capture_has(&captured, "\"card_bytes\": null"));
    assert_true(report_capture_has(&captured, "\"recorded_oom_event\": null"));
}

static void a_run_of_our_own_engine_says_what_it_moved_and_what_that_cost(void **state)
{
    vw_replay_result results[] = {sample_vramwise, sample_results[1]};
    vw_replay_report report = sample;
    (void)state;
    report.results = results;
    text_of(&report, NULL);
    keep_wording("an engine of vramwise's own");
    assert_shows("vramwise: |3.00 GiB|64.0 MiB|2.50 ms|0.3 %");
    assert_false(report_capture_has(&captured, "\nexpandable: "));
    text_of(&report, &(vw_report_form){.is_json = true});
    assert_true(report_capture_has(
        &captured, "\"settled_device_us\": 3100, \"settled_share\": 0.0031, \"moved_bytes\": "
                   "3221225472, \"copied_bytes\": 67108864, \"spilled_bytes\": 0"));
    results[0].settled_duration_ns = VW_UNKNOWN; /* no times */
    results[0].copied_bytes = 0;
    text_of(&report, NULL);
    keep_wording("the same without times, and nothing copied");
    assert_shows("vramwise: |3.00 GiB|2.50 ms");
    assert_false(report_capture_has(&captured, "0 B"));
    assert_false(report_capture_has(&captured, "0.3 %"));
}

static void a_run_that_may_spill_says_what_left_and_what_a_step_costs(void **state)
{
    vw_replay_result results[] = {sample_vramwise, sample_results[1]};
    vw_replay_report report = sample;
    (void)state;
    report.results = results;
    report.result_count = 1;
    report.spill_bytes = 8 * SAMPLE_GIB;
    text_of(&report, NULL);
    keep_wording("a run that may spill, and does not");
    assert_shows("\nvramwise: |\nspill |8.00 GiB");
    results[0].peak_spilled_bytes = 2 * SAMPLE_GIB;
    results[0].spills = 3;
    results[0].all_spilled_bytes = 3 * SAMPLE_GIB;
    results[0].returns = 1;
    results[0].returned_bytes = SAMPLE_GIB;
    results[0].peak_host_bytes = 4 * SAMPLE_GIB;
    results[0].spill_wait_ns = 1500000000;
    results[0].step_cost_ns = 50000000;
    results[0].is_step_cost_settled = true;
    text_of(&report, NULL);
    keep_wording("a run that spills");
    assert_shows("1.01|20.00 GiB|2.00 GiB"); /* the answer */
    assert_false(report_capture_has(&captured, "0.3 %"));
    assert_shows("\nvramwise: |\nvramwise: |2.00 GiB|4.00 GiB|3.00 GiB|3"
                 "|1.00 GiB|1|1.50 s|50.0 ms");
    results[0].is_step_cost_settled = false;
    results[0].returns = 0;
    text_of(&report, NULL);
    keep_wording("a run that spills in its first steps, for good");
    assert_shows("\nvramwise: |2.00 GiB|4.00 GiB|3.00 GiB|3|1.50 s|50.0 ms");
    assert_false(report_capture_has(&captured, "1.00 GiB"));
    results[0].is_step_cost_settled = true;
    results[0].returns = 1;
    results[0].step_cost_ns = VW_UNKNOWN;
    text_of(&report, NULL);
    keep_wording("a run that spills at an unknown cost");
    assert_false(report_capture_has(&captured, "50.0 ms"));
    text_of(&report, &(vw_report_form){.is_json = true});
    assert_true(report_capture_has(&captured, "\"spill_bytes\": 8589934592, "));
    assert_true(report_capture_has(
        &captured, "\"spilled_bytes\": 2147483648, \"spills\": 3, \"all_spilled_bytes\": "
                   "3221225472, \"returns\": 1, \"returned_bytes\": 1073741824, \"host_bytes\": "
                   "4294967296, \"spill_wait_us\": 1500000, \"step_cost_us\": null, "
                   "\"step_cost_settled\": true, "));
}

static void a_run_with_streams_says_what_takes_turns_and_what_a_step_costs(void **state)
{
    vw_replay_result result = sample_vramwise;
    vw_replay_report report = sample;
    (void)state;
    report.results = &result;
    report.result_count = 1;
    report.spill_bytes = 8 * SAMPLE_GIB;
    report.stream = true;
    text_of(&report, NULL);
    keep_wording("a run with streams that are not needed");
    assert_shows("\nvramwise: |\nvramwise: nothing|\nspill |8.00 GiB");
    result.stream_state_bytes = SAMPLE_GIB;
    result.stream_saved_bytes = 2 * SAMPLE_GIB;
    result.peak_host_bytes = 5 * SAMPLE_GIB;
    result.stream_wait_ns = 20000000;
    result.step_cost_ns = 30000000;
    result.step_ns = 120000000;
    result.is_step_cost_settled = true;
    text_of(&report, NULL);
    keep_wording("a run with streams");
    assert_shows("\nvramwise: |1.00 GiB|2.00 GiB|5.00 GiB|20.0 ms|30.0 ms|1.25");
    assert_false(report_capture_has(&captured, "spilled"));
    result.stream_stayed_bytes = 3 * SAMPLE_GIB;
    result.peak_spilled_bytes = result.all_spilled_bytes = 4 * SAMPLE_GIB;
    result.spills = 1;
    text_of(&report, NULL);
    keep_wording("a run with streams that spills as well");
    assert_shows("\nvramwise: |1.00 GiB|2.00 GiB|3.00 GiB|5.00 GiB|20.0 ms|30.0 ms|1.25"
                 "|\nvramwise: |4.00 GiB");
    result.step_cost_ns = result.step_ns = VW_UNKNOWN;
    text_of(&report, NULL);
    keep_wording("a run with streams at an unknown cost");
    assert_false(report_capture_has(&captured, "30.0 ms"));
    text_of(&report, &(vw_report_form){.is_json = true});
    assert_true(report_capture_has(
        &captured, "\"step_us\": null, \"stream_state_bytes\": 1073741824, "
                   "\"stream_saved_bytes\": 2147483648, \"stream_stayed_bytes\": 3221225472, "
                   "\"stream_wait_us\": 20000}"));
    assert_true(report_capture_has(&captured, "\"stream\": true}"));
}

static void it_fits_any_window(void **state)
{
    (void)state;
    for (unsigned width = 40; width <= 120; width++) {
        text_of(&sample, &(vw_report_form){.width_columns = width});
        assert_true(report_capture_width(&captured) <= width);
        assert_false(report_capture_has_loose_ends(&captured));
        assert_true(report_capture_has(&captured, "12.3"));
    }
}

static bool report_it(void *context)
{
    const vw_output output = report_capture_begin(&captured);
    const vw_report_form *form = context;
    return vw_report_replay(&sample, form, &output) == VW_OK;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    vw_report_form form = {.is_json = true};
    (void)state;
    vw_test_sweep_host_memory(report_it, NULL);
    vw_test_sweep_host_memory(report_it, &form);
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_replay(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "replay");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_comes_first_and_the_runs_stand_side_by_side),
        cmocka_unit_test(when_none_completes_that_is_the_answer),
        cmocka_unit_test(json_has_the_fields_others_rely_on),
        cmocka_unit_test(an_unlimited_card_is_null_and_not_mentioned),
        cmocka_unit_test(a_run_of_our_own_engine_says_what_it_moved_and_what_that_cost),
        cmocka_unit_test(a_run_that_may_spill_says_what_left_and_what_a_step_costs),
        cmocka_unit_test(a_run_with_streams_says_what_takes_turns_and_what_a_step_costs),
        cmocka_unit_test(it_fits_any_window),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
