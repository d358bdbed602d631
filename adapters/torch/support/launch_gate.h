/* launch_gate.h - every launch of work on a GPU passes here, and can be held.
 *
 * Each driver function that may touch memory (driver_calls.h) calls us when a thread enters it and
 * when it returns, through CUPTI. A thread that enters counts itself in, on a cache line of its
 * own, and out when it returns. To close the gate is to say so, and then to see every thread out:
 *
 *     a launching thread                  the closer
 *     inside = 1                          is_closed = 1
 *     is_closed?  then inside = 0,        every thread's inside = 0?
 *                 sleep, and again
 *
 * Both sides write first and look afterwards, sequentially consistent, so that one of the two sees
 * the other: a launch is either waited for, or held. When all are out and all devices are idle,
 * nothing runs and nothing can begin until the gate is opened.
 *
 * docs/design/007-safe-moments.md has what follows from it, under which assumptions, and why nobody
 * waits for ever. */
#ifndef VRAMWISE_TORCH_LAUNCH_GATE_H
#define VRAMWISE_TORCH_LAUNCH_GATE_H

#include <stdbool.h>
#include <stdint.h>

/* Holds every other thread's launches back, and waits until no work is left on any device. The
 * calling thread's own calls pass. False, and the gate is open: there is none, a graph is being
 * captured, some work is in a context of the program's own, or it took too long, or it was put up
 * late and some thread is not known to have been outside the driver since. Then it is not tried
 * again for ten times as long, so that a program in which it never works loses little. */
bool vw__launch_gate_close(void);

/* Puts the gate up now where it comes late (vramwise_launch_gate_come_late()) and does not stand
 * yet. Where it cannot be, a line says so, once. Where it stands, and some thread is not known to
 * have been outside the driver since, those that are left are looked at, unless that was just done.
 */
void vw__launch_gate_arm(void);

/* After a true answer, by the same thread. Does not block. */
void vw__launch_gate_open(void);

/* By whoever has closed it: the gate stays closed when it is opened, until it is let go as often,
 * by any thread. Closing it again meanwhile is possible, for a thread whose own calls are to pass.
 * False: the calling thread has not closed it, or the program ends. */
bool vw__launch_gate_hold(void);
void vw__launch_gate_let_go(void);
bool vw__launch_gate_is_held(void);

/* Is a graph being captured, as far as the gate saw? False without a gate. */
bool vw__launch_gate_sees_capture(void);

typedef struct vw__launch_gate_counts {
    bool is_installed;
    uint64_t passed_launches;
    uint64_t held_launches;
    uint64_t longest_hold_ns;
    bool has_nested_calls; /* a gated function was called out of another */
} vw__launch_gate_counts;

vw__launch_gate_counts vw__launch_gate_get_counts(void);

/* How long closing may take. For tests; 0 leaves the value as it is. */
void vw__launch_gate_set_bounds(uint64_t threads_out_ns, uint64_t devices_idle_ns);

#endif /* VRAMWISE_TORCH_LAUNCH_GATE_H */
