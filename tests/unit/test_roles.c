/* test_roles.c - what blocks were for, by their stack and their lifetime. */
#include "analysis/roles.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_run.h"

typedef struct judged {
    vw__timeline timeline;
    vw__attribution attribution;
    vw__steps steps;
    vw__roles roles;
} judged;

static void judge(judged *out, made_up_run *run)
{
    const vw__model *model = run_end(run)->model;
    assert_int_equal(vw__timeline_make(model, vw__model_trace_of(model, 0), &out->timeline), VW_OK);
    assert_int_equal(vw__attribution_init(&out->attribution, model), VW_OK);
    assert_int_equal(vw__steps_find_in(&out->timeline, &out->attribution, &out->steps), VW_OK);
    assert_int_equal(vw__roles_find(&out->timeline, &out->attribution, &out->steps, &out->roles),
                     VW_OK);
}

static void dispose(judged *one, made_up_run *run)
{
    vw__roles_deinit(&one->roles);
    vw__steps_deinit(&one->steps);
    vw__attribution_deinit(&one->attribution);
    vw__timeline_deinit(&one->timeline);
    run_dispose(run, NULL);
}

static uint64_t bytes_of(const judged *one, vw__role role)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < one->timeline.lifetime_count; i++)
        bytes += one->roles.roles[i] == role ? one->timeline.lifetimes[i].size_bytes : 0;
    return bytes;
}

static void a_training_step_has_all_roles(void **state)
{
    (void)state;
    made_up_run run;
    judged one;
    run_begin(&run, true);
    for (int i = 0; i < 3; i++)
        run_step(&run, 4 * RUN_MIB);
    judge(&one, &run);
    assert_int_equal(bytes_of(&one, VW__ROLE_WEIGHTS), RUN_LAYERS * RUN_MIB);
    assert_int_equal(bytes_of(&one, VW__ROLE_OPTIMIZER), 2 * RUN_LAYERS * RUN_MIB);
    assert_int_equal(bytes_of(&one, VW__ROLE_ACTIVATIONS), 3 * RUN_LAYERS * 4 * RUN_MIB);
    assert_int_equal(bytes_of(&one, VW__ROLE_GRADIENTS), 3 * RUN_LAYERS * RUN_MIB);
    assert_int_equal(bytes_of(&one, VW__ROLE_TEMPORARIES), 3 * 2 * RUN_LAYERS * RUN_MIB);
    assert_int_equal(bytes_of(&one, VW__ROLE_DATA), 3 * RUN_MIB);
    assert_int_equal(bytes_of(&one, VW__ROLE_UNKNOWN), 0);
    dispose(&one, &run);
}

static void passes_tile_the_trace_and_know_their_steps(void **state)
{
    (void)state;
    made_up_run run;
    judged one;
    run_begin(&run, true);
    for (int i = 0; i < 4; i++)
        run_step(&run, 4 * RUN_MIB);
    judge(&one, &run);
    uint32_t expected = 0, step = 0;
    for (size_t i = 0; i < one.roles.pass_count; i++) {
        const vw__roles_pass *pass = &one.roles.passes[i];
        assert_int_equal(pass->begin, expected);
        assert_true(pass->last_request >= pass->begin && pass->last_request < pass->end);
        assert_true(pass->step >= step);
        assert_int_equal(vw__roles_pass_at(&one.roles, pass->begin), i);
        assert_int_equal(vw__roles_pass_at(&one.roles, pass->end - 1), i);
        expected = pass->end;
        step = pass->step;
    }
    assert_int_equal(expected, one.timeline.trace->event_count);
    assert_int_equal(step, 3);
    dispose(&one, &run);
}

static void without_stacks_everything_is_unknown(void **state)
{
    (void)state;
    made_up_run run;
    judged one;
    run_begin(&run, false);
    for (int i = 0; i < 3; i++)
        run_step(&run, 4 * RUN_MIB);
    judge(&one, &run);
    for (size_t i = 0; i < one.roles.lifetime_count; i++)
        assert_int_equal(one.roles.roles[i], VW__ROLE_UNKNOWN);
    assert_int_equal(one.roles.pass_count, 1);
    dispose(&one, &run);
}

