/* test_mutex_threads.c - the lock under more threads than cores.
 *
 * Two things can go wrong in a lock: two threads inside at once, and a thread that sleeps though
 * the lock is free. The first shows in a counter that is not atomic. The second shows only as a
 * hang, and only if nobody unlocks afterwards to wake the sleeper by chance; so there are rounds in
 * which every thread takes the lock exactly once and then waits for all the others. */
#include "base/ranked_mutex.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "support/cmocka_here.h"
#include "support/stress_run.h"

enum { THREADS = 16, LIMIT_S = 100 };

typedef struct shared {
    vw__mutex mutex;
    uint64_t counter; /* guarded by mutex; written in two steps, so that company would show */
    uint64_t copy;    /* guarded by mutex */
    pthread_barrier_t barrier;
    bool has_met_company; /* guarded by mutex */
    int rounds;           /* set before the threads start */
} shared;

typedef struct worker {
    shared *all;
    uint64_t random;
} worker;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void spin_ns(uint64_t duration_ns)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((uint64_t)((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec) <
           duration_ns);
}

static void sleep_us(uint64_t duration_us)
{
    const struct timespec pause = {.tv_nsec = (long)duration_us * 1000};
    nanosleep(&pause, NULL);
}

/* Counts, with a while between the two halves in which nobody else may count. */
static void work_inside(shared *all, uint64_t dice)
{
    uint64_t before = all->counter;
    all->counter = before + 1;
    if (dice % 4000 == 0)
        sleep_us(2000); /* longer than anyone spins: the others fall asleep */
    else if (dice % 50 == 0)
        spin_ns(5000);
    if (all->copy != before)
        all->has_met_company = true;
    all->copy = all->counter;
}

static void run_threads(shared *all, void *(*body)(void *))
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    alarm(LIMIT_S); /* a lost wake-up is a hang: the signal ends it */
    vw__mutex_init(&all->mutex, VW__LOCK_POOL);
    assert_int_equal(pthread_barrier_init(&all->barrier, NULL, THREADS), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (worker){all, (i + 1) * UINT64_C(0x9E3779B97F4A7C15)};
        assert_int_equal(pthread_create(&threads[i], NULL, body, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    pthread_barrier_destroy(&all->barrier);
    alarm(0);
    assert_false(all->has_met_company);
    assert_int_equal(all->counter, (uint64_t)THREADS * (uint64_t)all->rounds);
    assert_int_equal(all->copy, all->counter);
}

static void *come_back_for_more(void *context)
{
    worker *self = context;
    for (int i = 0; i < self->all->rounds; i++) {
        vw__mutex_lock(&self->all->mutex);
        work_inside(self->all, next_random(&self->random));
        vw__mutex_unlock(&self->all->mutex);
    }
    return NULL;
}

static void short_and_long_holds_never_overlap(void **state)
{
    (void)state;
    shared all = {.rounds = (int)vw_test_rounds(40000)};
    run_threads(&all, come_back_for_more);
}

/* Thread 0 of each round has the lock when the others come, and drops it at a moment that moves
 * through the time in which they pause, announce themselves and fall asleep. */
static void *come_once_a_round(void *context)
{
    worker *self = context;
    shared *all = self->all;
    for (int round = 0; round < all->rounds; round++) {
        if (pthread_barrier_wait(&all->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
            vw__mutex_lock(&all->mutex);
            spin_ns((uint64_t)round % 100 * 20000);
        } else {
            vw__mutex_lock(&all->mutex);
        }
        work_inside(all, 1);
        vw__mutex_unlock(&all->mutex);
        pthread_barrier_wait(
            &all->barrier); /* nobody unlocks any more until all have been inside */
    }
    return NULL;
}

static void every_sleeper_is_woken_though_nobody_comes_back(void **state)
{
    (void)state;
    shared all = {.rounds = (int)vw_test_rounds(1500)};
    run_threads(&all, come_once_a_round);
}

/* The owner sleeps in the kernel itself, so that all others certainly do; then each of them is
 * woken by the one before it. */
static void *come_while_the_owner_sleeps(void *context)
{
    worker *self = context;
    shared *all = self->all;
    for (int round = 0; round < all->rounds; round++) {
        bool is_owner = pthread_barrier_wait(&all->barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        vw__mutex_lock(&all->mutex);
        if (is_owner)
            sleep_us(2000 + (uint64_t)round % 7 * 100);
        work_inside(all, 1);
        vw__mutex_unlock(&all->mutex);
        pthread_barrier_wait(&all->barrier);
    }
    return NULL;
}

static void a_row_of_sleepers_is_woken_one_by_the_other(void **state)
{
    (void)state;
    shared all = {.rounds = (int)vw_test_rounds(400)};
    run_threads(&all, come_while_the_owner_sleeps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_and_long_holds_never_overlap),
        cmocka_unit_test(every_sleeper_is_woken_though_nobody_comes_back),
        cmocka_unit_test(a_row_of_sleepers_is_woken_one_by_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
