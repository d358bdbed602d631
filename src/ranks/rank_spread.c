/* rank_spread.c - see rank_spread.h. */
#include "ranks/rank_spread.h"

#include <stdlib.h> /* qsort */

#include "vramwise/analysis.h" /* VW_UNKNOWN */

static const double limit_per_deviation = 3 * 1.4826;

static int compare_values(const void *left, const void *right)
{
    uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right;
    return (one > other) - (one < other);
}

static uint64_t distance(uint64_t one, uint64_t other)
{
    return one > other ? one - other : other - one;
}

/* The upper median of the distances. Sorted values have them in two rising runs, from the median
 * outwards, which are walked side by side. */
static uint64_t deviation_of(const uint64_t *values, size_t count, uint64_t median)
{
    size_t below = 0, above;
    while (below < count && values[below] < median)
        below++;
    above = below;
    uint64_t last = 0;
    for (size_t taken = 0; taken <= count / 2; taken++) {
        bool takes_below =
            below > 0 && (above == count || median - values[below - 1] < values[above] - median);
        last = takes_below ? median - values[--below] : values[above++] - median;
    }
    return last;
}

vw__spread vw__spread_of(uint64_t *values, size_t count, vw__spread_floor floor)
{
    if (count == 0)
        return (vw__spread){0, VW_UNKNOWN, 0};
    qsort(values, count, sizeof *values, compare_values);
    vw__spread spread = {.count = count, .median = values[(count - 1) / 2]};
    if (count >= VW__SPREAD_FEWEST)
        spread.limit = limit_per_deviation * (double)deviation_of(values, count, spread.median);
    double share =
        floor.share * (double)(floor.share_of != VW_UNKNOWN ? floor.share_of : spread.median);
    if (spread.limit < share)
        spread.limit = share;
    if (spread.limit < floor.least)
        spread.limit = floor.least;
    return spread;
}

bool vw__is_out_of_line(const vw__spread *spread, uint64_t value)
{
    return spread->count != 0 && (double)distance(value, spread->median) > spread->limit;
}
