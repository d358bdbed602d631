/* memory_guard.c - see memory_guard.h. */
#include "memory_guard.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vramwise/analysis.h" /* vw_reading_limit */

/* For what is not read: the program, its threads, the answer, and what malloc() keeps. */
#define BESIDE_BYTES (UINT64_C(512) << 20)

#define ENDLESS_BYTES (UINT64_C(1) << 60) /* more is not a limit */

/* Only a sanitizer's tables take more before the limit is set. The doctor of `vramwise run` begins
 * with the room that malloc() keeps (keep_memory() in main.c): it is free, so it is used first, and
 * counts towards the limit as in any command. */
#define TABLES_BYTES (UINT64_C(1) << 40)

static struct rlimit before;
static uint64_t set_bytes;

/* What the limit counts, as it is now; 0 if nobody says. */
static uint64_t data_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
        pages = 0;
    (void)fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void memory_guard_set(void)
{
    const uint64_t reading_bytes = vw_reading_limit();
    const uint64_t most_bytes = 2 * reading_bytes + BESIDE_BYTES;
    if (set_bytes != 0 || reading_bytes > ENDLESS_BYTES || getrlimit(RLIMIT_DATA, &before) != 0 ||
        data_bytes() > TABLES_BYTES ||
        (before.rlim_cur != RLIM_INFINITY && before.rlim_cur <= most_bytes))
        return;
    const struct rlimit limit = {most_bytes, before.rlim_max};
    if (setrlimit(RLIMIT_DATA, &limit) == 0)
        set_bytes = most_bytes;
}

void memory_guard_lift(void)
{
    if (set_bytes != 0 && setrlimit(RLIMIT_DATA, &before) == 0)
        set_bytes = 0;
}

uint64_t memory_guard_bytes(void)
{
    return set_bytes;
}
