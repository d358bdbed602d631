/* c_locale.c - lends the calling thread the C locale for the length of one call of the C library.
 *
 * newlocale() answers "C" for all categories with a constant object in glibc and musl: no memory,
 * no file, nothing to free. A C library that does need memory may refuse; the call is then made in
 * the process's locale.
 *
 * Not done: setlocale(), which changes all threads; replacing the process's decimal point after
 * printf(), since a sentence has commas of its own. */
#include "base/c_locale.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h> /* strtod, strtod_l */

static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double vw__c_locale_strtod(const char *text, char **end)
{
    const locale_t locale = c_locale();
    if (locale == (locale_t)0)
        return strtod(text, end);
    const double number = strtod_l(text, end, locale);
    freelocale(locale);
    return number;
}

int vw__c_locale_vsnprintf(char *text, size_t capacity, const char *format, va_list args)
{
    const locale_t locale = c_locale();
    if (locale == (locale_t)0)
        return vsnprintf(text, capacity, format, args);
    const locale_t before = uselocale(locale);
    const int length = vsnprintf(text, capacity, format, args);
    (void)uselocale(before);
    freelocale(locale);
    return length;
}

int vw__c_locale_snprintf(char *text, size_t capacity, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vw__c_locale_vsnprintf(text, capacity, format, args);
    va_end(args);
    return length;
}

char *vw__c_locale_number(char text[VW__C_LOCALE_NUMBER_BYTES], double number, int least_digits)
{
    for (int digits = least_digits; digits <= 17; digits++) { /* 17 always do, but for NaN */
        vw__c_locale_snprintf(text, VW__C_LOCALE_NUMBER_BYTES, "%.*g", digits, number);
        if (vw__c_locale_strtod(text, NULL) == number)
            break;
    }
    return text;
}
