/* search_options.h - what each change can be made to. */
#ifndef HR_PLAN_SEARCH_OPTIONS_H
#define HR_PLAN_SEARCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/plan.h"
#include "plan/changes.h"

enum { HR__MOST_OPTIONS = 8 };

/* The first is what it is. */
typedef struct hr__search_options {
    uint64_t values[HR__MOST_OPTIONS];
    size_t count;
} hr__search_options;

/* Of HR__CHANGE_METHOD; the others are values of their setting. */
enum { HR__METHOD_AS_IT_IS, HR__METHOD_LORA, HR__METHOD_QLORA };

static inline bool hr__is_training(const hr_plan_settings *settings)
{
    return settings->mode == HR_PLAN_MODE_TRAIN;
}

/* `lists` come zeroed. Not all that is listed goes together. */
void hr__search_list_options(const hr_plan_model *model, const hr_plan_settings *base,
                             hr__search_options lists[HR__CHANGE_COUNT]);

#endif /* HR_PLAN_SEARCH_OPTIONS_H */
