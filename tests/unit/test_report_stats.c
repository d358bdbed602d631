/* test_report_stats.c - a recording in a page: the peak first, the users largest first. */
#include "vramwise/report.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_wording.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static const vw_frame frames[] = {
    {"linear", "/venv/torch/nn/functional.py", 9},
    {"forward", "train.py", 152},
    {"main", "train.py", 190},
    {"<module>", "train.py", 200},
};
static const vw_usage usages[] = {
    {frames, 4, &frames[1], "forward", true, 3 * GIB, 12, 512 * MIB},
    {NULL, 0, NULL, "backward", true, 2 * GIB, 3000, GIB},
    {NULL, 0, NULL, "unknown", false, GIB, 1, GIB},
};
static const vw_usage categories[] = {
    {.category = "forward", .bytes = 3 * GIB, .block_count = 12},
    {.category = "backward", .bytes = 2 * GIB, .block_count = 3000},
};
static const vw_setting settings[] = {
    {"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128"},
    {"max_split_size", "134217728"},
    {"garbage_collection_threshold", "0.0"},
    {"expandable_segments", "False"},
    {"pinned_num_register_threads", "1"},
    {"roundup_power2_divisions", "{'1': 0, '2': 0}"},
};
static const char *const warnings[] = {"the ring was full: older events are gone"};

static const vw_device_stats devices[] = {{
    .device = 0,
    .event_count = 661960,
    .action_counts = {[VW_ACTION_ALLOC] = 330000,
                      [VW_ACTION_FREE_REQUESTED] = 165000,
                      [VW_ACTION_FREE_COMPLETED] = 165000,
                      [VW_ACTION_SEGMENT_ALLOC] = 1000,
                      [VW_ACTION_SEGMENT_FREE] = 959,
                      [VW_ACTION_OOM] = 1},
    .first_time_us = 1000000,
    .last_time_us = 13300000,
    .stream_count = 2,
    .private_pool_count = 1,
    .segment_count = 41,
    .block_count = 120,
    .reserved_bytes = 7 * GIB,
    .allocated_bytes = GIB,
    .active_bytes = GIB,
    .requested_bytes = VW_UNKNOWN,
    .largest_free_block_bytes = 2 * GIB,
    .peak_reserved_bytes = 8 * GIB,
    .peak_reserved_event = 500000,
    .is_truncated = true,
    .initial_live_bytes = 512 * MIB,
    .initial_block_count = 7,
    .step_count = 64,
    .peak = {.event = 400000,
             .time_us = 5000000,
             .live_bytes = 7 * GIB,
             .reserved_bytes = 8 * GIB,
             .block_count = 4000,
             .usages = usages,
             .usage_count = 3,
             .categories = categories,
             .category_count = 2},
    .end = {.event = VW_UNKNOWN,
            .time_us = INT64_MIN,
            .live_bytes = GIB,
            .reserved_bytes = 7 * GIB,
            .block_count = 1,
            .usages = &usages[2],
            .usage_count = 1},
    .has_oom = true,
    .oom_event = 661000,
    .oom_tried_bytes = 700 * MIB,
    .oom_device_free_bytes = 100 * MIB,
    .spill = {.spills = 13,
              .all_spilled_bytes = 3 * GIB,
              .peak_spilled_bytes = 2 * GIB,
              .end_spilled_bytes = GIB,
              .returns = 2,
              .returned_bytes = 512 * MIB,
              .wait_us = 90000},
    .summary_reason = "the trace does not begin at the first allocation",
}};

static const vw_recording_stats sample = {
    .encoding = "pickle",
    .compression = "xz",
    .file_bytes = MIB,
    .uncompressed_bytes = 64 * MIB,
    .model_bytes = 30 * MIB,
    .oldest_version = "2.10",
    .newest_version = "2.11",
    .conf = "max_split_size_mb:128",
    .settings = settings,
    .setting_count = 6,
    .stack_count = 900,
    .frame_count = 400,
    .devices = devices,
    .device_count = 1,
    .warnings = warnings,
    .warning_count = 1,
};

