/* made_step_log.h - step logs made by tests, and the doctor's verdict on them. */
#ifndef VW_TESTS_MADE_STEP_LOG_H
#define VW_TESTS_MADE_STEP_LOG_H

#include <stdlib.h>

#include "doctor/doctor.h"
#include "support/cmocka_here.h"
#include "trend/trend.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { MOST_POINTS = 600 };

typedef struct made_log {
    vw__step_log_point points[MOST_POINTS];
    double bytes[MOST_POINTS];
    size_t count;
    bool is_peak;
} made_log;

static inline vw__step_log step_log_of(const made_log *log)
{
    vw__step_log made = {
        .points = log->points,
        .point_count = log->count,
        .line_count = log->count,
        .found_count = log->count,
        .form = "text",
        .step_name = "step",
        .memory_name = "mem",
        .rank = -1,
        .is_peak = log->is_peak,
    };
    return made;
}

static inline vw_diagnosis *diagnose(const vw__step_log *log, uint64_t card_bytes)
{
    vw_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    vw__diagnosis_draft *draft = malloc(sizeof *draft);
    vw_diagnosis *made = NULL;
    assert_non_null(draft);
    vw__diagnosis_init(draft, VW_SOURCE_STEPS);
    assert_int_equal(vw__doctor_steps(log, &options, draft, NULL), VW_OK);
    assert_int_equal(vw__diagnosis_finish(draft, &made), VW_OK);
    free(draft);
    return made;
}

static inline vw_diagnosis *diagnose_made(const made_log *log, uint64_t card_bytes)
{
    vw__step_log step_log = step_log_of(log);
    return diagnose(&step_log, card_bytes);
}

static inline vw__trend trend_of(const double *bytes, size_t count, bool is_peak)
{
    double steps[MOST_POINTS];
    vw__trend trend;
    for (size_t i = 0; i < count; i++)
        steps[i] = (double)i;
    const vw__trend_series series = {steps, bytes, count, is_peak};
    assert_int_equal(vw__trend_find(&series, VW__TREND_PLAIN, &trend), VW_OK);
    return trend;
}

#endif /* VW_TESTS_MADE_STEP_LOG_H */
