/* policies.h - the names of what a recording can be replayed with.
 *
 * One set of names everywhere: `replay --policy`, the results of replay and tune, JSON. A *policy*
 * is an allocator, most of them with a fixed option string; a *setting* is the engine and the
 * string of one run. PyTorch's rules are engine/torch with an option string; the policies that
 * begin with "vramwise" are engines of that name, without options. "recorded" is the allocator that
 * made the recording: PyTorch's rules with the recorded option string, or an engine of our own. In
 * the second case results are named after that engine (vw__replay_work.recorded_policy). */
#ifndef VW_ANALYSIS_POLICIES_H
#define VW_ANALYSIS_POLICIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The allocator of one run. Strings are borrowed. */
typedef struct vw__replay_setting {
    const char *engine;   /* vw_pool_options.engine; NULL = "torch" */
    const char *conf;     /* not NULL */
    uint64_t spill_bytes; /* vw_pool_options.spill_bytes; only with an engine of our own */
    bool has_streams;     /* data takes turns (replay_stream.c); only with spill_bytes */
} vw__replay_setting;

typedef struct vw__policy {
    const char *name;
    const char *engine; /* NULL = "torch" */
    const char *conf;   /* NULL: the recording's ("recorded"), or the caller's ("conf") */
} vw__policy;

/* Names that others write too: those for which a plan says what is reserved. */
#define VW__POLICY_NATIVE "native"
#define VW__POLICY_EXPANDABLE "expandable"
#define VW__POLICY_VRAMWISE "vramwise"

/* For messages: all of them. */
#define VW__POLICY_NAMES                                                                           \
    "native, expandable, recorded, vramwise, vramwise:rescue, vramwise:tight, or conf with an "    \
    "option string"

/* Returns NULL for an unknown name. */
const vw__policy *vw__policy_find(const char *name);

/* The policies that a replay tries by default; `index` is below VW__POLICY_DEFAULTS. */
enum { VW__POLICY_DEFAULTS = 4 };
const vw__policy *vw__policy_default(size_t index);

/* Returns whether the policy is an engine of our own; false for an unknown name. */
bool vw__policy_is_vramwise(const char *name);

/* The setting of a result with that policy and option string. */
vw__replay_setting vw__policy_setting(const char *name, const char *conf);

/* PyTorch's rules with that option string. */
static inline vw__replay_setting vw__policy_torch_setting(const char *conf)
{
    return (vw__replay_setting){.conf = conf};
}

#endif /* VW_ANALYSIS_POLICIES_H */
