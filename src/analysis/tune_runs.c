/* tune_runs.c - many replays at once.
 *
 * Each candidate is one job; threads take the next from a counter until none is left. The calling
 * thread works as well, and it alone talks to the caller's progress function; the others look at a
 * flag now and then, in the same place. A failure of one job ends all: it is one of host memory, or
 * a file that contradicts itself, and would strike the others too. */
#include "analysis/tune.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"

enum { MOST_THREADS = 4 };

typedef struct tune_jobs {
    const hr__replay_work *work; /* read-only */
    hr__candidate *candidates;   /* each is touched by the thread that took it */
    size_t count;
    const hr__replay_progress *progress; /* used by the calling thread only */
    atomic_size_t next;
    atomic_size_t done_count;
    atomic_bool is_stopped;
    pthread_mutex_t lock;
    hr_status status;                   /* guarded by lock; the first failure */
    char words[HR__ERROR_DETAIL_BYTES]; /* guarded by lock; what it had to say */
} tune_jobs;

static bool go_on(void *context, double done)
{
    tune_jobs *jobs = context;
    (void)done;
    return !atomic_load(&jobs->is_stopped);
}

static void keep_failure(tune_jobs *jobs, hr_status status)
{
    atomic_store(&jobs->is_stopped, true);
    (void)pthread_mutex_lock(&jobs->lock);
    if (jobs->status == HR_OK) {
        jobs->status = status;
        (void)snprintf(jobs->words, sizeof jobs->words, "%s", hr_last_error());
    }
    (void)pthread_mutex_unlock(&jobs->lock);
}

static void work_off(tune_jobs *jobs, bool is_caller)
{
    for (;;) {
        size_t index = atomic_fetch_add(&jobs->next, 1);
        if (index >= jobs->count || atomic_load(&jobs->is_stopped))
            return;
        hr__candidate *candidate = &jobs->candidates[index];
        hr__replay_progress progress = {.progress = go_on, .context = jobs, .share = 1.0};
        if (is_caller) {
            progress = *jobs->progress;
            progress.share /= (double)jobs->count;
            progress.base += progress.share * (double)atomic_load(&jobs->done_count);
        }
        hr__replay_setting setting =
            hr__policy_setting(candidate->result.policy, candidate->result.conf);
        hr_status status = hr__replay_run(jobs->work, setting, candidate->card, false, &progress,
                                          &candidate->result);
        if (status != HR_OK)
            keep_failure(jobs, status);
        atomic_fetch_add(&jobs->done_count, 1);
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

hr_status hr__tune_try(const hr__replay_work *work, hr__candidate *candidates, size_t count,
                       const hr__replay_progress *progress)
{
    tune_jobs jobs = {.work = work, .candidates = candidates, .count = count, .progress = progress};
    pthread_t helpers[MOST_THREADS];
    size_t started = 0;
    (void)pthread_mutex_init(&jobs.lock, NULL); /* with default attributes it cannot fail */
    for (size_t wanted = helper_count(count); started < wanted; started++)
        if (pthread_create(&helpers[started], NULL, work_off_as_helper, &jobs) != 0)
            break; /* the others do it */
    work_off(&jobs, true);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(helpers[i], NULL);
    (void)pthread_mutex_destroy(&jobs.lock);
    return jobs.status == HR_OK ? HR_OK : hr__fail(jobs.status, "%s", jobs.words);
}
