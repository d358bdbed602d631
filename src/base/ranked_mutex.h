/* ranked_mutex.h - the lock, and the order in which locks are taken.
 *
 * A lock here is held for some tens of nanoseconds, thousands of times a millisecond, by threads
 * that come straight back for more. Two costs matter. Uncontended: one atomic exchange to take it,
 * and a plain store to drop it. Contended: every hand-over moves the pool's hot cache lines to
 * another core, which costs more than the work done under the lock, so a fair lock makes eight
 * threads several times slower than one. This one is unfair on purpose: a waiter that was not
 * lucky at once looks again only after a long pause, so the owner comes round many times while its
 * lines are still its own. A waiter that has paused long enough sleeps in the kernel.
 *
 * Dropping the lock is "store free; does anyone sleep?", and going to sleep is "say so; is it still
 * held?". If the processor lets the question overtake the store, both can miss each other. An
 * atomic exchange in every unlock would prevent it and costs a fifth of an allocation; the rare
 * side pays instead: a thread about to sleep makes the kernel run a barrier on every thread of the
 * process (membarrier). Where the kernel has none, a sleeper wakes by itself every millisecond.
 *
 * We did not take pthread_mutex: under contention it sleeps at once and every unlock is a system
 * call. We did not take a queue lock: it is fair.
 *
 * Debug builds (HR_CHECKS) check that a thread takes locks in rising rank only. */
#ifndef HR_BASE_RANKED_MUTEX_H
#define HR_BASE_RANKED_MUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Who may be taken while whom is held: only a higher number. */
typedef enum hr__lock_rank {
    HR__LOCK_POOL = 10,         /* a pool, or a pinned pool */
    HR__LOCK_RECORDER = 20,     /* listeners run under a pool's lock */
    HR__LOCK_DEVICE = 30,       /* a device's own books; devices are called under pool locks */
    HR__LOCK_PROCESS_PAGE = 35, /* making the process's page, once */
    HR__LOCK_REGISTRY = 40, /* the process's own lists: loading drivers, once; what was opened */
} hr__lock_rank;

typedef struct hr__mutex {
    _Atomic uint32_t is_held;
    _Atomic uint32_t owes_wake; /* someone sleeps, or is about to: the futex word */
    uint32_t rank;              /* set at creation, then read-only */
} hr__mutex;

#define HR__MUTEX_INIT(rank_)                                                                      \
    {                                                                                              \
        0, 0, (rank_)                                                                              \
    }

static inline void hr__mutex_init(hr__mutex *mutex, hr__lock_rank rank)
{
    atomic_init(&mutex->is_held, 0);
    atomic_init(&mutex->owes_wake, 0);
    mutex->rank = (uint32_t)rank;
}

void hr__mutex_lock_slow(hr__mutex *mutex);
void hr__mutex_wake_one(hr__mutex *mutex);
#ifdef HR_CHECKS
void hr__mutex_note_locked(const hr__mutex *mutex);
void hr__mutex_note_unlocked(const hr__mutex *mutex);
#else
#define hr__mutex_note_locked(mutex) ((void)(mutex))
#define hr__mutex_note_unlocked(mutex) ((void)(mutex))
#endif

static inline void hr__mutex_lock(hr__mutex *mutex)
{
    /* Acquire: what the last owner wrote is seen. */
    if (atomic_exchange_explicit(&mutex->is_held, 1, memory_order_acquire) != 0)
        hr__mutex_lock_slow(mutex);
    hr__mutex_note_locked(mutex);
}

static inline void hr__mutex_unlock(hr__mutex *mutex)
{
    hr__mutex_note_unlocked(mutex);
    /* Release: the next owner sees what was written here. The order against the look at `owes_wake`
     * is the sleeper's business (see above); the signal fence keeps the compiler to it. */
    atomic_store_explicit(&mutex->is_held, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&mutex->owes_wake, memory_order_relaxed) != 0, 0))
        hr__mutex_wake_one(mutex);
}

#endif /* HR_BASE_RANKED_MUTEX_H */
