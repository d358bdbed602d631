/* test_stream_cost.c - the promises made at the top of stream_cost.c. */
#include "analysis/stream_cost.h"

#include <stdlib.h>

#include "analysis/spill_cost.h"
#include "base/checked_math.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define MS UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* A sixteenth of the limit is not planned with. */
#define LIMIT (16 * GIB)
#define ROOM (15 * GIB)

enum { MARKS = 6, MOST_ITEMS = 8 };

typedef struct made_step {
    uint64_t live_bytes[MARKS], gpu_ns[MARKS];
    vw_saved_item items[MOST_ITEMS];
    vw__stream_cost_step step;
} made_step;

/* Marks of `live_gib` each, with so much work behind them; the optimizer comes after the last. */
static void make_step(made_step *made, const double live_gib[MARKS], const unsigned gpu_ms[MARKS],
                      uint64_t state_bytes)
{
    *made = (made_step){
        .step = {.mark_count = MARKS, .hidden_bytes = UINT64_MAX, .optimizer_mark = MARKS}};
    for (size_t i = 0; i < MARKS; i++) {
        made->live_bytes[i] = (uint64_t)(live_gib[i] * (double)GIB);
        made->gpu_ns[i] = gpu_ms[i] * MS;
    }
    made->step.live_bytes = made->live_bytes;
    made->step.gpu_ns = made->gpu_ns;
    made->step.state_bytes = state_bytes;
    made->step.items = made->items;
    made->step.optimizer_live_bytes = made->live_bytes[MARKS - 1];
}

static void save(made_step *made, uint64_t size_bytes, uint32_t from_mark, uint32_t until_mark)
{
    made->items[made->step.item_count++] =
        (vw_saved_item){.size_bytes = size_bytes, .from_mark = from_mark, .until_mark = until_mark};
}

static vw__stream_cost cost_with(const made_step *made, uint64_t limit_bytes, uint64_t host_bytes)
{
    vw__stream_cost_plan plan;
    vw__stream_cost cost;
    assert_int_equal(vw__stream_cost_plan_make(&made->step, limit_bytes, host_bytes, &plan), VW_OK);
    assert_int_equal(vw__stream_cost_find(&made->step, &plan, limit_bytes, &cost), VW_OK);
    assert_true(plan.host_bytes <= host_bytes);
    vw__stream_cost_plan_deinit(&plan);
    return cost;
}

static vw__stream_cost cost_of(const made_step *made, uint64_t limit_bytes)
{
    return cost_with(made, limit_bytes, UINT64_MAX);
}

static void assert_near(uint64_t found, uint64_t expected)
{
    uint64_t slack = expected / 1000 + 1000;
    assert_in_range(found, expected - (slack < expected ? slack : expected), expected + slack);
}

static void assert_nothing(const vw__stream_cost *cost)
{
    const vw__stream_cost nothing = {.state_bytes = 0};
    assert_memory_equal(cost, &nothing, sizeof nothing);
}

/* As long as a GiB is copied. */
static const unsigned usual_ms[MARKS] = {22, 22, 0, 22, 22, 22};

static void where_nothing_lacks_nothing_waits(void **state)
{
    (void)state;
    const double live[MARKS] = {10, 12, 15, 12, 10, 9};
    made_step made;
    make_step(&made, live, usual_ms, 4 * GIB);
    save(&made, GIB, 1, 4);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_nothing(&cost);
    cost = cost_of(&made, UINT64_MAX);
    assert_nothing(&cost);
    assert_int_equal(vw__stream_cost_ns(&cost), 0);
}

static void a_step_without_requests_costs_nothing(void **state)
{
    (void)state;
    const vw__stream_cost_step step = {.state_bytes = GIB, .optimizer_live_bytes = 2 * GIB};
    vw__stream_cost_plan plan;
    vw__stream_cost cost;
    assert_int_equal(vw__stream_cost_plan_make(&step, GIB, UINT64_MAX, &plan), VW_OK);
    assert_int_equal(vw__stream_cost_find(&step, &plan, GIB, &cost), VW_OK);
    assert_nothing(&cost);
    vw__stream_cost_plan_deinit(&plan);
}

/* Two GiB take 44 ms, and the passes as long each: only their mapping is left. */
static void copies_hide_behind_the_passes(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 18, 14, 12, 11};
    made_step made;
    make_step(&made, live, usual_ms, 3 * GIB);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.state_bytes, 2 * GIB);
    assert_near(cost.room_wait_ns + cost.state_wait_ns + cost.saved_wait_ns, 0);
    assert_int_equal(cost.stayed_bytes + cost.short_bytes, 0);
    assert_near(vw__stream_cost_ns(&cost), 2 * vw__spill_cost_map_ns(cost.state_bytes));
}

