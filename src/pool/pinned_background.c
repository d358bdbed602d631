/* pinned_background.c - a thread that looks at events, so that allocations need not.
 *
 * With pinned_use_background_threads PyTorch moves the look at waiting blocks out of the allocation
 * path. The thread begins with the first block that is made, sleeps 100 microseconds between looks,
 * and looks after the default shelf only. A failing look is left to the next one: a device that
 * fails for good says so to the next caller who needs memory. */
#include "pool/pinned_pool.h"

#include <time.h>

enum { SLEEP_NS = 100000 };

static bool look_once(vw_pinned_pool *pool)
{
    vw__pinned_list leaving = {NULL, NULL};
    vw__pinned_lock(pool);
    bool is_stopping = pool->is_background_stopping;
    if (!is_stopping)
        (void)vw__pinned_advance(pool, &pool->default_shelf, &leaving);
    vw__pinned_unlock(pool);
    (void)vw__pinned_give_back(pool, &leaving, false); /* what the device refuses stays cached */
    return !is_stopping;
}

static void *look_on(void *context)
{
    const struct timespec pause = {.tv_nsec = SLEEP_NS};
    while (look_once(context))
        nanosleep(&pause, NULL);
    return NULL;
}

static void tell_to_end(void *context)
{
    vw_pinned_pool *pool = context;
    vw__pinned_lock(pool);
    pool->is_background_stopping = true;
    vw__pinned_unlock(pool);
}

void vw__pinned_background_start(vw_pinned_pool *pool)
{
    vw__pinned_lock(pool);
    bool is_ours = !pool->is_background_running;
    pool->is_background_running = true;
    vw__pinned_unlock(pool);
    if (!is_ours)
        return;
    if (vw__guest_thread_start(&pool->background.thread, "vramwise-pinned", look_on, pool)) {
        pool->background.tell_to_end = tell_to_end;
        pool->background.context = pool;
        vw__guest_thread_list(&pool->background);
        return;
    }
    vw__pinned_lock(pool);
    pool->is_background_running = false;
    vw__pinned_unlock(pool);
}

bool vw__pinned_background_stop(vw_pinned_pool *pool)
{
    vw__pinned_lock(pool);
    bool is_running = pool->is_background_running;
    vw__pinned_unlock(pool);
    return !is_running || vw__guest_thread_end(&pool->background);
}
