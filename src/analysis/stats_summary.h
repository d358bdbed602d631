/* stats_summary.h - torch.cuda.memory_summary() of a recording's end.
 *
 * PyTorch's own page has counters that no recording holds: peaks, totals, retries. Replay has them,
 * and they are PyTorch's exactly where it reproduces the recording exactly. */
#ifndef VW_ANALYSIS_STATS_SUMMARY_H
#define VW_ANALYSIS_STATS_SUMMARY_H

#include <pthread.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h" /* VW__ERROR_DETAIL_BYTES */
#include "vramwise/status.h"
#include "model/memory_model.h"

/* A summary that is made on a second thread, while the caller does other things. Between begin and
 * finish (or deinit, which waits as well) everything in here but `is_running` is that thread's. */
typedef struct vw__stats_summary_job {
    const vw__model *model;       /* borrowed, with the next two: as long as the job */
    const vw__model_trace *trace; /* set at the beginning, then read-only */
    const char *torch_version;
    bool is_running; /* the caller's: a thread is at work */
    pthread_t thread;
    vw__arena arena; /* owned: the page's, until it is handed over */
    const char *summary, *reason;
    vw_status status;
    char failure[VW__ERROR_DETAIL_BYTES]; /* vw_last_error() of that thread */
} vw__stats_summary_job;

/* If no thread can be made, and for a short trace, the work is left to finish. The job must not
 * move. */
void vw__stats_summary_job_begin(vw__stats_summary_job *job, const vw__model *model,
                                 const vw__model_trace *trace, const char *torch_version);

/* Why there is no page of a trace that was cut. */
#define VW__STATS_SUMMARY_CUT "the trace does not begin at the first allocation"

/* Stores the page in `*summary`; or NULL there and the reason in `*reason`. Both are the arena's
 * or static. A page is right only for a trace that begins at the first allocation.
 * VW_ERR_HOST_MEMORY. At most once. */
VW_MUST_CHECK vw_status vw__stats_summary_job_finish(vw__stats_summary_job *job, vw__arena *arena,
                                                     const char **summary, const char **reason);

/* After begin, whether finished or not. */
void vw__stats_summary_job_deinit(vw__stats_summary_job *job);

#endif /* VW_ANALYSIS_STATS_SUMMARY_H */
