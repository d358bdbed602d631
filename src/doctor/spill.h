/* spill.h - memory that goes to the host's, as a remedy: replayed. See spill.c. */
#ifndef VW_DOCTOR_SPILL_H
#define VW_DOCTOR_SPILL_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "doctor/diagnosis.h"
#include "doctor/doctor.h"

/* What a run on the card that it failed on came to, with memory of the host's. */
typedef struct vw__doctor_spill_trial {
    bool is_enough;         /* nothing fails any more */
    bool has_streams;       /* data leaves and returns in each step */
    uint64_t spill_bytes;   /* the budget that it was tried with: as much as it takes */
    uint64_t spilled_bytes; /* of live memory, at most */
    uint64_t step_cost_ns;  /* to read and write them once, and to move them if is_with_moves; with
                               streams, what those cost */
    bool is_with_moves;
    uint64_t move_ns;  /* to move them, all times together; 0 if is_with_moves */
    uint64_t step_ns;  /* that a step takes, by the recorded times; VW_UNKNOWN */
    bool is_of_a_pool; /* of a program that calls libvramwise itself */
} vw__doctor_spill_trial;

/* VW_ERR_HOST_MEMORY; what cannot be replayed is not enough. */
VW_MUST_CHECK vw_status vw__doctor_try_spill(const vw__doctor_input *input, vw__doctor_facts *facts,
                                             vw__doctor_spill_trial *out);

/* The words of the remedy, which are the draft's. */
const char *vw__doctor_spill_action(vw__diagnosis_draft *draft,
                                    const vw__doctor_spill_trial *trial);
const char *vw__doctor_spill_cost(vw__diagnosis_draft *draft, const vw__doctor_spill_trial *trial);
const char *vw__doctor_spill_how(vw__diagnosis_draft *draft, uint64_t budget_bytes,
                                 bool has_streams);
const char *vw__doctor_spill_how_of(vw__diagnosis_draft *draft,
                                    const vw__doctor_spill_trial *trial);

#endif /* VW_DOCTOR_SPILL_H */
