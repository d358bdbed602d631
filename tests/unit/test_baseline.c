/* test_baseline.c - what a recording comes to, and its file. */
#include "vramwise/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/recording.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_run.h"

#define A UINT64_C(0x7f0000000000)

static char path[64]; /* of the file at hand */

static int make_path(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/vramwise_test_XXXXXX");
    int file = mkstemp(path);
    return file < 0 || close(file) != 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* ---- measuring ------------------------------------------------------------------------------- */

static vw_baseline *measured(vw__model *model)
{
    const vw_recording recording = {.model = model};
    vw_baseline *baseline = NULL;
    assert_int_equal(vw_baseline_make(&recording, NULL, &baseline), VW_OK);
    return baseline;
}

static const vw_baseline_site *site_of(const vw_baseline *baseline, const char *name)
{
    for (size_t i = 0; i < baseline->site_count; i++)
        if (strcmp(baseline->sites[i].site, name) == 0)
            return &baseline->sites[i];
    fail_msg("%s is missing", name);
    return NULL;
}

static void live_bytes_end_where_the_program_frees_them(void **state)
{
    small_model small;
    (void)state;
    small_model_begin(&small);
    uint32_t one = small_model_context(&small, "step /home/me/train.py 10;main train.py 1");
    uint32_t two = small_model_context(&small, "step /home/me/train.py 11;main train.py 1");
    uint32_t three = small_model_context(&small, "main train.py 7");
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 20 * RUN_MIB, one);
    small_model_alloc(&small, A, 3 * RUN_MIB, one);
    small_model_alloc(&small, A + 3 * RUN_MIB, 4 * RUN_MIB, two);
    /* Another stream still uses the first one; for the program it is gone. */
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A, 3 * RUN_MIB, one);
    small_model_alloc(&small, A + 7 * RUN_MIB, 2 * RUN_MIB, three);
    small_model_event(&small, VW_ACTION_FREE_COMPLETED, A, 3 * RUN_MIB, one);
    small_model_free(&small, A + 3 * RUN_MIB, 4 * RUN_MIB, two);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 20 * RUN_MIB, 0, one);
    small_model_set_features(&small);
    vw__model *model = small_model_finish(&small);
    vw_baseline *baseline = measured(model);
    assert_int_equal(baseline->values[VW_CHECK_PEAK], 7 * RUN_MIB);
    assert_int_equal(baseline->values[VW_CHECK_ALLOCATIONS], 3);
    assert_true(baseline->values[VW_CHECK_LEAK] == VW_UNKNOWN); /* no steps */
    assert_int_equal(baseline->site_count, 2);
    const vw_baseline_site *step = site_of(baseline, "train.py step");
    assert_int_equal(step->peak_bytes, 7 * RUN_MIB);
    assert_int_equal(step->allocations, 2);
    assert_int_equal(step->line, 11); /* holds the most */
    assert_int_equal(site_of(baseline, "train.py main")->peak_bytes, 0);
    vw_baseline_free(baseline);
    vw__model_destroy(model);
}

static void a_leak_is_measured_by_step_and_named(void **state)
{
    made_up_run run;
    (void)state;
    run_begin(&run, true);
    for (unsigned step = 0; step < 12; step++) {
        run_step(&run, 4 * RUN_MIB);
        (void)run_alloc(&run, 2 * RUN_MIB, run.keeper);
    }
    vw_baseline *baseline = NULL;
    assert_int_equal(vw_baseline_make(run_end(&run), NULL, &baseline), VW_OK);
    assert_in_range(baseline->values[VW_CHECK_LEAK], 2 * RUN_MIB * 9 / 10, 2 * RUN_MIB * 11 / 10);
    assert_int_equal(site_of(baseline, "train.py keep")->leak_bytes,
                     baseline->values[VW_CHECK_LEAK]);
    vw_baseline_free(baseline);
    run_dispose(&run, NULL);
}