/* The peak comes after 10 ms: the rest of two GiB is waited for. */
static void a_request_waits_for_what_its_pass_is_too_short_for(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 18, 14, 12, 11};
    const unsigned gpu_ms[MARKS] = {5, 5, 0, 20, 20, 20};
    made_step made;
    make_step(&made, live, gpu_ms, 3 * GIB);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.room_wait_ns, 45 * MS); /* half a GiB more is freed */
    assert_int_equal(cost.state_wait_ns, 0);
}

static void the_optimizer_waits_for_its_state(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 18, 14, 12, 11};
    const unsigned gpu_ms[MARKS] = {22, 22, 0, 5, 5, 5};
    made_step made;
    make_step(&made, live, gpu_ms, 3 * GIB);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.room_wait_ns, 0);
    assert_near(cost.state_wait_ns, 29 * MS); /* from mark 3 on: 44 ms in 15 */
}

/* Below the limit, though above what is planned with: state leaves by parts, and nobody waits. */
static void state_leaves_ahead_where_the_margin_alone_lacks(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 15.5, 14, 12, 11};
    made_step made;
    make_step(&made, live, usual_ms, 3 * GIB);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_in_range(cost.state_bytes, 1, GIB / 2);
    assert_int_equal(vw__stream_cost_ns(&cost), 2 * vw__spill_cost_map_ns(cost.state_bytes));
}

/* State and a saved tensor have the engine to the host by turns: each takes twice as long. */
static void a_saved_tensor_takes_turns_with_the_state(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 19, 14, 12, 10};
    made_step made;
    make_step(&made, live, (unsigned[]){0, 0, 0, 22, 22, 22}, 2 * GIB);
    save(&made, 2 * GIB, 1, 5);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.state_bytes, 2 * GIB);
    assert_near(cost.saved_bytes, 2 * GIB);
    assert_near(cost.room_wait_ns, 88 * MS); /* though three and a half of the four would do */
}

static void a_program_that_is_bound_by_the_host_takes_longer_by_its_calls(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 19, 14, 12, 10};
    made_step made;
    make_step(&made, live, usual_ms, 2 * GIB);
    made.step.state_count = 100;
    save(&made, GIB, 1, 4);
    save(&made, 2 * GIB, 1, 5);
    save(&made, MIB, 2, 4); /* stays, and is the last: nobody asks about it */
    const uint64_t call_ns = cost_of(&made, LIMIT).call_ns;
    assert_true(call_ns > 0);
    made.step.idle_ns = call_ns / 4; /* it waits for the GPU a little */
    assert_int_equal(cost_of(&made, LIMIT).call_ns, call_ns - call_ns / 4);
    made.step.idle_ns = 10 * call_ns;
    assert_int_equal(cost_of(&made, LIMIT).call_ns, 0);
    made.step.idle_ns = 0;
    made.step.state_count = 200;
    const uint64_t more_ns = cost_of(&made, LIMIT).call_ns - call_ns;
    made.step.state_count = 300;
    assert_int_equal(cost_of(&made, LIMIT).call_ns, call_ns + 2 * more_ns);
    made.step.item_count = 2;
    assert_int_equal(cost_of(&made, LIMIT).call_ns, call_ns + 2 * more_ns);
    assert_int_equal(cost_of(&made, 32 * GIB).call_ns, 0);
}

/* Where all of the state is not enough, the tensor that is used last leaves, and no other. */
static void saved_tensors_leave_where_state_is_not_enough(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 19, 14, 12, 10};
    made_step made;
    make_step(&made, live, usual_ms, GIB);
    save(&made, 3 * GIB, 1, 5);
    save(&made, 3 * GIB, 2, 3);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.saved_bytes, 3 * GIB);
    assert_near(cost.room_wait_ns, 44 * MS);  /* of 66 ms, from mark 1 on, 22 are hidden */
    assert_near(cost.saved_wait_ns, 22 * MS); /* back from mark 3 on, for mark 5 */
    assert_int_equal(cost.short_bytes, 0);
}

/* It is used as soon as it has left. */
static void the_backward_pass_waits_for_a_saved_tensor(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 18, 15, 12, 10};
    made_step made;
    make_step(&made, live, usual_ms, 0);
    save(&made, 3 * GIB, 1, 3);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.saved_bytes, 3 * GIB);
    assert_near(cost.saved_wait_ns, 66 * MS);
}

/* Two passes before the step. State is away during both, and copied once. */
static void with_accumulation_state_returns_after_the_last_peak(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 18, 12, 18, 12, 11};
    made_step made;
    make_step(&made, live, (unsigned[]){50, 0, 50, 0, 20, 20}, 2 * GIB);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.state_bytes, 2 * GIB);
    assert_int_equal(cost.room_wait_ns, 0);
    assert_near(cost.state_wait_ns, 4 * MS); /* 44 ms of copies behind 40 of work */
}

