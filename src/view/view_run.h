/* view_run.h - everything a page shows of one recording. */
#ifndef HR_VIEW_VIEW_RUN_H
#define HR_VIEW_VIEW_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include "headroom/analysis.h"
#include "headroom/status.h"
#include "export/json_write.h"
#include "view/view_columns.h"
#include "view/view_progress.h"

typedef struct hr__view_run_order {
    const hr_recording *recording;
    size_t number;             /* 0, 1 */
    const char *file;          /* or NULL */
    const char *torch_version; /* or NULL */
    bool without_what_if;
    double share; /* of the progress */
    hr__view_progress *progress;
    hr__view_columns *columns;
    hr__json *json;
} hr__view_run_order;

/* Adds the columns, and writes the object. */
HR_MUST_CHECK hr_status hr__view_run_write(const hr__view_run_order *order);

#endif /* HR_VIEW_VIEW_RUN_H */
