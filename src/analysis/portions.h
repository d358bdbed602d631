/* portions.h - which portion (what_if.h) each block of a run belongs to.
 *
 * By its role, mostly. The loss is the exception. A language model's logits, and the three or four
 * copies that the loss and its gradient make of them, are often the largest blocks of a run, and
 * what shrinks other activations (checkpointing, autocast) leaves them as they are. */
#ifndef VW_ANALYSIS_PORTIONS_H
#define VW_ANALYSIS_PORTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/roles.h"
#include "analysis/timeline.h"
#include "analysis/what_if.h"

/* `pass_kind`: of the pass that asked for it. */
vw__portion vw__portion_of_role(vw__role role, uint8_t pass_kind);

/* Where to look for a loss. */
typedef struct vw__loss_question {
    const vw__model *model; /* borrowed, as all below */
    const vw__timeline *timeline;
    const vw__roles *roles;
    uint32_t instant;    /* at which the loss has to stand out */
    uint64_t live_bytes; /* there */

    /* A request that failed there; 0 bytes = none. */
    uint64_t request_bytes;
    uint32_t request_event, request_context;
    vw__portion request_portion;
} vw__loss_question;

/* Makes the blocks of the loss a portion of their own, in `portions` (by lifetime), if they stand
 * out; `*is_request_of_it` says whether the request is one of them. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__portions_part_loss(const vw__loss_question *question, uint8_t *portions,
                                               bool *is_request_of_it);

/* The same, but for what shifting by a token changes. */
bool vw__is_about_size(uint64_t size_bytes, uint64_t other_bytes);

#endif /* VW_ANALYSIS_PORTIONS_H */
