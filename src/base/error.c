/* error.c - the last error of each thread, and the names of the codes.
 *
 * The detail lives in thread-local storage, so that one thread's failure never overwrites the text
 * another is about to print, and no lock is needed. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local char last_detail[HR__ERROR_DETAIL_BYTES];

void hr__describe_failure(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_detail, sizeof last_detail, format, args);
    va_end(args);
}

const char *hr_last_error(void)
{
    return last_detail;
}

const char *hr_status_name(hr_status status)
{
    switch (status) {
#define STATUS_NAME(name, number, message)                                                         \
    case name:                                                                                     \
        return #name;
        HR_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "HR_UNKNOWN_STATUS";
}

const char *hr_status_message(hr_status status)
{
    switch (status) {
#define STATUS_MESSAGE(name, number, message)                                                      \
    case name:                                                                                     \
        return message;
        HR_STATUS_LIST(STATUS_MESSAGE)
#undef STATUS_MESSAGE
    }
    return "unknown status";
}

#ifdef HR_CHECKS
void hr__assert_failed(const char *claim, const char *file, int line)
{
    fprintf(stderr, "headroom: %s:%d: this should always hold: %s\n", file, line, claim);
    abort();
}
#endif
