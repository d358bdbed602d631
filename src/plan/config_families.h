/* config_families.h - config.json of each family, as transformers reads it: fields, defaults, and
 * what a value means for the shape. What decides the size of a weight has to be there; what has a
 * default in transformers' own class has the same here. */
#ifndef HR_PLAN_CONFIG_FAMILIES_H
#define HR_PLAN_CONFIG_FAMILIES_H

#include "headroom/status.h"
#include "plan/config_read.h"
#include "plan/plan_model.h"

/* Limits beyond which a value is a mistake, and not a model. */
#define HR__MOST_LAYERS UINT64_C(4096)
#define HR__MOST_HEADS UINT64_C(65536)
#define HR__MOST_WIDTH (UINT64_C(1) << 20)
#define HR__MOST_INNER (UINT64_C(1) << 24)
#define HR__MOST_VOCABULARY (UINT64_C(1) << 27)
#define HR__MOST_POSITIONS (UINT64_C(1) << 30)
#define HR__MOST_EXPERTS UINT64_C(1024)
#define HR__MOST_PIXELS UINT64_C(65536)

HR_MUST_CHECK hr_status hr__read_gpt2(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_llama(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_bert(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_vit(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_t5(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_gemma(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_phi(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_phi3(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_gpt_neox(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_mixtral(const hr__config *config, hr_plan_model *model);
HR_MUST_CHECK hr_status hr__read_resnet(const hr__config *config, hr_plan_model *model);

/* ---- what they share ------------------------------------------------------------------------- */

/* hidden_size, num_hidden_layers, num_attention_heads, intermediate_size; as many key heads. */
HR_MUST_CHECK hr_status hr__read_usual(const hr__config *config, hr__transformer *shape);
HR_MUST_CHECK hr_status hr__read_vocabulary(const hr__config *config, hr__transformer *shape);
HR_MUST_CHECK hr_status hr__check_heads(const hr__config *config, const hr__transformer *shape);

/* The name of an activation function, as transformers knows it; missing: left as it is. */
HR_MUST_CHECK hr_status hr__read_activation(const hr__config *config, const char *name,
                                            hr__activation *out);

/* How many labels a classifier has. */
HR_MUST_CHECK hr_status hr__read_labels(const hr__config *config, uint64_t *labels);

/* A probability; missing: left as it is. */
HR_MUST_CHECK hr_status hr__read_dropout(const hr__config *config, const char *name, bool *has_it);

/* `whole` must be a multiple of `part`: both are fields of the configuration. */
HR_MUST_CHECK hr_status hr__check_multiple(const hr__config *config, const char *whole_name,
                                           uint64_t whole, const char *part_name, uint64_t part);

#endif /* HR_PLAN_CONFIG_FAMILIES_H */
