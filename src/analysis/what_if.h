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
#ifndef VW_ANALYSIS_WHAT_IF_H
#define VW_ANALYSIS_WHAT_IF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/roles.h"
#include "analysis/timeline.h"

typedef enum vw__portion {
    VW__PORTION_WEIGHTS,
    VW__PORTION_GRADIENTS,
    VW__PORTION_OPTIMIZER,   /* state */
    VW__PORTION_STEP_WORK,   /* temporaries of the optimizer's step */
    VW__PORTION_ACTIVATIONS, /* but for those of the loss */
    VW__PORTION_LOSS,        /* logits, and what is as large as they are */
    VW__PORTION_PASS_WORK,   /* temporaries of everything else */
    VW__PORTION_KV_CACHE,
    VW__PORTION_DATA,
    VW__PORTION_REST, /* workspaces and unknown blocks: no remedy makes them smaller */
    VW__PORTION_COUNT
} vw__portion;

/* A change: the share of each portion that is left, in thousandths, and bytes that are added at all
 * times. */
typedef struct vw__what_if {
    uint16_t kept_permille[VW__PORTION_COUNT]; /* at most 1000 */
    uint64_t added_bytes;
} vw__what_if;

typedef struct vw__what_if_peak {
    uint64_t bytes;
    uint32_t instant; /* the first with so much */
} vw__what_if_peak;

/* The blocks of a run, up to an instant. */
typedef struct vw__what_if_run {
    const vw__timeline *timeline; /* borrowed */
    const uint8_t *portion_of;    /* borrowed; by lifetime: vw__portion */
    uint32_t last_instant;        /* later ones are not looked at */

    /* A request that failed at the last instant and counts as live there; 0 bytes: no request. */
    uint64_t request_bytes;
    vw__portion request_portion;

    size_t *changes; /* owned; by instant: 2 * lifetime, and 1 more where it ends */
    size_t change_count;
} vw__what_if_run;

/* Nothing changes. */
vw__what_if vw__what_if_nothing(void);

/* The first five fields are the caller's; makes the others. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__what_if_prepare(vw__what_if_run *run);
void vw__what_if_deinit(vw__what_if_run *run);

/* Answers `count` questions in one pass. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__what_if_ask(const vw__what_if_run *run, const vw__what_if *questions,
                                        size_t count, vw__what_if_peak *peaks);

/* ---- which portion a block belongs to -------------------------------------------------------- */

/* A role decides, except for the loss. A language model's logits, and the three or four copies that
 * the loss and its gradient make of them, are often the largest blocks of a run, and what shrinks
 * other activations (checkpointing, autocast) leaves them as they are. `pass_kind` is of the pass
 * that asked for the block. */
vw__portion vw__portion_of_role(vw__role role, uint8_t pass_kind);

/* Where to look for a loss. */
typedef struct vw__portion_loss_question {
    const vw__model *model; /* borrowed, as all below */
    const vw__timeline *timeline;
    const vw__roles *roles;
    uint32_t instant;    /* at which the loss has to stand out */
    uint64_t live_bytes; /* there */

    /* A request that failed there; 0 bytes: no request. */
    uint64_t request_bytes;
    uint32_t request_event, request_context;
    vw__portion request_portion;
} vw__portion_loss_question;

/* Makes the blocks of the loss a portion of their own, in `portions` (by lifetime), if they stand
 * out; `*is_request_of_it` says whether the request is one of them. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__portion_part_loss(const vw__portion_loss_question *question,
                                              uint8_t *portions, bool *is_request_of_it);

/* Returns whether two sizes are equal up to a shift by one token. */
bool vw__portion_is_about_size(uint64_t size_bytes, uint64_t other_bytes);

#endif /* VW_ANALYSIS_WHAT_IF_H */
