/* test_job_outlook_firm.c - leaks are told early, and nothing else is, at any moment of its life.
 *
 * Every log is asked as the guard asks: while it grows, again and again, thinned as a page thins
 * it. Load that varies is made from many seeds. */
#include "vramwise/watch.h"

#include "support/cmocka_here.h"
#include "support/made_job.h"

enum { SEEDS = 2, LONGEST = 1300 };

#define ROOM (20 * GIB)

/* What is firm is a leak for every other place, too. */
static bool is_firm(const vw_job_device *device, vw_job_outlook *out)
{
    vw_job_outlook plain;
    assert_int_equal(vw_job_outlook_find_firm(device, out), VW_OK);
    if (!out->is_leak)
        return false;
    assert_int_equal(vw_job_outlook_find(device, &plain), VW_OK);
    assert_true(plain.is_leak);
    return true;
}

/* What is live after a step; the second argument is a seed. */
typedef uint64_t (*load)(uint64_t step, uint64_t seed);

static uint64_t random_of(uint64_t seed, uint64_t step, uint64_t below)
{
    uint64_t value = (seed << 32 | step) * UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return (value ^ value >> 32) % below;
}

/* As a page keeps it: every `stride`-th step, and half of them once it is full. */
static void take_step(made_job *made, uint64_t *stride, uint64_t step, uint64_t live)
{
    vw_job_device *device = &made->devices[0];
    if (step % *stride != 0)
        return;
    if (device->step_count == MADE_STEPS) {
        *stride *= 2;
        device->step_count = 0;
        for (size_t i = 0; i < MADE_STEPS; i++)
            if (made->steps[0][i].step % *stride == 0)
                made->steps[0][device->step_count++] = made->steps[0][i];
        if (step % *stride != 0)
            return;
    }
    add_step(made, 0, live);
    made->steps[0][device->step_count - 1].step = step;
}

/* The step at which a log is first firm; 0 = never. Asked ever more rarely, with 24 GiB of which
 * ROOM and `first` are to be had. */
static uint64_t first_firm(load grows, uint64_t seed, uint64_t step_count)
{
    static made_job made;
    vw_job_outlook outlook;
    uint64_t stride = 1, first = grows(1, seed), next_look = 1;
    make_job(&made);
    for (uint64_t step = 1; step <= step_count; step++) {
        uint64_t live = grows(step, seed);
        take_step(&made, &stride, step, live);
        if (step < next_look)
            continue;
        next_look = step + 5 + step / 16;
        uint64_t reserved = live + GIB;
        uint64_t end = first + ROOM;
        put_numbers(&made, 0, live, reserved, end > reserved ? end - reserved : 0);
        if (is_firm(&made.devices[0], &outlook))
            return step;
    }
    return 0;
}

static void never(load grows)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t step = first_firm(grows, seed, LONGEST);
        if (step != 0)
            fail_msg("with seed %llu a false alarm at step %llu", (unsigned long long)seed,
                     (unsigned long long)step);
    }
}

static void soon(load grows, uint64_t latest)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t step = first_firm(grows, seed, latest);
        if (step == 0)
            fail_msg("with seed %llu no alarm by step %llu", (unsigned long long)seed,
                     (unsigned long long)latest);
    }
}

/* ---- leaks ----------------------------------------------------------------------------------- */

static uint64_t even_leak(uint64_t step, uint64_t seed)
{
    (void)seed;
    return 4 * GIB + step * 20 * MIB; /* the end: step 1024 */
}

static uint64_t noisy_leak(uint64_t step, uint64_t seed)
{
    return 4 * GIB + step * 20 * MIB + random_of(seed, step, 100 * MIB);
}

static uint64_t late_leak(uint64_t step, uint64_t seed)
{
    return 4 * GIB + random_of(seed, step, 20 * MIB) + (step > 1000 ? (step - 1000) * 10 * MIB : 0);
}

static uint64_t leak_after_warm_up(uint64_t step, uint64_t seed)
{
    return (step < 5 ? step : 5) * GIB + random_of(seed, step, MIB) + step * 20 * MIB;
}

static void a_leak_is_told_when_a_tenth_of_its_life_is_over(void **state)
{
    (void)state;
    soon(even_leak, 120);
    soon(leak_after_warm_up, 150);
    soon(noisy_leak, 250);
}

static void a_leak_that_begins_late_is_told_long_before_its_end(void **state)
{
    (void)state;
    soon(late_leak, 2000); /* the end: step 3048 */
}

static void its_outlook_is_given(void **state)
{
    (void)state;
    made_job made;
    vw_job_outlook outlook;
    make_job(&made);
    for (uint64_t step = 1; step <= 120; step++)
        add_step(&made, 0, even_leak(step, 0));
    put_numbers(&made, 0, even_leak(120, 0), 8 * GIB, 12 * GIB);
    assert_true(is_firm(&made.devices[0], &outlook));
    assert_true(outlook.bytes_per_step > 19.9 * (double)MIB &&
                outlook.bytes_per_step < 20.1 * (double)MIB);
    assert_int_equal(outlook.last_step, 120);
    assert_true(outlook.full_at_step > 810 && outlook.full_at_step < 830);
}

