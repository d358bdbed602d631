/* techniques.c - which techniques a program uses, which others may help it, and how much.
 *
 * What stacks show to be in use already (checkpointing, 16-bit work, an 8-bit optimizer) is not
 * advised again; what they cannot show is advised with "if it is not on yet". Words, costs and
 * bytes are the remedy's (remedy/remedy.h). */
#include "plan/techniques.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "vramwise/analysis.h"    /* VW_UNKNOWN */
#include "analysis/attribution.h" /* vw__attribution_path_has */
#include "base/checked_math.h"
#include "base/error.h"
#include "remedy/remedy.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- what a program uses already ------------------------------------------------------------- */

enum { FEW_FORWARDS = 4 }; /* without a backward pass, one may still come */

static const struct {
    const char *path;
    const char *function_beginning; /* NULL = any */
    unsigned use;
} use_rules[] = {
    {"torch/utils/checkpoint.py", NULL, VW__PLAN_USES_CHECKPOINTING},
    {"deepspeed/runtime/activation_checkpointing/", NULL, VW__PLAN_USES_CHECKPOINTING},
    {"torch/amp/", NULL, VW__PLAN_USES_16_BITS},
    {"torch/cuda/amp/", NULL, VW__PLAN_USES_16_BITS},
    {"apex/amp/", NULL, VW__PLAN_USES_16_BITS},
    {"flash_attn/", NULL, VW__PLAN_USES_16_BITS}, /* its kernels take nothing else */
    {"bitsandbytes/optim/", NULL, VW__PLAN_USES_8_BIT_STATE},
    {"torchao/optim/", NULL, VW__PLAN_USES_8_BIT_STATE},
    {"torch/optim/", "_multi_tensor_", VW__PLAN_USES_FOREACH},
    {"torch/distributed/fsdp/", NULL, VW__PLAN_USES_SHARDS},
    {"torch/distributed/_composable/fsdp/", NULL, VW__PLAN_USES_SHARDS},
    {"deepspeed/runtime/zero/", NULL, VW__PLAN_USES_SHARDS},
    {"torch/nn/parallel/", NULL, VW__PLAN_USES_SEVERAL_GPUS},
    {"torch/distributed/", NULL, VW__PLAN_USES_SEVERAL_GPUS},
    {"transformers/", NULL, VW__PLAN_USES_TRANSFORMERS},
    {"liger_kernel/", NULL, VW__PLAN_USES_FUSED_LOSS},
};

static unsigned find_techniques(const vw__model *model)
{
    unsigned uses = 0;
    for (size_t i = 0; i < model->frame_count; i++) {
        const char *function = vw__model_string(model, model->frames[i].name);
        const char *file = vw__model_string(model, model->frames[i].filename);
        for (size_t r = 0; r < COUNT_OF(use_rules); r++) {
            const char *beginning = use_rules[r].function_beginning;
            if ((uses & use_rules[r].use) == 0 &&
                (beginning == NULL || strncmp(function, beginning, strlen(beginning)) == 0) &&
                vw__attribution_path_has(file, use_rules[r].path))
                uses |= use_rules[r].use;
        }
    }
    return uses;
}

/* PyTorch writes a trace for each GPU that it sees. */
static bool sees_several_gpus(const vw__model *model)
{
    size_t count = 0;
    for (size_t i = 0; i < model->trace_count; i++)
        count += model->traces[i].device != VW__MODEL_HOST_DEVICE;
    return count > 1;
}

vw__plan_uses vw__plan_uses_find(const vw__model *model, const vw__roles *roles,
                                 uint32_t last_instant)
{
    vw__plan_uses uses = {.techniques = find_techniques(model)};
    size_t forward_count = 0;
    if (sees_several_gpus(model))
        uses.techniques |= VW__PLAN_USES_SEVERAL_GPUS;
    for (size_t i = 0; i < roles->pass_count && roles->passes[i].begin < last_instant; i++) {
        uint8_t kind = roles->passes[i].kind;
        forward_count += kind == VW__ROLES_PASS_FORWARD;
        uses.has_backward = uses.has_backward || kind == VW__ROLES_PASS_BACKWARD;
        uses.has_step = uses.has_step || kind == VW__ROLES_PASS_OPTIMIZER;
    }
    uses.may_train = uses.has_backward || forward_count < FEW_FORWARDS;
    return uses;
}

/* ---- what may help it ------------------------------------------------------------------------ */

static bool uses(const vw__plan_bargain *deal, unsigned technique)
{
    return (deal->uses.techniques & technique) != 0;
}

