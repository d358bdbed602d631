/* peak_remedies.c - what the usual remedies would do to this peak, in words.
 *
 * Which there are, what each changes and costs, and in which order to try them, the planner says
 * (plan/techniques.h): the doctor tells it what the run looked like and what was missing.
 *
 * One it cannot compute: memory that goes to the host's. That is replayed here (spill.c), and takes
 * its place among the others by what it costs a step, in the measure that they have: a technique
 * that takes a third longer is worth 75 of 100, which is 100 / 1.33. Ten are taken off for another
 * allocator, and what doubles a step is a last resort. */
#include "doctor/peak_parts.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/human_units.h"
#include "doctor/settings.h" /* vw__doctor_enough */
#include "doctor/spill.h"
#include "plan/techniques.h"

enum {
    MOST_TOLD_IN_PASSING = 3,    /* where the peak is no problem */
    WORTH_OF_A_FREE_SPILL = 90,  /* of 100 */
    WORTH_OF_AN_UNKNOWN_ONE = 60 /* where it is not known how long a step takes */
};

/* A bargain over the peak of a case. */
typedef struct remedies {
    vw__case *given;
    const vw__peak *peak;
    vw__bargain deal;
    vw__offer spill; /* the bargain's extra, where it is enough */
} remedies;

/* Of a run that only would have failed, on another card, it is known what it still needed. What was
 * alive there, with what there was of the request, is what fits. */
