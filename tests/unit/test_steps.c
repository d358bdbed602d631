/* test_steps.c - where steps and phases are found, and where they are not invented. */
#include "analysis/steps.h"

#include <string.h>

#include "vramwise/analysis.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define TORCH "/usr/lib/python3/site-packages/torch/"
#define CALL "_call_impl " TORCH "nn/modules/module.py 1790"

/* The stacks of a training program. */
typedef struct program {
    small_model small;
    uint32_t batch, forward, backward, optimizer, evaluation;
} program;

static void begin_program(program *made)
{
    small_model *small = &made->small;
    small_model_begin(small);
    made->batch = small_model_context(small, "train train.py 10");
    made->forward = small_model_context(small, CALL ";train train.py 11");
    made->backward = small_model_context(small, "");
    made->optimizer =
        small_model_context(small, "step " TORCH "optim/adam.py 238;train train.py 13");
    made->evaluation = small_model_context(small, CALL ";evaluate train.py 20");
}

/* A step of live bytes that rise by `size_bytes` and fall again. Returns the first event after it.
 */
static size_t write_step(program *made, uint64_t size_bytes, bool has_optimizer)
{
    small_model *small = &made->small;
    small_model_alloc(small, A, 512, made->batch);
    small_model_alloc(small, A + 1 * MIB, size_bytes, made->forward);
    small_model_alloc(small, A + 512, 512, made->backward);
    small_model_free(small, A + 1 * MIB, size_bytes, made->forward);
    small_model_free(small, A + 512, 512, made->backward);
    if (has_optimizer) {
        small_model_alloc(small, A + 1024, 512, made->optimizer);
        small_model_alloc(small, A + 512, 512, made->backward); /* from a hook */
        small_model_alloc(small, A + 2048, 512, made->optimizer);
        small_model_free(small, A + 1024, 512, made->optimizer);
        small_model_free(small, A + 2048, 512, made->optimizer);
    }
    size_t end = small->event_count;
    if (has_optimizer)
        small_model_free(small, A + 512, 512, made->backward);
    small_model_free(small, A, 512, made->batch);
    return end;
}

static void write_evaluation(program *made)
{
    small_model *small = &made->small;
    for (int i = 0; i < 3; i++) {
        small_model_alloc(small, A, 512, made->evaluation);
        small_model_alloc(small, A + 2048, 1024, made->evaluation);
        small_model_free(small, A + 2048, 1024, made->evaluation);
        small_model_free(small, A, 512, made->evaluation);
    }
}

static vw__model *finish_program(program *made)
{
    small_model_end_trace(&made->small, 0);
    return small_model_finish(&made->small);
}

static vw__steps steps_of(const vw__model *model)
{
    vw__steps steps;
    assert_int_equal(vw__steps_find(model, vw__model_trace_of(model, 0), &steps), VW_OK);
    return steps;
}

static void an_optimizer_in_the_stacks_ends_a_step(void **state)
{
    (void)state;
    program written;
    size_t ends[5];
    begin_program(&written);
    for (size_t i = 0; i < 5; i++)
        ends[i] = write_step(&written, MIB * (1 + i), true);
    vw__model *model = finish_program(&written);
    vw__steps steps = steps_of(model);
    assert_string_equal(steps.basis, "optimizer stacks");
    assert_int_equal(steps.end_count, 5);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(steps.ends[i], ends[i]);
    assert_int_equal(steps.phase_end_count, 0);
    vw__steps_deinit(&steps);
    vw__model_destroy(model);
}

