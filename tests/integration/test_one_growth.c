/* test_one_growth.c - whether memory grows has one answer, wherever it is asked.
 *
 * A series of steps is put to the doctor as a log and as a running job, to the outlook that `top`
 * and the metrics show, to the guard of `vramwise run`, to the report of a folder and to its page.
 * A recording is put to the doctor, to the report and to the page. */
#include "vramwise/view.h"
#include "vramwise/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/job_folder.h"
#include "support/made_job.h"
#include "support/read_view.h"
#include "support/stored_recordings.h"

enum { STEPS = 400, LINE_BYTES = 64 };

static job_folder folder;

static int make_folder(void **state)
{
    (void)state;
    job_folder_make(&folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    job_folder_remove(&folder);
    return 0;
}

/* ---- the report and its page ----------------------------------------------------------------- */

/* By how much the only rank of the folder grows a step, as the report says. */
static double growth_in_report(void)
{
    vw_ranks_report *report = NULL;
    vw_view *view = NULL;
    read_view read;
    size_t size_bytes;
    assert_int_equal(vw_ranks_examine(folder.path, NULL, &report), VW_OK);
    assert_int_equal(report->rank_count, 1);
    double growth = report->ranks[0].growth_bytes_per_step;

    assert_int_equal(vw_view_make_ranks(report, "job", &view), VW_OK);
    const void *bytes = vw_view_data(view, &size_bytes);
    read_view_open(&read, bytes, size_bytes);
    const json_t *ranks = json_object_get(json_object_get(read.header, "ranks"), "ranks");
    const json_t *shown = json_object_get(json_array_get(ranks, 0), "growth_bytes_per_step");
    assert_true(json_is_integer(shown));
    assert_int_equal(json_integer_value(shown) > 0, growth > 0);
    read_view_close(&read);
    vw_view_free(view);
    vw_ranks_report_free(report);
    return growth;
}

/* ---- one series, asked everywhere ------------------------------------------------------------ */

typedef uint64_t (*series)(uint64_t step);

static uint64_t noise(uint64_t step, uint64_t below)
{
    uint64_t value = (step + 1) * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (value ^ value >> 32) % below;
}

static uint64_t even_leak(uint64_t step)
{
    return 4 * GIB + step * 20 * MIB;
}

static uint64_t noisy_leak(uint64_t step)
{
    return 4 * GIB + step * 20 * MIB + noise(step, 100 * MIB);
}

static uint64_t late_leak(uint64_t step)
{
    return 4 * GIB + noise(step, 20 * MIB) + (step > 290 ? (step - 290) * 60 * MIB : 0);
}

static uint64_t level(uint64_t step)
{
    (void)step;
    return 4 * GIB;
}

static uint64_t load_that_varies(uint64_t step)
{
    return 4 * GIB + noise(step, 4 * GIB);
}

static uint64_t lengths_sorted_within_an_epoch(uint64_t step)
{
    return 4 * GIB + step % 40 * 80 * MIB + noise(step, 100 * MIB);
}

static uint64_t warm_up(uint64_t step)
{
    return 4 * GIB + (step < 60 ? step : 60) * 50 * MIB;
}

static uint64_t level_that_changes(uint64_t step)
{
    return (step < 250 ? 4 : 7) * GIB + noise(step, 10 * MIB);
}

static bool is_leak(vw_diagnosis *diagnosis)
{
    bool found = diagnosis->verdict == VW_VERDICT_LEAK;
    vw_diagnosis_free(diagnosis);
    return found;
}

static void every_place_says(bool expected, series live_at)
{
    static made_job made;
    static char log[STEPS * LINE_BYTES];
    size_t size_bytes = 0;
    vw_diagnosis *diagnosis = NULL;
    vw_job_outlook outlook;
    make_job(&made);
    for (uint64_t step = 1; step <= STEPS; step++) {
        uint64_t live = live_at(step);
        add_step(&made, 0, live);
        size_bytes += (size_t)snprintf(log + size_bytes, sizeof log - size_bytes,
                                       "{\"step\": %llu, \"allocated\": %llu}\n",
                                       (unsigned long long)step, (unsigned long long)live);
    }
    put_numbers(&made, 0, live_at(STEPS), live_at(STEPS) + GIB, 8 * GIB);

    assert_int_equal(vw_doctor_text(log, size_bytes, NULL, &diagnosis), VW_OK);
    assert_int_equal(is_leak(diagnosis), expected);
    assert_int_equal(vw_doctor_job(&made.job, NULL, &diagnosis), VW_OK);
    assert_int_equal(is_leak(diagnosis), expected);
    assert_int_equal(vw_job_outlook_find(&made.devices[0], &outlook), VW_OK);
    assert_int_equal(outlook.is_leak, expected);
    assert_int_equal(vw_job_outlook_find_firm(&made.devices[0], &outlook), VW_OK);
    assert_int_equal(outlook.is_leak, expected);
    job_folder_put(&folder, "rank0.steps.jsonl", log);
    assert_int_equal(growth_in_report() > 0, expected);
}

static void leaks_are_leaks_everywhere(void **state)
{
    (void)state;
    every_place_says(true, even_leak);
    every_place_says(true, noisy_leak);
    every_place_says(true, late_leak);
}

static void what_is_no_leak_is_one_nowhere(void **state)
{
    (void)state;
    every_place_says(false, level);
    every_place_says(false, load_that_varies);
    every_place_says(false, lengths_sorted_within_an_epoch);
    every_place_says(false, warm_up);
    every_place_says(false, level_that_changes);
}

/* ---- one recording, asked everywhere --------------------------------------------------------- */

static bool has_leak(const vw_recording *recording)
{
    vw_diagnosis *diagnosis = NULL;
    bool found = false;
    assert_int_equal(vw_doctor_recording(recording, NULL, &diagnosis), VW_OK);
    for (size_t i = 0; i < diagnosis->finding_count; i++)
        found = found || strcmp(diagnosis->findings[i].kind, "leak") == 0;
    vw_diagnosis_free(diagnosis);
    return found;
}

/* By how much the stacks of the page's tab of leaks grow a step, together. */
static uint64_t growth_in_view(const vw_recording *recording)
{
    const vw_view_options options = {
        .struct_size = sizeof options, .file = "a", .without_what_if = true};
    vw_view *view = NULL;
    read_view read;
    size_t size_bytes, count;
    uint64_t sum = 0;
    assert_int_equal(vw_view_make(recording, NULL, &options, &view), VW_OK);
    const void *bytes = vw_view_data(view, &size_bytes);
    read_view_open(&read, bytes, size_bytes);
    assert_true(json_is_null(json_object_get(read_view_device(&read, 0, 0), "growth_reason")));
    uint64_t *per_step = read_view_column(&read, "r0.d0.growth.bytes_per_step", &count);
    for (size_t i = 0; i < count; i++)
        sum += per_step[i];
    free(per_step);
    read_view_close(&read);
    vw_view_free(view);
    return sum;
}

static void copy_to_folder(const char *name)
{
    static char bytes[1 << 20];
    char path[PATH_MAX];
    size_t size_bytes;
    (void)snprintf(path, sizeof path, STORED_RECORDINGS "/doctor/%s", name);
    FILE *from = fopen(path, "rb"), *to = fopen(job_folder_path(&folder, "rank0.pickle.xz"), "wb");
    assert_true(from != NULL && to != NULL);
    while ((size_bytes = fread(bytes, 1, sizeof bytes, from)) > 0)
        assert_int_equal(fwrite(bytes, 1, size_bytes, to), size_bytes);
    assert_int_equal(fclose(from), 0);
    assert_int_equal(fclose(to), 0);
}

static void every_place_says_of(bool expected, const char *name)
{
    stored_recording stored;
    open_recording_in(STORED_RECORDINGS "/doctor", name, &stored);
    uint64_t in_view = growth_in_view(stored.recording);
    copy_to_folder(name);
    double in_report = growth_in_report();
    if (has_leak(stored.recording) != expected || (in_view > 0) != expected ||
        in_report != (double)in_view)
        fail_msg("%s: %llu bytes a step on the page, %.0f in the report", name,
                 (unsigned long long)in_view, in_report);
    vw_recording_close(stored.recording);
}

static void recordings_that_leak_do_so_everywhere(void **state)
{
    (void)state;
    every_place_says_of(true, "leak_outputs" STORED_ENDING);
    every_place_says_of(true, "leak_growing_cat" STORED_ENDING);
    every_place_says_of(true, "leak_in_evaluation" STORED_ENDING);
    every_place_says_of(true, "leak_optimizers" STORED_ENDING);
    every_place_says_of(true, "leak_until_oom_no_stacks" STORED_ENDING);
}

static void recordings_that_do_not_leak_do_so_nowhere(void **state)
{
    (void)state;
    every_place_says_of(false, "healthy_lru_cache" STORED_ENDING);
    every_place_says_of(false, "healthy_replay_buffer" STORED_ENDING);
    every_place_says_of(false, "healthy_late_momentum" STORED_ENDING);
    every_place_says_of(false, "healthy_unfreezing" STORED_ENDING);
    every_place_says_of(false, "kept_graph_validation_loss" STORED_ENDING);
}

/* The verdict beside it is the recording's. */
static void a_level_log_does_not_hide_the_growth_of_a_recording(void **state)
{
    (void)state;
    char log[40 * LINE_BYTES];
    size_t size_bytes = 0;
    for (unsigned step = 1; step <= 40; step++)
        size_bytes += (size_t)snprintf(log + size_bytes, sizeof log - size_bytes,
                                       "{\"step\": %u, \"allocated\": 4294967296}\n", step);
    job_folder_put(&folder, "rank0.steps.jsonl", log);
    assert_true(growth_in_report() == 0);
    copy_to_folder("leak_outputs" STORED_ENDING);
    assert_true(growth_in_report() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(leaks_are_leaks_everywhere, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(what_is_no_leak_is_one_nowhere, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(recordings_that_leak_do_so_everywhere, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(a_level_log_does_not_hide_the_growth_of_a_recording,
                                        make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(recordings_that_do_not_leak_do_so_nowhere, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
