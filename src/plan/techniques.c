/* techniques.c - weighing techniques over a run. */
#include "plan/techniques.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "vramwise/analysis.h" /* VW_UNKNOWN */
#include "base/checked_math.h"
#include "base/error.h"
#include "remedy/remedy.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { LEAST_PART = 50 }; /* of the peak: what gives back less is not worth a line */

/* The peak as it was, and the most of gradients and of weights. */
static vw_status measure(vw__bargain *deal)
{
    vw__what_if questions[3] = {vw__what_if_nothing()};
    vw__what_if_peak peaks[3];
    questions[1].kept_permille[VW__PORTION_GRADIENTS] = 1000; /* and nothing else */
    questions[2].kept_permille[VW__PORTION_WEIGHTS] = 1000;
    VW__TRY(vw__what_if_ask(&deal->run, questions, COUNT_OF(questions), peaks));
    deal->base_bytes = peaks[0].bytes;
    deal->gradient_bytes = peaks[1].bytes;
    deal->weight_bytes = peaks[2].bytes;
    return VW_OK;
}

vw_status vw__bargain_begin(vw__bargain *deal)
{
    VW__TRY(vw__what_if_prepare(&deal->run));
    return measure(deal);
}

void vw__bargain_end(vw__bargain *deal)
{
    vw__what_if_deinit(&deal->run);
}

bool vw__bargain_is_missing_known(const vw__bargain *deal)
{
    return deal->missing_bytes != 0 && deal->missing_bytes != VW_UNKNOWN;
}

vw_enough vw__bargain_enough(const vw__bargain *deal, const vw__offer *made)
{
    if (made->is_replayed)
        return made->is_enough ? VW_ENOUGH_YES : VW_ENOUGH_UNKNOWN;
    return vw__remedy_enough(VW_BASIS_COMPUTED,
                             (vw__remedy_range){made->at_least_bytes, made->at_most_bytes},
                             deal->missing_bytes);
}

static vw_status weigh(vw__bargain *deal)
{
    vw__what_if questions[2 * VW__MOST_OFFERS];
    vw__what_if_peak peaks[2 * VW__MOST_OFFERS];
    for (size_t i = 0; i < deal->offer_count; i++) {
        questions[2 * i] = deal->offers[i].hopeful;
        questions[2 * i + 1] = deal->offers[i].cautious;
    }
    VW__TRY(vw__what_if_ask(&deal->run, questions, 2 * deal->offer_count, peaks));
    for (size_t i = 0; i < deal->offer_count; i++) {
        vw__offer *made = &deal->offers[i];
        if (!vw__sub_u64(deal->base_bytes, peaks[2 * i].bytes, &made->at_most_bytes))
            made->at_most_bytes = 0;
        if (!vw__sub_u64(deal->base_bytes, peaks[2 * i + 1].bytes, &made->at_least_bytes))
            made->at_least_bytes = 0;
        made->is_enough = vw__bargain_enough(deal, made) == VW_ENOUGH_YES;
    }
    return VW_OK;
}

/* Of the batches the largest that is surely enough, else the largest that may be, else half. */
static unsigned choose_batch(const vw__bargain *deal)
{
    unsigned maybe = 0;
    for (size_t i = 0; i < deal->offer_count && vw__bargain_is_missing_known(deal); i++) {
        const vw__offer *made = &deal->offers[i];
        if (made->batch_parts != 0 && made->is_enough)
            return made->batch_parts;
        if (made->batch_parts != 0 && maybe == 0 && made->at_most_bytes >= deal->missing_bytes)
            maybe = made->batch_parts;
    }
    return maybe != 0 ? maybe : 2;
}

static void drop_the_worthless(vw__bargain *deal)
{
    unsigned batch_parts = choose_batch(deal);
    size_t kept = 0;
    for (size_t i = 0; i < deal->offer_count; i++) {
        const vw__offer *made = &deal->offers[i];
        bool is_another_batch = made->batch_parts != 0 && made->batch_parts != batch_parts;
        if (!is_another_batch && made->at_most_bytes != 0 &&
            made->at_most_bytes >= deal->base_bytes / LEAST_PART)
            deal->offers[kept++] = *made;
    }
    deal->offer_count = kept;
}

static uint64_t worth_of(const vw__offer *made)
{
    uint64_t middle = made->at_least_bytes / 2 + made->at_most_bytes / 2;
    return middle / 100 * made->worth_percent;
}

/* The one to try first comes first. Of those that are enough that is the cheapest. */
static int compare_offers(const void *left, const void *right)
{
    const vw__offer *one = left, *other = right;
    if (one->is_last_resort != other->is_last_resort)
        return one->is_last_resort ? 1 : -1;
    if (one->is_enough != other->is_enough)
        return one->is_enough ? -1 : 1;
    if (one->is_enough && one->worth_percent != other->worth_percent)
        return one->worth_percent > other->worth_percent ? -1 : 1;
    uint64_t worth = worth_of(one), other_worth = worth_of(other);
    if (worth != other_worth)
        return worth > other_worth ? -1 : 1;
    return strcmp(one->action, other->action);
}

vw_status vw__bargain_strike(vw__bargain *deal)
{
    vw__bargain_list(deal);
    if (deal->has_failed)
        return vw__fail_host_memory(0, "the words of a remedy");
    VW__TRY(weigh(deal));
    drop_the_worthless(deal);
    if (deal->extra != NULL && deal->offer_count < VW__MOST_OFFERS)
        deal->offers[deal->offer_count++] = *deal->extra;
    qsort(deal->offers, deal->offer_count, sizeof deal->offers[0], compare_offers);
    return VW_OK;
}
