/* step_trend.h - does memory grow from step to step, for as long as one has looked?
 *
 * A leak grows by about the same amount per step up to the end of the log. Much else grows for a
 * while: warm-up, a cache that fills, the first evaluation, the longest batch so far in a counter
 * that keeps the peak. And load that varies goes up and down without growing at all. The figures
 * that tell them apart are found here; the words are step_log.c's. */
#ifndef HR_DOCTOR_STEP_TREND_H
#define HR_DOCTOR_STEP_TREND_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/doctor.h" /* hr_confidence */
#include "headroom/status.h"

#define HR__TREND_FEWEST_POINTS 6  /* fewer tell nothing */
#define HR__TREND_ENOUGH_POINTS 30 /* that make a verdict firm */

typedef enum hr__trend_kind {
    HR__TREND_TOO_SHORT, /* fewer than HR__TREND_FEWEST_POINTS */
    HR__TREND_FLAT,      /* nothing changes beyond what is written down */
    HR__TREND_VARIES,    /* up and down, about a level */
    HR__TREND_SETTLED,   /* grew, and then stayed */
    HR__TREND_SLOWING,   /* still grows at the end, but ever less */
    HR__TREND_FALLS,
    HR__TREND_GROWS /* sustained, up to the end */
} hr__trend_kind;

typedef struct hr__trend {
    hr__trend_kind kind;
    hr_confidence confidence;
    double bytes_per_step;       /* over the later two thirds, warm-up left out */
    double last_bytes_per_step;  /* over the last third */
    double from_step, to_step;   /* as written: of the part that was judged, warm-up left out */
    double from_bytes, to_bytes; /* the levels there: medians of a twelfth of it */
    double grown_bytes;          /* to - from; 0 where it fell */
    double noise_bytes;          /* spread about the trend, robust: as a standard deviation */
    double strength;             /* growth per step in units of its own uncertainty */
    double settled_step;         /* SETTLED: from where on it stayed, about */
    double settled_share;        /* the same, as a share of the part that was judged */
    double last_step;            /* of the log, as written */
    size_t point_count;
    bool never_falls;
    bool may_grow;     /* not GROWS, but growth is there that the noise may hide */
    bool has_restarts; /* the numbers of the steps began again: epochs */
} hr__trend;

/* `steps` and `bytes` in the order of the log, finite. `is_peak`: the figures are a counter that
 * keeps its peak. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__step_trend_find(const double *steps, const double *bytes, size_t count,
                                            bool is_peak, hr__trend *out);

#endif /* HR_DOCTOR_STEP_TREND_H */
