/* test_top_history.c - what the screen remembers of rows that tell no steps. */
#include "cli/top_history.h"

#include "support/cmocka_here.h"
#include "support/made_up_machine.h"

static made_up_machine made;
static top_history history;

static int make(void **state)
{
    (void)state;
    made_up_machine_make(&made, MADE_UP_SECOND_NS);
    return 0;
}

static int forget(void **state)
{
    (void)state;
    top_history_free(&history);
    return 0;
}

static void see(uint64_t live_bytes)
{
    made.device.values[VW_LIVE_LIVE_BYTES] = live_bytes;
    assert_true(top_history_add(&history, &made.machine));
}

static size_t points_of(top_point *points, size_t capacity, bool *is_by_steps)
{
    return top_history_points(&history, &made.row, points, capacity, is_by_steps);
}

static void what_was_seen_comes_back_oldest_first_and_the_most_of_each_time(void **state)
{
    top_point points[8];
    bool is_by_steps = true;
    (void)state;
    assert_int_equal(points_of(points, 8, &is_by_steps), 0);
    for (uint64_t i = 1; i <= 6; i++)
        see(i);
    assert_int_equal(points_of(points, 8, &is_by_steps), 6);
    assert_false(is_by_steps);
    assert_int_equal(points[0].live_bytes, 1);
    assert_true(points[0].reserved_bytes == VW_LIVE_UNKNOWN);
    assert_int_equal(points_of(points, 3, &is_by_steps), 3);
    assert_int_equal(points[0].live_bytes, 2);
    assert_int_equal(points[2].live_bytes, 6);
}

static void only_the_last_are_kept(void **state)
{
    top_point points[TOP_HISTORY_POINTS];
    bool is_by_steps;
    (void)state;
    for (uint64_t i = 0; i < TOP_HISTORY_POINTS + 10; i++)
        see(i);
    assert_int_equal(points_of(points, TOP_HISTORY_POINTS, &is_by_steps), TOP_HISTORY_POINTS);
    assert_int_equal(points[0].live_bytes, 10);
    assert_int_equal(points[TOP_HISTORY_POINTS - 1].live_bytes, TOP_HISTORY_POINTS + 9);
}

static void steps_say_more_than_what_was_seen(void **state)
{
    const vw_job_step steps[] = {{.live_bytes = 7, .reserved_bytes = 9}, {.live_bytes = 8}};
    top_point points[8];
    bool is_by_steps = false;
    (void)state;
    see(1);
    made.device.steps = steps;
    made.device.step_count = 2;
    assert_int_equal(points_of(points, 8, &is_by_steps), 2);
    assert_true(is_by_steps);
    assert_int_equal(points[0].live_bytes, 7);
    assert_int_equal(points[0].reserved_bytes, 9);
}

/* However many points are drawn, and however long the screen was paused. */
static void the_time_is_that_between_readings(void **state)
{
    (void)state;
    assert_true(top_history_seconds(&history, &made.row) == 0);
    for (uint64_t i = 0; i < 6; i++) {
        made.machine.read_ns = (i < 5 ? i : 65) * MADE_UP_SECOND_NS;
        see(i);
    }
    assert_true(top_history_seconds(&history, &made.row) == 65);
    for (uint64_t i = 0; i < TOP_HISTORY_POINTS; i++) {
        made.machine.read_ns += MADE_UP_SECOND_NS;
        see(i);
    }
    assert_true(top_history_seconds(&history, &made.row) == TOP_HISTORY_POINTS - 1);
    made.row.device = NULL;
    assert_true(top_history_seconds(&history, &made.row) == 0);
}

static void a_process_that_is_gone_is_forgotten_and_its_number_is_another(void **state)
{
    top_point points[8];
    bool is_by_steps;
    (void)state;
    see(1);
    made.job.started_us = 2; /* the same number, given again */
    assert_int_equal(points_of(points, 8, &is_by_steps), 0);
    see(5);
    assert_int_equal(history.count, 1);
    made.row.device = NULL;
    assert_true(top_history_add(&history, &made.machine));
    assert_int_equal(history.count, 0);
    assert_int_equal(points_of(points, 8, &is_by_steps), 0);
}

/* A trend of many steps is as good as new for a few more; of few steps, for none. */
static void an_outlook_is_kept_until_its_log_has_moved_on(void **state)
{
    enum { STEPS = 128 };
    static vw_job_step steps[STEPS];
    vw_job_outlook found = {.is_leak = true, .bytes_per_step = 5, .last_step = 127};
    bool is_fresh = false;
    (void)state;
    for (uint64_t i = 0; i < STEPS; i++)
        steps[i].step = i;
    made.device.steps = steps;
    made.device.step_count = STEPS;
    top_history_keep_outlook(&history, &made.row, &found);
    assert_null(top_history_outlook(&history, &made.row, &is_fresh)); /* never seen */
    see(1);
    assert_null(top_history_outlook(&history, &made.row, &is_fresh));
    top_history_keep_outlook(&history, &made.row, &found);
    assert_int_equal(top_history_outlook(&history, &made.row, &is_fresh)->bytes_per_step, 5);
    assert_true(is_fresh);
    steps[STEPS - 1].step = 129;
    assert_non_null(top_history_outlook(&history, &made.row, &is_fresh));
    assert_true(is_fresh);
    steps[STEPS - 1].step = 130;
    assert_non_null(top_history_outlook(&history, &made.row, &is_fresh));
    assert_false(is_fresh);
    steps[STEPS - 1].step = 126; /* another run of the program */
    assert_non_null(top_history_outlook(&history, &made.row, &is_fresh));
    assert_false(is_fresh);
}

int main(void)
{
#define OF_ONE(test) cmocka_unit_test_setup_teardown(test, make, forget)
    const struct CMUnitTest tests[] = {
        OF_ONE(what_was_seen_comes_back_oldest_first_and_the_most_of_each_time),
        OF_ONE(only_the_last_are_kept),
        OF_ONE(steps_say_more_than_what_was_seen),
        OF_ONE(the_time_is_that_between_readings),
        OF_ONE(a_process_that_is_gone_is_forgotten_and_its_number_is_another),
        OF_ONE(an_outlook_is_kept_until_its_log_has_moved_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
