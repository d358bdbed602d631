/* test_report_fleet_tune.c - one setting for many jobs: the answer first, then what it rests on. */
#include "vramwise/report.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_samples.h"
#include "support/report_wording.h"

#define SETTING(its_policy, its_conf, fits)                                                        \
    .policy = (its_policy), .conf = (its_conf), .job_count = 40, .fit_count = (fits)

static const vw_fleet_setting settings[] = {
    {SETTING("expandable", "expandable_segments:True", 37), .gained_count = 5,
     .saved_bytes = (int64_t)(12 * SAMPLE_GIB), .peak_reserved_bytes = 70 * SAMPLE_GIB,
     .driver_calls = 900, .driver_ns = 1200000},
    {SETTING("native", "", 31), .lost_count = 1, .saved_bytes = -(int64_t)SAMPLE_GIB,
     .retry_count = 2, .retries = 9, .driver_calls = 100, .driver_ns = 400000},
    {SETTING("conf", "max_split_size_mb:8192", 31), .lost_count = 1,
     .saved_bytes = -(int64_t)SAMPLE_GIB, .retry_count = 2, .retries = 9, .driver_calls = 100,
     .driver_ns = 400000},
    {SETTING("vramwise", "", 38), .driver_ns = 2000000},
};

static const vw_fleet_kind kinds[] = {
    {.name = NULL,
     .job = "job0",
     .recorded = {SETTING("recorded", NULL, 32)},
     .best = {SETTING("expandable", "expandable_segments:True", 37)}},
    {.name = NULL,
     .job = "job38",
     .recorded = {.policy = "recorded", .job_count = 1},
     .best = {.policy = "vramwise", .conf = "", .job_count = 1, .fit_count = 1}},
};

enum { JOBS = 40 };

/* The others, which are all as the last one, are filled in. */
static vw_fleet_tuned_job jobs[JOBS] = {
    {.name = "job39",
     .recording_count = 8,
     .kind = SIZE_MAX,
     .peak_live_bytes = 92 * SAMPLE_GIB,
     .recorded_reserved_bytes = VW_UNKNOWN,
     .reserved_bytes = VW_UNKNOWN,
     .recorded_conf = ""},
    {.name = "job38",
     .recording_count = 8,
     .is_possible = true,
     .fits = true,
     .kind = 1,
     .peak_live_bytes = 70 * SAMPLE_GIB,
     .recorded_reserved_bytes = VW_UNKNOWN,
     .reserved_bytes = 71 * SAMPLE_GIB},
    {.name = "job7",
     .recording_count = 1,
     .is_possible = true,
     .fits_best = true,
     .fits = true,
     .peak_live_bytes = 70 * SAMPLE_GIB,
     .recorded_reserved_bytes = VW_UNKNOWN,
     .reserved_bytes = 72 * SAMPLE_GIB},
    {.name = "job8",
     .recording_count = 1,
     .is_possible = true,
     .fits_recorded = true,
     .fits_best = true,
     .fits = true},
};

static int fill_jobs(void **state)
{
    (void)state;
    for (size_t i = 4; i < JOBS; i++)
        jobs[i] = jobs[3];
    return 0;
}

static const vw_fleet_skipped skipped[] = {{"job3", "run.rank1.pickle", "ends too early"}};
static const char *const notes[] = {"Files that lie beside the folders are left out: 1."};

static const vw_fleet_tuning sample = {
    .card_bytes = 80 * SAMPLE_GIB,
    .variable = "PYTORCH_ALLOC_CONF",
    .recorded = {SETTING("recorded", NULL, 32), .driver_ns = 500000},
    .settings = settings,
    .setting_count = 4,
    .best = &settings[0],
    .defaults = &settings[1],
    .kinds = kinds,
    .kind_count = 2,
    .kinds_fit_count = 38,
    .jobs = jobs,
    .job_count = JOBS,
    .impossible_count = 1,
    .stuck_count = 1,
    .bare_count = 2,
    .skipped = skipped,
    .skipped_count = 1,
    .file_count = 300,
    .recording_count = 290,
    .foreign_count = 9,
    .notes = notes,
    .note_count = 1,
    .is_something_to_see = true,
};

static const char *text_of(const vw_fleet_tuning *tuning, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_fleet_tune(tuning, form, &output), VW_OK);
    return captured.text;
}

static void the_answer_has_the_line_to_set_and_what_it_gains(void **state)
{
    (void)state;
    text_of(&sample, NULL);
    keep_wording("a setting for all jobs");
    assert_true(report_capture_begins_with(
        &captured, "Set PYTORCH_ALLOC_CONF=expandable_segments:True for all 40 jobs: 37 fit in"));
    assert_shows(
        "(32 with|1 more fits|1 needs more memory|1 fits with none of 4"
        "|\nPYTORCH_ALLOC_CONF=expandable_segments:True\n"
        "|expandable_segments:True\n|native\n|recorded\n|like job0|like job38"
        "|too large  job39|by its kind only  job38|fits now          job7"
        "|run.rank1.pickle of job job3: ends too early|allocator|38 fit|300: 290 recordings");
}

static void a_setting_without_effect_is_no_row(void **state)
{
    (void)state;
    text_of(&sample, NULL);
    assert_false(report_capture_has(&captured, "max_split_size_mb:8192"));
    assert_shows("1 setting more");
}