static const char *text_of(const vw_recording_stats *stats, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_stats(stats, form, &output), VW_OK);
    return captured.text;
}

static void the_peak_of_a_recording_comes_first(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.file = "run.pickle.xz"});
    keep_wording("a recording");
    assert_true(report_capture_begins_with(&captured, "run.pickle.xz: "));
    assert_shows("7.00 GiB|8.00 GiB|661,960"); /* the answer */
    assert_shows("pickle|1.00 MiB|xz|64.0 MiB|2.10|2.11|900|400|max_split_size_mb:128"
                 "|max_split_size = 134217728\n");
    assert_shows("661,960|330,000|165,000|1,959|12.3 s|2|1|64|512 MiB|7|7.00 GiB|4,000|400,000"
                 "|8.00 GiB|500,000|661,000|700 MiB|100 MiB|2.00 GiB|13|512 MiB"
                 "|7.00 GiB|41|120|1.00 GiB|1.00 GiB|?|2.00 GiB");
    assert_shows("3.00 GiB 12 forward train.py:152 forward > functional.py:9"
                 "|2.00 GiB 3,000 backward|1.00 GiB 1 unknown|1.00 GiB 987"
                 "|3.00 GiB 12 forward\n|2.00 GiB 3,000 backward\n|1.00 GiB 1 unknown"
                 "|the trace does not begin at the first allocation"
                 "|warning: the ring was full: older events are gone\n");
}

static void rows_and_stacks_are_as_many_as_the_form_says(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.most_rows = 1, .has_stacks = true});
    assert_true(report_capture_has(
        &captured, "3.00 GiB      12  forward   train.py:152 forward > functional.py:9\n"
                   "    /venv/torch/nn/functional.py:9 linear\n"
                   "    train.py:152 forward\n"
                   "    train.py:190 main\n"
                   "4.00 GiB   3,988            ("));
}

static void defaults_differ_from_settings_that_were_not_recorded(void **state)
{
    vw_recording_stats stats = sample;
    (void)state;
    stats.conf = "";
    stats.settings = settings + 2;
    stats.setting_count = 4;
    text_of(&stats, NULL);
    keep_wording("default settings");
    assert_shows("\nsettings |default");
    stats.conf = NULL;
    stats.setting_count = 0;
    text_of(&stats, NULL);
    keep_wording("no settings");
    assert_shows("\nsettings ");
    assert_false(report_capture_has(&captured, "default"));
}

/* Is the setting one of those that the report names? */
static bool is_shown(const char *key, const char *value)
{
    const vw_setting setting = {key, value};
    vw_recording_stats stats = sample;
    stats.conf = "";
    stats.settings = &setting;
    stats.setting_count = 1;
    text_of(&stats, NULL);
    return report_capture_has(&captured, key);
}

