/* segments.h - segments in an engine's books: adding and dropping their records, counting the bytes
 * held from the device and limiting them, telling listeners. The device itself is called elsewhere.
 */
#ifndef HR_ENGINE_SEGMENTS_H
#define HR_ENGINE_SEGMENTS_H

#include <stdint.h>

#include "engine/engine.h"

/* A new segment with one block over all of it, in the engine's books but in no index, and
 * HR__ENGINE_SPARE_RECORDS spare before that block was made. `nature` is 0 or
 * HR__NATURE_EXPANDABLE; the size kind is the lane's. NULL: out of host memory. */
hr__segment *hr__engine_add_segment(hr__engine *engine, hr__lane *lane, uint64_t address,
                                    uint64_t size_bytes, uint8_t nature, uint32_t tie_break);

/* The segment must have one block, in no index; at the engine's end, where the records of all
 * blocks go at once, whatever it has. What the engine keeps with it (`pages`) is the engine's to
 * free, before. */
void hr__engine_drop_segment(hr__engine *engine, hr__segment *segment);

/* Tells the listener, if there is one. */
void hr__engine_notice(hr__engine *engine, hr_action action, const hr__lane *lane, uint64_t address,
                       uint64_t size_bytes, uint64_t tag);

/* The tag for memory given back: that of the request in progress, if it has none 0; outside of
 * requests what the block remembers. */
uint64_t hr__engine_event_tag(const hr__engine *engine, const hr__block *block);

/* The engine table's see_to_records(). */
hr_status hr__engine_see_to_records(hr__engine *engine, size_t count);

/* Counts bytes taken from the device or given back: in the limit's sum, and for users. */
void hr__engine_count_held(hr__engine *engine, const hr__shelf *shelf, int64_t bytes);

/* set_per_process_memory_fraction(): the limit on the bytes held. HR_ERR_INVALID_ARGUMENT. */
hr_status hr__engine_set_fraction(hr__engine *engine, double fraction);

static inline hr__segment *hr__segment_of_node(hr__tree_node *node)
{
    return (hr__segment *)(void *)node; /* `node` is the first field */
}

#endif /* HR_ENGINE_SEGMENTS_H */
