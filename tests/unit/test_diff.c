/* test_diff.c - two recordings at their peaks, line by line: what is a row, and what is not. */
#include "vramwise/analysis.h"

#include <string.h>

#include "analysis/recording.h"
#include "support/cmocka_here.h"
#include "support/compared_models.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define MIB COMPARED_MIB

static const compared_line before_lines[] = {
    {COMPARED_CALL ";train train.py 10", 8 * MIB},
    {COMPARED_CALL ";train train.py 11", 4 * MIB},
    {"train train.py 12", 2 * MIB},
    {"", 1 * MIB},
    {NULL, 512},
};

static const compared_line after_lines[] = {
    {"train train.py 12", 2 * MIB},                 /* the same */
    {COMPARED_CALL ";train train.py 10", 18 * MIB}, /* 10 more */
    {COMPARED_CALL ";train train.py 14", 1 * MIB},  /* new; line 11, of 4, is gone */
    {"", 3 * MIB},                                  /* 2 more */
    {NULL, 512},                                    /* the same */
};

static void lines_are_matched_and_sorted_by_difference(void **state)
{
    (void)state;
    vw__model *before = compared_model(before_lines, 5, "x a.py 1");
    vw__model *after = compared_model(after_lines, 5, "y b.py 2;z c.py 3");
    vw_diff_report *report = compared_report(before, after);

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
    vw__model *before = compared_model(before_lines, 5, "x a.py 1");
    vw__model *after = compared_model(after_lines, 5, "y b.py 2");
    vw_diff_report *report = compared_report(before, after);
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
    vw__model *before = compared_model(before_lines, 5, "x a.py 1");
    vw__model *after = compared_model(before_lines, 5, "y b.py 2");
    vw_diff_report *report = compared_report(before, after);
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
    static const compared_line one_block[] = {{"train train.py 12", 2 * MIB}};
    static const compared_line two_blocks[] = {{"train train.py 12", MIB},
                                               {"train train.py 12", MIB}};
    vw__model *before = compared_model(one_block, 1, "x a.py 1");
    vw__model *after = compared_model(two_blocks, 2, "x a.py 1");
    vw_diff_report *report = compared_report(before, after);
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
    small_model_segment(&small, 0, COMPARED_ADDRESS, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    small_model_segment(&small, 1, COMPARED_ADDRESS, 4 * MIB, 1024, VW__MODEL_NO_CONTEXT);
    vw__model *before = small_model_finish(&small);
    vw__model *after = compared_model(after_lines, 5, "y b.py 2");
    vw_diff_report *report = compared_report(before, after);
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

/* ---- a program that was edited --------------------------------------------------------------- */

static const compared_line program[] = {
    {COMPARED_CALL ";attend model.py 10;forward model.py 40;step train.py 224;main train.py 300",
     40 * MIB},
    {COMPARED_CALL ";attend model.py 12;forward model.py 40;step train.py 224;main train.py 300",
     30 * MIB},
    {COMPARED_CALL ";mlp model.py 22;forward model.py 41;step train.py 224;main train.py 300",
     20 * MIB},
    {"step train.py 225;main train.py 300", 10 * MIB},
    {"", 5 * MIB},
};
enum { PROGRAM_LINES = 5 };

static void a_moved_outer_line_is_no_difference(void **state)
{
    (void)state;
    static const compared_line moved[] = {
        {COMPARED_CALL
         ";attend model.py 10;forward model.py 40;step train.py 225;main train.py 301",
         40 * MIB},
        {COMPARED_CALL
         ";attend model.py 12;forward model.py 40;step train.py 225;main train.py 301",
         30 * MIB},
        {COMPARED_CALL ";mlp model.py 22;forward model.py 41;step train.py 225;main train.py 301",
         20 * MIB},
        {"step train.py 226;main train.py 301", 10 * MIB},
        {"", 5 * MIB},
    };
    compared_models made = COMPARE_LINES(program, moved);
    assert_true(made.report->is_same);
    assert_int_equal(made.report->rename_count, 0);
    compared_models_end(&made);
}

static void a_moved_inner_line_is_no_difference(void **state)
{
    (void)state;
    /* One line more at the top of attend(): its second line has the number of the first. */
    static const compared_line moved[] = {
        {COMPARED_CALL
         ";attend model.py 12;forward model.py 42;step train.py 224;main train.py 300",
         40 * MIB},
        {COMPARED_CALL
         ";attend model.py 14;forward model.py 42;step train.py 224;main train.py 300",
         30 * MIB},
        {COMPARED_CALL ";mlp model.py 24;forward model.py 43;step train.py 224;main train.py 300",
         20 * MIB},
        {"step train.py 225;main train.py 300", 10 * MIB},
        {"", 5 * MIB},
    };
    compared_models made = COMPARE_LINES(program, moved);
    assert_true(made.report->is_same);
    compared_models_end(&made);
}

static void another_folder_and_another_torch_are_no_difference(void **state)
{
    (void)state;
    static const compared_line before[] = {{COMPARED_CALL ";step /home/one/train.py 5", MIB}};
    static const compared_line after[] = {
        {"_call_impl /opt/venv/lib/python3.13/site-packages/torch/nn/modules/module.py 9;"
         "step /srv/job/train.py 5",
         MIB}};
    compared_models made = COMPARE_LINES(before, after);
    assert_true(made.report->is_same);
    compared_models_end(&made);
}

static void addresses_and_times_are_no_difference(void **state)
{
    (void)state;
    vw__model *before =
        compared_model_at(program, PROGRAM_LINES, "x a.py 1", COMPARED_ADDRESS, 1000);
    vw__model *after =
        compared_model_at(program, PROGRAM_LINES, "y b.py 2", 3 * COMPARED_ADDRESS, 777777);
    vw_diff_report *report = compared_report(before, after);
    assert_true(report->is_same);
    assert_int_equal(report->rename_count, 0);
    assert_int_equal(report->note_count, 0);
    vw_diff_report_free(report);
    vw__model_destroy(before);
    vw__model_destroy(after);
}

static void an_added_buffer_of_one_percent_is_one_row(void **state)
{
    (void)state;
    compared_line after[PROGRAM_LINES + 1];
    memcpy(after, program, sizeof program);
    after[PROGRAM_LINES] =
        (compared_line){"step train.py 230;main train.py 301", 105 * MIB / 100 / 512 * 512};
    compared_models made = COMPARE_LINES(program, after);
    assert_int_equal(made.report->change_count, 1);
    const vw_change *row = &made.report->changes[0];
    assert_int_equal(row->before_bytes, 0);
    assert_int_equal(row->after_bytes, 105 * MIB / 100 / 512 * 512);
    assert_int_equal(row->where->line, 230);
    assert_null(row->before_where);
    assert_ptr_equal(row->after_where, row->where);
    assert_int_equal(made.report->grown_bytes, row->after_bytes);
    assert_int_equal(made.report->shrunk_bytes, 0);
    compared_models_end(&made);
}

static void a_buffer_that_grew_below_a_moved_line_is_one_row(void **state)
{
    (void)state;
    static const compared_line before[] = {{"f a.py 10", 8 * MIB}, {"f a.py 11", 4 * MIB}};
    static const compared_line after[] = {{"f a.py 11", 8 * MIB}, {"f a.py 12", 5 * MIB}};
    compared_models made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->change_count, 1);
    const vw_change *row = &made.report->changes[0];
    assert_int_equal(row->before_bytes, 4 * MIB);
    assert_int_equal(row->after_bytes, 5 * MIB);
    assert_int_equal(row->before_where->line, 11);
    assert_int_equal(row->after_where->line, 12);
    compared_models_end(&made);
}

static void lines_that_all_moved_and_all_grew_stay_together(void **state)
{
    (void)state;
    static const compared_line before[] = {
        {"f a.py 10", 2 * MIB}, {"f a.py 11", 16 * MIB}, {"f a.py 12", MIB}};
    static const compared_line after[] = {{"f a.py 11", 8 * MIB},
                                          {"f a.py 12", 64 * MIB},
                                          {"f a.py 13", 4 * MIB},
                                          {"f a.py 99", 3 * MIB}};
    compared_models made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->change_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const vw_change *row = &made.report->changes[i];
        if (row->before_bytes == 0) {
            assert_int_equal(row->after_where->line, 99);
            continue;
        }
        assert_int_equal(row->after_bytes, 4 * row->before_bytes);
        assert_int_equal(row->after_where->line, row->before_where->line + 1);
    }
    compared_models_end(&made);
}

