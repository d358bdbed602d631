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
 * What we did not do: remember more than one step. A step that needs more than the last one is
 * served all the same, by copies that somebody waits for; to prepare for the worst of many steps
 * would move bytes in all of them.
 *
 * Invariants, checked in tests/unit/test_stream_schedule.c:
 *   - what leaves is at most the state, and nothing where everything fits
 *   - with the planned bytes away or back, no mark is beyond the limit, unless all of the state
 * away is not enough
 *   - the bytes that may be back never fall */
#include "vramwise/vramwise.h"

#include "base/checked_math.h"
#include "pool/stream_margin.h"

/* docs/design/010-spill.md has the measurements behind these. */
enum {
    PARTS = 4,      /* that leave together: each costs the program a call */
    LAG_SHARE = 8,  /* of the marks up to the first need: so long a saved tensor's copy may take */
    KEPT_SHARE = 32 /* of the device */
};

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

uint64_t vw_schedule_stream(const uint64_t *live_bytes, size_t mark_count, uint64_t limit_bytes,
                            uint64_t state_bytes, uint64_t *back_bytes)
{
    uint64_t room_bytes = vw__stream_margin_room(limit_bytes);
    uint64_t peak_bytes = 0;
    for (size_t i = 0; i < mark_count; i++)
        peak_bytes = vw__max_u64(peak_bytes, live_bytes[i]);
    uint64_t lacking_bytes = peak_bytes > room_bytes ? peak_bytes - room_bytes : 0;
    uint64_t leave_bytes = vw__min_u64(lacking_bytes, state_bytes);

    uint64_t highest_bytes = 0; /* from mark i to the end */
    for (size_t i = mark_count; i-- > 0;) {
        highest_bytes = vw__max_u64(highest_bytes, live_bytes[i]);
        uint64_t away_bytes = highest_bytes > room_bytes ? highest_bytes - room_bytes : 0;
        back_bytes[i] = leave_bytes - vw__min_u64(away_bytes, leave_bytes);
    }
    return leave_bytes;
}
