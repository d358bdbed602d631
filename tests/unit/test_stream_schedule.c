/* test_stream_schedule.c - the promises made at the top of stream_schedule.c. */
#include "vramwise/vramwise.h"

#include <stdlib.h>

#include "support/cmocka_here.h"

enum { LIMIT = 3200, ROOM = 3000, MARKS = 6 };

static void nothing_leaves_a_device_on_which_everything_fits(void **state)
{
    (void)state;
    const uint64_t live[MARKS] = {1000, 2000, ROOM, 2000, 1500, 1000};
    uint64_t back[MARKS];
    assert_int_equal(vw_schedule_stream(live, MARKS, LIMIT, 900, back), 0);
    for (size_t i = 0; i < MARKS; i++)
        assert_int_equal(back[i], 0);
    assert_int_equal(vw_schedule_stream(NULL, 0, LIMIT, 900, NULL), 0);
    assert_int_equal(vw_schedule_stream(live, MARKS, UINT64_MAX, 900, back), 0);
}

static void what_the_peak_lacks_leaves_and_returns_as_memory_is_freed(void **state)
{
    (void)state;
    const uint64_t live[MARKS] = {1000, 2900, 3600, 3300, 3000, 1000};
    const uint64_t wanted[MARKS] = {0, 0, 0, 300, 600, 600};
    uint64_t back[MARKS];
    assert_int_equal(vw_schedule_stream(live, MARKS, LIMIT, 900, back), 600);
    assert_memory_equal(back, wanted, sizeof back);
}

/* Two passes before the step: in the valley between them there is room, but not for long. */
static void the_return_waits_for_the_last_of_several_peaks(void **state)
{
    (void)state;
    uint64_t live[MARKS] = {3400, 1000, 1000, 3400, 1000, 1000};
    const uint64_t wanted[MARKS] = {0, 0, 0, 0, 400, 400};
    assert_int_equal(vw_schedule_stream(live, MARKS, LIMIT, 900, live), 400);
    assert_memory_equal(live, wanted, sizeof live); /* in place */
}

static void no_more_leaves_than_there_is(void **state)
{
    (void)state;
    const uint64_t live[MARKS] = {1000, 9000, 4500, 3400, 1000, 1000};
    const uint64_t wanted[MARKS] = {0, 0, 0, 500, 900, 900};
    uint64_t back[MARKS];
    assert_int_equal(vw_schedule_stream(live, MARKS, LIMIT, 900, back), 900);
    assert_memory_equal(back, wanted, sizeof back);
}

/* The peak is the optimizer's own step: what leaves is not back in time for it. */
static void a_peak_at_the_end_keeps_state_away(void **state)
{
    (void)state;
    const uint64_t live[3] = {1000, 2900, 3200};
    const uint64_t wanted[3] = {0, 0, 0};
    uint64_t back[3];
    assert_int_equal(vw_schedule_stream(live, 3, LIMIT, 900, back), 200);
    assert_memory_equal(back, wanted, sizeof back);
}

static void every_promise_holds_for_steps_of_any_shape(void **state)
{
    (void)state;
    enum { LONGEST = 40 };
    uint64_t live[LONGEST], back[LONGEST];
    srand(1);
    for (int round = 0; round < 2000; round++) {
        size_t count = (size_t)rand() % LONGEST + 1;
        uint64_t limit = (uint64_t)rand() % 10000, state_bytes = (uint64_t)rand() % 10000;
        for (size_t i = 0; i < count; i++)
            live[i] = (uint64_t)rand() % 12000;
        uint64_t leave = vw_schedule_stream(live, count, limit, state_bytes, back);
        assert_true(leave <= state_bytes);
        for (size_t i = 0; i < count; i++) {
            assert_true(back[i] <= leave && (i == 0 || back[i - 1] <= back[i]));
            uint64_t on_device = live[i] - (live[i] < leave - back[i] ? live[i] : leave - back[i]);
            assert_true(on_device <= limit || (leave == state_bytes && back[i] == 0));
        }
    }
}

static void the_first_mark_that_does_not_fit_is_where_memory_is_needed(void **state)
{
    (void)state;
    const uint64_t live[4] = {100, 3200, 3201, 900};
    assert_int_equal(vw_schedule_need_mark(live, 4, 3200), 2);
    assert_int_equal(vw_schedule_need_mark(live, 4, 99), 0);
    assert_int_equal(vw_schedule_need_mark(live, 4, 4000), 4);
    assert_int_equal(vw_schedule_need_mark(NULL, 0, 1), 0);
}

static void state_leaves_in_four_parts_before_that(void **state)
{
    (void)state;
    const uint64_t leave = 4003;
    uint64_t before = 0;
    size_t parts = 0;
    for (size_t mark = 0; mark < 120; mark++) {
        uint64_t left = vw_schedule_left_bytes(leave, 100, mark);
        assert_true(left >= before && left <= leave);
        assert_true(mark < 21 ? left == 0 : left > 0);
        assert_int_equal(left == leave, mark >= 84);
        parts += left > before;
        before = left;
    }
    assert_int_equal(parts, 4);
    assert_int_equal(vw_schedule_left_bytes(leave, 0, 0), leave); /* it is needed at once */
    assert_int_equal(vw_schedule_left_bytes(0, 100, 50), 0);
    assert_int_equal(vw_schedule_left_bytes(3, 100, 84), 3);
    assert_int_equal(vw_schedule_left_bytes(UINT64_MAX, SIZE_MAX, 0), 0);
    assert_int_equal(vw_schedule_left_bytes(8, SIZE_MAX, SIZE_MAX / 2), 4);
}

