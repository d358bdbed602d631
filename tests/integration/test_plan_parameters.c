/* test_plan_parameters.c - model code makes exactly as many parameters as the classes of
 * transformers do from the same configuration. */
#include "vramwise/plan.h"

#include "plan/plan_run.h"
#include "support/cmocka_here.h"
#include "support/plan_truth.h"

static int read_truths(void **state)
{
    static vw_test_truths truths;
    *state = &truths;
    return vw_test_read_truth_files(VW_TEST_DATA "/plan_parameters/*.jsonl", &truths) ? 0 : -1;
}

static int free_truths(void **state)
{
    vw_test_free_truths(*state);
    return 0;
}

static void every_count_is_that_of_the_real_class(void **state)
{
    const vw_test_truths *truths = *state;
    assert_true(truths->count >= 60);
    for (size_t i = 0; i < truths->count; i++) {
        const vw_test_truth *truth = &truths->cases[i];
        vw__plan_peaks peaks;
        if (vw__plan_simulate(truth->model, &truth->settings, NULL, &peaks, NULL) != VW_OK)
            fail_msg("%s: %s", truth->name, vw_last_error());
        if (peaks.parameters != truth->parameters)
            fail_msg("%s: %llu parameters, and not %llu", truth->name,
                     (unsigned long long)peaks.parameters, (unsigned long long)truth->parameters);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_is_that_of_the_real_class),
    };
    return cmocka_run_group_tests(tests, read_truths, free_truths);
}
