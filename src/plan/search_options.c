/* search_options.c - what each change can be made to, for a model and its present settings. */
#include <math.h>

#include "plan/plan_model.h"
#include "plan/plan_settings.h"
#include "plan/search.h"

static void offer(vw__plan_search_options *list, uint64_t value)
{
    if (list->count < VW__PLAN_SEARCH_MOST_OPTIONS)
        list->values[list->count++] = value;
}

static uint64_t largest_divisor(uint64_t number, uint64_t at_most)
{
    while (at_most > 1 && number % at_most != 0)
        at_most--;
    return at_most;
}

static uint64_t smallest_divisor(uint64_t number, uint64_t at_least)
{
    while (at_least < number && number % at_least != 0)
        at_least++;
    return at_least;
}

/* Smaller batches that divide it, so that a step has as many samples as before: halves, or from a
 * large batch to the smallest in steps of the same ratio. */
static void offer_batches(const vw_plan_settings *base, vw__plan_search_options *list)
{
    uint64_t samples = base->batch * base->accumulation; /* both within limits */
    uint64_t least = smallest_divisor(base->batch, 1 + (samples - 1) / VW__PLAN_MOST_ACCUMULATION);
    double ratio =
        pow((double)base->batch / (double)least, 1.0 / (VW__PLAN_SEARCH_MOST_OPTIONS - 1));
    double target = (double)base->batch;
    uint64_t last = base->batch;
    while (last > least && list->count < VW__PLAN_SEARCH_MOST_OPTIONS) {
        target /= ratio < 2 ? 2 : ratio;
        uint64_t next = largest_divisor(base->batch, target < 1.5 ? 1 : (uint64_t)(target + 0.5));
        if (next < least || list->count == VW__PLAN_SEARCH_MOST_OPTIONS - 1)
            next = least;
        if (next < last)
            offer(list, next);
        last = next < last ? next : last;
    }
}

static void offer_precisions(const vw_plan_settings *base, vw__plan_search_options *list)
{
    bool has_bf16 = vw__plan_card_has(base->card_name, VW__PLAN_CARD_BF16);
    bool is_32_bit = base->precision == VW_PRECISION_FP32 || base->precision == VW_PRECISION_TF32;
    bool is_amp =
        base->precision == VW_PRECISION_AMP_BF16 || base->precision == VW_PRECISION_AMP_FP16;
    if (is_32_bit && vw__plan_is_training(base))
        offer(list, has_bf16 ? VW_PRECISION_AMP_BF16 : VW_PRECISION_AMP_FP16);
    if ((is_32_bit || is_amp) && has_bf16)
        offer(list, VW_PRECISION_BF16);
    else if ((is_32_bit || is_amp) && !vw__plan_is_training(base))
        offer(list, VW_PRECISION_FP16);
}

static void offer_optimizers(const vw_plan_settings *base, vw__plan_search_options *list)
{
    if (!vw__plan_is_training(base) || base->offload != VW_OFFLOAD_NONE)
        return;
    switch (base->optimizer) {
    case VW_OPTIMIZER_ADAMW:
    case VW_OPTIMIZER_ADAMW_LOOP:
        offer(list, VW_OPTIMIZER_ADAMW_FUSED);
        /* fall through */
    case VW_OPTIMIZER_ADAMW_FUSED:
        offer(list, VW_OPTIMIZER_ADAM_8BIT);
        offer(list, VW_OPTIMIZER_ADAFACTOR);
        break;
    case VW_OPTIMIZER_ADAM_8BIT:
        offer(list, VW_OPTIMIZER_PAGED_ADAM_8BIT);
        break;
    default:
        break;
    }
}

/* Only for transformers' blocks is it known what is cheap to make again. */
static void offer_checkpointing(const vw_plan_model *model, const vw_plan_settings *base,
                                vw__plan_search_options *list)
{
    if (!vw__plan_is_training(base) || base->checkpointing == VW_CHECKPOINTING_FULL)
        return;
    if (base->checkpointing == VW_CHECKPOINTING_NONE && model->shape.attention.heads > 0)
        offer(list, VW_CHECKPOINTING_SELECTIVE);
    offer(list, VW_CHECKPOINTING_FULL);
}

static void offer_sharding(const vw_plan_settings *base, vw__plan_search_options *list)
{
    if (base->gpus < 2 || base->sharding == VW_SHARDING_FSDP ||
        base->sharding == VW_SHARDING_ZERO_3)
        return;
    vw_sharding stage = vw__plan_is_training(base) ? VW_SHARDING_ZERO_1 : VW_SHARDING_ZERO_3;
    for (; stage <= VW_SHARDING_ZERO_3; stage++)
        if (stage > base->sharding)
            offer(list, stage);
    offer(list, VW_SHARDING_FSDP);
}

static void offer_methods(const vw_plan_model *model, const vw_plan_settings *base,
                          vw__plan_search_options *list)
{
    if (!vw__plan_is_training(base) || model->shape.attention.heads == 0 || base->is_quantized)
        return;
    if (base->lora_rank == 0)
        offer(list, VW__PLAN_METHOD_LORA);
    offer(list, VW__PLAN_METHOD_QLORA);
}

static void offer_offload(const vw_plan_settings *base, vw__plan_search_options *list)
{
    if (base->offload != VW_OFFLOAD_NONE)
        return;
    if (vw__plan_is_training(base))
        offer(list, VW_OFFLOAD_OPTIMIZER);
    if (vw__plan_is_training(base) && vw__plan_state_bytes_per_weight(base) > 0)
        offer(list, VW_OFFLOAD_SPILL);
    offer(list, VW_OFFLOAD_WEIGHTS);
}

void vw__plan_search_list_options(const vw_plan_model *model, const vw_plan_settings *base,
                                  vw__plan_search_options lists[VW__PLAN_CHANGE_COUNT])
{
    for (vw__plan_change change = 0; change < VW__PLAN_CHANGE_COUNT; change++)
        offer(&lists[change], vw__plan_change_value(change, base));
    if (base->attention == VW_ATTENTION_EAGER)
        offer(&lists[VW__PLAN_CHANGE_ATTENTION], VW_ATTENTION_SDPA);
    if (vw__plan_is_training(base) && vw__plan_has_vocabulary_head(model, base) &&
        base->loss_chunks <= 1 && !base->has_fused_loss)
        offer(&lists[VW__PLAN_CHANGE_LOSS], VW__REMEDY_LOSS_CHUNKS);
    offer_precisions(base, &lists[VW__PLAN_CHANGE_PRECISION]);
    offer_optimizers(base, &lists[VW__PLAN_CHANGE_OPTIMIZER]);
    offer_batches(base, &lists[VW__PLAN_CHANGE_BATCH]);
    offer_checkpointing(model, base, &lists[VW__PLAN_CHANGE_CHECKPOINTING]);
    offer_sharding(base, &lists[VW__PLAN_CHANGE_SHARDING]);
    offer_methods(model, base, &lists[VW__PLAN_CHANGE_METHOD]);
    offer_offload(base, &lists[VW__PLAN_CHANGE_OFFLOAD]);
}
