/* saved_schedule.c - which saved tensors leave the device in a step, and when they may return.
 *
 * The forward pass saves tensors that the backward pass uses in the opposite order. Where they do
 * not all fit, some are copied to the host in between. The last step says which: at each mark that
 * lacks room, the item leaves that is used last. As a rule it was saved first, so its copy has the
 * most time before the peak, and its return the most time after it. A later peak, as with gradient
 * accumulation, finds its own items.
 *
 * An item returns as early as it fits at every mark up to its use. Items that are used first come
 * first: one stream copies them in that order.
 *
 * What we did not do: weigh sizes, to leave as little as possible over. An item too much costs one
 * copy each way.
 *
 * Invariants, checked in tests/unit/test_saved_schedule.c:
 *   - nothing leaves where everything fits
 *   - no mark is beyond the limit with the items away, unless all that can leave is not enough
 *   - an item returns at its use at the latest, and only where it then fits at every mark up to it
 */
#include "vramwise/vramwise.h"

#include "base/checked_math.h"
#include "pool/stream_margin.h"

static bool is_away_at(const vw_saved_item *item, size_t mark)
{
    return item->from_mark <= mark && mark < item->until_mark;
}

/* The one that is used last, of those that can be away at `mark`; the larger one among equals. */
static vw_saved_item *used_last(vw_saved_item *items, size_t item_count, size_t mark)
{
    vw_saved_item *best = NULL;
    for (size_t i = 0; i < item_count; i++) {
        vw_saved_item *item = &items[i];
        if (item->leaves || !is_away_at(item, mark))
            continue;
        if (best == NULL || item->until_mark > best->until_mark ||
            (item->until_mark == best->until_mark && item->size_bytes > best->size_bytes))
            best = item;
    }
    return best;
}

/* `on_device_bytes[i]` is what is on the device at mark i. */
static void choose(uint64_t *on_device_bytes, size_t mark_count, uint64_t room_bytes,
                   vw_saved_item *items, size_t item_count)
{
    for (size_t mark = 0; mark < mark_count; mark++) {
        while (on_device_bytes[mark] > room_bytes) {
            vw_saved_item *item = used_last(items, item_count, mark);
            if (item == NULL)
                break; /* it is not enough */
            item->leaves = true;
            for (size_t i = item->from_mark; i < item->until_mark && i < mark_count; i++)
                on_device_bytes[i] -= vw__min_u64(item->size_bytes, on_device_bytes[i]);
        }
    }
}

static void bring_back(uint64_t *on_device_bytes, uint64_t room_bytes, vw_saved_item *item)
{
    while (item->back_mark > item->from_mark &&
           on_device_bytes[item->back_mark - 1] + item->size_bytes <= room_bytes) {
        item->back_mark--;
        on_device_bytes[item->back_mark] += item->size_bytes;
    }
}

/* Moves `*used` on to the next mark at which an item that leaves is used. False: there is none. */
static bool find_next_use(const vw_saved_item *items, size_t item_count, uint32_t *used)
{
    uint32_t next = UINT32_MAX;
    for (size_t i = 0; i < item_count; i++)
        if (items[i].leaves && items[i].until_mark > *used && items[i].until_mark < next)
            next = items[i].until_mark;
    *used = next;
    return next != UINT32_MAX;
}

uint64_t vw_schedule_saved(const uint64_t *live_bytes, const uint64_t *away_bytes,
                           size_t mark_count, uint64_t limit_bytes, vw_saved_item *items,
                           size_t item_count, uint64_t *scratch)
{
    uint64_t room_bytes = vw__stream_margin_room(limit_bytes);
    uint64_t lacking_bytes = 0;
    for (size_t i = 0; i < mark_count; i++) {
        uint64_t away = away_bytes != NULL ? away_bytes[i] : 0;
        scratch[i] = live_bytes[i] - vw__min_u64(away, live_bytes[i]);
        if (scratch[i] > room_bytes)
            lacking_bytes = vw__max_u64(lacking_bytes, scratch[i] - room_bytes);
    }
    for (size_t i = 0; i < item_count; i++) {
        items[i].leaves = false;
        items[i].until_mark = (uint32_t)vw__min_u64(items[i].until_mark, mark_count);
        items[i].back_mark = items[i].until_mark;
    }
    choose(scratch, mark_count, room_bytes, items, item_count);
    uint32_t used = 0;
    while (find_next_use(items, item_count, &used))
        for (size_t i = 0; i < item_count; i++)
            if (items[i].leaves && items[i].until_mark == used)
                bring_back(scratch, room_bytes, &items[i]);
    return lacking_bytes;
}
