/* script_events.h - questions about the events and segments of a recording. */
#ifndef VW_ANALYSIS_SCRIPT_EVENTS_H
#define VW_ANALYSIS_SCRIPT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/memory_model.h"
#include "analysis/script.h"

/* Memory went back to the driver. */
static inline bool vw__script_is_release(unsigned action)
{
    return action == VW_ACTION_SEGMENT_FREE || action == VW_ACTION_SEGMENT_UNMAP;
}

/* Memory came from the driver. */
static inline bool vw__script_is_growth(unsigned action)
{
    return action == VW_ACTION_SEGMENT_ALLOC || action == VW_ACTION_SEGMENT_MAP;
}

/* Neither the program nor the allocator did anything: such an event can be anywhere. */
static inline bool vw__script_is_remark(unsigned action)
{
    return action > VW_ACTION_OOM;
}

/* Stores in `is_trim`, for each event, whether it is a release outside every request.
 * `*has_guesses` if that had to be decided without stacks. */
void vw__script_find_trims(const vw__model *model, const vw__model_trace *trace,
                           const vw__script_guide *guide, bool *is_trim, bool *has_guesses);

/* The segments of a device: [*first, *end) of the model's. */
void vw__script_segments_of(const vw__model *model, int device, size_t *first, size_t *end);

/* The segment of the end state that holds `address`, or NULL. */
const vw__model_segment *vw__script_segment_at(const vw__model *model, int device,
                                               uint64_t address);

#endif /* VW_ANALYSIS_SCRIPT_EVENTS_H */
