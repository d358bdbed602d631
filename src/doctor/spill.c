/* spill.c - would the run have gone through, had some of its memory gone to the host's?
 *
 * Two runs on the card that it failed on, with vramwise's own engine. The first has host memory
 * without limit, and shows how much of it is taken; the second has a budget of just that, rounded
 * up to what people type, and is what the remedy says. It is offered only if nothing fails there: a
 * run that is slower and fails all the same helps nobody.
 *
 * What a step costs is what replay says of it, once the steps have settled. Where the recording
 * ends before that, there are two numbers: what was spilled is touched in every step, over the
 * bus (spill_cost.c), and that it is moved is paid once, or a few times. Spread over the first few
 * steps it would look like a price for each of thousands. */
#include "doctor/spill.h"

#include <inttypes.h>

#include "analysis/player.h" /* VW__PLAYER_ENDLESS_BYTES */
#include "analysis/replay.h"
#include "analysis/spill_cost.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "doctor/settings.h" /* VW__DOCTOR_ENGINE_COST */
#include "settings/trials.h"

/* ---- trying ---------------------------------------------------------------------------------- */

static uint64_t step_duration_ns(const vw__doctor_facts *facts)
{
    const vw__steps *steps = &facts->steps;
    if (steps->end_count < 2)
        return VW_UNKNOWN;
    uint64_t all_ns =
        vw__replay_duration_ns(facts->trace, steps->ends[0], steps->ends[steps->end_count - 1]);
    return all_ns != VW_UNKNOWN ? all_ns / (steps->end_count - 1) : VW_UNKNOWN;
}

static void set_price(const vw_replay_result *result, vw__doctor_spill_trial *trial)
{
    trial->is_with_moves = result->is_step_cost_settled;
    trial->step_cost_ns = trial->is_with_moves
                              ? result->step_cost_ns
                              : vw__spill_cost_touch_ns(result->peak_spilled_bytes);
    trial->move_ns = trial->is_with_moves ? 0 : result->spill_wait_ns;
}

static vw_status run(const vw__replay_work *work, vw__replay_card card, uint64_t spill_bytes,
                     vw_replay_result *out)
{
    const vw__replay_setting setting = {
        .engine = "vramwise", .conf = "", .spill_bytes = spill_bytes};
    *out = (vw_replay_result){.policy = "vramwise"};
    return vw__replay_run(work, setting, card, false, NULL, out);
}

static vw_status try_on_card(const vw__doctor_facts *facts, vw__replay_work *work,
                             vw__doctor_spill_trial *out)
{
    vw__replay_card card = facts->trials->card;
    vw_replay_result result;
    VW__TRY(
        vw__replay_work_add_spill_by(work, &facts->timeline, &facts->steps, &facts->roles, false));
    VW__TRY(run(work, card, VW__PLAYER_ENDLESS_BYTES, &result));
    if (!result.is_complete || result.spills == 0)
        return VW_OK;
    uint64_t budget_bytes = vw__spill_cost_budget(result.peak_host_bytes);
    VW__TRY(run(work, card, budget_bytes, &result));
    *out = (vw__doctor_spill_trial){
        .is_enough = result.is_complete && result.spills != 0,
        .spill_bytes = budget_bytes,
        .spilled_bytes = result.peak_spilled_bytes,
        .step_ns = step_duration_ns(facts),
        .is_of_a_pool = vw__recording_is_of_a_pool(facts->model),
    };
    set_price(&result, out);
    return VW_OK;
}

vw_status vw__doctor_try_spill(const vw__doctor_input *input, vw__doctor_facts *facts,
                               vw__doctor_spill_trial *out)
{
    *out = (vw__doctor_spill_trial){.step_ns = VW_UNKNOWN};
    if (!facts->failure.has_happened)
        return VW_OK;
    VW__TRY(vw__doctor_open_trials(input, facts));
    if (facts->trials == NULL || !facts->trials->is_card_known)
        return VW_OK;
    vw__replay_work spilling = facts->trials->work; /* shares everything but the next three */
    spilling.steps = NULL;
    spilling.step_count = 0;
    spilling.advice = NULL;
    vw_status status = try_on_card(facts, &spilling, out);
    vw__host_free(spilling.steps);
    vw__host_free(spilling.advice);
    return vw__trials_are_impossible(status) ? VW_OK : status;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *vw__doctor_spill_action(vw__diagnosis_draft *draft, uint64_t spilled_bytes)
{
    return vw__diagnosis_text(draft, "let %s go to host memory, with vramwise's allocator (spill)",
                              VW__DOCTOR_SIZE(spilled_bytes));
}

const char *vw__doctor_spill_cost(vw__diagnosis_draft *draft, const vw__doctor_spill_trial *trial)
{
    const char *share = "", *move = "";
    if (trial->step_ns != VW_UNKNOWN && trial->step_ns != 0)
        share = vw__diagnosis_text(
            draft, " (%s)",
            vw__diagnosis_share(draft, (double)trial->step_cost_ns / (double)trial->step_ns));
    if (trial->move_ns != 0)
        move = vw__diagnosis_text(draft, "; %s of moving over the run",
                                  vw__diagnosis_duration(draft, trial->move_ns));
    return vw__diagnosis_text(draft, "about %s more a step%s%s, if " VW__SPILL_COST_IF "%s; %s",
                              vw__diagnosis_duration(draft, trial->step_cost_ns), share,
                              trial->is_with_moves ? ", moving included" : "", move,
                              trial->is_of_a_pool ? VW__DOCTOR_ENGINE_POOL_COST
                                                  : VW__DOCTOR_ENGINE_COST);
}

const char *vw__doctor_spill_how(vw__diagnosis_draft *draft, uint64_t budget_bytes)
{
    char command[VW__SPILL_COST_COMMAND_BYTES];
    return vw__diagnosis_text(draft, "%s", vw__spill_cost_command(budget_bytes, command));
}

const char *vw__doctor_spill_how_of(vw__diagnosis_draft *draft, const vw__doctor_spill_trial *trial)
{
    if (!trial->is_of_a_pool)
        return vw__doctor_spill_how(draft, trial->spill_bytes);
    return vw__diagnosis_text(draft,
                              "options.engine = \"vramwise\";  /* vw_pool_options */\n"
                              "options.spill_bytes = UINT64_C(%" PRIu64 ");",
                              trial->spill_bytes);
}
