/* engine_list.c - the engines there are. */
#include "engine/engine_list.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "engine/engine_base.h"
#include "engine/paged/paged_engine.h" /* vw__paged_kind */
#include "engine/torch/torch_engine.h" /* vw__torch_kind */

/* A line per engine. The first is the default, and works on every device. */
static const vw__engine_kind *const kinds[] = {&vw__torch_kind, &vw__paged_kind};

enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

/* "a", "b" or "c" */
static void list_names(char *text, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < KIND_COUNT; i++) {
        for (const char *const *name = kinds[i]->names; *name != NULL; name++) {
            bool is_last = i + 1 == KIND_COUNT && name[1] == NULL;
            const char *before = used == 0 ? "" : is_last ? " or " : ", ";
            if (used < capacity)
                used += (size_t)snprintf(text + used, capacity - used, "%s\"%s\"", before, *name);
        }
    }
}

vw_status vw__engine_kind_of(const char *name, const vw__engine_kind **out)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        for (const char *const *known = kinds[i]->names; *known != NULL; known++) {
            if (name == NULL || strcmp(name, *known) == 0) {
                *out = kinds[i];
                return VW_OK;
            }
        }
    }
    char text[256] = "";
    list_names(text, sizeof text);
    return vw__fail(VW_ERR_INVALID_ARGUMENT, "unknown engine \"%s\", expected %s", name, text);
}

vw_status vw__engine_create(const vw__engine_kind *kind, const vw__engine_owner *owner,
                            const vw_pool_options *options, vw__engine **out)
{
    bool is_fallback = kind->needs_virtual_memory && !owner->device->properties.has_virtual_memory;
    if (kind->check_options != NULL)
        VW__TRY(kind->check_options(owner->device, options));
    VW__TRY((is_fallback ? kinds[0] : kind)->create(owner, options, out));
    (*out)->is_fallback = is_fallback;
    return VW_OK;
}
