/* paged_moment.h - safe moments, and copying live data in them. */
#ifndef VW_ENGINE_PAGED_PAGED_MOMENT_H
#define VW_ENGINE_PAGED_PAGED_MOMENT_H

#include "engine/paged/paged_engine.h"

/* Each handle that a block in use touches at its home, and that may be copied off: not pinned, not
 * a graph's. `first` is the block at its beginning. */
typedef vw_status (*vw__paged_home_visitor)(void *context, vw__paged_engine *engine,
                                            vw__paged_handle *handle, vw__block *first);
vw_status vw__paged_each_home_in_use(vw__paged_engine *engine, vw__paged_home_visitor visit,
                                     void *context);

/* Copies what is in use of a handle to the same offsets from `to_address` on, and waits for it. */
vw_status vw__paged_copy_live(vw__paged_engine *engine, const vw__paged_handle *handle,
                              vw__block *first, uint64_t to_address, vw_stream stream);

/* From there, the other way. */
vw_status vw__paged_copy_back(vw__paged_engine *engine, const vw__paged_handle *handle,
                              vw__block *first, uint64_t from_address, vw_stream stream);

/* From here on vw__paged_look_ahead() looks anew: the limit is another. */
void vw__paged_begin_looking_ahead(vw__paged_engine *engine);

/* For each miss: tells the owner that it may be asked for a moment soon, because the pool would
 * hold seven eighths of all it can have; from then on with each miss, so that what takes time to
 * prepare goes on. Returns whether it did, with the lock dropped meanwhile. */
bool vw__paged_look_ahead(vw__paged_engine *engine, uint64_t size_bytes);

/* Around everything that drops the lock while a request or a move is on its way: others are served
 * meanwhile, free blocks, make marks of their own, and may fail the pool. So nobody is being
 * served then, and marks that were made before are not used for what comes free. Returns what
 * vw__paged_go_on() takes. */
const vw__engine_request *vw__paged_stand_aside(vw__paged_engine *engine);
void vw__paged_go_on(vw__paged_engine *engine, const vw__engine_request *serving);

/* A moment in which nobody touches live data, with the lock dropped meanwhile: until
 * vw__paged_end_moment(). False: not now, or never. The pool may have failed by then. */
bool vw__paged_begin_moment(vw__paged_engine *engine);
void vw__paged_end_moment(vw__paged_engine *engine);

/* True if its blocks may be copied: not those that graphs replay into. */
bool vw__paged_may_be_copied(const vw__paged_engine *engine, const vw__lane *lane);

#endif /* VW_ENGINE_PAGED_PAGED_MOMENT_H */