static void what_is_saved_has_an_eighth_of_that_time_to_leave(void **state)
{
    (void)state;
    assert_int_equal(vw_schedule_left_mark(160, 7), 27);
    assert_int_equal(vw_schedule_left_mark(0, 7), 7);
    assert_int_equal(vw_schedule_room_bytes(3200), 3100);
}

/* 600 lack at the peak. */
static void what_the_step_does_not_hide_stays_away(void **state)
{
    (void)state;
    const uint64_t live[MARKS] = {1000, 2900, 3600, 3300, 3000, 1000};
    const uint64_t leave = 600;
    assert_int_equal(vw_schedule_stay_bytes(live, MARKS, LIMIT, leave, UINT64_MAX), 0);
    assert_int_equal(vw_schedule_stay_bytes(live, MARKS, LIMIT, leave, 600), 0);
    assert_int_equal(vw_schedule_stay_bytes(live, MARKS, LIMIT, leave, 599), 1);
    assert_int_equal(vw_schedule_stay_bytes(live, MARKS, LIMIT, leave, 0), 600);
    /* Where the state is not enough, what else leaves takes turns first. */
    assert_int_equal(vw_schedule_stay_bytes(live, MARKS, LIMIT, 500, 599), 1);
    assert_int_equal(vw_schedule_stay_bytes(live, MARKS, LIMIT, 500, 101), 499);
    assert_int_equal(vw_schedule_stay_bytes(live, MARKS, LIMIT, 500, 100), 500);
    assert_int_equal(vw_schedule_stay_bytes(live, MARKS, LIMIT, 500, 0), 500);
    assert_int_equal(vw_schedule_stay_bytes(live, MARKS, LIMIT, 0, 0), 0);
    assert_int_equal(vw_schedule_stay_bytes(NULL, 0, LIMIT, 0, 0), 0);
}

#define GIB (UINT64_C(1) << 30)

/* A GiB takes 20 ms: half of 120 ms copies three. */
static void half_of_the_computation_hides_copies(void **state)
{
    (void)state;
    const uint64_t ms = 1000 * 1000, gib_ns = 20 * ms;
    assert_int_equal(vw_schedule_hidden_bytes(120 * ms, 0, 0, gib_ns), 3 * GIB);
    /* Two GiB are used on the host, in 46 ms. */
    assert_in_range(vw_schedule_hidden_bytes(166 * ms, 0, 2 * GIB, gib_ns), 3 * GIB - 1,
                    3 * GIB + 1);
    /* A third of the computation hides two GiB. */
    assert_int_equal(vw_schedule_hidden_bytes(120 * ms, 2 * GIB, 0, gib_ns), 3 * GIB);
    /* Of three the forward pass waits for one. */
    assert_int_equal(vw_schedule_hidden_bytes(140 * ms, 3 * GIB, 0, gib_ns), 3 * GIB);
    /* Of five both do: copies are all that is seen, beside which 150 ms would hide. */
    assert_int_equal(vw_schedule_hidden_bytes(200 * ms, 5 * GIB, 0, gib_ns), 150 * GIB / 40);
    assert_int_equal(vw_schedule_hidden_bytes(40 * ms, 0, 2 * GIB, gib_ns), 0);
    assert_int_equal(vw_schedule_hidden_bytes(0, 0, 0, gib_ns), 0);
    assert_int_equal(vw_schedule_hidden_bytes(120 * ms, 0, 0, 0), UINT64_MAX); /* not known */
    assert_true(vw_schedule_hidden_bytes(UINT64_MAX, 0, 0, 1) > (UINT64_C(1) << 62));
}

static void longer_steps_hide_no_less_and_slower_copies_no_more(void **state)
{
    (void)state;
    srand(2);
    for (int round = 0; round < 20000; round++) {
        uint64_t step_ns = (uint64_t)rand() * 3, gib_ns = (uint64_t)rand() % 100000000 + 1;
        uint64_t turned = (uint64_t)rand() * 8, stayed = (uint64_t)rand() * 8;
        uint64_t hidden = vw_schedule_hidden_bytes(step_ns, turned, stayed, gib_ns);
        assert_true(vw_schedule_hidden_bytes(step_ns + (uint64_t)rand(), turned, stayed, gib_ns) >=
                    hidden);
        assert_true(vw_schedule_hidden_bytes(step_ns, turned, stayed, gib_ns + 1000) <= hidden + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_leaves_a_device_on_which_everything_fits),
        cmocka_unit_test(what_the_peak_lacks_leaves_and_returns_as_memory_is_freed),
        cmocka_unit_test(the_return_waits_for_the_last_of_several_peaks),
        cmocka_unit_test(no_more_leaves_than_there_is),
        cmocka_unit_test(a_peak_at_the_end_keeps_state_away),
        cmocka_unit_test(the_first_mark_that_does_not_fit_is_where_memory_is_needed),
        cmocka_unit_test(state_leaves_in_four_parts_before_that),
        cmocka_unit_test(what_is_saved_has_an_eighth_of_that_time_to_leave),
        cmocka_unit_test(what_the_step_does_not_hide_stays_away),
        cmocka_unit_test(half_of_the_computation_hides_copies),
        cmocka_unit_test(longer_steps_hide_no_less_and_slower_copies_no_more),
        cmocka_unit_test(every_promise_holds_for_steps_of_any_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
