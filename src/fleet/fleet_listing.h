/* fleet_listing.h - the units of a list with their records, job by job: what a report of all is
 * made of. */
#ifndef VW_FLEET_FLEET_LISTING_H
#define VW_FLEET_FLEET_LISTING_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/result.h" /* vw__notes */
#include "base/byte_buffer.h"
#include "fleet/fleet_part.h"
#include "ranks/rank_units.h"

typedef struct vw__fleet_listed_unit {
    const char *path; /* the list's; "" for the texts of a job */
    uint32_t place;   /* of its entry */
} vw__fleet_listed_unit;

/* A job in the list: the units from `first` on. */
typedef struct vw__fleet_listed_job {
    const char *name, *kind; /* the list's */
    size_t first, count;
} vw__fleet_listed_job;

typedef struct vw__fleet_listing {
    vw__fleet_listed_unit *units; /* owned */
    size_t unit_count;
    vw__fleet_listed_job *jobs; /* owned */
    size_t job_count;
} vw__fleet_listing;

/* Fills an empty listing from parts->list, which must be there and outlive it.
 *
 * VW_ERR_WRONG_STATE   units have no record: the message names the first
 * VW_ERR_CORRUPT_FILE, VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__fleet_listing_make(vw__fleet_listing *listing, vw__fleet_parts *parts);
void vw__fleet_listing_deinit(vw__fleet_listing *listing);

/* Loads the records of a job into `bytes`, which is empty. `records` has a place for each unit. */
VW_MUST_CHECK vw_status vw__fleet_listing_load(const vw__fleet_listing *listing,
                                               const vw__fleet_parts *parts,
                                               const vw__fleet_listed_job *job,
                                               vw__byte_buffer *bytes, vw__ranks_record *records);

/* Notes what the list leaves out. */
void vw__fleet_listing_note(const vw__fleet_part_list *list, vw__notes *notes);

#endif /* VW_FLEET_FLEET_LISTING_H */
