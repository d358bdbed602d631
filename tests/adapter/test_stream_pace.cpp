// test_stream_pace.cpp - when steps are timed, and what comes of it.
#include "adapter_fixture.h"
#include "adapters/torch/stream_pace.h"

using vramwise_torch::StreamPace;

static constexpr uint64_t ms = 1000 * 1000;

// Steps that end one after the other, with four GiB of state to leave: copies of 88 ms.
struct Steps {
    StreamPace pace;
    uint64_t now_ns = 0;

    void end(uint64_t step_ms, uint64_t state_bytes = 4 * GiB, uint64_t saved_bytes = 0,
             bool is_finished = true)
    {
        now_ns += step_ms * ms;
        pace.end_step(now_ns, state_bytes, saved_bytes, is_finished);
    }
    // Whether a trial begins within so many of them. Ends it.
    bool begins_trial(uint64_t step_ms, int count, uint64_t state_bytes = 4 * GiB)
    {
        for (int i = 0; i < count && !pace.is_trial(); i++)
            end(step_ms, state_bytes);
        const bool has_begun = pace.is_trial();
        while (pace.is_trial())
            end(step_ms, state_bytes);
        return has_begun;
    }
};

static void steps_that_hide_their_copies_are_not_timed(void **)
{
    Steps steps;
    assert_false(steps.begins_trial(264, 200)); // three times as long as the copies
    assert_int_equal(steps.pace.hidden_bytes(), UINT64_MAX);
    assert_false(steps.begins_trial(1, 200, 0)); // nothing is to leave
    assert_true(steps.begins_trial(263, 2));
}

static void a_trial_is_three_steps_of_which_the_last_two_count(void **)
{
    for (bool is_first_shorter : {false, true}) {
        Steps steps;
        steps.end(200);
        assert_false(steps.pace.is_trial());
        steps.end(200);
        assert_true(steps.pace.is_trial());
        assert_int_equal(steps.pace.hidden_bytes(), 0); // all of it stays
        steps.end(1);                                   // brings it there
        steps.end(is_first_shorter ? 160 : 170);
        assert_true(steps.pace.is_trial() && steps.pace.hidden_bytes() == 0);
        steps.end(is_first_shorter ? 170 : 160);
        assert_false(steps.pace.is_trial());
        assert_int_equal(steps.pace.hidden_bytes(),
                         vw_schedule_hidden_bytes(160 * ms, 0, 4 * GiB, 22 * ms));
    }
}

static void saved_tensors_take_turns_meanwhile(void **)
{
    Steps steps;
    for (int i = 0; i < 5; i++)
        steps.end(160, 2 * GiB, 2 * GiB);
    assert_int_equal(steps.pace.hidden_bytes(),
                     vw_schedule_hidden_bytes(160 * ms, 2 * GiB, 2 * GiB, 22 * ms));
}

static void another_trial_comes_when_much_else_leaves_and_not_soon(void **)
{
    Steps steps;
    assert_true(steps.begins_trial(100, 2));
    assert_false(steps.begins_trial(100, 200));          // the same
    assert_false(steps.begins_trial(100, 200, 5 * GiB)); // a quarter more of the two
    assert_false(steps.begins_trial(100, 200, 3 * GiB)); // a quarter less
    assert_true(steps.begins_trial(100, 1, 6 * GiB));    // a third more
    assert_false(steps.begins_trial(100, 60, 3 * GiB));  // within 64 steps
    assert_true(steps.begins_trial(100, 4, 3 * GiB));
}

// A step without need, one that needs much less, one that nobody waited for.
static void a_trial_of_steps_that_are_not_alike_is_given_up_for_a_while(void **)
{
    for (int odd : {0, 1, 2}) {
        Steps steps;
        steps.end(100);
        steps.end(100);
        assert_true(steps.pace.is_trial());
        steps.end(100);
        steps.end(100, odd == 0 ? 0 : odd == 1 ? 2 * GiB : 4 * GiB, 0, odd != 2);
        assert_false(steps.pace.is_trial());
        assert_int_equal(steps.pace.hidden_bytes(), UINT64_MAX);
        assert_false(steps.begins_trial(100, 60)); // in which the bytes are those of the first
        assert_true(steps.begins_trial(100, 4));
        assert_true(steps.pace.hidden_bytes() < UINT64_MAX);
    }
}

// The bus is as fast as it was at its best: copies wait for others, too.
static void copies_say_how_fast_the_bus_is(void **)
{
    Steps steps;
    steps.pace.note_copies(512 * MiB, 100 * ms);
    steps.pace.note_copies(512 * MiB, 8 * ms);
    steps.pace.note_copies(GiB, 40 * ms);
    for (int i = 0; i < 5; i++)
        steps.end(100);
    assert_int_equal(steps.pace.hidden_bytes(),
                     vw_schedule_hidden_bytes(100 * ms, 0, 4 * GiB, 16 * ms));
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_that_hide_their_copies_are_not_timed),
        cmocka_unit_test(a_trial_is_three_steps_of_which_the_last_two_count),
        cmocka_unit_test(saved_tensors_take_turns_meanwhile),
        cmocka_unit_test(another_trial_comes_when_much_else_leaves_and_not_soon),
        cmocka_unit_test(a_trial_of_steps_that_are_not_alike_is_given_up_for_a_while),
        cmocka_unit_test(copies_say_how_fast_the_bus_is),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
