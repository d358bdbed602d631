/* techniques.h - what the usual techniques do to the peak of a recorded run.
 *
 * The doctor and plans from a recording choose their advice with it. The remedy (remedy/remedy.h)
 * says what each costs, which code it needs and what it changes.
 *
 * Every technique is two changes of sizes (what_if.h): what it leaves at best, and at worst. Both
 * are computed over the whole run; what they take off the peak is the range that is shown.
 *
 * What we did not do: add techniques up. They are not additive (with fewer activations the peak may
 * be the optimizer's step), and each pair would be a table of its own. */
#ifndef VW_PLAN_TECHNIQUES_H
#define VW_PLAN_TECHNIQUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/doctor.h" /* vw_enough */
#include "vramwise/status.h"
#include "analysis/roles.h"
#include "analysis/what_if.h"
#include "base/arena.h"
#include "model/memory_model.h"

/* ---- what a program uses already ------------------------------------------------------------- */

/* Techniques that stacks show. */
enum {
    VW__PLAN_USES_CHECKPOINTING = 1 << 0,
    VW__PLAN_USES_16_BITS = 1 << 1,
    VW__PLAN_USES_8_BIT_STATE = 1 << 2,
    VW__PLAN_USES_FOREACH = 1 << 3,
    VW__PLAN_USES_SHARDS = 1 << 4,
    VW__PLAN_USES_SEVERAL_GPUS = 1 << 5, /* or PyTorch sees several */
    VW__PLAN_USES_TRANSFORMERS = 1 << 6,
    VW__PLAN_USES_FUSED_LOSS = 1 << 7,
};

typedef struct vw__plan_uses {
    unsigned techniques;         /* VW__USES_... */
    bool has_backward, has_step; /* a backward pass, or a whole step, was seen */
    bool may_train;              /* a backward pass may be to come */
} vw__plan_uses;

/* Ignores passes that begin at `last_instant` or later. */
vw__plan_uses vw__plan_uses_find(const vw__model *model, const vw__roles *roles,
                                 uint32_t last_instant);

/* ---- what would help it ---------------------------------------------------------------------- */

#define VW__PLAN_MOST_OFFERS 16

/* A technique that is being weighed. Texts are static, or the arena's. */
typedef struct vw__plan_offer {
    const char *action, *cost, *how;
    vw__what_if hopeful, cautious;
    unsigned worth_percent; /* of a byte that it gives back: less where it costs more */
    unsigned batch_parts;   /* 0: it does not split the batch */
    bool is_last_resort;    /* other hardware, or slow */
    uint64_t at_least_bytes, at_most_bytes; /* that it takes off the peak */
    bool is_enough;                         /* at worst, for what is missing, which is known */
    bool is_replayed;                       /* a replay showed both; they were not computed */
} vw__plan_offer;

typedef struct vw__plan_bargain {
    /* The caller's. */
    vw__arena *arena; /* for texts */
    vw__what_if_run run;
    vw__plan_uses uses;
    bool is_graph_kept; /* by a forward pass that nothing follows: another finding says so */
    uint64_t portion_bytes[VW__PORTION_COUNT]; /* at the peak */
    uint64_t largest_bytes[VW__PORTION_COUNT]; /* of one block, there */
    uint64_t missing_bytes; /* set between the two calls below: what has to be given back; 0 and
                               VW_UNKNOWN: unknown */
    const vw__plan_offer *extra; /* likewise: an offer that the caller has weighed, or NULL */

    bool has_failed;                       /* a text found no host memory */
    uint64_t base_bytes;                   /* the peak as it was, the failed request included */
    uint64_t gradient_bytes, weight_bytes; /* the most of each, at any instant */
    vw__plan_offer offers[VW__PLAN_MOST_OFFERS];
    size_t offer_count;
} vw__plan_bargain;

/* Finds the recorded peak. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_bargain_begin(vw__plan_bargain *deal);

/* Weighs all techniques that may help, and keeps those that do, in the order in which to try them.
 * Those that are enough even at worst come first, the cheapest before all; then those that give
 * back most for their cost in time and effort. Those that need other hardware, or make every step
 * wait, come last. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__plan_bargain_strike(vw__plan_bargain *deal);

void vw__plan_bargain_end(vw__plan_bargain *deal);

bool vw__plan_bargain_is_missing_known(const vw__plan_bargain *deal);

/* Whether an offer that was weighed gives back what is missing. */
vw_enough vw__plan_bargain_enough(const vw__plan_bargain *deal, const vw__plan_offer *made);

#endif /* VW_PLAN_TECHNIQUES_H */
