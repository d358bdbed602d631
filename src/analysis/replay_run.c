/* replay_run.c - one run: the script from its beginning, and what became of it.
 *
 * A request that the recording served and this run cannot serve ends the run: what the program
 * would have done without its memory is unknown. A request that failed in the recording as well is
 * tried, and the script goes on in any case, since the program's next steps are recorded.
 *
 * The run's own peak of live bytes is counted here only if it ended early, or served what failed in
 * the recording; else it is the script's.
 *
 * Addresses. PyTorch takes the lowest address among equally good free blocks, so where the driver
 * put each segment decides how memory fragments, now and then by whole segments. Under other
 * settings nobody knows the addresses, and the device makes them up. Under the recorded settings
 * segment_alloc says which address came of which request. That holds as long as the run takes and
 * gives back what was recorded: after each operation that did either, what is reserved is compared.
 * From the first difference on, addresses are made up, below those that were dictated, as a driver
 * would mostly go on. Expandable segments are not followed: their ties are decided within one
 * range, whose beginning is not recorded.
 *
 * Several runs. Threads take the next job from a counter until none is left. The calling thread
 * works as well, and it alone talks to the caller's progress function; the others look at a flag.
 * A failure of one job ends all: it is one of host memory, or a file that contradicts itself, and
 * would strike the others too.
 *
 * A run has *settled* once a quarter of the events is behind it. A program that trains does the
 * same over and over, and takes most of its memory the first time: what a setting costs in the
 * driver for good is what it costs from there on. */
#include "analysis/replay.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/live_bytes.h"
#include "analysis/player.h"
#include "analysis/spill_cost.h"
#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"

#define NS_PER_US UINT64_C(1000)

/* At the time, which takes a hundredth of what so many operations take. In a recording that is made
 * for it an operation takes a tenth of a second. */
enum { OPS_BETWEEN_LOOKS = 32, SETTLED_AFTER_SHARE = 4 };

/* ---- live bytes ------------------------------------------------------------------------------ */

/* How to count. */
typedef struct live_rules {
    bool waits_for_streams; /* a freed block is live until its free completed */
    bool serves_failed;     /* requests that failed in the recording are live for a moment */
} live_rules;

/* Live bytes while the script runs. */
typedef struct live_count {
    uint64_t *slot_bytes; /* owned */
    uint64_t *user_bytes; /* owned: freed, while that stream still works on it */
    uint64_t live_bytes;
    uint64_t peak_bytes;
} live_count;

static void count_live(live_count *count, const vw__script_op *op, live_rules rules)
{
    if (op->kind == VW__SCRIPT_ALLOC) {
        uint64_t bytes = vw__lifetime_bytes_of(op->size_bytes);
        count->slot_bytes[op->slot] = bytes != VW__MODEL_UNKNOWN_BYTES ? bytes : 0;
        count->live_bytes += count->slot_bytes[op->slot];
        count->peak_bytes = vw__max_u64(count->peak_bytes, count->live_bytes);
    } else if (op->kind == VW__SCRIPT_FREE ||
               (op->kind == VW__SCRIPT_FREE_LATER && !rules.waits_for_streams)) {
        count->live_bytes -= count->slot_bytes[op->slot];
        count->slot_bytes[op->slot] = 0;
    } else if (op->kind == VW__SCRIPT_FREE_LATER) {
        count->user_bytes[op->user] = count->slot_bytes[op->slot];
        count->slot_bytes[op->slot] = 0;
    } else if (op->kind == VW__SCRIPT_COMPLETE) {
        count->live_bytes -= count->user_bytes[op->user];
        count->user_bytes[op->user] = 0;
    } else if (op->kind == VW__SCRIPT_OOM && rules.serves_failed) {
        uint64_t bytes = vw__lifetime_bytes_of(op->size_bytes);
        if (bytes != VW__MODEL_UNKNOWN_BYTES)
            count->peak_bytes = vw__max_u64(count->peak_bytes, count->live_bytes + bytes);
    }
}

