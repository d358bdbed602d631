/* run_limits.c - see run_limits.h. */
#include "run_limits.h"

#include <stdlib.h>

#include "arguments.h" /* arguments_read_number */

uint64_t run_limit_ms(const char *variable, uint64_t usual_seconds)
{
    enum { MOST_SECONDS = 86400 };
    uint64_t seconds;
    if (!arguments_read_number(getenv(variable), &seconds) || seconds > MOST_SECONDS)
        seconds = usual_seconds;
    return seconds * 1000;
}
