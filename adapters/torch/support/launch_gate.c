/* launch_gate.c - see launch_gate.h.
 *
 * What a launch pays is CUPTI's way here twice, and a write and a read of memory that is in the
 * thread's own cache. Everything else is the closer's. */
#include "launch_gate.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "device_idle.h"
#include "gate_callbacks.h"
#include "gate_contexts.h"
#include "gate_refusal.h"
#include "thread_census.h"
#include "vramwise/live.h" /* VW_LIVE_LAUNCH_GATE_NAMES */
#include "vramwise_torch_support.h"

#define SECOND_NS UINT64_C(1000000000)

enum {
    BACK_OFF_FACTOR = 10,
    LOOK_PAUSE_FACTOR = 20, /* a look takes a twentieth of the time at most */
};

/* CUresult of cuStreamEndCapture() after which the capture is over. */
enum {
    CAPTURE_ENDED = 0,
    CAPTURE_WAS_INVALIDATED = 901,
    CAPTURE_WAS_UNJOINED = 904,
    CAPTURE_WAS_ISOLATED = 905,
    CAPTURE_WAS_IMPLICIT = 906,
};

/* ---- the gate's state ------------------------------------------------------------------------ */

static _Atomic uint32_t is_closed;        /* the futex held threads sleep on */
static _Atomic uint32_t installation;     /* number of the one that stands: 1, 2 ...; 0 = none */
static _Atomic uint32_t census;           /* the same, while not all threads are known outside */
static _Atomic uint32_t has_nested_calls; /* the driver was seen to call itself */
static _Atomic uint32_t capture_count;    /* under way now */
static _Atomic uint32_t has_own_contexts; /* the program made some */
static _Atomic uint32_t hold_count;       /* not 0: it stays closed, whoever opens it */
static _Atomic uint32_t hold_number;      /* of the last: 1, 2 ... */
static _Atomic uint32_t is_ending;        /* the program ends: nobody is held for parked memory */
static _Atomic uint64_t held_launches;
static _Atomic uint64_t longest_hold_ns;

/* Whoever installs, removes, closes; held from closing to opening. */
static pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by `closing`. */
static uint32_t installation_count;
static uint64_t closed_at_ns;
static uint64_t not_before_ns;      /* when closing is tried again */
static uint64_t look_not_before_ns; /* when the census goes on though nobody needs it yet */
static uint64_t threads_out_bound_ns = SECOND_NS;
static uint64_t devices_idle_bound_ns = 10 * SECOND_NS;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* ---- who is inside --------------------------------------------------------------------------- */

/* One for each thread that has launched anything; never freed, used again by other threads. Whoever
 * is inside writes the number of the installation there, so that a return nobody told us of,
 * because the gate was taken away, is not waited for by the next one. */
typedef struct gate_slot {
    _Alignas(64) _Atomic uint32_t inside; /* 0 = not; written by its thread only */
    _Atomic uint32_t is_taken;
    _Atomic uint32_t seen_in; /* the census that saw its thread at the driver's entry */
    _Atomic int thread_id;    /* written before that */
    _Atomic uint64_t passed_launches;
    struct gate_slot *next; /* set before the slot is seen, then read-only */
} gate_slot;

static gate_slot spare;            /* of threads that got none: no host memory; a count */
static _Atomic(gate_slot *) slots; /* of all others */
static pthread_key_t slot_key;     /* calls release_slot() when a thread ends */
static bool has_slot_key;          /* written before the gate is installed */

typedef struct own_state {
    gate_slot *slot;
    uint32_t depth;        /* gated calls the thread is in: the driver may call itself */
    uint32_t installation; /* that counted them */
    uint32_t census;       /* the last that saw it */
    void *context;         /* the last it launched in */
    bool is_closer;
} own_state;

static _Thread_local own_state own;

/* A thread may end inside a call, by pthread_exit() in a callback of somebody's: it will not launch
 * any more. */
