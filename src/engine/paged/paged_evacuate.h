/* paged_evacuate.h - one handle, whose live data goes to other pages under the same addresses. */
#ifndef VW_ENGINE_PAGED_PAGED_EVACUATE_H
#define VW_ENGINE_PAGED_PAGED_EVACUATE_H

#include "engine/paged/paged_engine.h"

/* `first` is a block of the handle's arena, near its beginning. Adds to `*gained_bytes` what goes
 * back to the device and was not needed for the copy. VW_ERR_OUT_OF_MEMORY: there is no memory to
 * copy to, or not without taking as much as would be gained; nothing changed. */
vw_status vw__paged_evacuate(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                             vw_stream stream, bool is_deep, uint64_t *gained_bytes);

/* True if every byte of the unit at `address` is in use. `block` is one of its arena, not far from
 * it. */
bool vw__paged_is_unit_full(const vw__paged_engine *engine, vw__block *block, uint64_t address);

#endif /* VW_ENGINE_PAGED_PAGED_EVACUATE_H */
