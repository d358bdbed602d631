/* test_doctor_kept_graph.c - evaluation that keeps its graphs, and what only looks so. */
#include "doctor/doctor.h"

#include "support/cmocka_here.h"
#include "support/made_up_run.h"

static void forward_passes_without_backward_that_stay_are_a_kept_graph(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    run_call_from(&run, 31);
    for (int i = 0; i < 5; i++) {
        (void)run_alloc(&run, 1 * RUN_MIB, run.evaluation);
        (void)run_forward(&run, 4 * RUN_MIB, true);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_KEPT_GRAPH);
    const vw_finding *kept = finding_of(diagnosis, "kept-graph");
    assert_string_equal(kept->where[0], "train.py:31 main");
    assert_int_equal(kept->bytes, 4 * RUN_LAYERS * 4 * RUN_MIB); /* but for the pass under way */
    assert_null(finding_of(diagnosis, "leak"));
    run_dispose(&run, diagnosis);
}

static void the_line_that_called_the_model_comes_before_the_models_own(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (unsigned i = 0; i < RUN_LAYERS;
         i++) { /* a loop over equal layers: one line of the model */
        char stack[256];
        (void)snprintf(stack, sizeof stack,
                       "linear " RUN_TORCH "nn/functional.py %u;forward model.py 23;" RUN_CALL
                       ";main train.py 31",
                       i);
        run.layer_contexts[i] = run_context(&run, stack);
    }
    for (int i = 0; i < 4; i++) {
        (void)run_alloc(&run, 1 * RUN_MIB, run.evaluation);
        (void)run_forward(&run, 4 * RUN_MIB, true);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    const vw_finding *kept = finding_of(diagnosis, "kept-graph");
    assert_non_null(kept);
    assert_string_equal(kept->where[0], "train.py:31 main");
    assert_string_equal(kept->where[1], "model.py:23 forward");
    run_dispose(&run, diagnosis);
}

static void a_graph_that_goes_all_at_once_without_a_backward_was_kept(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 3; i++) {
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.evaluation);
        run_graph graph = run_forward(&run, 4 * RUN_MIB, true);
        run_free_graph(&run, &graph); /* loss.item(), and out of scope */
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_KEPT_GRAPH);
    run_dispose(&run, diagnosis);
}

static void an_evaluation_between_training_steps_is_found(void **state)
{
    (void)state;
    made_up_run run;
    run_graph kept[4];
    run_begin(&run, true);
    for (int epoch = 0; epoch < 2; epoch++) {
        run_call_from(&run, 11);
        for (int i = 0; i < 6; i++)
            run_step(&run, 2 * RUN_MIB);
        run_call_from(&run, 31);
        for (int i = 0; i < 4; i++) {
            run_block batch = run_alloc(&run, 1 * RUN_MIB, run.evaluation);
            kept[i] = run_forward(&run, 2 * RUN_MIB, true);
            run_free(&run, batch);
        }
        for (int i = 0; i < 4; i++)
            run_free_graph(&run, &kept[i]);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_KEPT_GRAPH);
    assert_string_equal(finding_of(diagnosis, "kept-graph")->where[0], "train.py:31 main");
    run_dispose(&run, diagnosis);
}

/* ---- and what is none ------------------------------------------------------------------------ */

static void evaluation_under_inference_mode_is_healthy(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 8; i++) {
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.evaluation);
        run_graph graph = run_forward(&run, 4 * RUN_MIB, false);
        run_free(&run, graph.output);
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void a_training_step_under_way_keeps_its_graph_rightly(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 8; i++)
        run_step(&run, 2 * RUN_MIB);
    run_zero_grad(&run);
    (void)run_alloc(&run, 1 * RUN_MIB, run.batch);
    (void)run_forward(&run, 16 * RUN_MIB, true); /* a longer batch than any before */
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    assert_null(finding_of(diagnosis, "kept-graph"));
    run_dispose(&run, diagnosis);
}

static void the_very_first_forward_pass_may_be_a_training_step(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    (void)run_alloc(&run, 1 * RUN_MIB, run.batch);
    (void)run_forward(&run, 16 * RUN_MIB, true);
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void a_training_loop_that_keeps_its_graphs_is_a_leak_instead(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 12; i++) {
        run_zero_grad(&run);
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
        run_graph graph = run_forward(&run, 2 * RUN_MIB, true);
        run_backward(&run, &graph, true);
        run_optimizer(&run);
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    assert_null(finding_of(diagnosis, "kept-graph"));
    run_dispose(&run, diagnosis);
}

static void a_cache_of_keys_and_values_is_no_graph(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    uint32_t cache_line = run_context(&run, RUN_CALL ";forward model.py 90;main train.py 11");
    for (int request = 0; request < 4; request++) {
        run_block cached[10][RUN_LAYERS];
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
        for (int token = 0; token < 10; token++) {
            for (int i = 0; i < RUN_LAYERS; i++)
                cached[token][i] = run_alloc(&run, RUN_MIB / 4, cache_line);
            run_graph graph = run_forward(&run, 2 * RUN_MIB, false);
            run_free(&run, graph.output);
        }
        for (int token = 0; token < 10; token++)
            for (int i = 0; i < RUN_LAYERS; i++)
                run_free(&run, cached[token][i]);
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

/* One forward, one backward, but three more under way from the beginning of a step on. */
static void forward_passes_under_way_in_a_pipeline_are_no_kept_graph(void **state)
{
    (void)state;
    made_up_run run;
    run_graph graphs[8];
    run_begin(&run, true);
    for (int i = 0; i < 6; i++) {
        run_zero_grad(&run);
        for (int k = 0; k < 3; k++)
            graphs[k] = run_forward(&run, 4 * RUN_MIB, true);
        for (int k = 3; k < 8; k++) {
            graphs[k] = run_forward(&run, 4 * RUN_MIB, true);
            run_backward(&run, &graphs[k - 3], false);
        }
        for (int k = 5; k < 8; k++)
            run_backward(&run, &graphs[k], false);
        run_optimizer(&run);
    }
    run_zero_grad(&run);
    for (int k = 0; k < 4; k++) /* here the recording ends */
        graphs[k] = run_forward(&run, 4 * RUN_MIB, true);
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    assert_null(finding_of(diagnosis, "kept-graph"));
    run_dispose(&run, diagnosis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_passes_without_backward_that_stay_are_a_kept_graph),
        cmocka_unit_test(the_line_that_called_the_model_comes_before_the_models_own),
        cmocka_unit_test(a_graph_that_goes_all_at_once_without_a_backward_was_kept),
        cmocka_unit_test(an_evaluation_between_training_steps_is_found),
        cmocka_unit_test(evaluation_under_inference_mode_is_healthy),
        cmocka_unit_test(a_training_step_under_way_keeps_its_graph_rightly),
        cmocka_unit_test(the_very_first_forward_pass_may_be_a_training_step),
        cmocka_unit_test(a_training_loop_that_keeps_its_graphs_is_a_leak_instead),
        cmocka_unit_test(a_cache_of_keys_and_values_is_no_graph),
        cmocka_unit_test(forward_passes_under_way_in_a_pipeline_are_no_kept_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
