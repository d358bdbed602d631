/* ranked_mutex.c - the contended side of the lock, and the rank check. */
#include "base/ranked_mutex.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h" /* VW_ASSERT */

/* How a waiter looks at the lock. A pause instruction takes 40 to 140 cycles on current processors.
 *
 *   first     for a chance meeting: the owner is about to be done. Then it becomes the lookout, or
 *             sleeps until it can be: the rest is for one thread at a time
 *   patient   every few microseconds, for about a millisecond, shorter than a time slice. It takes
 *             the lock only if it is free several times in a row, which tells an owner that has
 *             gone from one that locks again at once. So the one who waits for a long call has the
 *             lock soon, and under steady contention an owner locks some thousand times before
 *             another one does, while the lines of what it guards stay in its cache. Then it
 *             sleeps.
 *   woken     at once, since the lock was free a moment ago; then patient once more: one that slept
 *             again at once would cost the owner a system call and an interrupt every few
 *             microseconds
 *   eager     after MOST_SLEEPS, so that nobody waits for ever: so many looks do not all fail */
static const unsigned first_pauses[] = {1, 32, 64};
enum {
    PATIENT_LOOKS = 80,
    PATIENT_PAUSES = 256,
    IDLE_LOOKS = 3,
    IDLE_PAUSES = 4,
    MOST_SLEEPS = 8,
    EAGER_LOOKS = 1024,
    EAGER_PAUSES = 16,
};

static inline void pause_briefly(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb" ::: "memory"); /* `yield` does not wait */
#else
        atomic_signal_fence(memory_order_seq_cst);
#endif
    }
}

static bool has_barrier; /* written once, by register_barrier() */

static void register_barrier(void)
{
    has_barrier = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Every thread of the process passes a full barrier before this returns. */
static bool run_barrier_everywhere(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_barrier);
    return has_barrier && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

static bool try_lock(vw__mutex *mutex)
{
    return atomic_load_explicit(&mutex->is_held, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&mutex->is_held, 1, memory_order_acquire) == 0;
}

static bool look_first(vw__mutex *mutex)
{
    for (size_t i = 0; i < sizeof first_pauses / sizeof first_pauses[0]; i++) {
        pause_briefly(first_pauses[i]);
        if (try_lock(mutex))
            return true;
    }
    return false;
}

static bool is_idle(const vw__mutex *mutex)
{
    for (unsigned i = 0; i < IDLE_LOOKS; i++) {
        if (atomic_load_explicit(&mutex->is_held, memory_order_relaxed) != 0)
            return false;
        pause_briefly(IDLE_PAUSES);
    }
    return true;
}

static bool look_patiently(vw__mutex *mutex)
{
    for (unsigned i = 0; i < PATIENT_LOOKS; i++) {
        pause_briefly(PATIENT_PAUSES);
        if (is_idle(mutex) && try_lock(mutex))
            return true;
    }
    return false;
}

static bool look_eagerly(vw__mutex *mutex)
{
    for (unsigned i = 0; i < EAGER_LOOKS; i++) {
        pause_briefly(EAGER_PAUSES);
        if (try_lock(mutex))
            return true;
    }
    return false;
}

static void sleep_on(_Atomic uint32_t *word, uint32_t value, const struct timespec *limit)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, value, limit, NULL, 0);
}

static void wake_one_on(_Atomic uint32_t *word)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- the lookout ----------------------------------------------------------------------------- */

/* A plain futex mutex: FREE, TAKEN, or AWAITED if someone may sleep for it. Acquire and release
 * order nothing that matters here: what the lock guards is ordered by the lock. */
enum { LOOKOUT_FREE, LOOKOUT_TAKEN, LOOKOUT_AWAITED };

static void become_lookout(vw__mutex *mutex)
{
    uint32_t found = LOOKOUT_FREE;
    if (atomic_compare_exchange_strong(&mutex->lookout, &found, LOOKOUT_TAKEN))
        return;
    /* Whoever slept takes it as AWAITED, since others may sleep still. */
    while (atomic_exchange(&mutex->lookout, LOOKOUT_AWAITED) != LOOKOUT_FREE)
        sleep_on(&mutex->lookout, LOOKOUT_AWAITED, NULL);
}

static void end_lookout(vw__mutex *mutex)
{
    if (atomic_exchange(&mutex->lookout, LOOKOUT_FREE) == LOOKOUT_AWAITED)
        wake_one_on(&mutex->lookout);
}

/* Until it is woken, or has the lock: true. */
static bool sleep_or_lock(vw__mutex *mutex)
{
    static const struct timespec one_millisecond = {0, 1000000};
    atomic_store_explicit(&mutex->owes_wake, 1, memory_order_seq_cst);
    bool has_run = run_barrier_everywhere();
    if (try_lock(mutex))
        return true;
    sleep_on(&mutex->owes_wake, 1, has_run ? NULL : &one_millisecond);
    return false;
}

static void look_out(vw__mutex *mutex)
{
    if (look_patiently(mutex))
        return;
    for (unsigned sleeps = 1; !sleep_or_lock(mutex); sleeps++) {
        bool is_eager = sleeps % MOST_SLEEPS == 0;
        if (try_lock(mutex) || (is_eager ? look_eagerly(mutex) : look_patiently(mutex)))
            return;
    }
}

void vw__mutex_lock_slow(vw__mutex *mutex)
{
    if (look_first(mutex))
        return;
    become_lookout(mutex);
    look_out(mutex);
    end_lookout(mutex);
}

void vw__mutex_wake_lookout(vw__mutex *mutex)
{
    atomic_store_explicit(&mutex->owes_wake, 0, memory_order_seq_cst);
    wake_one_on(&mutex->owes_wake);
}

#ifdef VW_CHECKS
/* The ranks this thread holds, innermost last. */
enum { MOST_HELD = 8 };
static _Thread_local uint32_t held_ranks[MOST_HELD];
static _Thread_local unsigned held_count;

void vw__mutex_note_locked(const vw__mutex *mutex)
{
    VW_ASSERT(held_count < MOST_HELD);
    VW_ASSERT(held_count == 0 || held_ranks[held_count - 1] < mutex->rank);
    held_ranks[held_count++] = mutex->rank;
}

void vw__mutex_note_unlocked(const vw__mutex *mutex)
{
    VW_ASSERT(held_count > 0 && held_ranks[held_count - 1] == mutex->rank);
    held_count--;
}
#endif
