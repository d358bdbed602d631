/* view_device.h - everything a page shows of one device. */
#ifndef HR_VIEW_VIEW_DEVICE_H
#define HR_VIEW_VIEW_DEVICE_H

#include "headroom/analysis.h"
#include "headroom/doctor.h" /* hr_memory_numbers */
#include "headroom/status.h"
#include "analysis/attribution.h"
#include "export/json_write.h"
#include "view/view_columns.h"
#include "view/view_progress.h"
#include "view/view_stacks.h"

typedef struct hr__view_device_order {
    const hr_recording *recording;
    const hr_device_stats *stats;
    const hr__attribution *attribution;
    const hr_memory_numbers *numbers; /* the doctor's, of whatever device */
    const char *torch_version;        /* or NULL */
    const char *what_if_reason;       /* why no replay is wanted; NULL: it is */
    hr__view_stacks *stacks;          /* the run's */
    hr__view_progress *progress;
    hr__view_columns *columns; /* with the device's prefix */
    hr__json *json;
} hr__view_device_order;

/* Adds the columns, and writes the object. */
HR_MUST_CHECK hr_status hr__view_device_write(const hr__view_device_order *order);

#endif /* HR_VIEW_VIEW_DEVICE_H */
