/* stream_cost.c - how much longer a step takes in which data takes turns on the device.
 *
 * Production's schedules (vw_schedule_stream(), vw_schedule_saved()) say what leaves and when it
 * may return. What that costs is found by playing one step in time. Three things work side by side:
 * the GPU computes from mark to mark, one engine copies to the host, one copies back, each one
 * thing after the other.
 *
 *   out   State is copied from the beginning of the step on, and a saved tensor from the mark on at
 *         which it may leave. The two take turns, chunk by chunk: each has streams of its own.
 *         Room is there when a copy is complete. State leaves by parts up to the first
 *         mark that does not fit, as far as it is copied then.
 *   room  A mark that does not fit waits for copies to the host, until it does. Where nothing more
 *         can leave it is short, and the pool has to spill.
 *   in    At each mark what is due returns, if it fits: saved tensors in the order of their use,
 *         then state. A copy begins when the GPU has come to that mark, since the memory was in use
 *         before.
 *   use   The GPU waits for a saved tensor at its use, and for the state at the optimizer's step.
 *         State that does not fit then is touched over the bus, and stays away in the next step;
 *         so does what the passes hide no copies of.
 *
 * The next step begins with what this one left on the host. Steps are played until one leaves what
 * it found.
 *
 * Two costs do not depend on when things happen. What takes another's place is mapped anew, on the
 * way out and on the way back. And the program's thread makes calls: hooks in Python for each
 * tensor that is saved up to the last one that leaves, copies of those that do, and what is asked
 * about each tensor of the state. A program that runs ahead of the GPU makes them while it would
 * wait for it; one that is bound by the host takes that much longer.
 *
 * Invariants, checked in tests/unit/test_stream_cost.c:
 *   - where nothing lacks, nothing is copied and nothing waits
 *   - nothing is faster than the bus: what leaves within a pass and does not fit into its time is
 *     waited for
 *   - each number is finite where the step does not fit at all */
#include "analysis/stream_cost.h"

#include <stdbool.h>
#include <stdlib.h> /* qsort */
#include <string.h>

#include "analysis/spill_cost.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"

/* ---- the plan -------------------------------------------------------------------------------- */

static void schedule(const vw__stream_cost_step *step, uint64_t limit_bytes, uint64_t host_bytes,
                     uint64_t *scratch, vw__stream_cost_plan *plan)
{
    uint64_t *away_bytes = scratch + step->mark_count;
    plan->leave_bytes =
        vw_schedule_stream(step->live_bytes, step->mark_count, limit_bytes,
                           vw__min_u64(step->state_bytes, host_bytes), plan->back_bytes);
    plan->stay_bytes = vw_schedule_stay_bytes(step->live_bytes, step->mark_count, limit_bytes,
                                              plan->leave_bytes, step->hidden_bytes);
    for (size_t i = 0; i < step->mark_count; i++) {
        plan->back_bytes[i] =
            vw__min_u64(plan->back_bytes[i], plan->leave_bytes - plan->stay_bytes);
        away_bytes[i] = plan->leave_bytes - plan->back_bytes[i];
    }
    (void)vw_schedule_saved(step->live_bytes, away_bytes, step->mark_count, limit_bytes,
                            plan->items, step->item_count, scratch);
}

/* What finds no host memory stays. All saved tensors are away at one moment, more or less. */
static void fit_into_host(const vw__stream_cost_step *step, uint64_t host_bytes,
                          vw__stream_cost_plan *plan)
{
    plan->host_bytes = plan->leave_bytes;
    for (size_t i = 0; i < step->item_count; i++) {
        vw_saved_item *item = &plan->items[i];
        item->leaves = item->leaves && item->size_bytes <= host_bytes - plan->host_bytes;
        plan->host_bytes += item->leaves ? item->size_bytes : 0;
    }
}

