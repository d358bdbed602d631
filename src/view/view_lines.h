/* view_lines.h - reserved bytes, and the time, over the instants of one device. */
#ifndef HR_VIEW_VIEW_LINES_H
#define HR_VIEW_VIEW_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/timeline.h"
#include "view/view_columns.h"

/* A step function: from instants[i] on, bytes[i]. */
typedef struct hr__view_reserved {
    uint32_t *instants; /* owned; rising, the first is 0; none where it is not known */
    uint64_t *bytes;    /* owned */
    size_t count;
} hr__view_reserved;

HR_MUST_CHECK hr_status hr__view_reserved_make(const hr__timeline *timeline,
                                               hr__view_reserved *out);

/* `reserved_bytes` all the time. */
HR_MUST_CHECK hr_status hr__view_reserved_constant(uint64_t reserved_bytes, hr__view_reserved *out);
void hr__view_reserved_deinit(hr__view_reserved *reserved);

enum { HR__VIEW_MOST_TIMES = 16384 };

/* The time of every `every`-th instant, which is that of the event before it. Never falls: where a
 * clock was set back, or an event has no time, the one before goes on. */
typedef struct hr__view_times {
    int64_t first_us; /* HR__UNKNOWN_TIME: no event has a time, and there are none */
    uint32_t every;   /* a power of two */
    uint64_t *since;  /* owned; microseconds since first_us */
    size_t count;
} hr__view_times;

HR_MUST_CHECK hr_status hr__view_times_make(const hr__model_trace *trace, hr__view_times *out);
void hr__view_times_deinit(hr__view_times *times);

HR_MUST_CHECK hr_status hr__view_lines_write(const hr__view_reserved *reserved,
                                             const hr__view_times *times,
                                             hr__view_columns *columns);

#endif /* HR_VIEW_VIEW_LINES_H */
