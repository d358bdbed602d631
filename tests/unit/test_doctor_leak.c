/* test_doctor_leak.c - what is a leak, and what only looks like one. */
#include "doctor/doctor.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_run.h"

enum { STEPS = 24 };

static void a_list_that_grows_is_a_leak_with_its_line_and_rate(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) {
        run_step(&run, 2 * RUN_MIB);
        (void)run_alloc(&run, 3 * RUN_MIB, run.keeper);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    const vw_finding *leak = finding_of(diagnosis, "leak");
    assert_non_null(leak);
    assert_string_equal(leak->where[0], "train.py:40 keep");
    assert_true(leak->bytes >= 20 * 3 * RUN_MIB && leak->bytes <= STEPS * 3 * RUN_MIB);
    assert_non_null(strstr(leak->title, "3.00 MiB more each step"));
    run_dispose(&run, diagnosis);
}

static void graphs_kept_by_training_steps_are_one_leak_at_the_line_of_the_call(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) {
        run_zero_grad(&run);
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
        run_graph graph = run_forward(&run, 2 * RUN_MIB, true);
        run_backward(&run, &graph, true);
        run_optimizer(&run);
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    const vw_finding *leak = finding_of(diagnosis, "leak");
    assert_string_equal(leak->where[0], "train.py:11 main");
    assert_non_null(strstr(leak->title, "A graph is kept"));
    assert_non_null(strstr(leak->remedies[0].how, "loss.item()"));
    run_dispose(&run, diagnosis);
}

static void what_is_given_back_when_the_run_ends_was_still_a_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_block kept[STEPS];
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) {
        run_step(&run, 2 * RUN_MIB);
        kept[i] = run_alloc(&run, 3 * RUN_MIB, run.keeper);
    }
    for (int i = 0; i < STEPS; i++)
        run_free(&run, kept[i]);
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    run_dispose(&run, diagnosis);
}

static void a_block_kept_every_few_steps_is_a_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 40; i++) {
        run_step(&run, 2 * RUN_MIB);
        if (i % 4 == 0)
            (void)run_alloc(&run, 3 * RUN_MIB, run.keeper);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    run_dispose(&run, diagnosis);
}

static void a_tensor_that_is_replaced_by_a_longer_one_is_a_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    run_block joined = run_alloc(&run, RUN_MIB, run.keeper);
    for (int i = 0; i < STEPS; i++) {
        run_step(&run, 2 * RUN_MIB);
        run_block longer = run_alloc(&run, joined.size_bytes + RUN_MIB, run.keeper);
        run_free(&run, joined);
        joined = longer;
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(finding_of(diagnosis, "leak")->title, "longer every step"));
    run_dispose(&run, diagnosis);
}

static void a_leak_without_stacks_is_found_by_its_size(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, false);
    for (int i = 0; i < STEPS; i++) {
        run_step(&run, 2 * RUN_MIB);
        (void)run_alloc(&run, 5 * RUN_MIB, run.keeper);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    assert_int_equal(finding_of(diagnosis, "leak")->where_count, 0);
    run_dispose(&run, diagnosis);
}

static void outputs_kept_by_an_inference_loop_are_a_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 30; i++) {
        run_block batch = run_alloc(&run, 1 * RUN_MIB, run.batch);
        (void)run_forward(&run, 2 * RUN_MIB, false); /* the last layer's stays */
        run_free(&run, batch);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    run_dispose(&run, diagnosis);
}

/* ---- and what is none ------------------------------------------------------------------------ */

static void training_as_it_should_be_is_healthy(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++)
        run_step(&run, 2 * RUN_MIB);
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    assert_null(finding_of(diagnosis, "leak"));
    run_dispose(&run, diagnosis);
}