static vw_status find_peak(const vw__script *script, size_t op_end, live_rules rules, uint64_t *out)
{
    live_count count = {
        .slot_bytes = vw__host_alloc_zeroed(script->slot_count, sizeof(uint64_t)),
        .user_bytes = vw__host_alloc_zeroed(script->user_count, sizeof(uint64_t)),
    };
    vw_status status = VW_OK;
    if (count.slot_bytes == NULL || count.user_bytes == NULL) {
        status = vw__fail_host_memory((script->slot_count + script->user_count) * sizeof(uint64_t),
                                      "counting live bytes");
    } else {
        for (size_t i = 0; i < op_end; i++)
            count_live(&count, &script->ops[i], rules);
        *out = count.peak_bytes;
    }
    vw__host_free(count.slot_bytes);
    vw__host_free(count.user_bytes);
    return status;
}

vw_status vw__replay_least_bytes(const vw__script *script, uint64_t *out)
{
    return find_peak(script, script->op_count, (live_rules){false, false}, out);
}

/* ---- the recorded addresses ------------------------------------------------------------------ */

/* How far a run has got the recorded addresses. */
typedef struct follow_state {
    const vw__replay_work *work;
    size_t next; /* in work->followed */
    size_t end;  /* as far as it goes; then addresses are made up */
} follow_state;

/* Before the operation followed[next]: dictates the addresses that the driver gave during it. */
static vw_status dictate_addresses(const follow_state *follow, vw_device *device)
{
    const vw__script *script = &follow->work->script;
    const vw__script_op *op = &script->ops[follow->work->followed[follow->next].op];
    for (size_t i = op->first_event; i < op->end_event; i++)
        if (script->trace->events[i].action == VW_ACTION_SEGMENT_ALLOC)
            VW__TRY(vw_simulated_dictate_address(device, script->trace->events[i].address));
    return VW_OK;
}

/* After it: 0 if the pool holds as much as was recorded, negative if less, positive if more. */
static int compare_held(const follow_state *follow, const vw_device *device)
{
    vw_device_calls calls;
    uint64_t recorded_bytes = follow->work->followed[follow->next].reserved_bytes;
    if (vw_device_get_calls(device, &calls) != VW_OK)
        return -1;
    return (calls.in_use_bytes > recorded_bytes) - (calls.in_use_bytes < recorded_bytes);
}

/* ---- playing --------------------------------------------------------------------------------- */

typedef struct run_state {
    const vw__replay_work *work;
    const vw__replay_progress *progress; /* or NULL */
    vw__player player;
    vw_replay_result *result;
    vw__replay_setting setting;
    const vw__player_move *moves; /* of streams */
    size_t move_count;
    uint64_t stream_host_bytes;
    bool is_trial;
    size_t settled_op;                   /* the first after a quarter of the events */
    uint64_t settled_from_ns;            /* spent in the driver before it */
    const vw__replay_listener *listener; /* or NULL */
    uint64_t heard_bytes, heard_peak_bytes;
    follow_state follow;
    bool has_diverged; /* at followed[follow.next]: not as recorded */
    bool holds_more;   /* than was recorded there */
    size_t next;       /* operation */
    vw__player_time time;
    bool is_over;
} run_state;

vw_status vw__replay_tell(const vw__replay_progress *progress, double done)
{
    if (progress == NULL || progress->progress == NULL)
        return VW_OK;
    double all_done = progress->base + progress->share * done;
    return progress->progress(progress->context, all_done < 1.0 ? all_done : 1.0)
               ? VW_OK
               : vw__fail(VW_ERR_WRONG_STATE, "the replay was stopped");
}

static void note_first_oom(run_state *run, const vw__script_op *op, vw_status status)
{
    vw_replay_result *result = run->result;
    vw_oom_report report = {.struct_size = sizeof report};
    if (result->has_oom)
        return;
    result->has_oom = true;
    result->is_complete = false;
    result->oom_event = op->end_event == VW__SCRIPT_BEFORE_RECORDING || op->end_event == 0
                            ? VW_UNKNOWN
                            : op->end_event - 1;
    result->oom_tried_bytes = op->size_bytes;
    if (status == VW_ERR_TOO_LARGE || vw_last_out_of_memory(&report) != VW_OK)
        return;
    result->oom_tried_bytes = report.segment_bytes;
    result->oom_reserved_bytes = report.reserved_bytes;
    result->oom_allocated_bytes = report.allocated_bytes;
}

