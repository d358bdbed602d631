/* test_stream_steps.c - the steps of made-up runs, as streams see them. */
#include "analysis/stream_steps.h"

#include "analysis/attribution.h"
#include "analysis/spill_cost.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_run.h"

#define LAYER_BYTES (4 * RUN_MIB)

/* A batch; a block for each layer; two for each in the backward pass; one each for the optimizer.
 */
enum { FORWARD = 1 + RUN_LAYERS, BACKWARD = 2 * RUN_LAYERS, ALL = FORWARD + BACKWARD + RUN_LAYERS };

typedef struct read_run {
    vw__timeline timeline;
    vw__attribution attribution;
    vw__steps steps;
    vw__roles roles;
} read_run;

static bool read_all(const made_up_run *run, read_run *out)
{
    const vw__model *model = run->recording.model;
    *out = (read_run){.steps.end_count = 0};
    return vw__timeline_make(model, &model->traces[0], &out->timeline) == VW_OK &&
           vw__attribution_init(&out->attribution, model) == VW_OK &&
           vw__steps_find_in(&out->timeline, &out->attribution, &out->steps) == VW_OK &&
           vw__roles_find(&out->timeline, &out->attribution, &out->steps, &out->roles) == VW_OK;
}

static void dispose(read_run *read)
{
    vw__roles_deinit(&read->roles);
    vw__steps_deinit(&read->steps);
    vw__attribution_deinit(&read->attribution);
    vw__timeline_deinit(&read->timeline);
}

/* The step that needs most, after the run has ended. */
static vw__stream_steps_one highest_of(made_up_run *run, uint64_t *step_ns)
{
    read_run read;
    vw__stream_steps all;
    vw__stream_steps_one one;
    (void)run_end(run);
    assert_true(read_all(run, &read));
    assert_int_equal(vw__stream_steps_init(&all, &read.timeline, &read.steps, &read.roles), VW_OK);
    size_t highest = vw__stream_steps_highest(&all);
    assert_true(highest > 0);
    assert_int_equal(vw__stream_steps_take(&all, highest, &one), VW_OK);
    *step_ns = all.step_ns;
    vw__stream_steps_deinit(&all);
    dispose(&read);
    run_dispose(run, NULL);
    return one;
}

static uint64_t sum(const uint64_t *numbers, size_t begin, size_t end)
{
    uint64_t all = 0;
    for (size_t i = begin; i < end; i++)
        all += numbers[i];
    return all;
}

static void a_step_has_its_marks_its_state_and_what_it_saves(void **state)
{
    (void)state;
    made_up_run run;
    uint64_t step_ns;
    run_begin(&run, true);
    for (int i = 0; i < 4; i++)
        run_step(&run, LAYER_BYTES);
    vw__stream_steps_one one = highest_of(&run, &step_ns);
    const vw__stream_cost_step *step = &one.step;
    assert_int_equal(step->mark_count, ALL);
    assert_int_equal(step->optimizer_mark, FORWARD + BACKWARD);
    assert_int_equal(step->state_bytes, 2 * RUN_LAYERS * RUN_MIB);
    assert_int_equal(one.per_mark, 1);
    uint64_t kept_bytes = 3 * RUN_LAYERS * RUN_MIB; /* weights and state */
    assert_int_equal(step->live_bytes[0], kept_bytes + RUN_MIB);
    assert_int_equal(step->live_bytes[FORWARD - 1],
                     kept_bytes + RUN_MIB + RUN_LAYERS * LAYER_BYTES);
    assert_int_equal(step->optimizer_live_bytes, kept_bytes + RUN_MIB + RUN_LAYERS * RUN_MIB);
    vw__stream_steps_one_deinit(&one);
}

