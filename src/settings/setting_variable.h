/* setting_variable.h - the environment variable that PyTorch's settings go into.
 *
 *   CUDA up to 2.9   reads PYTORCH_CUDA_ALLOC_CONF only
 *   2.10 and later   reads PYTORCH_ALLOC_CONF too, and calls the old name deprecated; where both
 *                    are set, the old one wins
 *
 * Every text that tells somebody to set a variable asks here. */
#ifndef VW_SETTINGS_SETTING_VARIABLE_H
#define VW_SETTINGS_SETTING_VARIABLE_H

#include <stdbool.h>

#include "model/memory_model.h"

/* 213 for "2.13", "2.13.0a0"; 0 for NULL and for what is no version. */
unsigned vw__setting_version(const char *text);

/* The variable to set. `named`: the one that PyTorch's own message names, or NULL. `version`: as of
 * vw__setting_version(), or the least that it can be; 0 = unknown. `is_old_set`: settings are in
 * force, and PYTORCH_CUDA_ALLOC_CONF may be where they are. Static, or `named`. */
const char *vw__setting_variable(const char *named, unsigned version, bool is_old_set);

/* The same for a recording, which does not say which version wrote it: `wanted_version` is the
 * caller's word ("2.12"), or NULL. */
const char *vw__setting_variable_of_recording(const vw__model *model, const char *wanted_version);

#endif /* VW_SETTINGS_SETTING_VARIABLE_H */