static void release_slot(void *ended)
{
    gate_slot *slot = ended;
    own = (own_state){.slot = NULL};
    atomic_store(&slot->seen_in, 0);
    atomic_store(&slot->inside, 0);
    atomic_store(&slot->is_taken, 0);
}

static gate_slot *find_slot(void)
{
    for (gate_slot *slot = atomic_load(&slots); slot != NULL; slot = slot->next) {
        uint32_t expected = 0;
        if (atomic_compare_exchange_strong(&slot->is_taken, &expected, 1))
            return slot;
    }
    gate_slot *slot = aligned_alloc(_Alignof(gate_slot), sizeof *slot);
    if (slot == NULL)
        return &spare;
    memset(slot, 0, sizeof *slot);
    atomic_store(&slot->is_taken, 1);
    gate_slot *first = atomic_load(&slots);
    do
        slot->next = first;
    while (!atomic_compare_exchange_weak(&slots, &first, slot));
    return slot;
}

static void take_slot(own_state *self)
{
    gate_slot *slot = find_slot();
    if (slot != &spare && pthread_setspecific(slot_key, slot) != 0) {
        atomic_store(&slot->is_taken, 0);
        slot = &spare;
    }
    self->slot = slot;
}

static void count_in(const own_state *self)
{
    if (self->slot == &spare)
        atomic_fetch_add(&spare.inside, 1);
    else
        atomic_store(&self->slot->inside, self->installation);
}

static void count_out(const own_state *self)
{
    if (self->slot == &spare)
        atomic_fetch_sub(&spare.inside, 1);
    else
        atomic_store_explicit(&self->slot->inside, 0, memory_order_release);
}

static bool is_anyone_inside(uint32_t standing)
{
    for (gate_slot *slot = atomic_load(&slots); slot != NULL; slot = slot->next)
        if (atomic_load(&slot->inside) == standing)
            return true;
    return atomic_load(&spare.inside) != 0;
}

/* A thread that comes to the entry was outside just before. A mark is made only while the census
 * is on, and so after all callbacks are in force: the thread sees them from now on, as who reads
 * what another wrote last sees what that one wrote before. */
static void be_seen(own_state *self, uint32_t standing)
{
    if (self->depth != 0 && self->installation == standing)
        atomic_store_explicit(&has_nested_calls, 1, memory_order_relaxed);
    if (self->depth != 0 || self->census == standing)
        return;
    self->census = standing;
    if (self->slot == NULL)
        take_slot(self);
    if (self->slot == &spare)
        return;
    atomic_store(&self->slot->thread_id, (int)syscall(SYS_gettid));
    atomic_store(&self->slot->seen_in, standing);
}

/* A driver that calls its own entry from within makes that no proof: none was ever seen to. */
static bool is_seen(int thread_id)
{
    uint32_t standing = atomic_load(&census);
    if (atomic_load(&has_nested_calls) != 0)
        return false;
    for (gate_slot *slot = atomic_load(&slots); slot != NULL; slot = slot->next)
        if (atomic_load(&slot->seen_in) == standing && atomic_load(&slot->thread_id) == thread_id)
            return true;
    return false;
}

/* ---- launching threads ----------------------------------------------------------------------- */

/* The first launch that waits says so: nothing else would tell a parked program from a hung one. */
static void say_parked(void)
{
    static _Atomic uint32_t told_of; /* the number of the hold */
    uint32_t hold = atomic_load(&hold_number);
    if (atomic_load(&hold_count) == 0 || atomic_exchange(&told_of, hold) == hold)
        return;
    fprintf(stderr,
            "vramwise: the GPU memory of process %d is parked: work on the GPU waits until it is "
            "woken\n",
            (int)getpid());
}

