/* fleet_run.h - examines units by several threads, within a budget of memory.
 *
 * Each thread takes the next unit, waits until what reading it may take is free in the budget,
 * examines it and writes its record down. A unit that needs more than was set aside for it is tried
 * again with four times as much, and at last with the whole budget, alone. */
#ifndef VW_FLEET_FLEET_RUN_H
#define VW_FLEET_FLEET_RUN_H

#include "vramwise/fleet.h"
#include "fleet/fleet_list.h"
#include "fleet/fleet_part.h"

/* What one unit may take. */
typedef struct vw__fleet_means {
    vw__ranks_unit_memory memory;
    unsigned thread_count; /* more than one where there are fewer units than threads */
} vw__fleet_means;

/* Makes the record of a unit; called by several threads at once. As vw__ranks_unit_examine(). */
typedef struct vw__fleet_examiner {
    vw_status (*examine)(const void *context, const vw__ranks_job_list *list, size_t unit,
                         const vw__fleet_means *means, vw__byte_buffer *record, bool *may_change);
    const void *context;
} vw__fleet_examiner;

/* A unit that has no record yet. */
typedef struct vw__fleet_run_unit {
    vw__fleet_list_unit unit;
    uint64_t fingerprint;
    uint64_t size_bytes; /* of its file, or of the largest */
} vw__fleet_run_unit;

typedef struct vw__fleet_run_plan {
    const vw__fleet_list *list;
    vw__fleet_parts *parts; /* where the records go */
    const vw__fleet_run_unit *units;
    size_t unit_count;
    size_t known_count; /* units that have a record already: for the progress */
    unsigned thread_count;
    uint64_t budget_bytes;
    vw__fleet_examiner examiner;
    vw_progress progress; /* called by the caller's thread; or NULL */
    void *progress_context;
} vw__fleet_run_plan;

/* A record that may change is written without a fingerprint, so that the next run makes it again.
 *
 * VW_ERR_WRONG_STATE: stopped by the progress function. VW_ERR_FILE: records cannot be written.
 * VW_ERR_HOST_MEMORY, VW_ERR_INVALID_ARGUMENT. Records that were made stay. */
VW_MUST_CHECK vw_status vw__fleet_run(const vw__fleet_run_plan *plan);

#endif /* VW_FLEET_FLEET_RUN_H */
