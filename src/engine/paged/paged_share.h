/* paged_share.h - pages in use at several addresses. */
#ifndef VW_ENGINE_PAGED_PAGED_SHARE_H
#define VW_ENGINE_PAGED_PAGED_SHARE_H

#include "engine/paged/paged_engine.h"

/* Lets pages that are partly in use share one, until `wanted_bytes` are given back, as far as that
 * goes. At a safe point, with the device idle. Adds to `*gained_bytes`. */
vw_status vw__paged_share_pages(vw__paged_engine *engine, vw_stream stream, uint64_t wanted_bytes,
                                uint64_t *gained_bytes);

/* `block`, in no index, is used no more, and lies in no handle on the host; in guests it may. */
void vw__paged_free_part(vw__paged_engine *engine, vw__block *block);

/* Guests that nobody uses become ghosts. Records events: not while capturing. */
vw_status vw__paged_settle_vacated(vw__paged_engine *engine);

#endif /* VW_ENGINE_PAGED_PAGED_SHARE_H */