vw_status vw__stream_cost_plan_make(const vw__stream_cost_step *step, uint64_t limit_bytes,
                                    uint64_t host_bytes, vw__stream_cost_plan *out)
{
    size_t mark_count = step->mark_count;
    uint64_t *scratch = vw__host_alloc_zeroed(2 * mark_count, sizeof *scratch);
    *out = (vw__stream_cost_plan){
        .back_bytes = vw__host_alloc_zeroed(mark_count, sizeof *out->back_bytes),
        .items = vw__host_alloc_zeroed(step->item_count, sizeof *out->items),
    };
    bool has_memory = scratch != NULL && out->back_bytes != NULL && out->items != NULL;
    if (has_memory) {
        if (step->item_count != 0)
            memcpy(out->items, step->items, step->item_count * sizeof *out->items);
        schedule(step, limit_bytes, host_bytes, scratch, out);
        fit_into_host(step, host_bytes, out);
    } else {
        vw__stream_cost_plan_deinit(out);
    }
    vw__host_free(scratch);
    return has_memory ? VW_OK
                      : vw__fail_host_memory(3 * mark_count * sizeof *scratch +
                                                 step->item_count * sizeof *out->items,
                                             "the schedule of a step");
}

void vw__stream_cost_plan_deinit(vw__stream_cost_plan *plan)
{
    vw__host_free(plan->back_bytes);
    vw__host_free(plan->items);
    *plan = (vw__stream_cost_plan){.leave_bytes = 0};
}

/* ---- the step under way ---------------------------------------------------------------------- */

enum { MOST_STEPS = 16 }; /* that are played; two or three are the rule */

/* The program's calls, on the processor beside an H200: docs/design/010-spill.md. */
enum {
    HOOKED_NS = 25 * 1000, /* for a saved tensor that stays */
    LEFT_NS = 60 * 1000,   /* for one that leaves and returns */
    STATE_NS = 6 * 1000    /* for a tensor of the state, in a step in which some of it leaves */
};

/* Where a saved tensor is. */
typedef enum saved_place { ON_DEVICE, QUEUED, AWAY, RETURNING } saved_place;

typedef struct saved_copy {
    const vw_saved_item *item;
    uint64_t ready_ns; /* when it could be copied out */
    uint64_t end_ns;   /* of its copy back */
    saved_place place;
} saved_copy;

typedef struct playing {
    const vw__stream_cost_step *step;
    const vw__stream_cost_plan *plan;
    uint64_t limit_bytes;
    size_t need_mark; /* vw_schedule_need_mark() */
    uint64_t now_ns;  /* the GPU's */
    uint64_t out_ns;  /* the engine to the host has done what it could up to here */
    uint64_t in_ns;   /* the engine back is busy up to here */

    saved_copy *copies;  /* those that leave, by the mark at which they may */
    saved_copy **by_use; /* the same, by the mark of their use */
    size_t copy_count;
    size_t queue_begin, queue_end; /* of `copies`: wait to be copied out */
    size_t first_use;              /* of by_use: those before are on the device for good */
    size_t gone_count;             /* queued, or away and not on their way back */
    uint64_t saved_away_bytes;

    uint64_t found_bytes;        /* of the state: were away when the step began */
    uint64_t state_due_bytes;    /* to be copied out */
    uint64_t state_copied_bytes; /* complete, and still on the device */
    uint64_t state_away_bytes;
    uint64_t state_back_ns; /* when all that returned is there */
    vw__stream_cost cost;
} playing;

static uint64_t on_device_bytes(const playing *play, uint64_t live_bytes)
{
    uint64_t away_bytes = play->saved_away_bytes + play->state_away_bytes;
    return live_bytes - vw__min_u64(away_bytes, live_bytes);
}

static void wait_until(playing *play, uint64_t time_ns, uint64_t *counted_ns)
{
    if (time_ns <= play->now_ns)
        return;
    *counted_ns += time_ns - play->now_ns;
    play->now_ns = time_ns;
}

/* ---- to the host ----------------------------------------------------------------------------- */

/* The bytes that are copied in so much time. */
static uint64_t copied_in(uint64_t time_ns)
{
    const uint64_t unit_bytes = UINT64_C(1) << 30;
    return (uint64_t)((double)time_ns / (double)vw__spill_cost_copy_ns(unit_bytes) *
                      (double)unit_bytes);
}

