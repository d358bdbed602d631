/* search_options.h - what each change can be made to. */
#ifndef VW_PLAN_SEARCH_OPTIONS_H
#define VW_PLAN_SEARCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/plan.h"
#include "plan/changes.h"

enum { VW__MOST_OPTIONS = 8 };

/* The first is what it is. */
typedef struct vw__search_options {
    uint64_t values[VW__MOST_OPTIONS];
    size_t count;
} vw__search_options;

/* Of VW__CHANGE_METHOD; the others are values of their setting. */
enum { VW__METHOD_AS_IT_IS, VW__METHOD_LORA, VW__METHOD_QLORA };

static inline bool vw__is_training(const vw_plan_settings *settings)
{
    return settings->mode == VW_PLAN_MODE_TRAIN;
}

/* `lists` come zeroed. Not all that is listed goes together. */
void vw__search_list_options(const vw_plan_model *model, const vw_plan_settings *base,
                             vw__search_options lists[VW__CHANGE_COUNT]);

#endif /* VW_PLAN_SEARCH_OPTIONS_H */
