/* config_precision.h - the type of a model's weights as its file has them: torch_dtype, and
 * quantization_config. */
#ifndef VW_PLAN_CONFIG_PRECISION_H
#define VW_PLAN_CONFIG_PRECISION_H

#include "plan/config_read.h"
#include "plan/plan_model.h"

/* Reads both. A method that is not planned is refused by name: its weights have another size.
 *
 * VW_ERR_UNSUPPORTED  the method, and what is planned */
VW_MUST_CHECK vw_status vw__config_read_precision(const vw__config *config, vw_plan_model *model);

#endif /* VW_PLAN_CONFIG_PRECISION_H */
