/* plan_reserved.c - a planned run through the allocators. */
#include "plan/plan_reserved.h"

#include <string.h>

#include "analysis/player.h"
#include "base/error.h"
#include "plan/plan_events.h"

enum { STEPS = 2 };

static const hr__player_options policies[HR__PLAN_POLICIES] = {
    {.conf = "", .capacity_bytes = UINT64_MAX, .fraction = 2.0},
    {.conf = "expandable_segments:True", .capacity_bytes = UINT64_MAX, .fraction = 2.0},
    {.engine = "headroom", .conf = "", .capacity_bytes = UINT64_MAX, .fraction = 2.0},
};

/* Plays everything; peaks of live bytes are those of the last step. */
static hr_status play(hr__player *player, const hr__plan_events *events, hr_pool_stats *stats)
{
    size_t last_step = events->steps[events->step_count - 1].begin, stopped;
    HR__TRY(hr__player_play(player, 0, last_step, &stopped));
    HR__TRY(hr_pool_get_stats(player->pool, stats));
    int64_t reserved_before = stats->reserved_bytes.all.peak;
    HR__TRY(hr_pool_reset_peaks(player->pool));
    HR__TRY(hr__player_play(player, last_step, events->script.op_count, &stopped));
    HR__TRY(hr_pool_get_stats(player->pool, stats));
    if (reserved_before > stats->reserved_bytes.all.peak)
        stats->reserved_bytes.all.peak = reserved_before;
    return HR_OK;
}

static hr_status replay_one(const hr__plan_events *events, const hr__player_options *options,
                            uint64_t *reserved_bytes, uint64_t *allocated_bytes)
{
    hr__player player;
    hr_pool_stats stats = {.struct_size = sizeof stats};
    HR__TRY(hr__player_init(&player, &events->script, options));
    hr_status status = play(&player, events, &stats);
    hr__player_deinit(&player);
    bool is_too_much = status == HR_ERR_OUT_OF_MEMORY || status == HR_ERR_TOO_LARGE;
    if (status != HR_OK && !is_too_much)
        return status;
    *reserved_bytes = is_too_much ? HR_UNKNOWN : (uint64_t)stats.reserved_bytes.all.peak;
    *allocated_bytes = is_too_much ? HR_UNKNOWN : (uint64_t)stats.allocated_bytes.all.peak;
    return HR_OK;
}

hr_status hr__plan_replay_events(const hr__plan_events *events, hr__plan_replayed *out)
{
    hr__plan_replayed made;
    for (size_t i = HR__PLAN_POLICIES; i-- > 0;) /* native last: its peak stays */
        HR__TRY(
            replay_one(events, &policies[i], &made.reserved_bytes[i], &made.peak_allocated_bytes));
    *out = made;
    return HR_OK;
}

static hr__plan_replayed nothing_known(void)
{
    hr__plan_replayed unknown = {.peak_allocated_bytes = HR_UNKNOWN};
    for (size_t i = 0; i < HR__PLAN_POLICIES; i++)
        unknown.reserved_bytes[i] = HR_UNKNOWN;
    return unknown;
}

hr_status hr__plan_replay(const hr_plan_model *model, const hr_plan_settings *settings,
                          hr__plan_replayed *out)
{
    hr__plan_events events;
    hr_plan_settings few = *settings;
    if (few.accumulation > HR__PLAN_PLAYED_ACCUMULATION)
        few.accumulation = HR__PLAN_PLAYED_ACCUMULATION;
    unsigned steps = settings->generate > 0 ? 1 : STEPS;
    hr_status status = hr__plan_events_make(model, &few, steps, &events);
    if (status == HR_ERR_UNSUPPORTED) {
        *out = nothing_known();
        return HR_OK;
    }
    HR__TRY(status);
    status = hr__plan_replay_events(&events, out);
    hr__plan_events_deinit(&events);
    return status;
}

hr_status hr__plan_reserved(const hr_plan_model *model, const hr_plan_settings *settings,
                            uint64_t reserved_bytes[HR__PLAN_POLICIES])
{
    hr__plan_replayed replayed;
    HR__TRY(hr__plan_replay(model, settings, &replayed));
    memcpy(reserved_bytes, replayed.reserved_bytes, sizeof replayed.reserved_bytes);
    return HR_OK;
}
