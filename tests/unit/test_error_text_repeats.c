/* test_error_text_repeats.c - lines that are alike but for their digits, and those that are not. */
#include "format/error_text_internal.h"

#include <string.h>

#include "unit/error_text_samples.h"

static vw__line_key key_of(const char *line, const char *word_text)
{
    const char *found = strstr(line, word_text);
    assert_non_null(found);
    return vw__line_key_of(line, strlen(line), (size_t)(found - line), VW__WORD_OUT_OF_MEMORY,
                           true);
}

static void digits_do_not_tell_lines_apart_but_ranks_and_words_do(void **state)
{
    (void)state;
    vw__line_key a = key_of("step 9: out of memory, 12 MiB", "out of");
    vw__line_key b = key_of("step 1234: out of memory, 7 MiB", "out of");
    vw__line_key again = key_of("step 77: out of memory, 12 MiB", "out of");
    assert_int_equal(a.pattern, b.pattern);
    assert_int_not_equal(a.said, b.said);
    assert_int_equal(a.said, again.said);
    assert_int_not_equal(a.pattern, key_of("stop 9: out of memory, 12 MiB", "out of").pattern);
    vw__line_key rank_3 = key_of("[rank3]: out of memory", "out of");
    vw__line_key rank_4 = key_of("[rank4]: out of memory", "out of");
    assert_int_equal(rank_3.rank, 3);
    assert_int_not_equal(rank_3.pattern, rank_4.pattern);
}

static void a_line_is_settled_once_enough_readings_agreed(void **state)
{
    (void)state;
    static vw__line_repeats repeats;
    vw__line_key key = key_of("step 9: out of memory", "out of");
    vw__line_pattern *pattern = vw__line_pattern_of(&repeats, &key);
    int readings = 0;
    for (; !vw__line_is_settled(pattern, &key) && readings < 10000; readings++)
        vw__line_came_to(pattern, &key, VW__LINE_NOTHING, false);
    assert_in_range(readings, 2, 9999);
    vw__line_came_to(pattern, &key, VW__LINE_NUMBERS, true); /* it can be a report after all */
    assert_false(vw__line_is_settled(pattern, &key));
    assert_true(pattern->is_host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_do_not_tell_lines_apart_but_ranks_and_words_do),
        cmocka_unit_test(a_line_is_settled_once_enough_readings_agreed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
