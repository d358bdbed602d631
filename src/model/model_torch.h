/* model_torch.h - what PyTorch's snapshots have beside events: keys by version, and settings. For
 * whoever makes a model that did not come out of a file. */
#ifndef HR_MODEL_MODEL_TORCH_H
#define HR_MODEL_MODEL_TORCH_H

#include "headroom/status.h"
#include "model/model_build.h"

/* The keys that a release writes: 211 is 2.11. */
hr__model_features hr__model_features_of(int version);

/* One entry of allocator_settings, as hr_pool_walk_conf() tells it. */
HR_MUST_CHECK hr_status hr__model_add_conf(hr__model_builder *builder, const char *key,
                                           const char *value);

#endif /* HR_MODEL_MODEL_TORCH_H */
