/* view_device.h - everything a page shows of one device. */
#ifndef VW_VIEW_VIEW_DEVICE_H
#define VW_VIEW_VIEW_DEVICE_H

#include "vramwise/analysis.h"
#include "vramwise/doctor.h"
#include "vramwise/status.h"
#include "analysis/attribution.h"
#include "export/json_write.h"
#include "view/view_columns.h"
#include "view/view_run.h"
#include "view/view_stacks.h"

typedef struct vw__view_device_order {
    const vw_recording *recording;
    const vw_device_stats *stats;
    const vw__attribution *attribution;
    const vw_diagnosis *diagnosis; /* of the recording, about any device; or NULL */
    const char *torch_version;     /* or NULL */
    const char *what_if_reason;    /* why no replay is wanted; NULL: it is */
    vw__view_stacks *stacks;       /* the run's */
    vw__view_progress *progress;
    vw__view_columns *columns; /* with the device's prefix */
    vw__json *json;
} vw__view_device_order;

/* Adds the columns, and writes the object. */
VW_MUST_CHECK vw_status vw__view_device_write(const vw__view_device_order *order);

#endif /* VW_VIEW_VIEW_DEVICE_H */
