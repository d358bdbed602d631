/* policies.c - see policies.h. */
#include "analysis/policies.h"

#include <stddef.h>
#include <string.h>

/* The first VW__POLICY_DEFAULTS are the default of vw_recording_replay(). */
static const vw__policy policies[] = {
    {.name = "recorded"},
    {.name = VW__POLICY_NATIVE, .conf = ""},
    {.name = VW__POLICY_EXPANDABLE, .conf = "expandable_segments:True"},
    {.name = VW__POLICY_VRAMWISE, .engine = "vramwise", .conf = ""},
    {.name = "vramwise:rescue", .engine = "vramwise:rescue", .conf = ""},
    {.name = "vramwise:tight", .engine = "vramwise:tight", .conf = ""},
    {.name = "conf"},
};

const vw__policy *vw__policy_find(const char *name)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (strcmp(policies[i].name, name) == 0)
            return &policies[i];
    return NULL;
}

const vw__policy *vw__policy_default(size_t index)
{
    return &policies[index];
}

bool vw__policy_is_vramwise(const char *name)
{
    const vw__policy *policy = vw__policy_find(name);
    return policy != NULL && policy->engine != NULL;
}

vw__replay_setting vw__policy_setting(const char *name, const char *conf)
{
    const vw__policy *policy = vw__policy_find(name);
    return (vw__replay_setting){.engine = policy != NULL ? policy->engine : NULL, .conf = conf};
}
