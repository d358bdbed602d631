/* step_log_series.h - the points of a text, log by log.
 *
 * Sightings of one form, one name and one rank make a *series*. There are a few of them at a time,
 * since one text may hold several logs; when another one comes, the one with the fewest points
 * goes. At the end the best of them is the log that is given, and with it those that go with it. */
#ifndef HR_FORMAT_STEP_LOG_SERIES_H
#define HR_FORMAT_STEP_LOG_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/step_log.h"
#include "format/step_log_fields.h"

enum {
    HR__STEP_MOST_SERIES = 32,
    HR__STEP_LOG_FEWEST = 3,    /* points */
    HR__STEP_LOG_FEW_LINES = 32 /* that are all looked at */
};

typedef enum hr__step_form {
    HR__STEP_FORM_JSON,
    HR__STEP_FORM_TABLE,
    HR__STEP_FORM_TEXT
} hr__step_form;

typedef enum hr__step_memory {
    HR__STEP_OF_CARD,
    HR__STEP_OF_FREE,
    HR__STEP_OF_SHARE,
    HR__STEP_OF_HOST
} hr__step_memory;

typedef struct hr__raw_point hr__raw_point;

typedef struct hr__step_series {
    hr__raw_point *points; /* owned */
    size_t count, capacity;
    uint64_t found_count; /* sightings; those in lines that were passed over are estimated */
    uint64_t next_kept, stride;
    hr__step_form form;
    hr__step_memory kind;
    int rank, weight;
    bool has_step, has_unit, is_peak;
    bool is_plain, is_bare; /* all of them: see hr__sighting */
    bool has_fraction;      /* numbers that are not whole */
    bool is_epoch;
    double largest;
    char name[HR__STEP_LOG_NAME_BYTES];
} hr__step_series;

/* All zero is an empty one. */
typedef struct hr__step_series_set {
    hr__step_series all[HR__STEP_MOST_SERIES];
    size_t count;
    uint64_t sighted_count; /* sightings so far, of any form */
    uint64_t most_stride;   /* of any series: how rarely sightings are kept */
    bool has_failed;        /* host memory, while the walk went on */
    hr__step_point *result; /* owned */
    hr__step_log others[HR__STEP_MOST_SERIES];
} hr__step_series_set;

/* How long the text is. */
typedef struct hr__step_lines {
    uint64_t count;
    uint64_t blank_count; /* lines that are empty, of the first HR__STEP_LOG_FEW_LINES */
} hr__step_lines;

/* Keeps what a line says. `line_weight`: how many lines it stands for. */
void hr__step_series_note(hr__step_series_set *set, hr__step_form form,
                          const hr__sighting *sighting, uint64_t line_weight);

/* HR_ERR_HOST_MEMORY: there was none for a point. */
HR_MUST_CHECK hr_status hr__step_series_status(const hr__step_series_set *set);

/* As hr__step_log_scan_finish(). */
HR_MUST_CHECK hr_status hr__step_series_finish(hr__step_series_set *set,
                                               const hr__step_lines *lines, hr__step_log *out);
void hr__step_series_deinit(hr__step_series_set *set);

#endif /* HR_FORMAT_STEP_LOG_SERIES_H */
