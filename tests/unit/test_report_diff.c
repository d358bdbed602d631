/* test_report_diff.c - what changed, largest first, in text and in JSON. */
#include "vramwise/report.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_wording.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static const vw_frame frames[] = {
    {"_conv_forward", "/venv/lib/python3.12/site-packages/torch/nn/modules/conv.py", 543},
    {"forward", "train.py", 152},
    {"main", "train.py", 190},
    {"<module>", "train.py", 200},
};
static const vw_frame old_frame = {"forward", "train.py", 150};
static const vw_change changes[] = {
    {frames, 4, &frames[1], "activations", GIB, 3 * GIB, 10, 30, &old_frame, &frames[1], 1},
    {frames, 4, &frames[2], "weights", GIB, GIB / 2, 3, 2, &frames[2], &frames[2], 17},
    {NULL, 0, NULL, "backward", 512 * MIB, 0, 4, 0, NULL, NULL, 1},
};
static const vw_rename renames[] = {
    {true, "model.py", "net.py"},
    {false, "train.py fit", "train.py main"},
};
static const vw_change categories[] = {
    {NULL, 0, NULL, "activations", GIB, 3 * GIB, 10, 30, NULL, NULL, 0},
    {NULL, 0, NULL, "backward", 512 * MIB, 0, 4, 0, NULL, NULL, 0},
    {NULL, 0, NULL, "weights", 2 * GIB, 3 * GIB / 2, 8, 7, NULL, NULL, 0},
};
static const char *const notes[] = {"the second recording has no stacks"};

static const vw_diff_report sample = {
    .before = {.event = 100, .live_bytes = 3584 * MIB, .block_count = 22},
    .after = {.event = 200, .live_bytes = 9 * GIB / 2, .block_count = 38},
    .before_peak_reserved_bytes = 4 * GIB,
    .after_peak_reserved_bytes = VW_UNKNOWN,
    .before_event_count = 1000,
    .after_event_count = 2000,
    .before_conf = "",
    .after_conf = "expandable_segments:True",
    .changes = changes,
    .change_count = 3,
    .categories = categories,
    .category_count = 3,
    .notes = notes,
    .note_count = 1,
    .renames = renames,
    .rename_count = 2,
    .grown_bytes = 2 * GIB,
    .shrunk_bytes = GIB,
};

static const char *text_of(const vw_diff_report *report, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_diff(report, form, &output), VW_OK);
    return captured.text;
}

static void what_grew_comes_first_then_each_place(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.file = "a.pickle", .other_file = "b.pickle"});
    keep_wording("a run that grew");
    assert_shows("1.00 GiB|3.50 GiB|4.50 GiB"); /* the answer */
    assert_shows("live 3.50 GiB 4.50 GiB +1.00 GiB|activations 1.00 GiB 3.00 GiB +2.00 GiB"
                 "|backward 512 MiB 0 B -512 MiB|weights 2.00 GiB 1.50 GiB -512 MiB|22 38"
                 "|4.00 GiB ? ?");
    assert_shows("+2.00 GiB 1.00 GiB 3.00 GiB activations train.py:152 forward > conv.py:543"
                 "|-512 MiB 1.00 GiB 512 MiB weights train.py:190 main (17 stacks)"
                 "|-512 MiB 512 MiB 0 B backward (no stack)"
                 "|model.py is now net.py|train.py fit is now train.py main"
                 "|a.pickle|0|1,000|b.pickle|0|2,000|expandable_segments:True"
                 "|the second recording has no stacks");
}

static void rows_and_stacks_are_as_many_as_the_form_says(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.width_columns = 100, .most_rows = 1, .has_stacks = true});
    assert_true(report_capture_has(&captured, "train.py:152 forward > conv.py:543\n"
                                              "    /venv/lib/python3.12/site-packages/torch/nn/"
                                              "modules/conv.py:543 _conv_forward\n"
                                              "    train.py:152 forward\n"
                                              "    train.py:190 main\n"));
    keep_wording("one row, with its stack");
    assert_false(report_capture_has(&captured, "<module>"));
    assert_false(report_capture_has(&captured, "(no stack)"));
    assert_shows("and 2 smaller ones, -1.00 GiB in all|model.py is now net.py|and 1 more rename");
    assert_false(report_capture_has(&captured, "is now train.py main"));
}