/* Each pass has its own saved tensor. */
static void with_accumulation_each_peak_has_its_saved_tensors(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 17, 12, 17, 12, 10};
    made_step made;
    make_step(&made, live, (unsigned[]){50, 50, 50, 50, 50, 50}, 0);
    save(&made, 2 * GIB, 0, 2);
    save(&made, 2 * GIB, 2, 4);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.saved_bytes, 4 * GIB);
    assert_int_equal(cost.short_bytes, 0);
    assert_int_equal(cost.room_wait_ns, 0);
}

/* Weights, gradients and state do not fit together. What the peak pushes out does not come back: it
 * is touched over the bus, and not copied in the steps that follow. */
static void what_does_not_fit_beside_the_optimizer_is_used_on_the_host(void **state)
{
    (void)state;
    const double live[MARKS] = {14, 16, 18, 18, 18, 18};
    made_step made;
    make_step(&made, live, usual_ms, 4 * GIB);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.stayed_bytes, 2 * GIB + 512 * MIB); /* a 32nd of the device stays free */
    assert_near(cost.touch_ns, vw__spill_cost_touch_ns(cost.stayed_bytes));
    assert_near(cost.state_bytes, 512 * MIB);
    assert_int_equal(cost.room_wait_ns + cost.short_bytes, 0);
}

/* What the optimizer asks for counts as well. */
static void the_requests_of_the_optimizer_keep_state_away(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 14, 13, 16, 13};
    made_step made;
    make_step(&made, live, usual_ms, 4 * GIB);
    made.step.optimizer_mark = 4;
    made.step.optimizer_live_bytes = 13 * GIB;
    assert_int_equal(cost_of(&made, LIMIT).short_bytes, 0);
    made.live_bytes[4] = 19 * GIB; /* three parts of four leave before it */
    assert_int_equal(cost_of(&made, LIMIT).short_bytes, 0);
    made.live_bytes[4] = 20 * GIB; /* the fourth stays away as well, part by part, in later steps */
    assert_in_range(cost_of(&made, LIMIT).short_bytes, 0, MIB);
    made.live_bytes[4] = 21 * GIB; /* nothing more can leave */
    assert_near(cost_of(&made, LIMIT).short_bytes, GIB);
}

/* Of two GiB that lack one is to stay: it is used on the host, and the other leaves and returns. */
static void what_the_passes_do_not_hide_is_used_on_the_host(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 17, 14, 12, 11};
    made_step made;
    make_step(&made, live, usual_ms, 3 * GIB);
    for (uint64_t hidden_gib = 0; hidden_gib < 4; hidden_gib++) {
        uint64_t turning_bytes = vw__min_u64(hidden_gib, 2) * GIB;
        made.step.hidden_bytes = hidden_gib * GIB;
        vw__stream_cost cost = cost_of(&made, LIMIT);
        assert_near(cost.stayed_bytes, 2 * GIB - turning_bytes);
        assert_near(cost.state_bytes, turning_bytes);
        assert_near(vw__stream_cost_ns(&cost), 2 * vw__spill_cost_map_ns(turning_bytes) +
                                                   vw__spill_cost_touch_ns(cost.stayed_bytes));
        assert_int_equal(cost.short_bytes, 0);
    }
}

static void a_step_that_does_not_fit_says_by_how_much(void **state)
{
    (void)state;
    const double live[MARKS] = {20, 30, 40, 30, 20, 20};
    made_step made;
    make_step(&made, live, usual_ms, 2 * GIB);
    save(&made, GIB, 1, 5);
    vw__stream_cost cost = cost_of(&made, LIMIT);
    assert_near(cost.short_bytes, 40 * GIB - 3 * GIB - LIMIT);
    assert_near(cost.stayed_bytes, 2 * GIB);
    assert_true(vw__stream_cost_ns(&cost) < 1000 * MS);
    cost = cost_of(&made, 1);
    assert_true(cost.short_bytes > 36 * GIB);
    cost = cost_of(&made, 0);
    assert_true(cost.short_bytes > 36 * GIB);
}

static void what_finds_no_host_memory_stays(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 19, 14, 12, 10};
    made_step made;
    make_step(&made, live, usual_ms, 2 * GIB);
    save(&made, GIB, 1, 4);
    save(&made, 2 * GIB, 1, 5);
    vw__stream_cost cost = cost_with(&made, LIMIT, 3 * GIB); /* the second one finds none */
    assert_near(cost.short_bytes, GIB);
    assert_int_equal(cost_with(&made, LIMIT, 5 * GIB).short_bytes, 0);
    cost = cost_with(&made, LIMIT, 0);
    assert_near(cost.short_bytes, 3 * GIB);
    assert_int_equal(vw__stream_cost_ns(&cost), 0);
}

/* ---- any step -------------------------------------------------------------------------------- */

