/* test_diff.c - two recordings at their peaks, line by line: what is matched, renamed and left. */
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
static vw__model *model_at(const line *lines, size_t count, const char *first_name,
                           uint64_t address, int64_t time_us)
{
    small_model small;
    small_model_begin(&small);
    small.time_us = time_us;
    small_model_context(&small, first_name);
    for (size_t i = 0; i < count; i++) {
        uint32_t context = lines[i].stack != NULL ? small_model_context(&small, lines[i].stack)
                                                  : VW__MODEL_NO_CONTEXT;
        small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, address + 100 * MIB * i, 100 * MIB,
                          context);
        small_model_alloc(&small, address + 100 * MIB * i, lines[i].size_bytes, context);
    }
    for (size_t i = 0; i < count; i++) {
        small_model_free(&small, address + 100 * MIB * i, lines[i].size_bytes,
                         VW__MODEL_NO_CONTEXT);
        small_model_event(&small, VW_ACTION_SEGMENT_FREE, address + 100 * MIB * i, 100 * MIB,
                          VW__MODEL_NO_CONTEXT);
    }
    small_model_end_trace(&small, 0);
    small_model_set_features(&small);
    return small_model_finish(&small);
}

static vw__model *model_of(const line *lines, size_t count, const char *first_name)
{
    return model_at(lines, count, first_name, A, 1000);
}

/* What must hold for every comparison. */
static void assert_accounts_for_the_peaks(const vw_diff_report *report)
{
    uint64_t before = report->before.live_bytes, after = report->after.live_bytes;
    for (size_t i = 0; i < report->change_count; i++) {
        before -= report->changes[i].before_bytes;
        after -= report->changes[i].after_bytes;
    }
    assert_int_equal(before, after); /* what is in no row is equal */
    assert_int_equal(report->before.live_bytes + report->grown_bytes,
                     report->after.live_bytes + report->shrunk_bytes);
    assert_int_equal(report->is_same, report->change_count == 0);
}

static vw_diff_report *diff_of(vw__model *before, vw__model *after)
{
    vw_recording one = {.model = before}, other = {.model = after};
    vw_diff_report *report = NULL;
    assert_int_equal(vw_recordings_diff(&one, &other, &report), VW_OK);
    assert_accounts_for_the_peaks(report);
    return report;
}

/* A comparison with the two models that it refers to. */
typedef struct comparison {
    vw__model *before, *after;
    vw_diff_report *report;
} comparison;

static comparison compare(const line *before, size_t before_count, const line *after,
                          size_t after_count)
{
    comparison made = {.before = model_of(before, before_count, "x a.py 1"),
                       .after = model_of(after, after_count, "y b.py 2;z c.py 3")};
    made.report = diff_of(made.before, made.after);
    return made;
}

#define COMPARE(before, after)                                                                     \
    compare(before, sizeof(before) / sizeof((before)[0]), after, sizeof(after) / sizeof((after)[0]))

