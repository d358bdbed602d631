/* paged_inspect.h - the invariants, walked. */
#ifndef VW_ENGINE_PAGED_PAGED_INSPECT_H
#define VW_ENGINE_PAGED_PAGED_INSPECT_H

#include "engine/paged/paged_engine.h"

/* The engine table's check(). */
vw_status vw__paged_check(vw__engine *engine);

#endif /* VW_ENGINE_PAGED_PAGED_INSPECT_H */
