/* test_report_tune.c - does it fit, with what, and the JSON that cli.md names. */
#include "vramwise/report.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_samples.h"
#include "support/report_wording.h"

static const char *const warnings[] = {"max_split_size_mb:128 is often recommended; here it takes "
                                       "5.99 times what is live"};
static const char *const notes[] = {"21 settings were tried"};

static const vw_tune_report sample = {
    .event_count = 5000,
    .card_bytes = 24 * SAMPLE_GIB,
    .peak_live_bytes = 20 * SAMPLE_GIB,
    .is_possible = true,
    .fits = true,
    .best = &sample_results[1],
    .recorded = &sample_results[0],
    .tried = sample_results,
    .tried_count = 2,
    .warnings = warnings,
    .warning_count = 1,
    .notes = notes,
    .note_count = 1,
};

static const char *text_of(const vw_tune_report *report, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_tune(report, form, &output), VW_OK);
    return captured.text;
}

static void what_fits_is_named_with_the_line_to_set(void **state)
{
    (void)state;
    text_of(&sample, NULL);
    keep_wording("a setting that fits");
    assert_true(report_capture_begins_with(&captured, "fits: "));
    assert_shows("21.00 GiB|24.00 GiB|expandable_segments:True"
                 "|\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"
                 "|warning: max_split_size_mb:128 is often|note: 21 settings were tried\n");
}

static void the_line_to_set_has_the_variable_of_the_version(void **state)
{
    vw_tune_report report = sample;
    (void)state;
    report.variable = "PYTORCH_ALLOC_CONF";
    text_of(&report, NULL);
    assert_shows("\nPYTORCH_ALLOC_CONF=expandable_segments:True\n");
}

static void when_the_defaults_are_best_nothing_is_to_be_set(void **state)
{
    vw_tune_report report = sample;
    vw_replay_result native = sample_results[1];
    (void)state;
    native.policy = "native";
    native.conf = "";
    report.best = &native;
    text_of(&report, NULL);
    keep_wording("PyTorch's defaults are best");
    assert_true(report_capture_has(&captured, "PYTORCH_CUDA_ALLOC_CONF"));
    assert_false(report_capture_has(&captured, "PYTORCH_CUDA_ALLOC_CONF="));
}

static void if_only_vramwise_fits_nothing_is_to_be_set(void **state)
{
    vw_tune_report report = sample;
    (void)state;
    report.best = &sample_vramwise;
    report.tried = &sample_vramwise;
    report.tried_count = 1;
    text_of(&report, NULL);
    keep_wording("only vramwise's allocator fits");
    assert_true(report_capture_begins_with(&captured, "fits: "));
    assert_shows("20.20 GiB|24.00 GiB|\nvramwise run --allocator vramwise\n");
    assert_false(report_capture_has(&captured, "PYTORCH_CUDA_ALLOC_CONF"));
    assert_false(report_capture_has(&captured, "\nallocator "));
}

/* Whether its row is among those shown or not. */
static void what_our_own_engine_would_reserve_is_a_fact_beside_the_best(void **state)
{
    const vw_replay_result tried[] = {sample_results[1], sample_vramwise};
    vw_tune_report report = sample;
    (void)state;
    report.best = &tried[0];
    report.tried = tried;
    text_of(&report, &(vw_report_form){.most_rows = 1});
    keep_wording("vramwise's allocator beside a setting that fits");
    assert_shows("\nallocator |vramwise|20.20 GiB|1.01");
}

static void the_recorded_setting_is_a_row_wherever_it_stands(void **state)
{
    vw_replay_result tried[4];
    vw_tune_report report = sample;
    (void)state;
    for (size_t i = 0; i < 4; i++)
        tried[i] = sample_results[1];
    tried[2] = sample_results[0];
    report.best = &tried[0];
    report.tried = tried;
    report.tried_count = 4;
    report.recorded = &tried[2];
    text_of(&report, &(vw_report_form){.most_rows = 1, .width_columns = 100});
    assert_shows("\nexpandable |\nrecorded |\nand 2 more\n");
}

