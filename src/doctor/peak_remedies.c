/* peak_remedies.c - what the usual remedies would do to this peak, in words.
 *
 * What each changes and costs is the table's (remedy/remedy.h), and in which order to try them the
 * planner says (plan/techniques.h): the doctor tells it what the run looked like and what was
 * missing.
 *
 * One it cannot compute: memory that goes to the host's. That is replayed here (spill.c), and takes
 * its place among the others by what it costs a step, in the measure that they have: checkpointing,
 * which takes 1.3 times as long, is worth 77 of 100, which is 100 / 1.3. Ten are taken off for
 * another allocator, and what doubles a step is a last resort. */
#include "doctor/peak_parts.h"

#include <string.h>

#include "base/checked_math.h"
#include "base/error.h"
#include "doctor/settings.h" /* vw__doctor_enough */
#include "doctor/spill.h"
#include "plan/techniques.h"
#include "remedy/remedy.h"

enum {
    MOST_TOLD_IN_PASSING = 3,    /* where the peak is no problem */
    WORTH_OF_A_FREE_SPILL = 90,  /* of 100 */
    WORTH_OF_AN_UNKNOWN_ONE = 60 /* where it is not known how long a step takes */
};

/* A bargain over the peak of a case. */
typedef struct remedies {
    const vw__doctor_input *input;
    vw__doctor_facts *facts;
    vw__doctor_result *result;
    const vw__doctor_peak_facts *peak;
    vw__plan_bargain deal;
    vw__plan_offer spill; /* the bargain's extra, where it is enough */
} remedies;

/* A run that only would have failed, on another card, shows what it still needed. What was alive
 * there, plus the part of the request that was free, is what fits. */
static uint64_t missing_bytes(const remedies *own)
{
    const vw__doctor_peak_facts *peak = own->peak;
    if (peak->has_broken_off || peak->missing_bytes == 0 || peak->missing_bytes == VW_UNKNOWN)
        return peak->missing_bytes;
    uint64_t fitting_bytes = peak->live_bytes + (peak->request_bytes - peak->missing_bytes);
    return own->deal.base_bytes > fitting_bytes
               ? vw__max_u64(own->deal.base_bytes - fitting_bytes, peak->missing_bytes)
               : peak->missing_bytes;
}

/* ---- telling --------------------------------------------------------------------------------- */

/* True if more is alive than there is room for, and nothing else is the cause. */
static bool is_a_problem(const remedies *own)
{
    vw__doctor_facts *facts = own->facts;
    vw__doctor_result *result = own->result;
    uint64_t missing = own->deal.missing_bytes;
    bool is_other = missing != VW_UNKNOWN &&
                    (result->leaked_bytes >= missing || result->kept_graph_bytes >= missing);
    return facts->failure.has_happened && missing != 0 && !is_other;
}

/* Would it still be too little if all idle memory could be used? Under a limit nobody knows: what
 * is missing there is counted as all of the request. */
static bool is_surely_too_little(const remedies *own, const vw__plan_offer *made)
{
    const vw_memory_numbers *numbers = &own->facts->failure.numbers;
    uint64_t idle_bytes, most_bytes;
    return numbers->allowed_bytes == VW_UNKNOWN && numbers->free_bytes != VW_UNKNOWN &&
           numbers->reserved_bytes != VW_UNKNOWN && numbers->allocated_bytes != VW_UNKNOWN &&
           vw__sub_u64(numbers->reserved_bytes, numbers->allocated_bytes, &idle_bytes) &&
           vw__add_u64(idle_bytes, made->at_most_bytes, &most_bytes) &&
           most_bytes < own->deal.missing_bytes;
}

/* Whether a remedy serves the request by itself. Unknown where something else is the cause. */
static vw_enough enough_of(const remedies *own, const vw__plan_offer *made)
{
    if (made->is_replayed)
        return made->is_enough ? VW_ENOUGH_YES : VW_ENOUGH_UNKNOWN;
    vw_enough enough =
        is_a_problem(own) ? vw__plan_bargain_enough(&own->deal, made) : VW_ENOUGH_UNKNOWN;
    return enough == VW_ENOUGH_NO && !is_surely_too_little(own, made) ? VW_ENOUGH_UNKNOWN : enough;
}

/* The first remedy says whether it is enough by itself. */
static const char *action_with_promise(const remedies *own, const vw__plan_offer *made)
{
    vw__diagnosis_draft *draft = own->result->draft;
    const char *what = own->peak->has_broken_off ? "the failed request" : "the whole run";
    vw_enough enough = enough_of(own, made);
    if (enough == VW_ENOUGH_YES)
        return vw__diagnosis_text(draft, "%s: enough by itself for %s", made->action, what);
    if (enough == VW_ENOUGH_UNKNOWN)
        return vw__diagnosis_text(draft, "%s: may serve %s by itself", made->action, what);
    return vw__diagnosis_text(draft, "%s: by itself still %s short", made->action,
                              VW__DOCTOR_SIZE(own->deal.missing_bytes - made->at_most_bytes));
}

