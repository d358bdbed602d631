/* recorded_step.h - one step of a recording, and the same step at another batch and length.
 *
 * How sizes grow is a law (vw_plan_law). step_laws.c finds one for each block of the step,
 * recorded_step.c adds up the blocks at their new sizes. analysis/what_if.h finds the peak of the
 * scaled step, as it does for the doctor. */
#ifndef VW_PLAN_RECORDED_STEP_H
#define VW_PLAN_RECORDED_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "analysis/attribution.h"
#include "analysis/roles.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"
#include "plan/plan_device.h"

#define VW__PLAN_NO_STEP UINT32_MAX
#define VW__PLAN_MOST_COMPARED 32

/* A recording, and what its blocks are for. */
typedef struct vw__plan_recorded_run {
    const vw__model *model;       /* borrowed */
    const vw__model_trace *trace; /* borrowed */
    vw__timeline timeline;
    vw__attribution attribution;
    vw__steps steps;
    vw__roles roles;
    uint32_t *lifetime_of; /* owned; by event: the lifetime it began, or UINT32_MAX */
} vw__plan_recorded_run;

/* Errors as of vw_plan_from_recording(). Succeeds without steps: steps.end_count is then 0. */
VW_MUST_CHECK vw_status vw__plan_recorded_run_init(vw__plan_recorded_run *run,
                                                   const vw_recording *recording, int device);
void vw__plan_recorded_run_deinit(vw__plan_recorded_run *run);

/* The events [*begin, *end) of a step, of which there are steps.end_count. */
void vw__plan_recorded_step_range(const vw__plan_recorded_run *run, uint32_t step, uint32_t *begin,
                                  uint32_t *end);

/* The requested size; for a block from before the recording, the rounded one. */
uint64_t vw__plan_recorded_request(const vw__plan_recorded_run *run, const vw__lifetime *lifetime);

/* The most that is live in each step. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_recorded_step_peaks(const vw__plan_recorded_run *run,
                                                     uint64_t *peaks);

/* The step with the highest peak. Not the first, which makes the model and the optimizer's state,
 * unless there is no other. With `sizes`, by step, only steps of the first one's size count: those
 * are the program's, and others were traced to see what grows. */
uint32_t vw__plan_recorded_step_choose(const vw__plan_recorded_run *run, const uint64_t *peaks,
                                       const vw_plan_traced_size *sizes);

/* A step as multiples of another. Samples may have two lengths, as those of an encoder and a
 * decoder do; more requests depend on the first. */
typedef struct vw__plan_multiples {
    double batch, length, second_length;
} vw__plan_multiples;

/* Which length a law is about; BOTH: a square is the product of the two. */
typedef enum vw__plan_which_length {
    VW__PLAN_LENGTH_FIRST,
    VW__PLAN_LENGTH_SECOND,
    VW__PLAN_LENGTH_BOTH,
    VW__PLAN_LENGTH_COUNT
} vw__plan_which_length;

double vw__plan_law_factor(vw_plan_law law, vw__plan_which_length which,
                           vw__plan_multiples multiples);

/* Another step that a step was compared with. */
typedef struct vw__plan_compared_step {
    uint32_t step;
    vw__plan_multiples multiples; /* by what the sizes say */
} vw__plan_compared_step;

/* How a block grows. */
typedef struct vw__plan_block_law {
    uint8_t law;          /* vw_plan_law */
    uint8_t length;       /* vw__plan_which_length */
    bool is_maybe_square; /* it may as well be BATCH_LENGTH_SQUARE */
    bool is_irregular;    /* no law explains it */
} vw__plan_block_law;

/* How each block that is alive in a step grows. */
typedef struct vw__plan_step_laws {
    vw__plan_block_law *blocks; /* owned; by lifetime of the timeline */
    vw__plan_compared_step compared[VW__PLAN_MOST_COMPARED]; /* steps of another size */
    uint32_t compared_count;
    bool has_lengths; /* among them is one of another length */
} vw__plan_step_laws;