static void lines_that_hold_what_others_held_stay_themselves(void **state)
{
    (void)state;
    static const compared_line before[] = {
        {"f a.py 10", MIB}, {"f a.py 11", 2 * MIB}, {"f a.py 12", 4 * MIB}};
    static const compared_line doubled[] = {
        {"f a.py 10", 2 * MIB}, {"f a.py 11", 4 * MIB}, {"f a.py 12", 8 * MIB}};
    compared_models made = COMPARE_LINES(before, doubled);
    assert_int_equal(made.report->change_count, 3);
    for (size_t i = 0; i < 3; i++) {
        const vw_change *row = &made.report->changes[i];
        assert_int_equal(row->after_bytes, 2 * row->before_bytes);
        assert_int_equal(row->before_where->line, row->after_where->line);
    }
    compared_models_end(&made);
}

static void a_line_in_the_middle_moves_what_is_below_it(void **state)
{
    (void)state;
    static const compared_line before[] = {{"f a.py 10", 9 * MIB},
                                           {"f a.py 11", 2 * MIB},
                                           {"f a.py 12", 5 * MIB},
                                           {"f a.py 13", 7 * MIB},
                                           {"f a.py 14", 4 * MIB}};
    compared_line after[] = {{"f a.py 10", 9 * MIB},
                             {"f a.py 11", 2 * MIB},
                             {"f a.py 12", 5 * MIB},
                             {"f a.py 14", 7 * MIB},
                             {"f a.py 15", 4 * MIB}};
    compared_models made = COMPARE_LINES(before, after);
    assert_true(made.report->is_same);
    compared_models_end(&made);
    after[4].size_bytes = 16 * MIB;
    made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->change_count, 1);
    assert_int_equal(made.report->changes[0].before_where->line, 14);
    assert_int_equal(made.report->changes[0].after_where->line, 15);
    compared_models_end(&made);
}

