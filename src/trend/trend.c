/* trend.c - tells a leak from everything else that grows.
 *
 * The log is cut into cells of equal numbers of points, and each cell counts with its median:
 * single spikes (an evaluation, a long batch) drop out, and the work is bounded. The first tenth is
 * warm-up and is not judged. The rest is a leak if all of this holds. Each test is one that some
 * kind of healthy run fails:
 *
 *   it grows          Theil-Sen's slope over the later two thirds is positive, and several times
 *                     its own uncertainty. That comes from the residuals' median deviation, from
 *                     their correlation with the one before (load that wanders makes many points
 *                     tell as little as few), and from the fineness of the figures. Fails: load
 *                     that varies, sawteeth, wandering.
 *   to the end        each of those two thirds grows by itself, and the last at no less than half
 *                     the pace of the one before. Fails: warm-up, caches that fill, linear or ever
 *                     slower.
 *   step after step   cut into twelfths, no jump or two from one to the next hold most of the
 *                     growth. Fails: a level that changed.
 *   to a new high     the last twelfth is the highest. Fails: a wave that happens to rise.
 *
 * VW__TREND_COUNTED is for blocks that came and stayed, counted one by one. Nothing in such a
 * series is noise, so a leak of every tenth step is as certain as one of every step. What is left
 * of the rule: it rises in each third, and in the last at no less than a quarter of the average
 * pace.
 *
 * VW__TREND_FIRM is for a log that is judged again and again while it grows: from its first steps
 * on, a cache that has only begun to fill looks like a leak. It asks for more, all of it:
 *
 *   certain           the confidence is high
 *   for long          it was so when the log was half as long, too
 *   at its pace       the pace has not fallen since. What fills a cache slows down: growth as the
 *                     logarithm or the root of the steps has 1/2 or 0.7 of its pace left after as
 *                     many steps again
 *
 * A leak may begin late, after the first evaluation say. So where the whole log does not grow, its
 * later half and its last quarter are judged by themselves, at either strictness as VW__TREND_FIRM:
 * but not where the whole log grows ever more slowly, since a short piece of a curve is a line.
 * Hence whatever is firm grows at VW__TREND_PLAIN as well: the guard of a run never warns of a leak
 * that the doctor denies. What grows evenly for sixty steps and stops later (a buffer of
 * experiences that fills, a long epoch sorted by length) looks like a leak to anybody who sees
 * bytes only.
 *
 * A counter that keeps its peak needs no rule of its own: the peak of n random loads is exceeded
 * ever more rarely, about ln 2 times in the next n, so its stairs slow down, and stairs are
 * correlated. But a leak can hide in one for long: where it rose in the last third, nobody is sure.
 *
 * No threshold is in bytes: all are ratios of the log's own figures. The constants were chosen on
 * simulated logs, of the kinds in tests/unit/test_doctor_steps_simulated.c, not on recorded ones.
 */
#include "trend/trend.h"

#include <stdint.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

enum {
    MOST_CELLS = 240,
    MOST_WINDOWS = 12,
    FEW_CELLS = 8 /* below which correlation means nothing */
};

#define DEVIATION_PER_MEDIAN 1.4826 /* of a normal distribution */
#define LEAST_STRENGTH 4.0          /* a chance of millions, and we look at many logs */
#define LEAST_OF_THIRD 1.5
#define LEAST_PACE 0.5  /* of the last third, to the one before */
#define MOST_SHARE 0.4  /* of the growth in one jump */
#define MOST_OF_TWO 0.7 /* and in two */
#define MOST_CORRELATION 0.95
#define LEAST_COUNTED_PACE 0.25 /* of the last third, to the average */
#define LEAST_FIRM_PACE 0.85    /* of the whole log, to its first half */
#define LEAST_ADVANCE 1e-6      /* between two steps; smaller ones are the same step */

typedef struct cell {
    double x, y;
} cell;

