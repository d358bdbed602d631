/* test_top_numbers.c - at most five columns, whatever the number. */
#include "cli/top_numbers.h"

#include <math.h>
#include <string.h>

#include "vramwise/live.h"

#include "support/cmocka_here.h"

static top_number text;

static void sizes_have_three_digits_and_the_unit_in_which_they_are_read(void **state)
{
    (void)state;
    assert_string_equal(top_size(0, text), "0B");
    assert_string_equal(top_size(1023, text), "1023B");
    assert_string_equal(top_size(1024, text), "1.00K");
    assert_string_equal(top_size(UINT64_C(1023) << 20, text), "1023M");
    assert_string_equal(top_size((UINT64_C(1) << 30) - 1, text), "1.00G");
    assert_string_equal(top_size(UINT64_C(80) << 30, text), "80.0G");
    assert_string_equal(top_size(UINT64_C(141) << 30, text), "141G");
    assert_string_equal(top_size(VW_LIVE_UNKNOWN, text), "-");
}

static void rates_shares_and_durations_too(void **state)
{
    (void)state;
    assert_string_equal(top_rate(0, text), "0");
    assert_string_equal(top_rate(0.25, text), "0.25");
    assert_string_equal(top_rate(999.4, text), "999");
    assert_string_equal(top_rate(999.6, text), "1.00k");
    assert_string_equal(top_rate(12345, text), "12.3k");
    assert_string_equal(top_rate((double)NAN, text), "-");
    assert_string_equal(top_share(0, text), "0%");
    assert_string_equal(top_share(0.004, text), "0.4%");
    assert_string_equal(top_share(0.234, text), "23%");
    assert_string_equal(top_share(1, text), "100%");
    assert_string_equal(top_share((double)NAN, text), "-");
    assert_string_equal(top_duration(0.000412, text), "412us");
    assert_string_equal(top_duration(0.0012, text), "1.2ms");
    assert_string_equal(top_duration(0.412, text), "412ms");
    assert_string_equal(top_duration(1.234, text), "1.23s");
    assert_string_equal(top_duration(99.6, text), "1m40");
    assert_string_equal(top_duration(125, text), "2m05");
    assert_string_equal(top_duration(36000, text), "10h");
    assert_string_equal(top_duration((double)NAN, text), "-");
}

static void nothing_takes_more_than_five_columns(void **state)
{
    (void)state;
    for (double number = 1e-7; number < 1e11; number *= 1.07) {
        assert_true(strlen(top_size((uint64_t)(number * 1e6), text)) <= 5);
        assert_true(strlen(top_rate(number, text)) <= 5);
        if (number < 99999)
            assert_true(strlen(top_duration(number, text)) <= 5);
        if (number < 9.9)
            assert_true(strlen(top_share(number, text)) <= 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_three_digits_and_the_unit_in_which_they_are_read),
        cmocka_unit_test(rates_shares_and_durations_too),
        cmocka_unit_test(nothing_takes_more_than_five_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
