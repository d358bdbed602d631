/* plan_events.h - a planned run as a list of requests and frees.
 *
 * The tape reports events one by one; the recording (plan_record.c) and the replays (plan_device.c)
 * want them together. They form the script that the player takes (analysis/player.h): a storage of
 * the tape is a slot of the script. */
#ifndef VW_PLAN_PLAN_EVENTS_H
#define VW_PLAN_PLAN_EVENTS_H

#include <stdint.h>

#include "vramwise/plan.h"
#include "analysis/script.h"
#include "base/byte_buffer.h"
#include "plan/plan_run.h"
#include "plan/tape.h"

/* What ran when a request was made. */
typedef enum vw__plan_pass {
    VW__PLAN_PASS_PLAIN, /* making the model, a forward pass, or an optimizer: the place shows */
    VW__PLAN_PASS_BACKWARD,
    VW__PLAN_PASS_AGAIN, /* a checkpoint runs again */
} vw__plan_pass;

/* Why a request was made. */
typedef struct vw__plan_origin {
    uint32_t place; /* vw__tape_place(); UINT32_MAX: outside of any scope */
    uint8_t use;    /* vw__tape_use */
    uint8_t pass;   /* vw__plan_pass */
} vw__plan_origin;

/* The operations of a step are [begin, end). */
typedef struct vw__plan_step {
    size_t begin, end;
} vw__plan_step;

enum { VW__PLAN_MOST_STEPS = 8, VW__PLAN_RECORDED_STEPS = 3 };

typedef struct vw__plan_events {
    vw__script script;        /* ALLOC and FREE; ops are owned */
    vw__plan_origin *origins; /* owned; by operation; unused for a FREE */
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

/* Runs `steps` steps, VW__PLAN_MOST_STEPS at most; 0: as many as vw__plan_simulate(). The settings
 * must have been checked. `out` must not be moved: it points into itself.
 *
 * VW_ERR_UNSUPPORTED  more requests than such a list may have
 * VW_ERR_HOST_MEMORY, and the errors of vw__plan_simulate() */
VW_MUST_CHECK vw_status vw__plan_events_make(const vw_plan_model *model,
                                             const vw_plan_settings *settings, unsigned steps,
                                             vw__plan_events *out);
void vw__plan_events_deinit(vw__plan_events *events);

/* Appends "layer 11 / mlp / act": all scopes but the outermost, which is the phase. */
void vw__plan_append_place(vw__byte_buffer *out, const vw__tape *tape, uint32_t place);

/* ---- plan_moments.c -------------------------------------------------------------------------- */

/* What kind of layer made it. */
typedef enum vw__plan_layer_kind {
    VW__PLAN_LAYER_ATTENTION,
    VW__PLAN_LAYER_MLP,
    VW__PLAN_LAYER_NORM,
    VW__PLAN_LAYER_EMBEDDING,
    VW__PLAN_LAYER_CONVOLUTION,
    VW__PLAN_LAYER_LOSS,
    VW__PLAN_LAYER_OTHER, /* what blocks pass on: sums, checkpoints */
    VW__PLAN_LAYER_COUNT
} vw__plan_layer_kind;

const char *vw__plan_layer_kind_name(vw__plan_layer_kind kind);

/* The peak of the last step, and the end of its forward pass. */
typedef struct vw__plan_moments {
    uint64_t
        kept_bytes[VW__PLAN_LAYER_COUNT]; /* activations and loss, kept for the backward pass */
    vw__plan_origin peak;                 /* the request that made the peak */
} vw__plan_moments;

/* VW_ERR_HOST_MEMORY */
VW_MUST_CHECK vw_status vw__plan_moments_find(const vw__plan_events *events, vw__plan_moments *out);

#endif /* VW_PLAN_PLAN_EVENTS_H */
