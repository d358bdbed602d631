/* test_site_key.c - a place keeps its name when lines, callers and folders change. */
#include "analysis/site_key.h"

#include "support/cmocka_here.h"

static const vw_frame inner = {"_call_impl", "/venv/site-packages/torch/nn/modules/module.py", 9};
static const vw_frame program = {"step", "/home/one/run/train.py", 224};

static void assert_key(const vw_frame *frame, const char *expected)
{
    vw__byte_buffer key;
    vw__byte_buffer_init(&key);
    vw__site_key_append(&key, frame);
    assert_string_equal(vw__byte_buffer_text(&key), expected);
    vw__byte_buffer_deinit(&key);
}

static void the_frame_is_the_programs_innermost_one(void **state)
{
    (void)state;
    const vw_frame frames[] = {inner, program};
    assert_ptr_equal(
        vw__site_key_frame(&(vw_usage){.frames = frames, .frame_count = 2, .where = &frames[1]}),
        &frames[1]);
    assert_ptr_equal(vw__site_key_frame(&(vw_usage){.frames = frames, .frame_count = 2}),
                     &frames[0]);
    assert_null(vw__site_key_frame(&(vw_usage){.has_stack = true}));
}

static void lines_and_folders_are_left_out(void **state)
{
    (void)state;
    assert_key(&program, "train.py step");
    assert_key(&(vw_frame){"step", "train.py", 225}, "train.py step");
    assert_key(&(vw_frame){"step", "C:\\work\\train.py", 1}, "train.py step");
    assert_key(NULL, "(no stack)");
}

static void a_file_is_the_last_part_of_its_path(void **state)
{
    (void)state;
    assert_string_equal(vw__site_key_file("a/b/c.py"), "c.py");
    assert_string_equal(vw__site_key_file("c.py"), "c.py");
    assert_string_equal(vw__site_key_file(""), "");
    assert_string_equal(vw__site_key_file("a/b/"), "b/"); /* never empty */
    assert_string_equal(vw__site_key_file("layer 7 / mlp"), "layer 7 / mlp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_frame_is_the_programs_innermost_one),
        cmocka_unit_test(lines_and_folders_are_left_out),
        cmocka_unit_test(a_file_is_the_last_part_of_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
