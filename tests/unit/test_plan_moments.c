/* test_plan_moments.c - a short run by hand: which request made the peak, and what a pass left. */
#include "plan/plan_events.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

enum { FORWARD, ATTENTION, NORM, LOSS, BACKWARD }; /* in the order of entering */

typedef struct hand_made {
    vw__plan_events events;
    vw__script_op ops[16];
    vw__plan_origin origins[16];
} hand_made;

static void enter_places(vw__tape *tape)
{
    vw__tape_enter(tape, "forward", -1);
    vw__tape_enter(tape, "attention", -1);
    vw__tape_enter(tape, "q_norm", -1);
    vw__tape_leave(tape);
    vw__tape_leave(tape);
    vw__tape_enter(tape, "loss", -1);
    vw__tape_leave(tape);
    vw__tape_leave(tape);
    vw__tape_enter(tape, "backward", -1);
    vw__tape_leave(tape);
}

static void add(hand_made *made, uint32_t slot, uint64_t size_bytes, vw__plan_origin origin)
{
    size_t number = made->events.script.op_count++;
    made->ops[number] =
        (vw__script_op){.size_bytes = size_bytes,
                        .slot = slot,
                        .kind = size_bytes > 0 ? VW__SCRIPT_ALLOC : VW__SCRIPT_FREE};
    made->origins[number] = origin;
    if (slot >= made->events.script.slot_count)
        made->events.script.slot_count = slot + 1;
}

static void let_go(hand_made *made, uint32_t slot)
{
    add(made, slot, 0, (vw__plan_origin){.place = UINT32_MAX});
}

/* Weights; then attention and its norm, a local that goes, a loss; and a backward pass in which a
 * part runs again. */
static void make_run(hand_made *made)
{
    const vw__plan_origin attention = {ATTENTION, VW__TAPE_USE_ACTIVATIONS, VW__PLAN_PASS_PLAIN};
    const vw__plan_origin norm = {NORM, VW__TAPE_USE_ACTIVATIONS, VW__PLAN_PASS_PLAIN};
    const vw__plan_origin loss = {LOSS, VW__TAPE_USE_LOSS, VW__PLAN_PASS_PLAIN};
    *made = (hand_made){.events = {.step_count = 1}};
    assert_int_equal(vw__tape_create(NULL, &made->events.places), VW_OK);
    enter_places(made->events.places);
    made->events.script.ops = made->ops;
    made->events.origins = made->origins;
    add(made, 0, 1000, (vw__plan_origin){FORWARD, VW__TAPE_USE_WEIGHTS, VW__PLAN_PASS_PLAIN});
    made->events.steps[0].begin = made->events.script.op_count;
    add(made, 1, 100, attention);
    add(made, 2, 30, norm);
    add(made, 3, 500, attention); /* a local */
    add(made, 4, 7, loss);
    let_go(made, 3);
    made->events.peaks.after_forward_bytes = 1137;
    add(made, 3, 600, (vw__plan_origin){NORM, VW__TAPE_USE_ACTIVATIONS, VW__PLAN_PASS_AGAIN});
    let_go(made, 3);
    add(made, 5, 90, (vw__plan_origin){BACKWARD, VW__TAPE_USE_BACKWARD, VW__PLAN_PASS_BACKWARD});
    made->events.steps[0].end = made->events.script.op_count;
}

static void the_peak_knows_that_a_part_ran_again(void **state)
{
    (void)state;
    hand_made made;
    vw__plan_moments moments;
    make_run(&made);
    assert_int_equal(vw__plan_moments_find(&made.events, &moments), VW_OK);
    assert_int_equal(moments.peak.pass, VW__PLAN_PASS_AGAIN);
    assert_int_equal(moments.peak.place, NORM);
    vw__tape_destroy(made.events.places);
}

static void what_a_pass_leaves_is_counted_when_its_locals_are_gone(void **state)
{
    (void)state;
    hand_made made;
    vw__plan_moments moments;
    make_run(&made);
    assert_int_equal(vw__plan_moments_find(&made.events, &moments), VW_OK);
    assert_int_equal(moments.kept_bytes[VW__PLAN_LAYER_ATTENTION], 100);
    assert_int_equal(moments.kept_bytes[VW__PLAN_LAYER_NORM],
                     30); /* the innermost scope that says so */
    assert_int_equal(moments.kept_bytes[VW__PLAN_LAYER_LOSS], 7);
    assert_int_equal(moments.kept_bytes[VW__PLAN_LAYER_OTHER], 0); /* weights are no activations */
    vw__tape_destroy(made.events.places);
}

static void places_know_what_they_are_inside_of(void **state)
{
    (void)state;
    hand_made made;
    make_run(&made);
    assert_true(vw__plan_is_inside(made.events.places, NORM, "forward"));
    assert_false(vw__plan_is_inside(made.events.places, BACKWARD, "forward"));
    assert_false(vw__plan_is_inside(made.events.places, UINT32_MAX, "forward"));
    vw__tape_destroy(made.events.places);
}

static bool find_moments(void *context)
{
    vw__plan_moments moments;
    return vw__plan_moments_find(context, &moments) == VW_OK;
}

static void every_failure_of_host_memory_is_told(void **state)
{
    (void)state;
    hand_made made;
    make_run(&made);
    vw_test_sweep_host_memory(find_moments, &made.events);
    vw__tape_destroy(made.events.places);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_knows_that_a_part_ran_again),
        cmocka_unit_test(what_a_pass_leaves_is_counted_when_its_locals_are_gone),
        cmocka_unit_test(places_know_what_they_are_inside_of),
        cmocka_unit_test(every_failure_of_host_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