static void the_move_that_keeps_most_amounts_is_taken(void **state)
{
    (void)state;
    static const compared_line before[] = {
        {"f a.py 11", 3 * MIB}, {"f a.py 12", 9 * MIB}, {"f a.py 13", 20 * MIB}};
    static const compared_line after[] = {
        {"f a.py 12", 3 * MIB}, {"f a.py 13", 9 * MIB}, {"f a.py 15", 25 * MIB}};
    compared_models made = COMPARE_LINES(before, after); /* no move fits two lines as well */
    assert_int_equal(made.report->change_count, 1);
    assert_int_equal(made.report->changes[0].before_where->line, 13);
    assert_int_equal(made.report->changes[0].after_where->line, 15);
    compared_models_end(&made);
}

static void lines_that_changed_places_are_no_difference(void **state)
{
    (void)state;
    static const compared_line before[] = {{"f a.py 10", MIB}, {"f a.py 11", 2 * MIB}};
    static const compared_line after[] = {{"f a.py 10", 2 * MIB}, {"f a.py 11", MIB}};
    compared_models made = COMPARE_LINES(before, after);
    assert_true(made.report->is_same);
    compared_models_end(&made);
}

static void leftovers_are_paired_only_if_their_sizes_are_alike(void **state)
{
    (void)state;
    static const compared_line before[] = {
        {"f a.py 10", 64 * MIB}, {"f a.py 20", 8 * MIB}, {"f a.py 30", 3 * MIB}};
    static const compared_line alike[] = {{"f a.py 47", 16 * MIB}, {"f a.py 51", 4 * MIB}};
    compared_models made = COMPARE_LINES(before, alike);
    assert_int_equal(made.report->change_count, 3);
    assert_int_equal(made.report->changes[0].before_bytes, 64 * MIB);
    assert_int_equal(made.report->changes[0].after_bytes, 0);
    assert_int_equal(made.report->changes[1].before_bytes, 8 * MIB);
    assert_int_equal(made.report->changes[1].after_bytes, 16 * MIB); /* twice is alike */
    assert_int_equal(made.report->changes[2].before_bytes, 3 * MIB);
    assert_int_equal(made.report->changes[2].after_bytes, 4 * MIB);
    compared_models_end(&made);
    static const compared_line unlike[] = {{"f a.py 47", 16 * MIB + 512}, {"f a.py 51", MIB}};
    made = COMPARE_LINES(before, unlike);
    assert_int_equal(made.report->change_count, 5);
    compared_models_end(&made);
}

static void leftovers_that_hold_the_same_are_paired_first(void **state)
{
    (void)state;
    static const compared_line before[] = {{"f a.py 10", 5 * MIB}, {"f a.py 11", 90 * MIB}};
    static const compared_line after[] = {
        {"f a.py 40", 8 * MIB}, {"f a.py 52", 5 * MIB}, {"f a.py 61", 30 * MIB}};
    compared_models made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->change_count, 3); /* 90 gone, 30 and 8 new */
    for (size_t i = 0; i < 3; i++)
        assert_true(made.report->changes[i].before_bytes == 0 ||
                    made.report->changes[i].after_bytes == 0);
    compared_models_end(&made);
}

