/* spill.c - would the run have gone through, had some of its memory gone to the host's?
 *
 * Two runs on the card that it failed on, with vramwise's own engine. The first has host memory
 * without end, and shows how much of it is taken; the second has a budget of just that, rounded up
 * to what people type, and is what the remedy says. It is offered only if nothing fails there: a
 * run that is slower and fails all the same helps nobody.
 *
 * What a step costs is what replay says of it, once the steps have settled. Where the recording
 * ends before that it is told as two numbers: what was spilled is touched in every step, over the
 * bus (spill_cost.c), and that it is moved is paid once, or a few times. Spread over the first few
 * steps it would look like a price for each of thousands. */
#include "doctor/spill.h"

#include "analysis/player.h" /* VW__PLAYER_ENDLESS_BYTES */
#include "analysis/replay.h"
#include "analysis/spill_cost.h"
#include "base/error.h"
#include "doctor/settings.h"

/* ---- trying ---------------------------------------------------------------------------------- */

static uint64_t step_duration_ns(const vw__case *given)
{
    const vw__steps *steps = &given->steps;
    if (steps->end_count < 2)
        return VW_UNKNOWN;
    uint64_t all_ns =
        vw__replay_duration_ns(given->trace, steps->ends[0], steps->ends[steps->end_count - 1]);
    return all_ns != VW_UNKNOWN ? all_ns / (steps->end_count - 1) : VW_UNKNOWN;
}

static void set_price(const vw_replay_result *result, vw__spill_trial *trial)
{
    trial->is_with_moves = result->is_step_cost_settled;
    trial->step_cost_ns = trial->is_with_moves ? result->step_cost_ns
                                               : vw__spill_touch_ns(result->peak_spilled_bytes);
    trial->move_ns = trial->is_with_moves ? 0 : result->spill_wait_ns;
}

static vw_status run(const vw__replay_work *work, vw__card card, uint64_t spill_bytes,
                     vw_replay_result *out)
{
    const vw__replay_setting setting = {
        .engine = "vramwise", .conf = "", .spill_bytes = spill_bytes};
    *out = (vw_replay_result){.policy = "vramwise"};
    return vw__replay_run(work, setting, card, false, NULL, out);
}

static vw_status try_on_card(const vw__case *given, vw__replay_work *work, vw__spill_trial *out)
{
    vw__failed_card failed;
    vw_replay_result result;
    VW__TRY(vw__doctor_find_card(given, work, &failed));
    if (!failed.is_known)
        return VW_OK;
    VW__TRY(vw__replay_work_add_spill_by(work, &given->timeline, &given->steps, &given->roles));
    VW__TRY(run(work, failed.card, VW__PLAYER_ENDLESS_BYTES, &result));
    if (!result.is_complete || result.spills == 0)
        return VW_OK;
    uint64_t budget_bytes = vw__spill_budget(result.peak_host_bytes);
    VW__TRY(run(work, failed.card, budget_bytes, &result));
    *out = (vw__spill_trial){
        .is_enough = result.is_complete && result.spills != 0,
        .spill_bytes = budget_bytes,
        .spilled_bytes = result.peak_spilled_bytes,
        .step_ns = step_duration_ns(given),
    };
    set_price(&result, out);
    return VW_OK;
}

vw_status vw__doctor_try_spill(const vw__case *given, vw__spill_trial *out)
{
    vw__replay_work work;
    vw__replay_notes notes;
    vw__arena arena;
    *out = (vw__spill_trial){.step_ns = VW_UNKNOWN};
    if (!given->failure.has_happened || !vw__doctor_can_replay(given))
        return VW_OK;
    vw__arena_init(&arena, VW__ARENA_NO_LIMIT);
    vw__replay_notes_init(&notes, &arena); /* nobody is told them */
    vw_status status = vw__replay_work_init(
        &work, given->model, given->options != NULL ? given->options->torch_version : NULL,
        given->trace->device, &notes);
    if (status == VW_OK) {
        status = try_on_card(given, &work, out);
        vw__replay_work_deinit(&work);
    }
    vw__arena_deinit(&arena);
    return vw__doctor_is_impossible(status) ? VW_OK : status;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *vw__spill_action(vw__diagnosis_draft *draft, uint64_t spilled_bytes)
{
    return vw__diagnosis_text(draft, "let %s go to host memory, with vramwise's allocator (spill)",
                              vw__diagnosis_size(draft, spilled_bytes));
}

const char *vw__spill_cost(vw__diagnosis_draft *draft, const vw__spill_trial *trial)
{
    const char *share = "", *move = "";
    if (trial->step_ns != VW_UNKNOWN && trial->step_ns != 0)
        share = vw__diagnosis_text(
            draft, " (%s)",
            vw__diagnosis_share(draft, (double)trial->step_cost_ns / (double)trial->step_ns));
    if (trial->move_ns != 0)
        move = vw__diagnosis_text(draft, "; %s of moving over the run",
                                  vw__diagnosis_duration(draft, trial->move_ns));
    return vw__diagnosis_text(
        draft, "about %s more a step%s%s, if " VW__SPILL_COST_IF "%s; " VW__VRAMWISE_COST,
        vw__diagnosis_duration(draft, trial->step_cost_ns), share,
        trial->is_with_moves ? ", moving included" : "", move);
}

const char *vw__spill_how(vw__diagnosis_draft *draft, uint64_t budget_bytes)
{
    char command[VW__SPILL_COMMAND_BYTES];
    return vw__diagnosis_text(draft, "%s", vw__spill_command(budget_bytes, command));
}
