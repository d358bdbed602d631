/* changes.h - what differs between two ways to run a model, and what each difference costs.
 *
 * The search (search.c) tries settings; users read changes. A change is one line of advice: a name,
 * a factor on the time of a step with its source, a sentence on what it costs, and code. */
#ifndef VW_PLAN_CHANGES_H
#define VW_PLAN_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "base/arena.h"
#include "remedy/remedy.h"

/* In the order in which they are listed. */
typedef enum vw__change {
    VW__CHANGE_ATTENTION,
    VW__CHANGE_LOSS,
    VW__CHANGE_PRECISION,
    VW__CHANGE_OPTIMIZER,
    VW__CHANGE_BATCH,
    VW__CHANGE_CHECKPOINTING,
    VW__CHANGE_SHARDING,
    VW__CHANGE_METHOD, /* LoRA, QLoRA */
    VW__CHANGE_OFFLOAD,
    VW__CHANGE_COUNT
} vw__change;

/* Values of VW__CHANGE_METHOD. */
enum { VW__METHOD_ALL_WEIGHTS, VW__METHOD_LORA, VW__METHOD_QLORA };

/* The value of the setting that a change is about. */
uint64_t vw__plan_change_value(vw__change change, const vw_plan_settings *settings);

bool vw__has_changed(vw__change change, const vw_plan_settings *from, const vw_plan_settings *to);

/* The remedy that a change is; VW__REMEDY_COUNT: it is not made to save memory. */
vw__remedy_id vw__change_remedy(vw__change change, const vw_plan_settings *to);

/* How far settings are from those that were asked for. */
typedef enum vw__distance {
    VW__DISTANCE_NONE,    /* the same numbers, up to rounding */
    VW__DISTANCE_NUMBERS, /* another precision or optimizer */
    VW__DISTANCE_METHOD,  /* something else is trained */
} vw__distance;
vw__distance vw__distance_of(const vw_plan_settings *from, const vw_plan_settings *to);

/* The words for a change. Cost and code are "" for a change that is no remedy. False: no host
 * memory. */
bool vw__plan_change_describe(vw__arena *arena, vw__change change, const vw_plan_model *model,
                              const vw_plan_settings *to, vw_plan_change *out);

/* ---- slowdowns.c ----------------------------------------------------------------------------- */

typedef struct vw__slowdown {
    double factor; /* on the time of a step */
    const char *source;
} vw__slowdown;

/* The slowdown by one change between the two; `head_share` is the head's share of the weights. */
vw__slowdown vw__slowdown_of(vw__change change, const vw_plan_settings *from,
                             const vw_plan_settings *to, double head_share);

/* By all changes together. */
double vw__slowdown_together(const vw_plan_settings *from, const vw_plan_settings *to,
                             double head_share);

/* What the optimizer keeps for each weight; 0: next to nothing. */
double vw__state_bytes_per_weight(const vw_plan_settings *settings);

/* Whether the card computes in bfloat16. Unknown cards do. */
bool vw__card_has_bf16(const char *card_name);

#endif /* VW_PLAN_CHANGES_H */