/* Skips those that were used before their turn came. Returns whether a saved tensor is next. */
static bool is_saved_next(playing *play)
{
    while (play->queue_begin < play->queue_end && play->copies[play->queue_begin].place != QUEUED)
        play->queue_begin++;
    return play->queue_begin < play->queue_end;
}

/* Copies up to `bytes` of the state. */
static void copy_state(playing *play, uint64_t bytes)
{
    bytes = vw__min_u64(bytes, play->state_due_bytes);
    play->state_due_bytes -= bytes;
    play->state_copied_bytes += bytes;
    play->out_ns += vw__spill_cost_copy_ns(bytes);
}

/* When the copy of the next saved tensor will be complete, in turns with the state. */
static uint64_t saved_end_ns(const playing *play)
{
    const saved_copy *copy = &play->copies[play->queue_begin];
    uint64_t size_bytes = copy->item->size_bytes;
    return vw__max_u64(play->out_ns, copy->ready_ns) + vw__spill_cost_copy_ns(size_bytes) +
           vw__spill_cost_copy_ns(vw__min_u64(size_bytes, play->state_due_bytes));
}

/* Copies the next saved tensor to its end, even if that is after now. */
static void copy_saved(playing *play)
{
    uint64_t end_ns = saved_end_ns(play);
    saved_copy *copy = &play->copies[play->queue_begin++];
    copy->place = AWAY;
    play->saved_away_bytes += copy->item->size_bytes;
    play->cost.saved_bytes += copy->item->size_bytes;
    copy_state(play, copy->item->size_bytes);
    play->out_ns = end_ns;
}

/* Lets the engine work up to now. A saved tensor that it would not complete waits for its turn:
 * nobody needs to know how far it is. */
static void work_out(playing *play)
{
    while (play->out_ns < play->now_ns) {
        if (is_saved_next(play)) {
            if (saved_end_ns(play) > play->now_ns)
                return;
            copy_saved(play);
        } else {
            copy_state(play, copied_in(play->now_ns - play->out_ns));
            play->out_ns = play->now_ns; /* idle, if nothing is due */
        }
    }
}

static void bind_state(playing *play, uint64_t bytes)
{
    play->state_away_bytes += bytes;
    play->cost.state_bytes += bytes;
    play->state_copied_bytes -= bytes;
}

/* State leaves by parts, as far as it is copied, up to the first mark that does not fit. */
static void bind_ahead(playing *play, size_t mark)
{
    uint64_t stayed_bytes = vw__min_u64(play->found_bytes, play->plan->leave_bytes);
    uint64_t wanted_bytes =
        stayed_bytes +
        vw_schedule_left_bytes(play->plan->leave_bytes - stayed_bytes, play->need_mark, mark);
    if (mark <= play->need_mark && play->state_away_bytes < wanted_bytes)
        bind_state(play,
                   vw__min_u64(wanted_bytes - play->state_away_bytes, play->state_copied_bytes));
}

/* Where something lacks, production frees a little more. */
static void make_room(playing *play, uint64_t live_bytes)
{
    if (on_device_bytes(play, live_bytes) <= play->limit_bytes)
        return;
    uint64_t room_bytes = vw_schedule_room_bytes(play->limit_bytes);
    while (on_device_bytes(play, live_bytes) > room_bytes) {
        uint64_t lacking_bytes = on_device_bytes(play, live_bytes) - room_bytes;
        if (play->state_copied_bytes != 0) {
            bind_state(play, play->state_copied_bytes);
        } else if (is_saved_next(play)) {
            copy_saved(play);
        } else if (play->state_due_bytes != 0) {
            copy_state(play, lacking_bytes);
        } else {
            uint64_t short_bytes = on_device_bytes(play, live_bytes);
            short_bytes -= vw__min_u64(play->limit_bytes, short_bytes);
            play->cost.short_bytes = vw__max_u64(play->cost.short_bytes, short_bytes);
            return;
        }
        wait_until(play, play->out_ns, &play->cost.room_wait_ns);
    }
}

/* ---- back ------------------------------------------------------------------------------------ */

/* Begins a copy to the device, now. Returns when it will be complete. */
static uint64_t copy_in(playing *play, uint64_t bytes)
{
    play->in_ns = vw__max_u64(play->in_ns, play->now_ns) + vw__spill_cost_copy_ns(bytes);
    return play->in_ns;
}

