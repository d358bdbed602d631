/* spill.c - would the run have gone through, had some of its memory gone to the host's?
 *
 * Two runs on the card that it failed on, with headroom's own engine. The first has host memory
 * without end, and shows how much of it is taken; the second has a budget of just that, rounded up
 * to what people type, and is what the remedy says. It is offered only if nothing fails there: a
 * run that is slower and fails all the same helps nobody.
 *
 * What a step costs is what replay says of it, once the steps have settled. Where the recording
 * ends before that it is told as two numbers: what was spilled is touched in every step, over the
 * bus (spill_cost.c), and that it is moved is paid once, or a few times. Spread over the first few
 * steps it would look like a price for each of thousands. */
#include "doctor/spill.h"

#include "analysis/player.h" /* HR__PLAYER_ENDLESS_BYTES */
#include "analysis/replay.h"
#include "analysis/spill_cost.h"
#include "base/error.h"
#include "doctor/settings.h"

#define NS_PER_MS 1e6
#define NS_PER_S 1000000000

/* ---- trying ---------------------------------------------------------------------------------- */

static uint64_t step_duration_ns(const hr__case *given)
{
    const hr__steps *steps = &given->steps;
    if (steps->end_count < 2)
        return HR_UNKNOWN;
    uint64_t all_ns =
        hr__replay_duration_ns(given->trace, steps->ends[0], steps->ends[steps->end_count - 1]);
    return all_ns != HR_UNKNOWN ? all_ns / (steps->end_count - 1) : HR_UNKNOWN;
}

static void set_price(const hr_replay_result *result, hr__spill_trial *trial)
{
    trial->is_with_moves = result->is_step_cost_settled;
    trial->step_cost_ns = trial->is_with_moves ? result->step_cost_ns
                                               : hr__spill_touch_ns(result->peak_spilled_bytes);
    trial->move_ns = trial->is_with_moves ? 0 : result->spill_wait_ns;
}

static hr_status run(const hr__replay_work *work, hr__card card, uint64_t spill_bytes,
                     hr_replay_result *out)
{
    const hr__replay_setting setting = {
        .engine = "headroom", .conf = "", .spill_bytes = spill_bytes};
    *out = (hr_replay_result){.policy = "headroom"};
    return hr__replay_run(work, setting, card, false, NULL, out);
}

static hr_status try_on_card(const hr__case *given, hr__replay_work *work, hr__spill_trial *out)
{
    hr__failed_card failed;
    hr_replay_result result;
    HR__TRY(hr__doctor_find_card(given, work, &failed));
    if (!failed.is_known)
        return HR_OK;
    HR__TRY(hr__replay_work_add_spill_by(work, &given->timeline, &given->steps, &given->roles));
    HR__TRY(run(work, failed.card, HR__PLAYER_ENDLESS_BYTES, &result));
    if (!result.is_complete || result.spills == 0)
        return HR_OK;
    uint64_t budget_bytes = hr__spill_budget(result.peak_host_bytes);
    HR__TRY(run(work, failed.card, budget_bytes, &result));
    *out = (hr__spill_trial){
        .is_enough = result.is_complete && result.spills != 0,
        .spill_bytes = budget_bytes,
        .spilled_bytes = result.peak_spilled_bytes,
        .step_ns = step_duration_ns(given),
    };
    set_price(&result, out);
    return HR_OK;
}

hr_status hr__doctor_try_spill(const hr__case *given, hr__spill_trial *out)
{
    hr__replay_work work;
    hr__replay_notes notes;
    hr__arena arena;
    *out = (hr__spill_trial){.step_ns = HR_UNKNOWN};
    if (!given->failure.has_happened || !hr__doctor_can_replay(given))
        return HR_OK;
    hr__arena_init(&arena, HR__ARENA_NO_LIMIT);
    hr__replay_notes_init(&notes, &arena); /* nobody is told them */
    hr_status status = hr__replay_work_init(
        &work, given->model, given->options != NULL ? given->options->torch_version : NULL,
        given->trace->device, &notes);
    if (status == HR_OK) {
        status = try_on_card(given, &work, out);
        hr__replay_work_deinit(&work);
    }
    hr__arena_deinit(&arena);
    return hr__doctor_is_impossible(status) ? HR_OK : status;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *hr__spill_action(hr__diagnosis_draft *draft, uint64_t spilled_bytes)
{
    return hr__diagnosis_text(draft, "let %s go to host memory, with headroom's allocator (spill)",
                              hr__diagnosis_size(draft, spilled_bytes));
}

const char *hr__spill_cost(hr__diagnosis_draft *draft, const hr__spill_trial *trial)
{
    double step_ms = (double)trial->step_cost_ns / NS_PER_MS;
    const char *share = "", *move = "";
    if (trial->step_ns != HR_UNKNOWN && trial->step_ns != 0)
        share = hr__diagnosis_text(draft, " (%.0f %%)",
                                   100.0 * (double)trial->step_cost_ns / (double)trial->step_ns);
    if (trial->move_ns >= NS_PER_S)
        move = hr__diagnosis_text(draft, "; %.1f s of moving over the run",
                                  (double)trial->move_ns / NS_PER_S);
    else if (trial->move_ns != 0)
        move = hr__diagnosis_text(draft, "; %.0f ms of moving over the run",
                                  (double)trial->move_ns / NS_PER_MS);
    return hr__diagnosis_text(
        draft, "about %.*f ms more a step%s%s, if " HR__SPILL_COST_IF "%s; " HR__HEADROOM_COST,
        step_ms < 10 ? 1 : 0, step_ms, share, trial->is_with_moves ? ", moving included" : "",
        move);
}

const char *hr__spill_how(hr__diagnosis_draft *draft, uint64_t budget_bytes)
{
    char command[HR__SPILL_COMMAND_BYTES];
    return hr__diagnosis_text(draft, "%s", hr__spill_command(budget_bytes, command));
}
