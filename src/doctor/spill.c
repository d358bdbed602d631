/* spill.c - would the run have gone through, had some of its memory gone to the host's?
 *
 * Two runs on the card that it failed on, with vramwise's own engine. The first has host memory
 * without limit, and shows how much of it is taken; the second has a budget of just that, rounded
 * up to what people type, and is what the remedy says. It is offered only if nothing fails there: a
 * run that is slower and fails all the same helps nobody. Two more runs with streams; the cheaper
 * way is offered.
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

static void set_price(const vw_replay_result *result, vw__doctor_spill_trial *trial)
{
    trial->is_with_moves = result->is_step_cost_settled;
    trial->step_cost_ns = trial->is_with_moves
                              ? result->step_cost_ns
                              : vw__spill_cost_touch_ns(result->peak_spilled_bytes);
    trial->move_ns = trial->is_with_moves ? 0 : result->spill_wait_ns;
}

static vw_status run(const vw__replay_work *work, vw__replay_card card, uint64_t spill_bytes,
                     bool has_streams, vw_replay_result *out)
{
    const vw__replay_setting setting = {
        .engine = "vramwise", .conf = "", .spill_bytes = spill_bytes, .has_streams = has_streams};
    *out = (vw_replay_result){.policy = "vramwise"};
    return vw__replay_run(work, setting, card, false, NULL, out);
}

static uint64_t moved_bytes(const vw_replay_result *result)
{
    uint64_t streamed_bytes =
        result->stream_state_bytes + result->stream_saved_bytes + result->stream_stayed_bytes;
    return streamed_bytes != 0 ? streamed_bytes : result->peak_spilled_bytes;
}

/* Host memory without limit, then as much as that took. */
static vw_status try_on_card(const vw__doctor_facts *facts, const vw__replay_work *work,
                             bool has_streams, vw__doctor_spill_trial *out)
{
    vw__replay_card card = facts->trials->card;
    vw_replay_result result;
    VW__TRY(run(work, card, VW__PLAYER_ENDLESS_BYTES, has_streams, &result));
    if (!result.is_complete || moved_bytes(&result) == 0)
        return VW_OK;
    uint64_t budget_bytes = vw__spill_cost_budget(result.peak_host_bytes);
    VW__TRY(run(work, card, budget_bytes, has_streams, &result));
    *out = (vw__doctor_spill_trial){
        .is_enough = result.is_complete && moved_bytes(&result) != 0,
        .has_streams = has_streams,
        .spill_bytes = budget_bytes,
        .spilled_bytes = moved_bytes(&result),
        .step_ns = result.step_ns,
        .is_of_a_pool = vw__recording_is_of_a_pool(facts->model),
    };
    set_price(&result, out);
    return VW_OK;
}

/* Streams are PyTorch's, and their price is known only once steps have settled. */
static vw_status try_streams(const vw__doctor_facts *facts, const vw__replay_work *work,
                             vw__doctor_spill_trial *best)
{
    vw__doctor_spill_trial trial = {.is_enough = false};
    if (best->is_of_a_pool || !vw__replay_stream_is_known(work->stream))
        return VW_OK;
    VW__TRY(try_on_card(facts, work, true, &trial));
    bool is_cheaper = !best->is_enough || trial.step_cost_ns < best->step_cost_ns;
    if (trial.is_enough && trial.is_with_moves && is_cheaper)
        *best = trial;
    return VW_OK;
}

static vw_status try_both(const vw__doctor_facts *facts, vw__replay_work *work,
                          vw__doctor_spill_trial *out)
{
    VW__TRY(
        vw__replay_work_add_spill_by(work, &facts->timeline, &facts->steps, &facts->roles, true));
    VW__TRY(try_on_card(facts, work, false, out));
    return try_streams(facts, work, out);
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
    vw__replay_work spilling = facts->trials->work; /* shares what add_spill_by() does not add */
    vw__replay_work_clear_spill(&spilling);
    vw_status status = try_both(facts, &spilling, out);
    vw__replay_work_drop_spill(&spilling);
    return vw__trials_are_impossible(status) ? VW_OK : status;
}

/* ---- words ----------------------------------------------------------------------------------- */

const char *vw__doctor_spill_action(vw__diagnosis_draft *draft, const vw__doctor_spill_trial *trial)
{
    return vw__diagnosis_text(draft,
                              trial->has_streams
                                  ? "let %s leave for host memory and return in each step, with "
                                    "vramwise's allocator (streams)"
                                  : "let %s go to host memory, with vramwise's allocator (spill)",
                              VW__DOCTOR_SIZE(trial->spilled_bytes));
}

static const char *assumption_of(const vw__doctor_spill_trial *trial)
{
    if (trial->has_streams)
        return ", copied beside the computation";
    return trial->is_with_moves ? ", moving included, if " VW__SPILL_COST_IF
                                : ", if " VW__SPILL_COST_IF;
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
    return vw__diagnosis_text(
        draft, "about %s more a step%s%s%s; %s", vw__diagnosis_duration(draft, trial->step_cost_ns),
        share, assumption_of(trial), move,
        trial->is_of_a_pool ? VW__DOCTOR_ENGINE_POOL_COST : VW__DOCTOR_ENGINE_COST);
}

const char *vw__doctor_spill_how(vw__diagnosis_draft *draft, uint64_t budget_bytes,
                                 bool has_streams)
{
    char command[VW__SPILL_COST_COMMAND_BYTES];
    return vw__diagnosis_text(draft, "%s",
                              vw__spill_cost_command(budget_bytes, has_streams, command));
}

const char *vw__doctor_spill_how_of(vw__diagnosis_draft *draft, const vw__doctor_spill_trial *trial)
{
    if (!trial->is_of_a_pool)
        return vw__doctor_spill_how(draft, trial->spill_bytes, trial->has_streams);
    return vw__diagnosis_text(draft,
                              "options.engine = \"vramwise\";  /* vw_pool_options */\n"
                              "options.spill_bytes = UINT64_C(%" PRIu64 ");",
                              trial->spill_bytes);
}
