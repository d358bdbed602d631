/* paged_return.h - when memory that left the device comes back. */
#ifndef VW_ENGINE_PAGED_PAGED_RETURN_H
#define VW_ENGINE_PAGED_PAGED_RETURN_H

#include "engine/paged/paged_engine.h"

void vw__paged_begin_returns(vw__paged_engine *engine);
/* Memory has left. */
void vw__paged_note_leaving(vw__paged_engine *engine);

/* Something came free: if that is enough, the next request brings them back. */
void vw__paged_look_for_room(vw__paged_engine *engine);

vw_status vw__paged_mark_step(vw__engine *engine);

/* The engine's table from now on; another takes its place while memory is due to come back. */
void vw__paged_use_table(vw__paged_engine *engine, const vw__engine_table *table);

#endif /* VW_ENGINE_PAGED_PAGED_RETURN_H */
