/* test_job_figures.c - rates and shares from two readings, and what is not known. */
#include "vramwise/watch.h"

#include <math.h>

#include "contract/device_contract.h" /* assert_ok, assert_status */
#include "support/cmocka_here.h"
#include "support/made_up_machine.h"

static made_up_machine before, now;

/* Two seconds apart. */
static int make_both(void **state)
{
    (void)state;
    made_up_machine_make(&before, 10 * MADE_UP_SECOND_NS);
    made_up_machine_make(&now, 12 * MADE_UP_SECOND_NS);
    return 0;
}

static void set(vw_live_field field, uint64_t first, uint64_t last)
{
    before.device.values[field] = first;
    now.device.values[field] = last;
}

static vw_job_figures figures(void)
{
    vw_job_figures result;
    assert_ok(vw_job_figures_find(&before.machine, &now.machine, &now.row, &result));
    return result;
}

static void assert_near(double value, double expected)
{
    assert_true(fabs(value - expected) < 1e-9);
}

static void counters_become_rates_over_the_time_between_two_changes(void **state)
{
    (void)state;
    set(VW_LIVE_ALLOCATIONS, 1000, 1500);
    set(VW_LIVE_RETRIES, 1, 2);
    set(VW_LIVE_DRIVER_NS, 0, MADE_UP_SECOND_NS / 2);
    assert_near(figures().allocations_per_second, 250);
    assert_near(figures().retries_per_second, 0.5);
    assert_near(figures().driver_share, 0.25);
    now.device.updated_ns = 11 * MADE_UP_SECOND_NS; /* the reader came late */
    assert_near(figures().allocations_per_second, 500);
}

static void what_was_not_there_before_has_no_rate(void **state)
{
    vw_job_figures alone;
    (void)state;
    set(VW_LIVE_ALLOCATIONS, 1000, 1500);
    assert_ok(vw_job_figures_find(NULL, &now.machine, &now.row, &alone));
    assert_true(isnan(alone.allocations_per_second));
    before.job.started_us = 99; /* the number of another process, once */
    assert_true(isnan(figures().allocations_per_second));
    before.job.started_us = 1;
    before.device.index = 3;
    assert_true(isnan(figures().allocations_per_second));
    before.device.index = 0;
    before.job.process = 18;
    assert_true(isnan(figures().allocations_per_second));
}

static void a_counter_that_went_back_or_a_page_that_did_not_change_has_no_rate(void **state)
{
    (void)state;
    set(VW_LIVE_ALLOCATIONS, 1500, 1000);
    assert_true(isnan(figures().allocations_per_second));
    set(VW_LIVE_ALLOCATIONS, 1000, 1500);
    now.device.updated_ns = before.device.updated_ns;
    assert_true(isnan(figures().allocations_per_second));
    set(VW_LIVE_ALLOCATIONS, VW_LIVE_UNKNOWN, 1500);
    assert_true(isnan(figures().allocations_per_second));
}

static void steps_between_the_readings_give_their_time_and_what_of_it_was_waiting(void **state)
{
    (void)state;
    set(VW_LIVE_STEPS, 100, 104);
    set(VW_LIVE_STEP_NS, 0, 2 * MADE_UP_SECOND_NS);
    set(VW_LIVE_INPUT_WAIT_NS, 0, MADE_UP_SECOND_NS / 2);
    assert_near(figures().steps_per_second, 2);
    assert_near(figures().step_seconds, 0.5);
    assert_near(figures().input_wait_share, 0.25);
    assert_true(figures().is_input_bound);
    set(VW_LIVE_INPUT_WAIT_NS, 0, 2 * MADE_UP_SECOND_NS / 5); /* a fifth */
    assert_false(figures().is_input_bound);
}

static void without_a_step_in_between_it_is_the_average_until_it_stands_still(void **state)
{
    vw_job_step step = {.step = 10, .at_ns = 9 * MADE_UP_SECOND_NS};
    (void)state;
    set(VW_LIVE_STEPS, 10, 10);
    set(VW_LIVE_STEP_NS, 40 * MADE_UP_SECOND_NS, 40 * MADE_UP_SECOND_NS);
    set(VW_LIVE_INPUT_WAIT_NS, 4 * MADE_UP_SECOND_NS, 4 * MADE_UP_SECOND_NS);
    assert_near(figures().step_seconds, 4);
    assert_near(figures().input_wait_share, 0.1);
    assert_true(isnan(figures().steps_per_second));
    now.device.steps = &step;
    now.device.step_count = 1;
    assert_near(figures().steps_per_second, 0.25);
    now.machine.read_ns = 30 * MADE_UP_SECOND_NS;
    assert_near(figures().steps_per_second, 0);
}

/* Of a long run one step of many is logged, and the last one there is old. */
static void a_step_that_is_not_in_the_log_has_ended_all_the_same(void **state)
{
    const vw_job_step steps[] = {{.step = 1, .at_ns = MADE_UP_SECOND_NS},
                                 {.step = 257, .at_ns = 1025 * MADE_UP_SECOND_NS}};
    (void)state;
    set(VW_LIVE_STEPS, 501, 501);
    set(VW_LIVE_STEP_NS, 2000 * MADE_UP_SECOND_NS, 2000 * MADE_UP_SECOND_NS);
    now.device.steps = steps;
    now.device.step_count = 2;
    now.machine.read_ns = 2003 * MADE_UP_SECOND_NS;
    assert_true(figures().steps_per_second > 0.2);
    now.machine.read_ns = 2030 * MADE_UP_SECOND_NS;
    assert_near(figures().steps_per_second, 0);
}

