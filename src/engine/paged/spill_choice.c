/* spill_choice.c - which memory leaves the device first, when some has to.
 *
 * Memory on the host is reached over the bus, at a thirtieth of the speed, each time it is touched.
 * So the memory that is touched least should leave; but the engine cannot see what is touched. It
 * knows the caller's advice and the age of each block. In this order:
 *
 *   class     who                                    why
 *   COLD      advised so                             the caller knows: an optimizer's state is
 *                                                    touched once a step
 *   SETTLED   lived through the last two steps, the  it outlived everything that belongs to a step.
 *             youngest first; in a program that      What a program makes first it uses most, the
 *             advises nothing                        weights above all, several times a step; what
 *                                                    it adds last and keeps is state of the update
 *   PASSING   not yet, the oldest first              it will be freed soon, and until then it is
 *                                                    in the middle of things. The first made of a
 *                                                    forward pass is the last needed by a backward
 *   KEPT      as SETTLED, in a program that advises  it would have said that it is cold. What a
 *                                                    library works with, say: with 32 MiB of
 *                                                    cuBLAS's workspace on the host a backward pass
 *                                                    took twice as long
 *   HOT       advised so                             only rather than run out of memory
 *
 * Where no steps are marked, a block is settled that is older than a quarter of all requests: in a
 * training loop that is longer than a step from the fourth step on, and earlier there is little
 * else to go by. In a program that advises nothing is settled before two steps were marked.
 *
 * Memory leaves in whole handles. One with several blocks is as good as the worst of them, and as
 * old as the largest. Handles of small blocks come last in their class: they hold many blocks, so
 * that many kernels touch them, and there is little to gain. Among equals the largest goes first,
 * which takes the fewest driver calls, then the lowest address, so that a replay chooses alike.
 *
 * What we did not do: look at the pages' access counters, which only few cards have, or guess from
 * sizes which blocks are alike.
 *
 * No state and no locks: safe from any thread. Checked in tests/unit/test_spill_choice.c. */
#include "engine/paged/spill_choice.h"

#include <string.h>

enum {
    STEPS_TO_SETTLE = 2,
    PARTS_OF_THE_PAST = 4, /* without steps */
};

void vw__paged_spill_mark(vw__paged_spill_clock *clock)
{
    memmove(clock->marks + 1, clock->marks, (VW__PAGED_SPILL_MARKS - 1) * sizeof clock->marks[0]);
    clock->marks[0] = clock->now;
    if (clock->mark_count < VW__PAGED_SPILL_MARKS)
        clock->mark_count++;
}

static bool is_settled(const vw__paged_spill_clock *clock, int64_t born)
{
    if (clock->mark_count < STEPS_TO_SETTLE)
        return !clock->is_advised && clock->now - born >= clock->now / PARTS_OF_THE_PAST;
    return born <= clock->marks[STEPS_TO_SETTLE - 1];
}

vw__paged_spill_class vw__paged_spill_classify(const vw__paged_spill_clock *clock, vw_advice advice,
                                               int64_t born)
{
    switch (advice) {
    case VW_ADVISE_COLD:
        return VW__PAGED_SPILL_COLD;
    case VW_ADVISE_HOT:
        return VW__PAGED_SPILL_HOT;
    case VW_ADVISE_NORMAL:
        break;
    }
    if (!is_settled(clock, born))
        return VW__PAGED_SPILL_PASSING;
    return clock->is_advised ? VW__PAGED_SPILL_KEPT : VW__PAGED_SPILL_SETTLED;
}

void vw__paged_spill_add(vw__paged_spill_candidate *candidate, const vw__paged_spill_clock *clock,
                         vw_advice advice, int64_t born, uint64_t bytes)
{
    vw__paged_spill_class found = vw__paged_spill_classify(clock, advice, born);
    candidate->used_bytes += bytes;
    if (found > candidate->worst)
        candidate->worst = found;
    if (bytes > candidate->largest_bytes) {
        candidate->largest_bytes = bytes;
        candidate->born = born;
    }
}

int vw__paged_spill_compare(const void *left, const void *right)
{
    const vw__paged_spill_candidate *a = left, *b = right;
    if (a->worst != b->worst)
        return a->worst < b->worst ? -1 : 1;
    if (a->is_small != b->is_small)
        return b->is_small ? -1 : 1;
    if (a->born != b->born)
        return (a->born > b->born) == (a->worst != VW__PAGED_SPILL_PASSING) ? -1 : 1;
    if (a->size_bytes != b->size_bytes)
        return a->size_bytes > b->size_bytes ? -1 : 1;
    return a->address < b->address ? -1 : a->address > b->address;
}
