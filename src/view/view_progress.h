/* view_progress.h - a caller's progress function, and the part of the way that one task is. */
#ifndef HR_VIEW_VIEW_PROGRESS_H
#define HR_VIEW_VIEW_PROGRESS_H

#include <stdbool.h>

#include "headroom/analysis.h" /* hr_progress */
#include "headroom/status.h"
#include "base/error.h"

typedef struct hr__view_progress {
    hr_progress progress; /* or NULL */
    void *context;
    double base, share; /* the task at hand: [base, base + share] of the whole */
    bool is_stopped;    /* the caller said so */
} hr__view_progress;

/* An hr_progress, for the functions of analysis.h; its context is the hr__view_progress. */
static inline bool hr__view_progress_pass(void *context, double done)
{
    hr__view_progress *progress = context;
    double part = done < 0 ? 0 : done > 1 ? 1 : done;
    if (progress->progress != NULL && !progress->is_stopped)
        progress->is_stopped =
            !progress->progress(progress->context, progress->base + progress->share * part);
    return !progress->is_stopped;
}

/* Begins the next task, behind the one before. HR_ERR_WRONG_STATE: the caller wants no more. */
static inline hr_status hr__view_progress_next(hr__view_progress *progress, double share)
{
    progress->base += progress->share;
    progress->share = share;
    return hr__view_progress_pass(progress, 0)
               ? HR_OK
               : hr__fail(HR_ERR_WRONG_STATE, "stopped by the caller");
}

#endif /* HR_VIEW_VIEW_PROGRESS_H */
