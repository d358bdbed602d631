/* c_locale.h - reads and writes numbers with a point, whatever the process's locale is.
 *
 * The library is in other people's processes, and theirs may have called setlocale(): in German,
 * strtod() stops at the point of "0.8", and printf() writes "0,8". Everything here works as its
 * namesake does in the C locale, to the last bit. Integers do not depend on the locale; text that
 * may have a fraction is written by these.
 *
 * Takes no host memory, keeps no state: safe from any thread. */
#ifndef VW_BASE_C_LOCALE_H
#define VW_BASE_C_LOCALE_H

#include <stdarg.h>
#include <stddef.h>

enum { VW__C_LOCALE_NUMBER_BYTES = 32 }; /* room for any double, of 17 digits */

double vw__c_locale_strtod(const char *text, char **end);

__attribute__((format(printf, 3, 4))) int vw__c_locale_snprintf(char *text, size_t capacity,
                                                                const char *format, ...);
__attribute__((format(printf, 3, 0))) int vw__c_locale_vsnprintf(char *text, size_t capacity,
                                                                 const char *format, va_list args);

/* Writes `number` with the fewest digits, but no fewer than `least_digits`, that read back as the
 * same number, and returns `text`. Infinity and NaN are "inf" and "nan". */
char *vw__c_locale_number(char text[VW__C_LOCALE_NUMBER_BYTES], double number, int least_digits);

#endif /* VW_BASE_C_LOCALE_H */
