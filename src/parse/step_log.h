/* step_log.h - steps and their memory, as people log them.
 *
 * JSON lines ({"step": 50, "allocated": 3446711910}), also as one array or inside a log line; CSV
 * and other tables with a header (step,allocated_gb); and what people print (`step 50: 3.21 GB`,
 * `epoch 1 iter 50 loss 0.4 mem 3.21GB`, `[50/1000] ... max_mem: 3287M`). Fed piece by piece, in
 * one pass; keeps at most VW__STEP_LOG_MOST points, thinned evenly when there are more.
 *
 * Units. GB, G and GiB are all 2^30, MB, M and MiB 2^20: those who print one mostly mean the other,
 * and a trend does not care. Without a unit the size of the numbers decides, for all of them
 * together: bytes, MB or GB.
 *
 * A text may hold several logs (of several ranks, of training and of something else). Lines with
 * the same name for memory, of the same rank, are one log; the one with steps and with most lines
 * is returned, and with it those of the other ranks or devices, and those of host memory. A log of
 * host memory alone is returned where no log of a card exists.
 *
 * Points are bytes in use unless the log is marked is_free or is_share. */
#ifndef VW_PARSE_STEP_LOG_H
#define VW_PARSE_STEP_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "model/memory_model.h" /* VW__MODEL_UNKNOWN_BYTES */

#define VW__STEP_LOG_MOST 16384 /* points that are kept; a power of two */
#define VW__STEP_LOG_NAME_BYTES 64

typedef struct vw__step_log_point {
    double step;              /* as written; counted where the line has none */
    uint64_t allocated_bytes; /* or whatever memory the line names; see is_free, is_share */
    uint64_t reserved_bytes;  /* VW__MODEL_UNKNOWN_BYTES */
} vw__step_log_point;

#define VW__STEP_LOG_SHARE_OF_ALL 100000000 /* a hundred percent, in a log of shares */

typedef struct vw__step_log_scan vw__step_log_scan;

typedef struct vw__step_log vw__step_log;

struct vw__step_log {
    const vw__step_log_point *points; /* the scan's, in the text's order */
    size_t point_count;
    uint64_t line_count;  /* of the text */
    uint64_t found_count; /* points before thinning; an estimate where lines were sampled */
    const char *form;     /* static: "JSON lines", "CSV", "text"; "" without points */
    const char
        *step_name; /* static: "step", "epoch"; "line" where lines have no step, "logged line"
                       where they have fractions of epochs: the points' steps count lines */
    char memory_name[VW__STEP_LOG_NAME_BYTES]; /* what the memory is called there: "allocated",
                                                  "max_mem"; "" = nothing */
    int rank;                                  /* or device; -1 = not said */
    bool is_peak;  /* max_memory..., max_mem, peak: never falls, so a step of it is no leak */
    bool is_host;  /* memory of the host */
    bool is_free;  /* what is free on the card: falls as memory grows */
    bool is_share; /* of the card, in units of which VW__STEP_LOG_SHARE_OF_ALL are all of it */
    const vw__step_log *others; /* the scan's: of other ranks, and of the host; without others */
    size_t other_count;
};

/* VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__step_log_scan_create(vw__step_log_scan **out);
void vw__step_log_scan_destroy(vw__step_log_scan *scan); /* NULL does nothing */

/* Host memory that it holds before it is finished: grows with the points. */
size_t vw__step_log_scan_held_bytes(const vw__step_log_scan *scan);

/* Pieces may end anywhere. VW_ERR_HOST_MEMORY: the piece may have been read in part. */
VW_MUST_CHECK vw_status vw__step_log_scan_feed(vw__step_log_scan *scan, const char *bytes,
                                               size_t size_bytes);

/* After the last piece. `*out` is valid until destroy. It has no points if the text is not a step
 * log: fewer than three lines of one form, or so few of the text's lines that they may be chance.
 * One or two lines are enough if they hold a step and memory and nothing else, and are the whole
 * text. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__step_log_scan_finish(vw__step_log_scan *scan, vw__step_log *out);

#endif /* VW_PARSE_STEP_LOG_H */
