/* test_clock.c - the machine's clocks, and a test's own. */
#include "base/clock.h"

#include <time.h>

#include "support/cmocka_here.h"

static uint64_t noon_ns(void)
{
    return 12345;
}

static uint64_t noon_us(void)
{
    return 678;
}

static void the_monotonic_clock_never_goes_back(void **state)
{
    (void)state;
    uint64_t last_ns = vw__clock_monotonic_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now_ns = vw__clock_monotonic_ns();
        assert_true(now_ns >= last_ns);
        last_ns = now_ns;
    }
}

static void the_monotonic_clock_counts_nanoseconds(void **state)
{
    (void)state;
    const struct timespec two_ms = {.tv_nsec = 2000000};
    uint64_t start_ns = vw__clock_monotonic_ns();
    nanosleep(&two_ms, NULL);
    uint64_t slept_ns = vw__clock_monotonic_ns() - start_ns;
    assert_true(slept_ns >= 2000000);
    assert_true(slept_ns < UINT64_C(10000000000)); /* not picoseconds, on however busy a machine */
}

static void the_realtime_clock_counts_microseconds_since_1970(void **state)
{
    (void)state;
    uint64_t before_s = (uint64_t)time(NULL);
    uint64_t now_us = vw__clock_realtime_us();
    uint64_t after_s = (uint64_t)time(NULL);
    /* time() may lag behind by a tick of the kernel's. */
    assert_true(now_us / 1000000 + 1 >= before_s);
    assert_true(now_us / 1000000 <= after_s + 1);
}

static void a_test_can_say_what_time_it_is_and_take_it_back(void **state)
{
    (void)state;
    static const vw__clock stopped = {noon_ns, noon_us, NULL};
    vw__clock_replace(&stopped);
    uint64_t seen_ns = vw__clock_monotonic_ns();
    uint64_t seen_us = vw__clock_realtime_us();
    vw__clock_replace(NULL);
    assert_int_equal(seen_ns, 12345);
    assert_int_equal(seen_us, 678);
    assert_true(vw__clock_realtime_us() > 678);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_monotonic_clock_never_goes_back),
        cmocka_unit_test(the_monotonic_clock_counts_nanoseconds),
        cmocka_unit_test(the_realtime_clock_counts_microseconds_since_1970),
        cmocka_unit_test(a_test_can_say_what_time_it_is_and_take_it_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
