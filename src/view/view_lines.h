/* view_lines.h - reserved bytes, and the time, over the instants of one device. */
#ifndef VW_VIEW_VIEW_LINES_H
#define VW_VIEW_VIEW_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/timeline.h"
#include "view/view_columns.h"

/* A step function: from instants[i] on, bytes[i]. */
typedef struct vw__view_reserved {
    uint32_t *instants; /* owned; rising, the first is 0; none where it is not known */
    uint64_t *bytes;    /* owned */
    size_t count;
} vw__view_reserved;

VW_MUST_CHECK vw_status vw__view_reserved_make(const vw__timeline *timeline,
                                               vw__view_reserved *out);

/* `reserved_bytes` all the time. */
VW_MUST_CHECK vw_status vw__view_reserved_constant(uint64_t reserved_bytes, vw__view_reserved *out);
void vw__view_reserved_deinit(vw__view_reserved *reserved);

enum { VW__VIEW_MOST_TIMES = 16384 };

/* The time of every `every`-th instant, which is that of the event before it. Never falls: where a
 * clock was set back, or an event has no time, the one before goes on. */
typedef struct vw__view_times {
    int64_t first_us; /* VW__MODEL_UNKNOWN_TIME: no event has a time, and `count` is 0 */
    uint32_t every;   /* a power of two */
    uint64_t *since;  /* owned; microseconds since first_us */
    size_t count;
} vw__view_times;

VW_MUST_CHECK vw_status vw__view_times_make(const vw__model_trace *trace, vw__view_times *out);
void vw__view_times_deinit(vw__view_times *times);

VW_MUST_CHECK vw_status vw__view_lines_write(const vw__view_reserved *reserved,
                                             const vw__view_times *times,
                                             vw__view_columns *columns);

#endif /* VW_VIEW_VIEW_LINES_H */
