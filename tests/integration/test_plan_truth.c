/* test_plan_truth.c - predictions against measured steps, and the table of error bands against
 * both. */
#include <math.h>
#include <stdlib.h>

#include "vramwise/plan.h"

#include "plan/error_bands.h"
#include "plan/plan_model.h"
#include "support/cmocka_here.h"
#include "support/plan_truth.h"

#define MOST_ERROR 0.03
#define MOST_MEDIAN 0.01

static int read_truths(void **state)
{
    static vw_test_truths truths;
    *state = &truths;
    return vw_test_read_truth_files(VW_TEST_DATA "/plan/*.jsonl", &truths) ? 0 : -1;
}

static int free_truths(void **state)
{
    vw_test_free_truths(*state);
    return 0;
}

static vw_plan *plan_of(const vw_test_truth *truth)
{
    const vw_plan_options options = {.struct_size = sizeof options, .without_choices = true};
    vw_plan *plan = NULL;
    if (vw_plan_make(truth->model, &truth->settings, &options, &plan) != VW_OK)
        fail_msg("%s: %s", truth->name, vw_last_error());
    return plan;
}

static double error_of(const char *name, const char *what, uint64_t predicted, uint64_t measured)
{
    if (measured == VW_UNKNOWN)
        return 0;
    double error = (double)predicted / (double)measured - 1;
    if (fabs(error) > MOST_ERROR)
        fail_msg("%s: %s is off by %+.2f %%", name, what, 100 * error);
    return error;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void every_peak_is_within_3_percent_and_the_median_within_1(void **state)
{
    const vw_test_truths *truths = *state;
    double *errors = calloc(truths->count, sizeof *errors);
    assert_non_null(errors);
    assert_true(truths->count >= 77);
    for (size_t i = 0; i < truths->count; i++) {
        const vw_test_truth *truth = &truths->cases[i];
        vw_plan *plan = plan_of(truth);
        errors[i] =
            fabs(error_of(truth->name, "the peak", plan->peak_allocated_bytes, truth->peak_bytes));
        vw_plan_free(plan);
    }
    qsort(errors, truths->count, sizeof *errors, by_size);
    assert_true(errors[truths->count / 2] <= MOST_MEDIAN);
    free(errors);
}

/* As it was measured: since the step began, with the gradients of the one before still there. */
static uint64_t forward_peak(const vw_plan *plan)
{
    uint64_t before = plan->after_step_bytes, forward = plan->phase_peaks[0];
    return before != VW_UNKNOWN && before > forward ? before : forward;
}

static void what_is_there_after_the_forward_pass_is_within_3_percent(void **state)
{
    const vw_test_truths *truths = *state;
    for (size_t i = 0; i < truths->count; i++) {
        const vw_test_truth *truth = &truths->cases[i];
        vw_plan *plan = plan_of(truth);
        (void)error_of(truth->name, "after the forward pass", plan->after_forward_bytes,
                       truth->after_forward_bytes);
        if (truth->settings.accumulation == 1)
            (void)error_of(truth->name, "the forward pass's peak", forward_peak(plan),
                           truth->peak_forward_bytes);
        assert_int_equal(plan->parameters, truth->parameters);
        vw_plan_free(plan);
    }
}

/* Fails after a change of the planner, until `make bench-plan` was run. */
static void the_table_of_error_bands_is_that_of_these_cases(void **state)
{
    const double rounding = 0.00001;
    const vw_test_truths *truths = *state;
    assert_int_equal(vw__plan_measured_case_count, truths->count);
    for (size_t i = 0; i < truths->count; i++) {
        const vw_test_truth *truth = &truths->cases[i];
        const vw__plan_measured_case *row = &vw__plan_measured_cases[i];
        vw_plan *plan = plan_of(truth);
        double error = (double)plan->peak_allocated_bytes / (double)truth->peak_bytes - 1;
        assert_string_equal(row->family, truth->model->family->name);
        if (fabs(row->error - error) > rounding)
            fail_msg("%s: the table has %+.5f, it is %+.5f: make bench-plan", truth->name,
                     row->error, error);
        assert_true(plan->has_error_band);
        assert_true(plan->error_low <= error + rounding && error <= plan->error_high + rounding);
        vw_plan_free(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_peak_is_within_3_percent_and_the_median_within_1),
        cmocka_unit_test(what_is_there_after_the_forward_pass_is_within_3_percent),
        cmocka_unit_test(the_table_of_error_bands_is_that_of_these_cases),
    };
    return cmocka_run_group_tests(tests, read_truths, free_truths);
}
