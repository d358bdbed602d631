/* from_recording.h - what the files behind vw_plan_from_recording() share. */
#ifndef VW_PLAN_FROM_RECORDING_H
#define VW_PLAN_FROM_RECORDING_H

#include "base/arena.h"
#include "plan/plan_reserved.h"
#include "plan/recorded_step.h"

#define VW__SCALED_MOST_NOTES 16

/* A result in the making. */
typedef struct vw__scaled_draft {
    vw_plan_scaled shown; /* first: what the caller has is a pointer to it */
    vw__arena arena;
    const char *notes[VW__SCALED_MOST_NOTES];
    bool has_failed; /* no host memory for a text */
} vw__scaled_draft;

/* What it is made from. */
typedef struct vw__scaled_work {
    vw__recorded_run run;
    uint64_t *peaks; /* owned; by step */
    vw__step_question question;
    vw__step_laws laws;
    vw__scaled_peak now, then;
} vw__scaled_work;

/* The step as it is asked about, for that batch. */
vw__scale vw__scaled_scale(const vw_plan_scaling *scaling, uint64_t batch);

/* What of a card a peak takes, at worst. */
uint64_t vw__scaled_device_bytes(const vw_plan_scaled *shown, uint64_t peak_bytes);

/* scaled_reserved.c: what the allocators would reserve for such a step; VW_UNKNOWN: beyond any
 * card. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__scaled_reserved(const vw__scaled_step *scaled, uint64_t peak_bytes,
                                            uint64_t reserved_bytes[VW__PLAN_POLICIES]);

/* from_choices.c: which techniques would help. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__scaled_add_choices(vw__scaled_draft *draft,
                                               const vw__scaled_work *work);

/* Says what the numbers take for granted. */
void vw__scaled_add_notes(vw__scaled_draft *draft, const vw__scaled_work *work);

#endif /* VW_PLAN_FROM_RECORDING_H */
