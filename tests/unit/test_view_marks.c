/* test_view_marks.c - what of a trace is worth a mark. */
#include "view/view_marks.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)

static vw__view_marks marks_of(const vw__model *model)
{
    vw__view_marks marks;
    assert_int_equal(vw__view_marks_find(model, vw__model_trace_of(model, 0), &marks), VW_OK);
    return marks;
}

static void assert_mark(const vw__view_mark *mark, vw__view_mark_kind kind, uint32_t instant,
                        uint64_t bytes)
{
    assert_int_equal(mark->kind, kind);
    assert_int_equal(mark->instant, instant);
    assert_true(mark->bytes == bytes);
}

/* A request that gives two segments back before it is served, and an empty_cache() of two more. */
static vw__model *releases(bool has_identity)
{
    small_model small;
    small_model_begin(&small);
    small_model_set_features(&small);
    vw__model_builder_features(small.builder)->has_contexts = true;
    vw__model_builder_features(small.builder)->has_identity = has_identity;
    uint32_t request = small_model_context(&small, "f train.py 1");
    uint32_t other = small_model_context(&small, "g train.py 2");
    for (uint64_t i = 0; i < 4; i++)
        small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A + i * 20 * MIB, 20 * MIB, other);
    small_model_event(&small, VW_ACTION_SEGMENT_FREE, A, 20 * MIB, request); /* 5 */
    small_model_event(&small, VW_ACTION_SEGMENT_FREE, A + 20 * MIB, 20 * MIB, request);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 30 * MIB, request);
    small_model_alloc(&small, A, 30 * MIB, request); /* 8 */
    small_model_event(&small, VW_ACTION_SEGMENT_FREE, A + 40 * MIB, 20 * MIB, other);
    small_model_event(&small, VW_ACTION_SEGMENT_FREE, A + 60 * MIB, 20 * MIB, other);
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A, 30 * MIB, other);
    small_model_end_trace(&small, 0);
    return small_model_finish(&small);
}

static void memory_that_a_request_gave_back_is_told_from_an_empty_cache(void **state)
{
    (void)state;
    vw__model *model = releases(true);
    vw__view_marks marks = marks_of(model);
    assert_int_equal(marks.count, 2);
    assert_mark(&marks.marks[0], VW__VIEW_MARK_RETRY, 5, 40 * MIB);
    assert_int_equal(marks.marks[0].count, 2);
    assert_mark(&marks.marks[1], VW__VIEW_MARK_EMPTY_CACHE, 9, 40 * MIB);
    assert_int_equal(marks.marks[1].count, 2);
    vw__view_marks_deinit(&marks);
    vw__model_destroy(model);
}

static void without_captures_nobody_knows_of_requests(void **state)
{
    (void)state;
    vw__model *model = releases(false);
    vw__view_marks marks = marks_of(model);
    assert_int_equal(marks.count, 1);
    assert_mark(&marks.marks[0], VW__VIEW_MARK_EMPTY_CACHE, 9, 40 * MIB);
    vw__view_marks_deinit(&marks);
    vw__model_destroy(model);
}

/* Of events at 0, 10 and 20: at 5, before, after, on another device, and an end. */
static void annotations_stand_where_their_time_is(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    int64_t start_us = small.time_us;
    small_model_alloc(&small, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_OOM, 7 * MIB, 9 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_SNAPSHOT, 0, 0, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_annotate(&small, "late", 0, true, start_us + 1000);
    small_model_annotate(&small, "between", 0, true, start_us + 5);
    small_model_annotate(&small, "early", 0, true, start_us - 5);
    small_model_annotate(&small, "elsewhere", 1, true, start_us);
    small_model_annotate(&small, "between", 0, false, start_us + 6);
    small_model_move(&small, 0, false, (vw__model_move){3 * MIB, 1, 3 * MIB, 9});
    vw__model *model = small_model_finish(&small);
    vw__view_marks marks = marks_of(model);
    assert_int_equal(marks.count, 6);
    assert_int_equal(marks.all_count, 6);
    assert_mark(&marks.marks[0], VW__VIEW_MARK_ANNOTATION, 0, VW__MODEL_UNKNOWN_BYTES);
    assert_mark(&marks.marks[1], VW__VIEW_MARK_ANNOTATION, 1, VW__MODEL_UNKNOWN_BYTES);
    assert_string_equal(vw__model_string(model, marks.marks[1].text), "between");
    assert_mark(&marks.marks[2], VW__VIEW_MARK_OOM, 2, 9 * MIB);
    assert_int_equal(marks.marks[2].free_bytes, 7 * MIB);
    assert_mark(&marks.marks[3], VW__VIEW_MARK_SNAPSHOT, 3, VW__MODEL_UNKNOWN_BYTES);
    assert_mark(&marks.marks[4], VW__VIEW_MARK_ANNOTATION, 3, VW__MODEL_UNKNOWN_BYTES);
    assert_mark(&marks.marks[5], VW__VIEW_MARK_ANNOTATION, 3, 3 * MIB);
    vw__view_marks_deinit(&marks);
    vw__model_destroy(model);
}

static void where_there_are_too_many_the_failures_stay(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    for (int i = 0; i < 5000; i++) {
        small_model_annotate(&small, "span", 0, true, small.time_us);
        small_model_event(&small, VW_ACTION_SNAPSHOT, 0, 0, VW__MODEL_NO_CONTEXT);
    }
    small_model_event(&small, VW_ACTION_OOM, MIB, MIB, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    vw__model *model = small_model_finish(&small);
    vw__view_marks marks = marks_of(model);
    assert_int_equal(marks.all_count, 10001);
    assert_int_equal(marks.count, VW__VIEW_MOST_MARKS);
    assert_mark(&marks.marks[marks.count - 1], VW__VIEW_MARK_OOM, 5001, MIB);
    for (size_t i = 0; i + 1 < marks.count; i++)
        assert_int_equal(marks.marks[i].kind, VW__VIEW_MARK_SNAPSHOT);
    vw__view_marks_deinit(&marks);
    vw__model_destroy(model);
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