/* Those of the first layer can leave first, and are used last. */
static void saved_blocks_are_those_that_the_backward_pass_frees(void **state)
{
    (void)state;
    made_up_run run;
    uint64_t step_ns;
    run_begin(&run, true);
    for (int i = 0; i < 4; i++)
        run_step(&run, LAYER_BYTES);
    vw__stream_steps_one one = highest_of(&run, &step_ns);
    assert_int_equal(one.step.item_count, RUN_LAYERS);
    for (uint32_t i = 0; i < RUN_LAYERS; i++) {
        const vw_saved_item *item = &one.step.items[i];
        assert_int_equal(item->size_bytes, LAYER_BYTES);
        assert_int_equal(item->from_mark, 1 + i + 2); /* the request after the next */
        assert_int_equal(item->until_mark, FORWARD + 2 * (RUN_LAYERS - 1 - i));
    }
    vw__stream_steps_one_deinit(&one);
}

/* The backward pass takes twice as long as the forward pass, and the optimizer what its state
 * takes. */
static void the_time_of_a_step_is_that_of_its_passes(void **state)
{
    (void)state;
    made_up_run run;
    uint64_t step_ns;
    run_begin(&run, true);
    run.small.time_us = 1000;
    for (int i = 0; i < 4; i++)
        run_step(&run, LAYER_BYTES);
    vw__stream_steps_one one = highest_of(&run, &step_ns);
    assert_int_not_equal(step_ns, VW_UNKNOWN);
    uint64_t passes_ns = step_ns - vw__spill_cost_optimizer_ns(one.step.state_bytes);
    uint64_t forward_ns = sum(one.step.gpu_ns, 0, FORWARD);
    uint64_t backward_ns = sum(one.step.gpu_ns, FORWARD, FORWARD + BACKWARD);
    assert_in_range(forward_ns, passes_ns / 3 - 100, passes_ns / 3);
    assert_in_range(forward_ns + backward_ns, passes_ns - 100, passes_ns);
    assert_int_equal(sum(one.step.gpu_ns, FORWARD + BACKWARD, ALL), 0);
    assert_true(one.step.gpu_ns[1] > 3 * one.step.gpu_ns[0]); /* a layer asks for more */
    vw__stream_steps_one_deinit(&one);
}

static void the_step_with_the_highest_peak_counts(void **state)
{
    (void)state;
    made_up_run run;
    uint64_t step_ns;
    run_begin(&run, true);
    for (int i = 0; i < 5; i++)
        run_step(&run, i == 2 ? 2 * LAYER_BYTES : LAYER_BYTES);
    vw__stream_steps_one one = highest_of(&run, &step_ns);
    assert_int_equal(one.step.items[0].size_bytes, 2 * LAYER_BYTES);
    vw__stream_steps_one_deinit(&one);
}

/* As production has it: at most 4096 marks, of several requests if need be. */
static void a_step_with_many_requests_has_fewer_marks(void **state)
{
    (void)state;
    enum { REQUESTS = 5000 };
    made_up_run run;
    uint64_t step_ns;
    run_begin(&run, true);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < REQUESTS; k++)
            run_free(&run, run_alloc(&run, LAYER_BYTES, run.layer_contexts[0]));
        run_step(&run, LAYER_BYTES);
    }
    vw__stream_steps_one one = highest_of(&run, &step_ns);
    assert_int_equal(one.per_mark, 2);
    assert_int_equal(one.step.mark_count, (REQUESTS + ALL + 1) / 2);
    assert_int_equal(one.step.item_count, RUN_LAYERS);
    for (size_t i = 0; i < one.step.item_count; i++)
        assert_true(one.step.items[i].from_mark > REQUESTS / 2 &&
                    one.step.items[i].until_mark <= one.step.optimizer_mark);
    vw__stream_steps_one_deinit(&one);
}

/* Two passes before the optimizer's step: what either saves can leave. */
static void each_pass_of_an_accumulated_step_saves(void **state)
{
    (void)state;
    made_up_run run;
    uint64_t step_ns;
    run_begin(&run, true);
    for (int i = 0; i < 3; i++) {
        run_zero_grad(&run);
        for (int k = 0; k < 2; k++) {
            run_graph graph = run_forward(&run, LAYER_BYTES, true);
            run_backward(&run, &graph, false);
        }
        run_optimizer(&run);
    }
    vw__stream_steps_one one = highest_of(&run, &step_ns);
    assert_int_equal(one.step.item_count, 2 * RUN_LAYERS);
    assert_true(one.step.items[0].until_mark < one.step.items[RUN_LAYERS].from_mark);
    vw__stream_steps_one_deinit(&one);
}

