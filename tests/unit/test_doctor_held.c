/* test_doctor_held.c - what a step leaves alive in the next one. */
#include "doctor/doctor.h"

#include "support/cmocka_here.h"
#include "support/made_up_run.h"

enum { STEPS = 10 };

static void gradients_cleared_after_the_forward_pass_are_held_through_it(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) {
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
        run_graph graph = run_forward(&run, 8 * RUN_MIB, true);
        run_zero_grad(&run);
        run_backward(&run, &graph, false);
        run_optimizer(&run);
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    const vw_finding *held = finding_of(diagnosis, "gradients-held");
    assert_non_null(held);
    assert_int_equal(held->bytes, RUN_LAYERS * RUN_MIB);
    /* The peak is at the forward pass's end, where they are; without them, a little later. */
    assert_int_equal(held->remedies[0].saves_bytes, (RUN_LAYERS - 2) * RUN_MIB);
    assert_non_null(strstr(held->remedies[0].how, "zero_grad"));
    run_dispose(&run, diagnosis);
}

static void gradients_whose_memory_is_kept_are_held_too(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) { /* set_to_none=False: never freed */
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
        run_graph graph = run_forward(&run, 8 * RUN_MIB, true);
        run_backward(&run, &graph, false);
        run_optimizer(&run);
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_non_null(finding_of(diagnosis, "gradients-held"));
    run_dispose(&run, diagnosis);
}

static void gradients_cleared_in_time_are_not_told(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++)
        run_step(&run, 8 * RUN_MIB);
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_null(finding_of(diagnosis, "gradients-held"));
    assert_null(finding_of(diagnosis, "held-over"));
    run_dispose(&run, diagnosis);
}

static void gradients_that_are_accumulated_are_held_rightly(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) {
        run_zero_grad(&run);
        for (int micro = 0; micro < 4; micro++) {
            run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
            run_graph graph = run_forward(&run, 8 * RUN_MIB, true);
            run_backward(&run, &graph, false);
            run_free(&run, batch);
        }
        run_optimizer(&run);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_null(finding_of(diagnosis, "gradients-held"));
    run_dispose(&run, diagnosis);
}

static void a_workspace_is_not_taken_for_a_gradient(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    run_step(&run, 8 * RUN_MIB);
    run_zero_grad(&run);
    run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
    run_graph graph = run_forward(&run, 8 * RUN_MIB, true);
    run_backward(&run, &graph, false);
    (void)run_alloc(&run, 32 * RUN_MIB, run.backward); /* and never freed */
    run_optimizer(&run);
    run_free(&run, batch);
    for (int i = 0; i < STEPS; i++)
        run_step(&run, 8 * RUN_MIB);
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_null(finding_of(diagnosis, "gradients-held"));
    run_dispose(&run, diagnosis);
}

static void outputs_of_the_step_before_are_held_over(void **state)
{
    (void)state;
    made_up_run run;
    run_block outputs = {0, 0, 0};
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) {
        run_zero_grad(&run);
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
        run_graph graph = run_forward(&run, 4 * RUN_MIB, true);
        run_block now = run_alloc(&run, 40 * RUN_MIB, run.keeper);
        if (outputs.size_bytes != 0) /* assigned again */
            run_free(&run, outputs);
        outputs = now;
        run_backward(&run, &graph, false);
        run_optimizer(&run);
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    const vw_finding *held = finding_of(diagnosis, "held-over");
    assert_non_null(held);
    assert_int_equal(held->bytes, 40 * RUN_MIB);
    assert_string_equal(held->where[0], "train.py:40 keep");
    assert_non_null(strstr(held->remedies[0].how, "del "));
    run_dispose(&run, diagnosis);
}

/* A generator's graph lives through the discriminator's step, and its own backward pass uses it. */
static void a_graph_that_a_later_backward_pass_uses_is_not_held_over(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) {
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
        run_graph generator = run_forward(&run, 8 * RUN_MIB, true);
        run_zero_grad(&run);
        run_graph discriminator = run_forward(&run, 4 * RUN_MIB, true);
        run_backward(&run, &discriminator, false);
        run_optimizer(&run);
        run_zero_grad(&run);
        discriminator = run_forward(&run, 4 * RUN_MIB, true);
        run_backward(&run, &discriminator, false);
        run_backward(&run, &generator, false);
        run_optimizer(&run);
        run_zero_grad(&run);
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_null(finding_of(diagnosis, "held-over"));
    run_dispose(&run, diagnosis);
}

static void buckets_of_ddp_are_not_gradients_that_one_can_clear(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    uint32_t rebuilt =
        run_context(&run, "_pre_forward " RUN_TORCH "nn/parallel/distributed.py 1560;" RUN_CALL
                          ";main train.py 11");
    run_step(&run, 8 * RUN_MIB);
    for (unsigned i = 0; i < RUN_LAYERS; i++)
        (void)run_alloc(&run, 1 * RUN_MIB, rebuilt); /* as large as a weight */
    for (int i = 0; i < STEPS; i++)
        run_step(&run, 8 * RUN_MIB);
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_null(finding_of(diagnosis, "gradients-held"));
    run_dispose(&run, diagnosis);
}

/* A fused optimizer asks for its state once, and for nothing after. */
static void gradients_held_under_a_fused_optimizer_are_told(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) {
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
        run_graph graph = run_forward(&run, 8 * RUN_MIB, true);
        run_zero_grad(&run);
        run_backward(&run, &graph, false);
        if (i == 0)
            run_optimizer(&run);
        small_model_annotate(&run.small, "Optimizer.step#AdamW.step", 0, false,
                             run.small.time_us - 5);
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_non_null(finding_of(diagnosis, "gradients-held"));
    run_dispose(&run, diagnosis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_cleared_after_the_forward_pass_are_held_through_it),
        cmocka_unit_test(gradients_whose_memory_is_kept_are_held_too),
        cmocka_unit_test(gradients_cleared_in_time_are_not_told),
        cmocka_unit_test(gradients_that_are_accumulated_are_held_rightly),
        cmocka_unit_test(a_workspace_is_not_taken_for_a_gradient),
        cmocka_unit_test(outputs_of_the_step_before_are_held_over),
        cmocka_unit_test(a_graph_that_a_later_backward_pass_uses_is_not_held_over),
        cmocka_unit_test(buckets_of_ddp_are_not_gradients_that_one_can_clear),
        cmocka_unit_test(gradients_held_under_a_fused_optimizer_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
