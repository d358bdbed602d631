/* test_view_marks.c - what of a trace is worth a mark. */
#include "view/view_marks.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)

static hr__view_marks marks_of(const hr__model *model)
{
    hr__view_marks marks;
    assert_int_equal(hr__view_marks_find(model, hr__model_trace_of(model, 0), &marks), HR_OK);
    return marks;
}

static void assert_mark(const hr__view_mark *mark, hr__view_mark_kind kind, uint32_t instant,
                        uint64_t bytes)
{
    assert_int_equal(mark->kind, kind);
    assert_int_equal(mark->instant, instant);
    assert_true(mark->bytes == bytes);
}

/* A request that gives two segments back before it is served, and an empty_cache() of two more. */
static hr__model *releases(bool has_identity)
{
    small_model small;
    small_model_begin(&small);
    small_model_set_features(&small);
    hr__model_builder_features(small.builder)->has_contexts = true;
    hr__model_builder_features(small.builder)->has_identity = has_identity;
    uint32_t request = small_model_context(&small, "f train.py 1");
    uint32_t other = small_model_context(&small, "g train.py 2");
    for (uint64_t i = 0; i < 4; i++)
        small_model_event(&small, HR_ACTION_SEGMENT_ALLOC, A + i * 20 * MIB, 20 * MIB, other);
    small_model_event(&small, HR_ACTION_SEGMENT_FREE, A, 20 * MIB, request); /* 5 */
    small_model_event(&small, HR_ACTION_SEGMENT_FREE, A + 20 * MIB, 20 * MIB, request);
    small_model_event(&small, HR_ACTION_SEGMENT_ALLOC, A, 30 * MIB, request);
    small_model_alloc(&small, A, 30 * MIB, request); /* 8 */
    small_model_event(&small, HR_ACTION_SEGMENT_FREE, A + 40 * MIB, 20 * MIB, other);
    small_model_event(&small, HR_ACTION_SEGMENT_FREE, A + 60 * MIB, 20 * MIB, other);
    small_model_event(&small, HR_ACTION_FREE_REQUESTED, A, 30 * MIB, other);
    small_model_end_trace(&small, 0);
    return small_model_finish(&small);
}

static void memory_that_a_request_gave_back_is_told_from_an_empty_cache(void **state)
{
    (void)state;
    hr__model *model = releases(true);
    hr__view_marks marks = marks_of(model);
    assert_int_equal(marks.count, 2);
    assert_mark(&marks.marks[0], HR__VIEW_MARK_RETRY, 5, 40 * MIB);
    assert_int_equal(marks.marks[0].count, 2);
    assert_mark(&marks.marks[1], HR__VIEW_MARK_EMPTY_CACHE, 9, 40 * MIB);
    assert_int_equal(marks.marks[1].count, 2);
    hr__view_marks_deinit(&marks);
    hr__model_destroy(model);
}

static void without_captures_nobody_knows_of_requests(void **state)
{
    (void)state;
    hr__model *model = releases(false);
    hr__view_marks marks = marks_of(model);
    assert_int_equal(marks.count, 1);
    assert_mark(&marks.marks[0], HR__VIEW_MARK_EMPTY_CACHE, 9, 40 * MIB);
    hr__view_marks_deinit(&marks);
    hr__model_destroy(model);
}

/* Of events at 0, 10 and 20: at 5, before, after, on another device, and an end. */
static void annotations_stand_where_their_time_is(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    int64_t start_us = small.time_us;
    small_model_alloc(&small, A, 512, HR__NO_CONTEXT);
    small_model_event(&small, HR_ACTION_OOM, 7 * MIB, 9 * MIB, HR__NO_CONTEXT);
    small_model_event(&small, HR_ACTION_SNAPSHOT, 0, 0, HR__NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_annotate(&small, "late", 0, true, start_us + 1000);
    small_model_annotate(&small, "between", 0, true, start_us + 5);
    small_model_annotate(&small, "early", 0, true, start_us - 5);
    small_model_annotate(&small, "elsewhere", 1, true, start_us);
    small_model_annotate(&small, "between", 0, false, start_us + 6);
    small_model_move(&small, 0, false, (hr__model_move){3 * MIB, 1, 3 * MIB, 9});
    hr__model *model = small_model_finish(&small);
    hr__view_marks marks = marks_of(model);
    assert_int_equal(marks.count, 6);
    assert_int_equal(marks.all_count, 6);
    assert_mark(&marks.marks[0], HR__VIEW_MARK_ANNOTATION, 0, HR__UNKNOWN_BYTES);
    assert_mark(&marks.marks[1], HR__VIEW_MARK_ANNOTATION, 1, HR__UNKNOWN_BYTES);
    assert_string_equal(hr__model_string(model, marks.marks[1].text), "between");
    assert_mark(&marks.marks[2], HR__VIEW_MARK_OOM, 2, 9 * MIB);
    assert_int_equal(marks.marks[2].free_bytes, 7 * MIB);
    assert_mark(&marks.marks[3], HR__VIEW_MARK_SNAPSHOT, 3, HR__UNKNOWN_BYTES);
    assert_mark(&marks.marks[4], HR__VIEW_MARK_ANNOTATION, 3, HR__UNKNOWN_BYTES);
    assert_mark(&marks.marks[5], HR__VIEW_MARK_ANNOTATION, 3, 3 * MIB);
    hr__view_marks_deinit(&marks);
    hr__model_destroy(model);
}

static void where_there_are_too_many_the_failures_stay(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    for (int i = 0; i < 5000; i++) {
        small_model_annotate(&small, "span", 0, true, small.time_us);
        small_model_event(&small, HR_ACTION_SNAPSHOT, 0, 0, HR__NO_CONTEXT);
    }
    small_model_event(&small, HR_ACTION_OOM, MIB, MIB, HR__NO_CONTEXT);
    small_model_end_trace(&small, 0);
    hr__model *model = small_model_finish(&small);
    hr__view_marks marks = marks_of(model);
    assert_int_equal(marks.all_count, 10001);
    assert_int_equal(marks.count, HR__VIEW_MOST_MARKS);
    assert_mark(&marks.marks[marks.count - 1], HR__VIEW_MARK_OOM, 5001, MIB);
    for (size_t i = 0; i + 1 < marks.count; i++)
        assert_int_equal(marks.marks[i].kind, HR__VIEW_MARK_SNAPSHOT);
    hr__view_marks_deinit(&marks);
    hr__model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_a_request_gave_back_is_told_from_an_empty_cache),
        cmocka_unit_test(without_captures_nobody_knows_of_requests),
        cmocka_unit_test(annotations_stand_where_their_time_is),
        cmocka_unit_test(where_there_are_too_many_the_failures_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
