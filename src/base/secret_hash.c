/* secret_hash.c - see secret_hash.h. */
#include "base/secret_hash.h"

#include <pthread.h>
#include <sys/random.h>

#include "base/clock.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static vw__secret_hash of_process;

/* Early in a machine's life there may be no random numbers yet: where the program lies and when it
 * began has to do then. */
static void draw(void)
{
    if (getrandom(&of_process, sizeof of_process, GRND_NONBLOCK) != (ssize_t)sizeof of_process) {
        of_process.start = (uint64_t)(uintptr_t)&once;
        of_process.multiplier =
            (vw__clock_monotonic_ns() ^ of_process.start << 24) * UINT64_C(0x9E3779B97F4A7C15);
    }
    of_process.multiplier |= 1;
}

vw__secret_hash vw__secret_hash_of_process(void)
{
    (void)pthread_once(&once, draw);
    return of_process;
}
