/* error.c - formats messages, and names the status codes. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/c_locale.h"

/* Formats into a copy first: the message may quote the previous one. */
void vw__error_describe(const char *format, ...)
{
    char detail[VW__ERROR_DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    vw__c_locale_vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    vw_set_last_error(detail);
}

const char *vw_status_name(vw_status status)
{
    switch (status) {
#define STATUS_NAME(name, number, message)                                                         \
    case name:                                                                                     \
        return #name;
        VW_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "VW_UNKNOWN_STATUS";
}

const char *vw_status_message(vw_status status)
{
    switch (status) {
#define STATUS_MESSAGE(name, number, message)                                                      \
    case name:                                                                                     \
        return message;
        VW_STATUS_LIST(STATUS_MESSAGE)
#undef STATUS_MESSAGE
    }
    return "unknown status";
}

#ifdef VW_CHECKS
void vw__assert_failed(const char *claim, const char *file, int line)
{
    fprintf(stderr, "vramwise: %s:%d: this should always hold: %s\n", file, line, claim);
    abort();
}
#endif
