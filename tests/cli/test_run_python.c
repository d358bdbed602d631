/* test_run_python.c - which command lines are Python's, and which of them keep us out. */
#include "cli/run_python.h"

#include <unistd.h>

#include "support/cmocka_here.h"

static void names_of_interpreters_are_known_whatever_the_folder(void **state)
{
    (void)state;
    assert_true(run_python_is_python("python"));
    assert_true(run_python_is_python("/usr/bin/python3"));
    assert_true(run_python_is_python("./venv/bin/python3.12"));
    assert_true(run_python_is_python("python3.13t"));
    assert_true(run_python_is_python("pypy3"));
    assert_false(run_python_is_python("python/train.sh"));
    assert_false(run_python_is_python("python-config"));
    assert_false(run_python_is_python("ipython"));
    assert_false(run_python_is_python("torchrun"));
    assert_false(run_python_is_python(""));
}

#define CLOSED_BY(...)                                                                             \
    run_python_closed_by(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                   \
                         (const char *[]){__VA_ARGS__})

static void options_that_keep_us_out_are_seen_alone_and_among_others(void **state)
{
    (void)state;
    assert_int_equal(CLOSED_BY("python", "-I", "train.py"), 'I');
    assert_int_equal(CLOSED_BY("python", "-E", "train.py"), 'E');
    assert_int_equal(CLOSED_BY("python", "-S", "-m", "train"), 'S');
    assert_int_equal(CLOSED_BY("python", "-u", "-sE", "train.py"), 'E');
    assert_int_equal(CLOSED_BY("python", "-W", "error", "-X", "utf8", "-I"), 'I');
    assert_int_equal(CLOSED_BY("python", "-Xutf8", "-I"), 'I');
    assert_int_equal(CLOSED_BY("python", "--check-hash-based-pycs", "always", "-S"), 'S');
}

static void what_is_the_programs_own_is_not_taken_for_pythons(void **state)
{
    (void)state;
    assert_int_equal(CLOSED_BY("python", "train.py", "-I"), 0);
    assert_int_equal(CLOSED_BY("python", "-m", "train", "-S"), 0);
    assert_int_equal(CLOSED_BY("python", "-c", "-E"), 0);
    assert_int_equal(CLOSED_BY("python", "-mEngine"), 0);
    assert_int_equal(CLOSED_BY("python", "-", "-I"), 0);
    assert_int_equal(CLOSED_BY("python", "-W", "-I", "train.py"), 0);
    assert_int_equal(CLOSED_BY("python", "-WIgnore", "train.py"), 0);
    assert_int_equal(CLOSED_BY("sh", "-I"), 0);
    assert_int_equal(CLOSED_BY("python"), 0);
}

static void a_process_is_looked_at_by_its_command_line(void **state)
{
    (void)state;
    bool is_python = true;
    assert_int_equal(run_python_process_closed_by(getpid(), &is_python), 0);
    assert_false(is_python); /* this test */
    is_python = true;
    assert_int_equal(run_python_process_closed_by(-1, &is_python), 0);
    assert_true(is_python); /* untouched */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_interpreters_are_known_whatever_the_folder),
        cmocka_unit_test(options_that_keep_us_out_are_seen_alone_and_among_others),
        cmocka_unit_test(what_is_the_programs_own_is_not_taken_for_pythons),
        cmocka_unit_test(a_process_is_looked_at_by_its_command_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
