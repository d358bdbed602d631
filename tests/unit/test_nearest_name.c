/* test_nearest_name.c - what was meant by a word. */
#include "base/nearest_name.h"

#include <stdint.h>
#include <string.h>

#include "support/cmocka_here.h"

static const char *const names[] = {"gpt2", "gpt2-medium", "llama-3-8b", "bert-base"};

static void distances_count_letters_and_pass_over_capitals(void **state)
{
    (void)state;
    assert_int_equal(vw__nearest_name_distance("gpt2", "gpt2"), 0);
    assert_int_equal(vw__nearest_name_distance("GPT2", "gpt2"), 0);
    assert_int_equal(vw__nearest_name_distance("gpt3", "gpt2"), 1);
    assert_int_equal(vw__nearest_name_distance("", "abc"), 3);
    assert_int_equal(vw__nearest_name_distance("kitten", "sitting"), 3);
    assert_int_equal(vw__nearest_name_distance("abc", ""), 3);
}

static void the_nearest_is_named_where_one_is_near(void **state)
{
    (void)state;
    assert_string_equal(vw__nearest_name("gpt3", names, 4), "gpt2");
    assert_string_equal(vw__nearest_name("Llama-3-8B", names, 4), "llama-3-8b");
    assert_null(vw__nearest_name("resnet152", names, 4));
    assert_null(vw__nearest_name("", names, 4));
    assert_null(vw__nearest_name("gpt2", names, 0));
}

static void words_that_are_too_long_are_nobody_s_mistake(void **state)
{
    char word[200];
    (void)state;
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    assert_true(vw__nearest_name_distance(word, "gpt2") == SIZE_MAX);
    assert_null(vw__nearest_name(word, names, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_count_letters_and_pass_over_capitals),
        cmocka_unit_test(the_nearest_is_named_where_one_is_near),
        cmocka_unit_test(words_that_are_too_long_are_nobody_s_mistake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
