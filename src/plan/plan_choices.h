/* plan_choices.h - what a search found, as a plan's reader gets it. */
#ifndef HR_PLAN_PLAN_CHOICES_H
#define HR_PLAN_PLAN_CHOICES_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/plan.h"
#include "base/arena.h"
#include "plan/search.h"

/* NULL: no host memory. */
const hr_plan_choice *hr__plan_choices_make(hr__arena *arena, const hr_plan_model *model,
                                            const hr_plan_settings *base, double head_share,
                                            const hr__search_result *result);

#endif /* HR_PLAN_PLAN_CHOICES_H */
