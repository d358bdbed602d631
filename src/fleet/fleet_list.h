/* fleet_list.h - the jobs of a folder or of a list, their files, and the units these make.
 *
 * Jobs are in the order of their names, files in that of their paths: two machines that see the
 * same source have the same list, and can share its units by their numbers. */
#ifndef VW_FLEET_FLEET_LIST_H
#define VW_FLEET_FLEET_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "base/arena.h"
#include "ranks/rank_units.h"

typedef struct vw__fleet_list_job {
    const char *name;
    const char *kind; /* what the list calls its kind; "" where it has no such column */
    vw__ranks_job_list list;
} vw__fleet_list_job;

typedef struct vw__fleet_list_unit {
    size_t job;
    size_t place; /* in its job's files; VW__RANKS_UNIT_TEXTS */
} vw__fleet_list_unit;

typedef struct vw__fleet_list {
    vw__arena arena;
    vw__fleet_list_job *jobs; /* owned */
    size_t job_count, job_capacity;
    vw__fleet_list_unit *units; /* owned */
    size_t unit_count, unit_capacity;
    size_t beside_count; /* files in the folder that are in no job's */
    size_t closed_count; /* folders of jobs that cannot be read */
} vw__fleet_list;

/* Takes no memory yet. */
void vw__fleet_list_init(vw__fleet_list *list);
void vw__fleet_list_deinit(vw__fleet_list *list);

/* `source` as in vw_fleet_examine(). `has_texts`: the texts of each job are a unit; else only those
 * of jobs that have no other, so that no job is left out. VW_ERR_FILE, VW_ERR_CORRUPT_FILE: a line
 * that cannot be read; VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__fleet_list_read(vw__fleet_list *list, const char *source,
                                            bool has_texts);

/* "" for the texts. */
const char *vw__fleet_list_path(const vw__fleet_list *list, const vw__fleet_list_unit *unit);

#endif /* VW_FLEET_FLEET_LIST_H */
