/* changes.c - which settings belong together as one change, and which remedy that is. */
#include "plan/changes.h"

bool vw__has_changed(vw__change change, const vw_plan_settings *from, const vw_plan_settings *to)
{
    switch (change) {
    case VW__CHANGE_ATTENTION:
        return from->attention != to->attention;
    case VW__CHANGE_LOSS:
        return from->loss_chunks != to->loss_chunks;
    case VW__CHANGE_PRECISION:
        return from->precision != to->precision;
    case VW__CHANGE_OPTIMIZER:
        return from->optimizer != to->optimizer;
    case VW__CHANGE_BATCH:
        return from->batch != to->batch;
    case VW__CHANGE_CHECKPOINTING:
        return from->checkpointing != to->checkpointing;
    case VW__CHANGE_SHARDING:
        return from->sharding != to->sharding;
    case VW__CHANGE_METHOD:
        return from->lora_rank != to->lora_rank || from->is_quantized != to->is_quantized;
    case VW__CHANGE_OFFLOAD:
        return from->offload != to->offload;
    case VW__CHANGE_COUNT:
        break;
    }
    return false;
}

size_t vw__change_count(const vw_plan_settings *from, const vw_plan_settings *to)
{
    size_t count = 0;
    for (vw__change change = 0; change < VW__CHANGE_COUNT; change++)
        count += vw__has_changed(change, from, to);
    return count;
}

static bool is_adamw(vw_optimizer optimizer)
{
    return optimizer == VW_OPTIMIZER_ADAMW || optimizer == VW_OPTIMIZER_ADAMW_FUSED ||
           optimizer == VW_OPTIMIZER_ADAMW_LOOP;
}

vw__distance vw__distance_of(const vw_plan_settings *from, const vw_plan_settings *to)
{
    if (vw__has_changed(VW__CHANGE_METHOD, from, to))
        return VW__DISTANCE_METHOD;
    bool has_other_steps =
        from->optimizer != to->optimizer && !(is_adamw(from->optimizer) && is_adamw(to->optimizer));
    return has_other_steps || vw__has_changed(VW__CHANGE_PRECISION, from, to) ? VW__DISTANCE_NUMBERS
                                                                              : VW__DISTANCE_NONE;
}

/* ---- remedies -------------------------------------------------------------------------------- */

static vw__remedy_id precision_remedy(const vw_plan_settings *to)
{
    bool is_training = to->mode == VW_PLAN_MODE_TRAIN;
    switch (to->precision) {
    case VW_PRECISION_BF16:
    case VW_PRECISION_FP16:
        return is_training ? VW__REMEDY_HALF_TRAINING : VW__REMEDY_HALF_INFERENCE;
    case VW_PRECISION_AMP_BF16:
        return is_training ? VW__REMEDY_AUTOCAST : VW__REMEDY_AUTOCAST_INFERENCE;
    case VW_PRECISION_AMP_FP16:
        return is_training ? VW__REMEDY_AUTOCAST_FP16 : VW__REMEDY_AUTOCAST_INFERENCE;
    default:
        return VW__REMEDY_COUNT;
    }
}

static vw__remedy_id optimizer_remedy(vw_optimizer optimizer)
{
    switch (optimizer) {
    case VW_OPTIMIZER_ADAMW_FUSED:
        return VW__REMEDY_FUSED_OPTIMIZER;
    case VW_OPTIMIZER_ADAM_8BIT:
        return VW__REMEDY_8BIT_OPTIMIZER;
    case VW_OPTIMIZER_PAGED_ADAM_8BIT:
        return VW__REMEDY_PAGED_8BIT_OPTIMIZER;
    case VW_OPTIMIZER_ADAFACTOR:
        return VW__REMEDY_ADAFACTOR;
    default:
        return VW__REMEDY_COUNT;
    }
}

static vw__remedy_id checkpointing_remedy(vw_checkpointing checkpointing)
{
    switch (checkpointing) {
    case VW_CHECKPOINTING_FULL:
        return VW__REMEDY_CHECKPOINTING;
    case VW_CHECKPOINTING_SELECTIVE:
        return VW__REMEDY_SELECTIVE_CHECKPOINTING;
    default:
        return VW__REMEDY_COUNT;
    }
}

static vw__remedy_id sharding_remedy(const vw_plan_settings *to)
{
    bool is_training = to->mode == VW_PLAN_MODE_TRAIN;
    switch (to->sharding) {
    case VW_SHARDING_ZERO_1:
        return VW__REMEDY_ZERO_1;
    case VW_SHARDING_ZERO_2:
        return to->accumulation > 1 ? VW__REMEDY_ZERO_2_ACCUMULATED : VW__REMEDY_ZERO_2;
    case VW_SHARDING_ZERO_3:
        return is_training ? VW__REMEDY_ZERO_3 : VW__REMEDY_ZERO_3_INFERENCE;
    case VW_SHARDING_FSDP:
        return is_training ? VW__REMEDY_FSDP : VW__REMEDY_FSDP_INFERENCE;
    default:
        return VW__REMEDY_COUNT;
    }
}

static vw__remedy_id offload_remedy(const vw_plan_settings *to)
{
    switch (to->offload) {
    case VW_OFFLOAD_OPTIMIZER:
        return VW__REMEDY_OFFLOAD_OPTIMIZER;
    case VW_OFFLOAD_WEIGHTS:
        return to->mode == VW_PLAN_MODE_TRAIN ? VW__REMEDY_OFFLOAD_WEIGHTS
                                              : VW__REMEDY_OFFLOAD_WEIGHTS_INFERENCE;
    case VW_OFFLOAD_SPILL:
        return VW__REMEDY_SPILL;
    default:
        return VW__REMEDY_COUNT;
    }
}

vw__remedy_id vw__change_remedy(vw__change change, const vw_plan_settings *to)
{
    switch (change) {
    case VW__CHANGE_ATTENTION:
        return to->attention == VW_ATTENTION_SDPA || to->attention == VW_ATTENTION_FLASH
                   ? VW__REMEDY_FUSED_ATTENTION
                   : VW__REMEDY_COUNT;
    case VW__CHANGE_LOSS:
        return to->loss_chunks > 1 ? VW__REMEDY_CHUNKED_LOSS : VW__REMEDY_COUNT;
    case VW__CHANGE_PRECISION:
        return precision_remedy(to);
    case VW__CHANGE_OPTIMIZER:
        return optimizer_remedy(to->optimizer);
    case VW__CHANGE_BATCH:
        return to->mode == VW_PLAN_MODE_TRAIN ? VW__REMEDY_SPLIT_BATCH : VW__REMEDY_SMALLER_BATCH;
    case VW__CHANGE_CHECKPOINTING:
        return checkpointing_remedy(to->checkpointing);
    case VW__CHANGE_SHARDING:
        return sharding_remedy(to);
    case VW__CHANGE_METHOD:
        return to->lora_rank == 0 ? VW__REMEDY_COUNT
               : to->is_quantized ? VW__REMEDY_QLORA
                                  : VW__REMEDY_LORA;
    case VW__CHANGE_OFFLOAD:
        return offload_remedy(to);
    case VW__CHANGE_COUNT:
        break;
    }
    return VW__REMEDY_COUNT;
}
