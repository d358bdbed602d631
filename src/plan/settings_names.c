/* settings_names.c - the words for settings, from the lists in plan.h. */
#include "headroom/plan.h"

#define NAME(upper, text) text,

static const char *name_of(const char *const *names, int count, int number)
{
    return number >= 0 && number < count ? names[number] : "unknown";
}

const char *hr_precision_name(hr_precision precision)
{
    static const char *const names[] = {HR_PRECISION_LIST(NAME)};
    return name_of(names, HR_PRECISION_COUNT, (int)precision);
}

const char *hr_optimizer_name(hr_optimizer optimizer)
{
    static const char *const names[] = {HR_OPTIMIZER_LIST(NAME)};
    return name_of(names, HR_OPTIMIZER_COUNT, (int)optimizer);
}

const char *hr_checkpointing_name(hr_checkpointing checkpointing)
{
    static const char *const names[] = {HR_CHECKPOINTING_LIST(NAME)};
    return name_of(names, HR_CHECKPOINTING_COUNT, (int)checkpointing);
}

const char *hr_attention_name(hr_attention attention)
{
    static const char *const names[] = {HR_ATTENTION_LIST(NAME)};
    return name_of(names, HR_ATTENTION_COUNT, (int)attention);
}

const char *hr_offload_name(hr_offload offload)
{
    static const char *const names[] = {HR_OFFLOAD_LIST(NAME)};
    return name_of(names, HR_OFFLOAD_COUNT, (int)offload);
}

const char *hr_sharding_name(hr_sharding sharding)
{
    static const char *const names[] = {HR_SHARDING_LIST(NAME)};
    return name_of(names, HR_SHARDING_COUNT, (int)sharding);
}

const char *hr_plan_mode_name(hr_plan_mode mode)
{
    static const char *const names[] = {HR_PLAN_MODE_LIST(NAME)};
    return name_of(names, HR_PLAN_MODE_COUNT, (int)mode);
}
