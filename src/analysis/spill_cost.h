/* spill_cost.h - what it costs a step that some of its memory is in the host's. See spill_cost.c.
 */
#ifndef VW_ANALYSIS_SPILL_COST_H
#define VW_ANALYSIS_SPILL_COST_H

#include <stdint.h>

/* By how much a step takes longer that reads and writes so many bytes once, where they are in host
 * memory and not the device's own. */
uint64_t vw__spill_touch_ns(uint64_t bytes);

/* The assumption in words, for reports. */
#define VW__SPILL_COST_WORDS "each spilled block is taken to be read and written once a step"
#define VW__SPILL_COST_IF "what is spilled is read and written once"

/* A budget that is easy to type, and no less: whole GiB, or multiples of 256 MiB below four of
 * them.
 */
uint64_t vw__spill_budget(uint64_t bytes);

/* What to type for it. Returns `text`. */
#define VW__SPILL_COMMAND_BYTES 96
const char *vw__spill_command(uint64_t bytes, char text[VW__SPILL_COMMAND_BYTES]);

#endif /* VW_ANALYSIS_SPILL_COST_H */