static void load_that_varies_is_no_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (uint64_t i = 0; i < STEPS; i++) /* longer batches towards the end */
        run_step(&run, (1 + i + i * 7 % 5) * RUN_MIB);
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void a_cache_that_fills_and_then_evicts_is_no_leak(void **state)
{
    (void)state;
    enum { CACHED = 10 };
    made_up_run run;
    run_block cache[CACHED];
    run_begin(&run, true);
    for (int i = 0; i < 40; i++) {
        run_step(&run, 2 * RUN_MIB);
        if (i >= CACHED)
            run_free(&run, cache[i % CACHED]);
        cache[i % CACHED] = run_alloc(&run, 3 * RUN_MIB, run.keeper);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void a_cache_that_fills_and_then_stays_is_no_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 40; i++) {
        run_step(&run, 2 * RUN_MIB);
        if (i < 22)
            (void)run_alloc(&run, 3 * RUN_MIB, run.keeper);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void a_list_that_is_emptied_after_every_epoch_is_no_leak(void **state)
{
    (void)state;
    enum { EPOCH = 8 };
    made_up_run run;
    run_block kept[EPOCH];
    run_begin(&run, true);
    for (int i = 0; i < 5 * EPOCH; i++) {
        run_step(&run, 2 * RUN_MIB);
        kept[i % EPOCH] = run_alloc(&run, 3 * RUN_MIB, run.keeper);
        for (int k = 0; i % EPOCH == EPOCH - 1 && k < EPOCH; k++)
            run_free(&run, kept[k]);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void a_first_forward_pass_of_equal_layers_is_no_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    (void)run_alloc(&run, RUN_MIB, run.batch);
    for (int i = 0; i < 200; i++) { /* one line for every layer, and some work on the way */
        run_block work = run_alloc(&run, RUN_MIB, run.layer_contexts[1]);
        (void)run_alloc(&run, 2 * RUN_MIB, run.layer_contexts[0]);
        run_free(&run, work);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void a_model_that_is_being_loaded_is_no_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 300; i++)
        (void)run_alloc(&run, RUN_MIB, i % 2 == 0 ? run.setup : run.evaluation);
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void too_few_steps_prove_nothing(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 3; i++) {
        run_step(&run, 2 * RUN_MIB);
        (void)run_alloc(&run, 3 * RUN_MIB, run.keeper);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void a_few_bytes_a_step_are_not_worth_a_verdict(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) {
        run_step(&run, 2 * RUN_MIB);
        (void)run_alloc(&run, 4, run.keeper); /* a loss */
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

/* ---- without host memory --------------------------------------------------------------------- */

static bool diagnose_leak(void *context)
{
    vw_diagnosis *diagnosis = NULL;
    vw_status status = vw_doctor_recording(context, NULL, &diagnosis);
    vw_diagnosis_free(diagnosis);
    return status == VW_OK;
}

static void no_host_memory_is_said_and_nothing_is_lost(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < 8; i++) {
        run_step(&run, 2 * RUN_MIB);
        (void)run_alloc(&run, 3 * RUN_MIB, run.keeper);
    }
    (void)run_end(&run);
    vw_test_sweep_host_memory(diagnose_leak, &run.recording);
    run_dispose(&run, NULL);
}

static void a_leak_that_goes_before_the_program_ends_is_seen_at_the_peak(void **state)
{
    (void)state;
    made_up_run run;
    run_block kept[20];
    run_begin(&run, true);
    for (int i = 0; i < 20; i++) {
        run_step(&run, 8 * RUN_MIB);
        kept[i] = run_alloc(&run, 16 * RUN_MIB, run.keeper);
    }
    for (int i = 0; i < 20; i++) /* the loop's function returns */
        run_free(&run, kept[i]);
    for (int i = 0; i < 5; i++) { /* and the test set is evaluated */
        run_graph graph = run_forward(&run, 2 * RUN_MIB, false);
        run_free(&run, graph.output);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    assert_string_equal(finding_of(diagnosis, "leak")->where[0], "train.py:40 keep");
    run_dispose(&run, diagnosis);
}

static void an_output_that_grows_with_the_batch_is_no_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_block output = {0, 0, 0};
    run_begin(&run, true);
    for (unsigned i = 0; i < 30; i++) { /* a warm-up of lengths; `output` is assigned again */
        run_zero_grad(&run);
        run_graph graph = run_forward(&run, (4 + i) * RUN_MIB, true);
        run_block now = run_alloc(&run, (4 + i) * 2 * RUN_MIB, run.keeper);
        if (output.size_bytes != 0)
            run_free(&run, output);
        output = now;
        run_backward(&run, &graph, false);
        run_optimizer(&run);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void pages_of_one_long_request_are_no_leak(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    uint32_t cache = run_context(&run, "update /usr/lib/python3/site-packages/transformers/"
                                       "cache_utils.py 400;" RUN_CALL ";main train.py 20");
    for (int token = 0; token < 100; token++) {
        run_graph graph = run_forward(&run, 1 * RUN_MIB, false);
        (void)run_alloc(&run, 1 * RUN_MIB, cache);
        run_free(&run, graph.output);
    }
    vw_diagnosis *diagnosis = run_diagnose(&run);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    run_dispose(&run, diagnosis);
}

static void a_leak_on_a_less_busy_device_is_found(void **state)
{
    (void)state;
    made_up_run run;
    run_begin(&run, true);
    for (int i = 0; i < STEPS; i++) { /* device 1: fewer events */
        run_step(&run, 8 * RUN_MIB);
        (void)run_alloc(&run, 4 * RUN_MIB, run.keeper);
    }
    small_model_end_trace(&run.small, 1);
    small_model_event(&run.small, VW_ACTION_SEGMENT_ALLOC, run.next_address, UINT64_C(1) << 40,
                      VW__MODEL_NO_CONTEXT);
    run.has_state = run.has_gradients = false;
    for (int i = 0; i < 2 * STEPS; i++)
        run_step(&run, 8 * RUN_MIB);
    vw_diagnosis *diagnosis = run_diagnose(&run); /* ends the trace of device 0 */
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    assert_int_equal(diagnosis->numbers.device, 1);
    assert_string_equal(finding_of(diagnosis, "leak")->where[0], "train.py:40 keep");
    run_dispose(&run, diagnosis);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_that_grows_is_a_leak_with_its_line_and_rate),
        cmocka_unit_test(graphs_kept_by_training_steps_are_one_leak_at_the_line_of_the_call),
        cmocka_unit_test(what_is_given_back_when_the_run_ends_was_still_a_leak),
        cmocka_unit_test(a_block_kept_every_few_steps_is_a_leak),
        cmocka_unit_test(a_tensor_that_is_replaced_by_a_longer_one_is_a_leak),
        cmocka_unit_test(a_leak_without_stacks_is_found_by_its_size),
        cmocka_unit_test(outputs_kept_by_an_inference_loop_are_a_leak),
        cmocka_unit_test(training_as_it_should_be_is_healthy),
        cmocka_unit_test(load_that_varies_is_no_leak),
        cmocka_unit_test(a_cache_that_fills_and_then_evicts_is_no_leak),
        cmocka_unit_test(a_cache_that_fills_and_then_stays_is_no_leak),
        cmocka_unit_test(a_list_that_is_emptied_after_every_epoch_is_no_leak),
        cmocka_unit_test(a_first_forward_pass_of_equal_layers_is_no_leak),
        cmocka_unit_test(a_model_that_is_being_loaded_is_no_leak),
        cmocka_unit_test(too_few_steps_prove_nothing),
        cmocka_unit_test(a_few_bytes_a_step_are_not_worth_a_verdict),
        cmocka_unit_test(no_host_memory_is_said_and_nothing_is_lost),
        cmocka_unit_test(a_leak_that_goes_before_the_program_ends_is_seen_at_the_peak),
        cmocka_unit_test(an_output_that_grows_with_the_batch_is_no_leak),
        cmocka_unit_test(pages_of_one_long_request_are_no_leak),
        cmocka_unit_test(a_leak_on_a_less_busy_device_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
