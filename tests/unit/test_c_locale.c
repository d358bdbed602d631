/* test_c_locale.c - numbers read and written with a point, in a process that has a comma. */
#include "base/c_locale.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/comma_locale.h"

static const char *const texts[] = {
    "0.8",
    "1e-7",
    ".5",
    "-0.1",
    "17976931348623157e292",
    "2.2250738585072011e-308",
    "0x1p30",
    "  4.25G",
    "1.5x",
    "1,5",
    "nan",
    "-inf",
    "",
    "x",
    "9007199254740993.0000000000000001",
};

static void the_process_has_a_comma(void **state)
{
    char text[16];
    (void)state;
    comma_locale_enter();
    snprintf(text, sizeof text, "%.1f", 1.5);
    comma_locale_leave();
    assert_string_equal(text, "1,5");
}

/* Bit for bit, and as far into the text. */
static void numbers_are_read_as_in_the_c_locale(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *expected_end, *end;
        const double expected = strtod(texts[i], &expected_end);
        comma_locale_enter();
        const double found = vw__c_locale_strtod(texts[i], &end);
        comma_locale_leave();
        assert_memory_equal(&found, &expected, sizeof found);
        assert_ptr_equal(end, expected_end);
    }
}

static void text_is_written_as_in_the_c_locale_and_the_process_keeps_its_own(void **state)
{
    char text[64], after[16];
    (void)state;
    comma_locale_enter();
    const int length = vw__c_locale_snprintf(text, sizeof text, "%.2f of %s, %g", 1.5, "2,5", 1e-7);
    snprintf(after, sizeof after, "%.1f", 1.5);
    comma_locale_leave();
    assert_string_equal(text, "1.50 of 2,5, 1e-07");
    assert_int_equal(length, strlen(text));
    assert_string_equal(after, "1,5");
}

static void what_does_not_fit_is_cut_and_counted(void **state)
{
    char text[4];
    (void)state;
    assert_int_equal(vw__c_locale_snprintf(text, sizeof text, "%.3f", 1.5), 5);
    assert_string_equal(text, "1.5");
}

static void a_number_has_the_fewest_digits_that_read_back_as_the_same(void **state)
{
    static const struct {
        double number;
        int least_digits;
        const char *text;
    } cases[] = {
        {0.8, 1, "0.8"},
        {0.1 + 0.2, 1, "0.30000000000000004"},
        {-0.0, 1, "-0"},
        {1000, 1, "1e+03"},
        {1000, 15, "1000"},
        {INFINITY, 1, "inf"},
        {-2.2250738585072014e-308, 1, "-2.2250738585072014e-308"},
    };
    char text[VW__C_LOCALE_NUMBER_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        comma_locale_enter();
        vw__c_locale_number(text, cases[i].number, cases[i].least_digits);
        comma_locale_leave();
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_process_has_a_comma),
        cmocka_unit_test(numbers_are_read_as_in_the_c_locale),
        cmocka_unit_test(text_is_written_as_in_the_c_locale_and_the_process_keeps_its_own),
        cmocka_unit_test(what_does_not_fit_is_cut_and_counted),
        cmocka_unit_test(a_number_has_the_fewest_digits_that_read_back_as_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
