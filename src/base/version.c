/* version.c - the version of the loaded library. */
#include "vramwise/version.h"

int vw_version_number(void)
{
    return VW_VERSION_NUMBER;
}

const char *vw_version_string(void)
{
    return VW_VERSION_STRING;
}
