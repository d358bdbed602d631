/* plan_record.h - planned steps as a memory model, as if PyTorch had recorded them. */
#ifndef VW_PLAN_PLAN_RECORD_H
#define VW_PLAN_PLAN_RECORD_H

#include "vramwise/plan.h"
#include "model/memory_model.h"

/* The settings must have been checked. VW_ERR_UNSUPPORTED: more than a list of requests, or a
 * simulated device, can hold. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_record_model(const vw_plan_model *model,
                                              const vw_plan_settings *settings, vw__model **out);

#endif /* VW_PLAN_PLAN_RECORD_H */
