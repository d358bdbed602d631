/* test_report_verify.c - the answer first, the numbers behind it, and the JSON that cli.md names.
 */
#include "vramwise/report.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_capture.h"

static report_capture captured;

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
    assert_string_equal(text_of(&result, NULL),
                        "exact: 12,345 of 12,345 segment events and 220,134 of 220,134 placements "
                        "came\n"
                        "  out again\n"
                        "\n"
                        "what                 recorded  matched\n"
                        "segment events         12,345   12,345\n"
                        "placements            220,134  220,134\n"
                        "segments at the end        10       10\n"
                        "\n"
                        "events        661,960\n"
                        "rules         PyTorch 2.11\n");
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
    assert_string_equal(text_of(&result, NULL),
                        "nothing could be verified: the recording does not hold what its "
                        "placements\n"
                        "  depend on\n"
                        "\n"
                        "events        1,500\n"
                        "rules         PyTorch 2.11\n"
                        "\n"
                        "not verified: the ring was cut: the first events are gone\n");
    result.is_exact = false;
    result.first_difference = &difference;
    text_of(&result, NULL);
    assert_true(report_capture_begins_with(&captured, "differs: nothing could be verified, and "));
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
    assert_true(report_capture_begins_with(&captured, "differs: 12,345 of 12,345"));
    assert_true(report_capture_has(&captured, "The first difference: device 0, event 1,234\n"
                                              "recorded      alloc at 0x7f0000000000\n"
                                              "replayed      alloc at 0x7f0000000200\n"
                                              "Another block was the best fit.\n"));
    assert_true(report_capture_has(&captured, "limit         at least 23.00 GiB and less than "
                                              "24.00 GiB, by what was refused\n"));
    assert_true(report_capture_has(&captured, "not verified: the ring was cut"));
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
    assert_true(report_capture_has(&captured, "device 0, at the end of the recording\n"));
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
