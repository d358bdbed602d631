/* setting_table.h - which settings are worth trying, and for whom.
 *
 * The one list: `tune`, the doctor, the planner and the page's What-if take their candidates from
 * it. A *setting* is a policy (analysis/policies.h) and, for policy "conf", an option string. Which
 * options a version of PyTorch has, the engine that parses them says (vw__replay_same_settings);
 * this table only says which values are worth a replay. */
#ifndef VW_SETTINGS_SETTING_TABLE_H
#define VW_SETTINGS_SETTING_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/policies.h"

typedef enum vw__setting_kind {
    VW__SETTING_RECORDED, /* in no row: the recording has it */
    VW__SETTING_DEFAULTS,
    VW__SETTING_EXPANDABLE,
    VW__SETTING_MAX_SPLIT,
    VW__SETTING_ROUNDUP,
    VW__SETTING_COLLECTION,  /* of garbage; acts only under a limit */
    VW__SETTING_COMBINED,    /* in no row: made of the best of several kinds */
    VW__SETTING_TRIM_STEPS,  /* in no row: empty_cache() after every step */
    VW__SETTING_TRIM_PHASES, /* in no row: and where training turns to evaluation, or back */
    VW__SETTING_VRAMWISE,    /* our own engine in place of PyTorch's allocator */
    VW__SETTING_KINDS
} vw__setting_kind;

/* Who tries a row. The doctor tries the first row of a kind, and the REFINED ones if it helps. */
typedef enum vw__setting_users {
    VW__SETTING_FOR_TUNE = 1 << 0,
    VW__SETTING_FOR_DOCTOR = 1 << 1,
    VW__SETTING_FOR_DOCTOR_REFINED = 1 << 2,
    VW__SETTING_FOR_PLAN = 1 << 3,       /* vw_plan.reserved_bytes, in the order of the table */
    VW__SETTING_FOR_VIEW = 1 << 4,       /* the page's What-if */
    VW__SETTING_FOR_TUNE_PAIRS = 1 << 5, /* together with expandable segments */
} vw__setting_users;

typedef struct vw__setting_row {
    const char *policy;
    const char *conf;    /* of policy "conf"; else the policy's own: vw__setting_conf() */
    uint8_t kind;        /* vw__setting_kind */
    uint8_t users;       /* vw__setting_users */
    uint16_t size_mb;    /* has no effect unless a request is as large; 0: always has one */
    bool is_recommended; /* by pages on the web, whatever the program */
} vw__setting_row;

/* All rows. */
const vw__setting_row *vw__setting_rows(size_t *count);

/* The `index`-th row for one of `users`; NULL behind the last. */
const vw__setting_row *vw__setting_row_for(unsigned users, size_t index);

/* The first row of that kind. */
const vw__setting_row *vw__setting_row_of(vw__setting_kind kind);

/* Never NULL. */
const char *vw__setting_conf(const vw__setting_row *row);

/* The setting of a run under that row. */
vw__replay_setting vw__setting_of(const vw__setting_row *row);

#endif /* VW_SETTINGS_SETTING_TABLE_H */
