/* paged_whole.h - private pools whose segments are one handle each. See paged_whole.c. */
#ifndef VW_ENGINE_PAGED_PAGED_WHOLE_H
#define VW_ENGINE_PAGED_PAGED_WHOLE_H

#include "engine/paged/paged_fill.h" /* vw__paged_miss */

/* True if a private pool with one_handle owns the shelf. */
bool vw__paged_wants_whole(const vw__shelf *shelf);

/* Serves a request of such a pool with a new segment. Where the device has no room, idle memory
 * goes back to it first. */
vw_status vw__paged_take_whole(vw__paged_miss *request, vw__block **out);

/* Gives idle whole segments back: of one private pool, or, with NULL, of all; and only of pools
 * that nobody uses any more. Adds their bytes to `*given_bytes`. */
vw_status vw__paged_release_whole(vw__paged_engine *engine, const vw_private_id *only,
                                  uint64_t *given_bytes);

#endif /* VW_ENGINE_PAGED_PAGED_WHOLE_H */
