/* model_torch.h - what PyTorch's snapshots have beside events: keys by version, and settings. For
 * whoever makes a model that did not come out of a file. */
#ifndef VW_MODEL_MODEL_TORCH_H
#define VW_MODEL_MODEL_TORCH_H

#include "vramwise/status.h"
#include "model/model_build.h"

/* The keys that a release writes: 211 is 2.11. */
vw__model_features vw__model_features_of(int version);

/* One entry of allocator_settings, as vw_pool_walk_conf() tells it, or one of our own. */
VW_MUST_CHECK vw_status vw__model_add_conf(vw__model_builder *builder, const char *key,
                                           const char *value);

#endif /* VW_MODEL_MODEL_TORCH_H */
