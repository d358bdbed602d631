/* made_step_log.h - step logs that a test makes, and what the doctor says of them. */
#ifndef HR_TESTS_MADE_STEP_LOG_H
#define HR_TESTS_MADE_STEP_LOG_H

#include <stdlib.h>

#include "doctor/doctor.h"
#include "doctor/step_trend.h"
#include "support/cmocka_here.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

enum { MOST_POINTS = 600 };

typedef struct made_log {
    hr__step_point points[MOST_POINTS];
    double bytes[MOST_POINTS];
    size_t count;
    bool is_peak;
} made_log;

static inline hr__step_log step_log_of(const made_log *log)
{
    hr__step_log made = {
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

static inline hr_diagnosis *diagnose(const hr__step_log *log, uint64_t card_bytes)
{
    hr_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    hr__diagnosis_draft *draft = malloc(sizeof *draft);
    hr_diagnosis *made = NULL;
    assert_non_null(draft);
    hr__diagnosis_init(draft, HR_SOURCE_STEPS);
    assert_int_equal(hr__doctor_steps(log, &options, draft, NULL), HR_OK);
    assert_int_equal(hr__diagnosis_finish(draft, &made), HR_OK);
    free(draft);
    return made;
}

static inline hr_diagnosis *diagnose_made(const made_log *log, uint64_t card_bytes)
{
    hr__step_log step_log = step_log_of(log);
    return diagnose(&step_log, card_bytes);
}

static inline hr__trend trend_of(const double *bytes, size_t count, bool is_peak)
{
    double steps[MOST_POINTS];
    hr__trend trend;
    for (size_t i = 0; i < count; i++)
        steps[i] = (double)i;
    assert_int_equal(hr__step_trend_find(steps, bytes, count, is_peak, &trend), HR_OK);
    return trend;
}

#endif /* HR_TESTS_MADE_STEP_LOG_H */
