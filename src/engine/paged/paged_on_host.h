/* paged_on_host.h - handles whose pages are exchanged for the host's, under their address. */
#ifndef VW_ENGINE_PAGED_PAGED_ON_HOST_H
#define VW_ENGINE_PAGED_PAGED_ON_HOST_H

#include "engine/paged/paged_engine.h"

/* In a safe moment, with the device idle. A failure leaves everything as it was, except where the
 * device would not take an old handle back: it was exchanged then.
 *
 * VW_ERR_OUT_OF_MEMORY   limit or budget are spent; to come back: the device has no room
 * VW_ERR_HOST_MEMORY     no handle could be made on the host, or no record */
vw_status vw__paged_swap_out(vw__paged_engine *engine, vw__paged_handle *handle, vw__block *first,
                             vw_stream stream);
vw_status vw__paged_swap_in(vw__paged_engine *engine, vw__paged_handle *handle, vw_stream stream);

/* A handle that left should come back within the step; or no more, since it did, or is free. */
void vw__paged_want_early(vw__paged_engine *engine, vw__paged_handle *handle);
/* A block comes free: what is to be noted of it first; and whether it was in handles on the host,
 * and all of it was seen to. */
void vw__paged_note_free(vw__paged_engine *engine, vw__block *block);
bool vw__paged_free_on_host(vw__paged_engine *engine, vw__block *block);

/* Handles that are left are unmapped, and go back to the stock, as far as their streams have come
 * to their end, or may be waited for. Records events: not while capturing. */
vw_status vw__paged_settle_left(vw__paged_engine *engine, bool can_wait);

#endif /* VW_ENGINE_PAGED_PAGED_ON_HOST_H */
