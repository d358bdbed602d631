/* plan_events.h - a planned run as a list of requests and frees.
 *
 * The tape tells them one after the other; whoever plays them wants them together: the recording
 * (plan_record.c) and the replays (plan_reserved.c). They are kept as the script that the player
 * takes (analysis/player.h): a storage of the tape is a slot of the script. */
#ifndef HR_PLAN_PLAN_EVENTS_H
#define HR_PLAN_PLAN_EVENTS_H

#include <stdint.h>

#include "headroom/plan.h"
#include "analysis/script.h"
#include "plan/plan_run.h"
#include "plan/tape.h"

/* What ran when a request was made. */
typedef enum hr__plan_pass {
    HR__PLAN_PASS_PLAIN, /* the model is made, a forward pass, an optimizer: the place tells */
    HR__PLAN_PASS_BACKWARD,
    HR__PLAN_PASS_AGAIN, /* a checkpoint runs again */
} hr__plan_pass;

/* Why a request was made. */
typedef struct hr__plan_origin {
    uint32_t place; /* hr__tape_place(); UINT32_MAX: the outermost */
    uint8_t use;    /* hr__use */
    uint8_t pass;   /* hr__plan_pass */
} hr__plan_origin;

/* The operations of a step are [begin, end). */
typedef struct hr__plan_step {
    size_t begin, end;
} hr__plan_step;

enum { HR__PLAN_MOST_STEPS = 8 };

typedef struct hr__plan_events {
    hr__script script;        /* ALLOC and FREE; ops are owned */
    hr__plan_origin *origins; /* owned; by operation; of a FREE: nothing */
    hr__plan_step steps[HR__PLAN_MOST_STEPS];
    size_t step_count;
    hr__plan_peaks peaks;
    hr__tape *places; /* owned: the tape, at its end */

    /* What a script refers to. */
    hr__model model;
    hr__model_trace trace;
    hr_private_id default_pool;
    hr_stream default_stream;
} hr__plan_events;

/* Empty, with one stream and no private pool. */
void hr__plan_events_init(hr__plan_events *events);

/* Runs `steps` steps, HR__PLAN_MOST_STEPS at most. The settings must have been checked. `out` must
 * stay where it is: it points into itself.
 *
 * HR_ERR_UNSUPPORTED  more requests than a list of them may have
 * HR_ERR_HOST_MEMORY; and what hr__plan_simulate() says */
HR_MUST_CHECK hr_status hr__plan_events_make(const hr_plan_model *model,
                                             const hr_plan_settings *settings, unsigned steps,
                                             hr__plan_events *out);
void hr__plan_events_deinit(hr__plan_events *events);

#endif /* HR_PLAN_PLAN_EVENTS_H */
