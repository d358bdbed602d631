/* test_remedy_table.c - each row says all there is to say, and its words agree with its numbers. */
#include <stdio.h>
#include <string.h>

#include "remedy/remedy.h"
#include "support/cmocka_here.h"

static void each_remedy_says_what_to_do_and_what_it_costs(void **state)
{
    (void)state;
    for (unsigned id = 0; id < VW__REMEDY_COUNT; id++) {
        const vw__remedy *remedy = vw__remedy_of((vw__remedy_id)id);
        assert_non_null(remedy->action);
        assert_non_null(remedy->cost);
        assert_null(strchr(remedy->action, '\n'));
        assert_null(strchr(remedy->cost, '\n'));
        assert_null(strchr(remedy->cost, '$'));
        assert_true(remedy->code != NULL || id == VW__REMEDY_SPILL); /* a command with its size */
    }
}

static void a_slowdown_has_a_source_and_the_cost_has_its_figure(void **state)
{
    (void)state;
    for (unsigned id = 0; id < VW__REMEDY_COUNT; id++) {
        const vw__remedy *remedy = vw__remedy_of((vw__remedy_id)id);
        char figure[32];
        assert_int_equal(remedy->slowdown != 0, remedy->source != NULL);
        if (remedy->slowdown > 1) {
            (void)snprintf(figure, sizeof figure, "about %.0f %% more time",
                           100 * (remedy->slowdown - 1));
            assert_int_equal(strncmp(remedy->cost, figure, strlen(figure)), 0);
        } else if (remedy->slowdown > 0) {
            assert_int_equal(strncmp(remedy->cost, "none", strlen("none")), 0);
        } else {
            assert_null(strchr(remedy->cost, '%'));
        }
    }
}

static void what_a_remedy_needs_is_part_of_its_cost(void **state)
{
    (void)state;
    for (unsigned id = 0; id < VW__REMEDY_COUNT; id++) {
        const vw__remedy *remedy = vw__remedy_of((vw__remedy_id)id);
        const char *needs = strstr(remedy->cost, "; needs ");
        assert_int_equal(needs != NULL, remedy->needs != NULL);
        if (needs != NULL)
            assert_string_equal(needs + strlen("; needs "), remedy->needs);
    }
}

static void shares_are_ranges_of_a_whole(void **state)
{
    (void)state;
    for (unsigned id = 0; id < VW__REMEDY_COUNT; id++) {
        const vw__remedy *remedy = vw__remedy_of((vw__remedy_id)id);
        assert_true(remedy->of_live.least_permille <= remedy->of_live.most_permille);
        assert_true(remedy->of_live.most_permille <= 1000);
        for (size_t i = 0; i < VW__PORTION_COUNT; i++) {
            assert_true(remedy->of_portion[i].least_permille <=
                        remedy->of_portion[i].most_permille);
            assert_true(remedy->of_portion[i].most_permille <= 1000);
            if (remedy->of_portion[i].most_permille != 0)
                assert_true(remedy->worth_percent != 0);
        }
    }
}

/* Labels of -100 are masked. A mean over all of them, masked or not, is another loss. */
static void the_loss_in_chunks_is_divided_by_the_labels_that_count(void **state)
{
    (void)state;
    const char *code = vw__remedy_of(VW__REMEDY_CHUNKED_LOSS)->code;
    assert_non_null(strstr(code, "reduction=\"sum\""));
    assert_non_null(strstr(code, "/ (labels != -100).sum()"));
    assert_null(strstr(code, "numel"));
}

static void the_cache_is_emptied_between_phases_only(void **state)
{
    (void)state;
    const vw__remedy *remedy = vw__remedy_of(VW__REMEDY_EMPTY_CACHE);
    assert_non_null(strstr(remedy->action, "between phases, never inside the loop"));
    assert_non_null(strstr(remedy->code, "never inside the loop"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_remedy_says_what_to_do_and_what_it_costs),
        cmocka_unit_test(a_slowdown_has_a_source_and_the_cost_has_its_figure),
        cmocka_unit_test(what_a_remedy_needs_is_part_of_its_cost),
        cmocka_unit_test(shares_are_ranges_of_a_whole),
        cmocka_unit_test(the_loss_in_chunks_is_divided_by_the_labels_that_count),
        cmocka_unit_test(the_cache_is_emptied_between_phases_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