typedef struct vw__plan_step_question {
    uint32_t step;
    uint64_t batch_now, sequence_now; /* 0: not known */
    uint32_t unseen_step;             /* not compared with; VW__PLAN_NO_STEP: all are */
    bool without_evidence;            /* compare with no other step */
    const vw_plan_traced_size *sizes; /* by step; NULL: sizes have to be concluded */
} vw__plan_step_question;

/* VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_step_laws_find(const vw__plan_recorded_run *run,
                                                const vw__plan_step_question *question,
                                                vw__plan_step_laws *out);
void vw__plan_step_laws_deinit(vw__plan_step_laws *laws);

/* ---- step_evidence.c ------------------------------------------------------------------------- */

/* What the other steps of a recording show about the blocks of one. Steps of one program ask for
 * the same things in the same order: the third request of a stack in one step is the third of that
 * stack in another, and the ratio of their sizes shows how they grow with batch and length. */

/* A request of the step that is asked about. */
typedef struct vw__plan_site {
    uint32_t lifetime;
    uint32_t stack; /* model->stacks; stack_count where there is none */
    uint32_t event;
    uint32_t comparisons; /* steps that have the same request, and another size of batch */
    uint32_t matches[VW_PLAN_LAW_COUNT][VW__PLAN_LENGTH_COUNT]; /* those that each law explains */
    uint64_t size_bytes;                                        /* as requested */
} vw__plan_site;

typedef struct vw__plan_step_evidence {
    vw__plan_site *sites; /* owned; by stack, then by event */
    size_t site_count;
} vw__plan_step_evidence;

/* Compares the step with others, which are listed in `laws`. It has the laws that roles suggest.
 * VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_step_evidence_find(const vw__plan_recorded_run *run,
                                                    const vw__plan_step_question *question,
                                                    vw__plan_step_laws *laws,
                                                    vw__plan_step_evidence *out);
void vw__plan_step_evidence_deinit(vw__plan_step_evidence *evidence);

/* ---- at another size ------------------------------------------------------------------------- */

typedef struct vw__plan_scale {
    vw__plan_multiples multiples; /* of the recorded step */
    bool are_maybes_square;
} vw__plan_scale;

/* The blocks of a step at other sizes. */
typedef struct vw__plan_scaled_step {
    /* Of the blocks alive in the step, from its beginning on; lifetimes is owned. */
    vw__timeline timeline;
    size_t *places;        /* owned; by its lifetimes: the recording's */
    uint32_t last_instant; /* the step's end */
} vw__plan_scaled_step;

/* VW_ERR_UNSUPPORTED: more than an address space. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_scaled_step_init(vw__plan_scaled_step *scaled,
                                                  const vw__plan_recorded_run *run, uint32_t step,
                                                  const vw__plan_step_laws *laws,
                                                  vw__plan_scale scale);
void vw__plan_scaled_step_deinit(vw__plan_scaled_step *scaled);

/* A peak, and what is alive there. */
typedef struct vw__plan_scaled_peak {
    uint64_t bytes;
    uint32_t instant;
    uint64_t role_bytes[VW__ROLE_COUNT];   /* sum: bytes */
    uint64_t law_bytes[VW_PLAN_LAW_COUNT]; /* sum: bytes */
    uint64_t maybe_square_bytes, irregular_bytes;
} vw__plan_scaled_peak;

/* Errors as above. */
VW_MUST_CHECK vw_status vw__plan_recorded_step_scale(const vw__plan_recorded_run *run,
                                                     uint32_t step, const vw__plan_step_laws *laws,
                                                     vw__plan_scale scale,
                                                     vw__plan_scaled_peak *out);

/* What the allocators would make of such a step by itself. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_scaled_replay(const vw__plan_scaled_step *scaled,
                                               uint64_t peak_bytes, vw__plan_replayed *out);

#endif /* VW_PLAN_RECORDED_STEP_H */
