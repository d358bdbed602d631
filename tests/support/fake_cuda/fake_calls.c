/* fake_calls.c - see fake_calls.h. */
#include "support/fake_cuda/fake_calls.h"

#include <pthread.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default"), noinline))

#define NO_TAIL_CALL() __asm__ volatile("")

EXPORT void fake_cuda_within(void (*body)(void *), void *context);
void fake_cuda_within(void (*body)(void *), void *context)
{
    body(context);
    NO_TAIL_CALL();
}

static struct {
    void (*body)(void *);
    void *context;
} started; /* one thread at a time */

static void *run_started(void *unused)
{
    started.body(started.context);
    NO_TAIL_CALL();
    return unused;
}

EXPORT int fake_cuda_start(void (*body)(void *), void *context);
int fake_cuda_start(void (*body)(void *), void *context)
{
    pthread_t thread;
    started.body = body;
    started.context = context;
    int result = pthread_create(&thread, NULL, run_started, NULL);
    return result == 0 ? pthread_detach(thread) : result;
}