static void without_the_room_the_growth_is_held_against_what_was_there(void **state)
{
    (void)state;
    made_job made;
    vw_job_outlook outlook;
    make_job(&made);
    for (uint64_t step = 1; step <= 100; step++)
        add_step(&made, 0, 4 * GIB + step * 3 * MIB);
    assert_false(is_firm(&made.devices[0], &outlook)); /* 300 MiB of 4 GiB */
    for (uint64_t step = 101; step <= 200; step++)
        add_step(&made, 0, 4 * GIB + step * 3 * MIB);
    assert_true(is_firm(&made.devices[0], &outlook));
    assert_true(outlook.full_at_step == VW_LIVE_UNKNOWN);
}

/* ---- everything else that grows -------------------------------------------------------------- */

static uint64_t warm_up(uint64_t step, uint64_t seed)
{
    uint64_t grown = step < 40 ? step : 40; /* even, and to a half of all there is */
    return 4 * GIB + grown * 256 * MIB + random_of(seed, step, MIB);
}

/* The more steps have been seen, the fewer lengths are new: 1 - exp(-t / 300), by its series. */
static uint64_t filling_cache(uint64_t step, uint64_t seed)
{
    double left = 1;
    for (uint64_t i = 0; i < step; i++)
        left *= 1 - 1 / 300.0;
    return 4 * GIB + (uint64_t)((1 - left) * 4 * (double)GIB) + random_of(seed, step, MIB);
}

static uint64_t cache_that_slows_down_for_ever(uint64_t step, uint64_t seed)
{
    double sum = 0; /* the logarithm */
    for (uint64_t i = 1; i <= step; i++)
        sum += 1 / (double)i;
    return 4 * GIB + (uint64_t)(sum * 1.5 * (double)GIB) + random_of(seed, step, MIB);
}

static uint64_t varying_lengths(uint64_t step, uint64_t seed)
{
    return 4 * GIB + random_of(seed, step, 8 * GIB);
}

/* Some lengths belong together: the load wanders. */
static uint64_t wandering_lengths(uint64_t step, uint64_t seed)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 64; i++)
        sum += random_of(seed, step + i, 256 * MIB);
    return 4 * GIB + sum;
}

static uint64_t lengths_sorted_within_an_epoch(uint64_t step, uint64_t seed)
{
    return 4 * GIB + step % 40 * 80 * MIB + random_of(seed, step, 100 * MIB);
}

static uint64_t changes_of_level(uint64_t step, uint64_t seed)
{
    return (4 + step / 700 * 3) * GIB + random_of(seed, step, 10 * MIB);
}

/* An even leak, but of less than a tenth of the room in all that time. */
static uint64_t trifle(uint64_t step, uint64_t seed)
{
    return 4 * GIB + step * 64 * 1024 + random_of(seed, step, MIB);
}

static void warm_up_is_no_leak(void **state)
{
    (void)state;
    never(warm_up);
    never(changes_of_level);
}

static void a_cache_that_fills_is_no_leak(void **state)
{
    (void)state;
    never(filling_cache);
    never(cache_that_slows_down_for_ever);
}

static void load_that_varies_is_no_leak(void **state)
{
    (void)state;
    never(varying_lengths);
    never(wandering_lengths);
    never(lengths_sorted_within_an_epoch);
}

static void what_takes_for_ever_to_matter_is_not_told(void **state)
{
    (void)state;
    never(trifle);
}

static void few_steps_or_none_are_never_enough(void **state)
{
    (void)state;
    made_job made;
    vw_job_outlook outlook;
    make_job(&made);
    for (uint64_t step = 1; step < 60; step++) {
        assert_false(is_firm(&made.devices[0], &outlook));
        add_step(&made, 0, step * GIB);
    }
}

static void steps_that_count_backwards_are_no_leak(void **state)
{
    (void)state;
    made_job made;
    vw_job_outlook outlook;
    make_job(&made);
    for (uint64_t i = 0; i < 200; i++) {
        add_step(&made, 0, 4 * GIB + i * 100 * MIB);
        made.steps[0][i].step = 1000 - i;
    }
    put_numbers(&made, 0, 8 * GIB, 9 * GIB, 100 * GIB);
    assert_false(is_firm(&made.devices[0], &outlook));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leak_is_told_when_a_tenth_of_its_life_is_over),
        cmocka_unit_test(a_leak_that_begins_late_is_told_long_before_its_end),
        cmocka_unit_test(its_outlook_is_given),
        cmocka_unit_test(without_the_room_the_growth_is_held_against_what_was_there),
        cmocka_unit_test(warm_up_is_no_leak),
        cmocka_unit_test(a_cache_that_fills_is_no_leak),
        cmocka_unit_test(load_that_varies_is_no_leak),
        cmocka_unit_test(what_takes_for_ever_to_matter_is_not_told),
        cmocka_unit_test(few_steps_or_none_are_never_enough),
        cmocka_unit_test(steps_that_count_backwards_are_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
