/* paged_reclaim.h - giving memory back. */
#ifndef VW_ENGINE_PAGED_PAGED_RECLAIM_H
#define VW_ENGINE_PAGED_PAGED_RECLAIM_H

#include "engine/paged/paged_engine.h"

/* The engine table's trim(). */
vw_status vw__paged_trim(vw__engine *engine, const vw_private_id *only);

#endif /* VW_ENGINE_PAGED_PAGED_RECLAIM_H */
