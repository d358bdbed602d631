/* plan_record.h - planned steps as a memory model, as if PyTorch had recorded them. */
#ifndef HR_PLAN_PLAN_RECORD_H
#define HR_PLAN_PLAN_RECORD_H

#include "headroom/plan.h"
#include "model/memory_model.h"

/* The settings must have been checked. HR_ERR_UNSUPPORTED: more than a list of requests, or a
 * simulated device, can hold. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__plan_record_model(const hr_plan_model *model,
                                              const hr_plan_settings *settings, hr__model **out);

#endif /* HR_PLAN_PLAN_RECORD_H */
