/* clock.h - the time, which tests can replace.
 *
 * The monotonic clock is for durations and order. The realtime clock is for labels: PyTorch stamps
 * its events with it, in microseconds, and so do we, so that recordings of several processes can be
 * compared. Safe from any thread. */
#ifndef VW_BASE_CLOCK_H
#define VW_BASE_CLOCK_H

#include <stdint.h>

/* Since some moment in the past, the same for the whole process; never goes back. */
uint64_t vw__clock_monotonic_ns(void);

/* Since 1970-01-01 00:00 UTC. May jump when someone sets the machine's time. */
uint64_t vw__clock_realtime_us(void);

/* That the calling thread has had of a processor, whatever else the machine does. */
uint64_t vw__clock_thread_ns(void);

/* ---- for tests ------------------------------------------------------------------------------- */

typedef struct vw__clock {
    uint64_t (*monotonic_ns)(void);
    uint64_t (*realtime_us)(void);
    uint64_t (*thread_ns)(void); /* or NULL: the machine's */
} vw__clock;

/* Replaces the clock of the whole process. `clock` must stay valid and have the first two
 * functions. NULL restores the machine's clocks. */
void vw__clock_replace(const vw__clock *clock);

#endif /* VW_BASE_CLOCK_H */
