/* test_report_numbers.c - numbers as people read them, at the edges of their units. */
#include "report/report_text.h"

#include <math.h>

#include "support/cmocka_here.h"

#define GIB (UINT64_C(1) << 30)

static void what_is_not_known_is_a_question_mark(void **state)
{
    (void)state;
    assert_string_equal(vw__size_text(VW_UNKNOWN).text, "?");
    assert_string_equal(vw__count_text(VW_UNKNOWN).text, "?");
    assert_string_equal(vw__change_text(VW_UNKNOWN, 1).text, "?");
    assert_string_equal(vw__change_text(1, VW_UNKNOWN).text, "?");
    assert_string_equal(vw__ratio_text(-1).text, "?");
    assert_string_equal(vw__ratio_text((double)NAN).text, "?");
}

static void changes_have_a_sign(void **state)
{
    (void)state;
    assert_string_equal(vw__change_text(0, 2 * GIB).text, "+2.00 GiB");
    assert_string_equal(vw__change_text(2 * GIB, 512).text, "-2.00 GiB");
    assert_string_equal(vw__change_text(7, 7).text, "0 B");
}

static void counts_have_commas_and_one_is_one(void **state)
{
    (void)state;
    assert_string_equal(vw__count_text(0).text, "0");
    assert_string_equal(vw__count_text(999).text, "999");
    assert_string_equal(vw__count_text(1000).text, "1,000");
    assert_string_equal(vw__count_text(220134).text, "220,134");
    assert_string_equal(vw__count_text(UINT64_MAX - 1).text, "18,446,744,073,709,551,614");
    assert_string_equal(vw__counted_text(1, "block").text, "1 block");
    assert_string_equal(vw__counted_text(2000, "block").text, "2,000 blocks");
    assert_string_equal(vw__counted_text(0, "block").text, "0 blocks");
}

static void durations_and_ratios_read_well(void **state)
{
    (void)state;
    assert_string_equal(vw__duration_text(0).text, "0 s");
    assert_string_equal(vw__duration_text(12345678).text, "12.3 ms");
    assert_string_equal(vw__duration_text(UINT64_C(62) * 1000000000).text, "1 min 2 s");
    assert_string_equal(vw__ratio_text(1.036).text, "1.04");
    assert_string_equal(vw__ratio_text(5.99).text, "5.99");
    assert_string_equal(vw__ratio_text(0).text, "0.00");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_known_is_a_question_mark),
        cmocka_unit_test(changes_have_a_sign),
        cmocka_unit_test(counts_have_commas_and_one_is_one),
        cmocka_unit_test(durations_and_ratios_read_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
