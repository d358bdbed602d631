/* fleet_join.h - the records of all units become one report.
 *
 * Job by job: the records of one are loaded, joined (rank_units.h) and dropped, so that what is
 * held is the report and one job. What comes out depends on the units and their records alone, not
 * on the order in which they were made. */
#ifndef VW_FLEET_FLEET_JOIN_H
#define VW_FLEET_FLEET_JOIN_H

#include "vramwise/fleet.h"
#include "base/arena.h"
#include "fleet/fleet_part.h"

/* What vw_fleet_report_free() gets back. */
typedef struct vw__fleet_result {
    vw_fleet_report shown; /* first: the caller holds a pointer to it */
    vw__arena arena;
    vw_ranks_report **ranks; /* owned, by job */
    size_t ranks_count;
} vw__fleet_result;

/* Fills the report from parts->list, which must be there. VW_ERR_WRONG_STATE: units are missing;
 * VW_ERR_CORRUPT_FILE, VW_ERR_FILE, VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__fleet_join(vw__fleet_parts *parts, vw__fleet_result *result);

#endif /* VW_FLEET_FLEET_JOIN_H */