static void without_a_trace_there_is_nothing_to_measure(void **state)
{
    small_model small;
    vw_baseline *baseline = NULL;
    (void)state;
    small_model_begin(&small);
    small_model_segment(&small, 0, A, 20 * RUN_MIB, 512, VW__MODEL_NO_CONTEXT);
    vw__model *model = small_model_finish(&small);
    const vw_recording recording = {.model = model};
    assert_int_equal(vw_baseline_make(&recording, NULL, &baseline), VW_ERR_CORRUPT_FILE);
    assert_int_equal(vw_baseline_make(NULL, NULL, &baseline), VW_ERR_INVALID_ARGUMENT);
    vw__model_destroy(model);
}

/* ---- the file -------------------------------------------------------------------------------- */

#define HEAD "{\"vramwise_baseline\": 1, \"policy\": \"native\", \"torch\": \"2.11\", "
#define NUMBERS "\"peak_live_bytes\": 7, \"peak_reserved_bytes\": 8, \"allocations\": 9, "
#define SITES                                                                                      \
    "\"sites\": [{\"site\": \"b\", \"peak_bytes\": 1, \"allocations\": 2, "                        \
    "\"leak_bytes_per_step\": 3}, {\"site\": \"a\", \"peak_bytes\": 4, "                           \
    "\"allocations\": 5, \"leak_bytes_per_step\": 6}]}"

static vw_status read_text(const char *text, vw_baseline **out)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return vw_baseline_read(path, out);
}

static void a_file_gives_back_what_was_written(void **state)
{
    static const vw_baseline_site sites[] = {{"a.py \"x\"", 1, 2, 3, 4}, {"b.py y", 5, 6, 7, 8}};
    const vw_baseline written = {.policy = "expandable",
                                 .torch_version = "2.4",
                                 .values = {11, 12, 13, VW_UNKNOWN, 15},
                                 .sites = sites,
                                 .site_count = 2,
                                 .is_cut = true};
    vw_baseline *read = NULL;
    (void)state;
    assert_int_equal(vw_baseline_write(&written, path), VW_OK);
    assert_int_equal(vw_baseline_read(path, &read), VW_OK);
    assert_string_equal(read->policy, "expandable");
    assert_string_equal(read->torch_version, "2.4");
    assert_memory_equal(read->values, written.values, sizeof written.values);
    assert_true(read->is_cut);
    assert_int_equal(read->site_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(read->sites[i].site, sites[i].site);
        assert_int_equal(read->sites[i].peak_bytes, sites[i].peak_bytes);
        assert_int_equal(read->sites[i].allocations, sites[i].allocations);
        assert_int_equal(read->sites[i].leak_bytes, sites[i].leak_bytes);
        assert_int_equal(read->sites[i].line, 0);
    }
    vw_baseline_free(read);
    assert_int_equal(vw_baseline_write(&written, "/nonexistent/x.json"), VW_ERR_FILE);
    assert_int_equal(vw_baseline_write(NULL, path), VW_ERR_INVALID_ARGUMENT);
}

static void what_is_null_is_unknown_and_sites_are_sorted(void **state)
{
    vw_baseline *read = NULL;
    (void)state;
    assert_int_equal(read_text(HEAD NUMBERS "\"other\": [1], " SITES, &read), VW_OK);
    assert_true(read->values[VW_CHECK_LEAK] == VW_UNKNOWN);
    assert_true(read->values[VW_CHECK_CARD] == VW_UNKNOWN);
    assert_false(read->is_cut);
    assert_string_equal(read->sites[0].site, "a");
    assert_int_equal(read->sites[1].leak_bytes, 3);
    vw_baseline_free(read);
}

