/* test_report_ranks.c - a job's ranks as text and as JSON. */
#include "vramwise/report.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/report_wording.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static const vw_frame place = {"forward", "model.py", 42};

static const vw_rank ranks[] = {
    {.rank = 0,
     .recording = "run.rank0.pickle",
     .text = "rank0.log",
     .file_count = 2,
     .basis = VW_RANK_BASIS_TRACE,
     .peak_live_bytes = 8 * GIB,
     .peak_reserved_bytes = 9 * GIB,
     .event_count = 12000,
     .step_count = 100,
     .ran_out = true,
     .tried_bytes = 512 * MIB,
     .time_us = 5200000,
     .local_time_us = INT64_MIN,
     .has_verdict = true,
     .verdict = VW_VERDICT_GENUINE,
     .confidence = VW_CONFIDENCE_HIGH,
     .is_problem = true,
     .sentence = "Genuine: more is needed.",
     .card_bytes = VW_UNKNOWN},
    {.rank = 1,
     .recording = "it's.rank1.pickle",
     .file_count = 1,
     .basis = VW_RANK_BASIS_TRACE,
     .peak_live_bytes = 12 * GIB,
     .peak_reserved_bytes = 13 * GIB,
     .event_count = 12000,
     .is_out_of_line = {true, true, false},
     .step_count = VW_UNKNOWN,
     .growth_bytes_per_step = 2.0 * 1024 * 1024,
     .ran_out = true,
     .tried_bytes = VW_UNKNOWN,
     .time_us = 4000000,
     .local_time_us = INT64_MIN,
     .has_verdict = true,
     .verdict = VW_VERDICT_LEAK,
     .confidence = VW_CONFIDENCE_MEDIUM,
     .is_problem = true,
     .sentence = "A leak: it grows.",
     .conf = "expandable_segments:True",
     .card_bytes = 80 * GIB},
    {.rank = 2,
     .text = "rank2.log",
     .file_count = 1,
     .device = -1,
     .peak_live_bytes = VW_UNKNOWN,
     .peak_reserved_bytes = VW_UNKNOWN,
     .event_count = VW_UNKNOWN,
     .step_count = VW_UNKNOWN,
     .growth_bytes_per_step = NAN,
     .tried_bytes = VW_UNKNOWN,
     .time_us = INT64_MIN,
     .local_time_us = INT64_MIN,
     .sentence = "",
     .card_bytes = VW_UNKNOWN},
};
static const vw_rank_outlier outliers[] = {{1, VW_RANK_PEAK_LIVE, 12 * GIB, 8 * GIB}};
static const vw_rank_site sites[] = {{&place, "forward", 1, 6 * GIB, 2 * GIB},
                                     {NULL, "unknown", 0, 0, 256 * MIB}};
static const vw_rank_setting settings[] = {{"card", 0, "40.00 GiB", "80.00 GiB"},
                                           {"card", 2, "40.00 GiB", "80.00 GiB"}};
static const vw_rank_file files[] = {
    {"it's.rank1.pickle", VW_RANK_FILE_RECORDING, 1, 1, NULL},
    {"odd\x1b[31m.pickle", VW_RANK_FILE_UNREADABLE, VW_UNKNOWN, 0, "it is cut short"},
    {"rank0.log", VW_RANK_FILE_TEXT, 0, 1, NULL},
    {"rank2.log", VW_RANK_FILE_TEXT, 2, 1, NULL},
    {"run.rank0.pickle", VW_RANK_FILE_RECORDING, 0, 1, NULL},
    {"slurm-1.out", VW_RANK_FILE_TEXT, VW_UNKNOWN, 0, "nothing says whose it is"},
    {"train.py", VW_RANK_FILE_FOREIGN, VW_UNKNOWN, 0, "no recording"},
};
static const uint64_t missing[] = {3}, unread[] = {4, 6};
static const char *const notes[] = {"There are more."};

static const vw_ranks_report sample = {
    .ranks = ranks,
    .rank_count = 3,
    .missing = missing,
    .missing_count = 1,
    .unread = unread,
    .unread_count = 2,
    .ran_out_count = 2,
    .first_rank = 1,
    .first_lead_us = 1200000,
    .medians = {8 * GIB, 9 * GIB, 12000},
    .outliers = outliers,
    .outlier_count = 1,
    .sites = sites,
    .site_count = 2,
    .settings = settings,
    .setting_count = 2,
    .files = files,
    .file_count = 7,
    .recording_count = 2,
    .text_count = 3,
    .unreadable_count = 1,
    .foreign_count = 1,
    .notes = notes,
    .note_count = 1,
    .is_something_to_see = true,
};

static const char *text_of(const vw_ranks_report *report, const vw_report_form *form)
{
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_ranks(report, form, &output), VW_OK);
    return captured.text;
}

