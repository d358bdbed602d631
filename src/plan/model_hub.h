/* model_hub.h - models by their name on huggingface.co, as far as this machine has them. */
#ifndef VW_PLAN_MODEL_HUB_H
#define VW_PLAN_MODEL_HUB_H

#include <stdbool.h>

#include "vramwise/status.h"
#include "base/byte_buffer.h"

/* True of "NAME" and "ORGANISATION/NAME" in the letters that the hub allows; a path with a dot
 * before it, or several folders, is none. */
bool vw__model_hub_is_name(const char *name);

/* Appends the folder of the hub's cache: HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub
 * or ~/.cache/huggingface/hub. Nothing where none of them is set. */
void vw__model_hub_append_cache(vw__byte_buffer *out);

/* Appends the path of the model's config.json in that cache: of the snapshot that refs/main names,
 * or else of the newest one. Nothing if there is none. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__model_hub_find(const char *name, vw__byte_buffer *out);

#endif /* VW_PLAN_MODEL_HUB_H */
