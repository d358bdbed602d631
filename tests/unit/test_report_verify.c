/* test_report_verify.c - the answer first, the numbers behind it, and the JSON that cli.md names.
 */
#include "vramwise/report.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_wording.h"

static const vw_difference difference = {
    .device = 0,
    .event = 1234,
    .expected = "alloc at 0x7f0000000000",
    .got = "alloc at 0x7f0000000200",
    .explanation = "Another block was the best fit.",
};
static const char *const reasons[] = {"the ring was cut: the first events are gone"};

static vw_verify_result exact_result(void)
{
    return (vw_verify_result){
        .is_exact = true,
        .torch_version = "2.11",
        .event_count = 661960,
        .segment_events_recorded = 12345,
        .segment_events_matched = 12345,
        .placements_recorded = 220134,
        .placements_matched = 220134,
        .end_segments_recorded = 10,
        .end_segments_matched = 10,
        .limit_at_least_bytes = VW_UNKNOWN,
        .limit_below_bytes = VW_UNKNOWN,
    };
}

static const char *text_of(const vw_verify_result *result, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_verify(result, form, &output), VW_OK);
    return captured.text;
}

static void an_exact_recording_says_so_first(void **state)
{
    const vw_verify_result result = exact_result();
    (void)state;
    text_of(&result, NULL);
    keep_wording("an exact recording");
    assert_true(report_capture_begins_with(&captured, "exact: "));
    assert_shows("12,345|12,345|220,134|220,134|12,345 12,345|220,134 220,134|10 10|661,960|2.11");
}

static void where_nothing_can_be_verified_it_does_not_say_exact(void **state)
{
    vw_verify_result result = {.is_exact = true,
                               .torch_version = "2.11",
                               .event_count = 1500,
                               .unverifiable = reasons,
                               .unverifiable_count = 1,
                               .limit_at_least_bytes = VW_UNKNOWN,
                               .limit_below_bytes = VW_UNKNOWN};
    (void)state;
    text_of(&result, NULL);
    keep_wording("nothing could be verified");
    assert_false(report_capture_has(&captured, "exact"));
    assert_shows("1,500|2.11|the ring was cut: the first events are gone");
    result.is_exact = false;
    result.first_difference = &difference;
    text_of(&result, NULL);
    keep_wording("nothing could be verified, and the recording contradicts itself");
    assert_true(report_capture_begins_with(&captured, "differs: "));
}

static void a_difference_shows_both_sides_and_what_it_means(void **state)
{
    vw_verify_result result = exact_result();
    (void)state;
    result.is_exact = false;
    result.placements_matched = 1000;
    result.first_difference = &difference;
    result.unverifiable = reasons;
    result.unverifiable_count = 1;
    result.limit_at_least_bytes = UINT64_C(23) << 30;
    result.limit_below_bytes = UINT64_C(24) << 30;
    text_of(&result, NULL);
    keep_wording("a difference");
    assert_true(report_capture_begins_with(&captured, "differs: "));
    assert_shows("12,345|12,345|1,000|220,134|\nlimit |23.00 GiB|24.00 GiB|0|1,234"
                 "|alloc at 0x7f0000000000|alloc at 0x7f0000000200"
                 "|Another block was the best fit.|the ring was cut");
}

static void a_difference_at_the_end_has_no_event(void **state)
{
    vw_verify_result result = exact_result();
    vw_difference at_the_end = difference;
    (void)state;
    at_the_end.event = VW_UNKNOWN;
    result.is_exact = false;
    result.first_difference = &at_the_end;
    text_of(&result, NULL);
    keep_wording("a difference at the end");
    assert_shows("device 0|alloc at 0x7f0000000000");
    assert_false(report_capture_has(&captured, "?"));
    text_of(&result, &(vw_report_form){.is_json = true});
    assert_true(report_capture_has(&captured, "\"first_difference\": {\"device\": 0, \"event\": "
                                              "null, "));
}

static void json_has_the_fields_others_rely_on(void **state)
{
    vw_verify_result result = exact_result();
    (void)state;
    assert_string_equal(
        text_of(&result, &(vw_report_form){.is_json = true, .file = "run.pickle"}),
        "{\"schema\": 1, \"file\": \"run.pickle\", \"exact\": true, \"torch\": \"2.11\", "
        "\"events\": 661960, \"segment_events\": {\"recorded\": 12345, \"matched\": 12345}, "
        "\"placements\": {\"recorded\": 220134, \"matched\": 220134}, \"end_segments\": "
        "{\"recorded\": 10, \"matched\": 10}, \"statistics\": null, \"first_difference\": null, "
        "\"unverifiable\": [], \"limit_at_least_bytes\": null, \"limit_below_bytes\": null}\n");
    result.has_expectation = true;
    result.statistics_recorded = 5;
    result.statistics_matched = 4;
    result.first_difference = &difference;
    result.unverifiable = reasons;
    result.unverifiable_count = 1;
    text_of(&result, &(vw_report_form){.is_json = true});
    assert_true(report_capture_has(&captured, "\"file\": null"));
    assert_true(report_capture_has(&captured, "\"statistics\": {\"recorded\": 5, \"matched\": 4}"));
    assert_true(report_capture_has(
        &captured, "{\"device\": 0, \"event\": 1234, \"expected\": \"alloc at 0x7f0000000000\", "
                   "\"got\": \"alloc at 0x7f0000000200\", \"explanation\": \"Another block was the "
                   "best fit.\"}, \"unverifiable\": [\"the ring was cut: the first events are "
                   "gone\"]"));
}

static void it_fits_any_window(void **state)
{
    vw_verify_result result = exact_result();
    (void)state;
    result.first_difference = &difference;
    result.unverifiable = reasons;
    result.unverifiable_count = 1;
    for (unsigned width = 40; width <= 100; width++) {
        text_of(&result, &(vw_report_form){.width_columns = width});
        assert_true(report_capture_width(&captured) <= width);
        assert_false(report_capture_has_loose_ends(&captured));
    }
}

static bool report_it(void *context)
{
    const vw_output output = report_capture_begin(&captured);
    return vw_report_verify(context, NULL, &output) == VW_OK;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    vw_verify_result result = exact_result();
    (void)state;
    result.first_difference = &difference;
    vw_test_sweep_host_memory(report_it, &result);
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_verify(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "verify");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exact_recording_says_so_first),
        cmocka_unit_test(where_nothing_can_be_verified_it_does_not_say_exact),
        cmocka_unit_test(a_difference_shows_both_sides_and_what_it_means),
        cmocka_unit_test(a_difference_at_the_end_has_no_event),
        cmocka_unit_test(json_has_the_fields_others_rely_on),
        cmocka_unit_test(it_fits_any_window),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