typedef struct trend_work {
    double *x;       /* owned: steps without restarts, by point */
    double *scratch; /* owned: MOST_CELLS^2 / 2, or the points */
    cell cells[MOST_CELLS];
    size_t cell_count;
    size_t first;                 /* cell that is judged: warm-up left out */
    double windows[MOST_WINDOWS]; /* medians, of what is judged */
    size_t window_count;
} trend_work;

/* ---- numbers --------------------------------------------------------------------------------- */

static int compare_doubles(const void *left, const void *right)
{
    const double *one = left, *other = right;
    return (*one > *other) - (*one < *other);
}

static void swap(double *one, double *other)
{
    double kept = *one;
    *one = *other;
    *other = kept;
}

/* Puts the value that sorting would put at `rank` there, none that is larger before it, and none
 * that is smaller behind. Each round parts what is left in less, equal and more; where rounds do
 * not get on, sorting does. */
static void select_rank(double *values, size_t count, size_t rank)
{
    enum { MOST_ROUNDS = 64 };
    size_t begin = 0, end = count;
    for (int i = 0; i < MOST_ROUNDS && end - begin > 1; i++) {
        double pivot = values[begin + (end - begin) / 2];
        size_t less = begin, next = begin, more = end;
        while (next < more) {
            if (values[next] < pivot)
                swap(&values[less++], &values[next++]);
            else if (values[next] > pivot)
                swap(&values[next], &values[--more]);
            else
                next++;
        }
        if (rank >= less && rank < more)
            return;
        begin = rank >= more ? more : begin;
        end = rank < less ? less : end;
    }
    qsort(values + begin, end - begin, sizeof *values, compare_doubles);
}

/* Changes the order of `values`. A line has ten thousand slopes, and is asked for at every look at
 * a running job: sorting them would take most of the time. */
static double median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    select_rank(values, count, count / 2);
    if (count % 2 != 0)
        return values[count / 2];
    double below = values[0];
    for (size_t i = 1; i < count / 2; i++)
        below = values[i] > below ? values[i] : below;
    return (below + values[count / 2]) / 2;
}

static double absolute(double value)
{
    return value < 0 ? -value : value;
}

