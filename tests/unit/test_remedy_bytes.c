/* test_remedy_bytes.c - how the bytes of a remedy follow from the numbers at hand. */
#include "vramwise/analysis.h"
#include "remedy/remedy.h"
#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* ---- of a recorded run ----------------------------------------------------------------------- */

static void a_smaller_batch_leaves_its_part_and_keeps_a_set_of_gradients(void **state)
{
    (void)state;
    vw__what_if best, worst;
    vw__remedy_run run = {
        .weight_bytes = 300 * MIB, .gradient_bytes = 100 * MIB, .parts = 4, .has_step = true};
    vw__remedy_what_if(VW__REMEDY_SPLIT_BATCH, &run, &best, &worst);
    assert_int_equal(best.kept_permille[VW__PORTION_ACTIVATIONS], 250);
    assert_int_equal(worst.kept_permille[VW__PORTION_ACTIVATIONS], 400);
    assert_int_equal(best.kept_permille[VW__PORTION_WEIGHTS], 1000);
    assert_int_equal(best.kept_permille[VW__PORTION_KV_CACHE], 1000);
    assert_int_equal(best.kept_permille[VW__PORTION_GRADIENTS], 0);
    assert_int_equal(best.added_bytes, 100 * MIB);
    assert_int_equal(worst.added_bytes, 100 * MIB);
    run.has_step = false; /* how large a set is, is not known */
    vw__remedy_what_if(VW__REMEDY_SPLIT_BATCH, &run, &best, &worst);
    assert_int_equal(worst.added_bytes, 300 * MIB);
    vw__remedy_what_if(VW__REMEDY_SMALLER_BATCH, &run, &best, &worst);
    assert_int_equal(best.kept_permille[VW__PORTION_KV_CACHE], 250);
    assert_int_equal(best.kept_permille[VW__PORTION_GRADIENTS], 1000);
    assert_int_equal(worst.added_bytes, 0);
}

static void checkpointing_leaves_activations_by_the_table_and_all_else(void **state)
{
    (void)state;
    vw__what_if best, worst;
    const vw__remedy_run run = {.weight_bytes = GIB};
    vw__remedy_what_if(VW__REMEDY_CHECKPOINTING, &run, &best, &worst);
    assert_int_equal(best.kept_permille[VW__PORTION_ACTIVATIONS], 35);
    assert_int_equal(worst.kept_permille[VW__PORTION_ACTIVATIONS], 400);
    assert_int_equal(best.kept_permille[VW__PORTION_LOSS], 1000);
    assert_int_equal(worst.added_bytes, 0);
}

static void what_a_remedy_adds_follows_from_the_run(void **state)
{
    (void)state;
    vw__what_if best, worst;
    const vw__remedy_run run = {.weight_bytes = GIB,
                                .activation_bytes = GIB,
                                .largest_activation_bytes = 100 * MIB,
                                .largest_step_work_bytes = 7 * MIB};
    vw__remedy_what_if(VW__REMEDY_AUTOCAST, &run, &best, &worst);
    assert_int_equal(best.added_bytes, GIB / 2);
    vw__remedy_what_if(VW__REMEDY_FUSED_OPTIMIZER, &run, &best, &worst);
    assert_int_equal(best.added_bytes, 0);
    assert_int_equal(worst.added_bytes, 7 * MIB);
    vw__remedy_what_if(VW__REMEDY_INFERENCE_MODE, &run, &best, &worst);
    assert_int_equal(best.added_bytes, 200 * MIB);
    assert_int_equal(worst.added_bytes, 500 * MIB);
}

/* ---- of a sum -------------------------------------------------------------------------------- */

static void a_rule_of_thumb_is_a_share_of_what_is_live(void **state)
{
    (void)state;
    vw__remedy_range range = vw__remedy_of_live(VW__REMEDY_CHECKPOINTING, 10 * GIB, 0);
    assert_int_equal(range.at_least_bytes, GIB);
    assert_int_equal(range.at_most_bytes, 7 * GIB);
    range = vw__remedy_of_live(VW__REMEDY_SPLIT_BATCH, 10 * GIB, 4);
    assert_int_equal(range.at_least_bytes, 3 * GIB / 2);
    assert_int_equal(range.at_most_bytes, 6 * GIB);
    range = vw__remedy_of_live(VW__REMEDY_FUSED_OPTIMIZER, 10 * GIB, 0); /* there is no rule */
    assert_true(range.at_least_bytes == VW_UNKNOWN && range.at_most_bytes == VW_UNKNOWN);
    range = vw__remedy_of_live(VW__REMEDY_CHECKPOINTING, VW_UNKNOWN, 0);
    assert_true(range.at_least_bytes == VW_UNKNOWN);
}

