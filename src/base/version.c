/* version.c - the version that was compiled in, for programs that load another one later. */
#include "headroom/version.h"

int hr_version_number(void)
{
    return HR_VERSION_NUMBER;
}

const char *hr_version_string(void)
{
    return HR_VERSION_STRING;
}
