/* techniques.h - what the usual techniques do to the peak of a recorded run.
 *
 * The doctor advises by it, and a plan from a recording says by it what makes the run fit. What
 * each costs, what is to be written for it and what it changes is the remedy's (remedy/remedy.h).
 *
 * Every technique is a change of sizes (what_if.h), twice: what it leaves at best, and what it
 * leaves at worst. Both are computed over the whole run, and what they take off the peak is the
 * range that is shown.
 *
 * What we did not do: add techniques up. They are not additive (with less activations the peak may
 * be the optimizer's step), and each pair would be a table of its own. */
#ifndef VW_PLAN_TECHNIQUES_H
#define VW_PLAN_TECHNIQUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramwise/doctor.h" /* vw_enough */
#include "vramwise/status.h"
#include "analysis/what_if.h"
#include "base/arena.h"
#include "plan/program_uses.h"

#define VW__MOST_OFFERS 16

/* A technique that is being weighed. Texts are static, or the arena's. */
typedef struct vw__offer {
    const char *action, *cost, *how;
    vw__what_if hopeful, cautious;
    unsigned worth_percent; /* of a byte that it gives back: less where it costs more */
    unsigned batch_parts;   /* 0: no matter of the batch */
    bool is_last_resort;    /* other hardware, or slow */
    uint64_t at_least_bytes, at_most_bytes; /* that it takes off the peak */
    bool is_enough;                         /* at worst, for what is missing, which is known */
    bool is_replayed;                       /* both were not computed: a replay showed them */
} vw__offer;

typedef struct vw__bargain {
    /* The caller's. */
    vw__arena *arena; /* for texts */
    vw__what_if_run run;
    vw__program_uses uses;
    bool is_graph_kept; /* that of a forward pass which nothing follows: told elsewhere */
    uint64_t portion_bytes[VW__PORTION_COUNT]; /* at the peak */
    uint64_t largest_bytes[VW__PORTION_COUNT]; /* of one block, there */
    uint64_t missing_bytes; /* set between the two calls below: what has to be given back; 0 and
                               VW_UNKNOWN: that is not known */
    const vw__offer *extra; /* likewise: one that the caller has weighed himself, or NULL */

    bool has_failed;                       /* a text found no host memory */
    uint64_t base_bytes;                   /* the peak as it was, the failed request included */
    uint64_t gradient_bytes, weight_bytes; /* the most of each, at any instant */
    vw__offer offers[VW__MOST_OFFERS];
    size_t offer_count;
} vw__bargain;

/* Finds the peak as it was. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__bargain_begin(vw__bargain *deal);

/* Weighs all techniques that may help, and leaves those that do, in the order in which to try them:
 * what is enough even at worst comes first, the cheapest of it before all; then what gives back
 * most for its cost in time and effort. What needs other hardware, or makes every step wait for it,
 * is last, whatever it gives. VW_ERR_HOST_MEMORY. */
VW_MUST_CHECK vw_status vw__bargain_strike(vw__bargain *deal);

void vw__bargain_end(vw__bargain *deal);

bool vw__bargain_is_missing_known(const vw__bargain *deal);

/* Whether an offer that was weighed gives back what is missing. */
vw_enough vw__bargain_enough(const vw__bargain *deal, const vw__offer *made);

/* technique_offers.c: every technique that may help, not weighed. */
void vw__bargain_list(vw__bargain *deal);

#endif /* VW_PLAN_TECHNIQUES_H */
