/* config_parts.h - configurations of models of several parts: the text part, as a model of its own.
 */
#ifndef VW_PLAN_CONFIG_PARTS_H
#define VW_PLAN_CONFIG_PARTS_H

#include <stdbool.h>

#include "vramwise/status.h"
#include "plan/config_types.h"

/* Reads the text part into a new model, with a caution that says which part it is. `*is_planned`
 * is false if there is no part of a type that is planned: nothing was read. */
VW_MUST_CHECK vw_status vw__config_read_part(const vw__config *config, vw_plan_model *model,
                                             bool *is_planned);

/* What transformers' class has where a part leaves a field out. Such files hold only what differs
 * from it; nothing for classes whose parts were never seen to leave out anything. */
void vw__config_part_defaults(const char *type_name, vw__plan_shape *shape);

#endif /* VW_PLAN_CONFIG_PARTS_H */