static void a_cache_that_is_asked_for_first_begins_no_pass(void **state)
{
    (void)state;
    made_up_run run;
    judged one;
    small_model small;
    small_model_begin(&small);
    uint32_t cache = small_model_context(
        &small, "update /venv/site-packages/transformers/cache_utils.py 90;main train.py 3");
    small_model_alloc(&small, UINT64_C(0x7f0000000000), RUN_MIB, cache);
    small_model_alloc(&small, UINT64_C(0x7f0000100000), RUN_MIB, cache);
    small_model_end_trace(&small, 0);
    vw__model *model = small_model_finish(&small);
    assert_int_equal(vw__timeline_make(model, vw__model_trace_of(model, 0), &one.timeline), VW_OK);
    assert_int_equal(vw__attribution_init(&one.attribution, model), VW_OK);
    assert_int_equal(vw__steps_find_in(&one.timeline, &one.attribution, &one.steps), VW_OK);
    assert_int_equal(vw__roles_find(&one.timeline, &one.attribution, &one.steps, &one.roles),
                     VW_OK);
    assert_int_equal(one.roles.pass_count, 1);
    assert_int_equal(bytes_of(&one, VW__ROLE_KV_CACHE), 2 * RUN_MIB);
    memset(&run, 0, sizeof run);
    run.recording.model = model;
    dispose(&one, &run);
}

static void layers_of_an_inference_are_temporaries(void **state)
{
    (void)state;
    made_up_run run;
    judged one;
    run_begin(&run, true);
    for (int i = 0; i < 3; i++) {
        run_block batch = run_alloc(&run, RUN_MIB, run.batch);
        run_free(&run, run_forward(&run, 2 * RUN_MIB, false).output);
        run_free(&run, batch);
    }
    judge(&one, &run);
    assert_int_equal(bytes_of(&one, VW__ROLE_TEMPORARIES), 3 * RUN_LAYERS * 2 * RUN_MIB);
    assert_int_equal(bytes_of(&one, VW__ROLE_ACTIVATIONS), 0);
    dispose(&one, &run);
}

static bool find_roles(void *context)
{
    judged *one = context;
    vw__roles roles;
    vw_status status = vw__roles_find(&one->timeline, &one->attribution, &one->steps, &roles);
    if (status == VW_OK)
        vw__roles_deinit(&roles);
    return status == VW_OK;
}

static void no_host_memory_is_said(void **state)
{
    (void)state;
    made_up_run run;
    judged one;
    run_begin(&run, true);
    run_step(&run, 4 * RUN_MIB);
    judge(&one, &run);
    vw_test_sweep_host_memory(find_roles, &one);
    dispose(&one, &run);
}

/* PyTorch writes an empty stack for it, as for autograd's threads. */
static void what_was_there_before_the_recording_is_no_gradient(void **state)
{
    (void)state;
    made_up_run run;
    judged one;
    run_begin(&run, true);
    run_block before = {run.next_address, 24 * RUN_MIB, run.backward};
    run.next_address += before.size_bytes;
    for (int i = 0; i < 3; i++)
        run_step(&run, 4 * RUN_MIB);
    run_free(&run, before);
    judge(&one, &run);
    assert_int_equal(bytes_of(&one, VW__ROLE_UNKNOWN), 24 * RUN_MIB);
    assert_int_equal(bytes_of(&one, VW__ROLE_GRADIENTS), 3 * RUN_LAYERS * RUN_MIB);
    dispose(&one, &run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_training_step_has_all_roles),
        cmocka_unit_test(passes_tile_the_trace_and_know_their_steps),
        cmocka_unit_test(without_stacks_everything_is_unknown),
        cmocka_unit_test(a_cache_that_is_asked_for_first_begins_no_pass),
        cmocka_unit_test(layers_of_an_inference_are_temporaries),
        cmocka_unit_test(no_host_memory_is_said),
        cmocka_unit_test(what_was_there_before_the_recording_is_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
