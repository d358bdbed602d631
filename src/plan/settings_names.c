/* settings_names.c - the words for settings, from the lists in plan.h. */
#include "vramwise/plan.h"

#define NAME(upper, text) text,

static const char *name_of(const char *const *names, int count, int number)
{
    return number >= 0 && number < count ? names[number] : "unknown";
}

const char *vw_precision_name(vw_precision precision)
{
    static const char *const names[] = {VW_PRECISION_LIST(NAME)};
    return name_of(names, VW_PRECISION_COUNT, (int)precision);
}

const char *vw_optimizer_name(vw_optimizer optimizer)
{
    static const char *const names[] = {VW_OPTIMIZER_LIST(NAME)};
    return name_of(names, VW_OPTIMIZER_COUNT, (int)optimizer);
}

const char *vw_checkpointing_name(vw_checkpointing checkpointing)
{
    static const char *const names[] = {VW_CHECKPOINTING_LIST(NAME)};
    return name_of(names, VW_CHECKPOINTING_COUNT, (int)checkpointing);
}

const char *vw_attention_name(vw_attention attention)
{
    static const char *const names[] = {VW_ATTENTION_LIST(NAME)};
    return name_of(names, VW_ATTENTION_COUNT, (int)attention);
}

const char *vw_offload_name(vw_offload offload)
{
    static const char *const names[] = {VW_OFFLOAD_LIST(NAME)};
    return name_of(names, VW_OFFLOAD_COUNT, (int)offload);
}

const char *vw_sharding_name(vw_sharding sharding)
{
    static const char *const names[] = {VW_SHARDING_LIST(NAME)};
    return name_of(names, VW_SHARDING_COUNT, (int)sharding);
}

const char *vw_plan_mode_name(vw_plan_mode mode)
{
    static const char *const names[] = {VW_PLAN_MODE_LIST(NAME)};
    return name_of(names, VW_PLAN_MODE_COUNT, (int)mode);
}
