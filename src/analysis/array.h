/* array.h - arrays that grow while they are filled. */
#ifndef VW_ANALYSIS_ARRAY_H
#define VW_ANALYSIS_ARRAY_H

#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"

/* Makes room for one item more at `count` of the array that `array` points at, whose items are
 * `item_bytes` large: at least doubles it. `what` is for the error's text. VW_ERR_HOST_MEMORY:
 * nothing changed. */
VW_MUST_CHECK static inline vw_status vw__array_make_room(void *array, size_t *capacity,
                                                          size_t count, size_t item_bytes,
                                                          const char *what)
{
    void *items;
    if (count < *capacity)
        return VW_OK;
    size_t grown = 2 * *capacity + 64;
    memcpy(&items, array, sizeof items); /* any type of pointer */
    items = vw__host_realloc(items, grown * item_bytes);
    if (items == NULL)
        return vw__fail_host_memory(grown * item_bytes, what);
    memcpy(array, &items, sizeof items);
    *capacity = grown;
    return VW_OK;
}

#endif /* VW_ANALYSIS_ARRAY_H */
