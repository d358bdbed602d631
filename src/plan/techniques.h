/* techniques.h - what the usual techniques do to the peak of a recorded run.
 *
 * One place for what each of them changes, what it costs and what is to be written: the doctor
 * advises by it, and a plan from a recording says by it what makes the run fit.
 *
 * Every technique is a change of sizes (what_if.h), twice: what it leaves at best, and what it
 * leaves at worst. Both are computed over the whole run, and what they take off the peak is the
 * range that is shown.
 *
 * What we did not do: add techniques up. They are not additive (with less activations the peak may
 * be the optimizer's step), and each pair would be a table of its own. */
#ifndef HR_PLAN_TECHNIQUES_H
#define HR_PLAN_TECHNIQUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "headroom/status.h"
#include "analysis/what_if.h"
#include "plan/program_uses.h"

#define HR__MOST_OFFERS 16

/* A technique that is being weighed. Texts are static; of an extra one they outlive the bargain. */
typedef struct hr__offer {
    const char *action, *cost, *how;
    hr__what_if hopeful, cautious;
    unsigned worth_percent; /* of a byte that it gives back: less where it costs more */
    unsigned batch_parts;   /* 0: no matter of the batch */
    bool is_last_resort;    /* other hardware, or slow */
    uint64_t at_least_bytes, at_most_bytes; /* that it takes off the peak */
    bool is_enough;                         /* at worst, for what is missing */
    bool is_replayed;                       /* that is not computed, but was run */
} hr__offer;

typedef struct hr__bargain {
    /* The caller's. */
    hr__what_if_run run;
    hr__program_uses uses;
    bool is_graph_kept; /* that of a forward pass which nothing follows: told elsewhere */
    uint64_t portion_bytes[HR__PORTION_COUNT]; /* at the peak */
    uint64_t largest_bytes[HR__PORTION_COUNT]; /* of one block, there */
    uint64_t missing_bytes; /* set between the two calls below: what has to be given back; 0 and
                               HR_UNKNOWN: that is not known */
    const hr__offer *extra; /* likewise: one that the caller has weighed himself, or NULL */

    uint64_t base_bytes;                   /* the peak as it was, the failed request included */
    uint64_t gradient_bytes, weight_bytes; /* the most of each, at any instant */
    hr__offer offers[HR__MOST_OFFERS];
    size_t offer_count;
} hr__bargain;

/* Finds the peak as it was. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__bargain_begin(hr__bargain *deal);

/* Weighs all techniques that may help, and leaves those that do, in the order in which to try them:
 * what is enough even at worst comes first, the cheapest of it before all; then what gives back
 * most for its cost in time and effort. What needs other hardware, or makes every step wait for it,
 * is last, whatever it gives. HR_ERR_HOST_MEMORY. */
HR_MUST_CHECK hr_status hr__bargain_strike(hr__bargain *deal);

void hr__bargain_end(hr__bargain *deal);

bool hr__bargain_is_missing_known(const hr__bargain *deal);

/* technique_offers.c: every technique that may help, not weighed. */
void hr__bargain_list(hr__bargain *deal);

#endif /* HR_PLAN_TECHNIQUES_H */
