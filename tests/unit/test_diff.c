/* test_diff.c - two recordings at their peaks, line by line. */
#include "vramwise/analysis.h"

#include <string.h>

#include "analysis/recording.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define CALL "_call_impl /usr/lib/python3/site-packages/torch/nn/modules/module.py 1790"

typedef struct line {
    const char *stack; /* NULL: none captured */
    uint64_t size_bytes;
} line;

/* A recording with one block for each line, all live at the peak; `first_name` makes the numbers of
 * strings and stacks differ from one model to the other. */
static vw__model *model_of(const line *lines, size_t count, const char *first_name)
{
    small_model small;
    small_model_begin(&small);
    small_model_context(&small, first_name);
    for (size_t i = 0; i < count; i++) {
        uint32_t context = lines[i].stack != NULL ? small_model_context(&small, lines[i].stack)
                                                  : VW__MODEL_NO_CONTEXT;
        uint64_t address = A + 100 * MIB * i;
        small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, address, 100 * MIB, context);
        small_model_alloc(&small, address, lines[i].size_bytes, context);
    }
    for (size_t i = 0; i < count; i++) {
        small_model_free(&small, A + 100 * MIB * i, lines[i].size_bytes, VW__MODEL_NO_CONTEXT);
        small_model_event(&small, VW_ACTION_SEGMENT_FREE, A + 100 * MIB * i, 100 * MIB,
                          VW__MODEL_NO_CONTEXT);
    }
    small_model_end_trace(&small, 0);
    small_model_set_features(&small);
    return small_model_finish(&small);
}

static vw_diff_report *diff_of(vw__model *before, vw__model *after)
{
    vw_recording one = {.model = before}, other = {.model = after};
    vw_diff_report *report = NULL;
    assert_int_equal(vw_recordings_diff(&one, &other, &report), VW_OK);
    return report;
}

static const line before_lines[] = {
    {CALL ";train train.py 10", 8 * MIB},
    {CALL ";train train.py 11", 4 * MIB},
    {"train train.py 12", 2 * MIB},
    {"", 1 * MIB},
    {NULL, 512},
};

static const line after_lines[] = {
    {"train train.py 12", 2 * MIB},        /* the same */
    {CALL ";train train.py 10", 18 * MIB}, /* 10 more */
    {CALL ";train train.py 14", 1 * MIB},  /* new; line 11, of 4, is gone */
    {"", 3 * MIB},                         /* 2 more */
    {NULL, 512},                           /* the same */
};

static void stacks_are_matched_by_their_text_and_sorted_by_difference(void **state)
{
    (void)state;
    vw__model *before = model_of(before_lines, 5, "x a.py 1");
    vw__model *after = model_of(after_lines, 5, "y b.py 2;z c.py 3");
    vw_diff_report *report = diff_of(before, after);

    assert_false(report->is_same);
    assert_int_equal(report->change_count, 4);
    assert_int_equal(report->changes[0].before_bytes, 8 * MIB);
    assert_int_equal(report->changes[0].after_bytes, 18 * MIB);
    assert_int_equal(report->changes[0].where->line, 10);
    assert_string_equal(report->changes[0].category, "activations");
    assert_int_equal(report->changes[1].before_bytes, 4 * MIB);
    assert_int_equal(report->changes[1].after_bytes, 0);
    assert_int_equal(report->changes[1].before_count, 1);
    assert_int_equal(report->changes[1].after_count, 0);
    assert_int_equal(report->changes[2].after_bytes, 3 * MIB);
    assert_int_equal(report->changes[2].frame_count, 0);
    assert_int_equal(report->changes[3].before_bytes, 0);
    assert_int_equal(report->changes[3].where->line, 14);

    assert_int_equal(report->before.live_bytes, 15 * MIB + 512);
    assert_int_equal(report->after.live_bytes, 24 * MIB + 512);
    assert_int_equal(report->before.usage_count, 0);
    assert_int_equal(report->before_peak_reserved_bytes, 500 * MIB);
    assert_int_equal(report->before_event_count, 25);
    assert_null(report->before_conf);
    vw_diff_report_free(report);
    vw__model_destroy(before);
    vw__model_destroy(after);
}