static uint64_t missing_bytes(const remedies *own)
{
    const vw__peak *peak = own->peak;
    if (peak->has_broken_off || peak->missing_bytes == 0 || peak->missing_bytes == VW_UNKNOWN)
        return peak->missing_bytes;
    uint64_t fitting_bytes = peak->live_bytes + (peak->request_bytes - peak->missing_bytes);
    return own->deal.base_bytes > fitting_bytes
               ? vw__max_u64(own->deal.base_bytes - fitting_bytes, peak->missing_bytes)
               : peak->missing_bytes;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* Is more alive than there is room for, and nothing else the cause of it? */
static bool is_a_problem(const remedies *own)
{
    const vw__case *given = own->given;
    uint64_t missing = own->deal.missing_bytes;
    bool is_other = missing != VW_UNKNOWN &&
                    (given->leaked_bytes >= missing || given->kept_graph_bytes >= missing);
    return given->failure.has_happened && missing != 0 && !is_other;
}

/* Of the first remedy: is it enough by itself? */
static const char *action_with_promise(const remedies *own, const vw__offer *made)
{
    vw__diagnosis_draft *draft = own->given->draft;
    const char *what = own->peak->has_broken_off ? "the failed request" : "the whole run";
    char short_of[VW__SIZE_TEXT_BYTES];
    if (made->is_enough)
        return vw__diagnosis_text(draft, "%s: enough by itself for %s", made->action, what);
    if (made->at_most_bytes >= own->deal.missing_bytes)
        return vw__diagnosis_text(draft, "%s: perhaps enough by itself for %s", made->action, what);
    return vw__diagnosis_text(
        draft, "%s: by itself still %s short", made->action,
        vw__format_size(own->deal.missing_bytes - made->at_most_bytes, short_of));
}

/* Where roles are not known there is nothing to compute with, and still something to try. */
static void tell_the_rule(const remedies *own, vw__finding_draft *finding)
{
    const vw__peak *peak = own->peak;
    if (peak->portion_bytes[VW__PORTION_REST] > peak->live_bytes / 2)
        vw__finding_remedy(finding, "split each batch in 2 and accumulate gradients",
                           VW__SAVES_UNKNOWN, VW_BASIS_RULE,
                           "none to 10 % of time; batch norm sees the smaller batch",
                           "loss = loss_of(model, batch) / 2  # step() every second batch");
}

static void tell(const remedies *own, vw__finding_draft *finding)
{
    bool is_problem = is_a_problem(own);
    for (size_t i = 0; i < own->deal.offer_count; i++) {
        const vw__offer *made = &own->deal.offers[i];
        bool is_first = i == 0 && is_problem && vw__bargain_is_missing_known(&own->deal);
        if (!is_problem && (i == MOST_TOLD_IN_PASSING || made->is_last_resort))
            break;
        vw__finding_remedy(finding, is_first ? action_with_promise(own, made) : made->action,
                           (vw__savings){made->at_least_bytes, made->at_most_bytes},
                           made->is_replayed ? VW_BASIS_REPLAYED : VW_BASIS_COMPUTED, made->cost,
                           made->how);
        if (made->is_replayed)
            vw__finding_enough(finding, made->is_enough ? VW_ENOUGH_YES : VW_ENOUGH_UNKNOWN);
    }
    if (is_problem && own->deal.offer_count == 0)
        tell_the_rule(own, finding);
}

/* What the peak holds, for the planner. */
static void describe(remedies *own)
{
    const vw__peak *peak = own->peak;
    bool has_broken_off = peak->has_broken_off;
    own->deal.run = (vw__what_if_run){
        .timeline = &own->given->timeline,
        .portion_of = peak->portions,
        .last_instant = has_broken_off ? peak->instant : UINT32_MAX,
        .request_bytes = has_broken_off ? peak->request_bytes : 0,
        .request_portion = peak->request_portion,
    };
    own->deal.uses =
        vw__program_uses_find(own->given->model, &own->given->roles, own->deal.run.last_instant);
    own->deal.is_graph_kept = own->given->kept_graph_bytes != 0;
    memcpy(own->deal.portion_bytes, peak->portion_bytes, sizeof own->deal.portion_bytes);
    memcpy(own->deal.largest_bytes, peak->largest_bytes, sizeof own->deal.largest_bytes);
}

static unsigned worth_percent_of(const vw__spill_trial *trial)
{
    if (trial->step_ns == VW_UNKNOWN || trial->step_ns == 0)
        return WORTH_OF_AN_UNKNOWN_ONE;
    double factor = 1.0 + (double)trial->step_cost_ns / (double)trial->step_ns;
    return (unsigned)(WORTH_OF_A_FREE_SPILL / factor);
}

static vw_status add_spill(remedies *own)
{
    vw__diagnosis_draft *draft = own->given->draft;
    vw__spill_trial trial;
    if (!is_a_problem(own))
        return VW_OK;
    VW__TRY(vw__doctor_try_spill(own->given, &trial));
    if (!trial.is_enough)
        return VW_OK;
    unsigned worth_percent = worth_percent_of(&trial);
    own->spill = (vw__offer){
        .action = vw__spill_action(draft, trial.spilled_bytes),
        .cost = vw__spill_cost(draft, &trial),
        .how = vw__spill_how_of(draft, &trial),
        .worth_percent = worth_percent,
        .is_last_resort = worth_percent < WORTH_OF_A_FREE_SPILL / 2,
        .at_least_bytes = trial.spilled_bytes,
        .at_most_bytes = trial.spilled_bytes,
        .is_enough = vw__doctor_enough(own->given, true) == VW_ENOUGH_YES,
        .is_replayed = true,
    };
    own->deal.extra = &own->spill;
    return VW_OK;
}

vw_status vw__peak_remedies(vw__case *given, const vw__peak *peak, vw__finding_draft *finding)
{
    if (given->is_explained)
        return VW_OK; /* what they would save is what the leak or the graph holds */
    remedies own = {.given = given, .peak = peak};
    describe(&own);
    vw_status status = vw__bargain_begin(&own.deal);
    if (status == VW_OK) {
        own.deal.missing_bytes = missing_bytes(&own);
        status = add_spill(&own);
    }
    if (status == VW_OK)
        status = vw__bargain_strike(&own.deal);
    if (status == VW_OK)
        tell(&own, finding);
    vw__bargain_end(&own.deal);
    return status;
}
