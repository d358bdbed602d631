/* view_run.h - everything a page shows of one recording. */
#ifndef VW_VIEW_VIEW_RUN_H
#define VW_VIEW_VIEW_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/analysis.h"
#include "vramwise/ranks.h"
#include "vramwise/status.h"
#include "base/error.h"
#include "export/json_write.h"
#include "view/view_columns.h"

/* ---- progress: the caller's function, and the part of the way that one task is ------------------
 */

typedef struct vw__view_progress {
    vw_progress progress; /* or NULL */
    void *context;
    double base, share; /* the task at hand: [base, base + share] of the whole */
    bool is_stopped;    /* the caller said so */
} vw__view_progress;

/* A vw_progress, for the functions of analysis.h; its context is the vw__view_progress. */
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

/* ---- a recording -------------------------------------------------------------------------------
 */

typedef struct vw__view_run_order {
    const vw_recording *recording;
    size_t number;             /* 0, 1 */
    const char *file;          /* or NULL */
    const char *torch_version; /* or NULL */
    bool without_what_if;
    double share; /* of the progress */
    vw__view_progress *progress;
    vw__view_columns *columns;
    vw__json *json;
} vw__view_run_order;

/* Adds the columns, and writes the object. */
VW_MUST_CHECK vw_status vw__view_run_write(const vw__view_run_order *order);

/* ---- of several --------------------------------------------------------------------------------
 */

/* "diff": {...} or null, "diff_reason": null or why. Fails only for lack of host
 * memory. `before` and `after` may be NULL. */
VW_MUST_CHECK vw_status vw__view_report_diff(const vw_recording *before, const vw_recording *after,
                                             const char *file, const char *other_file,
                                             vw__json *json);

/* "ranks": vramwise report --json, with all lines that differ. */
VW_MUST_CHECK vw_status vw__view_report_ranks(const vw_ranks_report *report, const char *folder,
                                              vw__json *json);

#endif /* VW_VIEW_VIEW_RUN_H */
