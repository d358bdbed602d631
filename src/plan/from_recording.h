/* from_recording.h - what the files behind hr_plan_from_recording() share. */
#ifndef HR_PLAN_FROM_RECORDING_H
#define HR_PLAN_FROM_RECORDING_H

#include "base/arena.h"
#include "plan/plan_reserved.h"
#include "plan/recorded_step.h"

#define HR__SCALED_MOST_NOTES 16

/* A result in the making. */
typedef struct hr__scaled_draft {
    hr_plan_scaled shown; /* first: what the caller has is a pointer to it */
    hr__arena arena;
    const char *notes[HR__SCALED_MOST_NOTES];
    bool has_failed; /* no host memory for a text */
} hr__scaled_draft;

/* What it is made from. */
typedef struct hr__scaled_work {
    hr__recorded_run run;
    uint64_t *peaks; /* owned; by step */
    hr__step_question question;
    hr__step_laws laws;
    hr__scaled_peak now, then;
} hr__scaled_work;

/* The step as it is asked about, for that batch. */
hr__scale hr__scaled_scale(const hr_plan_scaling *scaling, uint64_t batch);

/* What of a card a peak takes, at worst. */
uint64_t hr__scaled_device_bytes(const hr_plan_scaled *shown, uint64_t peak_bytes);

/* scaled_reserved.c: what the allocators would reserve for such a step; HR_UNKNOWN: beyond any
 * card. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__scaled_reserved(const hr__scaled_step *scaled, uint64_t peak_bytes,
                                            uint64_t reserved_bytes[HR__PLAN_POLICIES]);

/* from_choices.c: which techniques would help. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__scaled_add_choices(hr__scaled_draft *draft,
                                               const hr__scaled_work *work);

/* Says what the numbers take for granted. */
void hr__scaled_add_notes(hr__scaled_draft *draft, const hr__scaled_work *work);

#endif /* HR_PLAN_FROM_RECORDING_H */
