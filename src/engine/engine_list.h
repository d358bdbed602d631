/* engine_list.h - the engines there are, and making one by its name. */
#ifndef VW_ENGINE_ENGINE_LIST_H
#define VW_ENGINE_ENGINE_LIST_H

#include <stdbool.h>

#include "vramwise/vramwise.h" /* vw_pool_options */
#include "engine/engine.h"

/* What it takes to make engines of one kind. */
typedef struct vw__engine_kind {
    const char *const *names;  /* that vw_pool_options.engine may have for it; ended by NULL */
    bool needs_virtual_memory; /* on a device without it the first kind of the list serves */

    /* Whether an engine could be made of these options; or NULL, if of any. */
    vw_status (*check_options)(const vw_device *device, const vw_pool_options *options);

    /* Makes an engine that drives owner->device. The options were checked. */
    vw_status (*create)(const vw__engine_owner *owner, const vw_pool_options *options,
                        vw__engine **out);
} vw__engine_kind;

/* The kind of that name; NULL is the first. VW_ERR_INVALID_ARGUMENT: unknown name. */
vw_status vw__engine_kind_of(const char *name, const vw__engine_kind **out);

/* Checks the options and makes an engine: one of that kind or, where the device lacks what it
 * needs, one of the first kind, with is_fallback set. */
vw_status vw__engine_create(const vw__engine_kind *kind, const vw__engine_owner *owner,
                            const vw_pool_options *options, vw__engine **out);

#endif /* VW_ENGINE_ENGINE_LIST_H */
