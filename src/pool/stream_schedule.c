/* stream_schedule.c - when an optimizer's state leaves the device, and when it returns.
 *
 * State is used once a step; activations fill the device in between. Where both together do not fit
 * they can take turns: state leaves behind the forward pass and returns behind the backward pass,
 * as activations are freed. Copies run beside the computation, so what counts is only that the
 * bytes are never needed twice at one moment.
 *
 * The last step says when that is. Of each moment only what follows matters: bytes that return stay
 * until the step is over, so at every later mark there must be room for them. Hence the highest
 * moment still to come decides, and the bytes that may be back rise as the step goes on. With
 * gradient accumulation the last of several peaks is what they wait for, without a rule for it.
 *
 * No more leaves than the highest moment lacks.
 *
 * Copies that neither pass hides cost twice their time, once each way, and the memory that they
 * give up and take has to be put together. State that stays on the host is used there by the
 * optimizer, in both directions at once: that costs the time hardly more than once. So as much
 * takes turns as is copied in half of the computation, which is between what the forward pass hides
 * and what the backward pass does, and the rest stays. Saved tensors have to take turns, so they
 * come first.
 *
 * What we did not do: remember more than one step. A step that needs more than the last one is
 * served all the same, by copies that somebody waits for; to prepare for the worst of many steps
 * would move bytes in all of them.
 *
 * Invariants, checked in tests/unit/test_stream_schedule.c:
 *   - what leaves is at most the state, and nothing where everything fits
 *   - with the planned bytes away or back, no mark is beyond the limit, unless all of the state
 * away is not enough
 *   - the bytes that may be back never fall
 *   - of what leaves, no more is ever back than is not to stay
 *   - a longer step hides no less, and copies that take longer hide no more */
#include "vramwise/vramwise.h"

#include "base/checked_math.h"
#include "pool/stream_margin.h"

/* docs/design/010-spill.md has the measurements behind these. */
enum {
    PARTS = 4,      /* that leave together: each costs the program a call */
    LAG_SHARE = 8,  /* of the marks up to the first need: so long a saved tensor's copy may take */
    KEPT_SHARE = 32 /* of the device */
};

/* So many times as long as a copy one way takes what is read and written on the host. */
#define BOTH_WAYS 1.15

size_t vw_schedule_need_mark(const uint64_t *live_bytes, size_t mark_count, uint64_t limit_bytes)
{
    size_t mark = 0;
    while (mark < mark_count && live_bytes[mark] <= limit_bytes)
        mark++;
    return mark;
}

uint64_t vw_schedule_left_bytes(uint64_t leave_bytes, size_t need_mark, size_t mark)
{
    size_t part = mark / (need_mark / (PARTS + 1) + 1);
    if (mark >= need_mark || part >= PARTS)
        return leave_bytes;
    return leave_bytes / PARTS * part;
}

size_t vw_schedule_left_mark(size_t need_mark, size_t from_mark)
{
    return from_mark + need_mark / LAG_SHARE;
}

uint64_t vw_schedule_room_bytes(uint64_t limit_bytes)
{
    return limit_bytes - limit_bytes / KEPT_SHARE;
}

/* The most that a mark lacks while everything is there. */
static uint64_t lacking_bytes_at_most(const uint64_t *live_bytes, size_t mark_count,
                                      uint64_t limit_bytes)
{
    uint64_t room_bytes = vw__stream_margin_room(limit_bytes);
    uint64_t peak_bytes = 0;
    for (size_t i = 0; i < mark_count; i++)
        peak_bytes = vw__max_u64(peak_bytes, live_bytes[i]);
    return peak_bytes > room_bytes ? peak_bytes - room_bytes : 0;
}

uint64_t vw_schedule_stream(const uint64_t *live_bytes, size_t mark_count, uint64_t limit_bytes,
                            uint64_t state_bytes, uint64_t *back_bytes)
{
    uint64_t room_bytes = vw__stream_margin_room(limit_bytes);
    uint64_t leave_bytes =
        vw__min_u64(lacking_bytes_at_most(live_bytes, mark_count, limit_bytes), state_bytes);

    uint64_t highest_bytes = 0; /* from mark i to the end */
    for (size_t i = mark_count; i-- > 0;) {
        highest_bytes = vw__max_u64(highest_bytes, live_bytes[i]);
        uint64_t away_bytes = highest_bytes > room_bytes ? highest_bytes - room_bytes : 0;
        back_bytes[i] = leave_bytes - vw__min_u64(away_bytes, leave_bytes);
    }
    return leave_bytes;
}

uint64_t vw_schedule_stay_bytes(const uint64_t *live_bytes, size_t mark_count, uint64_t limit_bytes,
                                uint64_t leave_bytes, uint64_t hidden_bytes)
{
    uint64_t turning_bytes =
        vw__max_u64(leave_bytes, lacking_bytes_at_most(live_bytes, mark_count, limit_bytes));
    uint64_t beyond_bytes = turning_bytes - vw__min_u64(hidden_bytes, turning_bytes);
    return vw__min_u64(beyond_bytes, leave_bytes);
}

/* The forward pass is taken to be a third of the computation, and the backward pass the rest. Where
 * a step takes less than both copies, it only says how long the computation is at most. */
uint64_t vw_schedule_hidden_bytes(uint64_t step_ns, uint64_t turned_bytes, uint64_t stayed_bytes,
                                  uint64_t gib_ns)
{
    const double gib = (double)(UINT64_C(1) << 30);
    if (gib_ns == 0)
        return UINT64_MAX;
    double turned_ns = (double)turned_bytes / gib * (double)gib_ns;
    double stayed_ns = BOTH_WAYS * (double)stayed_bytes / gib * (double)gib_ns;
    double passes_ns = (double)step_ns > stayed_ns ? (double)step_ns - stayed_ns : 0;
    if (3 * turned_ns > passes_ns) {
        double beside_ns = 1.5 * (passes_ns - turned_ns);
        passes_ns = beside_ns > 0.75 * passes_ns ? beside_ns : 0.75 * passes_ns;
    }
    double hidden_bytes = passes_ns / 2 / (double)gib_ns * gib;
    return hidden_bytes < (double)(UINT64_MAX / 2) ? (uint64_t)hidden_bytes : UINT64_MAX;
}
