/* safe_print.h - text from outside (arguments, names of files, what a library said of them) without
 * what steers a terminal: '?' stands for control characters and those that turn the direction of
 * writing. */
#ifndef VRAMWISE_CLI_SAFE_PRINT_H
#define VRAMWISE_CLI_SAFE_PRINT_H

#include <stdarg.h>
#include <stdio.h>

/* A text longer than this is cut. */
enum { SAFE_PRINT_MOST_BYTES = 16384 };

void safe_print(FILE *to, const char *text);

/* To standard error, as printf(). Line feeds of the format become spaces, too: end a line with
 * another call. */
__attribute__((format(printf, 1, 2), cold)) void safe_print_error(const char *format, ...);
__attribute__((format(printf, 1, 0), cold)) void safe_print_error_args(const char *format,
                                                                       va_list args);

#endif /* VRAMWISE_CLI_SAFE_PRINT_H */
