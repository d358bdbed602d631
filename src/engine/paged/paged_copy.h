/* paged_copy.h - copying live data to other pages, so that memory comes free. */
#ifndef VW_ENGINE_PAGED_PAGED_COPY_H
#define VW_ENGINE_PAGED_PAGED_COPY_H

#include "engine/paged/paged_engine.h"

/* Copies live data off handles that are mostly free, until a request of `size_bytes` would find the
 * memory it misses if the pool held up to `limit_bytes`, as far as that goes. False in
 * `*is_worth_while`: nothing was gained. */
vw_status vw__paged_make_room(vw__paged_engine *engine, vw_stream stream, uint64_t size_bytes,
                              uint64_t limit_bytes, bool *is_worth_while);

#endif /* VW_ENGINE_PAGED_PAGED_COPY_H */
