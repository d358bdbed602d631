/* safe_moments.c - may live data be copied now? The program's word first, then the gate.
 *
 * A pool asks from the thread that wants memory, without its lock, and tells the same thread when
 * it is over, under its lock. So what was granted is remembered for each thread. */
#include "vramwise_torch_support.h"

#include <stdatomic.h>

#include "device_idle.h"
#include "launch_gate.h"

typedef enum moment { NO_MOMENT, BY_PROGRAM, BY_GATE } moment;

static _Thread_local uint32_t safe_point_depth;
static _Thread_local moment granted;

static _Atomic uint64_t granted_by_program;
static _Atomic uint64_t granted_by_gate;
static _Atomic uint64_t refused;

void vramwise_safe_point_enter(void)
{
    safe_point_depth++;
}

void vramwise_safe_point_leave(void)
{
    if (safe_point_depth != 0)
        safe_point_depth--;
}

/* Nobody starts work, says the program; what is queued on other devices has to end first. A gate
 * that is held back for parked memory would hold this thread's copies, too: then it has to be
 * closed. */
static bool is_granted_by_program(void)
{
    return safe_point_depth != 0 && !vw__launch_gate_is_held() && !vw__launch_gate_sees_capture() &&
           vw__devices_synchronize();
}

void vramwise_prepare_safe_moment(void *context)
{
    (void)context;
    vw__launch_gate_arm();
}

static bool is_granted_by_gate(void)
{
    vw__launch_gate_arm();
    return vw__launch_gate_close();
}

static bool enter_moment(void *context)
{
    (void)context;
    if (granted != NO_MOMENT)
        return false; /* a pool asks out of another's moment */
    if (is_granted_by_program()) {
        granted = BY_PROGRAM;
        atomic_fetch_add(&granted_by_program, 1);
    } else if (is_granted_by_gate()) {
        granted = BY_GATE;
        atomic_fetch_add(&granted_by_gate, 1);
    } else {
        atomic_fetch_add(&refused, 1);
    }
    return granted != NO_MOMENT;
}

static void leave_moment(void *context)
{
    (void)context;
    if (granted == BY_GATE)
        vw__launch_gate_open();
    granted = NO_MOMENT;
}

vw_safe_point vramwise_safe_moments(void)
{
    return (vw_safe_point){.enter = enter_moment, .leave = leave_moment};
}

/* Only the gate can hold launches back for longer than a moment. */
static bool hold_launches(void *context)
{
    (void)context;
    if (granted == BY_PROGRAM) {
        if (!is_granted_by_gate()) {
            vw_set_last_error("launches cannot be held back while memory is parked: there is no "
                              "launch gate, or it could not be closed");
            return false;
        }
        granted = BY_GATE;
    }
    return vw__launch_gate_hold();
}

static void let_launches_go(void *context)
{
    (void)context;
    vw__launch_gate_let_go();
}

/* A gate that comes late does not close at its first try if some thread is inside the driver. */
static bool is_gate_coming(void *context)
{
    (void)context;
    return vramwise_get_launch_gate_state(NULL, 0) == VRAMWISE_GATE_ARMING;
}

vw_park_guard vramwise_park_guard(void)
{
    return (vw_park_guard){
        .hold = hold_launches, .let_go = let_launches_go, .is_coming = is_gate_coming};
}

vramwise_safe_moment_counts vramwise_get_safe_moment_counts(void)
{
    vw__launch_gate_counts gate = vw__launch_gate_get_counts();
    return (vramwise_safe_moment_counts){
        .has_gate = gate.is_installed,
        .granted_by_program = atomic_load(&granted_by_program),
        .granted_by_gate = atomic_load(&granted_by_gate),
        .refused = atomic_load(&refused),
        .held_launches = gate.held_launches,
        .longest_hold_ns = gate.longest_hold_ns,
        .passed_launches = gate.passed_launches,
    };
}