/* A graph that is kept into the next step was not freed by its backward pass. */
static void what_outlives_its_step_is_not_saved(void **state)
{
    (void)state;
    made_up_run run;
    uint64_t step_ns;
    run_graph kept;
    run_begin(&run, true);
    for (int i = 0; i < 4; i++) {
        run_zero_grad(&run);
        run_graph graph = run_forward(&run, LAYER_BYTES, true);
        run_backward(&run, &graph, true);
        run_optimizer(&run);
        if (i > 0)
            run_free_graph(&run, &kept);
        kept = graph;
    }
    vw__stream_steps_one one = highest_of(&run, &step_ns);
    assert_int_equal(one.step.item_count, 0);
    vw__stream_steps_one_deinit(&one);
}

static void without_stacks_nothing_can_leave(void **state)
{
    (void)state;
    made_up_run run;
    read_run read;
    vw__stream_steps all;
    run_begin(&run, false);
    for (int i = 0; i < 4; i++)
        run_step(&run, LAYER_BYTES);
    (void)run_end(&run);
    assert_true(read_all(&run, &read));
    assert_int_equal(vw__stream_steps_init(&all, &read.timeline, &read.steps, &read.roles), VW_OK);
    assert_int_equal(all.state_count + all.saved_count, 0);
    vw__stream_steps_deinit(&all);
    dispose(&read);
    run_dispose(&run, NULL);
}

/* The first step makes the state: nothing is known of it. */
static void one_step_is_none(void **state)
{
    (void)state;
    made_up_run run;
    read_run read;
    vw__stream_steps all;
    run_begin(&run, true);
    run_step(&run, LAYER_BYTES);
    (void)run_end(&run);
    assert_true(read_all(&run, &read));
    assert_int_equal(vw__stream_steps_init(&all, &read.timeline, &read.steps, &read.roles), VW_OK);
    assert_int_equal(vw__stream_steps_highest(&all), 0);
    assert_int_equal(all.step_ns, VW_UNKNOWN);
    vw__stream_steps_deinit(&all);
    dispose(&read);
    run_dispose(&run, NULL);
}

static bool take_highest(void *context)
{
    const read_run *read = context;
    vw__stream_steps all;
    vw__stream_steps_one one;
    if (vw__stream_steps_init(&all, &read->timeline, &read->steps, &read->roles) != VW_OK)
        return false;
    vw_status status = vw__stream_steps_take(&all, vw__stream_steps_highest(&all), &one);
    if (status == VW_OK)
        vw__stream_steps_one_deinit(&one);
    vw__stream_steps_deinit(&all);
    return status == VW_OK;
}

static void running_out_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    made_up_run run;
    read_run read;
    run_begin(&run, true);
    for (int i = 0; i < 3; i++)
        run_step(&run, LAYER_BYTES);
    (void)run_end(&run);
    assert_true(read_all(&run, &read));
    vw_test_sweep_host_memory(take_highest, &read);
    dispose(&read);
    run_dispose(&run, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_has_its_marks_its_state_and_what_it_saves),
        cmocka_unit_test(saved_blocks_are_those_that_the_backward_pass_frees),
        cmocka_unit_test(the_time_of_a_step_is_that_of_its_passes),
        cmocka_unit_test(the_step_with_the_highest_peak_counts),
        cmocka_unit_test(a_step_with_many_requests_has_fewer_marks),
        cmocka_unit_test(each_pass_of_an_accumulated_step_saves),
        cmocka_unit_test(what_outlives_its_step_is_not_saved),
        cmocka_unit_test(without_stacks_nothing_can_leave),
        cmocka_unit_test(one_step_is_none),
        cmocka_unit_test(running_out_of_host_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
