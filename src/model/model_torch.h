/* model_torch.h - what PyTorch's snapshots have besides events: keys by version, and settings. For
 * models that are not read from a file. */
#ifndef VW_MODEL_MODEL_TORCH_H
#define VW_MODEL_MODEL_TORCH_H

#include "vramwise/status.h"
#include "model/model_build.h"

/* The keys that a release of PyTorch writes: 211 is 2.11. */
vw__model_features vw__model_features_of(int version);

/* Adds one entry of allocator_settings, from vw_pool_walk_conf() or one of our own. */
VW_MUST_CHECK vw_status vw__model_add_conf(vw__model_builder *builder, const char *key,
                                           const char *value);

#endif /* VW_MODEL_MODEL_TORCH_H */
