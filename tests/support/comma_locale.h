/* comma_locale.h - puts the process into a locale where 1.5 is "1,5", as a job in German would be.
 *
 * The locale is made when tests are configured (tests/CMakeLists.txt). Where it could not be, the
 * calling test is skipped. */
#ifndef VW_TEST_COMMA_LOCALE_H
#define VW_TEST_COMMA_LOCALE_H

#include <locale.h>
#include <stdlib.h> /* setenv */

#include "support/cmocka_here.h"

static inline void comma_locale_enter(void)
{
    assert_int_equal(setenv("LOCPATH", VW_TEST_LOCALES, 1), 0);
    if (setlocale(LC_NUMERIC, "comma") == NULL) {
        print_message("no locale with a decimal comma could be made here\n");
        skip();
    }
}

static inline void comma_locale_leave(void)
{
    assert_non_null(setlocale(LC_NUMERIC, "C"));
}

#endif /* VW_TEST_COMMA_LOCALE_H */
