/* technique_offers.c - which remedies may help a run, and when.
 *
 * What stacks show to be in use already (checkpointing, 16-bit work, an 8-bit optimizer) is not
 * advised again; what they cannot show is advised with "if it is not on yet". Words, costs and
 * bytes are the remedy's (remedy/remedy.h). */
#include "base/error.h"
#include "plan/techniques.h"
#include "remedy/remedy.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static bool uses(const vw__bargain *deal, unsigned technique)
{
    return (deal->uses.techniques & technique) != 0;
}

static const char *text_of(vw__bargain *deal, const char *text, const vw__remedy_words *words)
{
    const char *made = vw__remedy_text(deal->arena, text, words);
    deal->has_failed = deal->has_failed || made == NULL;
    return made != NULL ? made : "";
}

/* `parts`: of a batch, or of a loss; 0: neither. */
static vw__offer *add_offer(vw__bargain *deal, vw__remedy_id id, unsigned parts)
{
    VW_ASSERT(deal->offer_count < VW__MOST_OFFERS);
    const vw__remedy *remedy = vw__remedy_of(id);
    const vw__remedy_words words = {.parts = parts};
    const vw__remedy_run run = {
        .weight_bytes = deal->weight_bytes,
        .gradient_bytes = deal->gradient_bytes,
        .activation_bytes = deal->portion_bytes[VW__PORTION_ACTIVATIONS],
        .largest_activation_bytes = deal->largest_bytes[VW__PORTION_ACTIVATIONS],
        .largest_step_work_bytes = deal->largest_bytes[VW__PORTION_STEP_WORK],
        .parts = parts,
        .has_step = deal->uses.has_step,
    };
    const char *code = uses(deal, VW__USES_TRANSFORMERS) && remedy->transformers_code != NULL
                           ? remedy->transformers_code
                           : remedy->code;
    vw__offer *made = &deal->offers[deal->offer_count++];
    *made = (vw__offer){
        .action = text_of(deal, remedy->action, &words),
        .cost = remedy->cost,
        .how = text_of(deal, code, &words),
        .worth_percent = remedy->worth_percent,
        .is_last_resort = remedy->is_last_resort,
    };
    vw__remedy_what_if(id, &run, &made->hopeful, &made->cautious);
    return made;
}

static void add_batches(vw__bargain *deal)
{
    static const unsigned parts[] = {2, 4, 8, 16};
    vw__remedy_id id = deal->uses.may_train ? VW__REMEDY_SPLIT_BATCH : VW__REMEDY_SMALLER_BATCH;
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        add_offer(deal, id, parts[i])->batch_parts = parts[i];
}

/* A run that may yet train needs its graph. */
static void add_inference_mode(vw__bargain *deal)
{
    enum { WORTH_IF_IT_MAY_TRAIN = 50 };
    if (deal->uses.has_backward || deal->is_graph_kept)
        return; /* no inference, or told there */
    vw__offer *made = add_offer(deal, VW__REMEDY_INFERENCE_MODE, 0);
    if (deal->uses.may_train)
        made->worth_percent = WORTH_IF_IT_MAY_TRAIN;
}

static void add_for_training(vw__bargain *deal)
{
    if (!uses(deal, VW__USES_CHECKPOINTING))
        add_offer(deal, VW__REMEDY_CHECKPOINTING, 0);
    if (!uses(deal, VW__USES_16_BITS))
        add_offer(deal, VW__REMEDY_AUTOCAST, 0);
    if (!uses(deal, VW__USES_8_BIT_STATE))
        add_offer(deal, VW__REMEDY_8BIT_OPTIMIZER, 0);
    if (uses(deal, VW__USES_FOREACH))
        add_offer(deal, VW__REMEDY_FUSED_OPTIMIZER, 0);
    add_offer(deal, VW__REMEDY_OFFLOAD_OPTIMIZER, 0);
    if (!uses(deal, VW__USES_SHARDS))
        add_offer(deal, VW__REMEDY_FSDP, 0);
}

void vw__bargain_list(vw__bargain *deal)
{
    bool has_loss =
        deal->portion_bytes[VW__PORTION_LOSS] != 0 || deal->run.request_portion == VW__PORTION_LOSS;
    add_batches(deal);
    add_inference_mode(deal);
    if (has_loss && !uses(deal, VW__USES_FUSED_LOSS))
        add_offer(deal, VW__REMEDY_CHUNKED_LOSS, VW__REMEDY_LOSS_CHUNKS);
    if (deal->uses.may_train)
        add_for_training(deal);
    if (!deal->uses.has_backward)
        add_offer(deal, VW__REMEDY_FEWER_BITS, 0);
}
