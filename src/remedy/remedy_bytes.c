/* remedy_bytes.c - how the bytes of a remedy follow from the numbers at hand.
 *
 * Most take a share off each portion of a run, which the table has. Four also depend on other
 * numbers: a smaller batch on its parts, autocast on the weights it copies, the optimizer's step on
 * its largest tensor, inference on the largest activation. */
#include "vramwise/analysis.h" /* VW_UNKNOWN */
#include "base/checked_math.h"
#include "remedy/remedy.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum { ALL_PERMILLE = 1000 };
enum { EXPANDABLE_IDLE_SHARE = 4 }; /* of live bytes, at most */

/* ---- of a recorded run ----------------------------------------------------------------------- */

static void leave(vw__what_if *best, vw__what_if *worst, vw__portion portion,
                  unsigned best_permille, unsigned worst_permille)
{
    best->kept_permille[portion] = (uint16_t)best_permille;
    worst->kept_permille[portion] = (uint16_t)worst_permille;
}

/* Activations are in proportion to the batch; so is most of what passes need on the way, but not
 * the gradient of a weight: at worst a fifth of the saving is lost. */
static void shrink_batch(const vw__remedy_run *run, vw__what_if *best, vw__what_if *worst)
{
    static const vw__portion shrinking[] = {VW__PORTION_ACTIVATIONS, VW__PORTION_LOSS,
                                            VW__PORTION_PASS_WORK, VW__PORTION_DATA};
    unsigned parts = run->parts > 1 ? (unsigned)run->parts : 2;
    unsigned best_permille = (ALL_PERMILLE + parts - 1) / parts;
    unsigned worst_permille = ALL_PERMILLE - (ALL_PERMILLE - best_permille) * 8 / 10;
    for (size_t i = 0; i < COUNT_OF(shrinking); i++)
        leave(best, worst, shrinking[i], best_permille, worst_permille);
    leave(best, worst, VW__PORTION_KV_CACHE, best_permille, worst_permille);
}

/* Accumulating keeps a whole set of gradients through every forward pass, where one micro-batch had
 * none. Where no step was seen to its end it is not known how large that set is: at worst, as large
 * as the weights. */
static void accumulate(const vw__remedy_run *run, vw__what_if *best, vw__what_if *worst)
{
    leave(best, worst, VW__PORTION_KV_CACHE, ALL_PERMILLE, ALL_PERMILLE);
    leave(best, worst, VW__PORTION_GRADIENTS, 0, 0);
    best->added_bytes = run->gradient_bytes;
    worst->added_bytes =
        run->has_step ? run->gradient_bytes : vw__max_u64(run->gradient_bytes, run->weight_bytes);
}

/* Two blocks at best, and the five of a gated layer at worst, none larger than the largest. */
static void infer(const vw__remedy_run *run, vw__what_if *best, vw__what_if *worst)
{
    uint64_t largest = run->largest_activation_bytes, all = run->activation_bytes;
    best->added_bytes = largest > all / 2 ? all : 2 * largest;
    worst->added_bytes = largest > all / 5 ? all : 5 * largest;
}

void vw__remedy_what_if(vw__remedy_id id, const vw__remedy_run *run, vw__what_if *best,
                        vw__what_if *worst)
{
    const vw__remedy *remedy = vw__remedy_of(id);
    *best = *worst = vw__what_if_nothing();
    for (unsigned portion = 0; portion < VW__PORTION_COUNT; portion++)
        leave(best, worst, (vw__portion)portion,
              ALL_PERMILLE - remedy->of_portion[portion].most_permille,
              ALL_PERMILLE - remedy->of_portion[portion].least_permille);
    if (id == VW__REMEDY_SPLIT_BATCH || id == VW__REMEDY_SMALLER_BATCH)
        shrink_batch(run, best, worst);
    if (id == VW__REMEDY_SPLIT_BATCH)
        accumulate(run, best, worst);
    if (id == VW__REMEDY_AUTOCAST) /* a copy of the weights in 16 bits */
        best->added_bytes = worst->added_bytes = run->weight_bytes / 2;
    if (id == VW__REMEDY_FUSED_OPTIMIZER) /* one without a fused step loops */
        worst->added_bytes = run->largest_step_work_bytes;
    if (id == VW__REMEDY_INFERENCE_MODE)
        infer(run, best, worst);
}

/* ---- of a sum -------------------------------------------------------------------------------- */

static uint64_t share_of(uint64_t bytes, unsigned permille)
{
    return bytes / ALL_PERMILLE * permille + bytes % ALL_PERMILLE * permille / ALL_PERMILLE;
}

vw__remedy_range vw__remedy_of_live(vw__remedy_id id, uint64_t live_bytes, uint64_t parts)
{
    const vw__remedy_share share = vw__remedy_of(id)->of_live;
    if (live_bytes == VW_UNKNOWN || live_bytes == 0 || share.most_permille == 0)
        return (vw__remedy_range){VW_UNKNOWN, VW_UNKNOWN};
    uint64_t least = share_of(live_bytes, share.least_permille);
    uint64_t most = share_of(live_bytes, share.most_permille);
    if (id == VW__REMEDY_SPLIT_BATCH && parts > 1) {
        least -= least / parts;
        most -= most / parts;
    }
    return (vw__remedy_range){least, most};
}

vw__remedy_range vw__remedy_of_idle(uint64_t idle_bytes, uint64_t live_bytes)
{
    uint64_t stays = live_bytes / EXPANDABLE_IDLE_SHARE;
    return (vw__remedy_range){idle_bytes > stays ? idle_bytes - stays : 0, idle_bytes};
}

/* ---- is it enough, is it worth it ------------------------------------------------------------ */

vw_enough vw__remedy_enough(vw_basis basis, vw__remedy_range saved, uint64_t missing_bytes)
{
    if (basis == VW_BASIS_RULE || missing_bytes == 0 || missing_bytes == VW_UNKNOWN ||
        saved.at_least_bytes == VW_UNKNOWN || saved.at_most_bytes == VW_UNKNOWN)
        return VW_ENOUGH_UNKNOWN;
    if (saved.at_least_bytes >= missing_bytes)
        return VW_ENOUGH_YES;
    return saved.at_most_bytes < missing_bytes ? VW_ENOUGH_NO : VW_ENOUGH_UNKNOWN;
}

bool vw__remedy_is_empty_cache_worth_it(uint64_t idle_bytes, uint64_t reserved_bytes)
{
    return idle_bytes >= VW__REMEDY_EMPTY_CACHE_LEAST_BYTES &&
           idle_bytes >= reserved_bytes / VW__REMEDY_EMPTY_CACHE_LEAST_SHARE;
}
