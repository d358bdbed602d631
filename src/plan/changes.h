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
typedef enum vw__plan_change {
    VW__PLAN_CHANGE_ATTENTION,
    VW__PLAN_CHANGE_LOSS,
    VW__PLAN_CHANGE_PRECISION,
    VW__PLAN_CHANGE_OPTIMIZER,
    VW__PLAN_CHANGE_BATCH,
    VW__PLAN_CHANGE_CHECKPOINTING,
    VW__PLAN_CHANGE_SHARDING,
    VW__PLAN_CHANGE_METHOD, /* LoRA, QLoRA */
    VW__PLAN_CHANGE_OFFLOAD,
    VW__PLAN_CHANGE_COUNT
} vw__plan_change;

/* Values of VW__PLAN_CHANGE_METHOD. */
enum { VW__PLAN_METHOD_ALL_WEIGHTS, VW__PLAN_METHOD_LORA, VW__PLAN_METHOD_QLORA };

/* The value of the setting that a change is about. */
uint64_t vw__plan_change_value(vw__plan_change change, const vw_plan_settings *settings);

bool vw__plan_has_changed(vw__plan_change change, const vw_plan_settings *from,
                          const vw_plan_settings *to);

/* The remedy that a change is; VW__REMEDY_COUNT: it is not made to save memory. */
vw__remedy_id vw__plan_change_remedy(vw__plan_change change, const vw_plan_settings *to);

/* How far settings are from those that were asked for. */
typedef enum vw__plan_distance {
    VW__PLAN_DISTANCE_NONE,    /* the same numbers, up to rounding */
    VW__PLAN_DISTANCE_NUMBERS, /* another precision or optimizer */
    VW__PLAN_DISTANCE_METHOD,  /* something else is trained */
} vw__plan_distance;
vw__plan_distance vw__plan_distance_of(const vw_plan_settings *from, const vw_plan_settings *to);

/* The words for a change. Cost and code are "" for a change that is no remedy. False: no host
 * memory. */
bool vw__plan_change_describe(vw__arena *arena, vw__plan_change change, const vw_plan_model *model,
                              const vw_plan_settings *to, vw_plan_change *out);

/* ---- slowdowns.c ----------------------------------------------------------------------------- */

typedef struct vw__plan_slowdown {
    double factor; /* on the time of a step */
    const char *source;
} vw__plan_slowdown;

/* The slowdown by one change between the two; `head_share` is the head's share of the weights. */
vw__plan_slowdown vw__plan_slowdown_of(vw__plan_change change, const vw_plan_settings *from,
                                       const vw_plan_settings *to, double head_share);

/* By all changes together. */
double vw__plan_slowdown_together(const vw_plan_settings *from, const vw_plan_settings *to,
                                  double head_share);

/* What the optimizer keeps for each weight; 0: next to nothing. */
double vw__plan_state_bytes_per_weight(const vw_plan_settings *settings);

/* Returns whether spilled state costs less time with streams. */
bool vw__plan_spill_streams(const vw_plan_settings *to);

#endif /* VW_PLAN_CHANGES_H */
