/* view_run.h - everything a page shows of one recording. */
#ifndef VW_VIEW_VIEW_RUN_H
#define VW_VIEW_VIEW_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "vramwise/analysis.h"
#include "vramwise/status.h"
#include "export/json_write.h"
#include "view/view_columns.h"
#include "view/view_progress.h"

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

#endif /* VW_VIEW_VIEW_RUN_H */
