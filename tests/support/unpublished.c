/* unpublished.c - in every test: pools publish nothing, unless the test or its caller says so. */
#include <stdlib.h>

__attribute__((constructor)) static void switch_off(void)
{
    setenv("VRAMWISE_LIVE", "0", 0);
}
