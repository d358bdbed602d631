/* policies.c - see policies.h. */
#include "analysis/policies.h"

#include <stddef.h>
#include <string.h>

static const hr__policy policies[] = {
    {.name = "recorded"},
    {.name = "native", .conf = ""},
    {.name = "expandable", .conf = "expandable_segments:True"},
    {.name = "headroom", .engine = "headroom", .conf = ""},
    {.name = "headroom:rescue", .engine = "headroom:rescue", .conf = ""},
    {.name = "headroom:tight", .engine = "headroom:tight", .conf = ""},
    {.name = "conf"},
};

const hr__policy *hr__policy_find(const char *name)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++)
        if (strcmp(policies[i].name, name) == 0)
            return &policies[i];
    return NULL;
}

bool hr__policy_is_headroom(const char *name)
{
    const hr__policy *policy = hr__policy_find(name);
    return policy != NULL && policy->engine != NULL;
}

hr__replay_setting hr__policy_setting(const char *name, const char *conf)
{
    const hr__policy *policy = hr__policy_find(name);
    return (hr__replay_setting){.engine = policy != NULL ? policy->engine : NULL, .conf = conf};
}
