/* policies.h - the names of what a recording can be replayed with.
 *
 * One set of names everywhere: `replay --policy`, the results of replay and tune, JSON. A *policy*
 * is an allocator, most of them with an option string of its own; a *setting* is what that comes to
 * for one run. PyTorch's rules are engine/torch with an option string; the policies that begin
 * with "headroom" are engines of that name, and no option string is theirs. */
#ifndef HR_ANALYSIS_POLICIES_H
#define HR_ANALYSIS_POLICIES_H

#include <stdbool.h>
#include <stdint.h>

/* What one run is made with. Strings are borrowed. */
typedef struct hr__replay_setting {
    const char *engine;   /* hr_pool_options.engine; NULL = "torch" */
    const char *conf;     /* not NULL */
    uint64_t spill_bytes; /* hr_pool_options.spill_bytes; only with an engine of our own */
} hr__replay_setting;

typedef struct hr__policy {
    const char *name;
    const char *engine; /* NULL = "torch" */
    const char *conf;   /* NULL: the recording's ("recorded"), or the caller's ("conf") */
} hr__policy;

/* For messages: all of them. */
#define HR__POLICY_NAMES                                                                           \
    "native, expandable, recorded, headroom, headroom:rescue, headroom:tight, or conf with an "    \
    "option string"

/* NULL where there is none of that name. */
const hr__policy *hr__policy_find(const char *name);

/* Is it an engine of our own? Not for a name that is none. */
bool hr__policy_is_headroom(const char *name);

/* Of a result: its policy, and the option string it was given. */
hr__replay_setting hr__policy_setting(const char *name, const char *conf);

/* PyTorch's rules with that option string. */
static inline hr__replay_setting hr__torch_setting(const char *conf)
{
    return (hr__replay_setting){.conf = conf};
}

#endif /* HR_ANALYSIS_POLICIES_H */
