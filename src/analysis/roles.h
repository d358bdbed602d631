/* roles.h - what each block of a trace was for.
 *
 * A stack says who asked for a block (attribution.h); its lifetime says what became of it. Both
 * together tell an activation, which waits for the backward pass, from a temporary, which is gone
 * before its pass ends; a gradient, which lives on after the backward pass, from what computing it
 * took; an optimizer's state from what a step of it needed.
 *
 * Steps are those of steps.h: step 0 is everything before the first end. */
#ifndef VW_ANALYSIS_ROLES_H
#define VW_ANALYSIS_ROLES_H

#include <stddef.h>
#include <stdint.h>

#include "vramwise/status.h"
#include "analysis/attribution.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"

#define VW__ROLE_LIST(X)                                                                           \
    X(WEIGHTS, VW__CATEGORY_NAME_WEIGHTS) /* parameters, buffers, copies of them */                \
    X(GRADIENTS,                                                                                   \
      VW__CATEGORY_NAME_GRADIENTS) /* made by a backward pass, alive when it was over */           \
    X(OPTIMIZER, VW__CATEGORY_NAME_OPTIMIZER) /* state: alive from one step of it to the next */   \
    X(ACTIVATIONS,                                                                                 \
      VW__CATEGORY_NAME_ACTIVATIONS) /* made by a forward pass, alive when it was over */          \
    X(TEMPORARIES, VW__CATEGORY_NAME_TEMPORARIES) /* gone before their own pass was */             \
    X(KV_CACHE, VW__CATEGORY_NAME_KV_CACHE)                                                        \
    X(DATA, VW__CATEGORY_NAME_DATA)                                                                \
    X(WORKSPACE, VW__CATEGORY_NAME_WORKSPACE)                                                      \
    X(UNKNOWN, VW__CATEGORY_NAME_UNKNOWN)

typedef enum vw__role {
#define VW__ROLE_ENUM(upper, text) VW__ROLE_##upper,
    VW__ROLE_LIST(VW__ROLE_ENUM)
#undef VW__ROLE_ENUM
        VW__ROLE_COUNT
} vw__role;

/* The kind of work in a stretch of the trace, by its requests. */
typedef enum vw__roles_pass_kind {
    VW__ROLES_PASS_OTHER,
    VW__ROLES_PASS_FORWARD,
    VW__ROLES_PASS_BACKWARD,
    VW__ROLES_PASS_OPTIMIZER
} vw__roles_pass_kind;

/* A run of requests of one kind. Passes tile the trace: [begin, end) of events. */
typedef struct vw__roles_pass {
    uint32_t begin, end;
    uint32_t last_request; /* event: the last of its own requests */
    uint32_t step;         /* in which it began */
    uint8_t kind;          /* vw__roles_pass_kind */
} vw__roles_pass;

typedef struct vw__roles {
    uint8_t *roles;         /* owned; by lifetime of the timeline: vw__role */
    uint32_t *pass_of;      /* owned; by lifetime: the pass of its request */
    vw__roles_pass *passes; /* owned */
    size_t pass_count;
    size_t lifetime_count;
} vw__roles;

VW_MUST_CHECK vw_status vw__roles_find(const vw__timeline *timeline,
                                       const vw__attribution *attribution, const vw__steps *steps,
                                       vw__roles *out);
void vw__roles_deinit(vw__roles *roles);

const char *vw__role_name(vw__role role); /* static */

/* The pass that an event lies in. */
uint32_t vw__roles_pass_at(const vw__roles *roles, uint32_t event);

/* The step that an instant lies in: 0 before the first end, steps->end_count after the last. */
uint32_t vw__steps_of_instant(const vw__steps *steps, uint32_t instant);

#endif /* VW_ANALYSIS_ROLES_H */
