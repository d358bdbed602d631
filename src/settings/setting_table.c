/* setting_table.c - see setting_table.h.
 *
 * max_split_size_mb goes in powers of two from near the smallest that PyTorch takes to the largest
 * block that anybody asks for: beyond the largest request it does nothing. roundup_power2_divisions
 * has the values that PyTorch accepts. Garbage collection gets three thresholds.
 *
 * The doctor tries few: one value of each kind, the ones that pages recommend, since their harm is
 * worth a warning. */
#include "settings/setting_table.h"

#define EVERYONE                                                                                   \
    (VW__SETTING_FOR_TUNE | VW__SETTING_FOR_DOCTOR | VW__SETTING_FOR_PLAN | VW__SETTING_FOR_VIEW)

#define MAX_SPLIT(mb, its_users, recommended)                                                      \
    {                                                                                              \
        .policy = "conf", .conf = "max_split_size_mb:" #mb, .kind = VW__SETTING_MAX_SPLIT,         \
        .users = (its_users), .size_mb = (mb), .is_recommended = (recommended)                     \
    }
#define ROUNDUP(divisions, its_users, recommended)                                                 \
    {                                                                                              \
        .policy = "conf", .conf = "roundup_power2_divisions:" #divisions,                          \
        .kind = VW__SETTING_ROUNDUP, .users = (its_users), .is_recommended = (recommended)         \
    }
#define COLLECTION(threshold, its_users, recommended)                                              \
    {                                                                                              \
        .policy = "conf", .conf = "garbage_collection_threshold:" #threshold,                      \
        .kind = VW__SETTING_COLLECTION, .users = (its_users), .is_recommended = (recommended)      \
    }

static const vw__setting_row rows[] = {
    {.policy = "native", .kind = VW__SETTING_DEFAULTS, .users = EVERYONE},
    {.policy = "expandable", .kind = VW__SETTING_EXPANDABLE, .users = EVERYONE},
    {.policy = "vramwise", .kind = VW__SETTING_VRAMWISE, .users = EVERYONE},
    MAX_SPLIT(32, VW__SETTING_FOR_TUNE, false),
    MAX_SPLIT(64, VW__SETTING_FOR_TUNE, false),
    MAX_SPLIT(128, VW__SETTING_FOR_TUNE | VW__SETTING_FOR_DOCTOR, true),
    MAX_SPLIT(256, VW__SETTING_FOR_TUNE, false),
    MAX_SPLIT(512, VW__SETTING_FOR_TUNE, true),
    MAX_SPLIT(1024, VW__SETTING_FOR_TUNE, false),
    MAX_SPLIT(2048, VW__SETTING_FOR_TUNE, false),
    MAX_SPLIT(4096, VW__SETTING_FOR_TUNE, false),
    MAX_SPLIT(8192, VW__SETTING_FOR_TUNE, false),
    ROUNDUP(2, VW__SETTING_FOR_TUNE, false),
    ROUNDUP(4, VW__SETTING_FOR_TUNE | VW__SETTING_FOR_DOCTOR_REFINED, true),
    ROUNDUP(8, VW__SETTING_FOR_TUNE | VW__SETTING_FOR_TUNE_PAIRS | VW__SETTING_FOR_DOCTOR, true),
    ROUNDUP(16, VW__SETTING_FOR_TUNE | VW__SETTING_FOR_TUNE_PAIRS | VW__SETTING_FOR_DOCTOR_REFINED,
            true),
    ROUNDUP(32, VW__SETTING_FOR_TUNE | VW__SETTING_FOR_TUNE_PAIRS, false),
    COLLECTION(0.6, VW__SETTING_FOR_TUNE, false),
    COLLECTION(0.8, VW__SETTING_FOR_TUNE | VW__SETTING_FOR_DOCTOR, true),
    COLLECTION(0.9, VW__SETTING_FOR_TUNE, false),
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const vw__setting_row *vw__setting_rows(size_t *count)
{
    *count = ROW_COUNT;
    return rows;
}

const vw__setting_row *vw__setting_row_for(unsigned users, size_t index)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if ((rows[i].users & users) != 0 && index-- == 0)
            return &rows[i];
    return NULL;
}

const vw__setting_row *vw__setting_row_of(vw__setting_kind kind)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (rows[i].kind == kind)
            return &rows[i];
    return NULL;
}

const char *vw__setting_conf(const vw__setting_row *row)
{
    return row->conf != NULL ? row->conf : vw__policy_find(row->policy)->conf;
}

vw__replay_setting vw__setting_of(const vw__setting_row *row)
{
    return vw__policy_setting(row->policy, vw__setting_conf(row));
}