static void the_defaults_and_the_recorded_are_rows_wherever_they_stand(void **state)
{
    (void)state;
    vw_fleet_tuning tuning = sample;
    const vw_fleet_setting turned[] = {settings[0], settings[2], settings[1], settings[3]};
    tuning.settings = turned;
    tuning.best = &turned[0];
    tuning.defaults = &turned[2];
    text_of(&tuning, &(vw_report_form){.most_rows = 1});
    assert_shows("expandable_segments:True\n|  native\n|  recorded\n|2 settings more");
}

static void other_answers_say_what_to_do(void **state)
{
    (void)state;
    vw_fleet_tuning tuning = sample;
    tuning.is_recorded_best = true;
    text_of(&tuning, NULL);
    keep_wording("what was recorded is best");
    assert_true(
        report_capture_begins_with(&captured, "Keep the recorded settings for all 40 jobs"));
    tuning = sample;
    tuning.best = &settings[1];
    text_of(&tuning, NULL);
    keep_wording("the defaults are best");
    assert_true(
        report_capture_begins_with(&captured, "Leave PYTORCH_ALLOC_CONF unset for all 40 jobs"));
    tuning.best = &settings[3];
    text_of(&tuning, NULL);
    keep_wording("only another allocator helps");
    assert_true(
        report_capture_begins_with(&captured, "Use vramwise run --allocator vramwise for all"));
    assert_shows("\nvramwise run --allocator vramwise\n");
    tuning.best = NULL;
    tuning.kind_count = tuning.kinds_fit_count = 0;
    text_of(&tuning, NULL);
    keep_wording("nothing fits");
    assert_true(report_capture_begins_with(&captured, "No setting makes any of 40 jobs fit in"));
}

static void kinds_with_a_name_are_called_by_it(void **state)
{
    (void)state;
    vw_fleet_tuning tuning = sample;
    vw_fleet_kind named[] = {kinds[0], kinds[1]};
    named[0].name = "pretraining";
    named[1].name = "";
    named[1].best = (vw_fleet_setting){.job_count = 1};
    tuning.kinds = named;
    text_of(&tuning, NULL);
    keep_wording("kinds that the list names");
    assert_shows("pretraining|(no kind)|(nothing fits)");
}

static void json_has_the_fields_that_the_manual_names(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.is_json = true});
    assert_true(report_capture_begins_with(
        &captured, "{\"schema\": 1, \"something_to_see\": true, \"card_bytes\": 85899345920, "
                   "\"variable\": \"PYTORCH_ALLOC_CONF\", \"too_large_jobs\": 1, \"unfit_jobs\": "
                   "1, \"jobs_without_recording\": 2, \"recorded_is_best\": false, \"best\": "
                   "{\"policy\": \"expandable\", \"conf\": \"expandable_segments:True\", \"jobs\": "
                   "40, \"fit\": 37, \"gained\": 5, \"lost\": 0, \"refused\": 0, \"saved_bytes\": "
                   "12884901888, "));
    assert_shows(
        "\"recorded\": {\"policy\": \"recorded\", \"conf\": null"
        "|\"defaults\": {\"policy\": \"native\"|\"saved_bytes\": -1073741824"
        "|\"settings\": [{|\"kinds_fit\": 38|\"kinds\": [{\"kind\": null, \"job\": \"job0\""
        "|\"jobs\": [{\"job\": \"job39\", \"kind\": null|\"reserved_bytes\": null"
        "|\"skipped\": [{\"job\": \"job3\"|\"files\": {\"all\": 300");
}

static void csv_has_the_settings(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.is_csv = true});
    assert_true(report_capture_begins_with(
        &captured, "policy,conf,jobs,fit,gained,lost,refused,saved_bytes,peak_reserved_bytes,"));
    assert_shows("expandable,expandable_segments:True,40,37,5,0,0,12884901888|\nvramwise,,40,38");
}

/* But for the line to be copied, which is one line at any width. */
static void it_fits_any_window(void **state)
{
    (void)state;
    vw_fleet_tuning tuning = sample;
    tuning.best = &settings[1];
    for (unsigned width = 40; width <= 120; width++) {
        text_of(&tuning, &(vw_report_form){.width_columns = width});
        assert_true(report_capture_width(&captured) <= width);
        assert_false(report_capture_has_loose_ends(&captured));
    }
}

static bool report_it(void *context)
{
    const vw_output output = report_capture_begin(&captured);
    return vw_report_fleet_tune(&sample, context, &output) == VW_OK;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(report_it, NULL);
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_fleet_tune(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "tune_jobs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_has_the_line_to_set_and_what_it_gains),
        cmocka_unit_test(a_setting_without_effect_is_no_row),
        cmocka_unit_test(the_defaults_and_the_recorded_are_rows_wherever_they_stand),
        cmocka_unit_test(other_answers_say_what_to_do),
        cmocka_unit_test(kinds_with_a_name_are_called_by_it),
        cmocka_unit_test(json_has_the_fields_that_the_manual_names),
        cmocka_unit_test(csv_has_the_settings),
        cmocka_unit_test(it_fits_any_window),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, fill_jobs, NULL);
}
