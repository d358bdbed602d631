/* test_report_check.c - has memory grown: one line, or what grew, in text and in JSON. */
#include "vramwise/report.h"

#include <math.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_wording.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static const vw_check_site sites[] = {
    {"train.py forward", 88, 3 * GIB, 3 * GIB + 512 * MIB, 1200, 1200, 0, 0},
    {"train.py remember", 0, 0, 12 * MIB, 0, 12, 0, MIB},
    {"loader.py bring", 31, 64 * MIB, 64 * MIB, 100, 140, 0, 0},
};
static const char *const notes[] = {"Only one of the two recordings begins at the start."};

static const vw_check_report sample = {
    .is_worse = true,
    .policy = "native",
    .torch_version = "2.11",
    .figures = {{VW_CHECK_PEAK, 4 * GIB, 4 * GIB + 524 * MIB, 0.1279, 0.0, true},
                {VW_CHECK_RESERVED, 5 * GIB, 5 * GIB, 0.0, 0.02, false},
                {VW_CHECK_ALLOCATIONS, 1300, 1352, 0.04, 0.02, true},
                {VW_CHECK_LEAK, 0, MIB, NAN, 0.0, true},
                {VW_CHECK_CARD, VW_UNKNOWN, 5 * GIB, NAN, 0.02, false}},
    .sites = sites,
    .site_count = 3,
    .notes = notes,
    .note_count = 1,
};

static const char *text_of(const vw_check_report *report, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_check(report, form, &output), VW_OK);
    return captured.text;
}

static void what_grew_is_shown_by_figure_and_by_function(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.file = "run.pickle", .other_file = "main.json"});
    keep_wording("a run that grew");
    assert_shows("grown by 524 MiB|4.51 GiB live at the peak|4.00 GiB in the baseline");
    assert_shows("live at the peak 4.00 GiB 4.51 GiB +13 % 0 % worse"
                 "|most reserved 5.00 GiB 5.00 GiB 0 % +2.0 %"
                 "|allocations 1,300 1,352 +4.0 % +2.0 % worse"
                 "|leaked by each step 0 B 1.00 MiB new 0 % worse|smallest card ? 5.00 GiB ?");
    assert_shows("+512 MiB|train.py forward, line 88|+12.0 MiB|+1.00 MiB|+12|train.py remember"
                 "|+40|loader.py bring, line 31|native|2.11|main.json|Only one");
}

static void rows_are_as_many_as_the_form_says(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.most_rows = 1});
    assert_shows("train.py forward|and 2 smaller ones");
    assert_false(report_capture_has(&captured, "loader.py"));
}

static void all_is_well_in_one_line(void **state)
{
    vw_check_report report = sample;
    (void)state;
    report.is_worse = false;
    text_of(&report, NULL);
    keep_wording("nothing is worse");
    assert_string_equal(captured.text,
                        "memory is within limits: 4.51 GiB live at the peak, 4.00 GiB "
                        "in the baseline\n");
}

static void growth_without_a_function_says_why(void **state)
{
    vw_check_report report = sample;
    (void)state;
    report.site_count = 0;
    report.figures[VW_CHECK_PEAK].is_worse = false;
    text_of(&report, NULL);
    keep_wording("no function holds more");
    assert_shows("grown by 52: 1,352 allocations, 1,300 in the baseline|No function");
}

static void json_has_the_fields_of_the_manual(void **state)
{
    (void)state;
    assert_string_equal(
        text_of(&sample,
                &(vw_report_form){.is_json = true, .file = "a", .other_file = "b", .most_rows = 1}),
        "{\"schema\": 1, \"worse\": true, \"file\": \"a\", \"baseline\": \"b\", \"policy\": "
        "\"native\", \"torch\": \"2.11\", \"metrics\": [{\"metric\": \"peak\", \"baseline\": "
        "4294967296, \"now\": 4844421120, \"growth\": 0.1279, \"max_growth\": 0, \"worse\": "
        "true}, {\"metric\": \"reserved\", \"baseline\": 5368709120, \"now\": 5368709120, "
        "\"growth\": 0, \"max_growth\": 0.02, \"worse\": false}, {\"metric\": \"allocations\", "
        "\"baseline\": 1300, \"now\": 1352, \"growth\": 0.04, \"max_growth\": 0.02, \"worse\": "
        "true}, {\"metric\": \"leak\", \"baseline\": 0, \"now\": 1048576, \"growth\": null, "
        "\"max_growth\": 0, \"worse\": true}, {\"metric\": \"card\", \"baseline\": null, \"now\": "
        "5368709120, \"growth\": null, \"max_growth\": 0.02, \"worse\": false}], \"site_count\": "
        "3, \"sites\": [{\"site\": \"train.py forward\", \"line\": 88, \"baseline_peak_bytes\": "
        "3221225472, \"peak_bytes\": 3758096384, \"baseline_leak_bytes_per_step\": 0, "
        "\"leak_bytes_per_step\": 0, \"baseline_allocations\": 1200, \"allocations\": 1200}], "
        "\"notes\": [\"Only one of the two recordings begins at the start.\"]}\n");
}

static void it_fits_any_window(void **state)
{
    (void)state;
    for (unsigned width = 40; width <= 120; width++) {
        text_of(&sample, &(vw_report_form){.width_columns = width});
        assert_true(report_capture_width(&captured) <= width);
        assert_false(report_capture_has_loose_ends(&captured));
    }
}

static bool report_it(void *context)
{
    const vw_output output = report_capture_begin(&captured);
    return vw_report_check(&sample, context, &output) == VW_OK;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    vw_report_form json = {.is_json = true}, text = {.width_columns = 80};
    (void)state;
    vw_test_sweep_host_memory(report_it, &json);
    vw_test_sweep_host_memory(report_it, &text);
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_check(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "check");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_grew_is_shown_by_figure_and_by_function),
        cmocka_unit_test(rows_are_as_many_as_the_form_says),
        cmocka_unit_test(all_is_well_in_one_line),
        cmocka_unit_test(growth_without_a_function_says_why),
        cmocka_unit_test(json_has_the_fields_of_the_manual),
        cmocka_unit_test(it_fits_any_window),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