static const char *text_of(vw__plan_bargain *deal, const char *text, const vw__remedy_words *words)
{
    const char *made = vw__remedy_text(deal->arena, text, words);
    deal->has_failed = deal->has_failed || made == NULL;
    return made != NULL ? made : "";
}

/* `parts` of a batch or a loss; 0: neither is split. */
static vw__plan_offer *add_offer(vw__plan_bargain *deal, vw__remedy_id id, unsigned parts)
{
    VW_ASSERT(deal->offer_count < VW__PLAN_MOST_OFFERS);
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
    const char *code = vw__remedy_code(remedy, uses(deal, VW__PLAN_USES_TRANSFORMERS));
    vw__plan_offer *made = &deal->offers[deal->offer_count++];
    *made = (vw__plan_offer){
        .action = text_of(deal, remedy->action, &words),
        .cost = remedy->cost,
        .how = text_of(deal, code, &words),
        .worth_percent = remedy->worth_percent,
        .is_last_resort = remedy->is_last_resort,
    };
    vw__remedy_what_if(id, &run, &made->hopeful, &made->cautious);
    return made;
}

static void add_batches(vw__plan_bargain *deal)
{
    static const unsigned parts[] = {2, 4, 8, 16};
    vw__remedy_id id = deal->uses.may_train ? VW__REMEDY_SPLIT_BATCH : VW__REMEDY_SMALLER_BATCH;
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        add_offer(deal, id, parts[i])->batch_parts = parts[i];
}

/* A run that may yet train needs its graph. */
static void add_inference_mode(vw__plan_bargain *deal)
{
    enum { WORTH_IF_IT_MAY_TRAIN = 50 };
    if (deal->uses.has_backward || deal->is_graph_kept)
        return; /* it trains, or another finding says so */
    vw__plan_offer *made = add_offer(deal, VW__REMEDY_INFERENCE_MODE, 0);
    if (deal->uses.may_train)
        made->worth_percent = WORTH_IF_IT_MAY_TRAIN;
}

static void add_for_training(vw__plan_bargain *deal)
{
    if (!uses(deal, VW__PLAN_USES_CHECKPOINTING))
        add_offer(deal, VW__REMEDY_CHECKPOINTING, 0);
    if (!uses(deal, VW__PLAN_USES_16_BITS))
        add_offer(deal, VW__REMEDY_AUTOCAST, 0);
    if (!uses(deal, VW__PLAN_USES_8_BIT_STATE))
        add_offer(deal, VW__REMEDY_8BIT_OPTIMIZER, 0);
    if (uses(deal, VW__PLAN_USES_FOREACH))
        add_offer(deal, VW__REMEDY_FUSED_OPTIMIZER, 0);
    add_offer(deal, VW__REMEDY_OFFLOAD_OPTIMIZER, 0);
    if (!uses(deal, VW__PLAN_USES_SHARDS))
        add_offer(deal, VW__REMEDY_FSDP, 0);
}

static void list_offers(vw__plan_bargain *deal)
{
    bool has_loss =
        deal->portion_bytes[VW__PORTION_LOSS] != 0 || deal->run.request_portion == VW__PORTION_LOSS;
    add_batches(deal);
    add_inference_mode(deal);
    if (has_loss && !uses(deal, VW__PLAN_USES_FUSED_LOSS))
        add_offer(deal, VW__REMEDY_CHUNKED_LOSS, VW__REMEDY_LOSS_CHUNKS);
    if (deal->uses.may_train)
        add_for_training(deal);
    if (!deal->uses.has_backward)
        add_offer(deal, VW__REMEDY_FEWER_BITS, 0);
}

/* ---- weighing -------------------------------------------------------------------------------- */

vw_status vw__plan_bargain_begin(vw__plan_bargain *deal)
{
    VW__TRY(vw__what_if_prepare(&deal->run));
    vw__what_if questions[3] = {vw__what_if_nothing()};
    vw__what_if_peak peaks[3];
    questions[1].kept_permille[VW__PORTION_GRADIENTS] = 1000; /* and nothing else */
    questions[2].kept_permille[VW__PORTION_WEIGHTS] = 1000;
    VW__TRY(vw__what_if_ask(&deal->run, questions, COUNT_OF(questions), peaks));
    deal->base_bytes = peaks[0].bytes;
    deal->gradient_bytes = peaks[1].bytes;
    deal->weight_bytes = peaks[2].bytes;
    return VW_OK;
}

void vw__plan_bargain_end(vw__plan_bargain *deal)
{
    vw__what_if_deinit(&deal->run);
}

