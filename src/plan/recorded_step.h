/* recorded_step.h - one step of a recording, and the same step at another batch and length.
 *
 * The rules how sizes grow are laws (hr_plan_law); finding one for each block of the step is
 * step_laws.c, adding up the blocks at their new sizes recorded_step.c. What the peak of the scaled
 * step is, what_if.h says, as it does for the doctor. */
#ifndef HR_PLAN_RECORDED_STEP_H
#define HR_PLAN_RECORDED_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/plan.h"
#include "analysis/attribution.h"
#include "analysis/roles.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"

#define HR__NO_STEP UINT32_MAX
#define HR__MOST_COMPARED 32

/* A recording that was looked at. */
typedef struct hr__recorded_run {
    const hr__model *model;       /* borrowed */
    const hr__model_trace *trace; /* borrowed */
    hr__timeline timeline;
    hr__attribution attribution;
    hr__steps steps;
    hr__roles roles;
    uint32_t *lifetime_of; /* owned; by event: the lifetime it began, or UINT32_MAX */
} hr__recorded_run;

/* Errors as of hr_plan_from_recording(). Without steps it succeeds, and steps.end_count is 0. */
HR_MUST_CHECK hr_status hr__recorded_run_init(hr__recorded_run *run, const hr_recording *recording,
                                              int device);
void hr__recorded_run_deinit(hr__recorded_run *run);

/* The events [*begin, *end) of a step, of which there are steps.end_count. */
void hr__recorded_step_range(const hr__recorded_run *run, uint32_t step, uint32_t *begin,
                             uint32_t *end);

/* What was asked for, to the byte; of a block from before the recording, its rounded size. */
uint64_t hr__recorded_request(const hr__recorded_run *run, const hr__lifetime *lifetime);

/* The most that is live in each step. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__recorded_step_peaks(const hr__recorded_run *run, uint64_t *peaks);

/* The whole step with most alive: any but the first, which makes the model and the optimizer's
 * state, unless there is no other. */
uint32_t hr__recorded_step_choose(const hr__recorded_run *run, const uint64_t *peaks);

/* A step as multiples of another. Samples may have two lengths, as those of an encoder and a
 * decoder do: the first is the one that more requests go by. */
typedef struct hr__multiples {
    double batch, length, second_length;
} hr__multiples;

/* Which length a law is about; of squares: both of them, in BOTH. */
typedef enum hr__which_length {
    HR__LENGTH_FIRST,
    HR__LENGTH_SECOND,
    HR__LENGTH_BOTH,
    HR__LENGTH_COUNT
} hr__which_length;

double hr__law_factor(hr_plan_law law, hr__which_length which, hr__multiples multiples);

/* Another step that a step was compared with. */
typedef struct hr__compared_step {
    uint32_t step;
    hr__multiples multiples; /* by what the sizes say */
} hr__compared_step;

/* How each block that is alive in a step grows. */
typedef struct hr__step_laws {
    uint8_t *laws;         /* owned; by lifetime of the timeline: hr_plan_law */
    uint8_t *lengths;      /* owned; by lifetime: hr__which_length */
    bool *is_maybe_square; /* owned; by lifetime: nothing speaks against BATCH_LENGTH_SQUARE */
    bool *is_irregular;    /* owned; by lifetime: no law explains it */
    hr__compared_step compared[HR__MOST_COMPARED]; /* steps of another size */
    uint32_t compared_count;
    bool has_lengths; /* among them is one of another length */
} hr__step_laws;

typedef struct hr__step_question {
    uint32_t step;
    uint64_t batch_now, sequence_now; /* 0: not known */
    uint32_t unseen_step;             /* is not compared with; HR__NO_STEP = all are */
    bool without_evidence;            /* no other step is */
} hr__step_question;

/* HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__step_laws_find(const hr__recorded_run *run,
                                           const hr__step_question *question, hr__step_laws *out);
void hr__step_laws_deinit(hr__step_laws *laws);

typedef struct hr__scale {
    hr__multiples multiples; /* of the recorded step */
    bool are_maybes_square;
} hr__scale;

/* The blocks of a step at other sizes. */
typedef struct hr__scaled_step {
    hr__timeline
        timeline;   /* of those alive in the step, from its beginning on; lifetimes is owned */
    size_t *places; /* owned; by its lifetimes: the recording's */
    uint32_t last_instant; /* the step's end */
} hr__scaled_step;

/* HR_ERR_UNSUPPORTED: more than an address space. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__scaled_step_init(hr__scaled_step *scaled, const hr__recorded_run *run,
                                             uint32_t step, const hr__step_laws *laws,
                                             hr__scale scale);
void hr__scaled_step_deinit(hr__scaled_step *scaled);

/* A peak, and what is alive there. */
typedef struct hr__scaled_peak {
    uint64_t bytes;
    uint32_t instant;
    uint64_t role_bytes[HR__ROLE_COUNT];   /* sum: bytes */
    uint64_t law_bytes[HR_PLAN_LAW_COUNT]; /* sum: bytes */
    uint64_t maybe_square_bytes, irregular_bytes;
} hr__scaled_peak;

/* Errors as above. */
HR_MUST_CHECK hr_status hr__recorded_step_scale(const hr__recorded_run *run, uint32_t step,
                                                const hr__step_laws *laws, hr__scale scale,
                                                hr__scaled_peak *out);

#endif /* HR_PLAN_RECORDED_STEP_H */