/* Decides whether the run goes on after an operation that failed. */
static vw_status judge_failure(run_state *run, size_t stopped, vw_status status)
{
    const vw__script_op *op = &run->work->script.ops[stopped];
    bool failed_before = op->kind == VW__SCRIPT_OOM;
    if (status == VW_ERR_TOO_LARGE && !failed_before)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "event %" PRIu32 " claims that a request of %" PRIu64
                        " bytes was served: less than 2^60 bytes is expected",
                        op->end_event - 1, op->size_bytes);
    if (status != VW_ERR_OUT_OF_MEMORY && status != VW_ERR_REJECTED && status != VW_ERR_TOO_LARGE)
        return status;
    note_first_oom(run, op, status);
    run->is_over = !failed_before || run->is_trial;
    run->next = run->is_over ? stopped : stopped + 1;
    return VW_OK;
}

static vw_status play_up_to(run_state *run, size_t end)
{
    size_t op_count = run->work->script.op_count;
    while (run->next < end && !run->is_over) {
        size_t part_end = end;
        if (run->next < run->settled_op && run->settled_op < end)
            part_end = run->settled_op;
        if (part_end - run->next > OPS_BETWEEN_LOOKS)
            part_end = run->next + OPS_BETWEEN_LOOKS;
        size_t stopped = run->next;
        vw_status status = vw__player_play(&run->player, run->next, part_end, &stopped);
        run->next = stopped;
        if (status != VW_OK)
            VW__TRY(judge_failure(run, stopped, status));
        if (run->next == run->settled_op)
            run->settled_from_ns = *run->player.elapsed_ns;
        VW__TRY(vw__player_time_check_shared(&run->time, run->work->script.model));
        VW__TRY(vw__replay_tell(run->progress, (double)run->next / (double)op_count));
    }
    return VW_OK;
}

/* Gives the pool the addresses that PyTorch got, as long as it does what PyTorch did. An address
 * that it does not take would go to the next request, so one run finds where it stops following,
 * and a second one stops there. */
static vw_status play_followed(run_state *run)
{
    follow_state *follow = &run->follow;
    for (; follow->next < follow->end && !run->is_over; follow->next++) {
        size_t op = follow->work->followed[follow->next].op;
        VW__TRY(play_up_to(run, op));
        if (run->is_over)
            return VW_OK;
        vw_status status = dictate_addresses(follow, run->player.device);
        if (status == VW_OK)
            status = play_up_to(run, op + 1);
        int difference = 0;
        if (status == VW_ERR_INVALID_ARGUMENT) /* an address it cannot have: it still holds it */
            difference = 1;
        else if (status == VW_OK && !run->is_over)
            difference = compare_held(follow, run->player.device);
        run->has_diverged = difference != 0;
        run->holds_more = difference > 0;
        if (status != VW_OK || run->has_diverged)
            return run->has_diverged ? VW_OK : status;
    }
    return VW_OK;
}

/* Only a pool that can spill uses the ends of steps. */
static bool has_steps(const run_state *run)
{
    return run->setting.spill_bytes != 0;
}