static void a_table_of_divisions_is_default_only_if_all_are_zero(void **state)
{
    static const struct {
        const char *value;
        bool is_default;
    } cases[] = {{"{'1': 0, '2': 0}", true},
                 {"{\"1\":0}", true},
                 {"{}", true},
                 {"[1:0,2:0]", true},
                 {"[1:0,2:4]", false},
                 {"{'1': 4, '2': 0}", false},
                 {"{'1': 0, '2': 40}", false},
                 {"{'1': }", false},
                 {"0.6", false},
                 {"0.0", true},
                 {"-1", true},
                 {"True", false},
                 {"False", true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(is_shown("some_key", cases[i].value), !cases[i].is_default);
    assert_false(is_shown("pinned_num_register_threads", "1"));
    assert_true(is_shown("pinned_num_register_threads", "4"));
}

static void a_recording_without_a_trace_or_a_device_is_still_shown(void **state)
{
    vw_device_stats device = {.device = -1,
                              .reserved_bytes = GIB,
                              .allocated_bytes = MIB,
                              .peak_reserved_bytes = VW_UNKNOWN,
                              .peak_reserved_event = VW_UNKNOWN,
                              .first_time_us = INT64_MIN,
                              .last_time_us = INT64_MIN};
    vw_recording_stats stats = sample;
    (void)state;
    stats.devices = &device;
    stats.oldest_version = NULL;
    stats.newest_version = NULL;
    text_of(&stats, NULL);
    keep_wording("pinned host memory, without a trace");
    assert_shows("1.00 MiB|1.00 GiB");
    assert_false(report_capture_has(&captured, "Device"));
    stats.device_count = 0;
    text_of(&stats, NULL);
    keep_wording("no device");
}

static void times_that_make_no_sense_are_left_out(void **state)
{
    vw_device_stats device = devices[0];
    vw_recording_stats stats = sample;
    (void)state;
    stats.devices = &device;
    device.first_time_us = INT64_MIN + 1;
    device.last_time_us = INT64_MAX;
    text_of(&stats, NULL);
    assert_false(report_capture_has(&captured, "\ntime"));
    device.first_time_us = 5;
    device.last_time_us = 4;
    text_of(&stats, NULL);
    assert_false(report_capture_has(&captured, "\ntime"));
}

static void the_summary_is_printed_whole_or_not_at_all(void **state)
{
    static const char summary[] = "|===================================================|\n"
                                  "|  PyTorch CUDA memory summary                      |\n"
                                  "|===================================================|\n";
    vw_device_stats device = devices[0];
    vw_recording_stats stats = sample;
    (void)state;
    stats.devices = &device;
    device.summary = summary;
    device.summary_reason = NULL;
    text_of(&stats, NULL);
    assert_true(report_capture_has(&captured, summary));
    text_of(&stats, &(vw_report_form){.width_columns = 52});
    assert_false(report_capture_has(&captured, "|==="));
    keep_wording("a summary wider than the window");
    assert_shows("memory_summary()|53|52");
    device.summary = NULL;
    text_of(&stats, NULL);
    assert_false(report_capture_has(&captured, "memory_summary"));
}

static void json_has_the_fields_of_the_manual(void **state)
{
    (void)state;
    assert_string_equal(
        text_of(&sample, &(vw_report_form){.is_json = true, .file = "run", .most_rows = 1}),
        "{\"schema\": 1, \"file\": \"run\", \"encoding\": \"pickle\", \"compression\": \"xz\", "
        "\"file_bytes\": 1048576, \"uncompressed_bytes\": 67108864, \"model_bytes\": 31457280, "
        "\"oldest_version\": \"2.10\", \"newest_version\": \"2.11\", \"conf\": "
        "\"max_split_size_mb:128\", \"settings\": {\"PYTORCH_CUDA_ALLOC_CONF\": "
        "\"max_split_size_mb:128\", \"max_split_size\": \"134217728\", "
        "\"garbage_collection_threshold\": \"0.0\", \"expandable_segments\": \"False\", "
        "\"pinned_num_register_threads\": \"1\", \"roundup_power2_divisions\": \"{'1': 0, '2': "
        "0}\"}, \"stacks\": 900, \"frames\": 400, \"annotations\": 0, \"unknown_fields\": 0, "
        "\"first_unknown_field\": null, \"devices\": [{\"device\": 0, \"events\": 661960, "
        "\"actions\": {\"alloc\": 330000, \"free_requested\": 165000, \"free_completed\": 165000, "
        "\"segment_alloc\": 1000, \"segment_free\": 959, \"segment_map\": 0, \"segment_unmap\": "
        "0, \"snapshot\": 0, \"oom\": 1, \"other\": 0}, \"first_time_us\": 1000000, "
        "\"last_time_us\": 13300000, \"streams\": 2, \"private_pools\": 1, \"steps\": 64, "
        "\"truncated\": true, \"initial_live_bytes\": 536870912, \"initial_blocks\": 7, "
        "\"stackless_allocs\": 0, \"segments\": 41, \"expandable_segments\": 0, \"blocks\": 120, "
        "\"reserved_bytes\": 7516192768, \"allocated_bytes\": 1073741824, \"active_bytes\": "
        "1073741824, \"requested_bytes\": null, \"largest_free_block_bytes\": 2147483648, "
        "\"peak_reserved_bytes\": 8589934592, \"peak_reserved_event\": 500000, \"oom\": "
        "{\"event\": 661000, \"tried_bytes\": 734003200, \"free_bytes\": 104857600}, \"spill\": "
        "{\"spills\": 13, \"all_spilled_bytes\": 3221225472, \"peak_spilled_bytes\": "
        "2147483648, \"end_spilled_bytes\": 1073741824, \"returns\": 2, \"returned_bytes\": "
        "536870912, \"wait_us\": 90000}, \"peak\": "
        "{\"event\": 400000, \"time_us\": 5000000, \"live_bytes\": 7516192768, "
        "\"reserved_bytes\": 8589934592, \"blocks\": 4000, \"categories\": [{\"category\": "
        "\"forward\", \"bytes\": 3221225472, \"blocks\": 12, \"largest_bytes\": 0}, "
        "{\"category\": \"backward\", \"bytes\": 2147483648, \"blocks\": 3000, "
        "\"largest_bytes\": 0}], \"usages\": [{\"category\": \"forward\", \"bytes\": 3221225472, "
        "\"blocks\": 12, \"largest_bytes\": 536870912, \"has_stack\": true, \"where\": "
        "\"train.py:152 forward\", \"frames\": [\"/venv/torch/nn/functional.py:9 linear\", "
        "\"train.py:152 forward\", \"train.py:190 main\", \"train.py:200 <module>\"]}]}, "
        "\"end\": {\"event\": null, \"time_us\": null, \"live_bytes\": 1073741824, "
        "\"reserved_bytes\": 7516192768, \"blocks\": 1, \"categories\": [], \"usages\": "
        "[{\"category\": \"unknown\", \"bytes\": 1073741824, \"blocks\": 1, \"largest_bytes\": "
        "1073741824, \"has_stack\": false, \"where\": null, \"frames\": []}]}, \"summary\": null, "
        "\"summary_reason\": \"the trace does not begin at the first allocation\"}], "
        "\"warnings\": [\"the ring was full: older events are gone\"]}\n");
}

static void no_spill_and_no_return_are_said_in_words(void **state)
{
    (void)state;
    vw_device_stats device = devices[0];
    vw_recording_stats stats = sample;
    stats.devices = &device;
    device.spill.returns = 0;
    text_of(&stats, NULL);
    keep_wording("spilled, and nothing came back");
    assert_shows("\nspilled |2.00 GiB|13");
    assert_false(report_capture_has(&captured, "0 B"));
    device.spill = (vw_recorded_spill){0};
    text_of(&stats, NULL);
    assert_false(report_capture_has(&captured, "spilled"));
    text_of(&stats, &(vw_report_form){.is_json = true});
    assert_true(report_capture_has(&captured, "\"spill\": null"));
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
    return vw_report_stats(&sample, context, &output) == VW_OK;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    vw_report_form json = {.is_json = true}, stacks = {.has_stacks = true};
    (void)state;
    vw_test_sweep_host_memory(report_it, &json);
    vw_test_sweep_host_memory(report_it, &stacks);
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_stats(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "stats");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_of_a_recording_comes_first),
        cmocka_unit_test(rows_and_stacks_are_as_many_as_the_form_says),
        cmocka_unit_test(defaults_differ_from_settings_that_were_not_recorded),
        cmocka_unit_test(a_table_of_divisions_is_default_only_if_all_are_zero),
        cmocka_unit_test(a_recording_without_a_trace_or_a_device_is_still_shown),
        cmocka_unit_test(times_that_make_no_sense_are_left_out),
        cmocka_unit_test(the_summary_is_printed_whole_or_not_at_all),
        cmocka_unit_test(json_has_the_fields_of_the_manual),
        cmocka_unit_test(no_spill_and_no_return_are_said_in_words),
        cmocka_unit_test(it_fits_any_window),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