static void a_profiler_step_is_believed_before_everything_else(void **state)
{
    (void)state;
    program written;
    begin_program(&written);
    for (size_t i = 0; i < 4; i++) {
        write_step(&written, MIB, true);
        write_step(&written, MIB, true); /* two of the optimizer's to one of these */
        small_model_annotate(&written.small, "ProfilerStep#1", 0, true, 0);
        small_model_annotate(&written.small, "ProfilerStep#1", 0, false, written.small.time_us - 5);
        small_model_annotate(&written.small, "ProfilerStep#1", 3, false,
                             written.small.time_us - 200); /* of another device */
    }
    size_t event_count = written.small.event_count;
    vw__model *model = finish_program(&written);
    vw__steps steps = steps_of(model);
    assert_string_equal(steps.basis, "annotations");
    assert_int_equal(steps.end_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(steps.ends[i], event_count / 4 * (i + 1));
    vw__steps_deinit(&steps);
    vw__model_destroy(model);
}

static void what_optimizers_announce_counts_where_they_do_not_allocate(void **state)
{
    (void)state;
    program written;
    begin_program(&written);
    small_model_annotate(&written.small, "Optimizer.step#SGD.step", 0, false,
                         written.small.time_us - 500); /* before the ring began */
    for (size_t i = 0; i < 6; i++) {
        write_step(&written, MIB * (1 + i), false);
        small_model_annotate(&written.small, "Optimizer.step#SGD.step", 0, false,
                             written.small.time_us - 5);
        small_model_annotate(&written.small, "Optimizer.zero_grad#SGD.zero_grad", 0, false,
                             written.small.time_us - 3);
    }
    vw__model *model = finish_program(&written);
    vw__steps steps = steps_of(model);
    assert_string_equal(steps.basis, "annotations");
    assert_int_equal(steps.end_count, 6);
    vw__steps_deinit(&steps);
    vw__model_destroy(model);
}

static void where_both_found_as_many_announcements_are_believed(void **state)
{
    (void)state;
    program written;
    begin_program(&written);
    for (size_t i = 0; i < 5; i++) {
        write_step(&written, MIB, true);
        small_model_annotate(&written.small, "Optimizer.step#SGD.step", 0, false,
                             written.small.time_us - 5);
    }
    vw__model *model = finish_program(&written);
    vw__steps steps = steps_of(model);
    assert_string_equal(steps.basis, "annotations");
    assert_int_equal(steps.end_count, 5);
    vw__steps_deinit(&steps);
    vw__model_destroy(model);
}

/* A gradient scaler skipped a step(): it was not announced, but the scaler allocated. */
static void of_stacks_and_announcements_the_one_that_found_more_is_believed(void **state)
{
    (void)state;
    program written;
    begin_program(&written);
    for (size_t i = 0; i < 5; i++) {
        write_step(&written, MIB, true);
        if (i != 2)
            small_model_annotate(&written.small, "Optimizer.step#SGD.step", 0, false,
                                 written.small.time_us - 5);
    }
    vw__model *model = finish_program(&written);
    vw__steps steps = steps_of(model);
    assert_string_equal(steps.basis, "optimizer stacks");
    assert_int_equal(steps.end_count, 5);
    vw__steps_deinit(&steps);
    vw__model_destroy(model);
}

static void equal_rises_and_falls_are_a_rhythm(void **state)
{
    (void)state;
    program written;
    begin_program(&written);
    small_model_alloc(&written.small, A + 100 * MIB, 10 * MIB,
                      VW__MODEL_NO_CONTEXT); /* the model */
    for (size_t i = 0; i < 6; i++)
        write_step(&written, 8 * MIB, false);
    vw__model *model = finish_program(&written);
    vw__steps steps = steps_of(model);
    assert_string_equal(steps.basis, "rhythm of live bytes");
    assert_int_equal(steps.end_count, 6);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(steps.ends[i], 1 + 9 * (i + 1));
    vw__steps_deinit(&steps);
    vw__model_destroy(model);
}

static void assert_no_steps(program *made)
{
    vw__model *model = finish_program(made);
    vw__steps steps = steps_of(model);
    assert_int_equal(steps.end_count, 0);
    assert_int_equal(steps.phase_end_count, 0);
    assert_null(steps.basis);
    vw__steps_deinit(&steps);
    vw__model_destroy(model);
}

static void no_rhythm_is_invented(void **state)
{
    (void)state;
    program written;

    begin_program(&written); /* three are too few */
    for (size_t i = 0; i < 3; i++)
        write_step(&written, 8 * MIB, false);
    assert_no_steps(&written);

    begin_program(&written); /* steps of many sizes: how many small ones count is not known */
    static const uint64_t sizes[] = {8, 3, 9, 2, 7, 4, 8, 3, 2, 9};
    for (size_t i = 0; i < 10; i++)
        write_step(&written, sizes[i] * MIB, false);
    assert_no_steps(&written);

    begin_program(&written); /* the same, all of them deep */
    for (size_t i = 0; i < 10; i++)
        write_step(&written, (i % 2 == 0 ? 8 : 6) * MIB, false);
    assert_no_steps(&written);

    begin_program(&written); /* lows that rise: a leak, or a cache that fills */
    for (size_t i = 0; i < 10; i++) {
        small_model_alloc(&written.small, A + 100 * MIB * (i + 1), 2 * MIB, VW__MODEL_NO_CONTEXT);
        write_step(&written, 8 * MIB, false);
    }
    assert_no_steps(&written);

    begin_program(&written); /* memory that only grows */
    for (size_t i = 0; i < 50; i++)
        small_model_alloc(&written.small, A + 10 * MIB * i, 10 * MIB, VW__MODEL_NO_CONTEXT);
    assert_no_steps(&written);

    begin_program(&written); /* nothing at all */
    assert_no_steps(&written);
}

static void a_phase_ends_where_other_forward_work_begins_and_where_it_ends(void **state)
{
    (void)state;
    program written;
    size_t expected[4], count = 0;
    begin_program(&written);
    for (size_t epoch = 0; epoch < 3; epoch++) {
        size_t end = 0;
        for (size_t i = 0; i < 4; i++)
            end = write_step(&written, MIB * (1 + i), true);
        if (epoch == 2)
            break;
        expected[count++] = end;
        write_evaluation(&written);
        expected[count++] = written.small.event_count;
    }
    vw__model *model = finish_program(&written);
    vw__steps steps = steps_of(model);
    assert_int_equal(steps.end_count, 12);
    assert_int_equal(steps.phase_end_count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(steps.phase_ends[i], expected[i]);
    vw__steps_deinit(&steps);
    vw__model_destroy(model);
}

static void evaluation_before_the_first_and_after_the_last_step_is_a_phase_too(void **state)
{
    (void)state;
    program written;
    begin_program(&written);
    write_evaluation(&written);
    size_t first_step = written.small.event_count, end = 0;
    for (size_t i = 0; i < 5; i++)
        end = write_step(&written, MIB, true);
    write_evaluation(&written);
    vw__model *model = finish_program(&written);
    vw__steps steps = steps_of(model);
    assert_int_equal(steps.phase_end_count, 2);
    assert_int_equal(steps.phase_ends[0], first_step);
    assert_int_equal(steps.phase_ends[1], end);
    vw__steps_deinit(&steps);
    vw__model_destroy(model);
}

static bool find_steps(void *context)
{
    const vw__model *model = context;
    vw__steps steps;
    if (vw__steps_find(model, vw__model_trace_of(model, 0), &steps) != VW_OK)
        return false;
    vw__steps_deinit(&steps);
    return true;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    for (int has_optimizer = 0; has_optimizer < 2; has_optimizer++) {
        program written;
        begin_program(&written);
        small_model_annotate(&written.small, "ProfilerStep#1", 1, false, 0);
        for (size_t i = 0; i < 6; i++)
            write_step(&written, 8 * MIB, has_optimizer != 0);
        if (has_optimizer)
            small_model_annotate(&written.small, "Optimizer.step#SGD.step", 0, false,
                                 written.small.time_us);
        write_evaluation(&written);
        vw__model *model = finish_program(&written);
        vw_test_sweep_host_memory(find_steps, model);
        vw__model_destroy(model);
    }
}

/* The first ones take memory, and a program that had fallen behind catches up. */
static void a_step_takes_the_median_of_all(void **state)
{
    (void)state;
    vw__model_event events[6];
    uint32_t ends[] = {0, 1, 2, 3, 6};
    const int64_t times_us[] = {1000, 1100, 1110, 1160, 9000, 9999};
    const vw__model_trace trace = {.events = events, .event_count = 6};
    vw__steps steps = {.ends = ends, .end_count = 5};
    uint64_t usual_ns = 0;
    memset(events, 0, sizeof events);
    for (size_t i = 0; i < 6; i++)
        events[i].time_us = times_us[i];
    assert_int_equal(vw__steps_usual_ns(&trace, &steps, &usual_ns), VW_OK); /* 10 50 100 8839 */
    assert_int_equal(usual_ns, 100000);
    steps.end_count = 3;
    assert_int_equal(vw__steps_usual_ns(&trace, &steps, &usual_ns), VW_OK); /* 10 100 */
    assert_int_equal(usual_ns, 100000);
    steps.end_count = 1;
    assert_int_equal(vw__steps_usual_ns(&trace, &steps, &usual_ns), VW_OK);
    assert_int_equal(usual_ns, VW_UNKNOWN);
}

static void without_times_nobody_knows_how_long_a_step_takes(void **state)
{
    (void)state;
    vw__model_event events[4];
    uint32_t ends[] = {1, 3, 4};
    const vw__model_trace trace = {.events = events, .event_count = 4};
    const vw__steps steps = {.ends = ends, .end_count = 3};
    uint64_t usual_ns = 0;
    memset(events, 0, sizeof events);
    assert_int_equal(vw__steps_usual_ns(&trace, &steps, &usual_ns), VW_OK); /* all at once */
    assert_int_equal(usual_ns, VW_UNKNOWN);
    for (size_t i = 0; i < 4; i++)
        events[i].time_us = VW__MODEL_UNKNOWN_TIME;
    events[3].time_us = INT64_MAX;
    assert_int_equal(vw__steps_usual_ns(&trace, &steps, &usual_ns), VW_OK);
    assert_int_equal(usual_ns, VW_UNKNOWN);
    events[1].time_us = 0; /* too long to be told in nanoseconds */
    assert_int_equal(vw__steps_usual_ns(&trace, &steps, &usual_ns), VW_OK);
    assert_int_equal(usual_ns, VW_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_optimizer_in_the_stacks_ends_a_step),
        cmocka_unit_test(a_profiler_step_is_believed_before_everything_else),
        cmocka_unit_test(what_optimizers_announce_counts_where_they_do_not_allocate),
        cmocka_unit_test(where_both_found_as_many_announcements_are_believed),
        cmocka_unit_test(of_stacks_and_announcements_the_one_that_found_more_is_believed),
        cmocka_unit_test(equal_rises_and_falls_are_a_rhythm),
        cmocka_unit_test(no_rhythm_is_invented),
        cmocka_unit_test(a_phase_ends_where_other_forward_work_begins_and_where_it_ends),
        cmocka_unit_test(evaluation_before_the_first_and_after_the_last_step_is_a_phase_too),
        cmocka_unit_test(a_step_takes_the_median_of_all),
        cmocka_unit_test(without_times_nobody_knows_how_long_a_step_takes),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
