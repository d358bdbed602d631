/* fork_guard.c - a counter that rises in each child of fork(). */
#include "base/fork_guard.h"

#include <pthread.h>

uint32_t vw__fork_count;

static void count_fork(void)
{
    vw__fork_count++;
}

static void register_handler(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

void vw__fork_guard_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_handler);
}
