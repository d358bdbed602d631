/* paged_pins.h - memory that others can see stays where it is; and what there is to see. */
#ifndef VW_ENGINE_PAGED_PAGED_PINS_H
#define VW_ENGINE_PAGED_PAGED_PINS_H

#include "engine/paged/paged_engine.h"

/* The engine table's; see engine.h. */
vw_status vw__paged_pin(vw__engine *engine, vw__block *block);
vw_status vw__paged_unpin(vw__engine *engine, vw_device_ptr address);
void vw__paged_end_pins(vw__paged_engine *engine);
vw_status vw__paged_walk_pieces(vw__engine *engine, const vw__block *under,
                                vw__engine_piece_visitor visit, void *context);

#endif /* VW_ENGINE_PAGED_PAGED_PINS_H */
