/* test_trend.c - each test of the rule by itself, and what strictness adds.
 *
 * Logs are made by hand here, each to show one thing. Whether the answers hold for logs of every
 * kind is asked in test_doctor_steps_simulated.c, and at every moment of a running job in
 * test_job_outlook_firm.c. */
#include "trend/trend.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_step_log.h"

/* ---- each test by itself --------------------------------------------------------------------- */

/* Rises of one GiB at the given places, in a log of 120 steps with a little noise or none. */
static vw__trend trend_of_rises(const size_t *places, size_t place_count, double noise,
                                bool is_peak)
{
    double bytes[120];
    for (size_t i = 0; i < 120; i++) {
        bytes[i] = 10 * (double)GIB + noise * (double)(i * 7 % 5);
        for (size_t j = 0; j < place_count; j++)
            bytes[i] += i >= places[j] ? (double)GIB : 0;
    }
    return trend_of(bytes, 120, is_peak);
}

static void a_few_rises_of_a_peak_are_no_leak_and_many_are(void **state)
{
    (void)state;
    static const size_t few[] = {14, 28, 48, 66, 84, 102};
    static const size_t many[] = {8, 17, 26, 35, 43, 52, 61, 70, 78, 87, 96, 105, 113};
    assert_int_not_equal(trend_of_rises(few, 6, 0, true).kind, VW__TREND_GROWS);
    assert_int_not_equal(trend_of_rises(few, 6, 0, false).kind, VW__TREND_GROWS); /* no name */
    assert_int_equal(trend_of_rises(many, 13, 0, true).kind, VW__TREND_GROWS);
    assert_int_equal(trend_of_rises(many, 13, (double)MIB, false).kind, VW__TREND_GROWS);
}

/* Noise of three values and a rise between four and eight times its uncertainty. */
static void a_leak_that_barely_stands_out_is_not_certain(void **state)
{
    (void)state;
    double bytes[40];
    for (size_t i = 0; i < 40; i++)
        bytes[i] = (double)GIB * (10 + 0.25 * (double)i + (i % 3 == 0 ? 1 : i % 3 == 1 ? -1 : 0));
    vw__trend trend = trend_of(bytes, 40, false);
    assert_true(trend.strength > 4 && trend.strength < 8);
    assert_int_equal(trend.kind, VW__TREND_GROWS);
    assert_int_equal(trend.confidence, VW_CONFIDENCE_MEDIUM);
}

static void where_noise_or_a_peak_may_hide_growth_nobody_is_sure(void **state)
{
    (void)state;
    double bytes[60];
    for (int is_growing = 0; is_growing < 2; is_growing++) {
        for (size_t i = 0; i < 60; i++)
            bytes[i] = (double)GIB * (10 + (is_growing ? 0.06 : 0) * (double)i +
                                      (i % 3 == 0   ? 1
                                       : i % 3 == 1 ? -1
                                                    : 0));
        vw__trend trend = trend_of(bytes, 60, false);
        assert_int_not_equal(trend.kind, VW__TREND_GROWS);
        assert_int_equal(trend.may_grow, is_growing);
        assert_int_equal(trend.confidence, is_growing ? VW_CONFIDENCE_MEDIUM : VW_CONFIDENCE_HIGH);
    }
    for (size_t place = 30; place <= 110; place += 80) { /* in the last third, or before it */
        vw__trend trend = trend_of_rises(&place, 1, 0, true);
        assert_int_equal(trend.may_grow, place == 110);
        assert_int_equal(trend.confidence,
                         place == 110 ? VW_CONFIDENCE_MEDIUM : VW_CONFIDENCE_HIGH);
    }
}

static void changes_of_level_are_no_leak_wherever_they_are(void **state)
{
    (void)state;
    for (size_t first = 5; first < 115; first += 5)
        for (size_t second = first; second < 115; second += 5) {
            const size_t places[] = {first, second};
            for (int i = 0; i < 2; i++)
                if (trend_of_rises(places, 2, i * (double)MIB, false).kind == VW__TREND_GROWS)
                    fail_msg("levels that change at %zu and %zu of 120", first, second);
        }
}

/* High, low, and a rise that stays below where it all began: a wave, not a leak. */
static void growth_that_reaches_no_new_high_is_no_leak(void **state)
{
    (void)state;
    double bytes[100];
    for (int is_new_high = 0; is_new_high < 2; is_new_high++) {
        for (size_t i = 0; i < 100; i++)
            bytes[i] = (double)GIB * (i < 30 ? (is_new_high ? 4 : 20) : 5 + 0.1 * (double)(i - 30));
        vw__trend trend = trend_of(bytes, 100, false);
        assert_true(trend.strength > 10);
        assert_int_equal(trend.kind == VW__TREND_GROWS, is_new_high);
    }
}

