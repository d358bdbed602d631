/* test_demo_workload.c - the run tells the story it should, and its books are the pool's. */
#include "cli/demo_workload.h"

#include <string.h>

#include "support/cmocka_here.h"

/* Large for a stack. */
static demo_run native, expandable;

static vw_pool_stats stats_of(const demo_run *run)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    assert_int_equal(vw_pool_get_stats(run->pool, &stats), VW_OK);
    return stats;
}

static int run_both(void **state)
{
    (void)state;
    return demo_run_begin(&native, "native", "", NULL) == VW_OK &&
                   demo_run_begin(&expandable, "expandable", "expandable_segments:True", NULL) ==
                       VW_OK
               ? 0
               : -1;
}

static int end_both(void **state)
{
    (void)state;
    demo_run_end(&native);
    demo_run_end(&expandable);
    return 0;
}

/* The rule for the verdict "fragmentation" from an error's numbers alone: idle >= tried, and
 * idle >= a tenth of reserved. */
static void natively_it_ends_in_fragmentation(void **state)
{
    (void)state;
    const uint64_t idle_bytes = native.oom.reserved_bytes - native.oom.allocated_bytes;
    assert_false(native.is_complete);
    assert_true(idle_bytes >= native.oom.segment_bytes);
    assert_true(idle_bytes >= native.oom.reserved_bytes / 10);
    assert_true(native.oom.largest_free_block_bytes < native.oom.segment_bytes);
    assert_non_null(native.failed_for);
    assert_int_equal(strncmp(native.oom_text, "CUDA out of memory. ", 20), 0);
}

static void with_expandable_segments_it_completes(void **state)
{
    (void)state;
    assert_true(expandable.is_complete);
    assert_int_equal(expandable.step_count, DEMO_STEP_COUNT);
    assert_string_equal(expandable.oom_text, "");
}

static void both_make_the_same_requests(void **state)
{
    (void)state;
    assert_true(native.request_count < expandable.request_count);
    for (size_t i = 0; i < native.step_count; i++) {
        assert_int_equal(native.steps[i].sequence_length, expandable.steps[i].sequence_length);
        assert_int_equal(native.steps[i].has_evaluation, expandable.steps[i].has_evaluation);
    }
}

static void the_books_of_a_run_are_those_of_its_pool(void **state)
{
    const demo_run *runs[] = {&native, &expandable};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        vw_pool_stats stats = stats_of(runs[i]);
        assert_int_equal(runs[i]->live_bytes, stats.allocated_bytes.all.current);
        assert_int_equal(runs[i]->peak_live_bytes, stats.allocated_bytes.all.peak);
        assert_int_equal(runs[i]->reserved_bytes, stats.reserved_bytes.all.current);
        assert_int_equal(runs[i]->peak_reserved_bytes, stats.reserved_bytes.all.peak);
        assert_int_equal(runs[i]->request_count, stats.allocation.all.allocated + stats.num_ooms);
        assert_int_equal(runs[i]->calls.peak_use_bytes, stats.reserved_bytes.all.peak);
        assert_int_equal(vw_pool_check(runs[i]->pool), VW_OK);
    }
}

static void nothing_changes_after_the_refusal(void **state)
{
    (void)state;
    assert_int_equal(native.live_bytes, native.oom.allocated_bytes);
    assert_int_equal(native.reserved_bytes, native.oom.reserved_bytes);
}

/* What stays when all steps are done: weights, AdamW's two moments, and the log. */
static void a_complete_run_leaves_only_what_outlives_a_step(void **state)
{
    (void)state;
    const uint64_t state_bytes = 3 * 4 * demo_get_model().parameter_count;
    assert_true(expandable.live_bytes - expandable.logged_bytes >= state_bytes);
    /* Rounding: most of a segment's step at most for each of a few hundred tensors. */
    assert_true(expandable.live_bytes - expandable.logged_bytes < state_bytes + (2 << 20));
}

typedef struct visit {
    unsigned count;
    uint64_t live_bytes;
} visit;

static void note_visit(void *context, const demo_run *run)
{
    visit *noted = context;
    noted->count++;
    noted->live_bytes = run->live_bytes;
    assert_int_equal(run->request_count, 1000);
}

static void a_pause_comes_once_at_its_request(void **state)
{
    static demo_run paused;
    visit noted = {0, 0};
    const demo_pause pause = {1000, note_visit, &noted};
    (void)state;
    assert_int_equal(demo_run_begin(&paused, "native", "", &pause), VW_OK);
    assert_int_equal(noted.count, 1);
    assert_true(noted.live_bytes > 0);
    assert_int_equal(paused.request_count, native.request_count);
    demo_run_end(&paused);
}

static void a_setting_that_cannot_be_used_is_no_run(void **state)
{
    static demo_run refused;
    (void)state;
    assert_int_not_equal(demo_run_begin(&refused, "x", "no_such_option:1", NULL), VW_OK);
    assert_null(refused.pool);
    demo_run_end(&refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(natively_it_ends_in_fragmentation),
        cmocka_unit_test(with_expandable_segments_it_completes),
        cmocka_unit_test(both_make_the_same_requests),
        cmocka_unit_test(the_books_of_a_run_are_those_of_its_pool),
        cmocka_unit_test(nothing_changes_after_the_refusal),
        cmocka_unit_test(a_complete_run_leaves_only_what_outlives_a_step),
        cmocka_unit_test(a_pause_comes_once_at_its_request),
        cmocka_unit_test(a_setting_that_cannot_be_used_is_no_run),
    };
    return cmocka_run_group_tests(tests, run_both, end_both);
}
