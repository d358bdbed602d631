/* plan_choices.h - what a search found, as a plan's reader gets it. */
#ifndef VW_PLAN_PLAN_CHOICES_H
#define VW_PLAN_PLAN_CHOICES_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/plan.h"
#include "base/arena.h"
#include "plan/search.h"

/* NULL: no host memory. */
const vw_plan_choice *vw__plan_choices_make(vw__arena *arena, const vw_plan_model *model,
                                            const vw_plan_settings *base, double head_share,
                                            const vw__search_result *result);

#endif /* VW_PLAN_PLAN_CHOICES_H */
