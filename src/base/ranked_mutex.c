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

/* How long to pause before looking again; after the last look the thread sleeps. The first pause is
 * short, for a chance meeting; the last ones are long, so that under steady contention a lock stays
 * with its owner for dozens of turns (with 2 to 4 threads a third less time per operation than
 * pauses that grow step by step). A pause instruction takes 40 to 140 cycles on current x86, so all
 * looks take some hundred microseconds: much longer than a critical section without driver calls,
 * shorter than a time slice. */
static const unsigned pauses_before_look[] = {1, 64, 2048, 2048, 2048, 2048};

static inline void pause_briefly(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
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

void vw__mutex_lock_slow(vw__mutex *mutex)
{
    static const struct timespec one_millisecond = {0, 1000000};
    for (size_t i = 0; i < sizeof pauses_before_look / sizeof pauses_before_look[0]; i++) {
        pause_briefly(pauses_before_look[i]);
        if (try_lock(mutex))
            return;
    }
    /* One wake-up at a time is under way. Whoever it reaches takes the lock with owes_wake set, or
     * sets it again and sleeps, so the sleepers behind it are not forgotten. */
    for (;;) {
        atomic_store_explicit(&mutex->owes_wake, 1, memory_order_seq_cst);
        bool has_run = run_barrier_everywhere();
        if (try_lock(mutex))
            return;
        syscall(SYS_futex, (uint32_t *)&mutex->owes_wake, FUTEX_WAIT_PRIVATE, 1,
                has_run ? NULL : &one_millisecond, NULL, 0);
    }
}

void vw__mutex_wake_one(vw__mutex *mutex)
{
    atomic_store_explicit(&mutex->owes_wake, 0, memory_order_seq_cst);
    syscall(SYS_futex, (uint32_t *)&mutex->owes_wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
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