bool vw__plan_bargain_is_missing_known(const vw__plan_bargain *deal)
{
    return deal->missing_bytes != 0 && deal->missing_bytes != VW_UNKNOWN;
}

vw_enough vw__plan_bargain_enough(const vw__plan_bargain *deal, const vw__plan_offer *made)
{
    if (made->is_replayed)
        return made->is_enough ? VW_ENOUGH_YES : VW_ENOUGH_UNKNOWN;
    return vw__remedy_enough(VW_BASIS_COMPUTED,
                             (vw__remedy_range){made->at_least_bytes, made->at_most_bytes},
                             deal->missing_bytes);
}

static vw_status weigh(vw__plan_bargain *deal)
{
    vw__what_if questions[2 * VW__PLAN_MOST_OFFERS];
    vw__what_if_peak peaks[2 * VW__PLAN_MOST_OFFERS];
    for (size_t i = 0; i < deal->offer_count; i++) {
        questions[2 * i] = deal->offers[i].hopeful;
        questions[2 * i + 1] = deal->offers[i].cautious;
    }
    VW__TRY(vw__what_if_ask(&deal->run, questions, 2 * deal->offer_count, peaks));
    for (size_t i = 0; i < deal->offer_count; i++) {
        vw__plan_offer *made = &deal->offers[i];
        if (!vw__sub_u64(deal->base_bytes, peaks[2 * i].bytes, &made->at_most_bytes))
            made->at_most_bytes = 0;
        if (!vw__sub_u64(deal->base_bytes, peaks[2 * i + 1].bytes, &made->at_least_bytes))
            made->at_least_bytes = 0;
        made->is_enough = vw__plan_bargain_enough(deal, made) == VW_ENOUGH_YES;
    }
    return VW_OK;
}

/* The largest batch that is surely enough, else the largest that may be, else half. */
static unsigned choose_batch(const vw__plan_bargain *deal)
{
    unsigned maybe = 0;
    for (size_t i = 0; i < deal->offer_count && vw__plan_bargain_is_missing_known(deal); i++) {
        const vw__plan_offer *made = &deal->offers[i];
        if (made->batch_parts != 0 && made->is_enough)
            return made->batch_parts;
        if (made->batch_parts != 0 && maybe == 0 && made->at_most_bytes >= deal->missing_bytes)
            maybe = made->batch_parts;
    }
    return maybe != 0 ? maybe : 2;
}

static void drop_the_worthless(vw__plan_bargain *deal)
{
    enum { LEAST_PART = 50 }; /* of the peak: what gives back less is not worth a line */
    unsigned batch_parts = choose_batch(deal);
    size_t kept = 0;
    for (size_t i = 0; i < deal->offer_count; i++) {
        const vw__plan_offer *made = &deal->offers[i];
        bool is_another_batch = made->batch_parts != 0 && made->batch_parts != batch_parts;
        if (!is_another_batch && made->at_most_bytes != 0 &&
            made->at_most_bytes >= deal->base_bytes / LEAST_PART)
            deal->offers[kept++] = *made;
    }
    deal->offer_count = kept;
}

static uint64_t worth_of(const vw__plan_offer *made)
{
    uint64_t middle = made->at_least_bytes / 2 + made->at_most_bytes / 2;
    return middle / 100 * made->worth_percent;
}

/* Puts the offer to try first before the other. Of those that are enough that is the cheapest. */
static int compare_offers(const void *left, const void *right)
{
    const vw__plan_offer *one = left, *other = right;
    if (one->is_last_resort != other->is_last_resort)
        return one->is_last_resort ? 1 : -1;
    if (one->is_enough != other->is_enough)
        return one->is_enough ? -1 : 1;
    if (one->is_enough && one->worth_percent != other->worth_percent)
        return one->worth_percent > other->worth_percent ? -1 : 1;
    uint64_t worth = worth_of(one), other_worth = worth_of(other);
    if (worth != other_worth)
        return worth > other_worth ? -1 : 1;
    return strcmp(one->action, other->action);
}

vw_status vw__plan_bargain_strike(vw__plan_bargain *deal)
{
    list_offers(deal);
    if (deal->has_failed)
        return vw__fail_host_memory(0, "the words of a remedy");
    VW__TRY(weigh(deal));
    drop_the_worthless(deal);
    if (deal->extra != NULL && deal->offer_count < VW__PLAN_MOST_OFFERS)
        deal->offers[deal->offer_count++] = *deal->extra;
    qsort(deal->offers, deal->offer_count, sizeof deal->offers[0], compare_offers);
    return VW_OK;
}
