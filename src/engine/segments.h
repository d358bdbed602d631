/* segments.h - segments in an engine's books: adding and dropping their records, counting the bytes
 * held from the device and limiting them, telling listeners. The device itself is called elsewhere.
 */
#ifndef VW_ENGINE_SEGMENTS_H
#define VW_ENGINE_SEGMENTS_H

#include <stdint.h>

#include "engine/engine.h"

/* A new segment with one block over all of it, in the engine's books but in no index, and
 * VW__ENGINE_SPARE_RECORDS spare before that block was made. `nature` is 0 or
 * VW__NATURE_EXPANDABLE; the size kind is the lane's. NULL: out of host memory. */
vw__segment *vw__engine_add_segment(vw__engine *engine, vw__lane *lane, uint64_t address,
                                    uint64_t size_bytes, uint8_t nature, uint32_t tie_break);

/* The segment must have one block, in no index; at the engine's end, where the records of all
 * blocks go at once, whatever it has. What the engine keeps with it (`pages`) is the engine's to
 * free, before. */
void vw__engine_drop_segment(vw__engine *engine, vw__segment *segment);

/* Tells the listener, if there is one. */
void vw__engine_notice(vw__engine *engine, vw_action action, const vw__lane *lane, uint64_t address,
                       uint64_t size_bytes, uint64_t tag);

/* The tag for memory given back: that of the request in progress, if it has none 0; outside of
 * requests what the block remembers. */
uint64_t vw__engine_event_tag(const vw__engine *engine, const vw__block *block);

/* The engine table's see_to_records(). */
vw_status vw__engine_see_to_records(vw__engine *engine, size_t count);

/* Counts bytes taken from the device or given back: in the limit's sum, and for users. */
void vw__engine_count_held(vw__engine *engine, const vw__shelf *shelf, int64_t bytes);

/* set_per_process_memory_fraction(): the limit on the bytes held. VW_ERR_INVALID_ARGUMENT. */
vw_status vw__engine_set_fraction(vw__engine *engine, double fraction);

static inline vw__segment *vw__segment_of_node(vw__tree_node *node)
{
    return (vw__segment *)(void *)node; /* `node` is the first field */
}

#endif /* VW_ENGINE_SEGMENTS_H */
