/* step_evidence.h - what the other steps of a recording say about the blocks of one.
 *
 * Steps of one program ask for the same things in the same order. So the third request of a stack
 * in one step is the third of that stack in another, and how their sizes compare tells how they go
 * with the batch and with the length. */
#ifndef VW_PLAN_STEP_EVIDENCE_H
#define VW_PLAN_STEP_EVIDENCE_H

#include "plan/recorded_step.h"

/* A request of the step that is asked about. */
typedef struct vw__site {
    uint32_t lifetime;
    uint32_t stack; /* model->stacks; stack_count where there is none */
    uint32_t event;
    uint32_t comparisons; /* steps that have the same request, and another size of batch */
    uint32_t matches[VW_PLAN_LAW_COUNT][VW__LENGTH_COUNT]; /* those that each law explains */
    uint64_t size_bytes;                                   /* as requested */
} vw__site;

typedef struct vw__step_evidence {
    vw__site *sites; /* owned; by stack, then by event */
    size_t site_count;
    vw__compared_step compared[VW__MOST_COMPARED]; /* steps of another size */
    uint32_t compared_count;
    bool has_lengths; /* one of them at least was of another length */
} vw__step_evidence;

/* `guessed`: laws by lifetime, by what blocks are for. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__step_evidence_find(const vw__recorded_run *run,
                                               const vw__step_question *question,
                                               const uint8_t *guessed, vw__step_evidence *out);
void vw__step_evidence_deinit(vw__step_evidence *evidence);

#endif /* VW_PLAN_STEP_EVIDENCE_H */