static void expandable_segments_leave_a_quarter_of_what_is_live_idle_at_most(void **state)
{
    (void)state;
    vw__remedy_range range = vw__remedy_of_idle(10 * GIB, 12 * GIB);
    assert_int_equal(range.at_least_bytes, 7 * GIB);
    assert_int_equal(range.at_most_bytes, 10 * GIB);
    assert_int_equal(vw__remedy_of_idle(2 * GIB, 12 * GIB).at_least_bytes, 0);
}

/* ---- is it enough, is it worth it ------------------------------------------------------------ */

static void it_is_enough_only_where_the_numbers_leave_no_doubt(void **state)
{
    (void)state;
    const vw__remedy_range range = {2 * GIB, 4 * GIB}, unknown = {VW_UNKNOWN, VW_UNKNOWN};
    assert_int_equal(vw__remedy_enough(VW_BASIS_COMPUTED, range, 2 * GIB), VW_ENOUGH_YES);
    assert_int_equal(vw__remedy_enough(VW_BASIS_COMPUTED, range, 2 * GIB + 1), VW_ENOUGH_UNKNOWN);
    assert_int_equal(vw__remedy_enough(VW_BASIS_COMPUTED, range, 4 * GIB), VW_ENOUGH_UNKNOWN);
    assert_int_equal(vw__remedy_enough(VW_BASIS_COMPUTED, range, 4 * GIB + 1), VW_ENOUGH_NO);
    assert_int_equal(vw__remedy_enough(VW_BASIS_COMPUTED, range, VW_UNKNOWN), VW_ENOUGH_UNKNOWN);
    assert_int_equal(vw__remedy_enough(VW_BASIS_COMPUTED, range, 0), VW_ENOUGH_UNKNOWN);
    assert_int_equal(vw__remedy_enough(VW_BASIS_COMPUTED, unknown, GIB), VW_ENOUGH_UNKNOWN);
}

static void a_rule_of_thumb_never_says_whether_it_is_enough(void **state)
{
    (void)state;
    const vw__remedy_range range = {2 * GIB, 4 * GIB};
    assert_int_equal(vw__remedy_enough(VW_BASIS_RULE, range, GIB), VW_ENOUGH_UNKNOWN);
    assert_int_equal(vw__remedy_enough(VW_BASIS_RULE, range, 8 * GIB), VW_ENOUGH_UNKNOWN);
}

static void the_cache_is_not_emptied_for_little(void **state)
{
    (void)state;
    assert_false(vw__remedy_is_empty_cache_worth_it(30 * MIB, 100 * MIB));
    assert_false(vw__remedy_is_empty_cache_worth_it(64 * MIB - 1, 100 * MIB));
    assert_true(vw__remedy_is_empty_cache_worth_it(64 * MIB, 100 * MIB));
    assert_false(vw__remedy_is_empty_cache_worth_it(GIB - 1, 20 * GIB));
    assert_true(vw__remedy_is_empty_cache_worth_it(GIB, 20 * GIB));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_smaller_batch_leaves_its_part_and_keeps_a_set_of_gradients),
        cmocka_unit_test(checkpointing_leaves_activations_by_the_table_and_all_else),
        cmocka_unit_test(what_a_remedy_adds_follows_from_the_run),
        cmocka_unit_test(a_rule_of_thumb_is_a_share_of_what_is_live),
        cmocka_unit_test(expandable_segments_leave_a_quarter_of_what_is_live_idle_at_most),
        cmocka_unit_test(it_is_enough_only_where_the_numbers_leave_no_doubt),
        cmocka_unit_test(a_rule_of_thumb_never_says_whether_it_is_enough),
        cmocka_unit_test(the_cache_is_not_emptied_for_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
