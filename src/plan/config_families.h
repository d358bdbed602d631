/* config_families.h - config.json of each family, as transformers reads it: fields, defaults, and
 * what a value means for the shape. What decides the size of a weight has to be there; what has a
 * default in transformers' own class has the same here. */
#ifndef VW_PLAN_CONFIG_FAMILIES_H
#define VW_PLAN_CONFIG_FAMILIES_H

#include "vramwise/status.h"
#include "plan/config_read.h"
#include "plan/plan_model.h"

/* Limits beyond which a value is a mistake, and not a model. */
#define VW__MOST_LAYERS UINT64_C(4096)
#define VW__MOST_HEADS UINT64_C(65536)
#define VW__MOST_WIDTH (UINT64_C(1) << 20)
#define VW__MOST_INNER (UINT64_C(1) << 24)
#define VW__MOST_VOCABULARY (UINT64_C(1) << 27)
#define VW__MOST_POSITIONS (UINT64_C(1) << 30)
#define VW__MOST_EXPERTS UINT64_C(1024)
#define VW__MOST_PIXELS UINT64_C(65536)

VW_MUST_CHECK vw_status vw__read_gpt2(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_llama(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_bert(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_vit(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_t5(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_gemma(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_phi(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_phi3(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_gpt_neox(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_mixtral(const vw__config *config, vw_plan_model *model);
VW_MUST_CHECK vw_status vw__read_resnet(const vw__config *config, vw_plan_model *model);

/* ---- what they share ------------------------------------------------------------------------- */

/* hidden_size, num_hidden_layers, num_attention_heads, intermediate_size; as many key heads. */
VW_MUST_CHECK vw_status vw__read_usual(const vw__config *config, vw__transformer *shape);
VW_MUST_CHECK vw_status vw__read_vocabulary(const vw__config *config, vw__transformer *shape);
VW_MUST_CHECK vw_status vw__check_heads(const vw__config *config, const vw__transformer *shape);

/* The name of an activation function, as transformers knows it; missing: left as it is. */
VW_MUST_CHECK vw_status vw__read_activation(const vw__config *config, const char *name,
                                            vw__activation *out);

/* How many labels a classifier has. */
VW_MUST_CHECK vw_status vw__read_labels(const vw__config *config, uint64_t *labels);

/* A probability; missing: left as it is. */
VW_MUST_CHECK vw_status vw__read_dropout(const vw__config *config, const char *name, bool *has_it);

/* `whole` must be a multiple of `part`: both are fields of the configuration. */
VW_MUST_CHECK vw_status vw__check_multiple(const vw__config *config, const char *whole_name,
                                           uint64_t whole, const char *part_name, uint64_t part);

#endif /* VW_PLAN_CONFIG_FAMILIES_H */