static uint64_t free_bytes(const playing *play, uint64_t live_bytes)
{
    uint64_t room_bytes = vw_schedule_room_bytes(play->limit_bytes);
    return room_bytes - vw__min_u64(on_device_bytes(play, live_bytes), room_bytes);
}

static void begin_return(playing *play, saved_copy *copy)
{
    play->saved_away_bytes -= copy->item->size_bytes;
    play->gone_count--;
    copy->place = RETURNING;
    copy->end_ns = copy_in(play, copy->item->size_bytes);
}

static void return_saved(playing *play, size_t mark, uint64_t live_bytes)
{
    for (size_t i = play->first_use; i < play->copy_count; i++) {
        saved_copy *copy = play->by_use[i];
        if (copy->item->back_mark > mark)
            return;
        if (copy->place != AWAY)
            continue;
        if (copy->item->size_bytes > free_bytes(play, live_bytes))
            return;
        begin_return(play, copy);
    }
}

/* Brings state back as far as no more than `wanted_bytes` are away, and it fits. */
static void return_state(playing *play, uint64_t wanted_bytes, uint64_t live_bytes)
{
    if (play->state_away_bytes <= wanted_bytes)
        return;
    uint64_t bytes =
        vw__min_u64(play->state_away_bytes - wanted_bytes, free_bytes(play, live_bytes));
    if (bytes == 0)
        return;
    play->state_away_bytes -= bytes;
    play->state_back_ns = copy_in(play, bytes);
}

static void use_saved(playing *play, size_t mark)
{
    for (; play->first_use < play->copy_count; play->first_use++) {
        saved_copy *copy = play->by_use[play->first_use];
        if (copy->item->until_mark > mark)
            return;
        if (copy->place == AWAY) /* there was no room before */
            begin_return(play, copy);
        if (copy->place == RETURNING)
            wait_until(play, copy->end_ns, &play->cost.saved_wait_ns);
        else if (copy->place == QUEUED)
            play->gone_count--; /* it has not left yet */
        copy->place = ON_DEVICE;
    }
}

/* ---- one step -------------------------------------------------------------------------------- */

static uint64_t state_wanted_away(const playing *play, size_t mark)
{
    return mark < play->step->mark_count ? play->plan->leave_bytes - play->plan->back_bytes[mark]
                                         : play->plan->stay_bytes;
}

static void queue_saved(playing *play, size_t mark)
{
    for (; play->queue_end < play->copy_count &&
           play->copies[play->queue_end].item->from_mark <= mark;
         play->queue_end++) {
        play->copies[play->queue_end].place = QUEUED;
        play->copies[play->queue_end].ready_ns = play->now_ns;
        play->gone_count++;
    }
}

/* Those that could leave are known, and others call hooks as well: about one more for two. */
static uint64_t calls_ns(const playing *play)
{
    size_t left_count = 0, hooked_count = 0;
    for (size_t i = 0; i < play->step->item_count; i++) {
        if (play->plan->items[i].leaves) {
            left_count++;
            hooked_count = i + 1;
        }
    }
    uint64_t state_ns = play->plan->leave_bytes != 0 ? play->step->state_count * STATE_NS : 0;
    return left_count * LEFT_NS + (hooked_count - left_count + hooked_count / 2) * HOOKED_NS +
           state_ns;
}

static void play_mark(playing *play, size_t mark)
{
    uint64_t live_bytes = play->step->live_bytes[mark];
    work_out(play);
    bind_ahead(play, mark);
    queue_saved(play, mark);
    use_saved(play, mark);
    return_saved(play, mark, live_bytes);
    if (play->gone_count == 0) /* state is used last */
        return_state(play, state_wanted_away(play, mark), live_bytes);
    make_room(play, live_bytes);
    play->now_ns += play->step->gpu_ns[mark];
}

/* State that is away stays there where the optimizer's own requests need the room. Nothing leaves
 * during its step. */
