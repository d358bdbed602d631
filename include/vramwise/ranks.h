/* ranks.h - the recordings and logs of one job, rank by rank.
 *
 * A job of many processes leaves a folder of files: snapshots, step logs, the output of each rank.
 * Each file is assigned to its rank, by its name, its folder or the labels of its lines. Then the
 * doctor examines every rank, and the ranks are compared: which ran out of memory first, which are
 * outliers, which lines of the program hold more on one rank than on the others, and which settings
 * differ.
 *
 * Results are owned by the library: read-only, freed with vw_ranks_report_free(). Unknown values
 * are VW_UNKNOWN, INT64_MIN for a time, NaN for a rate; never a guess. Only one recording is open
 * at a time.
 *
 * Link with -lvramwise-analysis. Reading order: vw_ranks_examine(), vw_ranks_report; then report.h
 * and view.h to show it. */
#ifndef VRAMWISE_RANKS_H
#define VRAMWISE_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/analysis.h"
#include "vramwise/doctor.h"
#include "vramwise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define VW_RANKS_DEFAULT_FILES 4096

typedef struct vw_ranks_options {
    size_t struct_size;        /* sizeof(vw_ranks_options) */
    const char *torch_version; /* as in vw_replay_options */
    size_t most_files;         /* to read; 0 = VW_RANKS_DEFAULT_FILES */
    vw_progress progress;      /* or NULL */
    void *progress_context;
} vw_ranks_options;

/* How a file of the folder was treated. */
typedef enum vw_rank_file_kind {
    VW_RANK_FILE_RECORDING,
    VW_RANK_FILE_TEXT,       /* a log, an error, a step log */
    VW_RANK_FILE_UNREADABLE, /* `reason` says why */
    VW_RANK_FILE_FOREIGN,    /* neither a recording nor named like a log: not read */
} vw_rank_file_kind;

typedef struct vw_rank_file {
    const char *path; /* below the folder */
    vw_rank_file_kind kind;
    uint64_t rank;       /* if it was not read, by its name. VW_UNKNOWN: none, or several */
    uint64_t rank_count; /* ranks with lines in it: 0, 1, or as many as its labels name */
    const char *reason;  /* why it was not read, or why its rank is unknown; NULL */
} vw_rank_file;

/* Where the peaks of a rank come from. */
typedef enum vw_rank_basis {
    VW_RANK_BASIS_NONE,
    VW_RANK_BASIS_TRACE, /* a recording with events */
    VW_RANK_BASIS_END,   /* a recording without events: its state at the end */
    VW_RANK_BASIS_TEXT,  /* a message or a step log */
} vw_rank_basis;

/* Measures in which a rank can be an outlier. */
typedef enum vw_rank_measure {
    VW_RANK_PEAK_LIVE,
    VW_RANK_PEAK_RESERVED,
    VW_RANK_EVENTS,
} vw_rank_measure;
#define VW_RANK_MEASURES 3

/* One rank; or one file whose rank is unknown. */
typedef struct vw_rank {
    uint64_t rank;         /* VW_UNKNOWN: the file does not say */
    const char *recording; /* that was examined, below the folder; NULL = none */
    const char *text;      /* the first of its texts; NULL = none */
    size_t file_count;
    int device; /* of the recording; -1 = unknown */

    vw_rank_basis basis; /* of the next three */
    uint64_t peak_live_bytes, peak_reserved_bytes;
    uint64_t event_count;
    bool is_out_of_line[VW_RANK_MEASURES];

    uint64_t step_count;
    double growth_bytes_per_step; /* 0: it does not grow; NaN: unknown */

    bool ran_out;
    uint64_t tried_bytes;
    int64_t time_us;       /* of the failure, since 1970 */
    int64_t local_time_us; /* the same, from a log without a time zone */

    bool has_verdict;
    vw_verdict verdict;
    vw_confidence confidence;
    bool is_problem; /* as vw_diagnosis_is_problem() */
    const char *sentence;

    const char *conf;    /* NULL = not recorded */
    uint64_t card_bytes; /* VW_UNKNOWN */

    int64_t last_time_us; /* of the recording's last event, since 1970 */
    /* The stack of the request that failed, from the program's innermost frame outwards; of a text
     * the one line that its traceback names. 0: unknown. */
    const vw_frame *failed_frames;
    size_t failed_frame_count;
} vw_rank;

typedef struct vw_rank_outlier {
    uint64_t rank;
    vw_rank_measure measure;
    uint64_t value, median;
} vw_rank_outlier;

/* A line of the program that holds more, or less, on one rank than on the median rank. */
typedef struct vw_rank_site {
    const vw_frame *where; /* NULL: no frame is known; see the category */
    const char *category;
    uint64_t rank;
    uint64_t bytes, median_bytes;
} vw_rank_site;

typedef struct vw_rank_setting {
    const char *key;
    uint64_t rank;
    const char *value;
    const char *usual; /* of most ranks */
} vw_rank_setting;

typedef struct vw_ranks_report {
    const vw_rank *ranks; /* by number */
    size_t rank_count;
    const vw_rank *unassigned; /* files whose rank is unknown, by name */
    size_t unassigned_count;
    const uint64_t *missing; /* ranks below the highest one without a file */
    size_t missing_count;

    size_t ran_out_count;
    uint64_t first_rank;      /* to run out; VW_UNKNOWN */
    uint64_t first_lead_us;   /* time before the second; VW_UNKNOWN: no other ran out */
    const char *first_reason; /* why first_rank is unknown; NULL */

    uint64_t medians[VW_RANK_MEASURES];
    const vw_rank_outlier *outliers;
    size_t outlier_count;
    const vw_rank_site *sites; /* largest difference first */
    size_t site_count;
    const vw_rank_setting *settings;
    size_t setting_count;

    const vw_rank_file *files; /* by name */
    size_t file_count;
    size_t recording_count, text_count, unreadable_count, foreign_count;
    const char *const *notes;
    size_t note_count;
    bool is_something_to_see; /* a rank has a problem, is an outlier, or differs in a setting */

    /* Ranks whose files could not be read or were empty, rising. They are neither in `ranks` nor in
     * `missing`. */
    const uint64_t *unread;
    size_t unread_count;
} vw_ranks_report;

/* Examines the files of `folder` and of the folders in it. `options` may be NULL. The report names
 * files that cannot be read; the others are examined.
 *
 * VW_ERR_FILE              the folder cannot be read, or none of its files; the message says which
 * VW_ERR_WRONG_STATE       stopped by the caller's progress function
 * VW_ERR_INVALID_ARGUMENT  an unknown version of PyTorch
 * VW_ERR_HOST_MEMORY */
VW_API VW_MUST_CHECK vw_status vw_ranks_examine(const char *folder, const vw_ranks_options *options,
                                                vw_ranks_report **out);
VW_API void vw_ranks_report_free(vw_ranks_report *report); /* NULL does nothing */

/* "peak_live_bytes", "trace": static strings. NULL for VW_RANK_BASIS_NONE. */
VW_API const char *vw_rank_measure_name(vw_rank_measure measure);
VW_API const char *vw_rank_basis_name(vw_rank_basis basis);
VW_API const char *vw_rank_file_kind_name(vw_rank_file_kind kind);

#ifdef __cplusplus
}
#endif
#endif /* VRAMWISE_RANKS_H */
