/* plan_reserved.c - a planned run through the allocators. */
#include "plan/plan_reserved.h"

#include <string.h>

#include "analysis/player.h"
#include "base/error.h"
#include "plan/plan_events.h"
#include "settings/setting_table.h"

enum { STEPS = 2 };

/* Plays everything; peaks of live bytes are those of the last step. */
static vw_status play(vw__player *player, const vw__plan_events *events, vw_pool_stats *stats)
{
    size_t last_step = events->steps[events->step_count - 1].begin, stopped;
    VW__TRY(vw__player_play(player, 0, last_step, &stopped));
    VW__TRY(vw_pool_get_stats(player->pool, stats));
    int64_t reserved_before = stats->reserved_bytes.all.peak;
    VW__TRY(vw_pool_reset_peaks(player->pool));
    VW__TRY(vw__player_play(player, last_step, events->script.op_count, &stopped));
    VW__TRY(vw_pool_get_stats(player->pool, stats));
    if (reserved_before > stats->reserved_bytes.all.peak)
        stats->reserved_bytes.all.peak = reserved_before;
    return VW_OK;
}

static vw_status replay_one(const vw__plan_events *events, const vw__player_options *options,
                            uint64_t *reserved_bytes, uint64_t *allocated_bytes)
{
    vw__player player;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    VW__TRY(vw__player_init(&player, &events->script, options));
    vw_status status = play(&player, events, &stats);
    vw__player_deinit(&player);
    bool is_too_much = status == VW_ERR_OUT_OF_MEMORY || status == VW_ERR_TOO_LARGE;
    if (status != VW_OK && !is_too_much)
        return status;
    *reserved_bytes = is_too_much ? VW_UNKNOWN : (uint64_t)stats.reserved_bytes.all.peak;
    *allocated_bytes = is_too_much ? VW_UNKNOWN : (uint64_t)stats.allocated_bytes.all.peak;
    return VW_OK;
}

vw_status vw__plan_replay_events(const vw__plan_events *events, vw__plan_replayed *out)
{
    vw__plan_replayed made;
    for (size_t i = VW__PLAN_POLICIES; i-- > 0;) { /* native last: its peak stays */
        vw__replay_setting setting = vw__setting_of(vw__setting_row_for(VW__FOR_PLAN, i));
        const vw__player_options endless = {.engine = setting.engine,
                                            .conf = setting.conf,
                                            .capacity_bytes = UINT64_MAX,
                                            .fraction = 2.0};
        VW__TRY(replay_one(events, &endless, &made.reserved_bytes[i], &made.peak_allocated_bytes));
    }
    *out = made;
    return VW_OK;
}

static vw__plan_replayed nothing_known(void)
{
    vw__plan_replayed unknown = {.peak_allocated_bytes = VW_UNKNOWN};
    for (size_t i = 0; i < VW__PLAN_POLICIES; i++)
        unknown.reserved_bytes[i] = VW_UNKNOWN;
    return unknown;
}

vw_status vw__plan_replay(const vw_plan_model *model, const vw_plan_settings *settings,
                          vw__plan_replayed *out)
{
    vw__plan_events events;
    vw_plan_settings few = *settings;
    if (few.accumulation > VW__PLAN_PLAYED_ACCUMULATION)
        few.accumulation = VW__PLAN_PLAYED_ACCUMULATION;
    unsigned steps = settings->generate > 0 ? 1 : STEPS;
    vw_status status = vw__plan_events_make(model, &few, steps, &events);
    if (status == VW_ERR_UNSUPPORTED) {
        *out = nothing_known();
        return VW_OK;
    }
    VW__TRY(status);
    status = vw__plan_replay_events(&events, out);
    vw__plan_events_deinit(&events);
    return status;
}

vw_status vw__plan_reserved(const vw_plan_model *model, const vw_plan_settings *settings,
                            uint64_t reserved_bytes[VW__PLAN_POLICIES])
{
    vw__plan_replayed replayed;
    VW__TRY(vw__plan_replay(model, settings, &replayed));
    memcpy(reserved_bytes, replayed.reserved_bytes, sizeof replayed.reserved_bytes);
    return VW_OK;
}
