/* ranked_mutex.h - the mutex, and the order in which mutexes are locked.
 *
 * A mutex is held for some tens of nanoseconds, thousands of times a millisecond, by threads that
 * lock it again at once. Two costs matter. Uncontended: one atomic exchange to lock, and a plain
 * store to unlock. Contended: every hand-over moves the pool's hot cache lines to another core,
 * which costs more than the work done under the lock, so a fair lock makes eight threads several
 * times slower than one. This one is unfair on purpose: a waiter that did not get it at once takes
 * it only when it has been free for a while, so that the owner can lock it many times while the
 * lines are still in its cache. One waiter at a time looks, the *lookout*. The others sleep until
 * it has the lock: each look takes the lock's line away from the owner, and each sleep and wake-up
 * of a lookout costs the owner an interrupt and a system call, so one lookout must do, however many
 * wait. A lookout that has paused long enough sleeps in the kernel, and one that has slept several
 * times becomes eager, so that nobody waits for ever.
 *
 * Unlocking is "store free; does anyone sleep?", and going to sleep is "announce it; is it still
 * held?". If the processor lets the load overtake the store, the two can miss each other. An atomic
 * exchange in every unlock would prevent that, but costs a fifth of an allocation. The rare side
 * pays instead: a thread about to sleep makes the kernel run a barrier on every thread of the
 * process (membarrier). If the kernel has none, sleepers wake up every millisecond.
 *
 * We did not take pthread_mutex: under contention it sleeps at once, and every unlock is a system
 * call. We did not take a queue lock: it is fair.
 *
 * Debug builds (VW_CHECKS) check that a thread locks by rising rank only. */
#ifndef VW_BASE_RANKED_MUTEX_H
#define VW_BASE_RANKED_MUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* A thread may lock only a higher rank than those it holds. */
typedef enum vw__lock_rank {
    VW__LOCK_ATTACHING = 5,     /* a recorder that comes to a pool, or leaves it */
    VW__LOCK_POOL = 10,         /* a pool, or a pinned pool */
    VW__LOCK_RECORDER = 20,     /* listeners run under a pool's lock */
    VW__LOCK_DEVICE = 30,       /* a device's own books; devices are called under pool locks */
    VW__LOCK_PROCESS_PAGE = 35, /* making the process's page, once */
    VW__LOCK_REGISTRY = 40, /* the process's own lists: loading drivers, once; what was opened */
} vw__lock_rank;

typedef struct vw__mutex {
    _Atomic uint32_t is_held;
    _Atomic uint32_t owes_wake; /* the lookout sleeps, or is about to: its futex word */
    _Atomic uint32_t lookout;   /* the right to look, and the futex word of who wants it */
    uint32_t rank;              /* set at creation, then read-only */
} vw__mutex;

#define VW__MUTEX_INIT(rank_)                                                                      \
    {                                                                                              \
        0, 0, 0, (rank_)                                                                           \
    }

static inline void vw__mutex_init(vw__mutex *mutex, vw__lock_rank rank)
{
    atomic_init(&mutex->is_held, 0);
    atomic_init(&mutex->owes_wake, 0);
    atomic_init(&mutex->lookout, 0);
    mutex->rank = (uint32_t)rank;
}

void vw__mutex_lock_slow(vw__mutex *mutex);
void vw__mutex_wake_lookout(vw__mutex *mutex);
#ifdef VW_CHECKS
void vw__mutex_note_locked(const vw__mutex *mutex);
void vw__mutex_note_unlocked(const vw__mutex *mutex);
#else
#define vw__mutex_note_locked(mutex) ((void)(mutex))
#define vw__mutex_note_unlocked(mutex) ((void)(mutex))
#endif

static inline void vw__mutex_lock(vw__mutex *mutex)
{
    /* Acquire: what the last owner wrote is seen. */
    if (atomic_exchange_explicit(&mutex->is_held, 1, memory_order_acquire) != 0)
        vw__mutex_lock_slow(mutex);
    vw__mutex_note_locked(mutex);
}

static inline void vw__mutex_unlock(vw__mutex *mutex)
{
    vw__mutex_note_unlocked(mutex);
    /* Release: the next owner sees what was written here. The order against the look at `owes_wake`
     * is the sleeper's business (see above); the signal fence keeps the compiler to it. */
    atomic_store_explicit(&mutex->is_held, 0, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
    if (__builtin_expect(atomic_load_explicit(&mutex->owes_wake, memory_order_relaxed) != 0, 0))
        vw__mutex_wake_lookout(mutex);
}

#endif /* VW_BASE_RANKED_MUTEX_H */
