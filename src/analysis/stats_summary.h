/* stats_summary.h - torch.cuda.memory_summary() of a recording's end.
 *
 * PyTorch's own page has counters that no recording holds: peaks, totals, retries. Replay has them,
 * and they are PyTorch's exactly where it reproduces the recording exactly. */
#ifndef HR_ANALYSIS_STATS_SUMMARY_H
#define HR_ANALYSIS_STATS_SUMMARY_H

#include <pthread.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h" /* HR__ERROR_DETAIL_BYTES */
#include "headroom/status.h"
#include "model/memory_model.h"

/* Stores the page in `*summary`; or NULL, and in `*reason` why there is none. Both are the arena's
 * or static. A page is right only for a trace that begins at the first allocation. Fails only for
 * want of host memory. */
HR_MUST_CHECK hr_status hr__stats_summary(const hr__model *model, const hr__model_trace *trace,
                                          const char *torch_version, hr__arena *arena,
                                          const char **summary, const char **reason);

/* The same on a second thread, while the caller does other things. Between begin and finish (or
 * deinit, which waits as well) everything in here but `is_running` is that thread's. */
typedef struct hr__summary_job {
    const hr__model *model;       /* borrowed, with the next two: as long as the job */
    const hr__model_trace *trace; /* set at the beginning, then read-only */
    const char *torch_version;
    bool is_running; /* the caller's: a thread is at work */
    pthread_t thread;
    hr__arena arena; /* owned: the page's, until it is handed over */
    const char *summary, *reason;
    hr_status status;
    char failure[HR__ERROR_DETAIL_BYTES]; /* hr_last_error() of that thread */
} hr__summary_job;

/* Where the system has no thread to give, and for a short trace, the work is left for finish. The
 * job must not move. */
void hr__summary_job_begin(hr__summary_job *job, const hr__model *model,
                           const hr__model_trace *trace, const char *torch_version);

/* As hr__stats_summary(), which has then been done; at most once. */
HR_MUST_CHECK hr_status hr__summary_job_finish(hr__summary_job *job, hr__arena *arena,
                                               const char **summary, const char **reason);

/* After begin, whether finished or not. */
void hr__summary_job_deinit(hr__summary_job *job);

#endif /* HR_ANALYSIS_STATS_SUMMARY_H */
