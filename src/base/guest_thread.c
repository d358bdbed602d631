/* guest_thread.c - starting and ending threads of ours. */
#include "base/guest_thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h> /* atexit */

enum { LONGEST_END_S = 1 };

bool vw__guest_thread_start(pthread_t *thread, const char *name, void *(*run)(void *context),
                            void *context)
{
    sigset_t every, before;
    sigfillset(&every);
    if (pthread_sigmask(SIG_SETMASK, &every, &before) != 0)
        return false;
    bool has_started = pthread_create(thread, NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (has_started)
        pthread_setname_np(*thread, name);
    return has_started;
}

bool vw__guest_thread_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool is_made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                   pthread_cond_init(condition, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return is_made;
}

struct timespec vw__guest_thread_time_after(uint64_t milliseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t end_ns = (uint64_t)until.tv_nsec + milliseconds * 1000000;
    until.tv_sec += (time_t)(end_ns / 1000000000);
    until.tv_nsec = (long)(end_ns % 1000000000);
    return until;
}

static bool is_before(const struct timespec *one, const struct timespec *other)
{
    return one->tv_sec != other->tv_sec ? one->tv_sec < other->tv_sec
                                        : one->tv_nsec < other->tv_nsec;
}

bool vw__guest_thread_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
                           const struct timespec *end)
{
    struct timespec look = vw__guest_thread_time_after(VW__GUEST_THREAD_LOOK_MS);
    bool is_last = end != NULL && !is_before(&look, end);
    int result = pthread_cond_timedwait(condition, lock, is_last ? end : &look);
    return result == 0 || (result == ETIMEDOUT && !is_last);
}

bool vw__guest_thread_end_soon(pthread_t thread)
{
    struct timespec latest;
    clock_gettime(CLOCK_REALTIME, &latest);
    latest.tv_sec += LONGEST_END_S;
    if (pthread_timedjoin_np(thread, NULL, &latest) == 0)
        return true;
    pthread_detach(thread);
    return false;
}

/* ---- threads that call a driver -------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock; /* taken before an owner's */
    vw__guest_thread_listed *first;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What is registered after the driver was started is called before the driver ends. */
static void end_all(void)
{
    pthread_mutex_lock(&all.lock);
    for (vw__guest_thread_listed *each = all.first; each != NULL; each = each->next)
        each->tell_to_end(each->context);
    for (vw__guest_thread_listed *each = all.first; each != NULL; each = each->next) {
        each->is_stuck = !vw__guest_thread_end_soon(each->thread);
        each->has_ended = true;
    }
    all.first = NULL;
    pthread_mutex_unlock(&all.lock);
}

static void hold_list(void)
{
    pthread_mutex_lock(&all.lock);
}

static void let_list_go(void)
{
    pthread_mutex_unlock(&all.lock);
}

static void forget_in_child(void)
{
    all.first = NULL;
    pthread_mutex_unlock(&all.lock);
}

static void prepare(void)
{
    (void)atexit(end_all);
    pthread_atfork(hold_list, let_list_go, forget_in_child);
}

void vw__guest_thread_list(vw__guest_thread_listed *listed)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, prepare);
    pthread_mutex_lock(&all.lock);
    listed->next = all.first;
    listed->link = &all.first;
    if (listed->next != NULL)
        listed->next->link = &listed->next;
    all.first = listed;
    pthread_mutex_unlock(&all.lock);
}

/* False: its thread has ended with the process. */
static bool leave_list(vw__guest_thread_listed *listed)
{
    pthread_mutex_lock(&all.lock);
    bool has_thread = !listed->has_ended;
    if (has_thread) {
        *listed->link = listed->next;
        if (listed->next != NULL)
            listed->next->link = listed->link;
    }
    pthread_mutex_unlock(&all.lock);
    return has_thread;
}

bool vw__guest_thread_end(vw__guest_thread_listed *listed)
{
    if (!leave_list(listed))
        return !listed->is_stuck;
    listed->tell_to_end(listed->context);
    pthread_join(listed->thread, NULL);
    return true;
}
