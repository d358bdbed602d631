/* unpublished.c - linked into every test: pools publish nothing unless the test wants it. */
#include <stdlib.h>

__attribute__((constructor)) static void switch_off(void)
{
    setenv("VRAMWISE_LIVE", "0", 0);
}
