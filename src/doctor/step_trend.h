/* step_trend.h - does memory grow from step to step, for as long as one has looked?
 *
 * A leak grows by about the same amount per step up to the end of the log. Much else grows for a
 * while: warm-up, a cache that fills, the first evaluation, the longest batch so far in a counter
 * that keeps the peak. And load that varies goes up and down without growing at all. The figures
 * that tell them apart are found here; the words are step_log.c's. */
#ifndef VW_DOCTOR_STEP_TREND_H
#define VW_DOCTOR_STEP_TREND_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/doctor.h" /* vw_confidence */
#include "vramwise/status.h"

#define VW__TREND_FEWEST_POINTS 6  /* fewer tell nothing */
#define VW__TREND_ENOUGH_POINTS 30 /* that make a verdict firm */

typedef enum vw__trend_kind {
    VW__TREND_TOO_SHORT, /* fewer than VW__TREND_FEWEST_POINTS */
    VW__TREND_FLAT,      /* nothing changes beyond what is written down */
    VW__TREND_VARIES,    /* up and down, about a level */
    VW__TREND_SETTLED,   /* grew, and then stayed */
    VW__TREND_SLOWING,   /* still grows at the end, but ever less */
    VW__TREND_FALLS,
    VW__TREND_GROWS /* sustained, up to the end */
} vw__trend_kind;

typedef struct vw__trend {
    vw__trend_kind kind;
    vw_confidence confidence;
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
} vw__trend;

/* `steps` and `bytes` in the order of the log, finite. `is_peak`: the figures are a counter that
 * keeps its peak. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__step_trend_find(const double *steps, const double *bytes, size_t count,
                                            bool is_peak, vw__trend *out);

#endif /* VW_DOCTOR_STEP_TREND_H */