static void the_same_says_so(void **state)
{
    vw_diff_report report = sample;
    (void)state;
    report.is_same = true;
    report.change_count = 0;
    report.after = report.before;
    text_of(&report, NULL);
    keep_wording("two runs that are the same");
    assert_shows("no difference|3.50 GiB");
    report.after_peak_reserved_bytes = 5 * GIB;
    text_of(&report, NULL);
    keep_wording("the same live memory, and more reserved");
    assert_shows("no difference|3.50 GiB|reserved memory grew by 1.00 GiB");
    report.is_same = false;
    text_of(&report, NULL);
    keep_wording("as much, in other places");
    assert_shows("moved|3.50 GiB");
    report.after.live_bytes = GIB;
    text_of(&report, NULL);
    keep_wording("a run that shrank");
    assert_shows("2.50 GiB|3.50 GiB|1.00 GiB");
}

static void json_has_the_fields_of_the_manual(void **state)
{
    (void)state;
    assert_string_equal(
        text_of(&sample,
                &(vw_report_form){.is_json = true, .file = "a", .other_file = "b", .most_rows = 1}),
        "{\"schema\": 1, \"same\": false, \"before\": {\"file\": \"a\", \"device\": 0, \"conf\": "
        "\"\", \"events\": 1000, \"peak_event\": 100, \"peak_live_bytes\": 3758096384, "
        "\"peak_blocks\": 22, \"peak_reserved_bytes\": 4294967296}, \"after\": {\"file\": \"b\", "
        "\"device\": 0, \"conf\": \"expandable_segments:True\", \"events\": 2000, \"peak_event\": "
        "200, \"peak_live_bytes\": 4831838208, \"peak_blocks\": 38, \"peak_reserved_bytes\": "
        "null}, \"categories\": [{\"category\": \"activations\", \"before_bytes\": 1073741824, "
        "\"after_bytes\": 3221225472, \"before_blocks\": 10, \"after_blocks\": 30}, {\"category\": "
        "\"backward\", \"before_bytes\": 536870912, \"after_bytes\": 0, \"before_blocks\": 4, "
        "\"after_blocks\": 0}, {\"category\": \"weights\", \"before_bytes\": 2147483648, "
        "\"after_bytes\": 1610612736, \"before_blocks\": 8, \"after_blocks\": 7}], "
        "\"change_count\": 3, \"changes\": [{\"category\": \"activations\", \"before_bytes\": "
        "1073741824, \"after_bytes\": 3221225472, \"before_blocks\": 10, \"after_blocks\": 30, "
        "\"where\": \"train.py:152 forward\", \"frames\": "
        "[\"/venv/lib/python3.12/site-packages/torch/nn/modules/conv.py:543 _conv_forward\", "
        "\"train.py:152 forward\", \"train.py:190 main\", \"train.py:200 <module>\"], "
        "\"before_where\": \"train.py:150 forward\", \"after_where\": \"train.py:152 forward\", "
        "\"stacks\": 1}], \"grown_bytes\": 2147483648, \"shrunk_bytes\": 1073741824, "
        "\"renames\": [{\"kind\": \"file\", \"before\": \"model.py\", \"after\": \"net.py\"}, "
        "{\"kind\": \"function\", \"before\": \"train.py fit\", \"after\": \"train.py main\"}], "
        "\"notes\": [\"the second recording has no stacks\"]}\n");
}

static void it_fits_any_window(void **state)
{
    (void)state;
    for (unsigned width = 40; width <= 120; width++) {
        text_of(&sample, &(vw_report_form){.width_columns = width, .has_stacks = true});
        assert_true(report_capture_width(&captured) <= width);
        assert_false(report_capture_has_loose_ends(&captured));
    }
}

static bool report_it(void *context)
{
    const vw_output output = report_capture_begin(&captured);
    return vw_report_diff(&sample, context, &output) == VW_OK;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    vw_report_form json = {.is_json = true}, stacks = {.has_stacks = true};
    (void)state;
    vw_test_sweep_host_memory(report_it, &json);
    vw_test_sweep_host_memory(report_it, &stacks);
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_diff(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "diff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_grew_comes_first_then_each_place),
        cmocka_unit_test(rows_and_stacks_are_as_many_as_the_form_says),
        cmocka_unit_test(the_same_says_so),
        cmocka_unit_test(json_has_the_fields_of_the_manual),
        cmocka_unit_test(it_fits_any_window),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