static void stacks_of_one_line_are_one_row_and_categories_are_not(void **state)
{
    (void)state;
    static const compared_line before[] = {{COMPARED_CALL ";step train.py 5;main train.py 9", MIB}};
    static const compared_line after[] = {
        {COMPARED_CALL ";step train.py 5;main train.py 9", 2 * MIB},
        {"relu /usr/lib/python3/site-packages/torch/nn/functional.py 8;" COMPARED_CALL
         ";step train.py 5;main train.py 9",
         3 * MIB},
        {"step train.py 5;main train.py 9", 4 * MIB},
    };
    compared_models made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->change_count, 2);
    assert_string_equal(made.report->changes[0].category, "activations");
    assert_int_equal(made.report->changes[0].after_bytes, 5 * MIB);
    assert_int_equal(made.report->changes[0].stack_count, 2);
    assert_string_equal(made.report->changes[0].frames[0].function, "relu"); /* the larger one */
    assert_string_equal(made.report->changes[1].category, "other");
    assert_int_equal(made.report->changes[1].stack_count, 1);
    compared_models_end(&made);
}

static void the_stack_that_changed_most_is_shown(void **state)
{
    (void)state;
    static const compared_line before[] = {
        {"big site-packages/torch/a.py 1;f x.py 5", 32 * MIB},
        {"small site-packages/torch/a.py 2;f x.py 5", MIB},
        {"other site-packages/torch/a.py 3;f x.py 5", 8 * MIB},
    };
    static const compared_line after[] = {
        {"big site-packages/torch/a.py 11;f x.py 6", 32 * MIB}, /* of another version */
        {"small site-packages/torch/a.py 12;f x.py 6", 16 * MIB},
        {"other site-packages/torch/a.py 13;f x.py 6", 9 * MIB},
    };
    compared_models made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->change_count, 1);
    assert_string_equal(made.report->changes[0].frames[0].function, "small");
    assert_int_equal(made.report->changes[0].where->line, 6);
    assert_int_equal(made.report->changes[0].stack_count, 3);
    compared_models_end(&made);
    made = COMPARE_LINES(after, before);
    assert_string_equal(made.report->changes[0].frames[0].function, "small");
    assert_int_equal(made.report->changes[0].where->line, 6); /* where there was more */
    compared_models_end(&made);
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
    vw__model *models[] = {compared_model(before_lines, 5, "x a.py 1"),
                           compared_model(after_lines, 5, "y b.py 2")};
    vw_test_sweep_host_memory(make_diff, models);
    vw__model_destroy(models[0]);
    vw__model_destroy(models[1]);

    static const compared_line before[] = {
        {"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}, {"h c.py 3", MIB}};
    static const compared_line after[] = {
        {"f b.py 1", 8 * MIB}, {"k b.py 2", 2 * MIB}, {"h d.py 3", MIB}};
    models[0] = compared_model(before, 3, "x a.py 1");
    models[1] = compared_model(after, 3, "y b.py 2");
    vw_test_sweep_host_memory(make_diff, models);
    vw__model_destroy(models[0]);
    vw__model_destroy(models[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_matched_and_sorted_by_difference),
        cmocka_unit_test(categories_are_all_there_with_what_stayed_the_same_last),
        cmocka_unit_test(a_recording_does_not_differ_from_its_like),
        cmocka_unit_test(as_many_bytes_in_more_blocks_are_a_change),
        cmocka_unit_test(without_a_trace_the_end_is_compared_and_said_so),
        cmocka_unit_test(a_moved_outer_line_is_no_difference),
        cmocka_unit_test(a_moved_inner_line_is_no_difference),
        cmocka_unit_test(another_folder_and_another_torch_are_no_difference),
        cmocka_unit_test(addresses_and_times_are_no_difference),
        cmocka_unit_test(an_added_buffer_of_one_percent_is_one_row),
        cmocka_unit_test(a_buffer_that_grew_below_a_moved_line_is_one_row),
        cmocka_unit_test(lines_that_all_moved_and_all_grew_stay_together),
        cmocka_unit_test(lines_that_hold_what_others_held_stay_themselves),
        cmocka_unit_test(a_line_in_the_middle_moves_what_is_below_it),
        cmocka_unit_test(the_move_that_keeps_most_amounts_is_taken),
        cmocka_unit_test(lines_that_changed_places_are_no_difference),
        cmocka_unit_test(leftovers_are_paired_only_if_their_sizes_are_alike),
        cmocka_unit_test(leftovers_that_hold_the_same_are_paired_first),
        cmocka_unit_test(stacks_of_one_line_are_one_row_and_categories_are_not),
        cmocka_unit_test(the_stack_that_changed_most_is_shown),
        cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
