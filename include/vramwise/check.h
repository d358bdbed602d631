/* check.h - has memory grown since a baseline? A guard for CI.
 *
 * A baseline is what one recording came to: five figures, and the same by the function of the
 * program that asked for the memory. It is a small JSON file that lives beside the code. A later
 * recording is measured in the same way, and the two are compared.
 *
 *   vw_baseline_make(recording, NULL, &now);           then either
 *   vw_baseline_write(now, "memory.json");             or
 *   vw_baseline_read("memory.json", &before);
 *   vw_baselines_compare(before, now, NULL, &report);
 *
 * A recording is measured under the setting that its baseline names:
 *
 *   vw_baseline_make(recording, &(vw_baseline_options){.struct_size = ..., .like = before}, &now);
 *
 * None of the figures depends on addresses, on the clock, or on the card and the settings of the
 * machine that made the recording.
 *
 * Link with -lvramwise-analysis. vw_report_check() of report.h prints a comparison. */
#ifndef VRAMWISE_CHECK_H
#define VRAMWISE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is compared. */
typedef enum vw_check_metric {
    VW_CHECK_PEAK,        /* most bytes that the program held at once; "peak". Of several streams:
                             the peak of each, added up, which is the same in whatever order threads
                             ran that have streams of their own */
    VW_CHECK_RESERVED,    /* most bytes reserved from the device, by replay; "reserved" */
    VW_CHECK_ALLOCATIONS, /* requests of the program; "allocations" */
    VW_CHECK_LEAK,        /* bytes that stay with each step, by the doctor's rule; "leak" */
    VW_CHECK_CARD,        /* smallest card on which the replay completes, in bytes; "card" */
    VW_CHECK_METRIC_COUNT
} vw_check_metric;

/* "peak", ...: static. Options and JSON use these names. */
VW_API const char *vw_check_metric_name(vw_check_metric metric);

/* ---- baselines ------------------------------------------------------------------------------- */

#define VW_BASELINE_VERSION 1 /* of the file */

/* A function of the program, without folders and line numbers: "train.py step". */
typedef struct vw_baseline_site {
    const char *site;
    uint64_t peak_bytes; /* held at the peak, of each stream */
    uint64_t allocations;
    uint64_t leak_bytes; /* that stay with each step */
    uint32_t line; /* of the function: the one that held most at the peak. 0 = unknown, as in a
                      baseline that was read */
} vw_baseline_site;

typedef struct vw_baseline {
    const char *policy;        /* reserved bytes and the card are replayed under this setting */
    const char *torch_version; /* and by the rules of this version */
    uint64_t values[VW_CHECK_METRIC_COUNT]; /* VW_UNKNOWN: too few steps to judge a leak; no card is
                                               enough */
    const vw_baseline_site *sites;          /* by name */
    size_t site_count;
    bool is_cut; /* the recording does not begin at the first allocation */
} vw_baseline;

typedef struct vw_baseline_options {
    size_t struct_size;      /* sizeof(vw_baseline_options) */
    const vw_baseline *like; /* use its policy and version; NULL: "native", "2.11" */
    vw_progress progress;    /* or NULL */
    void *progress_context;
} vw_baseline_options;

/* Measures the device with the most events. `options` may be NULL.
 *
 * VW_ERR_CORRUPT_FILE   the recording has no trace, or `like` names a setting that is not known
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_baseline_make(const vw_recording *recording,
                                                const vw_baseline_options *options,
                                                vw_baseline **out);

/* Reads what vw_baseline_write() wrote.
 *
 * VW_ERR_FILE           it cannot be read
 * VW_ERR_CORRUPT_FILE   it is cut short, or no baseline
 * VW_ERR_UNSUPPORTED    a baseline of another version, or too large */
VW_API VW_MUST_CHECK vw_status vw_baseline_read(const char *path, vw_baseline **out);

/* The file appears when it is complete. VW_ERR_FILE, VW_ERR_HOST_MEMORY. */
VW_API VW_MUST_CHECK vw_status vw_baseline_write(const vw_baseline *baseline, const char *path);

VW_API void vw_baseline_free(vw_baseline *baseline); /* NULL does nothing */

/* ---- comparing ------------------------------------------------------------------------------- */

/* By how much each figure may exceed the baseline's: 0.02 is 2 %, 0 is not at all. */
typedef struct vw_check_limits {
    size_t struct_size; /* sizeof(vw_check_limits) */
    double max_growth[VW_CHECK_METRIC_COUNT];
} vw_check_limits;

/* The defaults: "peak=0,reserved=2%,allocations=2%,leak=0,card=2%". */
VW_API void vw_check_limits_init(vw_check_limits *limits);

/* Reads "2%", which is the limit of all figures, or "peak=0,allocations=1%", which leaves the
 * others as they are. VW_ERR_INVALID_ARGUMENT: anything else, with the limits unchanged. */
VW_API VW_MUST_CHECK vw_status vw_check_limits_parse(const char *text, vw_check_limits *limits);

typedef struct vw_check_figure {
    vw_check_metric metric;
    uint64_t before, now; /* VW_UNKNOWN */
    double growth;        /* now / before - 1; not finite: one of them is unknown, or before is 0 */
    double max_growth;
    bool is_worse;
} vw_check_figure;

/* A function of the program that holds, asks for or leaks more than before. */
typedef struct vw_check_site {
    const char *site;
    uint32_t line; /* in the newer recording; 0 = unknown */
    uint64_t before_peak_bytes, now_peak_bytes;
    uint64_t before_allocations, now_allocations;
    uint64_t before_leak_bytes, now_leak_bytes;
} vw_check_site;

typedef struct vw_check_report {
    bool is_worse;
    const char *policy, *torch_version;
    vw_check_figure figures[VW_CHECK_METRIC_COUNT]; /* by vw_check_metric */
    const vw_check_site *sites; /* that grew: most bytes at the peak first, then by leak and by
                                   allocations */
    size_t site_count;
    const char *const *notes;
    size_t note_count;
} vw_check_report;

/* `limits` may be NULL: the defaults. Both baselines must outlive the report.
 *
 * VW_ERR_INVALID_ARGUMENT   they were replayed under different settings
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_baselines_compare(const vw_baseline *before,
                                                    const vw_baseline *now,
                                                    const vw_check_limits *limits,
                                                    vw_check_report **out);
VW_API void vw_check_report_free(vw_check_report *report); /* NULL does nothing */

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_CHECK_H */
