/* config_refused.h - model types that no plan is made of, and what works for them. */
#ifndef VW_PLAN_CONFIG_REFUSED_H
#define VW_PLAN_CONFIG_REFUSED_H

#include "plan/config_read.h"

/* Refuses the model_type of a configuration, with the reason where the type is known, and with the
 * next step that works for any model. Always fails, with VW_ERR_UNSUPPORTED. */
VW_MUST_CHECK vw_status vw__config_refuse_type(const vw__config *config);

#endif /* VW_PLAN_CONFIG_REFUSED_H */
