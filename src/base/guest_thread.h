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

/* A condition for vw__guest_thread_time_after(). False: there can be none now. */
bool vw__guest_thread_condition(pthread_cond_t *condition);

/* For pthread_cond_timedwait() on such a condition. */
struct timespec vw__guest_thread_time_after(uint64_t milliseconds);

/* At the end of the process: joins a thread that was told to end. False: it is stuck in a driver,
 * and is left there. */
bool vw__guest_thread_end_soon(pthread_t thread);

#endif /* VW_BASE_GUEST_THREAD_H */
