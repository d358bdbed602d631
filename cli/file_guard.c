/* file_guard.c - see file_guard.h. */
#include "file_guard.h"

#include <signal.h>
#include <stdbool.h>

static struct sigaction inherited;
static bool is_set;

void file_guard_set(void)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    is_set = sigaction(SIGXFSZ, &ignored, &inherited) == 0;
}

void file_guard_lift(void)
{
    if (is_set)
        (void)sigaction(SIGXFSZ, &inherited, NULL);
    is_set = false;
}
