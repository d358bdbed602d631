/* test_diff_names.c - files and functions that have another name in the second recording. */
#include <string.h>

#include "support/cmocka_here.h"
#include "support/compared_models.h"

#define MIB COMPARED_MIB

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
    static const compared_line renamed[] = {
        {COMPARED_CALL ";attend net.py 10;forward net.py 40;step train.py 224;main train.py 300",
         40 * MIB},
        {COMPARED_CALL ";attend net.py 12;forward net.py 40;step train.py 224;main train.py 300",
         30 * MIB},
        {COMPARED_CALL ";mlp net.py 22;forward net.py 41;step train.py 224;main train.py 300",
         20 * MIB},
        {"step train.py 225;main train.py 300", 10 * MIB},
        {"", 5 * MIB},
    };
    compared_models made = COMPARE_LINES(program, renamed);
    assert_true(made.report->is_same);
    assert_int_equal(made.report->rename_count, 1); /* and not each of its functions */
    assert_rename(made.report, 0, true, "model.py", "net.py");
    compared_models_end(&made);
}

static void a_renamed_file_may_have_changed_as_well(void **state)
{
    (void)state;
    static const compared_line before[] = {
        {"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}, {"k a.py 5", MIB}};
    /* Most of it holds the same; f() of another file is there all along. */
    static const compared_line most[] = {
        {"f lib/b.py 1", 8 * MIB}, {"g lib/b.py 7", 3 * MIB}, {"h lib/b.py 9", MIB}};
    compared_models made = COMPARE_LINES(before, most);
    assert_rename(made.report, 0, true, "a.py", "b.py");
    assert_rename(made.report, 1, false, "a.py k", "b.py h");
    assert_int_equal(made.report->rename_count, 2);
    assert_int_equal(made.report->change_count, 1);
    assert_string_equal(made.report->changes[0].before_where->file, "a.py");
    assert_string_equal(made.report->changes[0].after_where->file, "lib/b.py");
    compared_models_end(&made);

    /* Nothing holds the same, as with another batch size, but the functions are the same. */
    static const compared_line doubled[] = {
        {"g b.py 2", 4 * MIB}, {"k b.py 5", 2 * MIB}, {"f b.py 1", 16 * MIB}};
    made = COMPARE_LINES(before, doubled);
    assert_rename(made.report, 0, true, "a.py", "b.py");
    assert_int_equal(made.report->rename_count, 1);
    assert_int_equal(made.report->change_count, 3);
    assert_int_equal(made.report->changes[0].before_bytes, 8 * MIB);
    compared_models_end(&made);
}

static void another_file_is_no_renamed_one(void **state)
{
    (void)state;
    static const compared_line before[] = {{"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}};
    static const compared_line larger[] = {{"f b.py 1", 17 * MIB},
                                           {"g b.py 2", 4 * MIB}}; /* not alike */
    compared_models made = COMPARE_LINES(before, larger);
    assert_int_equal(made.report->rename_count, 0);
    assert_int_equal(made.report->change_count, 4);
    compared_models_end(&made);
    static const compared_line both[] = {
        {"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}, {"f b.py 1", 8 * MIB}}; /* a copy */
    made = COMPARE_LINES(before, both);
    assert_int_equal(made.report->rename_count, 0);
    assert_int_equal(made.report->change_count, 1);
    compared_models_end(&made);
}

static void a_renamed_function_is_said_to_be_one(void **state)
{
    (void)state;
    static const compared_line renamed[] = {
        {COMPARED_CALL
         ";attention model.py 11;forward model.py 40;step train.py 224;main train.py 300",
         40 * MIB},
        {COMPARED_CALL
         ";attention model.py 13;forward model.py 40;step train.py 224;main train.py 300",
         30 * MIB},
        {COMPARED_CALL ";mlp model.py 22;forward model.py 41;step train.py 224;main train.py 300",
         20 * MIB},
        {"step train.py 225;main train.py 300", 10 * MIB},
        {"", 5 * MIB},
    };
    compared_models made = COMPARE_LINES(program, renamed);
    assert_true(made.report->is_same);
    assert_int_equal(made.report->rename_count, 1);
    assert_rename(made.report, 0, false, "model.py attend", "model.py attention");
    compared_models_end(&made);

    /* No category is most of it. */
    static const compared_line before[] = {
        {"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}, {COMPARED_CALL ";g a.py 3", 2 * MIB}};
    static const compared_line after[] = {
        {"f a.py 1", 8 * MIB}, {"h a.py 2", 2 * MIB}, {COMPARED_CALL ";h a.py 3", 2 * MIB}};
    made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->rename_count, 1);
    assert_rename(made.report, 0, false, "a.py g", "a.py h");
    compared_models_end(&made);
}

static void a_function_in_another_file_was_moved(void **state)
{
    (void)state;
    static const compared_line before[] = {{"f a.py 1", 8 * MIB}, {"g a.py 2", 2 * MIB}};
    static const compared_line after[] = {{"f a.py 1", 8 * MIB}, {"g b.py 2", 2 * MIB}};
    compared_models made = COMPARE_LINES(before, after);
    assert_true(made.report->is_same);
    assert_int_equal(made.report->rename_count, 1);
    assert_rename(made.report, 0, false, "a.py g", "b.py g");
    compared_models_end(&made);

    /* No category is most of g(); and b.py is not what became of a.py, which had far more. */
    static const compared_line halves[] = {
        {"f a.py 1", 80 * MIB}, {"g a.py 2", 2 * MIB}, {COMPARED_CALL ";g a.py 3", 2 * MIB}};
    static const compared_line moved[] = {{"g b.py 2", 2 * MIB},
                                          {COMPARED_CALL ";g b.py 3", 2 * MIB}};
    made = COMPARE_LINES(halves, moved);
    assert_int_equal(made.report->rename_count, 1);
    assert_rename(made.report, 0, false, "a.py g", "b.py g");
    assert_int_equal(made.report->change_count, 1);
    compared_models_end(&made);
}

static void blocks_without_a_stack_have_no_name_to_change(void **state)
{
    (void)state;
    static const compared_line before[] = {{"f a.py 1", 8 * MIB}, {NULL, MIB}};
    static const compared_line after[] = {{"f b.py 1", 8 * MIB}, {"g c.py 1", MIB}};
    compared_models made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->rename_count, 1);
    assert_rename(made.report, 0, true, "a.py", "b.py");
    assert_int_equal(made.report->change_count, 2);
    compared_models_end(&made);
}

#define APPLY "_apply /usr/lib/python3/site-packages/torch/nn/modules/module.py 900"

static void a_renamed_function_may_have_grown_as_well(void **state)
{
    (void)state;
    static const compared_line before[] = {
        {COMPARED_CALL ";f a.py 1", 8 * MIB}, {"f a.py 2", 2 * MIB},
        {COMPARED_CALL ";h a.py 3", 4 * MIB}, {"h a.py 3", 2 * MIB},
        {APPLY ";h a.py 3", 2 * MIB},
    };
    static const compared_line after[] = {
        {COMPARED_CALL ";g a.py 1", 8 * MIB}, {"g a.py 2", 3 * MIB},
        {COMPARED_CALL ";k a.py 3", 4 * MIB}, {"k a.py 3", MIB},
        {APPLY ";k a.py 3", 3 * MIB},
    };
    compared_models made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->rename_count, 1); /* half of h() is not most of it */
    assert_rename(made.report, 0, false, "a.py f", "a.py g");
    assert_int_equal(made.report->change_count, 7);
    compared_models_end(&made);

    static const compared_line moved[] = {
        {COMPARED_CALL ";f b.py 1", 8 * MIB}, {"f b.py 2", 3 * MIB},
        {COMPARED_CALL ";h a.py 3", 4 * MIB}, {"h a.py 3", 2 * MIB},
        {APPLY ";h a.py 3", 2 * MIB},
    };
    made = COMPARE_LINES(before, moved);
    assert_int_equal(made.report->rename_count, 1);
    assert_rename(made.report, 0, false, "a.py f", "b.py f");
    assert_int_equal(made.report->change_count, 1);
    compared_models_end(&made);
}

static void a_function_with_another_name_and_size_is_no_renamed_one(void **state)
{
    (void)state;
    static const compared_line before[] = {
        {"f a.py 1", 8 * MIB}, {"eager a.py 2", 2 * MIB}, {NULL, MIB}};
    static const compared_line after[] = {{"f a.py 1", 8 * MIB}, {"flash a.py 2", MIB}, {"", MIB}};
    compared_models made = COMPARE_LINES(before, after);
    assert_int_equal(made.report->rename_count, 0);
    assert_int_equal(made.report->change_count, 4);
    compared_models_end(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_renamed_file_is_said_to_be_one),
        cmocka_unit_test(a_renamed_file_may_have_changed_as_well),
        cmocka_unit_test(another_file_is_no_renamed_one),
        cmocka_unit_test(a_renamed_function_is_said_to_be_one),
        cmocka_unit_test(a_function_in_another_file_was_moved),
        cmocka_unit_test(blocks_without_a_stack_have_no_name_to_change),
        cmocka_unit_test(a_renamed_function_may_have_grown_as_well),
        cmocka_unit_test(a_function_with_another_name_and_size_is_no_renamed_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