static void growth_that_slows_down_is_no_leak_but_not_certain(void **state)
{
    (void)state;
    double bytes[100], missing = 1;
    for (size_t i = 0; i < 100; i++) {
        bytes[i] = (double)GIB * (10 - 5 * missing);
        missing *= 0.96;
    }
    vw__trend trend = trend_of(bytes, 100, false);
    assert_int_equal(trend.kind, VW__TREND_SLOWING);
    assert_int_equal(trend.confidence, VW_CONFIDENCE_LOW);
}

static void the_first_step_does_not_count_as_growth(void **state)
{
    (void)state;
    double bytes[12];
    for (size_t i = 0; i < 12; i++)
        bytes[i] = i == 0 ? (double)GIB : (double)(20 * GIB + i * MIB);
    vw__trend trend = trend_of(bytes, 12, false);
    assert_int_equal(trend.kind, VW__TREND_GROWS);
    assert_true(trend.grown_bytes == 10 * (double)MIB);
    assert_true(trend.from_step == 1);
    assert_true(trend.bytes_per_step == (double)MIB);
}

/* Six figures that rise by and large are as likely to be chance. */
static void few_steps_must_rise_evenly(void **state)
{
    (void)state;
    static const double uneven[] = {9, 10, 10.9, 10.7, 11.6, 12.1};
    double bytes[6];
    for (size_t i = 0; i < 6; i++)
        bytes[i] = uneven[i] * (double)GIB;
    vw__trend trend = trend_of(bytes, 6, false);
    assert_true(trend.strength > 2);
    assert_int_not_equal(trend.kind, VW__TREND_GROWS);
}

/* ---- what is counted ------------------------------------------------------------------------- */

/* Rises of one block at the given places of 24. */
static vw__trend counted_trend_of(const size_t *places, size_t place_count)
{
    double steps[25], bytes[25];
    vw__trend trend;
    for (size_t i = 0; i < 25; i++) {
        steps[i] = (double)i;
        bytes[i] = 0;
        for (size_t j = 0; j < place_count; j++)
            bytes[i] += i >= places[j] ? (double)MIB : 0;
    }
    const vw__trend_series series = {steps, bytes, 25, false};
    assert_int_equal(vw__trend_find(&series, VW__TREND_COUNTED, &trend), VW_OK);
    return trend;
}

static void counted_blocks_must_come_in_each_third(void **state)
{
    (void)state;
    static const size_t one_each[] = {8, 9, 24}, not_late[] = {1, 8, 9, 12, 16};
    vw__trend trend = counted_trend_of(one_each, 3);
    assert_int_equal(trend.kind, VW__TREND_GROWS);
    assert_int_equal(trend.rise_count, 3);
    assert_int_equal(trend.fewest_rises, 1);
    assert_true(trend.bytes_per_step == 3 * (double)MIB / 24);
    assert_int_equal(counted_trend_of(not_late, 5).kind, VW__TREND_SETTLED);
    assert_int_equal(counted_trend_of(not_late, 0).kind, VW__TREND_FLAT);
}

/* Twelve blocks early for one late: a quarter of the average pace would be one and a bit. */
static void counted_blocks_must_keep_a_quarter_of_their_pace(void **state)
{
    (void)state;
    static const size_t places[] = {2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 9, 20, 21};
    assert_int_equal(counted_trend_of(places, 13).kind, VW__TREND_SETTLED);
    assert_int_equal(counted_trend_of(places, 14).kind, VW__TREND_GROWS);
}

/* ---- strictness ------------------------------------------------------------------------------ */

static vw__trend firm_trend_of(const double *bytes, size_t count)
{
    double steps[MOST_POINTS];
    vw__trend trend;
    for (size_t i = 0; i < count; i++)
        steps[i] = (double)i;
    const vw__trend_series series = {steps, bytes, count, false};
    assert_int_equal(vw__trend_find(&series, VW__TREND_FIRM, &trend), VW_OK);
    return trend;
}

/* Thirty steps make growth certain, and half of the log must have been so, too. */
static void firm_growth_takes_twice_as_many_steps_as_certain_growth(void **state)
{
    (void)state;
    double bytes[80];
    for (size_t count = 6; count <= 80; count++) {
        for (size_t i = 0; i < count; i++)
            bytes[i] = (double)(GIB + i * MIB);
        assert_int_equal(trend_of(bytes, count, false).kind, VW__TREND_GROWS);
        assert_int_equal(firm_trend_of(bytes, count).kind, count < 2 * VW__TREND_ENOUGH_POINTS
                                                               ? VW__TREND_TOO_SHORT
                                                               : VW__TREND_GROWS);
    }
}