static void sleep_until_open(void)
{
    atomic_fetch_add(&held_launches, 1);
    say_parked();
    while (atomic_load(&is_closed) != 0)
        syscall(SYS_futex, (uint32_t *)&is_closed, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
}

static void enter(own_state *self)
{
    uint32_t standing = atomic_load_explicit(&installation, memory_order_relaxed);
    if (__builtin_expect(self->installation != standing, 0)) {
        self->installation = standing;
        self->depth = 0;
    }
    if (standing == 0)
        return;
    if (self->depth++ != 0) {
        atomic_store_explicit(&has_nested_calls, 1, memory_order_relaxed);
        return;
    }
    if (self->slot == NULL)
        take_slot(self);
    for (;;) {
        count_in(self);
        if (__builtin_expect(atomic_load(&is_closed) == 0, 1))
            break;
        count_out(self);
        sleep_until_open();
        /* It may have been taken away and put back meanwhile: the next closer looks for the number
         * of the one that stands. */
        self->installation = atomic_load(&installation);
        if (self->installation == 0) {
            self->depth = 0;
            return;
        }
    }
    _Atomic uint64_t *passed = &self->slot->passed_launches;
    atomic_store_explicit(passed, atomic_load_explicit(passed, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static void leave(own_state *self)
{
    if (self->depth == 0 ||
        self->installation != atomic_load_explicit(&installation, memory_order_relaxed))
        return; /* it was under way when the gate was installed */
    if (--self->depth == 0)
        count_out(self);
}

/* ---- what else the gate sees ----------------------------------------------------------------- */

static void note_graph_ended(int result)
{
    if (result != CAPTURE_ENDED && result != CAPTURE_WAS_INVALIDATED &&
        result != CAPTURE_WAS_UNJOINED && result != CAPTURE_WAS_ISOLATED &&
        result != CAPTURE_WAS_IMPLICIT)
        return;
    uint32_t count = atomic_load(&capture_count);
    while (count != 0 && !atomic_compare_exchange_weak(&capture_count, &count, count - 1)) {
    }
}

/* At the end of one of the rare calls, still inside the gate where it is gated. */
static void note_result(vw__driver_call_kind kind, const vw__cupti_call *call)
{
    int result = 0;
    if (call->return_value != NULL)
        memcpy(&result, call->return_value, sizeof result);
    if (kind == VW__CALL_ENDS_GRAPH)
        note_graph_ended(result);
    else if (kind == VW__CALL_BEGINS_GRAPH && result == 0)
        atomic_fetch_add(&capture_count, 1);
    else if (kind == VW__CALL_MAKES_CONTEXT && result == 0)
        atomic_store(&has_own_contexts, 1);
}

static void at_driver_call(void *user_data, int domain, uint32_t id, const vw__cupti_call *call)
{
    (void)user_data;
    own_state *self = &own;
    if (self->is_closer || domain != VW__CUPTI_DRIVER_API)
        return;
    vw__driver_call_kind kind = vw__gate_kind_of(id);
    bool is_entry = call->site == VW__CUPTI_ENTER;
    uint32_t counting = atomic_load_explicit(&census, memory_order_acquire);
    if (__builtin_expect(counting != 0, 0) && is_entry)
        be_seen(self, counting);
    if (__builtin_expect(kind != VW__CALL_GATED, 0) && !is_entry)
        note_result(kind, call);
    if (kind == VW__CALL_ENDS_GRAPH || kind == VW__CALL_HARMLESS)
        return;
    if (__builtin_expect(call->context != self->context, 0)) {
        self->context = call->context;
        vw__contexts_note(call->context);
    }
    if (is_entry)
        enter(self);
    else
        leave(self);
}

/* ---- closing and opening --------------------------------------------------------------------- */

static bool lock_closing(uint64_t most_ns)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end); /* all that pthread_mutex_timedlock() knows */
    uint64_t nanoseconds = (uint64_t)end.tv_nsec + most_ns;
    end.tv_sec += (time_t)(nanoseconds / SECOND_NS);
    end.tv_nsec = (long)(nanoseconds % SECOND_NS);
    return pthread_mutex_timedlock(&closing, &end) == 0;
}

static void shut(void)
{
    own.is_closer = true;
    closed_at_ns = now_ns();
    atomic_store(&is_closed, 1);
}

static void let_everyone_in(void)
{
    atomic_store(&is_closed, 0);
    syscall(SYS_futex, (uint32_t *)&is_closed, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* And lets the next closer come. */
static void unshut(void)
{
    uint64_t held_ns = now_ns() - closed_at_ns;
    if (held_ns > atomic_load(&longest_hold_ns))
        atomic_store(&longest_hold_ns, held_ns);
    if (!vw__launch_gate_is_held())
        let_everyone_in();
    own.is_closer = false;
    pthread_mutex_unlock(&closing);
}

/* Mostly a launch takes some microseconds; one that waits for room in a queue, milliseconds. */
static bool see_everyone_out(void)
{
    static const struct timespec pause = {0, 20000};
    uint64_t end_ns = closed_at_ns + threads_out_bound_ns;
    uint32_t standing = atomic_load(&installation);
    for (unsigned looks = 0; is_anyone_inside(standing); looks++) {
        if (looks < 100)
            continue;
        if (now_ns() > end_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

/* What was lost in vain since then is not lost again soon. */
static void back_off(uint64_t begin_ns)
{
    uint64_t end_ns = now_ns();
    not_before_ns = end_ns + BACK_OFF_FACTOR * (end_ns - begin_ns);
}

/* With `closing` held. Once all threads were outside, launches are all that has to be seen: what
 * harmless calls cost more meanwhile ends. */
static bool look_once(void)
{
    uint64_t begin_ns = now_ns();
    bool is_done = vw__census_look(is_seen) == 0;
    uint64_t end_ns = now_ns();
    look_not_before_ns = end_ns + LOOK_PAUSE_FACTOR * (end_ns - begin_ns);
    if (!is_done)
        return false;
    atomic_store(&census, 0);
    vw__gate_show_harmless(false);
    return true;
}

/* With `closing` held, and the gate not shut. */
static bool is_census_done(void)
{
    static const struct timespec pause = {0, 200000};
    uint64_t begin_ns = now_ns();
    uint64_t most_ns = begin_ns >= not_before_ns ? threads_out_bound_ns : 0;
    if (atomic_load(&census) == 0)
        return true;
    while (!look_once()) {
        if (now_ns() - begin_ns >= most_ns) {
            if (most_ns != 0)
                back_off(begin_ns);
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

/* With `closing` held, and the gate not shut. */
static bool may_close(void)
{
    return atomic_load(&installation) != 0 && atomic_load(&has_own_contexts) == 0 &&
           atomic_load(&capture_count) == 0 && now_ns() >= not_before_ns;
}

/* A thread that is held back by us is neither inside nor can it begin a capture, so that what was
 * looked at before closing is looked at again. */
static bool is_all_quiet(void)
{
    if (!see_everyone_out())
        return false;
    if (!vw__contexts_are_primary())
        atomic_store(&has_own_contexts, 1);
    if (atomic_load(&capture_count) != 0 || atomic_load(&has_own_contexts) != 0)
        return false;
    return vw__devices_are_idle_within(devices_idle_bound_ns);
}

bool vw__launch_gate_close(void)
{
    uint32_t standing = atomic_load(&installation);
    bool is_inside = own.depth != 0 && own.installation == standing;
    if (standing == 0 || is_inside || own.is_closer || !lock_closing(threads_out_bound_ns))
        return false;
    if (!is_census_done() || !may_close()) {
        pthread_mutex_unlock(&closing);
        return false;
    }
    shut();
    if (is_all_quiet())
        return true;
    back_off(closed_at_ns);
    unshut();
    return false;
}

void vw__launch_gate_open(void)
{
    if (own.is_closer)
        unshut();
}

/* ---- holding --------------------------------------------------------------------------------- */

bool vw__launch_gate_hold(void)
{
    if (!own.is_closer || atomic_load(&is_ending) != 0)
        return false;
    atomic_fetch_add(&hold_number, 1);
    atomic_fetch_add(&hold_count, 1);
    return true;
}

/* Outside of a moment it opens the gate, unless somebody else has closed it: then he does. */
void vw__launch_gate_let_go(void)
{
    if (atomic_fetch_sub(&hold_count, 1) != 1 || own.is_closer ||
        !lock_closing(threads_out_bound_ns))
        return;
    let_everyone_in();
    pthread_mutex_unlock(&closing);
}

bool vw__launch_gate_is_held(void)
{
    return atomic_load(&hold_count) != 0 && atomic_load(&is_ending) == 0;
}

void vramwise_end_holds(void)
{
    atomic_store(&is_ending, 1);
    if (own.is_closer || !lock_closing(threads_out_bound_ns))
        return; /* whoever has closed it opens it */
    let_everyone_in();
    pthread_mutex_unlock(&closing);
}

/* ---- installing and removing ----------------------------------------------------------------- */

static _Atomic bool comes_late; /* it is put up when it is needed */

/* In a child of fork() no other thread is left to open the gate, and the driver is the parent's. */
static void open_in_child(void)
{
    atomic_store(&is_closed, 0);
    atomic_store(&hold_count, 0);
    atomic_store(&installation, 0);
    atomic_store(&census, 0);
    closing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    vw__refusal_begin_child();
    own.is_closer = false;
}

static void prepare(void)
{
    has_slot_key = pthread_key_create(&slot_key, release_slot) == 0 &&
                   pthread_atfork(NULL, NULL, open_in_child) == 0;
}

static bool is_prepared(char *message, size_t capacity)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    if (!has_slot_key)
        snprintf(message, capacity, "no room for thread-specific data: %s", strerror(EAGAIN));
    return has_slot_key;
}

/* With `closing` held, so that nobody closes meanwhile. The number is there before the first
 * callback can come. */
static bool put_up(char *message, size_t capacity)
{
    not_before_ns = 0;
    atomic_store(&spare.inside, 0);
    atomic_store(&installation, ++installation_count);
    bool stands = vw__gate_subscribe(at_driver_call, message, capacity);
    if (!stands)
        atomic_store(&installation, 0);
    vw__refusal_set(stands ? "" : message);
    return stands;
}

/* With `closing` held. */
static void take_down(void)
{
    if (atomic_load(&installation) == 0)
        return;
    atomic_store(&installation, 0);
    atomic_store(&census, 0);
    atomic_store(&capture_count, 0);
    vw__gate_unsubscribe();
}

bool vramwise_launch_gate_install(char *message, size_t capacity)
{
    char unread[1];
    if (message == NULL || capacity == 0) {
        message = unread;
        capacity = sizeof unread;
    }
    message[0] = '\0';
    if (!is_prepared(message, capacity))
        return false;
    if (!lock_closing(threads_out_bound_ns)) {
        snprintf(message, capacity, "live data is being copied by another thread; try again");
        return false;
    }
    bool stands = atomic_load(&installation) != 0 || put_up(message, capacity);
    pthread_mutex_unlock(&closing);
    return stands;
}

bool vramwise_launch_gate_remove(void)
{
    if (own.is_closer || !lock_closing(threads_out_bound_ns))
        return false;
    if (atomic_load(&hold_count) != 0) {
        pthread_mutex_unlock(&closing);
        return false;
    }
    take_down();
    if (comes_late)
        vw__refusal_set("the launch gate gave way to a profiler");
    pthread_mutex_unlock(&closing);
    return true;
}

/* ---- putting it up late ---------------------------------------------------------------------- */

void vramwise_launch_gate_come_late(bool is_quiet)
{
    pthread_mutex_lock(&closing);
    comes_late = true;
    vw__refusal_set("");
    vw__refusal_let_say(!is_quiet);
    pthread_mutex_unlock(&closing);
}

/* Every thread that enters the driver from now on sees the callbacks. Where the kernel has no such
 * barrier the next write is enough: on x86-64, and there is a census nowhere else, what a processor
 * wrote is seen by all once it has made an atomic exchange. */
static void let_all_see_callbacks(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0)
        (void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    atomic_store(&census, atomic_load(&installation));
}

/* With `closing` held. Launches under way are not seen, so the gate does not close before all
 * threads are known to have been outside. */
static void put_up_late(void)
{
    char message[VW__REFUSAL_BYTES] = "";
    if (!is_prepared(message, sizeof message)) {
        vw__refusal_set(message);
        return;
    }
    if (!put_up(message, sizeof message))
        return;
    vw__gate_show_harmless(true);
    let_all_see_callbacks();
    if (!vw__census_begin(message, sizeof message)) {
        take_down();
        vw__refusal_set(message);
        return;
    }
    (void)look_once();
}

/* Nobody waits for a census that is not needed yet. */
static void go_on_with_census(void)
{
    if (atomic_load(&census) == 0 || own.is_closer || pthread_mutex_trylock(&closing) != 0)
        return;
    if (atomic_load(&census) != 0 && now_ns() >= look_not_before_ns)
        (void)look_once();
    pthread_mutex_unlock(&closing);
}

void vw__launch_gate_arm(void)
{
    if (atomic_load(&installation) != 0) {
        go_on_with_census();
        return;
    }
    if (own.is_closer || !lock_closing(threads_out_bound_ns))
        return;
    if (comes_late && atomic_load(&installation) == 0) {
        if (!vw__refusal_is_set())
            put_up_late();
        if (vw__refusal_is_set())
            vw__refusal_say();
    }
    pthread_mutex_unlock(&closing);
}

/* ---- questions ------------------------------------------------------------------------------- */

vramwise_launch_gate_state vramwise_get_launch_gate_state(char *reason, size_t capacity)
{
    bool is_refused = vw__refusal_get(reason, capacity);
    if (atomic_load(&installation) != 0)
        return atomic_load(&census) != 0 ? VRAMWISE_GATE_ARMING : VRAMWISE_GATE_ARMED;
    if (is_refused)
        return VRAMWISE_GATE_REFUSED;
    return atomic_load(&comes_late) ? VRAMWISE_GATE_WAITS : VRAMWISE_GATE_OFF;
}

const char *vramwise_launch_gate_state_name(vramwise_launch_gate_state state)
{
    static const char *const names[] = {VW_LIVE_LAUNCH_GATE_NAMES};
    return names[state];
}

bool vw__launch_gate_sees_capture(void)
{
    return atomic_load(&capture_count) != 0;
}

vw__launch_gate_counts vw__launch_gate_get_counts(void)
{
    vw__launch_gate_counts counts = {
        .is_installed = atomic_load(&installation) != 0,
        .passed_launches = atomic_load_explicit(&spare.passed_launches, memory_order_relaxed),
        .held_launches = atomic_load(&held_launches),
        .longest_hold_ns = atomic_load(&longest_hold_ns),
        .has_nested_calls = atomic_load(&has_nested_calls) != 0,
    };
    for (gate_slot *slot = atomic_load(&slots); slot != NULL; slot = slot->next)
        counts.passed_launches +=
            atomic_load_explicit(&slot->passed_launches, memory_order_relaxed);
    return counts;
}

void vw__launch_gate_set_bounds(uint64_t threads_out_ns, uint64_t devices_idle_ns)
{
    pthread_mutex_lock(&closing);
    if (threads_out_ns != 0)
        threads_out_bound_ns = threads_out_ns;
    if (devices_idle_ns != 0)
        devices_idle_bound_ns = devices_idle_ns;
    not_before_ns = 0;
    pthread_mutex_unlock(&closing);
}