static void play_optimizer(playing *play)
{
    const vw__stream_cost_step *step = play->step;
    play->state_due_bytes = play->state_copied_bytes = 0; /* nobody wanted the room */
    play->queue_begin = play->queue_end;
    return_state(play, state_wanted_away(play, step->optimizer_mark), step->optimizer_live_bytes);
    wait_until(play, play->state_back_ns, &play->cost.state_wait_ns);
    play->cost.stayed_bytes = play->state_away_bytes;
    play->cost.touch_ns = vw__spill_cost_touch_ns(play->state_away_bytes);
    play->cost.map_ns = 2 * vw__spill_cost_map_ns(play->cost.state_bytes + play->cost.saved_bytes);
    play->cost.call_ns = calls_ns(play) - vw__min_u64(calls_ns(play), step->idle_ns);
    for (size_t i = step->optimizer_mark; i < step->mark_count; i++)
        make_room(play, step->live_bytes[i]);
}

/* `stayed_bytes` of the state are on the host from the step before. */
static void play_step(playing *play, uint64_t stayed_bytes)
{
    const vw__stream_cost_step *step = play->step;
    uint64_t leave_bytes = play->plan->leave_bytes;
    play->cost = (vw__stream_cost){.stayed_bytes = 0};
    play->now_ns = play->out_ns = play->in_ns = play->state_back_ns = 0;
    play->queue_begin = play->queue_end = play->first_use = 0;
    play->saved_away_bytes = play->state_copied_bytes = 0;
    play->gone_count = 0;
    play->found_bytes = play->state_away_bytes = stayed_bytes;
    play->state_due_bytes = leave_bytes - vw__min_u64(stayed_bytes, leave_bytes);
    for (size_t i = 0; i < play->copy_count; i++)
        play->copies[i].place = ON_DEVICE;
    for (size_t i = 0; i < step->optimizer_mark; i++)
        play_mark(play, i);
    play_optimizer(play);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int compare_from(const void *left, const void *right)
{
    const saved_copy *one = left, *other = right;
    uint32_t a = one->item->from_mark, b = other->item->from_mark;
    return a != b ? (a > b) - (a < b) : (one->item > other->item) - (one->item < other->item);
}

static int compare_use(const void *left, const void *right)
{
    const saved_copy *one = *(saved_copy *const *)left, *other = *(saved_copy *const *)right;
    uint32_t a = one->item->until_mark, b = other->item->until_mark;
    return a != b ? (a > b) - (a < b) : (one->item > other->item) - (one->item < other->item);
}

static void list_copies(playing *play)
{
    for (size_t i = 0; i < play->step->item_count; i++)
        if (play->plan->items[i].leaves)
            play->copies[play->copy_count++] = (saved_copy){.item = &play->plan->items[i]};
    qsort(play->copies, play->copy_count, sizeof *play->copies, compare_from);
    for (size_t i = 0; i < play->copy_count; i++)
        play->by_use[i] = &play->copies[i];
    qsort(play->by_use, play->copy_count, sizeof *play->by_use, compare_use);
}

vw_status vw__stream_cost_find(const vw__stream_cost_step *step, const vw__stream_cost_plan *plan,
                               uint64_t limit_bytes, vw__stream_cost *out)
{
    playing play = {
        .step = step,
        .plan = plan,
        .limit_bytes = limit_bytes,
        .need_mark = vw_schedule_need_mark(step->live_bytes, step->mark_count, limit_bytes),
        .copies = vw__host_alloc_zeroed(step->item_count, sizeof *play.copies),
        .by_use = vw__host_alloc_zeroed(step->item_count, sizeof(saved_copy *)),
    };
    bool has_memory = play.copies != NULL && play.by_use != NULL;
    if (has_memory) {
        uint64_t found_bytes = UINT64_MAX; /* on the host, when the step began */
        list_copies(&play);
        for (int i = 0; i < MOST_STEPS && play.cost.stayed_bytes != found_bytes; i++) {
            found_bytes = play.cost.stayed_bytes;
            play_step(&play, found_bytes);
        }
        *out = play.cost;
    }
    vw__host_free(play.copies);
    vw__host_free(play.by_use);
    return has_memory ? VW_OK
                      : vw__fail_host_memory(step->item_count * sizeof *play.copies,
                                             "the copies of a step");
}