/* The root of the steps: after as many steps again, 0.7 of the pace is left. */
static void growth_that_loses_its_pace_is_not_firm(void **state)
{
    (void)state;
    double bytes[200], root = 0;
    for (size_t i = 0; i < 200; i++) {
        while (root * root < (double)i)
            root += 0.001;
        bytes[i] = (double)GIB * (10 + root);
    }
    assert_int_equal(trend_of(bytes, 200, false).kind, VW__TREND_GROWS);
    assert_int_not_equal(firm_trend_of(bytes, 200).kind, VW__TREND_GROWS);
}

/* Level for most of the log, then even growth: firm by itself in its last quarter. */
static void growth_that_begins_late_is_found_by_both(void **state)
{
    (void)state;
    double bytes[400];
    for (size_t i = 0; i < 400; i++)
        bytes[i] = (double)(4 * GIB + i * 7 % 5 * MIB + (i > 290 ? (i - 290) * 50 * MIB : 0));
    vw__trend plain = trend_of(bytes, 400, false), firm = firm_trend_of(bytes, 400);
    assert_int_equal(plain.kind, VW__TREND_GROWS);
    assert_int_equal(firm.kind, VW__TREND_GROWS);
    assert_int_equal(plain.first_point, 300);
    assert_int_equal(firm.first_point, 300);
    assert_true(plain.bytes_per_step == firm.bytes_per_step);
    assert_true(plain.from_step == 310 && plain.to_step == 399); /* its own warm-up left out */
}

static void the_ends_are_quoted_as_written(void **state)
{
    (void)state;
    double bytes[100];
    for (size_t i = 0; i < 100; i++)
        bytes[i] = (double)(4 * GIB + i * 10 * MIB + i * 7 % 5 * MIB);
    vw__trend trend = trend_of(bytes, 100, false);
    assert_int_equal(trend.kind, VW__TREND_GROWS);
    assert_true(trend.from_step == 10 && trend.from_bytes == bytes[10]);
    assert_true(trend.to_step == 99 && trend.to_bytes == bytes[99]);
}

/* The last line is an evaluation: it is quoted, but it is not what leaked. */
static void a_spike_at_the_end_is_no_growth(void **state)
{
    (void)state;
    double bytes[100];
    for (size_t i = 0; i < 100; i++)
        bytes[i] = (double)(4 * GIB + i * 10 * MIB);
    vw__trend trend = trend_of(bytes, 100, false);
    assert_true(trend.grown_bytes == 89 * 10 * (double)MIB);
    bytes[99] += 20 * (double)GIB;
    trend = trend_of(bytes, 100, false);
    assert_int_equal(trend.kind, VW__TREND_GROWS);
    assert_true(trend.to_bytes == bytes[99]);
    assert_true(trend.grown_bytes > 850 * (double)MIB && trend.grown_bytes < 930 * (double)MIB);
}

static bool find_once(void *context)
{
    vw__trend trend;
    vw_status status = vw__trend_find(context, VW__TREND_FIRM, &trend);
    if (status != VW_OK)
        assert_int_equal(status, VW_ERR_HOST_MEMORY);
    return status == VW_OK;
}

static void every_failing_allocation_is_said(void **state)
{
    (void)state;
    static const double steps[] = {1, 2, 3, 4, 5, 6, 7};
    vw__trend_series series = {steps, steps, 7, false};
    vw_test_sweep_host_memory(find_once, &series);
    series.count = 0;
    assert_true(find_once(&series));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_rises_of_a_peak_are_no_leak_and_many_are),
        cmocka_unit_test(a_leak_that_barely_stands_out_is_not_certain),
        cmocka_unit_test(where_noise_or_a_peak_may_hide_growth_nobody_is_sure),
        cmocka_unit_test(changes_of_level_are_no_leak_wherever_they_are),
        cmocka_unit_test(growth_that_reaches_no_new_high_is_no_leak),
        cmocka_unit_test(growth_that_slows_down_is_no_leak_but_not_certain),
        cmocka_unit_test(the_first_step_does_not_count_as_growth),
        cmocka_unit_test(few_steps_must_rise_evenly),
        cmocka_unit_test(counted_blocks_must_come_in_each_third),
        cmocka_unit_test(counted_blocks_must_keep_a_quarter_of_their_pace),
        cmocka_unit_test(firm_growth_takes_twice_as_many_steps_as_certain_growth),
        cmocka_unit_test(growth_that_loses_its_pace_is_not_firm),
        cmocka_unit_test(growth_that_begins_late_is_found_by_both),
        cmocka_unit_test(the_ends_are_quoted_as_written),
        cmocka_unit_test(a_spike_at_the_end_is_no_growth),
        cmocka_unit_test(every_failing_allocation_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
