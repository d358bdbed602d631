/* replay_jobs.c - many replays at once.
 *
 * Each run is one job; threads take the next from a counter until none is left. The calling thread
 * works as well, and it alone talks to the caller's progress function; the others look at a flag
 * now and then, in the same place. A failure of one job ends all: it is one of host memory, or a
 * file that contradicts itself, and would strike the others too. */
#include "analysis/replay.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"

enum { MOST_THREADS = 4 };

typedef struct job_queue {
    const vw__replay_work *work; /* read-only */
    const vw__replay_job *jobs;  /* what each points to is touched by the thread that took it */
    size_t count;
    const vw__replay_progress *progress; /* used by the calling thread only */
    atomic_size_t next;
    atomic_size_t done_count;
    atomic_bool is_stopped;
    pthread_mutex_t lock;
    vw_status status;                   /* guarded by lock; the first failure */
    char words[VW__ERROR_DETAIL_BYTES]; /* guarded by lock; what it had to say */
} job_queue;

static bool go_on(void *context, double done)
{
    job_queue *queue = context;
    (void)done;
    return !atomic_load(&queue->is_stopped);
}

static void keep_failure(job_queue *queue, vw_status status)
{
    atomic_store(&queue->is_stopped, true);
    (void)pthread_mutex_lock(&queue->lock);
    if (queue->status == VW_OK) {
        queue->status = status;
        (void)snprintf(queue->words, sizeof queue->words, "%s", vw_last_error());
    }
    (void)pthread_mutex_unlock(&queue->lock);
}

static void work_off(job_queue *queue, bool is_caller)
{
    for (;;) {
        size_t index = atomic_fetch_add(&queue->next, 1);
        if (index >= queue->count || atomic_load(&queue->is_stopped))
            return;
        const vw__replay_job *job = &queue->jobs[index];
        vw__replay_progress progress = {.progress = go_on, .context = queue, .share = 1.0};
        if (is_caller) {
            progress = *queue->progress;
            progress.share /= (double)queue->count;
            progress.base += progress.share * (double)atomic_load(&queue->done_count);
        }
        vw_status status = vw__replay_run_heard(queue->work, job->setting, job->card, job->listener,
                                                &progress, job->result);
        if (status != VW_OK)
            keep_failure(queue, status);
        atomic_fetch_add(&queue->done_count, 1);
    }
}

static void *work_off_as_helper(void *context)
{
    work_off(context, false);
    return NULL;
}

static size_t helper_count(size_t job_count)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = processors > 0 ? (size_t)processors : 1;
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    if (threads > job_count)
        threads = job_count;
    return threads > 1 ? threads - 1 : 0;
}

vw_status vw__replay_work_off(const vw__replay_work *work, const vw__replay_job *jobs, size_t count,
                              const vw__replay_progress *progress)
{
    job_queue queue = {.work = work, .jobs = jobs, .count = count, .progress = progress};
    pthread_t helpers[MOST_THREADS];
    size_t started = 0;
    (void)pthread_mutex_init(&queue.lock, NULL); /* with default attributes it cannot fail */
    for (size_t wanted = helper_count(count); started < wanted; started++)
        if (pthread_create(&helpers[started], NULL, work_off_as_helper, &queue) != 0)
            break; /* the others do it */
    work_off(&queue, true);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(helpers[i], NULL);
    (void)pthread_mutex_destroy(&queue.lock);
    return queue.status == VW_OK ? VW_OK : vw__fail(queue.status, "%s", queue.words);
}
