/* rank_spread.h - who is out of line: the one rule, for peaks, events and lines of the program.
 *
 * Ranks of one job do the same work, so most of them are alike, and the few that are not are what
 * to look at. Means do not help: one rank with twice the memory moves them. So:
 *
 *   median     of the values; of two in the middle the lower, so that it is a rank's own
 *   deviation  the median of |value - median|; of two in the middle the higher, so that where half
 *              of the ranks hold one amount and half another (two stages of a pipeline) neither
 *              half is out of line
 *   limit      3 x 1.4826 x deviation (three standard deviations, were they spread normally), but
 * no less than a floor, since equal ranks have no deviation and still differ by a little
 *
 * A value is out of line if it lies further from the median than the limit. With fewer than three
 * values there is no telling which is the odd one: the deviation is 0, and who asks about ranks
 * asks only from VW__SPREAD_FEWEST on. Two ranks can still be held against each other, line by
 * line.
 *
 *   floors   peaks: a twentieth of the median, and 16 MiB    events: a fifth, and 1000
 *            lines of the program: a hundredth of the median peak of live bytes, and 4 MiB */
#ifndef VW_RANKS_RANK_SPREAD_H
#define VW_RANKS_RANK_SPREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VW__SPREAD_FEWEST = 3 };

typedef struct vw__spread {
    size_t count;
    uint64_t median; /* VW_UNKNOWN without values */
    double limit;
} vw__spread;

typedef struct vw__spread_floor {
    uint64_t share_of; /* VW_UNKNOWN: of the median */
    double share;
    double least;
} vw__spread_floor;

#define VW__SPREAD_OF_PEAKS ((vw__spread_floor){VW_UNKNOWN, 0.05, 16.0 * 1024 * 1024})
#define VW__SPREAD_OF_EVENTS ((vw__spread_floor){VW_UNKNOWN, 0.2, 1000})
#define VW__SPREAD_OF_SITES(peak_bytes) ((vw__spread_floor){(peak_bytes), 0.01, 4.0 * 1024 * 1024})

/* Sorts `values`; none of them is VW_UNKNOWN. */
vw__spread vw__spread_of(uint64_t *values, size_t count, vw__spread_floor floor);

bool vw__is_out_of_line(const vw__spread *spread, uint64_t value);

#endif /* VW_RANKS_RANK_SPREAD_H */
