/* program_uses.h - what a recorded program shows of itself: which techniques it uses, and which
 * passes it ran. */
#ifndef HR_PLAN_PROGRAM_USES_H
#define HR_PLAN_PROGRAM_USES_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/roles.h"
#include "model/memory_model.h"

/* What stacks show. */
enum {
    HR__USES_CHECKPOINTING = 1 << 0,
    HR__USES_16_BITS = 1 << 1,
    HR__USES_8_BIT_STATE = 1 << 2,
    HR__USES_FOREACH = 1 << 3,
    HR__USES_SHARDS = 1 << 4,
    HR__USES_SEVERAL_GPUS = 1 << 5, /* or PyTorch sees several */
    HR__USES_TRANSFORMERS = 1 << 6,
    HR__USES_FUSED_LOSS = 1 << 7,
};

typedef struct hr__program_uses {
    unsigned techniques;         /* HR__USES_... */
    bool has_backward, has_step; /* a backward pass, or a whole step, was seen */
    bool may_train;              /* a backward pass may be to come */
} hr__program_uses;

/* Passes that begin at `last_instant` or later are not looked at. */
hr__program_uses hr__program_uses_find(const hr__model *model, const hr__roles *roles,
                                       uint32_t last_instant);

#endif /* HR_PLAN_PROGRAM_USES_H */
