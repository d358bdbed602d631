/* timeline.h - live and reserved bytes over one trace, and who was live when.
 *
 * A trace is a list of events; people ask about instants: when was most live, what was live then,
 * how much was reserved. The timeline is one pass that turns events into lifetimes, after which
 * every such question is a walk over them.
 *
 * An *instant* k is the moment after the first k events: 0 is the beginning, event_count the end.
 * A block is live at the instants [begin, end) of its lifetime; it counts with its request rounded
 * up (live_bytes.h), from its alloc until its free_completed.
 *
 * A trace need not begin at the first allocation (PyTorch keeps the last events in a ring, or was
 * told late to record). Blocks from before have begin 0. They are known by what is left of them: a
 * free of an address that was never allocated, or a live block at the end that was never. What was
 * live before and of which nothing is left cannot be known; the numbers are then lower bounds.
 *
 * Reserved bytes are anchored at the end, the sum of the segments in the file, and followed
 * backwards, so that they are right for a cut trace too.
 *
 * No locks: one thread at a time while it is made, any number after. */
#ifndef HR_ANALYSIS_TIMELINE_H
#define HR_ANALYSIS_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "model/memory_model.h"

#define HR__LIVE_TO_THE_END UINT32_MAX

typedef struct hr__lifetime {
    uint64_t size_bytes; /* rounded */
    uint64_t address;
    uint32_t context; /* of the request; HR__NO_CONTEXT where it is not known */
    uint32_t begin;   /* instant; 0: live before the trace */
    uint32_t freed;   /* instant at which its free was requested; until `end` it waits for other
                         streams. HR__LIVE_TO_THE_END: never */
    uint32_t end;     /* instant, or HR__LIVE_TO_THE_END */
} hr__lifetime;

_Static_assert(sizeof(hr__lifetime) == 32, "a million blocks are to take 32 MB");

typedef struct hr__timeline {
    const hr__model *model;       /* borrowed */
    const hr__model_trace *trace; /* borrowed */
    hr__lifetime *lifetimes;      /* owned; in no order that is promised */
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
} hr__timeline;

/* HR_ERR_CORRUPT_FILE: sizes that add up to more than an address space.
 * HR_ERR_UNSUPPORTED: 2^32 - 2 events or more. */
HR_MUST_CHECK hr_status hr__timeline_make(const hr__model *model, const hr__model_trace *trace,
                                          hr__timeline *out);
void hr__timeline_deinit(hr__timeline *timeline);

static inline bool hr__lifetime_is_live(const hr__lifetime *lifetime, uint32_t instant)
{
    return lifetime->begin <= instant && instant < lifetime->end;
}

/* The stream (of model->streams) that it was asked for on. */
uint16_t hr__lifetime_stream(const hr__timeline *timeline, const hr__lifetime *lifetime);

/* Live bytes at every instant: host memory, event_count + 1 of them, to be freed with
 * hr__host_free(). NULL without memory. */
int64_t *hr__timeline_live_line(const hr__timeline *timeline);

/* HR__UNKNOWN_BYTES where reserved bytes are not known. */
uint64_t hr__timeline_reserved_at(const hr__timeline *timeline, uint32_t instant);

/* The live bytes of a block of the final segments: by what was requested where the file says, else
 * by its size. */
uint64_t hr__live_bytes_of_block(const hr__model_block *block);

#endif /* HR_ANALYSIS_TIMELINE_H */
