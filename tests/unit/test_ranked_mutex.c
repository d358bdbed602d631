/* test_ranked_mutex.c - the lock excludes, wakes who sleeps, and knows its order. */
#include "base/ranked_mutex.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/cmocka_here.h"

enum { THREAD_COUNT = 4, ROUNDS = 100000 };

typedef struct shared {
    vw__mutex mutex;
    uint64_t counter; /* guarded by mutex */
    int rounds;       /* set before the threads start */
} shared;

static void *count_up(void *context)
{
    shared *all = context;
    for (int i = 0; i < all->rounds; i++) {
        vw__mutex_lock(&all->mutex);
        all->counter++;
        vw__mutex_unlock(&all->mutex);
    }
    return NULL;
}

static void start(pthread_t *threads, shared *all)
{
    for (int i = 0; i < THREAD_COUNT; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, all), 0);
}

static void join(const pthread_t *threads)
{
    for (int i = 0; i < THREAD_COUNT; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void a_free_lock_is_taken_and_dropped(void **state)
{
    (void)state;
    vw__mutex mutex;
    vw__mutex_init(&mutex, VW__LOCK_POOL);
    assert_int_equal(mutex.rank, VW__LOCK_POOL);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&mutex.is_held), 0);
        vw__mutex_lock(&mutex);
        assert_int_equal(atomic_load(&mutex.is_held), 1);
        vw__mutex_unlock(&mutex);
    }
}

static void four_threads_lose_no_increment(void **state)
{
    (void)state;
    shared all = {.mutex = VW__MUTEX_INIT(VW__LOCK_POOL), .rounds = ROUNDS};
    pthread_t threads[THREAD_COUNT];
    start(threads, &all);
    join(threads);
    assert_int_equal(all.counter, (uint64_t)THREAD_COUNT * ROUNDS);
    assert_int_equal(atomic_load(&all.mutex.is_held), 0);
}

/* `owes_wake` says when the lookout is about to sleep; two milliseconds later it does, and the
 * others wait for its place. Each must then be woken, or the test hangs until its time limit. */
static void waiters_that_fell_asleep_are_all_woken(void **state)
{
    (void)state;
    const struct timespec two_ms = {.tv_nsec = 2000000};
    for (int repeat = 0; repeat < 5; repeat++) {
        shared all = {.mutex = VW__MUTEX_INIT(VW__LOCK_POOL), .rounds = 10};
        pthread_t threads[THREAD_COUNT];
        vw__mutex_lock(&all.mutex);
        start(threads, &all);
        while (atomic_load_explicit(&all.mutex.owes_wake, memory_order_relaxed) == 0)
            sched_yield();
        nanosleep(&two_ms, NULL);
        assert_int_equal(all.counter, 0);
        vw__mutex_unlock(&all.mutex);
        join(threads);
        assert_int_equal(all.counter, THREAD_COUNT * 10);
        assert_int_equal(atomic_load(&all.mutex.lookout), 0);
    }
}

/* Waiters come while one looks and another sleeps for its place: none is forgotten. */
static void those_who_wait_for_the_lookouts_place_all_get_it(void **state)
{
    (void)state;
    shared all = {.mutex = VW__MUTEX_INIT(VW__LOCK_POOL), .rounds = 1};
    pthread_t threads[THREAD_COUNT];
    vw__mutex_lock(&all.mutex);
    start(threads, &all);
    while (atomic_load(&all.mutex.lookout) != 2) /* awaited by another one */
        sched_yield();
    vw__mutex_unlock(&all.mutex);
    join(threads);
    assert_int_equal(all.counter, THREAD_COUNT);
    assert_int_equal(atomic_load(&all.mutex.lookout), 0);
}

/* An owner that locks again at once, until each of the others has had the lock some times: the lock
 * is unfair on purpose, but nobody may wait for ever. */
static void *lock_again_until_all_are_done(void *context)
{
    shared *all = context;
    for (bool is_done = false; !is_done;) {
        vw__mutex_lock(&all->mutex);
        is_done = all->counter == (uint64_t)THREAD_COUNT * (uint64_t)all->rounds;
        vw__mutex_unlock(&all->mutex);
    }
    return NULL;
}

static void others_get_the_lock_from_one_that_locks_again_at_once(void **state)
{
    (void)state;
    shared all = {.mutex = VW__MUTEX_INIT(VW__LOCK_POOL), .rounds = 20};
    pthread_t threads[THREAD_COUNT], owner;
    assert_int_equal(pthread_create(&owner, NULL, lock_again_until_all_are_done, &all), 0);
    start(threads, &all);
    join(threads);
    assert_int_equal(pthread_join(owner, NULL), 0);
    assert_int_equal(all.counter, THREAD_COUNT * 20);
}

/* ---- the order of locks ---------------------------------------------------------------------- */

static void locks_may_be_taken_in_rising_rank(void **state)
{
    (void)state;
    vw__mutex pool = VW__MUTEX_INIT(VW__LOCK_POOL);
    vw__mutex recorder = VW__MUTEX_INIT(VW__LOCK_RECORDER);
    vw__mutex device = VW__MUTEX_INIT(VW__LOCK_DEVICE);
    vw__mutex registry = VW__MUTEX_INIT(VW__LOCK_REGISTRY);
    for (int i = 0; i < 2; i++) {
        vw__mutex_lock(&pool);
        vw__mutex_lock(&recorder);
        vw__mutex_unlock(&recorder);
        vw__mutex_lock(&device);
        vw__mutex_lock(&registry);
        vw__mutex_unlock(&registry);
        vw__mutex_unlock(&device);
        vw__mutex_unlock(&pool);
    }
    assert_int_equal(atomic_load(&pool.is_held), 0);
    assert_int_equal(atomic_load(&device.is_held), 0);
}

#ifdef VW_CHECKS
static bool aborts(void (*mistake)(void))
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        mistake();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void take(uint32_t first_rank, uint32_t second_rank)
{
    vw__mutex first = VW__MUTEX_INIT(first_rank);
    vw__mutex second = VW__MUTEX_INIT(second_rank);
    vw__mutex_lock(&first);
    vw__mutex_lock(&second);
}

static void take_in_rising_rank(void)
{
    take(VW__LOCK_POOL, VW__LOCK_DEVICE);
}

static void take_in_falling_rank(void)
{
    take(VW__LOCK_DEVICE, VW__LOCK_POOL);
}

static void take_two_of_one_rank(void)
{
    take(VW__LOCK_POOL, VW__LOCK_POOL);
}

static void drop_what_is_not_held(void)
{
    vw__mutex mutex = VW__MUTEX_INIT(VW__LOCK_POOL);
    vw__mutex_unlock(&mutex);
}
#endif

static void taking_locks_in_any_other_order_stops_a_checked_build(void **state)
{
    (void)state;
#ifdef VW_CHECKS
    assert_false(aborts(take_in_rising_rank));
    assert_true(aborts(take_in_falling_rank));
    assert_true(aborts(take_two_of_one_rank));
    assert_true(aborts(drop_what_is_not_held));
#else
    print_message("skipped: ranks are checked with VW_CHECKS only\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_lock_is_taken_and_dropped),
        cmocka_unit_test(four_threads_lose_no_increment),
        cmocka_unit_test(waiters_that_fell_asleep_are_all_woken),
        cmocka_unit_test(those_who_wait_for_the_lookouts_place_all_get_it),
        cmocka_unit_test(others_get_the_lock_from_one_that_locks_again_at_once),
        cmocka_unit_test(locks_may_be_taken_in_rising_rank),
        cmocka_unit_test(taking_locks_in_any_other_order_stops_a_checked_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
