/* test_spill_choice.c - the table at the top of spill_choice.c, line by line. */
#include "engine/paged/spill_choice.h"

#include <stdlib.h>

#include "support/cmocka_here.h"

static vw__paged_spill_clock clock_with_marks(int64_t older, int64_t newer, int64_t now)
{
    vw__paged_spill_clock clock = {.now = older};
    vw__paged_spill_mark(&clock);
    clock.now = newer;
    vw__paged_spill_mark(&clock);
    clock.now = now;
    return clock;
}

static vw__paged_spill_candidate one(const vw__paged_spill_clock *clock, vw_advice advice,
                                     int64_t born)
{
    vw__paged_spill_candidate made = {.size_bytes = 100};
    vw__paged_spill_add(&made, clock, advice, born, 100);
    return made;
}

/* Is `a` to leave before `b`, and not the other way round? */
static bool is_first(const vw__paged_spill_candidate *a, const vw__paged_spill_candidate *b)
{
    return vw__paged_spill_compare(a, b) < 0 && vw__paged_spill_compare(b, a) > 0;
}

static void a_block_is_settled_when_it_has_lived_through_two_steps(void **state)
{
    (void)state;
    vw__paged_spill_clock clock = clock_with_marks(100, 200, 250);
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_NORMAL, 100),
                     VW__PAGED_SPILL_SETTLED);
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_NORMAL, 101),
                     VW__PAGED_SPILL_PASSING);
    clock.now = 300;
    vw__paged_spill_mark(&clock);
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_NORMAL, 200),
                     VW__PAGED_SPILL_SETTLED);
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_NORMAL, 201),
                     VW__PAGED_SPILL_PASSING);
}

static void without_steps_a_quarter_of_all_requests_settles_a_block(void **state)
{
    (void)state;
    vw__paged_spill_clock clock = {.now = 400};
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_NORMAL, 300),
                     VW__PAGED_SPILL_SETTLED);
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_NORMAL, 301),
                     VW__PAGED_SPILL_PASSING);
    vw__paged_spill_mark(&clock); /* one step is none: nothing has lived through it yet */
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_NORMAL, 300),
                     VW__PAGED_SPILL_SETTLED);
}

static void advice_goes_before_age(void **state)
{
    (void)state;
    vw__paged_spill_clock clock = clock_with_marks(100, 200, 250);
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_COLD, 249), VW__PAGED_SPILL_COLD);
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_HOT, 1), VW__PAGED_SPILL_HOT);
}

static void the_classes_leave_in_their_order(void **state)
{
    (void)state;
    vw__paged_spill_clock clock = clock_with_marks(100, 200, 250);
    vw__paged_spill_candidate cold = one(&clock, VW_ADVISE_COLD, 240);
    vw__paged_spill_candidate settled = one(&clock, VW_ADVISE_NORMAL, 50);
    vw__paged_spill_candidate passing = one(&clock, VW_ADVISE_NORMAL, 240);
    vw__paged_spill_candidate hot = one(&clock, VW_ADVISE_HOT, 50);
    assert_true(is_first(&cold, &settled));
    assert_true(is_first(&settled, &passing));
    assert_true(is_first(&passing, &hot));
}

/* What it keeps and did not call cold is needed, and leaves after what passes. */
static void a_program_that_advises_keeps_what_it_did_not_call_cold(void **state)
{
    (void)state;
    vw__paged_spill_clock clock = {.now = 400, .is_advised = true};
    assert_int_equal(vw__paged_spill_classify(&clock, VW_ADVISE_NORMAL, 1),
                     VW__PAGED_SPILL_PASSING);
    clock = clock_with_marks(100, 200, 250);
    clock.is_advised = true;
    vw__paged_spill_candidate passing = one(&clock, VW_ADVISE_NORMAL, 240);
    vw__paged_spill_candidate kept = one(&clock, VW_ADVISE_NORMAL, 50);
    vw__paged_spill_candidate later = one(&clock, VW_ADVISE_NORMAL, 60);
    vw__paged_spill_candidate hot = one(&clock, VW_ADVISE_HOT, 50);
    assert_int_equal(kept.worst, VW__PAGED_SPILL_KEPT);
    assert_true(is_first(&passing, &later));
    assert_true(is_first(&later, &kept));
    assert_true(is_first(&kept, &hot));
}

