/* changes.h - what differs between two ways to run a model, and what each difference costs.
 *
 * The search (search.c) tries settings; people are told changes. A change is one line of advice: a
 * name, a factor on the time of a step with its source, a sentence on what it costs, and code. */
#ifndef HR_PLAN_CHANGES_H
#define HR_PLAN_CHANGES_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/plan.h"
#include "base/arena.h"

/* In the order in which they are told. */
typedef enum hr__change {
    HR__CHANGE_ATTENTION,
    HR__CHANGE_LOSS,
    HR__CHANGE_PRECISION,
    HR__CHANGE_OPTIMIZER,
    HR__CHANGE_BATCH,
    HR__CHANGE_CHECKPOINTING,
    HR__CHANGE_SHARDING,
    HR__CHANGE_METHOD, /* LoRA, QLoRA */
    HR__CHANGE_OFFLOAD,
    HR__CHANGE_COUNT
} hr__change;

bool hr__has_changed(hr__change change, const hr_plan_settings *from, const hr_plan_settings *to);
size_t hr__change_count(const hr_plan_settings *from, const hr_plan_settings *to);

/* How far from what was asked for? */
typedef enum hr__distance {
    HR__DISTANCE_NONE,    /* the same numbers, up to rounding */
    HR__DISTANCE_NUMBERS, /* another precision or optimizer */
    HR__DISTANCE_METHOD,  /* something else is trained */
} hr__distance;
hr__distance hr__distance_of(const hr_plan_settings *from, const hr_plan_settings *to);

/* ---- slowdowns.c ----------------------------------------------------------------------------- */

typedef struct hr__slowdown {
    double factor; /* on the time of a step */
    const char *source;
} hr__slowdown;

/* Of a change that there is. `head_share`: the head's part of the weights, for the loss in chunks.
 */
hr__slowdown hr__slowdown_of(hr__change change, const hr_plan_settings *from,
                             const hr_plan_settings *to, double head_share);

/* Of all of them. */
double hr__slowdown_together(const hr_plan_settings *from, const hr_plan_settings *to,
                             double head_share);

/* That the optimizer keeps for each weight; 0: next to nothing. */
double hr__state_bytes_per_weight(const hr_plan_settings *settings);

/* Does the card compute in bfloat16? Unknown cards do. */
bool hr__card_has_bf16(const char *card_name);

/* ---- advice.c -------------------------------------------------------------------------------- */

/* NULL: no host memory. */
const char *hr__change_name(hr__arena *arena, hr__change change, const hr_plan_settings *to);
const char *hr__change_cost(hr__arena *arena, hr__change change, const hr_plan_model *model,
                            const hr_plan_settings *to);
const char *hr__change_code(hr__arena *arena, hr__change change, const hr_plan_model *model,
                            const hr_plan_settings *to);

#endif /* HR_PLAN_CHANGES_H */
