/* test_view_growth.c - what leaks by the doctor's word comes first, then what holds more. */
#include "view/view_growth.h"

#include <string.h>

#include "support/cmocka_here.h"

enum { STEPS = 100, STEP_EVENTS = 10, MOST_BLOCKS = 1000 };

typedef struct fixture {
    vw__view_block blocks[MOST_BLOCKS];
    vw__view_blocks all;
    uint32_t ends[STEPS];
    vw__steps steps;
    vw__view_leaks leaks;
    vw__view_growth growth;
} fixture;

static void begin(fixture *made, size_t step_count)
{
    *made = (fixture){.all = {.blocks = NULL}};
    for (size_t i = 0; i < step_count; i++)
        made->ends[i] = (uint32_t)(i + 1) * STEP_EVENTS;
    made->steps = (vw__steps){.ends = made->ends, .end_count = step_count};
    made->all.blocks = made->blocks;
}

static void add(fixture *made, uint32_t stack, uint32_t first, uint32_t end, uint64_t size_bytes)
{
    assert_true(made->all.count < MOST_BLOCKS);
    made->blocks[made->all.count++] = (vw__view_block){
        .begin = first, .freed = end, .end = end, .stack = stack, .size_bytes = size_bytes};
}

static void find(fixture *made, size_t stack_count)
{
    assert_int_equal(
        vw__view_growth_make(&made->all, stack_count, &made->steps, &made->leaks, &made->growth),
        VW_OK);
}

static void what_leaks_comes_first_and_then_what_holds_more(void **state)
{
    (void)state;
    fixture made;
    begin(&made, STEPS);
    for (uint32_t i = 0; i < STEPS; i++) {
        add(&made, 0, i * STEP_EVENTS + 1, VW__VIEW_NONE, 512);              /* leaks */
        add(&made, VW__VIEW_NONE, i * STEP_EVENTS + 2, VW__VIEW_NONE, 1024); /* no stack */
        add(&made, 1, i * STEP_EVENTS + 3, i * STEP_EVENTS + 9, 4096);       /* work */
        add(&made, 2, i * STEP_EVENTS + 4, (i + 1) * STEP_EVENTS + 4, 4096); /* kept for a step */
    }
    add(&made, 3, 605, VW__VIEW_NONE, 1 << 20);             /* once, late */
    add(&made, 4, 0, VW__VIEW_NONE, 1 << 20);               /* always there */
    static const uint32_t number_of[] = {VW__VIEW_NONE, 0}; /* stack 0 has no frames */
    static const vw__diagnosis_growing_stack found[] = {
        {1, 512},
        {VW__DIAGNOSIS_NO_STACK, 1000},
        {VW__DIAGNOSIS_NO_STACK, 24}, /* two sizes without a stack */
    };
    made.leaks.growth = (vw__diagnosis_found_growth){.stacks = found, .stack_count = 3};
    made.leaks.number_of = number_of;
    find(&made, 5);
    const vw__view_growth *growth = &made.growth;
    assert_null(growth->reason);
    assert_int_equal(growth->sample_count, VW__VIEW_MOST_SAMPLES);
    assert_int_equal(growth->steps[growth->sample_count - 1], STEPS - 1);
    assert_int_equal(growth->stack_count, 3);
    assert_int_equal(growth->stacks[0], VW__VIEW_NONE);
    assert_int_equal(growth->stacks[1], 0);
    assert_int_equal(growth->stacks[2], 3); /* holds more, and does not leak */
    assert_int_equal(growth->bytes_per_step[0], 1024);
    assert_int_equal(growth->bytes_per_step[1], 512);
    assert_int_equal(growth->bytes_per_step[2], 0);
    for (size_t s = 0; s < growth->sample_count; s++) {
        assert_int_equal(growth->instants[s], made.ends[growth->steps[s]]);
        assert_true(s == 0 || growth->steps[s] > growth->steps[s - 1]);
        assert_int_equal(growth->bytes[s], (growth->steps[s] + 1) * 1024);
        assert_int_equal(growth->bytes[growth->sample_count + s], (growth->steps[s] + 1) * 512);
    }
    vw__view_growth_deinit(&made.growth);
}

/* However much it looks like growth: who shows does not judge. */
static void what_the_doctor_does_not_name_does_not_leak(void **state)
{
    (void)state;
    fixture made;
    begin(&made, STEPS);
    for (uint32_t i = 0; i < STEPS; i++)
        add(&made, 0, i * STEP_EVENTS + 1, VW__VIEW_NONE, 512);
    find(&made, 1);
    assert_int_equal(made.growth.stack_count, 1);
    assert_int_equal(made.growth.bytes_per_step[0], 0);
    vw__view_growth_deinit(&made.growth);

    made.leaks.reason = "nobody judged it";
    find(&made, 1);
    assert_int_equal(made.growth.stack_count, 0);
    assert_string_equal(made.growth.reason, "nobody judged it");
    vw__view_growth_deinit(&made.growth);
}

static void few_steps_are_sampled_all_and_too_few_say_so(void **state)
{
    (void)state;
    fixture made;
    begin(&made, 6);
    for (uint32_t i = 0; i < 6; i++)
        add(&made, 0, i * STEP_EVENTS + 1, VW__VIEW_NONE, 512);
    find(&made, 1);
    assert_int_equal(made.growth.sample_count, 6);
    assert_int_equal(made.growth.stack_count, 1);
    assert_int_equal(made.growth.bytes[5], 6 * 512);
    vw__view_growth_deinit(&made.growth);

    made.steps.end_count = 5;
    find(&made, 1);
    assert_int_equal(made.growth.sample_count, 0);
    assert_int_equal(made.growth.stack_count, 0);
    assert_non_null(strstr(made.growth.reason, "fewer than six steps"));
    vw__view_growth_deinit(&made.growth);

    made.steps.end_count = 0;
    find(&made, 1);
    assert_string_equal(made.growth.reason, "no steps were found");
    vw__view_growth_deinit(&made.growth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_leaks_comes_first_and_then_what_holds_more),
        cmocka_unit_test(what_the_doctor_does_not_name_does_not_leak),
        cmocka_unit_test(few_steps_are_sampled_all_and_too_few_say_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
