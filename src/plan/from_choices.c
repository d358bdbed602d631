/* from_choices.c - which techniques make a recorded run fit, at its new size.
 *
 * The scaled step is bargained over as the doctor does over a recorded one (techniques.h): blocks
 * are put into portions as they were recorded, since a loss is known by its sizes, and weighed as
 * they would be. */
#include <string.h>

#include "analysis/what_if.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "plan/from_recording.h"
#include "plan/techniques.h"

/* By lifetime of the recording. */
static vw_status find_portions(const vw__scaled_work *work, uint8_t *portions)
{
    const vw__recorded_run *run = &work->run;
    bool is_request_of_it;
    const vw__loss_question question = {
        .model = run->model,
        .timeline = &run->timeline,
        .roles = &run->roles,
        .instant = work->now.instant,
        .live_bytes = work->now.bytes,
        .request_context = VW__NO_CONTEXT,
        .request_portion = VW__PORTION_REST,
    };
    for (size_t i = 0; i < run->timeline.lifetime_count; i++)
        portions[i] = (uint8_t)vw__portion_of_role((vw__role)run->roles.roles[i],
                                                   run->roles.passes[run->roles.pass_of[i]].kind);
    return vw__portions_part_loss(&question, portions, &is_request_of_it);
}

static void describe_peak(const vw__scaled_step *scaled, const uint8_t *portions, uint32_t instant,
                          vw__bargain *deal)
{
    for (size_t i = 0; i < scaled->timeline.lifetime_count; i++) {
        const vw__lifetime *block = &scaled->timeline.lifetimes[i];
        if (!vw__lifetime_is_live(block, instant))
            continue;
        uint64_t *largest = &deal->largest_bytes[portions[i]];
        *largest = vw__max_u64(*largest, block->size_bytes);
        deal->portion_bytes[portions[i]] += block->size_bytes;
    }
}

/* Only a batch of so many parts can be split into them. */
static bool can_be_done(const vw__offer *offer, const vw_plan_scaling *scaling)
{
    return offer->batch_parts == 0 || scaling->batch % offer->batch_parts == 0;
}

static void keep_offers(vw__scaled_draft *draft, const vw__bargain *deal)
{
    vw_plan_scaled_choice *choices =
        vw__arena_alloc_array(&draft->arena, deal->offer_count, sizeof *choices, sizeof(uint64_t));
    size_t count = 0;
    draft->has_failed = draft->has_failed || choices == NULL;
    for (size_t i = 0; choices != NULL && i < deal->offer_count; i++) {
        const vw__offer *offer = &deal->offers[i];
        if (can_be_done(offer, &draft->shown.scaling))
            choices[count++] = (vw_plan_scaled_choice){
                .action = offer->action,
                .cost = offer->cost,
                .code = offer->how,
                .least_peak_bytes = deal->base_bytes - offer->at_most_bytes,
                .most_peak_bytes = deal->base_bytes - offer->at_least_bytes,
                .fits = offer->is_enough,
                .may_fit = offer->at_most_bytes >= deal->missing_bytes,
            };
    }
    draft->shown.choices = choices;
    draft->shown.choice_count = count;
}

static vw_status bargain(vw__scaled_draft *draft, const vw__scaled_work *work,
                         const vw__scaled_step *scaled, const uint8_t *portions)
{
    const vw_plan_scaled *shown = &draft->shown;
    vw__bargain deal = {
        .arena = &draft->arena,
        .run = {.timeline = &scaled->timeline,
                .portion_of = portions,
                .last_instant = scaled->last_instant,
                .request_portion = VW__PORTION_REST},
        .uses = vw__program_uses_find(work->run.model, &work->run.roles, UINT32_MAX),
    };
    describe_peak(scaled, portions, work->then.instant, &deal);
    vw_status status = vw__bargain_begin(&deal);
    if (status == VW_OK) {
        deal.missing_bytes =
            vw__scaled_device_bytes(shown, deal.base_bytes) - shown->scaling.card_bytes;
        status = vw__bargain_strike(&deal);
    }
    if (status == VW_OK)
        keep_offers(draft, &deal);
    vw__bargain_end(&deal);
    return status;
}

/* Portions of the scaled step's blocks, in place of the recording's. A place is never before the
 * one that it goes to. */
static void take_portions(const vw__scaled_step *scaled, uint8_t *portions)
{
    for (size_t i = 0; i < scaled->timeline.lifetime_count; i++)
        portions[i] = portions[scaled->places[i]];
}

vw_status vw__scaled_add_choices(vw__scaled_draft *draft, const vw__scaled_work *work)
{
    const vw_plan_scaled *shown = &draft->shown;
    vw__scaled_step scaled;
    if (!shown->is_card_known || shown->fits)
        return VW_OK;
    size_t room = work->run.timeline.lifetime_count + 1;
    VW__TRY(vw__scaled_step_init(&scaled, &work->run, work->question.step, &work->laws,
                                 vw__scaled_scale(&shown->scaling, shown->scaling.batch)));
    uint8_t *portions = vw__host_alloc_zeroed(room, sizeof *portions);
    vw_status status =
        portions != NULL ? VW_OK : vw__fail_host_memory(room, "the portions of a step");
    if (status == VW_OK)
        status = find_portions(work, portions);
    if (status == VW_OK) {
        take_portions(&scaled, portions);
        status = bargain(draft, work, &scaled, portions);
    }
    vw__host_free(portions);
    vw__scaled_step_deinit(&scaled);
    return status;
}
