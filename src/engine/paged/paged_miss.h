/* paged_miss.h - what happens when no free block fits. */
#ifndef VW_ENGINE_PAGED_PAGED_MISS_H
#define VW_ENGINE_PAGED_PAGED_MISS_H

#include "engine/paged/paged_engine.h"

/* Finds or makes a free block of at least `size_bytes`, on `shelf` or that of a private pool which
 * serves others, and sees to the record that its split may take. The lock may be dropped on the
 * way. A failure fills `*refusal`. */
vw_status vw__paged_serve_miss(vw__paged_engine *engine, vw__shelf *shelf,
                               const vw__engine_request *request, uint64_t size_bytes,
                               vw__block **out, vw__engine_refusal *refusal);

#endif /* VW_ENGINE_PAGED_PAGED_MISS_H */
