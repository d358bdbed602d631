/* fleet_work.h - what a report and a tuning of many jobs have in common: the list of units, the
 * records that are there, the making of those that are wanting; and the parts of all shares.
 *
 * A *task* says what records are: who makes them, and what they depend on besides the file. */
#ifndef VW_FLEET_FLEET_WORK_H
#define VW_FLEET_FLEET_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/fleet.h"
#include "fleet/fleet_list.h"
#include "fleet/fleet_part.h"
#include "fleet/fleet_run.h"

typedef struct vw__fleet_task {
    const vw__fleet_part_form *form;
    bool has_texts;    /* logs matter, too: vw__fleet_list_read() */
    uint64_t settings; /* hash of what records depend on besides the files: begin with
                          vw__fleet_work_settings() */
    vw__fleet_examiner examiner;
} vw__fleet_task;

typedef struct vw__fleet_work {
    vw_fleet_options options;
    vw__fleet_list list;
    vw__fleet_parts parts;
    vw__fleet_run_unit *wanted; /* owned: units without a record */
    size_t wanted_count;
    size_t share_count; /* units of this share */
} vw__fleet_work;

/* The options that count, by the caller's, which may be NULL. VW_ERR_INVALID_ARGUMENT: an unknown
 * version of PyTorch, a wrong share. */
VW_MUST_CHECK vw_status vw__fleet_work_options(const vw_fleet_options *asked,
                                               vw_fleet_options *options);

/* Hashes the version of vramwise and the options that every record depends on. */
uint64_t vw__fleet_work_settings(const vw_fleet_options *options);

/* Takes no memory yet. */
void vw__fleet_work_init(vw__fleet_work *work, const vw_fleet_options *options,
                         const vw__fleet_task *task);
void vw__fleet_work_deinit(vw__fleet_work *work);

/* Makes the records of all units of the share that have none. Errors as of vw_fleet_examine(). */
VW_MUST_CHECK vw_status vw__fleet_work_do(vw__fleet_work *work, const vw__fleet_task *task,
                                          const char *source);

/* Reads the parts of all shares: each must have been made of the same list, by the same rules.
 * Errors as of vw_fleet_merge(). */
VW_MUST_CHECK vw_status vw__fleet_work_merge(vw__fleet_parts *parts, const char *const *states,
                                             size_t state_count);

#endif /* VW_FLEET_FLEET_WORK_H */