static void categories_are_all_there_with_what_stayed_the_same_last(void **state)
{
    (void)state;
    vw__model *before = model_of(before_lines, 5, "x a.py 1");
    vw__model *after = model_of(after_lines, 5, "y b.py 2");
    vw_diff_report *report = diff_of(before, after);
    assert_int_equal(report->category_count, 4);
    assert_string_equal(report->categories[0].category, "activations");
    assert_int_equal(report->categories[0].before_bytes, 12 * MIB);
    assert_int_equal(report->categories[0].after_bytes, 19 * MIB);
    assert_string_equal(report->categories[1].category, "backward");
    assert_string_equal(report->categories[2].category, "other");
    assert_string_equal(report->categories[3].category, "unknown");
    assert_int_equal(report->categories[3].before_bytes, report->categories[3].after_bytes);
    vw_diff_report_free(report);
    vw__model_destroy(before);
    vw__model_destroy(after);
}

static void a_recording_does_not_differ_from_its_like(void **state)
{
    (void)state;
    vw__model *before = model_of(before_lines, 5, "x a.py 1");
    vw__model *after = model_of(before_lines, 5, "y b.py 2");
    vw_diff_report *report = diff_of(before, after);
    assert_true(report->is_same);
    assert_int_equal(report->change_count, 0);
    assert_int_equal(report->note_count, 0);
    vw_diff_report_free(report);
    vw__model_destroy(before);
    vw__model_destroy(after);
}

static void as_many_bytes_in_more_blocks_are_a_change(void **state)
{
    (void)state;
    static const line one_block[] = {{"train train.py 12", 2 * MIB}};
    static const line two_blocks[] = {{"train train.py 12", MIB}, {"train train.py 12", MIB}};
    vw__model *before = model_of(one_block, 1, "x a.py 1");
    vw__model *after = model_of(two_blocks, 2, "x a.py 1");
    vw_diff_report *report = diff_of(before, after);
    assert_false(report->is_same);
    assert_int_equal(report->change_count, 1);
    assert_int_equal(report->changes[0].before_count, 1);
    assert_int_equal(report->changes[0].after_count, 2);
    assert_int_equal(report->changes[0].before_bytes, report->changes[0].after_bytes);
    vw_diff_report_free(report);
    vw__model_destroy(before);
    vw__model_destroy(after);
}

static void without_a_trace_the_end_is_compared_and_said_so(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_segment(&small, 0, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    small_model_segment(&small, 1, A, 4 * MIB, 1024, VW__MODEL_NO_CONTEXT);
    vw__model *before = small_model_finish(&small);
    vw__model *after = model_of(after_lines, 5, "y b.py 2");
    vw_diff_report *report = diff_of(before, after);
    assert_int_equal(report->before_device, 1); /* the one with the most reserved */
    assert_int_equal(report->before.live_bytes, 1024);
    assert_true(report->before_peak_reserved_bytes == VW_UNKNOWN);
    assert_int_equal(report->note_count, 3);
    assert_non_null(strstr(report->notes[0], "first recording has no trace"));
    assert_non_null(strstr(report->notes[1], "Device 1 is compared with device 0"));
    assert_non_null(strstr(report->notes[2], "first recording has no stacks"));
    vw_diff_report_free(report);
    vw__model_destroy(before);
    vw__model_destroy(after);
}

static void null_arguments_are_refused(void **state)
{
    (void)state;
    vw_recording recording = {.model = NULL};
    vw_diff_report *report = NULL;
    assert_int_equal(vw_recordings_diff(NULL, &recording, &report), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_recordings_diff(&recording, NULL, &report), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_recordings_diff(&recording, &recording, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_null(report);
    vw_diff_report_free(NULL);
}

static bool make_diff(void *context)
{
    vw__model **models = context;
    vw_recording one = {.model = models[0]}, other = {.model = models[1]};
    vw_diff_report *report = NULL;
    if (vw_recordings_diff(&one, &other, &report) != VW_OK)
        return false;
    vw_diff_report_free(report);
    return true;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    vw__model *models[] = {model_of(before_lines, 5, "x a.py 1"),
                           model_of(after_lines, 5, "y b.py 2")};
    vw_test_sweep_host_memory(make_diff, models);
    vw__model_destroy(models[0]);
    vw__model_destroy(models[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_are_matched_by_their_text_and_sorted_by_difference),
        cmocka_unit_test(categories_are_all_there_with_what_stayed_the_same_last),
        cmocka_unit_test(a_recording_does_not_differ_from_its_like),
        cmocka_unit_test(as_many_bytes_in_more_blocks_are_a_change),
        cmocka_unit_test(without_a_trace_the_end_is_compared_and_said_so),
        cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
