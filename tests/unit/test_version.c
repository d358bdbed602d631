/* test_version.c - the number, the string and the macros say the same. */
#include "vramwise/version.h"

#include <stdio.h>

#include "support/cmocka_here.h"

static void the_library_was_built_from_this_header(void **state)
{
    (void)state;
    assert_int_equal(vw_version_number(), VW_VERSION_NUMBER);
    assert_string_equal(vw_version_string(), VW_VERSION_STRING);
}

static void the_string_spells_the_three_numbers(void **state)
{
    (void)state;
    char spelled[64];
    snprintf(spelled, sizeof spelled, "%d.%d.%d", VW_VERSION_MAJOR, VW_VERSION_MINOR,
             VW_VERSION_PATCH);
    assert_string_equal(vw_version_string(), spelled);
}

static void the_number_holds_two_digits_for_minor_and_patch(void **state)
{
    (void)state;
    assert_in_range(VW_VERSION_MINOR, 0, 99);
    assert_in_range(VW_VERSION_PATCH, 0, 99);
    assert_int_equal(vw_version_number() / 10000, VW_VERSION_MAJOR);
    assert_int_equal(vw_version_number() / 100 % 100, VW_VERSION_MINOR);
    assert_int_equal(vw_version_number() % 100, VW_VERSION_PATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_was_built_from_this_header),
        cmocka_unit_test(the_string_spells_the_three_numbers),
        cmocka_unit_test(the_number_holds_two_digits_for_minor_and_patch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
