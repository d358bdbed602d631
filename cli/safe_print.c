/* safe_print.c - see safe_print.h. Which characters steer a terminal is the library's to say. */
#include "safe_print.h"

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/report.h" /* vw_show_text */

void safe_print(FILE *to, const char *text)
{
    char shown[SAFE_PRINT_MOST_BYTES];
    (void)vw_show_text(text, true, SIZE_MAX, shown, sizeof shown);
    fputs(shown, to);
}

void safe_print_error_args(const char *format, va_list args)
{
    char text[SAFE_PRINT_MOST_BYTES];
    vsnprintf(text, sizeof text, format, args);
    safe_print(stderr, text);
}

void safe_print_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    safe_print_error_args(format, args);
    va_end(args);
}
