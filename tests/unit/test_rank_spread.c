/* test_rank_spread.c - who is out of line. */
#include "ranks/rank_parts.h"

#include <string.h>

#include "vramwise/analysis.h"
#include "support/cmocka_here.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static const vw__ranks_spread_floor no_floor = {VW_UNKNOWN, 0, 0};

/* How many of the values are out of line. */
static size_t count_out(const uint64_t *values, size_t count, vw__ranks_spread_floor floor)
{
    uint64_t sorted[16];
    size_t out = 0;
    memcpy(sorted, values, count * sizeof *values);
    vw__ranks_spread spread = vw__ranks_spread_of(sorted, count, floor);
    for (size_t i = 0; i < count; i++)
        out += vw__ranks_is_out_of_line(&spread, values[i]);
    return out;
}

static void the_median_is_a_rank_s_own(void **state)
{
    (void)state;
    uint64_t odd[] = {9, 1, 5}, even[] = {9, 1, 5, 7}, one[] = {4};
    assert_int_equal(vw__ranks_spread_of(odd, 3, no_floor).median, 5);
    assert_int_equal(vw__ranks_spread_of(even, 4, no_floor).median, 5);
    assert_int_equal(vw__ranks_spread_of(one, 1, no_floor).median, 4);
    assert_int_equal(vw__ranks_spread_of(NULL, 0, no_floor).median, VW_UNKNOWN);
}

static void one_among_equals_is_out_of_line(void **state)
{
    (void)state;
    const uint64_t values[] = {8 * GIB, 8 * GIB, 8 * GIB, 12 * GIB};
    const uint64_t less[] = {8 * GIB, 8 * GIB, 1 * GIB};
    assert_int_equal(count_out(values, 4, VW__RANKS_SPREAD_OF_PEAKS), 1);
    assert_int_equal(count_out(less, 3, VW__RANKS_SPREAD_OF_PEAKS), 1);
}

static void what_is_below_the_floor_is_not(void **state)
{
    (void)state;
    const uint64_t share[] = {8 * GIB, 8 * GIB, 8 * GIB + 400 * MIB};
    const uint64_t least[] = {10 * MIB, 10 * MIB, 26 * MIB};
    const uint64_t above[] = {10 * MIB, 10 * MIB, 27 * MIB};
    assert_int_equal(count_out(share, 3, VW__RANKS_SPREAD_OF_PEAKS), 0);
    assert_int_equal(count_out(least, 3, VW__RANKS_SPREAD_OF_PEAKS), 0);
    assert_int_equal(count_out(above, 3, VW__RANKS_SPREAD_OF_PEAKS), 1);
    assert_int_equal(count_out(above, 3, VW__RANKS_SPREAD_OF_SITES(2 * GIB)), 0);
    assert_int_equal(count_out(above, 3, VW__RANKS_SPREAD_OF_SITES(1 * GIB)), 1);
}

static void two_halves_are_both_in_line(void **state)
{
    (void)state;
    const uint64_t values[] = {4 * GIB, 4 * GIB, 9 * GIB, 9 * GIB};
    assert_int_equal(count_out(values, 4, VW__RANKS_SPREAD_OF_PEAKS), 0);
}

static void ranks_that_all_differ_are_in_line_within_three_deviations(void **state)
{
    (void)state;
    /* median 40, deviations 0 10 10 20 20 30 and the last: the middle one is 20, the limit 88.9 */
    const uint64_t near[] = {10, 20, 30, 40, 50, 60, 128};
    const uint64_t far[] = {10, 20, 30, 40, 50, 60, 129};
    assert_int_equal(count_out(near, 7, no_floor), 0);
    assert_int_equal(count_out(far, 7, no_floor), 1);
}

static void of_two_only_the_floor_counts(void **state)
{
    (void)state;
    const uint64_t values[] = {1 * GIB, 2 * GIB};
    assert_int_equal(count_out(values, 2, VW__RANKS_SPREAD_OF_SITES(2 * GIB)), 1);
}

static void the_largest_numbers_do_no_harm(void **state)
{
    (void)state;
    const uint64_t values[] = {0, UINT64_MAX - 1, UINT64_MAX - 1, 0, UINT64_MAX - 1};
    assert_int_equal(count_out(values, 5, VW__RANKS_SPREAD_OF_EVENTS), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_median_is_a_rank_s_own),
        cmocka_unit_test(one_among_equals_is_out_of_line),
        cmocka_unit_test(what_is_below_the_floor_is_not),
        cmocka_unit_test(two_halves_are_both_in_line),
        cmocka_unit_test(ranks_that_all_differ_are_in_line_within_three_deviations),
        cmocka_unit_test(of_two_only_the_floor_counts),
        cmocka_unit_test(the_largest_numbers_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
