/* config_heads.h - which head a configuration's class has: "architectures" of config.json.
 *
 * A class is called by its model and its head: Bert, ForTokenClassification. The model's part is
 * that of the usual class of a row in config_types.c; which heads can be planned is the family's to
 * say (vw__plan_family.heads). */
#ifndef VW_PLAN_CONFIG_HEADS_H
#define VW_PLAN_CONFIG_HEADS_H

#include "plan/config_types.h"

/* Sets the model's head, and says what differs from what the file asks for: a note where another
 * class is planned, a caution where the class is not known and no head is planned. */
VW_MUST_CHECK vw_status vw__config_read_head(const vw__config *config, const vw__config_type *type,
                                             vw_plan_model *model);

#endif /* VW_PLAN_CONFIG_HEADS_H */
