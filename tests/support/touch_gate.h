/* touch_gate.h - a gate for threads that touch a pool's blocks, in the place of the launch gate.
 *
 * A thread touches its blocks between enter and leave. A safe point closes the gate and waits until
 * nobody is inside; parking holds it closed from then on until the pool is woken. Who waits looks
 * again and again: glibc's condition variables can lose a wake-up (its bug 25847). */
#ifndef VW_TESTS_TOUCH_GATE_H
#define VW_TESTS_TOUCH_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

typedef struct vw_test_gate {
    pthread_mutex_t lock;
    unsigned inside;
    unsigned closers; /* at most one */
    unsigned holds;
} vw_test_gate;

#define VW_TEST_GATE_OPEN                                                                          \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, 0, 0, 0                                                         \
    }

/* With the lock held, and dropped meanwhile. */
static inline void vw_test_gate_pause(vw_test_gate *gate)
{
    static const struct timespec pause = {.tv_nsec = 50000};
    pthread_mutex_unlock(&gate->lock);
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&gate->lock);
}

static inline void vw_test_gate_enter(vw_test_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (gate->closers != 0 || gate->holds != 0)
        vw_test_gate_pause(gate);
    gate->inside++;
    pthread_mutex_unlock(&gate->lock);
}

static inline void vw_test_gate_leave(vw_test_gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->inside--;
    pthread_mutex_unlock(&gate->lock);
}

/* ---- vw_safe_point and vw_park_guard, with the gate as context ------------------------------- */

static inline bool vw_test_gate_close(void *context)
{
    vw_test_gate *gate = context;
    pthread_mutex_lock(&gate->lock);
    while (gate->closers != 0)
        vw_test_gate_pause(gate);
    gate->closers = 1;
    while (gate->inside != 0)
        vw_test_gate_pause(gate);
    pthread_mutex_unlock(&gate->lock);
    return true;
}

static inline void vw_test_gate_open(void *context)
{
    vw_test_gate *gate = context;
    pthread_mutex_lock(&gate->lock);
    gate->closers = 0;
    pthread_mutex_unlock(&gate->lock);
}

static inline bool vw_test_gate_hold(void *context)
{
    vw_test_gate *gate = context;
    pthread_mutex_lock(&gate->lock);
    gate->holds++;
    pthread_mutex_unlock(&gate->lock);
    return true;
}

static inline void vw_test_gate_let_go(void *context)
{
    vw_test_gate *gate = context;
    pthread_mutex_lock(&gate->lock);
    gate->holds--;
    pthread_mutex_unlock(&gate->lock);
}

#endif /* VW_TESTS_TOUCH_GATE_H */
