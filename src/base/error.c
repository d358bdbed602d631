/* error.c - how a failure gets its words, and the names of the codes. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* By way of a copy: the words may quote the ones before them. */
void hr__describe_failure(const char *format, ...)
{
    char detail[HR__ERROR_DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    hr_set_last_error(detail);
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
