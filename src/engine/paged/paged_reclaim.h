/* paged_reclaim.h - giving memory back. */
#ifndef VW_ENGINE_PAGED_PAGED_RECLAIM_H
#define VW_ENGINE_PAGED_PAGED_RECLAIM_H

#include "engine/paged/paged_engine.h"

/* The engine table's trim(). */
vw_status vw__paged_trim(vw__engine *engine, const vw_private_id *only);

/* Gives back whatever is idle, as trim() does where the program has no habits. */
vw_status vw__paged_trim_all(vw__paged_engine *engine);

/* The engine table's give_back(). */
vw_status vw__paged_give_back(vw__engine *engine, vw__engine_slice *slice);

/* How far the pool may grow and still leave the device what the owner's keep_free_bytes say;
 * UINT64_MAX without them. */
uint64_t vw__paged_spare_bytes(const vw__paged_engine *engine);

/* At the engine's end, before its marks. */
void vw__paged_end_reclaim(vw__paged_engine *engine);

#endif /* VW_ENGINE_PAGED_PAGED_RECLAIM_H */