static void of_the_settled_the_youngest_leaves_and_of_the_passing_the_oldest(void **state)
{
    (void)state;
    vw__paged_spill_clock clock = clock_with_marks(100, 200, 250);
    vw__paged_spill_candidate weights = one(&clock, VW_ADVISE_NORMAL, 10);
    vw__paged_spill_candidate moments = one(&clock, VW_ADVISE_NORMAL, 90);
    vw__paged_spill_candidate early = one(&clock, VW_ADVISE_NORMAL, 210);
    vw__paged_spill_candidate late = one(&clock, VW_ADVISE_NORMAL, 240);
    assert_true(is_first(&moments, &weights));
    assert_true(is_first(&early, &late));
}

static void handles_of_small_blocks_are_last_in_their_class(void **state)
{
    (void)state;
    vw__paged_spill_clock clock = clock_with_marks(100, 200, 250);
    vw__paged_spill_candidate small = one(&clock, VW_ADVISE_NORMAL, 90);
    vw__paged_spill_candidate large = one(&clock, VW_ADVISE_NORMAL, 10);
    vw__paged_spill_candidate passing = one(&clock, VW_ADVISE_NORMAL, 240);
    small.is_small = true;
    assert_true(is_first(&large, &small));
    assert_true(is_first(&small, &passing));
}

static void of_equals_the_largest_then_the_lowest_address_leaves(void **state)
{
    (void)state;
    vw__paged_spill_clock clock = clock_with_marks(100, 200, 250);
    vw__paged_spill_candidate a = one(&clock, VW_ADVISE_NORMAL, 10), b = a;
    a.address = 1000, b.address = 2000;
    assert_true(is_first(&a, &b));
    b.size_bytes = 200;
    assert_true(is_first(&b, &a));
    assert_int_equal(vw__paged_spill_compare(&a, &a), 0);
}

static void several_blocks_are_as_good_as_the_worst_and_as_old_as_the_largest(void **state)
{
    (void)state;
    vw__paged_spill_clock clock = clock_with_marks(100, 200, 250);
    vw__paged_spill_candidate mixed = {.size_bytes = 1000};
    vw__paged_spill_add(&mixed, &clock, VW_ADVISE_COLD, 30, 300);
    vw__paged_spill_add(&mixed, &clock, VW_ADVISE_NORMAL, 40, 400);
    vw__paged_spill_add(&mixed, &clock, VW_ADVISE_NORMAL, 50, 100);
    assert_int_equal(mixed.worst, VW__PAGED_SPILL_SETTLED);
    assert_int_equal(mixed.born, 40);
    assert_int_equal(mixed.used_bytes, 800);
    vw__paged_spill_add(&mixed, &clock, VW_ADVISE_HOT, 60, 1);
    assert_int_equal(mixed.worst, VW__PAGED_SPILL_HOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_is_settled_when_it_has_lived_through_two_steps),
        cmocka_unit_test(without_steps_a_quarter_of_all_requests_settles_a_block),
        cmocka_unit_test(advice_goes_before_age),
        cmocka_unit_test(the_classes_leave_in_their_order),
        cmocka_unit_test(a_program_that_advises_keeps_what_it_did_not_call_cold),
        cmocka_unit_test(of_the_settled_the_youngest_leaves_and_of_the_passing_the_oldest),
        cmocka_unit_test(handles_of_small_blocks_are_last_in_their_class),
        cmocka_unit_test(of_equals_the_largest_then_the_lowest_address_leaves),
        cmocka_unit_test(several_blocks_are_as_good_as_the_worst_and_as_old_as_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