static void a_job_without_steps_has_no_step_time(void **state)
{
    (void)state;
    assert_true(isnan(figures().step_seconds));
    set(VW_LIVE_STEPS, 0, 0);
    assert_true(isnan(figures().step_seconds));
    assert_true(isnan(figures().input_wait_share));
    assert_false(figures().is_input_bound);
}

static void idle_is_what_is_reserved_and_not_live(void **state)
{
    (void)state;
    assert_true(figures().idle_bytes == VW_LIVE_UNKNOWN);
    now.device.values[VW_LIVE_RESERVED_BYTES] = 400;
    now.row.process_bytes = 500;
    assert_true(figures().idle_bytes == VW_LIVE_UNKNOWN);
    assert_int_equal(figures().unseen_bytes, 100);
    now.device.values[VW_LIVE_LIVE_BYTES] = 300;
    assert_int_equal(figures().idle_bytes, 100);
    assert_near(figures().idle_share, 0.25);
    now.device.values[VW_LIVE_LIVE_BYTES] = 500; /* told at two moments */
    assert_int_equal(figures().idle_bytes, 0);
    now.row.process_bytes = 10;
    assert_int_equal(figures().unseen_bytes, 0);
}

static void a_page_that_did_not_change_for_more_than_5_s_is_silent(void **state)
{
    (void)state;
    assert_false(figures().is_silent);
    now.machine.read_ns = 17 * MADE_UP_SECOND_NS;
    assert_false(figures().is_silent);
    now.machine.read_ns++;
    assert_true(figures().is_silent);
    now.machine.read_ns = 1; /* changed while it was read */
    assert_int_equal(figures().silent_ns, 0);
    now.device.updated_ns = 0; /* it has told of a step, and nothing else yet */
    now.machine.read_ns = 17 * MADE_UP_SECOND_NS;
    assert_false(figures().is_silent);
    assert_true(figures().silent_ns == VW_LIVE_UNKNOWN);
}

static void of_a_row_without_a_device_nothing_is_known(void **state)
{
    (void)state;
    now.row.device = NULL;
    vw_job_figures result = figures();
    assert_true(isnan(result.allocations_per_second));
    assert_true(result.idle_bytes == VW_LIVE_UNKNOWN && result.silent_ns == VW_LIVE_UNKNOWN);
    assert_false(result.outlook.is_leak);
    assert_status(VW_ERR_INVALID_ARGUMENT, vw_job_figures_find(NULL, &now.machine, NULL, &result));
}

static void growth_from_step_to_step_is_a_leak_with_its_end(void **state)
{
    vw_job_step steps[100];
    (void)state;
    for (size_t i = 0; i < 100; i++)
        steps[i] = (vw_job_step){.step = i + 1, .live_bytes = (i + 1) * (1 << 20)};
    now.device.steps = steps;
    now.device.step_count = 100;
    now.device.values[VW_LIVE_LIVE_BYTES] = 100 << 20;
    now.device.values[VW_LIVE_RESERVED_BYTES] = 120 << 20;
    now.device.values[VW_LIVE_DEVICE_FREE_BYTES] = 30 << 20;
    vw_job_figures result = figures();
    assert_true(result.outlook.is_leak);
    assert_int_equal(result.outlook.full_at_step, 151);
}

static void an_outlook_that_is_known_keeps_its_trend_and_gets_the_room_of_now(void **state)
{
    const vw_job_outlook earlier = {
        .is_leak = true, .bytes_per_step = 10, .last_step = 1, .room_bytes = 7, .full_at_step = 9};
    vw_job_figures found;
    (void)state;
    now.device.values[VW_LIVE_LIVE_BYTES] = 100;
    now.device.values[VW_LIVE_RESERVED_BYTES] = 150;
    now.device.values[VW_LIVE_DEVICE_FREE_BYTES] = 50;
    now.device.values[VW_LIVE_LIMIT_BYTES] = VW_LIVE_UNKNOWN;
    now.device.step_count = 0;
    assert_int_equal(
        vw_job_figures_find_with(&before.machine, &now.machine, &now.row, &earlier, &found), VW_OK);
    assert_true(found.outlook.is_leak);
    assert_int_equal(found.outlook.last_step, 0);
    assert_int_equal(found.outlook.room_bytes, 100);
    assert_int_equal(found.outlook.full_at_step, 11);
    assert_int_equal(
        vw_job_figures_find_with(&before.machine, &now.machine, &now.row, NULL, &found), VW_OK);
    assert_false(found.outlook.is_leak);
}

int main(void)
{
#define OF_BOTH(test) cmocka_unit_test_setup(test, make_both)
    const struct CMUnitTest tests[] = {
        OF_BOTH(counters_become_rates_over_the_time_between_two_changes),
        OF_BOTH(what_was_not_there_before_has_no_rate),
        OF_BOTH(a_counter_that_went_back_or_a_page_that_did_not_change_has_no_rate),
        OF_BOTH(steps_between_the_readings_give_their_time_and_what_of_it_was_waiting),
        OF_BOTH(without_a_step_in_between_it_is_the_average_until_it_stands_still),
        OF_BOTH(a_step_that_is_not_in_the_log_has_ended_all_the_same),
        OF_BOTH(a_job_without_steps_has_no_step_time),
        OF_BOTH(idle_is_what_is_reserved_and_not_live),
        OF_BOTH(a_page_that_did_not_change_for_more_than_5_s_is_silent),
        OF_BOTH(of_a_row_without_a_device_nothing_is_known),
        OF_BOTH(growth_from_step_to_step_is_a_leak_with_its_end),
        OF_BOTH(an_outlook_that_is_known_keeps_its_trend_and_gets_the_room_of_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