/* Where roles are not known there is nothing to compute with, and still something to try. */
static void tell_the_rule(const remedies *own, vw__diagnosis_finding *finding)
{
    const vw__doctor_peak_facts *peak = own->peak;
    if (peak->portion_bytes[VW__PORTION_REST] > peak->live_bytes / 2)
        vw__diagnosis_known_remedy(finding, VW__REMEDY_SPLIT_BATCH, NULL,
                                   VW__DIAGNOSIS_SAVES_UNKNOWN, VW_BASIS_RULE);
}

static void tell(const remedies *own, vw__diagnosis_finding *finding)
{
    bool is_problem = is_a_problem(own);
    for (size_t i = 0; i < own->deal.offer_count; i++) {
        const vw__plan_offer *made = &own->deal.offers[i];
        bool is_first = i == 0 && is_problem && vw__plan_bargain_is_missing_known(&own->deal);
        if (!is_problem && (i == MOST_TOLD_IN_PASSING || made->is_last_resort))
            break;
        vw__diagnosis_remedy(finding, is_first ? action_with_promise(own, made) : made->action,
                             (vw__diagnosis_savings){made->at_least_bytes, made->at_most_bytes},
                             made->is_replayed ? VW_BASIS_REPLAYED : VW_BASIS_COMPUTED, made->cost,
                             made->how);
        vw__diagnosis_enough(finding, enough_of(own, made));
    }
    if (is_problem && own->deal.offer_count == 0)
        tell_the_rule(own, finding);
}

/* What the peak holds, for the planner. */
static void describe(remedies *own)
{
    const vw__doctor_peak_facts *peak = own->peak;
    bool has_broken_off = peak->has_broken_off;
    own->deal.arena = &own->result->draft->arena;
    own->deal.run = (vw__what_if_run){
        .timeline = &own->facts->timeline,
        .portion_of = peak->portions,
        .last_instant = has_broken_off ? peak->instant : UINT32_MAX,
        .request_bytes = has_broken_off ? peak->request_bytes : 0,
        .request_portion = peak->request_portion,
    };
    own->deal.uses =
        vw__plan_uses_find(own->facts->model, &own->facts->roles, own->deal.run.last_instant);
    own->deal.is_graph_kept = own->result->kept_graph_bytes != 0;
    memcpy(own->deal.portion_bytes, peak->portion_bytes, sizeof own->deal.portion_bytes);
    memcpy(own->deal.largest_bytes, peak->largest_bytes, sizeof own->deal.largest_bytes);
}

static unsigned worth_percent_of(const vw__doctor_spill_trial *trial)
{
    if (trial->step_ns == VW_UNKNOWN || trial->step_ns == 0)
        return WORTH_OF_AN_UNKNOWN_ONE;
    double factor = 1.0 + (double)trial->step_cost_ns / (double)trial->step_ns;
    return (unsigned)(WORTH_OF_A_FREE_SPILL / factor);
}

static vw_status add_spill(remedies *own)
{
    vw__diagnosis_draft *draft = own->result->draft;
    vw__doctor_spill_trial trial;
    if (!is_a_problem(own))
        return VW_OK;
    VW__TRY(vw__doctor_try_spill(own->input, own->facts, &trial));
    if (!trial.is_enough)
        return VW_OK;
    unsigned worth_percent = worth_percent_of(&trial);
    own->spill = (vw__plan_offer){
        .action = vw__doctor_spill_action(draft, &trial),
        .cost = vw__doctor_spill_cost(draft, &trial),
        .how = vw__doctor_spill_how_of(draft, &trial),
        .worth_percent = worth_percent,
        .is_last_resort = worth_percent < WORTH_OF_A_FREE_SPILL / 2,
        .at_least_bytes = trial.spilled_bytes,
        .at_most_bytes = trial.spilled_bytes,
        .is_enough = vw__doctor_enough(own->facts, true) == VW_ENOUGH_YES,
        .is_replayed = true,
    };
    own->deal.extra = &own->spill;
    return VW_OK;
}

vw_status vw__doctor_peak_remedies(const vw__doctor_input *input, vw__doctor_facts *facts,
                                   vw__doctor_result *result, const vw__doctor_peak_facts *peak,
                                   vw__diagnosis_finding *finding)
{
    if (result->is_explained)
        return VW_OK; /* what they would save is what the leak or the graph holds */
    remedies own = {.input = input, .facts = facts, .result = result, .peak = peak};
    describe(&own);
    vw_status status = vw__plan_bargain_begin(&own.deal);
    if (status == VW_OK) {
        own.deal.missing_bytes = missing_bytes(&own);
        status = add_spill(&own);
    }
    if (status == VW_OK)
        status = vw__plan_bargain_strike(&own.deal);
    if (status == VW_OK)
        tell(&own, finding);
    vw__plan_bargain_end(&own.deal);
    return status;
}