static void what_is_no_baseline_is_refused_with_words(void **state)
{
    static const struct {
        const char *text;
        vw_status status;
        const char *words;
    } wrong[] = {
        {"", VW_ERR_CORRUPT_FILE, "whole baseline"},
        {"[]", VW_ERR_CORRUPT_FILE, "found a list"},
        {"{\"peak\": 1}", VW_ERR_CORRUPT_FILE, "without \"vramwise_baseline\""},
        {"{\"vramwise_baseline\": 2}", VW_ERR_UNSUPPORTED, "version 1, found version 2"},
        {"{\"vramwise_baseline\": true}", VW_ERR_CORRUPT_FILE, "without"},
        {HEAD NUMBERS "\"sites\": [{\"site\"", VW_ERR_CORRUPT_FILE, "whole baseline"},
        {HEAD NUMBERS "\"sites\": {}}", VW_ERR_CORRUPT_FILE, "\"sites\""},
        {HEAD NUMBERS "\"sites\": [1]}", VW_ERR_CORRUPT_FILE, "\"sites\""},
        {HEAD NUMBERS "\"sites\": [{}]}", VW_ERR_CORRUPT_FILE, "\"site\""},
        {HEAD NUMBERS "\"leak_bytes_per_step\": -1, " SITES, VW_ERR_CORRUPT_FILE, "leak_bytes"},
        {HEAD SITES, VW_ERR_CORRUPT_FILE, "\"peak_live_bytes\""},
        {"{\"vramwise_baseline\": 1, \"torch\": \"2.11\", " NUMBERS SITES, VW_ERR_CORRUPT_FILE,
         "\"policy\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        vw_baseline *read = NULL;
        assert_int_equal(read_text(wrong[i].text, &read), wrong[i].status);
        if (strstr(vw_last_error(), wrong[i].words) == NULL)
            fail_msg("%s: %s", wrong[i].text, vw_last_error());
    }
    vw_baseline *read = NULL;
    assert_int_equal(vw_baseline_read("/nonexistent", &read), VW_ERR_FILE);
    assert_int_equal(vw_baseline_read(NULL, &read), VW_ERR_INVALID_ARGUMENT);
}

static void a_setting_that_nobody_knows_is_the_fault_of_the_file(void **state)
{
    static const char *const settings[][2] = {
        {"recorded", "2.11"}, {"conf", "2.11"}, {"best", "2.11"}, {"native", "99.1"}};
    made_up_run run;
    (void)state;
    run_begin(&run, true);
    const vw_recording *recording = run_end(&run);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const vw_baseline like = {.policy = settings[i][0], .torch_version = settings[i][1]};
        const vw_baseline_options options = {.struct_size = sizeof options, .like = &like};
        vw_baseline *baseline = NULL;
        assert_int_equal(vw_baseline_make(recording, &options, &baseline), VW_ERR_CORRUPT_FILE);
        assert_non_null(strstr(vw_last_error(), settings[i][0]));
    }
    run_dispose(&run, NULL);
}

/* ---- host memory ----------------------------------------------------------------------------- */

static bool measure_and_keep(void *context)
{
    vw_baseline *baseline, *read;
    if (vw_baseline_make(context, NULL, &baseline) != VW_OK)
        return false;
    bool is_good = vw_baseline_write(baseline, path) == VW_OK;
    vw_baseline_free(baseline);
    if (!is_good || vw_baseline_read(path, &read) != VW_OK)
        return false;
    vw_baseline_free(read);
    return true;
}

static void every_lack_of_host_memory_is_survived(void **state)
{
    small_model small;
    (void)state;
    small_model_begin(&small);
    uint32_t one = small_model_context(&small, "step train.py 10");
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 20 * RUN_MIB, one);
    small_model_alloc(&small, A, 3 * RUN_MIB, one);
    small_model_free(&small, A, 3 * RUN_MIB, one);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 20 * RUN_MIB, 0, one);
    small_model_set_features(&small);
    vw_recording recording = {.model = small_model_finish(&small)};
    vw_test_sweep_host_memory(measure_and_keep, &recording);
    vw__model_destroy(recording.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_bytes_end_where_the_program_frees_them),
        cmocka_unit_test(a_leak_is_measured_by_step_and_named),
        cmocka_unit_test(without_a_trace_there_is_nothing_to_measure),
        cmocka_unit_test(a_file_gives_back_what_was_written),
        cmocka_unit_test(what_is_null_is_unknown_and_sites_are_sorted),
        cmocka_unit_test(what_is_no_baseline_is_refused_with_words),
        cmocka_unit_test(a_setting_that_nobody_knows_is_the_fault_of_the_file),
        cmocka_unit_test(every_lack_of_host_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