static vw_status play_all(run_state *run)
{
    const vw__replay_work *work = run->work;
    VW__TRY(play_followed(run));
    if (run->has_diverged)
        return VW_OK;
    size_t next_trim = 0, next_step = 0, step_count = has_steps(run) ? work->step_count : 0;
    while (next_trim < work->trim_count || next_step < step_count) {
        size_t trim_op = next_trim < work->trim_count ? work->trims[next_trim] : SIZE_MAX;
        size_t step_op = next_step < step_count ? work->steps[next_step] : SIZE_MAX;
        VW__TRY(play_up_to(run, step_op < trim_op ? step_op : trim_op));
        if (run->is_over)
            return VW_OK;
        if (step_op <= trim_op) {
            VW__TRY(vw__player_mark_step(&run->player));
            next_step++;
        }
        if (trim_op <= step_op) {
            VW__TRY(vw__player_trim(&run->player));
            VW__TRY(vw__player_time_check_shared(&run->time, run->work->script.model));
            run->result->trims++;
            next_trim++;
        }
    }
    return play_up_to(run, work->script.op_count);
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Events before the operation at which the run ended. */
static uint64_t events_done(const run_state *run)
{
    const vw__script *script = &run->work->script;
    if (run->next >= script->op_count)
        return script->trace->event_count;
    uint32_t first = script->ops[run->next].first_event;
    return first == VW__SCRIPT_BEFORE_RECORDING ? 0 : first;
}

static size_t settled_event(const vw__script *script)
{
    return script->trace->event_count / SETTLED_AFTER_SHARE;
}

static size_t find_settled_op(const vw__script *script)
{
    size_t first_event = settled_event(script), op = 0;
    while (op < script->op_count && (script->ops[op].first_event == VW__SCRIPT_BEFORE_RECORDING ||
                                     script->ops[op].first_event < first_event))
        op++;
    return op;
}

uint64_t vw__replay_duration_ns(const vw__model_trace *trace, size_t first_event, size_t end_event)
{
    uint64_t duration_ns;
    if (end_event <= first_event)
        return VW_UNKNOWN;
    int64_t first_us = trace->events[first_event].time_us;
    int64_t last_us = trace->events[end_event - 1].time_us;
    if (first_us == VW__MODEL_UNKNOWN_TIME || last_us == VW__MODEL_UNKNOWN_TIME || first_us < 0 ||
        last_us <= first_us ||
        !vw__mul_u64((uint64_t)(last_us - first_us), NS_PER_US, &duration_ns))
        return VW_UNKNOWN;
    return duration_ns;
}

static void fill_settled(const run_state *run)
{
    const vw__script *script = &run->work->script;
    vw_replay_result *result = run->result;
    result->settled_device_ns = VW_UNKNOWN;
    result->settled_duration_ns = VW_UNKNOWN;
    if (run->is_trial || run->next < run->settled_op)
        return;
    result->settled_device_ns = *run->player.elapsed_ns - run->settled_from_ns;
    result->settled_duration_ns =
        vw__replay_duration_ns(script->trace, settled_event(script), (size_t)result->events_done);
}

/* With streams the first steps count as long as no memory is spilled. */
static bool is_cost_settled(const run_state *run)
{
    const vw__player_spill *spill = &run->player.spill;
    return spill->is_settled || (run->setting.has_streams && !spill->has_begun);
}

static void fill_spilled(const run_state *run, const vw_paged_stats *paged)
{
    const vw__player_spill *spill = &run->player.spill;
    vw_replay_result *result = run->result;
    result->peak_spilled_bytes = paged->peak_spilled_bytes;
    result->spills = paged->spills;
    result->all_spilled_bytes = paged->all_spilled_bytes;
    result->returns = paged->returns;
    result->returned_bytes = paged->returned_bytes;
    result->peak_host_bytes = vw__max_u64(spill->peak_host_bytes, paged->host_handle_bytes);
    vw_pinned_budget_stats budget = {.struct_size = sizeof budget};
    if (run->player.budget != NULL && vw_pinned_budget_get(run->player.budget, &budget) == VW_OK)
        result->peak_host_bytes = budget.peak_bytes;
    result->spill_wait_ns = spill->wait_ns;
    result->is_step_cost_settled = is_cost_settled(run);
    if (spill->step_count != 0)
        result->step_cost_ns =
            vw__spill_cost_touch_ns(spill->sum_touched_bytes / spill->step_count) +
            spill->sum_wait_ns / spill->step_count;
    else if (has_steps(run) && !spill->has_begun && run->work->step_count != 0)
        result->step_cost_ns = 0;
}

/* Only an engine of our own moves anything. */
static vw_status fill_moved(const run_state *run)
{
    vw_paged_stats paged = {.struct_size = sizeof paged};
    if (run->setting.engine == NULL)
        return VW_OK;
    VW__TRY(vw_pool_get_paged_stats(run->player.pool, &paged));
    run->result->moved_bytes = paged.moved_bytes;
    run->result->copied_bytes = paged.copied_bytes;
    fill_spilled(run, &paged);
    return VW_OK;
}

static vw_status fill_result(run_state *run)
{
    const vw__script *script = &run->work->script;
    vw_replay_result *result = run->result;
    vw_pool_stats stats = {.struct_size = sizeof stats};
    vw_device_calls calls;
    VW__TRY(vw_pool_get_stats(run->player.pool, &stats));
    VW__TRY(vw_device_get_calls(run->player.device, &calls));
    result->events_done = events_done(run);
    result->peak_reserved_bytes = (uint64_t)stats.reserved_bytes.all.peak;
    result->peak_allocated_bytes = (uint64_t)stats.allocated_bytes.all.peak;
    result->retries = (uint64_t)stats.num_alloc_retries;
    result->is_past_recorded_oom = run->player.served_oom_count != 0;
    result->calls = (vw_replay_calls){
        .alloc = calls.count[VW_DEVICE_CALL_TAKE],
        .free = calls.count[VW_DEVICE_CALL_GIVE_BACK],
        .create = calls.count[VW_DEVICE_CALL_CREATE],
        .release = calls.count[VW_DEVICE_CALL_RELEASE],
        .map = calls.count[VW_DEVICE_CALL_MAP],
        .unmap = calls.count[VW_DEVICE_CALL_UNMAP],
        .set_access = calls.count[VW_DEVICE_CALL_SET_ACCESS],
    };
    result->device_ns = calls.elapsed_ns;
    result->longest_stall_ns = run->player.longest_stall_ns;
    fill_settled(run);
    VW__TRY(fill_moved(run));
    result->peak_live_bytes = script->peak_live_bytes;
    bool has_served_all = result->is_past_recorded_oom && !result->has_oom;
    if ((run->next < script->op_count || has_served_all) && !run->is_trial)
        VW__TRY(find_peak(script, run->next, (live_rules){true, has_served_all},
                          &result->peak_live_bytes));
    if (result->peak_live_bytes != 0)
        result->ratio = (double)result->peak_reserved_bytes / (double)result->peak_live_bytes;
    return VW_OK;
}

/* The device was called. A peak may have come and gone within the operation. Asks for nothing that
 * takes a look at every private pool. */
static void tell_listener(void *context, size_t op)
{
    run_state *run = context;
    vw_pool_stats stats = VW__STRUCT_UP_TO(vw_pool_stats, largest_free_block_bytes);
    if (vw_pool_get_stats(run->player.pool, &stats) != VW_OK)
        return; /* of a pool that is there it cannot fail */
    uint64_t bytes = (uint64_t)stats.reserved_bytes.all.current;
    uint64_t peak_bytes = (uint64_t)stats.reserved_bytes.all.peak;
    if (bytes == run->heard_bytes && peak_bytes == run->heard_peak_bytes)
        return;
    bool is_new_peak = peak_bytes != run->heard_peak_bytes;
    run->listener->reserved(run->listener->context, op, is_new_peak ? peak_bytes : bytes, bytes);
    run->heard_bytes = bytes;
    run->heard_peak_bytes = peak_bytes;
}

static vw_status start_player(run_state *run, vw__replay_card card)
{
    const vw__replay_work *work = run->work;
    const vw__player_options options = {
        .engine = run->setting.engine,
        .torch_version = work->torch_version,
        .conf = run->setting.conf,
        .capacity_bytes = card.capacity_bytes,
        .total_bytes = card.total_bytes,
        .fraction = card.fraction,
        .is_unsplit = work->is_unsplit,
        .skips_empty_cache = work->skips_empty_cache,
        .spill_bytes = run->setting.spill_bytes,
        .advice = work->advice,
        .moves = run->moves,
        .move_count = run->move_count,
        .stream_host_bytes = run->stream_host_bytes,
        .listener = {run->listener != NULL ? tell_listener : NULL, run},
    };
    if (run->listener != NULL)
        run->listener->begin(run->listener->context);
    vw_status status = vw__player_init(&run->player, &work->script, &options);
    if (status == VW_ERR_BAD_SETTING) {
        char words[256];
        (void)snprintf(words, sizeof words, "%s", vw_last_error());
        return vw__fail(VW_ERR_BAD_SETTING, "\"%s\" cannot be used with PyTorch %s: %s",
                        run->setting.conf, work->torch_version, words);
    }
    if (status == VW_OK && card.fraction == 1.0) { /* through 2.9 this sets a limit too */
        status = vw_pool_set_fraction(run->player.pool, 1.0);
        if (status != VW_OK)
            vw__player_deinit(&run->player);
    }
    return status;
}

static atomic_uint_fast64_t play_count; /* of the process */

uint64_t vw__replay_play_count(void)
{
    return atomic_load_explicit(&play_count, memory_order_relaxed);
}

/* Follows the recording up to followed[`*follow_end`]; less where it diverged before,
 * `*holds_more` (or NULL) says which way. `plan` has what does not change from run to run. */
static vw_status run_once(const run_state *plan, vw__replay_card card, size_t *follow_end,
                          bool *holds_more, vw_replay_result *result)
{
    run_state run = *plan;
    run.result = result;
    run.settled_op = plan->is_trial ? SIZE_MAX : find_settled_op(&plan->work->script);
    run.follow = (follow_state){.work = plan->work, .end = *follow_end};
    run.time = vw__player_time_begin(plan->work->script.op_count);
    VW__TRY(start_player(&run, card));
    (void)atomic_fetch_add_explicit(&play_count, 1, memory_order_relaxed);
    vw_status status = play_all(&run);
    if (holds_more != NULL)
        *holds_more = run.holds_more;
    if (run.has_diverged)
        *follow_end = run.follow.next;
    else if (status == VW_OK)
        status = fill_result(&run);
    vw__player_deinit(&run.player);
    return status;
}

static vw_status run_to_the_end(const run_state *plan, vw__replay_card card, vw_replay_result *out)
{
    const vw__replay_work *work = plan->work;
    const char *conf = plan->setting.conf;
    const vw_replay_result fresh = {
        .policy = out->policy,
        .conf = conf,
        .card_bytes = card.shown_bytes,
        .is_complete = true,
        .smallest_card_bytes = VW_UNKNOWN,
        .first_card_bytes = VW_UNKNOWN,
        .step_cost_ns = VW_UNKNOWN,
        .step_ns = plan->setting.spill_bytes != 0 ? work->step_ns : VW_UNKNOWN,
    };
    bool is_followed = plan->setting.engine == NULL && work->followed_count != 0 &&
                       work->trim_count == 0 && !work->skips_empty_cache &&
                       strcmp(conf, work->recorded_conf) == 0;
    size_t wanted_end = is_followed ? work->followed_count : 0, follow_end = wanted_end;
    vw_replay_result result = fresh;
    VW__TRY(run_once(plan, card, &follow_end, NULL, &result));
    if (follow_end != wanted_end) { /* progress only rises: the first run counts as all of it */
        const vw__replay_progress nobody = {.progress = NULL};
        vw__replay_progress rest = plan->progress != NULL ? *plan->progress : nobody;
        run_state again = *plan;
        rest.base += rest.share;
        rest.share = 0.0;
        again.progress = &rest;
        result = fresh;
        VW__TRY(run_once(&again, card, &follow_end, NULL, &result));
    }
    *out = result;
    return VW_OK;
}

/* ---- streams --------------------------------------------------------------------------------- */

/* Adds what streams cost to what is spilled besides. */
static void fill_streamed(const vw__stream_cost *cost, vw_replay_result *result)
{
    result->stream_state_bytes = cost->state_bytes;
    result->stream_saved_bytes = cost->saved_bytes;
    result->stream_stayed_bytes = cost->stayed_bytes;
    result->stream_wait_ns = cost->room_wait_ns + cost->saved_wait_ns + cost->state_wait_ns;
    if (result->step_cost_ns != VW_UNKNOWN)
        result->step_cost_ns += vw__stream_cost_ns(cost);
}

static vw_status run_planned(const run_state *plan, const vw__stream_cost_plan *streams,
                             vw__replay_card card, vw__player_time *time, vw_replay_result *out)
{
    run_state streamed = *plan;
    vw__player_move *moves = NULL;
    vw__stream_cost cost;
    VW__TRY(vw__replay_stream_list(plan->work, streams, card.shown_bytes, time, &moves,
                                   &streamed.move_count));
    streamed.moves = moves;
    streamed.stream_host_bytes = streams->host_bytes;
    vw_status status = run_to_the_end(&streamed, card, out);
    vw__host_free(moves);
    if (status == VW_OK)
        status =
            vw__stream_cost_find(&plan->work->stream->model.step, streams, card.shown_bytes, &cost);
    if (status == VW_OK)
        fill_streamed(&cost, out);
    return status;
}

/* What streams cost is unknown where the recording does not show what could leave. */
static vw_status run_with_streams(const run_state *plan, vw__replay_card card,
                                  vw_replay_result *out)
{
    const vw__replay_stream *stream = plan->work->stream;
    vw__stream_cost_plan streams;
    vw__player_time time = vw__player_time_begin(plan->work->script.op_count);
    if (stream == NULL || !vw__replay_stream_is_known(stream)) {
        VW__TRY(run_to_the_end(plan, card, out));
        out->step_cost_ns = VW_UNKNOWN;
        return VW_OK;
    }
    VW__TRY(vw__stream_cost_plan_make(&stream->model.step, card.shown_bytes,
                                      plan->setting.spill_bytes, &streams));
    vw_status status = run_planned(plan, &streams, card, &time, out);
    vw__stream_cost_plan_deinit(&streams);
    return status;
}

vw_status vw__replay_run(const vw__replay_work *work, vw__replay_setting setting,
                         vw__replay_card card, bool is_trial, const vw__replay_progress *progress,
                         vw_replay_result *out)
{
    const run_state plan = {
        .work = work, .setting = setting, .is_trial = is_trial, .progress = progress};
    return setting.has_streams ? run_with_streams(&plan, card, out)
                               : run_to_the_end(&plan, card, out);
}

vw_status vw__replay_follow_length(const vw__replay_work *work, vw__replay_card card, size_t *out,
                                   bool *holds_more)
{
    vw__replay_work as_recorded = *work; /* shares everything */
    vw_replay_result result = {.is_complete = true};
    const run_state plan = {.work = &as_recorded,
                            .setting = vw__policy_torch_setting(work->recorded_conf),
                            .is_trial = true};
    as_recorded.skips_empty_cache = false;
    *out = work->followed_count;
    return run_once(&plan, card, out, holds_more, &result);
}

/* ---- several runs at once -------------------------------------------------------------------- */

enum { MOST_THREADS = 4 };

typedef struct job_queue {
    const vw__replay_work *work; /* read-only */
    const vw__replay_job *jobs;  /* what each points to is touched by the thread that took it */
    size_t count;
    const vw__replay_progress *progress; /* used by the calling thread only */
    atomic_size_t next;
    atomic_size_t done_count;
    atomic_bool is_stopped;
    pthread_mutex_t lock;
    vw_status status;                   /* guarded by lock; the first failure */
    char words[VW__ERROR_DETAIL_BYTES]; /* guarded by lock; what it had to say */
} job_queue;

static bool go_on(void *context, double done)
{
    job_queue *queue = context;
    (void)done;
    return !atomic_load(&queue->is_stopped);
}

static void keep_failure(job_queue *queue, vw_status status)
{
    atomic_store(&queue->is_stopped, true);
    (void)pthread_mutex_lock(&queue->lock);
    if (queue->status == VW_OK) {
        queue->status = status;
        (void)snprintf(queue->words, sizeof queue->words, "%s", vw_last_error());
    }
    (void)pthread_mutex_unlock(&queue->lock);
}

static void work_off(job_queue *queue, bool is_caller)
{
    for (;;) {
        size_t index = atomic_fetch_add(&queue->next, 1);
        if (index >= queue->count || atomic_load(&queue->is_stopped))
            return;
        const vw__replay_job *job = &queue->jobs[index];
        vw__replay_progress progress = {.progress = go_on, .context = queue, .share = 1.0};
        if (is_caller) {
            progress = *queue->progress;
            progress.share /= (double)queue->count;
            progress.base += progress.share * (double)atomic_load(&queue->done_count);
        }
        const run_state plan = {.work = queue->work,
                                .setting = job->setting,
                                .listener = job->listener,
                                .progress = &progress};
        vw_status status = run_to_the_end(&plan, job->card, job->result);
        if (status != VW_OK)
            keep_failure(queue, status);
        atomic_fetch_add(&queue->done_count, 1);
    }
}

static void *work_off_as_helper(void *context)
{
    work_off(context, false);
    return NULL;
}

static size_t helper_count(size_t job_count, unsigned most_threads)
{
    long processors = most_threads != 0 ? (long)most_threads : sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = processors > 0 ? (size_t)processors : 1;
    if (threads > MOST_THREADS)
        threads = MOST_THREADS;
    if (threads > job_count)
        threads = job_count;
    return threads > 1 ? threads - 1 : 0;
}

vw_status vw__replay_work_off(const vw__replay_work *work, const vw__replay_job *jobs, size_t count,
                              unsigned most_threads, const vw__replay_progress *progress)
{
    job_queue queue = {.work = work, .jobs = jobs, .count = count, .progress = progress};
    pthread_t helpers[MOST_THREADS];
    size_t started = 0;
    (void)pthread_mutex_init(&queue.lock, NULL); /* with default attributes it cannot fail */
    for (size_t wanted = helper_count(count, most_threads); started < wanted; started++)
        if (pthread_create(&helpers[started], NULL, work_off_as_helper, &queue) != 0)
            break; /* the others do it */
    work_off(&queue, true);
    for (size_t i = 0; i < started; i++)
        (void)pthread_join(helpers[i], NULL);
    (void)pthread_mutex_destroy(&queue.lock);
    return queue.status == VW_OK ? VW_OK : vw__fail(queue.status, "%s", queue.words);
}
