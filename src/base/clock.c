/* clock.c - clock_gettime() behind a pointer that only tests change. */
#include "base/clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static uint64_t read_ns(clockid_t which)
{
    struct timespec now;
    clock_gettime(which, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static uint64_t machine_monotonic_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

static uint64_t machine_realtime_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000) + (uint64_t)now.tv_nsec / 1000;
}

static const vw__clock machine_clock = {machine_monotonic_ns, machine_realtime_us, NULL};
static _Atomic(const vw__clock *) clock_in_use = &machine_clock;

uint64_t vw__clock_monotonic_ns(void)
{
    /* Acquire, with the release below: the functions a test put into its clock are seen. */
    return atomic_load_explicit(&clock_in_use, memory_order_acquire)->monotonic_ns();
}

uint64_t vw__clock_realtime_us(void)
{
    return atomic_load_explicit(&clock_in_use, memory_order_acquire)->realtime_us();
}

uint64_t vw__clock_thread_ns(void)
{
    const vw__clock *clock = atomic_load_explicit(&clock_in_use, memory_order_acquire);
    return clock->thread_ns != NULL ? clock->thread_ns() : read_ns(CLOCK_THREAD_CPUTIME_ID);
}

void vw__clock_replace(const vw__clock *clock)
{
    atomic_store_explicit(&clock_in_use, clock != NULL ? clock : &machine_clock,
                          memory_order_release);
}
