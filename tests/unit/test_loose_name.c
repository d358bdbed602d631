/* test_loose_name.c - which spellings are one name. */
#include "base/loose_name.h"

#include "support/cmocka_here.h"

static void case_and_separators_do_not_count(void **state)
{
    (void)state;
    assert_true(vw__loose_name_equals("RTX 4090", "rtx4090"));
    assert_true(vw__loose_name_equals("rtx4090", "RTX-40_90 "));
    assert_true(vw__loose_name_equals("Llama-3.1-8B", "llama 3.1 8b"));
    assert_true(vw__loose_name_equals("", "- _"));
}

static void letters_digits_and_dots_do(void **state)
{
    (void)state;
    assert_false(vw__loose_name_equals("llama-3.1-8b", "llama-31-8b"));
    assert_false(vw__loose_name_equals("rtx4090", "rtx409"));
    assert_false(vw__loose_name_equals("rtx409", "rtx4090"));
    assert_false(vw__loose_name_equals("", "a"));
}

static void a_part_ends_where_it_is_said_to(void **state)
{
    (void)state;
    assert_true(vw__loose_name_part_equals("gpt2-xl", 4, "GPT-2"));
    assert_true(vw__loose_name_part_equals("gpt2-xl", 5, "GPT-2"));
    assert_false(vw__loose_name_part_equals("gpt2-xl", 6, "GPT-2"));
    assert_false(vw__loose_name_part_equals("gpt2-xl", 3, "GPT-2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_and_separators_do_not_count),
        cmocka_unit_test(letters_digits_and_dots_do),
        cmocka_unit_test(a_part_ends_where_it_is_said_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
