/* view_progress.h - a caller's progress function, and the part of the way that one task is. */
#ifndef VW_VIEW_VIEW_PROGRESS_H
#define VW_VIEW_VIEW_PROGRESS_H

#include <stdbool.h>

#include "vramwise/analysis.h" /* vw_progress */
#include "vramwise/status.h"
#include "base/error.h"

typedef struct vw__view_progress {
    vw_progress progress; /* or NULL */
    void *context;
    double base, share; /* the task at hand: [base, base + share] of the whole */
    bool is_stopped;    /* the caller said so */
} vw__view_progress;

/* An vw_progress, for the functions of analysis.h; its context is the vw__view_progress. */
static inline bool vw__view_progress_pass(void *context, double done)
{
    vw__view_progress *progress = context;
    double part = done < 0 ? 0 : done > 1 ? 1 : done;
    if (progress->progress != NULL && !progress->is_stopped)
        progress->is_stopped =
            !progress->progress(progress->context, progress->base + progress->share * part);
    return !progress->is_stopped;
}

/* Begins the next task, behind the one before. VW_ERR_WRONG_STATE: the caller wants no more. */
static inline vw_status vw__view_progress_next(vw__view_progress *progress, double share)
{
    progress->base += progress->share;
    progress->share = share;
    return vw__view_progress_pass(progress, 0)
               ? VW_OK
               : vw__fail(VW_ERR_WRONG_STATE, "stopped by the caller");
}

#endif /* VW_VIEW_VIEW_PROGRESS_H */
