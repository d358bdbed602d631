/* changes.c - which settings belong together as one change. */
#include "plan/changes.h"

bool hr__has_changed(hr__change change, const hr_plan_settings *from, const hr_plan_settings *to)
{
    switch (change) {
    case HR__CHANGE_ATTENTION:
        return from->attention != to->attention;
    case HR__CHANGE_LOSS:
        return from->loss_chunks != to->loss_chunks;
    case HR__CHANGE_PRECISION:
        return from->precision != to->precision;
    case HR__CHANGE_OPTIMIZER:
        return from->optimizer != to->optimizer;
    case HR__CHANGE_BATCH:
        return from->batch != to->batch;
    case HR__CHANGE_CHECKPOINTING:
        return from->checkpointing != to->checkpointing;
    case HR__CHANGE_SHARDING:
        return from->sharding != to->sharding;
    case HR__CHANGE_METHOD:
        return from->lora_rank != to->lora_rank || from->is_quantized != to->is_quantized;
    case HR__CHANGE_OFFLOAD:
        return from->offload != to->offload;
    case HR__CHANGE_COUNT:
        break;
    }
    return false;
}

size_t hr__change_count(const hr_plan_settings *from, const hr_plan_settings *to)
{
    size_t count = 0;
    for (hr__change change = 0; change < HR__CHANGE_COUNT; change++)
        count += hr__has_changed(change, from, to);
    return count;
}

static bool is_adamw(hr_optimizer optimizer)
{
    return optimizer == HR_OPTIMIZER_ADAMW || optimizer == HR_OPTIMIZER_ADAMW_FUSED ||
           optimizer == HR_OPTIMIZER_ADAMW_LOOP;
}

hr__distance hr__distance_of(const hr_plan_settings *from, const hr_plan_settings *to)
{
    if (hr__has_changed(HR__CHANGE_METHOD, from, to))
        return HR__DISTANCE_METHOD;
    bool has_other_steps =
        from->optimizer != to->optimizer && !(is_adamw(from->optimizer) && is_adamw(to->optimizer));
    return has_other_steps || hr__has_changed(HR__CHANGE_PRECISION, from, to) ? HR__DISTANCE_NUMBERS
                                                                              : HR__DISTANCE_NONE;
}
