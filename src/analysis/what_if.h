/* what_if.h - the peak of live bytes, had some of the blocks been smaller.
 *
 * "Half the batch" makes activations smaller and leaves weights as they are. What that gives back
 * is not half of the activations at the peak: with less of them another instant becomes the peak,
 * perhaps one in the optimizer's step. So every question is answered over the whole run: all blocks
 * are scaled by what they are for, live bytes are added up again from instant to instant, and the
 * new peak is held against the old one.
 *
 * Blocks that shrink together are a *portion*: the roles of roles.h, but for temporaries and the
 * largest blocks of the loss, of which the usual remedies change one part and not the other.
 *
 * Many questions are asked of one run. What they share, the order of the changes, is made once;
 * then any number of them is answered in one pass.
 *
 * No locks: one thread at a time while it is made, any number after. */
#ifndef HR_ANALYSIS_WHAT_IF_H
#define HR_ANALYSIS_WHAT_IF_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/timeline.h"

typedef enum hr__portion {
    HR__PORTION_WEIGHTS,
    HR__PORTION_GRADIENTS,
    HR__PORTION_OPTIMIZER,   /* state */
    HR__PORTION_STEP_WORK,   /* temporaries of the optimizer's step */
    HR__PORTION_ACTIVATIONS, /* but for those of the loss */
    HR__PORTION_LOSS,        /* logits, and what is as large as they are */
    HR__PORTION_PASS_WORK,   /* temporaries of everything else */
    HR__PORTION_KV_CACHE,
    HR__PORTION_DATA,
    HR__PORTION_REST, /* what no remedy makes smaller: workspaces, and what is not known */
    HR__PORTION_COUNT
} hr__portion;

/* A change: what is left of each portion, in thousandths, and what comes on top at all times. */
typedef struct hr__what_if {
    uint16_t kept_permille[HR__PORTION_COUNT]; /* at most 1000 */
    uint64_t added_bytes;
} hr__what_if;

typedef struct hr__what_if_peak {
    uint64_t bytes;
    uint32_t instant; /* the first with so much */
} hr__what_if_peak;

/* The blocks of a run, up to an instant. */
typedef struct hr__what_if_run {
    const hr__timeline *timeline; /* borrowed */
    const uint8_t *portion_of;    /* borrowed; by lifetime: hr__portion */
    uint32_t last_instant;        /* later ones are not looked at */

    /* A request that failed at the last instant and counts as live there; 0 bytes = none. */
    uint64_t request_bytes;
    hr__portion request_portion;

    size_t *changes; /* owned; by instant: 2 * lifetime, and 1 more where it ends */
    size_t change_count;
} hr__what_if_run;

/* Nothing changes. */
hr__what_if hr__what_if_nothing(void);

/* The first five fields are the caller's; makes the others. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__what_if_prepare(hr__what_if_run *run);
void hr__what_if_deinit(hr__what_if_run *run);

/* Answers `count` questions in one pass. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__what_if_ask(const hr__what_if_run *run, const hr__what_if *questions,
                                        size_t count, hr__what_if_peak *peaks);

#endif /* HR_ANALYSIS_WHAT_IF_H */
