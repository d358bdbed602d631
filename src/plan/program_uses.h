/* program_uses.h - what a recorded program shows of itself: which techniques it uses, and which
 * passes it ran. */
#ifndef VW_PLAN_PROGRAM_USES_H
#define VW_PLAN_PROGRAM_USES_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/roles.h"
#include "model/memory_model.h"

/* What stacks show. */
enum {
    VW__USES_CHECKPOINTING = 1 << 0,
    VW__USES_16_BITS = 1 << 1,
    VW__USES_8_BIT_STATE = 1 << 2,
    VW__USES_FOREACH = 1 << 3,
    VW__USES_SHARDS = 1 << 4,
    VW__USES_SEVERAL_GPUS = 1 << 5, /* or PyTorch sees several */
    VW__USES_TRANSFORMERS = 1 << 6,
    VW__USES_FUSED_LOSS = 1 << 7,
};

typedef struct vw__program_uses {
    unsigned techniques;         /* VW__USES_... */
    bool has_backward, has_step; /* a backward pass, or a whole step, was seen */
    bool may_train;              /* a backward pass may be to come */
} vw__program_uses;

/* Passes that begin at `last_instant` or later are not looked at. */
vw__program_uses vw__program_uses_find(const vw__model *model, const vw__roles *roles,
                                       uint32_t last_instant);

#endif /* VW_PLAN_PROGRAM_USES_H */