static void what_does_not_fit_says_whether_anything_could_help(void **state)
{
    vw_tune_report report = sample;
    (void)state;
    report.fits = false;
    text_of(&report, NULL);
    keep_wording("no setting fits");
    assert_true(report_capture_begins_with(&captured, "does not fit: "));
    assert_shows("2|24.00 GiB|20.00 GiB");
    report.is_possible = false;
    report.card_bytes = 16 * SAMPLE_GIB;
    text_of(&report, NULL);
    keep_wording("no setting can fit");
    assert_true(report_capture_begins_with(&captured, "does not fit: "));
    assert_shows("20.00 GiB|16.00 GiB");
}

static void text_shows_as_many_as_the_form_says_and_two_failures_at_most(void **state)
{
    vw_tune_report report = sample;
    (void)state;
    report.fits = false;
    report.best = &sample_results[0];
    text_of(&report, &(vw_report_form){.most_rows = 1});
    keep_wording("one row of two, and one failure");
    const char *first = strstr(captured.text, " 1,200");
    assert_non_null(first);
    assert_null(strstr(first + 1, " 1,200"));
}

static void json_has_the_fields_others_rely_on(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.is_json = true});
    assert_true(report_capture_begins_with(
        &captured,
        "{\"schema\": 1, \"file\": null, \"device\": 0, \"events\": 5000, \"card_bytes\": "
        "25769803776, \"peak_live_bytes\": 21474836480, \"possible\": true, \"fits\": "
        "true, \"best\": {\"policy\": \"expandable\", \"conf\": "
        "\"expandable_segments:True\", "));
    assert_true(report_capture_has(&captured, "\"recorded\": {\"policy\": \"recorded\""));
    assert_true(report_capture_has(&captured, "\"tried\": [{\"policy\": \"recorded\""));
    assert_true(report_capture_has(&captured, "\"notes\": [\"21 settings were tried\"]}\n"));
}

static void nothing_tried_is_null(void **state)
{
    const vw_tune_report report = {.card_bytes = 1, .peak_live_bytes = 2};
    (void)state;
    text_of(&report, &(vw_report_form){.is_json = true});
    assert_true(report_capture_has(
        &captured, "\"best\": null, \"recorded\": null, \"tried\": [], \"warnings\": []"));
    text_of(&report, NULL);
    assert_true(report_capture_has(&captured, "does not fit"));
}

/* But for the line to be copied, which is one line at any width. */
static void it_fits_any_window(void **state)
{
    vw_tune_report report = sample;
    (void)state;
    text_of(&sample, &(vw_report_form){.width_columns = 40});
    assert_true(
        report_capture_has(&captured, "\nPYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n"));
    report.fits = false;
    for (unsigned width = 40; width <= 120; width++) {
        text_of(&report, &(vw_report_form){.width_columns = width});
        assert_true(report_capture_width(&captured) <= width);
        assert_false(report_capture_has_loose_ends(&captured));
    }
}

static bool report_it(void *context)
{
    const vw_output output = report_capture_begin(&captured);
    return vw_report_tune(&sample, context, &output) == VW_OK;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(report_it, NULL);
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_tune(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "tune");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_named_with_the_line_to_set),
        cmocka_unit_test(the_line_to_set_has_the_variable_of_the_version),
        cmocka_unit_test(when_the_defaults_are_best_nothing_is_to_be_set),
        cmocka_unit_test(if_only_vramwise_fits_nothing_is_to_be_set),
        cmocka_unit_test(what_our_own_engine_would_reserve_is_a_fact_beside_the_best),
        cmocka_unit_test(the_recorded_setting_is_a_row_wherever_it_stands),
        cmocka_unit_test(what_does_not_fit_says_whether_anything_could_help),
        cmocka_unit_test(text_shows_as_many_as_the_form_says_and_two_failures_at_most),
        cmocka_unit_test(json_has_the_fields_others_rely_on),
        cmocka_unit_test(nothing_tried_is_null),
        cmocka_unit_test(it_fits_any_window),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