static void the_first_comes_first_then_all_ranks(void **state)
{
    (void)state;
    text_of(&sample, &(vw_report_form){.file = "job"});
    keep_wording("a job of three ranks");
    assert_shows("rank 1|1.20 s|2|3"); /* the answer */
    assert_shows("0 8.00 GiB 9.00 GiB 12,000 100 +1.20 s genuine\n"
                 "|1 12.00 GiB* 13.00 GiB* 12,000 +2.00 MiB |leak\n|2 ? ?\n"
                 "|8.00 GiB 9.00 GiB 12,000\n");
    assert_shows("* rank 1|12.00 GiB|8.00 GiB"
                 "|1 +4.00 GiB 6.00 GiB 2.00 GiB forward model.py:42 forward\n"
                 "|0 -256 MiB 0 B 256 MiB unknown |card|40.00 GiB|0, 2|80.00 GiB"
                 "|rank 1: A leak: it grows.\n|vramwise doctor 'job/it'\\''s.rank1.pickle'\n"
                 "|vramwise view 'job/it'\\''s.rank1.pickle'\n");
    assert_shows("\nfiles |7|2|3|1|1|3\n|4, 6|slurm-1.out: nothing says whose it is\n"
                 "|odd?[31m.pickle: it is cut short\n|train.py: no recording\n"
                 "|There are more.\n");
}

