/* roles.h - what each block of a trace was for.
 *
 * A stack says who asked for a block (attribution.h); its lifetime says what became of it. Both
 * together tell an activation, which waits for the backward pass, from a temporary, which is gone
 * before its pass ends; a gradient, which lives on after the backward pass, from what computing it
 * took; an optimizer's state from what a step of it needed.
 *
 * Steps are those of steps.h: step 0 is everything before the first end. */
#ifndef HR_ANALYSIS_ROLES_H
#define HR_ANALYSIS_ROLES_H

#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/attribution.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"

#define HR__ROLE_LIST(X)                                                                           \
    X(WEIGHTS, "weights")         /* parameters, buffers, copies of them */                        \
    X(GRADIENTS, "gradients")     /* made by a backward pass, alive when it was over */            \
    X(OPTIMIZER, "optimizer")     /* state: alive from one step of it to the next */               \
    X(ACTIVATIONS, "activations") /* made by a forward pass, alive when it was over */             \
    X(TEMPORARIES, "temporaries") /* gone before their own pass was */                             \
    X(KV_CACHE, "kv-cache")                                                                        \
    X(DATA, "data")                                                                                \
    X(WORKSPACE, "workspace")                                                                      \
    X(UNKNOWN, "unknown")

typedef enum hr__role {
#define HR__ROLE_ENUM(upper, text) HR__ROLE_##upper,
    HR__ROLE_LIST(HR__ROLE_ENUM)
#undef HR__ROLE_ENUM
        HR__ROLE_COUNT
} hr__role;

/* What ran in a stretch of the trace, by the requests in it. */
typedef enum hr__pass_kind {
    HR__PASS_OTHER,
    HR__PASS_FORWARD,
    HR__PASS_BACKWARD,
    HR__PASS_OPTIMIZER
} hr__pass_kind;

/* A run of requests of one kind. Passes tile the trace: [begin, end) of events. */
typedef struct hr__pass {
    uint32_t begin, end;
    uint32_t last_request; /* event: the last of its own requests */
    uint32_t step;         /* in which it began */
    uint8_t kind;          /* hr__pass_kind */
} hr__pass;

typedef struct hr__roles {
    uint8_t *roles;    /* owned; by lifetime of the timeline: hr__role */
    uint32_t *pass_of; /* owned; by lifetime: the pass of its request */
    hr__pass *passes;  /* owned */
    size_t pass_count;
    size_t lifetime_count;
} hr__roles;

HR_MUST_CHECK hr_status hr__roles_find(const hr__timeline *timeline,
                                       const hr__attribution *attribution, const hr__steps *steps,
                                       hr__roles *out);
void hr__roles_deinit(hr__roles *roles);

const char *hr__role_name(hr__role role); /* static */

/* The pass that an event lies in. */
uint32_t hr__roles_pass_at(const hr__roles *roles, uint32_t event);

/* The step that an instant lies in: 0 before the first end, steps->end_count after the last. */
uint32_t hr__step_of_instant(const hr__steps *steps, uint32_t instant);

#endif /* HR_ANALYSIS_ROLES_H */
