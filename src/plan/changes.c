/* changes.c - which settings belong together as one change. */
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
