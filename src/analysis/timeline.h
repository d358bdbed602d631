/* timeline.h - live and reserved bytes over one trace, and who was live when.
 *
 * A trace is a list of events; people ask about instants: when most was live, what was live then,
 * how much was reserved. The timeline is one pass that turns events into lifetimes; every such
 * question is then a walk over them.
 *
 * An *instant* k is the moment after the first k events: 0 is the beginning, event_count the end.
 * A block is live at the instants [begin, end) of its lifetime; it counts with its request rounded
 * up (live_bytes.h), from its alloc until its free_completed.
 *
 * A trace need not begin at the first allocation (PyTorch keeps the last events in a ring, or began
 * to record late). Blocks from before have begin 0. A free of an address that was never allocated
 * shows them, or a live block at the end that was never allocated. Others leave no trace: the
 * numbers are then lower bounds.
 *
 * Reserved bytes are anchored at the end, the sum of the segments in the file, and followed
 * backwards, so that they are right for a cut trace too.
 *
 * No locks: one thread at a time while it is made, any number after. */
#ifndef VW_ANALYSIS_TIMELINE_H
#define VW_ANALYSIS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "model/memory_model.h"

#define VW__LIFETIME_TO_THE_END UINT32_MAX

typedef struct vw__lifetime {
    uint64_t size_bytes; /* rounded */
    uint64_t address;
    uint32_t context; /* of the request; VW__MODEL_NO_CONTEXT where it is not known */
    uint32_t begin;   /* instant; 0: live before the trace */
    uint32_t freed;   /* instant at which its free was requested; until `end` it waits for other
                         streams. VW__LIFETIME_TO_THE_END: never */
    uint32_t end;     /* instant, or VW__LIFETIME_TO_THE_END */
} vw__lifetime;

_Static_assert(sizeof(vw__lifetime) == 32, "a million blocks are to take 32 MB");

typedef struct vw__timeline {
    const vw__model *model;       /* borrowed */
    const vw__model_trace *trace; /* borrowed */
    vw__lifetime *lifetimes;      /* owned; in no order that is promised */
    size_t lifetime_count;

    uint64_t peak_live_bytes;
    uint32_t peak_instant; /* the first with so much live */
    uint64_t initial_live_bytes;
    size_t initial_count;

    /* false: the segment events do not fit the segments at the end (some were not recorded), and
     * the next four mean nothing. */
    bool is_reserved_known;
    uint64_t initial_reserved_bytes;
    uint64_t peak_reserved_bytes;
    uint32_t peak_reserved_instant;       /* the first */
    uint64_t reserved_at_peak_live_bytes; /* reserved at peak_instant */

    bool is_truncated;          /* something was live or reserved before the trace */
    size_t contradiction_count; /* allocs on a live block: its free is missing from the trace */
} vw__timeline;

/* VW_ERR_CORRUPT_FILE: sizes that add up to more than an address space.
 * VW_ERR_UNSUPPORTED: 2^32 - 2 events or more. */
VW_MUST_CHECK vw_status vw__timeline_make(const vw__model *model, const vw__model_trace *trace,
                                          vw__timeline *out);
void vw__timeline_deinit(vw__timeline *timeline);

static inline bool vw__lifetime_is_live(const vw__lifetime *lifetime, uint32_t instant)
{
    return lifetime->begin <= instant && instant < lifetime->end;
}

/* The stream (of model->streams) that it was asked for on. */
uint16_t vw__lifetime_stream(const vw__timeline *timeline, const vw__lifetime *lifetime);

/* Live bytes at every instant: host memory, event_count + 1 of them, to be freed with
 * vw__host_free(). NULL without memory. */
int64_t *vw__timeline_live_line(const vw__timeline *timeline);

/* VW__MODEL_UNKNOWN_BYTES where reserved bytes are not known. */
uint64_t vw__timeline_reserved_at(const vw__timeline *timeline, uint32_t instant);

/* The live bytes of a block of the final segments: by the requested size if the file has it, else
 * by its size. */
uint64_t vw__lifetime_bytes_of_block(const vw__model_block *block);

#endif /* VW_ANALYSIS_TIMELINE_H */
