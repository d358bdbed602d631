/* paged_habit.c - does the program take again what it gives back?
 *
 * Programs call empty_cache() in every step or at every change of phase, and take the same memory
 * again at once. Giving it back and making it anew costs 80 us a handle. So a call keeps what the
 * program is about to take again, and the memory still counts as reserved. A call keeps memory only
 * if all of this holds:
 *   - after an earlier call the program used at least half as much memory, beyond what is live at
 *     calls, as the last call found idle
 *   - there was a request since the last call: two calls in a row give everything back
 *   - about as much is live as at the last call, and not nearly nothing: the program is at the same
 *     place of its loop, and has not just deleted its model
 *   - it would take more than a moment: many handles are idle
 *   - the device has memory to spare for others
 * It keeps the most that was live between calls, less what is live now. That most is forgotten
 * little by little, so what is no longer used goes back a little at each call. The first call has
 * no call before it, so it gives everything back, as in PyTorch.
 *
 * The rule looks at nothing but requests, calls and the device's free memory. Replay follows it.
 * docs/design/006 has the figures. */
#include "engine/paged/paged_habit.h"

#include "base/checked_math.h"

enum {
    FEW_HANDLES = 8,       /* given back in a third of a millisecond */
    SPARE_PARTS = 20,      /* of the device: free memory that others can count on */
    MARGIN_PARTS = 32,     /* of what was used: kept beside it, since pages do not fit exactly */
    STEADY_EIGHTHS = 6,    /* of what was live at the last call */
    LEAST_LIVE_PARTS = 64, /* of what was used */
    FORGOTTEN_PARTS = 16,  /* of what was used before, at each call */
};

/* At least half of what the last call found idle. */
static bool took_it_again(const vw__paged_habit *habit, uint64_t used_bytes)
{
    return used_bytes > habit->live_bytes &&
           used_bytes - habit->live_bytes >= habit->idle_bytes / 2;
}

static bool is_at_the_same_place(const vw__paged_habit *habit, uint64_t live_bytes,
                                 uint64_t used_bytes)
{
    return live_bytes / STEADY_EIGHTHS >= habit->live_bytes / 8 &&
           live_bytes >= used_bytes / LEAST_LIVE_PARTS;
}

static bool can_others_have_some(const vw__paged_engine *engine)
{
    uint64_t free_bytes = 0, total_bytes = 0;
    uint64_t spare_bytes = engine->base.owner.keep_free_bytes;
    if (vw__paged_device(engine)->memory_info(vw__paged_context(engine), &free_bytes,
                                              &total_bytes) != VW_OK)
        return false;
    return free_bytes >= (spare_bytes != 0 ? spare_bytes : total_bytes / SPARE_PARTS);
}

uint64_t vw__paged_kept_by_habit(vw__paged_engine *engine)
{
    vw__paged_habit *habit = &engine->habit;
    uint64_t live_bytes = vw__paged_live_bytes(engine);
    uint64_t peak_bytes = vw__counters_peak_since_trim(engine->base.owner.counters);
    uint64_t used_bytes = habit->used_bytes - habit->used_bytes / FORGOTTEN_PARTS;
    used_bytes = vw__max_u64(used_bytes, peak_bytes);
    engine->peak_live_bytes = vw__max_u64(engine->peak_live_bytes, peak_bytes);

    bool repeats = habit->has_call && habit->clock != engine->clock &&
                   took_it_again(habit, used_bytes) &&
                   is_at_the_same_place(habit, live_bytes, used_bytes);
    uint64_t kept_bytes = 0;
    if (repeats && engine->candidate_count > FEW_HANDLES && can_others_have_some(engine))
        kept_bytes = used_bytes - live_bytes + used_bytes / MARGIN_PARTS;
    *habit = (vw__paged_habit){
        .has_call = true,
        .clock = engine->clock,
        .live_bytes = live_bytes,
        .idle_bytes = engine->candidate_bytes,
        .used_bytes = repeats ? used_bytes : 0,
    };
    return kept_bytes;
}
