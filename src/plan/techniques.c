/* techniques.c - weighing techniques over a run. */
#include "plan/techniques.h"

#include <stdlib.h> /* qsort */
#include <string.h>

#include "headroom/analysis.h" /* HR_UNKNOWN */
#include "base/checked_math.h"
#include "base/error.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { LEAST_PART = 50 }; /* of the peak: what gives back less is not worth a line */

/* The peak as it was, and the most of gradients and of weights. */
static hr_status measure(hr__bargain *deal)
{
    hr__what_if questions[3] = {hr__what_if_nothing()};
    hr__what_if_peak peaks[3];
    questions[1].kept_permille[HR__PORTION_GRADIENTS] = 1000; /* and nothing else */
    questions[2].kept_permille[HR__PORTION_WEIGHTS] = 1000;
    HR__TRY(hr__what_if_ask(&deal->run, questions, COUNT_OF(questions), peaks));
    deal->base_bytes = peaks[0].bytes;
    deal->gradient_bytes = peaks[1].bytes;
    deal->weight_bytes = peaks[2].bytes;
    return HR_OK;
}

hr_status hr__bargain_begin(hr__bargain *deal)
{
    HR__TRY(hr__what_if_prepare(&deal->run));
    return measure(deal);
}

void hr__bargain_end(hr__bargain *deal)
{
    hr__what_if_deinit(&deal->run);
}

bool hr__bargain_is_missing_known(const hr__bargain *deal)
{
    return deal->missing_bytes != 0 && deal->missing_bytes != HR_UNKNOWN;
}

static hr_status weigh(hr__bargain *deal)
{
    hr__what_if questions[2 * HR__MOST_OFFERS];
    hr__what_if_peak peaks[2 * HR__MOST_OFFERS];
    for (size_t i = 0; i < deal->offer_count; i++) {
        questions[2 * i] = deal->offers[i].hopeful;
        questions[2 * i + 1] = deal->offers[i].cautious;
    }
    HR__TRY(hr__what_if_ask(&deal->run, questions, 2 * deal->offer_count, peaks));
    for (size_t i = 0; i < deal->offer_count; i++) {
        hr__offer *made = &deal->offers[i];
        if (!hr__sub_u64(deal->base_bytes, peaks[2 * i].bytes, &made->at_most_bytes))
            made->at_most_bytes = 0;
        if (!hr__sub_u64(deal->base_bytes, peaks[2 * i + 1].bytes, &made->at_least_bytes))
            made->at_least_bytes = 0;
        made->is_enough =
            hr__bargain_is_missing_known(deal) && made->at_least_bytes >= deal->missing_bytes;
    }
    return HR_OK;
}

/* Of the batches the largest that is surely enough, else the largest that may be, else half. */
static unsigned choose_batch(const hr__bargain *deal)
{
    unsigned maybe = 0;
    for (size_t i = 0; i < deal->offer_count && hr__bargain_is_missing_known(deal); i++) {
        const hr__offer *made = &deal->offers[i];
        if (made->batch_parts != 0 && made->is_enough)
            return made->batch_parts;
        if (made->batch_parts != 0 && maybe == 0 && made->at_most_bytes >= deal->missing_bytes)
            maybe = made->batch_parts;
    }
    return maybe != 0 ? maybe : 2;
}

static void drop_the_worthless(hr__bargain *deal)
{
    unsigned batch_parts = choose_batch(deal);
    size_t kept = 0;
    for (size_t i = 0; i < deal->offer_count; i++) {
        const hr__offer *made = &deal->offers[i];
        bool is_another_batch = made->batch_parts != 0 && made->batch_parts != batch_parts;
        if (!is_another_batch && made->at_most_bytes != 0 &&
            made->at_most_bytes >= deal->base_bytes / LEAST_PART)
            deal->offers[kept++] = *made;
    }
    deal->offer_count = kept;
}

static uint64_t worth_of(const hr__offer *made)
{
    uint64_t middle = made->at_least_bytes / 2 + made->at_most_bytes / 2;
    return middle / 100 * made->worth_percent;
}

/* The one to try first comes first. Of those that are enough that is the cheapest. */
static int compare_offers(const void *left, const void *right)
{
    const hr__offer *one = left, *other = right;
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

hr_status hr__bargain_strike(hr__bargain *deal)
{
    hr__bargain_list(deal);
    HR__TRY(weigh(deal));
    drop_the_worthless(deal);
    if (deal->extra != NULL && deal->offer_count < HR__MOST_OFFERS)
        deal->offers[deal->offer_count++] = *deal->extra;
    qsort(deal->offers, deal->offer_count, sizeof deal->offers[0], compare_offers);
    return HR_OK;
}
