/* test_report_word.c - names as a shell takes them. */
#include "vramwise/report.h"

#include "support/cmocka_here.h"
#include "support/report_capture.h"

static report_capture captured;

static void assert_word(const char *word, const char *expected)
{
    const vw_output output = report_capture_begin(&captured);
    assert_true(vw_write_shell_word(word, &output));
    assert_string_equal(captured.text, expected);
}

static void plain_names_stay_as_they_are(void **state)
{
    (void)state;
    assert_word("job/run.rank3.pickle", "job/run.rank3.pickle");
    assert_word("/a-b_c+d=e,f:g@h%i", "/a-b_c+d=e,f:g@h%i");
}

static void others_are_quoted(void **state)
{
    (void)state;
    assert_word("", "''");
    assert_word("-o", "'-o'");
    assert_word("a b", "'a b'");
    assert_word("$(x);*", "'$(x);*'");
    assert_word("it's", "'it'\\''s'");
    assert_word("'", "''\\'''");
    assert_word("a\nb", "'a\nb'");
}

static bool refuse_later(void *context, const char *bytes, size_t size_bytes)
{
    size_t *left = context;
    (void)bytes;
    (void)size_bytes;
    return (*left)-- > 0;
}

static void an_output_that_ends_is_told(void **state)
{
    (void)state;
    for (size_t allowed = 0; allowed <= 5; allowed++) { /* the word goes out in five pieces */
        size_t left = allowed;
        const vw_output output = {&left, refuse_later};
        assert_true(vw_write_shell_word("it's", &output) == (allowed == 5));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_names_stay_as_they_are),
        cmocka_unit_test(others_are_quoted),
        cmocka_unit_test(an_output_that_ends_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
