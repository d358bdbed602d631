/* last_error.c - the message of the last failing call on each thread.
 *
 * The message is thread-local: a failure never overwrites the text that another thread is about to
 * print, and no lock is needed. It has its own file because a process must have only one:
 * libvramwise-analysis contains copies of base's other files, and stores its messages here through
 * vw_set_last_error(). */
#include "vramwise/status.h"

#include <string.h>

#include "base/error.h" /* VW__ERROR_DETAIL_BYTES */

static _Thread_local char last_detail[VW__ERROR_DETAIL_BYTES];

const char *vw_last_error(void)
{
    return last_detail;
}

void vw_set_last_error(const char *detail)
{
    size_t size_bytes = detail != NULL ? strnlen(detail, sizeof last_detail - 1) : 0;
    if (size_bytes > 0)
        memmove(last_detail, detail, size_bytes); /* it may be vw_last_error() itself */
    last_detail[size_bytes] = '\0';
}
