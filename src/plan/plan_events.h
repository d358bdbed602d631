/* plan_events.h - a planned run as a list of requests and frees.
 *
 * The tape tells them one after the other; whoever plays them wants them together: the recording
 * (plan_record.c) and the replays (plan_reserved.c). They are kept as the script that the player
 * takes (analysis/player.h): a storage of the tape is a slot of the script. */
#ifndef VW_PLAN_PLAN_EVENTS_H
#define VW_PLAN_PLAN_EVENTS_H

#include <stdint.h>

#include "vramwise/plan.h"
#include "analysis/script.h"
#include "plan/plan_run.h"
#include "plan/tape.h"

/* What ran when a request was made. */
typedef enum vw__plan_pass {
    VW__PLAN_PASS_PLAIN, /* the model is made, a forward pass, an optimizer: the place tells */
    VW__PLAN_PASS_BACKWARD,
    VW__PLAN_PASS_AGAIN, /* a checkpoint runs again */
} vw__plan_pass;

/* Why a request was made. */
typedef struct vw__plan_origin {
    uint32_t place; /* vw__tape_place(); UINT32_MAX: the outermost */
    uint8_t use;    /* vw__use */
    uint8_t pass;   /* vw__plan_pass */
} vw__plan_origin;

/* The operations of a step are [begin, end). */
typedef struct vw__plan_step {
    size_t begin, end;
} vw__plan_step;

enum { VW__PLAN_MOST_STEPS = 8 };

typedef struct vw__plan_events {
    vw__script script;        /* ALLOC and FREE; ops are owned */
    vw__plan_origin *origins; /* owned; by operation; of a FREE: nothing */
    vw__plan_step steps[VW__PLAN_MOST_STEPS];
    size_t step_count;
    vw__plan_peaks peaks;
    vw__tape *places; /* owned: the tape, at its end */

    /* What a script refers to. */
    vw__model model;
    vw__model_trace trace;
    vw_private_id default_pool;
    vw_stream default_stream;
} vw__plan_events;

/* Empty, with one stream and no private pool. */
void vw__plan_events_init(vw__plan_events *events);

/* Runs `steps` steps, VW__PLAN_MOST_STEPS at most. The settings must have been checked. `out` must
 * stay where it is: it points into itself.
 *
 * VW_ERR_UNSUPPORTED  more requests than a list of them may have
 * VW_ERR_HOST_MEMORY; and what vw__plan_simulate() says */
VW_MUST_CHECK vw_status vw__plan_events_make(const vw_plan_model *model,
                                             const vw_plan_settings *settings, unsigned steps,
                                             vw__plan_events *out);
void vw__plan_events_deinit(vw__plan_events *events);

#endif /* VW_PLAN_PLAN_EVENTS_H */
