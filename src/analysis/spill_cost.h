/* spill_cost.h - what memory on the host costs a step; see spill_cost.c. */
#ifndef VW_ANALYSIS_SPILL_COST_H
#define VW_ANALYSIS_SPILL_COST_H

#include <stdbool.h>
#include <stdint.h>

/* The time by which a step gets longer if it reads and writes so many bytes once, and they are in
 * host memory. */
uint64_t vw__spill_cost_touch_ns(uint64_t bytes);

/* The time of a fused AdamW step with so much state, all of it on the device. */
uint64_t vw__spill_cost_optimizer_ns(uint64_t state_bytes);

/* The time to copy so many bytes to the host, or back. Copies both ways run side by side. */
uint64_t vw__spill_cost_copy_ns(uint64_t bytes);

/* The time to map so many bytes of device memory at another address. */
uint64_t vw__spill_cost_map_ns(uint64_t bytes);

/* The assumption in words, for reports. */
#define VW__SPILL_COST_WORDS "each spilled block is taken to be read and written once a step"
#define VW__SPILL_COST_IF "what is spilled is read and written once"

/* Rounds up to a budget that is easy to type: whole GiB, or multiples of 256 MiB below 4 GiB.
 * */
uint64_t vw__spill_cost_budget(uint64_t bytes);

/* What to type for it, or for streams with it. Returns `text`. */
#define VW__SPILL_COST_COMMAND_BYTES 96
const char *vw__spill_cost_command(uint64_t bytes, bool has_streams,
                                   char text[VW__SPILL_COST_COMMAND_BYTES]);

#endif /* VW_ANALYSIS_SPILL_COST_H */