static void end(comparison *made)
{
    vw_diff_report_free(made->report);
    vw__model_destroy(made->before);
    vw__model_destroy(made->after);
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

static void lines_are_matched_and_sorted_by_difference(void **state)
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

/* ---- a program that was edited --------------------------------------------------------------- */

static const line program[] = {
    {CALL ";attend model.py 10;forward model.py 40;step train.py 224;main train.py 300", 40 * MIB},
    {CALL ";attend model.py 12;forward model.py 40;step train.py 224;main train.py 300", 30 * MIB},
    {CALL ";mlp model.py 22;forward model.py 41;step train.py 224;main train.py 300", 20 * MIB},
    {"step train.py 225;main train.py 300", 10 * MIB},
    {"", 5 * MIB},
};
enum { PROGRAM_LINES = 5 };

static void a_moved_outer_line_is_no_difference(void **state)
{
    (void)state;
    static const line moved[] = {
        {CALL ";attend model.py 10;forward model.py 40;step train.py 225;main train.py 301",
         40 * MIB},
        {CALL ";attend model.py 12;forward model.py 40;step train.py 225;main train.py 301",
         30 * MIB},
        {CALL ";mlp model.py 22;forward model.py 41;step train.py 225;main train.py 301", 20 * MIB},
        {"step train.py 226;main train.py 301", 10 * MIB},
        {"", 5 * MIB},
    };
    comparison made = COMPARE(program, moved);
    assert_true(made.report->is_same);
    assert_int_equal(made.report->rename_count, 0);
    end(&made);
}

static void a_moved_inner_line_is_no_difference(void **state)
{
    (void)state;
    /* One line more at the top of attend(): its second line has the number of the first. */
    static const line moved[] = {
        {CALL ";attend model.py 12;forward model.py 42;step train.py 224;main train.py 300",
         40 * MIB},
        {CALL ";attend model.py 14;forward model.py 42;step train.py 224;main train.py 300",
         30 * MIB},
        {CALL ";mlp model.py 24;forward model.py 43;step train.py 224;main train.py 300", 20 * MIB},
        {"step train.py 225;main train.py 300", 10 * MIB},
        {"", 5 * MIB},
    };
    comparison made = COMPARE(program, moved);
    assert_true(made.report->is_same);
    end(&made);
}

static void another_folder_and_another_torch_are_no_difference(void **state)
{
    (void)state;
    static const line before[] = {{CALL ";step /home/one/train.py 5", MIB}};
    static const line after[] = {
        {"_call_impl /opt/venv/lib/python3.13/site-packages/torch/nn/modules/module.py 9;"
         "step /srv/job/train.py 5",
         MIB}};
    comparison made = COMPARE(before, after);
    assert_true(made.report->is_same);
    end(&made);
}

static void addresses_and_times_are_no_difference(void **state)
{
    (void)state;
    vw__model *before = model_at(program, PROGRAM_LINES, "x a.py 1", A, 1000);
    vw__model *after = model_at(program, PROGRAM_LINES, "y b.py 2", 3 * A, 777777);
    vw_diff_report *report = diff_of(before, after);
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
    line after[PROGRAM_LINES + 1];
    memcpy(after, program, sizeof program);
    after[PROGRAM_LINES] =
        (line){"step train.py 230;main train.py 301", 105 * MIB / 100 / 512 * 512};
    comparison made = COMPARE(program, after);
    assert_int_equal(made.report->change_count, 1);
    const vw_change *row = &made.report->changes[0];
    assert_int_equal(row->before_bytes, 0);
    assert_int_equal(row->after_bytes, 105 * MIB / 100 / 512 * 512);
    assert_int_equal(row->where->line, 230);
    assert_null(row->before_where);
    assert_ptr_equal(row->after_where, row->where);
    assert_int_equal(made.report->grown_bytes, row->after_bytes);
    assert_int_equal(made.report->shrunk_bytes, 0);
    end(&made);
}

static void a_buffer_that_grew_below_a_moved_line_is_one_row(void **state)
{
    (void)state;
    static const line before[] = {{"f a.py 10", 8 * MIB}, {"f a.py 11", 4 * MIB}};
    static const line after[] = {{"f a.py 11", 8 * MIB}, {"f a.py 12", 5 * MIB}};
    comparison made = COMPARE(before, after);
    assert_int_equal(made.report->change_count, 1);
    const vw_change *row = &made.report->changes[0];
    assert_int_equal(row->before_bytes, 4 * MIB);
    assert_int_equal(row->after_bytes, 5 * MIB);
    assert_int_equal(row->before_where->line, 11);
    assert_int_equal(row->after_where->line, 12);
    end(&made);
}

static void lines_that_all_moved_and_all_grew_stay_together(void **state)
{
    (void)state;
    static const line before[] = {
        {"f a.py 10", 2 * MIB}, {"f a.py 11", 16 * MIB}, {"f a.py 12", MIB}};
    static const line after[] = {{"f a.py 11", 8 * MIB},
                                 {"f a.py 12", 64 * MIB},
                                 {"f a.py 13", 4 * MIB},
                                 {"f a.py 99", 3 * MIB}};
    comparison made = COMPARE(before, after);
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
    end(&made);
}

static void leftovers_are_paired_only_if_their_sizes_are_alike(void **state)
{
    (void)state;
    static const line before[] = {
        {"f a.py 10", 64 * MIB}, {"f a.py 20", 8 * MIB}, {"f a.py 30", 3 * MIB}};
    static const line alike[] = {{"f a.py 47", 16 * MIB}, {"f a.py 51", 4 * MIB}};
    comparison made = COMPARE(before, alike);
    assert_int_equal(made.report->change_count, 3);
    assert_int_equal(made.report->changes[0].before_bytes, 64 * MIB);
    assert_int_equal(made.report->changes[0].after_bytes, 0);
    assert_int_equal(made.report->changes[1].before_bytes, 8 * MIB);
    assert_int_equal(made.report->changes[1].after_bytes, 16 * MIB); /* twice is alike */
    assert_int_equal(made.report->changes[2].before_bytes, 3 * MIB);
    assert_int_equal(made.report->changes[2].after_bytes, 4 * MIB);
    end(&made);
    static const line unlike[] = {{"f a.py 47", 16 * MIB + 512}, {"f a.py 51", MIB}};
    made = COMPARE(before, unlike);
    assert_int_equal(made.report->change_count, 5);
    end(&made);
}

static void stacks_of_one_line_are_one_row_and_categories_are_not(void **state)
{
    (void)state;
    static const line before[] = {{CALL ";step train.py 5;main train.py 9", MIB}};
    static const line after[] = {
        {CALL ";step train.py 5;main train.py 9", 2 * MIB},
        {"relu /usr/lib/python3/site-packages/torch/nn/functional.py 8;" CALL
         ";step train.py 5;main train.py 9",
         3 * MIB},
        {"step train.py 5;main train.py 9", 4 * MIB},
    };
    comparison made = COMPARE(before, after);
    assert_int_equal(made.report->change_count, 2);
    assert_string_equal(made.report->changes[0].category, "activations");
    assert_int_equal(made.report->changes[0].after_bytes, 5 * MIB);
    assert_int_equal(made.report->changes[0].stack_count, 2);
    assert_string_equal(made.report->changes[0].frames[0].function, "relu"); /* the larger one */
    assert_string_equal(made.report->changes[1].category, "other");
    assert_int_equal(made.report->changes[1].stack_count, 1);
    end(&made);
}

static void the_stack_that_changed_most_is_shown(void **state)
{
    (void)state;
    static const line before[] = {
        {"big site-packages/torch/a.py 1;f x.py 5", 32 * MIB},
        {"small site-packages/torch/a.py 2;f x.py 5", MIB},
        {"other site-packages/torch/a.py 3;f x.py 5", 8 * MIB},
    };
    static const line after[] = {
        {"big site-packages/torch/a.py 11;f x.py 6", 32 * MIB}, /* of another version */
        {"small site-packages/torch/a.py 12;f x.py 6", 16 * MIB},
        {"other site-packages/torch/a.py 13;f x.py 6", 9 * MIB},
    };
    comparison made = COMPARE(before, after);
    assert_int_equal(made.report->change_count, 1);
    assert_string_equal(made.report->changes[0].frames[0].function, "small");
    assert_int_equal(made.report->changes[0].where->line, 6);
    assert_int_equal(made.report->changes[0].stack_count, 3);
    end(&made);
    made = COMPARE(after, before);
    assert_string_equal(made.report->changes[0].frames[0].function, "small");
    assert_int_equal(made.report->changes[0].where->line, 6); /* where there was more */
    end(&made);
}

/* ---- renames --------------------------------------------------------------------------------- */

static void assert_rename(const vw_diff_report *report, size_t place, bool is_file,
                          const char *before, const char *after)
{
    assert_true(place < report->rename_count);
    assert_int_equal(report->renames[place].is_file, is_file);
    assert_string_equal(report->renames[place].before, before);
    assert_string_equal(report->renames[place].after, after);
}

static void a_renamed_file_is_said_to_be_one(void **state)
{
    (void)state;
    static const line renamed[] = {
        {CALL ";attend net.py 10;forward net.py 40;step train.py 224;main train.py 300", 40 * MIB},
        {CALL ";attend net.py 12;forward net.py 40;step train.py 224;main train.py 300", 30 * MIB},
        {CALL ";mlp net.py 22;forward net.py 41;step train.py 224;main train.py 300", 20 * MIB},
        {"step train.py 225;main train.py 300", 10 * MIB},
        {"", 5 * MIB},
    };
    comparison made = COMPARE(program, renamed);
    assert_true(made.report->is_same);
    assert_int_equal(made.report->rename_count, 1); /* and not each of its functions */
    assert_rename(made.report, 0, true, "model.py", "net.py");
    end(&made);
}

static void a_renamed_file_may_have_changed_as_well(void **state)
{
    (void)state;
    static const line before[] = {{"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}, {"k a.py 5", MIB}};
    /* Most of it holds the same; f() of another file is there all along. */
    static const line most[] = {
        {"f lib/b.py 1", 8 * MIB}, {"g lib/b.py 7", 3 * MIB}, {"h lib/b.py 9", MIB}};
    comparison made = COMPARE(before, most);
    assert_rename(made.report, 0, true, "a.py", "b.py");
    assert_rename(made.report, 1, false, "a.py k", "b.py h");
    assert_int_equal(made.report->rename_count, 2);
    assert_int_equal(made.report->change_count, 1);
    assert_string_equal(made.report->changes[0].before_where->file, "a.py");
    assert_string_equal(made.report->changes[0].after_where->file, "lib/b.py");
    end(&made);

    /* Nothing holds the same, as with another batch size, but the functions are the same. */
    static const line doubled[] = {
        {"g b.py 2", 4 * MIB}, {"k b.py 5", 2 * MIB}, {"f b.py 1", 16 * MIB}};
    made = COMPARE(before, doubled);
    assert_rename(made.report, 0, true, "a.py", "b.py");
    assert_int_equal(made.report->rename_count, 1);
    assert_int_equal(made.report->change_count, 3);
    assert_int_equal(made.report->changes[0].before_bytes, 8 * MIB);
    end(&made);
}

static void another_file_is_no_renamed_one(void **state)
{
    (void)state;
    static const line before[] = {{"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}};
    static const line larger[] = {{"f b.py 1", 17 * MIB}, {"g b.py 2", 4 * MIB}}; /* not alike */
    comparison made = COMPARE(before, larger);
    assert_int_equal(made.report->rename_count, 0);
    assert_int_equal(made.report->change_count, 4);
    end(&made);
    static const line both[] = {
        {"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}, {"f b.py 1", 8 * MIB}}; /* a copy */
    made = COMPARE(before, both);
    assert_int_equal(made.report->rename_count, 0);
    assert_int_equal(made.report->change_count, 1);
    end(&made);
}

static void a_renamed_function_is_said_to_be_one(void **state)
{
    (void)state;
    static const line renamed[] = {
        {CALL ";attention model.py 11;forward model.py 40;step train.py 224;main train.py 300",
         40 * MIB},
        {CALL ";attention model.py 13;forward model.py 40;step train.py 224;main train.py 300",
         30 * MIB},
        {CALL ";mlp model.py 22;forward model.py 41;step train.py 224;main train.py 300", 20 * MIB},
        {"step train.py 225;main train.py 300", 10 * MIB},
        {"", 5 * MIB},
    };
    comparison made = COMPARE(program, renamed);
    assert_true(made.report->is_same);
    assert_int_equal(made.report->rename_count, 1);
    assert_rename(made.report, 0, false, "model.py attend", "model.py attention");
    end(&made);
}

static void a_function_in_another_file_was_moved(void **state)
{
    (void)state;
    static const line before[] = {{"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}};
    static const line after[] = {{"f a.py 1", 8 * MIB}, {"g b.py 2", 2 * MIB}};
    comparison made = COMPARE(before, after);
    assert_true(made.report->is_same);
    assert_int_equal(made.report->rename_count, 1);
    assert_rename(made.report, 0, false, "a.py g", "b.py g");
    end(&made);
}

static void a_function_with_another_name_and_size_is_no_renamed_one(void **state)
{
    (void)state;
    static const line before[] = {{"f a.py 1", 8 * MIB}, {"eager a.py 2", 2 * MIB}, {NULL, MIB}};
    static const line after[] = {{"f a.py 1", 8 * MIB}, {"flash a.py 2", MIB}, {"", MIB}};
    comparison made = COMPARE(before, after);
    assert_int_equal(made.report->rename_count, 0);
    assert_int_equal(made.report->change_count, 4);
    end(&made);
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

    static const line before[] = {{"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}, {"h c.py 3", MIB}};
    static const line after[] = {{"f b.py 1", 8 * MIB}, {"k b.py 2", 2 * MIB}, {"h d.py 3", MIB}};
    models[0] = model_of(before, 3, "x a.py 1");
    models[1] = model_of(after, 3, "y b.py 2");
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
        cmocka_unit_test(leftovers_are_paired_only_if_their_sizes_are_alike),
        cmocka_unit_test(stacks_of_one_line_are_one_row_and_categories_are_not),
        cmocka_unit_test(the_stack_that_changed_most_is_shown),
        cmocka_unit_test(a_renamed_file_is_said_to_be_one),
        cmocka_unit_test(a_renamed_file_may_have_changed_as_well),
        cmocka_unit_test(another_file_is_no_renamed_one),
        cmocka_unit_test(a_renamed_function_is_said_to_be_one),
        cmocka_unit_test(a_function_in_another_file_was_moved),
        cmocka_unit_test(a_function_with_another_name_and_size_is_no_renamed_one),
        cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