static uint64_t random_below(uint64_t limit)
{
    return (uint64_t)rand() % limit;
}

static void make_random_step(made_step *made)
{
    double live[MARKS];
    unsigned gpu_ms[MARKS];
    for (size_t i = 0; i < MARKS; i++) {
        live[i] = 8 + (double)random_below(1600) / 100;
        gpu_ms[i] = (unsigned)random_below(40);
    }
    make_step(made, live, gpu_ms, random_below(6) * GIB);
    made->step.optimizer_mark = 3 + random_below(MARKS - 2);
    for (size_t i = random_below(MOST_ITEMS); i > 0; i--) {
        uint32_t from = (uint32_t)random_below(MARKS);
        save(made, random_below(2048) * MIB, from, from + (uint32_t)random_below(MARKS));
    }
}

/* A card that is a little larger may plan otherwise, and so it may cost a little more; one that
 * holds everything costs nothing. What moves is within what can, and nothing moves for free. */
static void any_step_keeps_the_promises(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 20000; round++) {
        made_step made;
        make_random_step(&made);
        uint64_t peak_bytes = 0, item_bytes = 0, limit_bytes = 6 * GIB + random_below(20) * GIB;
        for (size_t i = 0; i < MARKS; i++)
            peak_bytes = made.live_bytes[i] > peak_bytes ? made.live_bytes[i] : peak_bytes;
        for (size_t i = 0; i < made.step.item_count; i++)
            item_bytes += made.items[i].size_bytes;
        vw__stream_cost cost = cost_of(&made, limit_bytes);
        vw__stream_cost again = cost_of(&made, limit_bytes);
        assert_memory_equal(&cost, &again, sizeof cost);
        assert_true(cost.state_bytes <= made.step.state_bytes);
        assert_true(cost.stayed_bytes <= made.step.state_bytes);
        assert_true(cost.saved_bytes <= item_bytes);
        uint64_t moved_bytes = cost.state_bytes + cost.saved_bytes;
        assert_true(cost.map_ns == 2 * vw__spill_cost_map_ns(moved_bytes));
        assert_true(cost.touch_ns == vw__spill_cost_touch_ns(cost.stayed_bytes));
        assert_true(cost.room_wait_ns <=
                    vw__spill_cost_copy_ns(made.step.state_bytes + cost.saved_bytes) + MS);
        if (peak_bytes <= limit_bytes - limit_bytes / 16)
            assert_nothing(&cost);
        if (peak_bytes > limit_bytes + item_bytes + made.step.state_bytes)
            assert_true(cost.short_bytes > 0);
    }
}

static bool plan_and_play(void *context)
{
    const made_step *made = context;
    vw__stream_cost_plan plan;
    vw__stream_cost cost;
    if (vw__stream_cost_plan_make(&made->step, LIMIT, UINT64_MAX, &plan) != VW_OK)
        return false;
    vw_status status = vw__stream_cost_find(&made->step, &plan, LIMIT, &cost);
    vw__stream_cost_plan_deinit(&plan);
    return status == VW_OK;
}

static void running_out_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    const double live[MARKS] = {12, 14, 19, 14, 12, 10};
    made_step made;
    make_step(&made, live, usual_ms, GIB);
    save(&made, 3 * GIB, 1, 5);
    vw_test_sweep_host_memory(plan_and_play, &made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_nothing_lacks_nothing_waits),
        cmocka_unit_test(a_step_without_requests_costs_nothing),
        cmocka_unit_test(copies_hide_behind_the_passes),
        cmocka_unit_test(a_request_waits_for_what_its_pass_is_too_short_for),
        cmocka_unit_test(the_optimizer_waits_for_its_state),
        cmocka_unit_test(state_leaves_ahead_where_the_margin_alone_lacks),
        cmocka_unit_test(a_saved_tensor_takes_turns_with_the_state),
        cmocka_unit_test(a_program_that_is_bound_by_the_host_takes_longer_by_its_calls),
        cmocka_unit_test(saved_tensors_leave_where_state_is_not_enough),
        cmocka_unit_test(the_backward_pass_waits_for_a_saved_tensor),
        cmocka_unit_test(with_accumulation_state_returns_after_the_last_peak),
        cmocka_unit_test(with_accumulation_each_peak_has_its_saved_tensors),
        cmocka_unit_test(what_does_not_fit_beside_the_optimizer_is_used_on_the_host),
        cmocka_unit_test(the_requests_of_the_optimizer_keep_state_away),
        cmocka_unit_test(what_the_passes_do_not_hide_is_used_on_the_host),
        cmocka_unit_test(a_step_that_does_not_fit_says_by_how_much),
        cmocka_unit_test(what_finds_no_host_memory_stays),
        cmocka_unit_test(any_step_keeps_the_promises),
        cmocka_unit_test(running_out_of_host_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
