/* rank_time.h - the time of day at the beginning of a line of a log.
 *
 * Only a date with a time counts: hours alone do not tell which of two came first. Of a time
 * without its zone nobody knows when it was, but two of them, from one job, can be compared. */
#ifndef VW_RANKS_RANK_TIME_H
#define VW_RANKS_RANK_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct vw__log_time {
    int64_t time_us; /* since 1970; INT64_MIN: none */
    bool has_zone;   /* else as the clock on the wall showed it */
} vw__log_time;

#define VW__NO_LOG_TIME ((vw__log_time){INT64_MIN, false})

/* Looks at the first bytes of a line: "2026-03-01 12:00:00,123", "2026/03/01T12:00:00.5+01:00". */
vw__log_time vw__log_time_of(const char *line, size_t size_bytes);

#endif /* VW_RANKS_RANK_TIME_H */
