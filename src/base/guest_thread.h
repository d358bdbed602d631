/* guest_thread.h - threads of ours in someone's program.
 *
 * A guest takes no signals, since handlers are for the program's own threads, and has a name, so
 * that whoever looks at the process knows whose it is. */
#ifndef VW_BASE_GUEST_THREAD_H
#define VW_BASE_GUEST_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* `name` has at most 15 characters. False: there can be no thread now. */
bool vw__guest_thread_start(pthread_t *thread, const char *name, void *(*run)(void *context),
                            void *context);

/* A condition for vw__guest_thread_wait(). False: there can be none now. */
bool vw__guest_thread_condition(pthread_cond_t *condition);

/* An end for vw__guest_thread_wait(). */
struct timespec vw__guest_thread_time_after(uint64_t milliseconds);

/* As pthread_cond_wait(), on such a condition, but returns after VW__GUEST_THREAD_LOOK_MS at
 * latest: glibc before 2.41 can lose a wake-up (its bug 25847), and nobody shall wait for ever for
 * what is true. So the caller looks again whenever this returns. `end` may be NULL. False: it has
 * come. */
enum { VW__GUEST_THREAD_LOOK_MS = 1000 };
bool vw__guest_thread_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
                           const struct timespec *end);

/* At the end of the process: joins a thread that was told to end. False: it is stuck in a driver,
 * and is left there. */
bool vw__guest_thread_end_soon(pthread_t thread);

/* ---- threads that call a driver -------------------------------------------------------------- */

/* The driver ends with the process, and must not be called after that. So such a thread is listed:
 * at the end of the process it is told to end, before the driver ends, and waited for. A child of
 * fork() has none of the threads, and an empty list. Part of its owner, who fills in the first
 * three. */
typedef struct vw__guest_thread_listed {
    pthread_t thread;
    void (*tell_to_end)(void *context); /* wakes it; may take the owner's lock */
    void *context;
    struct vw__guest_thread_listed *next; /* the list's, like the rest */
    struct vw__guest_thread_listed **link;
    bool has_ended; /* with the process, like the next */
    bool is_stuck;
} vw__guest_thread_listed;

/* After the driver was started. */
void vw__guest_thread_list(vw__guest_thread_listed *listed);

/* Tells the thread to end and joins it, unless it has ended with the process. Without the owner's
 * lock. False: it is stuck in the driver while the process ends, and still has what it works on. */
bool vw__guest_thread_end(vw__guest_thread_listed *listed);

#endif /* VW_BASE_GUEST_THREAD_H */
