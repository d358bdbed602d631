/* trend.h - does a series of sizes grow from step to step, up to its end?
 *
 * The one rule of growth: the doctor asks it for logs of steps and for recordings, `top` and the
 * metrics for running jobs, the leak guard of `vramwise run` with more strictness, the report for
 * each rank. The page shows what it is given.
 *
 * A leak grows by about the same amount per step up to the end. Much else grows for a while:
 * warm-up, a cache that fills, the first evaluation, the longest batch so far in a counter that
 * keeps the peak. And load that varies goes up and down without growing at all. trend.c has the
 * rule. */
#ifndef VW_TREND_TREND_H
#define VW_TREND_TREND_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/doctor.h" /* vw_confidence */
#include "vramwise/status.h"

#define VW__TREND_FEWEST_POINTS 6  /* fewer tell nothing */
#define VW__TREND_FEWEST_COUNTED 4 /* of VW__TREND_COUNTED: a rise in each third */
#define VW__TREND_ENOUGH_POINTS 30 /* that make a verdict firm */

typedef enum vw__trend_strictness {
    VW__TREND_COUNTED, /* blocks that stay were counted: no noise can look like growth, so uneven
                          rises will do. The caller leaves the warm-up out. */
    VW__TREND_PLAIN,   /* judged once: a log that has ended, a job that somebody looks at */
    VW__TREND_FIRM     /* judged again and again, unasked: growth must be certain, and have been for
                          half the log at the same pace. A series that is firm is plain growth, too. */
} vw__trend_strictness;

typedef enum vw__trend_kind {
    VW__TREND_TOO_SHORT, /* fewer than VW__TREND_FEWEST_POINTS; or grows, but is not yet firm */
    VW__TREND_FLAT,      /* nothing changes beyond what is written down */
    VW__TREND_VARIES,    /* up and down, about a level */
    VW__TREND_SETTLED,   /* grew, and then stayed */
    VW__TREND_SLOWING,   /* still grows at the end, but ever less */
    VW__TREND_FALLS,
    VW__TREND_GROWS /* sustained, up to the end */
} vw__trend_kind;

/* Borrowed. In the order of the log, finite. */
typedef struct vw__trend_series {
    const double *steps, *bytes;
    size_t count;
    bool is_peak; /* the figures are a counter that keeps its peak */
} vw__trend_series;

typedef struct vw__trend {
    vw__trend_kind kind;
    vw_confidence confidence;
    double bytes_per_step;       /* over the later two thirds, warm-up left out */
    double last_bytes_per_step;  /* over the last third */
    double from_step, to_step;   /* as written: of the part that was judged, warm-up left out */
    double from_bytes, to_bytes; /* as written, at these steps */
    double grown_bytes;          /* to - from; where one of them is a spike, by the medians */
    double level_bytes;          /* at the end: the median of the last twelfth */
    double noise_bytes;          /* spread about the trend, robust: as a standard deviation */
    double strength;             /* growth per step in units of its own uncertainty */
    double settled_step;         /* SETTLED: from where on it stayed, about */
    double settled_share;        /* the same, as a share of the part that was judged */
    size_t
        first_point; /* of the part that grows, its warm-up included; 0: the whole log was judged */
    size_t point_count;  /* of that part */
    size_t rise_count;   /* COUNTED: points above the one before */
    size_t fewest_rises; /* the same, in the third that has the fewest */
    bool never_falls;
    bool may_grow;     /* not GROWS, but growth is there that the noise may hide */
    bool has_restarts; /* the numbers of the steps began again: epochs */
} vw__trend;

/* VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__trend_find(const vw__trend_series *series,
                                       vw__trend_strictness strictness, vw__trend *out);

#endif /* VW_TREND_TREND_H */
