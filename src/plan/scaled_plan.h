/* scaled_plan.h - a plan from a recorded or traced step, while it is made. */
#ifndef VW_PLAN_SCALED_PLAN_H
#define VW_PLAN_SCALED_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "base/arena.h"
#include "plan/recorded_step.h"
#include "plan/traced.h"

enum { VW__PLAN_SCALED_MOST_NOTES = 16 + VW__TRACED_MOST_NOTES };

/* The result. */
typedef struct vw__plan_scaled_draft {
    vw_plan_scaled shown; /* first: the caller has a pointer to it */
    vw__arena arena;
    const char *notes[VW__PLAN_SCALED_MOST_NOTES];
    uint64_t now_rounding_bytes, rounding_bytes; /* in the peaks, and in no block's size */
    bool has_failed;                             /* a text found no host memory */
} vw__plan_scaled_draft;

/* What the result is computed from. */
typedef struct vw__plan_scaled_work {
    const vw_recording *recording; /* borrowed */
    const vw_plan_traced *traced;  /* borrowed; NULL: it was recorded */
    vw__plan_recorded_run run;
    uint64_t *peaks; /* owned; by step */
    vw__plan_step_question question;
    vw__plan_step_laws laws;
    vw__plan_scaled_peak now, then;
    vw__plan_scaled_step scaled; /* the step of `then` */
} vw__plan_scaled_work;

/* Whether the step is planned as it is. */
static inline bool vw__plan_is_same_size(const vw_plan_scaling *scaling)
{
    return scaling->batch == scaling->batch_now && scaling->sequence == scaling->sequence_now;
}

/* ---- scaled_notes.c -------------------------------------------------------------------------- */

/* What the numbers assume. Needs all of them. */
void vw__plan_scaled_add_notes(vw__plan_scaled_draft *draft, const vw__plan_scaled_work *work);

#endif /* VW_PLAN_SCALED_PLAN_H */