static void it_fits_a_narrow_window(void **state)
{
    (void)state;
    vw_ranks_report loose = sample;
    loose.unassigned = &(vw_rank){.rank = VW_UNKNOWN, .text = "slurm-1_2.out"};
    loose.unassigned_count = 1;
    const char *text = text_of(&loose, &(vw_report_form){.width_columns = 40});
    assert_non_null(strstr(text, "\n\nrank 0, live peak 8.00 GiB, ")); /* no file */
    assert_non_null(strstr(text, "\nslurm-1_2.out: rank ?, "));
    text_of(&sample, &(vw_report_form){.width_columns = 60});
    for (const char *line = strtok(captured.text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (strlen(line) > 60 && strncmp(line, "vramwise ", 9) != 0)
            fail_msg("wider than 60 columns: %s", line);
}

static void lists_are_as_long_as_wanted(void **state)
{
    (void)state;
    const char *text = text_of(&sample, &(vw_report_form){.most_rows = 1});
    assert_non_null(strstr(text, "model.py:42"));
    assert_null(strstr(text, "(no stack)"));
    keep_wording("one row of each list");
}

static void a_job_without_failures_says_so(void **state)
{
    (void)state;
    const vw_ranks_report quiet = {.ranks = &ranks[2],
                                   .rank_count = 1,
                                   .first_rank = VW_UNKNOWN,
                                   .files = &files[3],
                                   .file_count = 1,
                                   .text_count = 1};
    const char *text = text_of(&quiet, NULL);
    keep_wording("a job without failures");
    assert_null(strstr(text, "median"));
    assert_null(strstr(text, "vramwise doctor"));
}

/* What ran out is said first, whether it is known whose it is or not. */
static void files_of_no_rank_are_in_the_answer(void **state)
{
    (void)state;
    vw_rank loose[] = {ranks[1], ranks[0]};
    loose[0].rank = loose[1].rank = VW_UNKNOWN;
    loose[0].ran_out = false;
    vw_ranks_report report = {.unassigned = loose,
                              .unassigned_count = 2,
                              .first_rank = VW_UNKNOWN,
                              .recording_count = 2,
                              .text_count = 1,
                              .is_something_to_see = true};
    const vw_report_form form = {.struct_size = sizeof form, .file = "job"};
    text_of(&report, &form);
    keep_wording("a file of no known rank ran out");
    assert_shows("1|3|\nrun.rank0.pickle: Genuine: more is needed.\n"
                 "|vramwise doctor job/run.rank0.pickle\n");
    loose[1].ran_out = false;
    text_of(&report, &form);
    keep_wording("files of no known rank, of which none ran out");
    assert_shows("3|\nit's.rank1.pickle: A leak: it grows.\n");
    loose[1].ran_out = true;
    report.ranks = &ranks[2];
    report.rank_count = 1;
    text_of(&report, &form);
    keep_wording("a rank that did not run out, and a file of no known rank that did");
    assert_shows("1|1|");
    loose[0].ran_out = true;
    report.ranks = ranks;
    report.ran_out_count = 1;
    report.first_rank = 0;
    text_of(&report, &form);
    keep_wording("a rank that ran out, and files of no known rank that did, too");
    assert_shows("rank 0|1|2|\nrank 0: Genuine: more is needed.\n");
}

static void who_was_first_may_be_unknown(void **state)
{
    (void)state;
    vw_ranks_report unknown = sample;
    unknown.first_rank = VW_UNKNOWN;
    unknown.first_reason = "nothing says when";
    text_of(&unknown, NULL);
    keep_wording("it is unknown who was first");
    assert_shows("2|3|nothing says when\n|0 8.00 GiB |genuine");
    assert_false(report_capture_has(&captured, "+1.20 s"));
    unknown.ran_out_count = 1;
    unknown.first_rank = 0;
    text_of(&unknown, NULL);
    keep_wording("one rank ran out, alone");
    assert_shows("rank 0|3");
}

static json_t *json_of(const vw_ranks_report *report)
{
    json_error_t error;
    const vw_report_form form = {
        .struct_size = sizeof form, .is_json = true, .most_rows = SIZE_MAX, .file = "job"};
    json_t *json = json_loads(text_of(report, &form), 0, &error);
    if (json == NULL)
        fail_msg("%s", error.text);
    return json;
}

static const json_t *item(const json_t *json, const char *list, size_t index)
{
    return json_array_get(json_object_get(json, list), index);
}

static long long number_in(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void json_has_every_figure(void **state)
{
    (void)state;
    json_t *json = json_of(&sample);
    const json_t *first = json_object_get(json, "first_oom"), *rank = item(json, "ranks", 1);
    assert_int_equal(number_in(json, "schema"), 1);
    assert_string_equal(json_string_value(json_object_get(json, "folder")), "job");
    assert_int_equal(number_in(json, "oom_count"), 2);
    assert_int_equal(number_in(first, "rank"), 1);
    assert_int_equal(number_in(first, "lead_us"), 1200000);
    assert_int_equal(number_in(json_object_get(json, "medians"), "events"), 12000);
    assert_int_equal(number_in(json_object_get(rank, "oom"), "time_us"), 4000000);
    assert_int_equal(number_in(rank, "growth_bytes_per_step"), 2 * MIB);
    assert_int_equal(json_array_size(json_object_get(rank, "out_of_line")), 2);
    assert_string_equal(json_string_value(json_object_get(rank, "view")),
                        "vramwise view 'job/it'\\''s.rank1.pickle'");
    assert_string_equal(json_string_value(json_object_get(item(json, "outliers", 0), "measure")),
                        "peak_live_bytes");
    assert_string_equal(json_string_value(json_object_get(item(json, "sites", 0), "where")),
                        "model.py:42 forward");
    assert_true(json_is_null(json_object_get(item(json, "sites", 1), "where")));
    assert_string_equal(json_string_value(json_object_get(item(json, "files", 1), "path")),
                        "odd\x1b[31m.pickle");
    assert_int_equal(json_array_size(json_object_get(json, "settings")), 2);
    assert_int_equal(json_integer_value(item(json, "missing", 0)), 3);
    assert_int_equal(json_array_size(json_object_get(json, "unread")), 2);
    assert_int_equal(json_integer_value(item(json, "unread", 1)), 6);
    json_decref(json);
}

static void json_has_null_for_what_is_not_known(void **state)
{
    (void)state;
    static const char *const unknown[] = {
        "recording", "device", "basis",  "peak_live_bytes", "oom",  "verdict",
        "steps",     "view",   "events", "card_bytes",      "conf", "growth_bytes_per_step"};
    json_t *json = json_of(&sample);
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (!json_is_null(json_object_get(item(json, "ranks", 2), unknown[i])))
            fail_msg("%s is not null", unknown[i]);
    json_decref(json);
}

static bool reports_both_ways(void *context)
{
    (void)context;
    const vw_report_form form = {.struct_size = sizeof form, .is_json = true, .file = "job"};
    vw_output output = report_capture_begin(&captured);
    vw_status text = vw_report_ranks(&sample, NULL, &output);
    output = report_capture_begin(&captured);
    return vw_report_ranks(&sample, &form, &output) == VW_OK && text == VW_OK;
}

static void lack_of_host_memory_is_a_status(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(reports_both_ways, NULL);
    const vw_output output = report_capture_begin(&captured);
    assert_int_equal(vw_report_ranks(NULL, NULL, &output), VW_ERR_INVALID_ARGUMENT);
}

static void the_wording_is_that_of_the_golden_file(void **state)
{
    (void)state;
    golden_compare(&wording, "ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_comes_first_then_all_ranks),
        cmocka_unit_test(it_fits_a_narrow_window),
        cmocka_unit_test(lists_are_as_long_as_wanted),
        cmocka_unit_test(a_job_without_failures_says_so),
        cmocka_unit_test(files_of_no_rank_are_in_the_answer),
        cmocka_unit_test(who_was_first_may_be_unknown),
        cmocka_unit_test(json_has_every_figure),
        cmocka_unit_test(json_has_null_for_what_is_not_known),
        cmocka_unit_test(lack_of_host_memory_is_a_status),
        cmocka_unit_test(the_wording_is_that_of_the_golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
