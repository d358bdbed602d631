/* step_log_series.h - the points of a text, log by log.
 *
 * Sightings of one form, one name and one rank make a *series*. There are a few of them at a time,
 * since one text may hold several logs; when another one comes, the one with the fewest points
 * goes. At the end the best of them is the log that is given, and with it those that go with it. */
#ifndef VW_FORMAT_STEP_LOG_SERIES_H
#define VW_FORMAT_STEP_LOG_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/step_log.h"
#include "format/step_log_fields.h"

enum {
    VW__STEP_MOST_SERIES = 32,
    VW__STEP_LOG_FEWEST = 3,    /* points */
    VW__STEP_LOG_FEW_LINES = 32 /* that are all looked at */
};

typedef enum vw__step_form {
    VW__STEP_FORM_JSON,
    VW__STEP_FORM_TABLE,
    VW__STEP_FORM_TEXT
} vw__step_form;

typedef enum vw__step_memory {
    VW__STEP_OF_CARD,
    VW__STEP_OF_FREE,
    VW__STEP_OF_SHARE,
    VW__STEP_OF_HOST
} vw__step_memory;

typedef struct vw__raw_point vw__raw_point;

typedef struct vw__step_series {
    vw__raw_point *points; /* owned */
    size_t count, capacity;
    uint64_t found_count; /* sightings; those in lines that were passed over are estimated */
    uint64_t next_kept, stride;
    vw__step_form form;
    vw__step_memory kind;
    int rank, weight;
    bool has_step, has_unit, is_peak;
    bool is_plain, is_bare; /* all of them: see vw__sighting */
    bool has_fraction;      /* numbers that are not whole */
    bool is_epoch;
    double largest;
    char name[VW__STEP_LOG_NAME_BYTES];
} vw__step_series;

/* All zero is an empty one. */
typedef struct vw__step_series_set {
    vw__step_series all[VW__STEP_MOST_SERIES];
    size_t count;
    uint64_t sighted_count; /* sightings so far, of any form */
    uint64_t most_stride;   /* of any series: how rarely sightings are kept */
    bool has_failed;        /* host memory, while the walk went on */
    vw__step_point *result; /* owned */
    vw__step_log others[VW__STEP_MOST_SERIES];
} vw__step_series_set;

/* How long the text is. */
typedef struct vw__step_lines {
    uint64_t count;
    uint64_t blank_count; /* lines that are empty, of the first VW__STEP_LOG_FEW_LINES */
} vw__step_lines;

/* Keeps what a line says. `line_weight`: how many lines it stands for. */
void vw__step_series_note(vw__step_series_set *set, vw__step_form form,
                          const vw__sighting *sighting, uint64_t line_weight);

/* VW_ERR_HOST_MEMORY: there was none for a point. */
VW_MUST_CHECK vw_status vw__step_series_status(const vw__step_series_set *set);

/* As vw__step_log_scan_finish(). */
VW_MUST_CHECK vw_status vw__step_series_finish(vw__step_series_set *set,
                                               const vw__step_lines *lines, vw__step_log *out);
void vw__step_series_deinit(vw__step_series_set *set);

#endif /* VW_FORMAT_STEP_LOG_SERIES_H */
