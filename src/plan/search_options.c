/* search_options.c - what each change can be made to, for a model and the way it is run now. */
#include "plan/search_options.h"

#include <math.h>

#include "plan/plan_model.h"
#include "plan/settings_check.h"

enum { CHUNKS = 8 };

static void offer(hr__search_options *list, uint64_t value)
{
    if (list->count < HR__MOST_OPTIONS)
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

/* Smaller ones that divide it, so that a step has as many samples as before, or that many passes
 * do: halves, or from a large batch to the smallest in steps of the same ratio. */
static void offer_batches(const hr_plan_settings *base, hr__search_options *list)
{
    uint64_t samples = base->batch * base->accumulation; /* both within limits */
    uint64_t least = smallest_divisor(base->batch, 1 + (samples - 1) / HR__MOST_ACCUMULATION);
    double ratio = pow((double)base->batch / (double)least, 1.0 / (HR__MOST_OPTIONS - 1));
    double target = (double)base->batch;
    uint64_t last = base->batch;
    while (last > least && list->count < HR__MOST_OPTIONS) {
        target /= ratio < 2 ? 2 : ratio;
        uint64_t next = largest_divisor(base->batch, target < 1.5 ? 1 : (uint64_t)(target + 0.5));
        if (next < least || list->count == HR__MOST_OPTIONS - 1)
            next = least;
        if (next < last)
            offer(list, next);
        last = next < last ? next : last;
    }
}

static void offer_precisions(const hr_plan_settings *base, hr__search_options *list)
{
    bool has_bf16 = hr__card_has_bf16(base->card_name);
    bool is_32_bit = base->precision == HR_PRECISION_FP32 || base->precision == HR_PRECISION_TF32;
    bool is_amp =
        base->precision == HR_PRECISION_AMP_BF16 || base->precision == HR_PRECISION_AMP_FP16;
    if (is_32_bit && hr__is_training(base))
        offer(list, has_bf16 ? HR_PRECISION_AMP_BF16 : HR_PRECISION_AMP_FP16);
    if ((is_32_bit || is_amp) && has_bf16)
        offer(list, HR_PRECISION_BF16);
    else if ((is_32_bit || is_amp) && !hr__is_training(base))
        offer(list, HR_PRECISION_FP16);
}

static void offer_optimizers(const hr_plan_settings *base, hr__search_options *list)
{
    if (!hr__is_training(base) || base->offload != HR_OFFLOAD_NONE)
        return;
    switch (base->optimizer) {
    case HR_OPTIMIZER_ADAMW:
    case HR_OPTIMIZER_ADAMW_LOOP:
        offer(list, HR_OPTIMIZER_ADAMW_FUSED);
        offer(list, HR_OPTIMIZER_ADAM_8BIT);
        offer(list, HR_OPTIMIZER_ADAFACTOR);
        break;
    case HR_OPTIMIZER_ADAMW_FUSED:
        offer(list, HR_OPTIMIZER_ADAM_8BIT);
        offer(list, HR_OPTIMIZER_ADAFACTOR);
        break;
    case HR_OPTIMIZER_ADAM_8BIT:
        offer(list, HR_OPTIMIZER_PAGED_ADAM_8BIT);
        break;
    default:
        break;
    }
}

/* What is cheap to make again is known of transformers' blocks. */
static void offer_checkpointing(const hr_plan_model *model, const hr_plan_settings *base,
                                hr__search_options *list)
{
    if (!hr__is_training(base) || base->checkpointing == HR_CHECKPOINTING_FULL)
        return;
    if (base->checkpointing == HR_CHECKPOINTING_NONE && model->shape.heads > 0)
        offer(list, HR_CHECKPOINTING_SELECTIVE);
    offer(list, HR_CHECKPOINTING_FULL);
}

static void offer_sharding(const hr_plan_settings *base, hr__search_options *list)
{
    if (base->gpus < 2 || base->sharding == HR_SHARDING_FSDP ||
        base->sharding == HR_SHARDING_ZERO_3)
        return;
    hr_sharding stage = hr__is_training(base) ? HR_SHARDING_ZERO_1 : HR_SHARDING_ZERO_3;
    for (; stage <= HR_SHARDING_ZERO_3; stage++)
        if (stage > base->sharding)
            offer(list, stage);
    offer(list, HR_SHARDING_FSDP);
}

static void offer_methods(const hr_plan_model *model, const hr_plan_settings *base,
                          hr__search_options *list)
{
    if (!hr__is_training(base) || model->shape.heads == 0 || base->is_quantized)
        return;
    if (base->lora_rank == 0)
        offer(list, HR__METHOD_LORA);
    offer(list, HR__METHOD_QLORA);
}

static void offer_offload(const hr_plan_settings *base, hr__search_options *list)
{
    if (base->offload != HR_OFFLOAD_NONE)
        return;
    if (hr__is_training(base))
        offer(list, HR_OFFLOAD_OPTIMIZER);
    if (hr__is_training(base) && hr__state_bytes_per_weight(base) > 0)
        offer(list, HR_OFFLOAD_SPILL);
    offer(list, HR_OFFLOAD_WEIGHTS);
}

static bool has_long_loss(const hr_plan_model *model, const hr_plan_settings *base)
{
    return hr__is_training(base) && model->shape.vocabulary > 0 && base->loss_chunks <= 1;
}

void hr__search_list_options(const hr_plan_model *model, const hr_plan_settings *base,
                             hr__search_options lists[HR__CHANGE_COUNT])
{
    offer(&lists[HR__CHANGE_ATTENTION], base->attention);
    if (base->attention == HR_ATTENTION_EAGER)
        offer(&lists[HR__CHANGE_ATTENTION], HR_ATTENTION_SDPA);
    offer(&lists[HR__CHANGE_LOSS], base->loss_chunks);
    if (has_long_loss(model, base))
        offer(&lists[HR__CHANGE_LOSS], CHUNKS);
    offer(&lists[HR__CHANGE_PRECISION], base->precision);
    offer_precisions(base, &lists[HR__CHANGE_PRECISION]);
    offer(&lists[HR__CHANGE_OPTIMIZER], base->optimizer);
    offer_optimizers(base, &lists[HR__CHANGE_OPTIMIZER]);
    offer(&lists[HR__CHANGE_BATCH], base->batch);
    offer_batches(base, &lists[HR__CHANGE_BATCH]);
    offer(&lists[HR__CHANGE_CHECKPOINTING], base->checkpointing);
    offer_checkpointing(model, base, &lists[HR__CHANGE_CHECKPOINTING]);
    offer(&lists[HR__CHANGE_SHARDING], base->sharding);
    offer_sharding(base, &lists[HR__CHANGE_SHARDING]);
    offer(&lists[HR__CHANGE_METHOD], HR__METHOD_AS_IT_IS);
    offer_methods(model, base, &lists[HR__CHANGE_METHOD]);
    offer(&lists[HR__CHANGE_OFFLOAD], base->offload);
    offer_offload(base, &lists[HR__CHANGE_OFFLOAD]);
}