/* Newton's: the library keeps clear of libm. `value` is not negative. */
static double square_root(double value)
{
    double root = value > 1 ? value : 1;
    for (int i = 0; i < 1100 && root * root > value; i++) {
        double next = (root + value / root) / 2;
        if (!(next < root))
            break;
        root = next;
    }
    return value > 0 ? root : 0;
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Steps that begin again go on from where they were, by the usual distance. Where they do not
 * advance at all, or by next to nothing, lines are counted instead: slopes must be finite. */
static void unroll_steps(const double *steps, size_t count, trend_work *work, vw__trend *out)
{
    size_t rise_count = 0;
    for (size_t i = 1; i < count; i++)
        if (steps[i] > steps[i - 1])
            work->scratch[rise_count++] = steps[i] - steps[i - 1];
    double usual = median(work->scratch, rise_count);
    bool is_usable = usual >= LEAST_ADVANCE;
    usual = is_usable ? usual : 1;
    work->x[0] = 0;
    for (size_t i = 1; i < count; i++) {
        double rise = steps[i] - steps[i - 1];
        out->has_restarts = out->has_restarts || rise < 0;
        if (!is_usable || rise < 0)
            rise = usual;
        work->x[i] = work->x[i - 1] + (rise >= usual * LEAST_ADVANCE ? rise : 0);
    }
}

static void make_cells(const double *bytes, size_t count, trend_work *work)
{
    size_t cell_count = count < MOST_CELLS ? count : MOST_CELLS;
    for (size_t i = 0; i < cell_count; i++) {
        size_t begin = i * count / cell_count, end = (i + 1) * count / cell_count;
        memcpy(work->scratch, bytes + begin, (end - begin) * sizeof *bytes);
        work->cells[i].y = median(work->scratch, end - begin);
        work->cells[i].x = (work->x[begin] + work->x[end - 1]) / 2;
    }
    work->cell_count = cell_count;
    work->first = cell_count / 10 != 0 ? cell_count / 10 : 1;
}

static double median_of_cells(trend_work *work, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        work->scratch[i - begin] = work->cells[i].y;
    return median(work->scratch, end - begin);
}

static void make_windows(trend_work *work)
{
    size_t judged = work->cell_count - work->first;
    work->window_count = judged < MOST_WINDOWS ? judged : MOST_WINDOWS;
    for (size_t i = 0; i < work->window_count; i++)
        work->windows[i] = median_of_cells(work, work->first + i * judged / work->window_count,
                                           work->first + (i + 1) * judged / work->window_count);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* A line through cells [begin, end), and how well it is known. */
typedef struct line {
    double slope;
    double noise;    /* of the cells about it */
    double strength; /* slope over its uncertainty */
} line;

static double slope_of(trend_work *work, size_t begin, size_t end)
{
    size_t count = 0;
    for (size_t i = begin; i < end; i++)
        for (size_t j = i + 1; j < end; j++)
            if (work->cells[j].x > work->cells[i].x)
                work->scratch[count++] =
                    (work->cells[j].y - work->cells[i].y) / (work->cells[j].x - work->cells[i].x);
    return median(work->scratch, count);
}

/* The smallest difference between two figures: what is written down is no finer. */
static double fineness(trend_work *work, size_t begin, size_t end)
{
    double least = 0;
    for (size_t i = begin; i < end; i++)
        work->scratch[i - begin] = work->cells[i].y;
    qsort(work->scratch, end - begin, sizeof *work->scratch, compare_doubles);
    for (size_t i = 1; i < end - begin; i++) {
        double difference = work->scratch[i] - work->scratch[i - 1];
        if (difference > 0 && (least == 0 || difference < least))
            least = difference;
    }
    return least;
}

/* How much of a residual is left in the next one, 0 to MOST_CORRELATION. */
static double correlation_of(const double *residuals, size_t count)
{
    double product = 0, square = 0;
    if (count < FEW_CELLS)
        return 0;
    for (size_t i = 0; i < count; i++) {
        square += residuals[i] * residuals[i];
        product += i != 0 ? residuals[i] * residuals[i - 1] : 0;
    }
    double correlation = square > 0 ? product / square : 0;
    correlation += (1 + 4 * correlation) / (double)count; /* short series hide it */
    if (correlation < 0)
        return 0;
    return correlation < MOST_CORRELATION ? correlation : MOST_CORRELATION;
}

static line line_through(trend_work *work, size_t begin, size_t end)
{
    double residuals[MOST_CELLS];
    size_t count = end - begin;
    line found = {.slope = slope_of(work, begin, end)};
    double mean_x = 0, square_x = 0;
    for (size_t i = 0; i < count; i++) {
        residuals[i] = work->cells[begin + i].y - found.slope * work->cells[begin + i].x;
        mean_x += work->cells[begin + i].x / (double)count;
    }
    memcpy(work->scratch, residuals, count * sizeof *residuals);
    double level = median(work->scratch, count);
    for (size_t i = 0; i < count; i++) {
        double from_mean = work->cells[begin + i].x - mean_x;
        square_x += from_mean * from_mean;
        residuals[i] -= level;
        work->scratch[i] = absolute(residuals[i]);
    }
    found.noise = DEVIATION_PER_MEDIAN * median(work->scratch, count);
    double fine = fineness(work, begin, end);
    double correlation = correlation_of(residuals, count);
    double variance = found.noise * found.noise * (1 + correlation) / (1 - correlation);
    variance += fine * fine / 12; /* of rounding */
    if (found.slope != 0 && variance > 0)
        found.strength = found.slope * square_root(square_x / variance);
    return found;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* Do one or two jumps from a window to the next hold most of the growth of the later two thirds? In
 * an even rise of few windows each holds much. */
static bool is_by_jumps(const trend_work *work)
{
    size_t begin = work->window_count / 3;
    double growth = work->windows[work->window_count - 1] - work->windows[begin];
    double even_share = 1 / (double)(work->window_count - 1 - begin);
    double most = 0, second = 0;
    for (size_t i = begin + 1; i < work->window_count; i++) {
        double jump = work->windows[i] - work->windows[i - 1];
        if (jump > most) {
            second = most;
            most = jump;
        } else if (jump > second) {
            second = jump;
        }
    }
    double limit_of_one = 1.5 * even_share > MOST_SHARE ? 1.5 * even_share : MOST_SHARE;
    double limit_of_two = 2.5 * even_share > MOST_OF_TWO ? 2.5 * even_share : MOST_OF_TWO;
    return most > limit_of_one * growth || most + second > limit_of_two * growth;
}

static bool ends_at_its_highest(const trend_work *work, double noise)
{
    for (size_t i = 0; i + 1 < work->window_count; i++)
        if (work->windows[i] > work->windows[work->window_count - 1] + noise)
            return false;
    return true;
}

static bool never_falls(const double *bytes, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (bytes[i] < bytes[i - 1])
            return false;
    return true;
}

/* The share of the judged part after which all is near the level of its end: within the noise, or
 * a tenth of the rise. */
static double share_before_it_settled(const trend_work *work, double level, double noise,
                                      double rise)
{
    size_t at = work->window_count - 1;
    double near = 2 * noise > rise / 10 ? 2 * noise : rise / 10;
    while (at > 0 && absolute(work->windows[at - 1] - level) <= near)
        at--;
    return (double)at / (double)work->window_count;
}

/* A leak must stand far out of the noise to be certain, and a healthy run must have no growth at
 * all in it that noise could hide. */
static vw_confidence confidence_of(const vw__trend *trend)
{
    bool is_long = trend->point_count >= VW__TREND_ENOUGH_POINTS;
    bool is_clear =
        trend->kind == VW__TREND_GROWS ? trend->strength >= 2 * LEAST_STRENGTH : !trend->may_grow;
    if (trend->kind == VW__TREND_SLOWING || trend->kind == VW__TREND_TOO_SHORT)
        return VW_CONFIDENCE_LOW;
    if (is_long)
        return is_clear ? VW_CONFIDENCE_HIGH : VW_CONFIDENCE_MEDIUM;
    return is_clear && 2 * trend->point_count >= VW__TREND_ENOUGH_POINTS ? VW_CONFIDENCE_MEDIUM
                                                                         : VW_CONFIDENCE_LOW;
}

/* The lines of what is judged, and what it came to. */
typedef struct judgement {
    line late, before, last; /* the later two thirds, and each of them */
    double level;            /* of the last third */
    double rise;             /* to it from the very first cell */
} judgement;

static vw__trend_kind kind_of(const trend_work *work, const judgement *made)
{
    bool is_even_to_a_high = !is_by_jumps(work) && ends_at_its_highest(work, made->late.noise) &&
                             made->before.strength >= LEAST_OF_THIRD &&
                             made->last.strength >= LEAST_OF_THIRD;
    bool keeps_its_pace = made->last.slope >= LEAST_PACE * made->before.slope;
    if (is_even_to_a_high && keeps_its_pace && made->late.strength >= LEAST_STRENGTH)
        return VW__TREND_GROWS;
    if (is_even_to_a_high && !keeps_its_pace && made->last.strength >= LEAST_STRENGTH)
        return VW__TREND_SLOWING;
    if (made->late.strength <= -LEAST_STRENGTH)
        return VW__TREND_FALLS;
    if (made->rise > 3 * made->late.noise)
        return VW__TREND_SETTLED;
    return made->late.noise == 0 ? VW__TREND_FLAT : VW__TREND_VARIES;
}

static void judge(trend_work *work, const vw__trend_series *series, vw__trend *out)
{
    size_t judged = work->cell_count - work->first;
    size_t middle = work->first + judged / 3, end = work->first + 2 * judged / 3;
    judgement made = {
        .late = line_through(work, middle, work->cell_count),
        .before = line_through(work, middle, end),
        .last = line_through(work, end, work->cell_count),
        .level = median_of_cells(work, end, work->cell_count),
    };
    made.rise = made.level - work->cells[0].y;
    out->kind = kind_of(work, &made);
    out->bytes_per_step = made.late.slope;
    out->last_bytes_per_step = made.last.slope;
    out->noise_bytes = made.late.noise;
    out->strength = made.late.strength;
    out->settled_share =
        share_before_it_settled(work, made.level, made.late.noise, absolute(made.rise));
    const double *bytes = series->bytes;
    size_t count = series->count;
    bool is_kept = series->is_peak || out->never_falls;
    bool is_hidden = is_kept ? bytes[count - 1] > bytes[count - 1 - count / 3]
                             : made.last.slope > 0 && made.late.strength > LEAST_STRENGTH / 2;
    out->may_grow = out->kind != VW__TREND_GROWS && is_hidden;
}

/* Medians of the first and the last twelfth are eleven twelfths apart. An end that is far from what
 * they say is a spike, an evaluation say: it did not grow so far. */
static double grown_bytes(const trend_work *work, double as_written)
{
    double count = (double)work->window_count;
    if (work->window_count < 2)
        return as_written > 0 ? as_written : 0;
    double steady =
        (work->windows[work->window_count - 1] - work->windows[0]) * count / (count - 1);
    steady = steady > 0 ? steady : 0;
    return as_written >= steady / 2 && as_written <= steady * 2 ? as_written : steady;
}

/* Judges one log, or a part of one, which has a point at least. */
static vw__trend trend_of(trend_work *work, const vw__trend_series *series)
{
    const double *steps = series->steps, *bytes = series->bytes;
    size_t count = series->count;
    vw__trend found = {.point_count = count, .kind = VW__TREND_TOO_SHORT};
    unroll_steps(steps, count, work, &found);
    make_cells(bytes, count, work);
    found.never_falls = never_falls(bytes, count);
    size_t first = work->first * count / work->cell_count; /* point that is judged */
    first = first < count ? first : count - 1;
    found.from_step = steps[first];
    found.from_bytes = bytes[first];
    found.to_step = steps[count - 1];
    found.to_bytes = bytes[count - 1];
    make_windows(work);
    if (work->window_count != 0)
        found.level_bytes = work->windows[work->window_count - 1];
    found.grown_bytes = grown_bytes(work, found.to_bytes - found.from_bytes);
    if (count >= VW__TREND_FEWEST_POINTS) {
        judge(work, series, &found);
        found.settled_step = steps[first + (size_t)(found.settled_share * (double)(count - first))];
    }
    found.confidence = confidence_of(&found);
    return found;
}

static bool is_certain(const vw__trend *trend)
{
    return trend->kind == VW__TREND_GROWS && trend->confidence == VW_CONFIDENCE_HIGH;
}

typedef enum firmness { NOT_FIRM, LOSES_PACE, FIRM } firmness;

/* `whole`: the trend of the series. */
static firmness firmness_of(trend_work *work, vw__trend_series series, const vw__trend *whole)
{
    if (whole->kind == VW__TREND_SLOWING)
        return LOSES_PACE;
    if (!is_certain(whole))
        return NOT_FIRM;
    series.count /= 2;
    vw__trend half = trend_of(work, &series);
    if (!is_certain(&half))
        return NOT_FIRM;
    return whole->bytes_per_step >= LEAST_FIRM_PACE * half.bytes_per_step ? FIRM : LOSES_PACE;
}

/* The later half or the last quarter, if one of them is firm by itself. */
static bool find_late_growth(trend_work *work, const vw__trend_series *series, vw__trend *out)
{
    for (size_t parts = 2; parts <= 4; parts *= 2) {
        size_t first = series->count - series->count / parts;
        vw__trend_series late = {series->steps + first, series->bytes + first,
                                 series->count - first, series->is_peak};
        if (late.count < VW__TREND_ENOUGH_POINTS)
            return false;
        vw__trend found = trend_of(work, &late);
        if (firmness_of(work, late, &found) == FIRM) {
            *out = found;
            out->first_point = first;
            return true;
        }
    }
    return false;
}

static vw__trend find(trend_work *work, const vw__trend_series *series,
                      vw__trend_strictness strictness)
{
    vw__trend whole = trend_of(work, series), late;
    bool grows = whole.kind == VW__TREND_GROWS;
    if (grows && strictness == VW__TREND_PLAIN)
        return whole;
    firmness firm = firmness_of(work, *series, &whole);
    if (firm == FIRM)
        return whole;
    if (firm == NOT_FIRM && find_late_growth(work, series, &late)) {
        late.has_restarts |= whole.has_restarts;
        return late;
    }
    if (grows)
        whole.kind = VW__TREND_TOO_SHORT; /* to be firm */
    return whole;
}

/* Needs no host memory. */
static vw__trend counted_trend(const vw__trend_series *series)
{
    size_t count = series->count, last = count - 1, rises[3] = {0};
    const double *steps = series->steps, *bytes = series->bytes;
    double grown[3] = {0};
    vw__trend found = {
        .point_count = count,
        .never_falls = never_falls(bytes, count),
        .from_step = steps[0],
        .from_bytes = bytes[0],
        .to_step = steps[last],
        .to_bytes = bytes[last],
        .grown_bytes = bytes[last] > bytes[0] ? bytes[last] - bytes[0] : 0,
        .level_bytes = bytes[last],
    };
    for (size_t i = 1; i < count; i++) {
        size_t third = (i - 1) * 3 / last;
        rises[third] += bytes[i] > bytes[i - 1];
        grown[third] += bytes[i] - bytes[i - 1];
    }
    double whole = grown[0] + grown[1] + grown[2];
    found.rise_count = rises[0] + rises[1] + rises[2];
    found.fewest_rises = rises[0] < rises[1] ? rises[0] : rises[1];
    found.fewest_rises = rises[2] < found.fewest_rises ? rises[2] : found.fewest_rises;
    if (steps[last] > steps[0])
        found.bytes_per_step = whole / (steps[last] - steps[0]);
    if (count < VW__TREND_FEWEST_COUNTED)
        found.kind = VW__TREND_TOO_SHORT;
    else if (found.fewest_rises > 0 && grown[2] >= LEAST_COUNTED_PACE * whole / 3 && whole > 0)
        found.kind = VW__TREND_GROWS;
    else
        found.kind = whole > 0 ? VW__TREND_SETTLED : whole < 0 ? VW__TREND_FALLS : VW__TREND_FLAT;
    return found;
}

vw_status vw__trend_find(const vw__trend_series *series, vw__trend_strictness strictness,
                         vw__trend *out)
{
    size_t scratch_count = MOST_CELLS * MOST_CELLS / 2;
    if (series->count == 0) {
        *out = (vw__trend){.kind = VW__TREND_TOO_SHORT};
        return VW_OK;
    }
    if (strictness == VW__TREND_COUNTED) {
        *out = counted_trend(series);
        return VW_OK;
    }
    scratch_count = series->count > scratch_count ? series->count : scratch_count;
    trend_work *work = vw__host_alloc_zeroed(1, sizeof *work);
    double *x = vw__host_alloc_zeroed(series->count, sizeof *x);
    double *scratch =
        vw__host_alloc(scratch_count * sizeof *scratch); /* written before it is read */
    vw_status status = VW_OK;
    if (work == NULL || x == NULL || scratch == NULL) {
        status = vw__fail_host_memory(scratch_count * sizeof *scratch, "the trend of a step log");
    } else {
        work->x = x;
        work->scratch = scratch;
        *out = find(work, series, strictness);
    }
    vw__host_free(scratch);
    vw__host_free(x);
    vw__host_free(work);
    return status;
}
