/* verify_play.c - one trial: a script through the real allocator, held against its recording.
 *
 * Input: sizes, streams, frees, when frees completed, empty_cache() calls, and the addresses that
 * the *driver* gave (of segments and reservations). Expected output: the address of every block,
 * and every segment taken and given back, in order. The allocator never learns where a block was.
 *
 * Before an operation is played, the device gets the addresses of its recorded events; afterwards
 * the events that the pool reported are compared with them. */
#include "analysis/verify_parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/human_units.h"
#include "analysis/array.h"
#include "analysis/regions.h"
#include "analysis/script_events.h" /* vw__script_is_release and its kind */

enum {
    OPS_BETWEEN_LOOKS = 1 << 10, /* at the time */
    OPS_BETWEEN_PROGRESS = 1 << 14,
    EVENT_WORDS_BYTES = VW__VERIFY_WORDS_BYTES
};

typedef struct trial_run {
    const vw__verify_trial *trial;
    const vw__script *script;
    const vw__model_event *events;
    vw__verify_trial_result *result;
    vw__player player;
    vw__regions regions;
    vw_memory_event *seen; /* owned; events of the pool since the last comparison */
    size_t seen_count;
    size_t seen_capacity;
    bool lost_events;    /* no memory for `seen` */
    uint64_t held_bytes; /* by the recording */
    size_t next_refusal;
} trial_run;

/* ---- words ----------------------------------------------------------------------------------- */

void vw__verify_note_difference(vw__verify_difference *difference, uint64_t event,
                                const char *explanation, const char *expected, ...)
{
    if (difference->is_found)
        return;
    difference->is_found = true;
    difference->event = event;
    (void)snprintf(difference->explanation, sizeof difference->explanation, "%s", explanation);
    va_list arguments;
    va_start(arguments, expected);
    (void)vsnprintf(difference->expected, sizeof difference->expected, expected, arguments);
    va_end(arguments);
}

static void describe(char words[EVENT_WORDS_BYTES], unsigned action, uint64_t address,
                     uint64_t size_bytes, vw_stream stream)
{
    char size[VW__HUMAN_SIZE_BYTES], where[48] = "";
    if (action != VW_ACTION_SNAPSHOT && action != VW_ACTION_OOM)
        (void)snprintf(where, sizeof where, " at %#" PRIx64, address);
    int used = snprintf(words, EVENT_WORDS_BYTES, "%s of %s%s", vw__model_action_name(action),
                        vw__human_size(size_bytes, size), where);
    if (stream != 0 && used > 0 && used < EVENT_WORDS_BYTES)
        (void)snprintf(words + used, (size_t)(EVENT_WORDS_BYTES - used), " on stream %#" PRIx64,
                       stream);
}

static vw_stream stream_of(const trial_run *run, const vw__model_event *event)
{
    return run->script->model->streams[event->stream];
}

/* Explains where the block lies, by our own books and by the recording's. */
static void explain_placement(trial_run *run, const vw__model_event *recorded,
                              const vw_memory_event *seen, char *text, size_t text_bytes)
{
    char size[VW__HUMAN_SIZE_BYTES], theirs[80] = "outside of every segment",
                                     ours[80] = "elsewhere";
    const vw__regions_entry *region = vw__regions_find(&run->regions, recorded->address);
    vw_block_place place;
    if (region != NULL)
        (void)snprintf(theirs, sizeof theirs, "at offset %#" PRIx64 " of segment %#" PRIx64,
                       recorded->address - region->address, region->address);
    if (vw_pool_find(run->player.pool, seen->address, &place) == VW_OK) {
        region = vw__regions_find(&run->regions, seen->address);
        uint64_t base = region != NULL ? region->address : place.segment_address;
        (void)snprintf(ours, sizeof ours, "at offset %#" PRIx64 " of segment %#" PRIx64,
                       seen->address - base, base);
    }
    (void)snprintf(text, text_bytes,
                   "PyTorch placed the block of %s %s; by the rules of %s the best fit is %s.",
                   vw__human_size(recorded->size_bytes, size), theirs, run->trial->torch_version,
                   ours);
}

/* Explains that `seen` came instead of `recorded`; either may be NULL: no event. */
static void explain(trial_run *run, const vw__model_event *recorded, const vw_memory_event *seen,
                    char *text, size_t text_bytes)
{
    const char *version = run->trial->torch_version;
    unsigned theirs = recorded != NULL ? recorded->action : VW__MODEL_ACTION_KINDS;
    unsigned ours = seen != NULL ? (unsigned)seen->action : VW__MODEL_ACTION_KINDS;
    const char *why = "PyTorch did one thing and the rules of %s say another.";
    if (theirs == VW_ACTION_ALLOC && ours == VW_ACTION_ALLOC &&
        recorded->address != seen->address) {
        explain_placement(run, recorded, seen, text, text_bytes);
        return;
    }
    if (ours == VW_ACTION_OOM)
        why = "PyTorch served this request; by the rules of %s it runs out of memory.";
    else if (theirs == VW_ACTION_OOM)
        why = "PyTorch ran out of memory here; by the rules of %s the request can be served.";
    else if (theirs == ours && vw__script_is_growth(theirs))
        why = "PyTorch took a different amount, or on another stream, than by the rules of %s.";
    else if (theirs == ours && vw__script_is_release(theirs))
        why = "PyTorch gave something else back here than it would by the rules of %s.";
    else if (vw__script_is_release(theirs))
        why = "PyTorch gave memory back here; by the rules of %s there is no cause to, unless the "
              "settings or the limit changed on the way.";
    else if (vw__script_is_release(ours))
        why =
            "By the rules of %s memory is given back here, which PyTorch did not do: the settings "
            "or the limit may have changed on the way.";
    else if (vw__script_is_growth(theirs))
        why = "PyTorch took new memory for this request; by the rules of %s a block that is free "
              "already serves it.";
    else if (vw__script_is_growth(ours))
        why = "PyTorch served this request from memory it held; by the rules of %s no free block "
              "fits, and new memory is taken.";
    else if (theirs == VW_ACTION_FREE_REQUESTED || theirs == VW_ACTION_FREE_COMPLETED)
        why = "The recorded free does not fit the block that was allocated (rules of %s).";
    (void)snprintf(text, text_bytes, why, version);
}

static void differ(trial_run *run, size_t event, const vw__model_event *recorded,
                   const vw_memory_event *seen)
{
    char expected[EVENT_WORDS_BYTES] = "nothing more", explanation[VW__VERIFY_EXPLANATION_BYTES];
    vw__verify_difference *difference = &run->result->difference;
    if (recorded != NULL)
        describe(expected, recorded->action, recorded->address, recorded->size_bytes,
                 stream_of(run, recorded));
    explain(run, recorded, seen, explanation, sizeof explanation);
    run->result->recorded_address = recorded != NULL ? recorded->address : 0;
    run->result->seen_address = seen != NULL ? seen->address : 0;
    (void)snprintf(difference->got, sizeof difference->got, "nothing");
    if (seen != NULL)
        describe(difference->got, seen->action, seen->address, seen->size_bytes, seen->stream);
    vw__verify_note_difference(difference, event, explanation, "%s", expected);
}

/* ---- what the pool tells --------------------------------------------------------------------- */

static void listen(void *context, const vw_memory_event *event)
{
    trial_run *run = context;
    if (vw__array_make_room(&run->seen, &run->seen_capacity, run->seen_count, sizeof *run->seen,
                            "events") != VW_OK) {
        run->lost_events = true;
        return;
    }
    if ((event->action == VW_ACTION_FREE_REQUESTED && run->script->lacks_free_requested) ||
        (event->action == VW_ACTION_FREE_COMPLETED && run->script->lacks_free_completed))
        return; /* the recording lacks these */
    run->seen[run->seen_count++] = *event;
}

static bool is_same(const trial_run *run, const vw__model_event *recorded,
                    const vw_memory_event *seen)
{
    if ((unsigned)seen->action != recorded->action || seen->address != recorded->address ||
        seen->size_bytes != recorded->size_bytes || seen->stream != stream_of(run, recorded))
        return false;
    if (recorded->pool == VW__MODEL_UNKNOWN_POOL || recorded->action == VW_ACTION_SNAPSHOT)
        return true;
    vw_private_id pool = run->script->model->pools[recorded->pool];
    return seen->private_id.first == pool.first && seen->private_id.second == pool.second;
}

/* Frees that a wait for all streams completes at once come in the order of a hash table: the one
 * recorded at `recorded` may be any of the run of completions that begins at seen[from]. Moves it
 * there. */
static void find_completion(trial_run *run, const vw__model_event *recorded, size_t from)
{
    for (size_t i = from; i < run->seen_count && run->seen[i].action == VW_ACTION_FREE_COMPLETED;
         i++) {
        if (!is_same(run, recorded, &run->seen[i]))
            continue;
        vw_memory_event found = run->seen[i];
        memmove(&run->seen[from + 1], &run->seen[from], (i - from) * sizeof found);
        run->seen[from] = found;
        return;
    }
}

static void count_match(trial_run *run, unsigned action)
{
    if (action == VW_ACTION_ALLOC)
        run->result->placements_matched++;
    else if (vw__script_is_growth(action) || vw__script_is_release(action))
        run->result->segment_events_matched++;
}

/* Which way the limit was wrong, if it was the limit: whoever gave more back had the lower one. */
static vw__verify_limit_verdict judge_limit(const trial_run *run, size_t first, size_t end)
{
    size_t theirs = 0, ours = 0;
    for (size_t i = first; i < end; i++)
        theirs +=
            vw__script_is_release(run->events[i].action) || run->events[i].action == VW_ACTION_OOM;
    for (size_t i = 0; i < run->seen_count; i++)
        ours += vw__script_is_release(run->seen[i].action) || run->seen[i].action == VW_ACTION_OOM;
    if (theirs == ours)
        return VW__VERIFY_LIMIT_NO_MATTER;
    return ours > theirs ? VW__VERIFY_LIMIT_TOO_LOW : VW__VERIFY_LIMIT_TOO_HIGH;
}

/* Compares the pool's events since the last call with the recorded events [first, end). */
static void compare(trial_run *run, size_t first, size_t end)
{
    size_t k = 0, i = first;
    for (; i < end; i++) {
        const vw__model_event *recorded = &run->events[i];
        if (vw__script_is_remark(recorded->action))
            continue;
        if (k < run->seen_count && recorded->action == VW_ACTION_FREE_COMPLETED)
            find_completion(run, recorded, k);
        const vw_memory_event *seen = k < run->seen_count ? &run->seen[k] : NULL;
        if (seen == NULL || !is_same(run, recorded, seen)) {
            differ(run, i, recorded, seen);
            break;
        }
        count_match(run, recorded->action);
        k++;
    }
    if (i == end && k < run->seen_count)
        differ(run, end, NULL, &run->seen[k]);
    if (run->result->difference.is_found)
        run->result->limit_verdict = judge_limit(run, first, end);
    run->seen_count = 0;
}

/* ---- what the device must answer ------------------------------------------------------------- */

/* Reports an event that cannot be true. */
static void refuse_event(trial_run *run, size_t event, const char *explanation)
{
    const vw__model_event *recorded = &run->events[event];
    char expected[EVENT_WORDS_BYTES];
    describe(expected, recorded->action, recorded->address, recorded->size_bytes,
             stream_of(run, recorded));
    (void)snprintf(run->result->difference.got, sizeof run->result->difference.got,
                   "an impossibility");
    vw__verify_note_difference(&run->result->difference, event, explanation, "%s", expected);
}

static vw_status prepare_growth(trial_run *run, size_t event)
{
    const vw__model_event *recorded = &run->events[event];
    const vw__regions_entry *region;
    bool is_new;
    VW__TRY(vw__regions_take(&run->regions, recorded->address, recorded->size_bytes,
                             recorded->action == VW_ACTION_SEGMENT_MAP, &region, &is_new));
    run->held_bytes += recorded->size_bytes;
    if (!is_new)
        return VW_OK;
    vw_status status = vw_simulated_dictate_address(run->player.device, recorded->address);
    if (status != VW_ERR_INVALID_ARGUMENT)
        return status;
    refuse_event(run, event, "A driver gives no memory at such an address.");
    return VW_OK;
}

static void prepare_release(trial_run *run, size_t event)
{
    const vw__model_event *recorded = &run->events[event];
    vw__regions_entry was;
    bool is_gone;
    if (!vw__regions_give_back(&run->regions, recorded->address, recorded->size_bytes, &was,
                               &is_gone))
        refuse_event(run, event, "The recording gives back what it does not hold.");
    else
        run->held_bytes -= recorded->size_bytes;
}

/* Prepares the device for the operation that the events [first, end) are of. */
static vw_status prepare_events(trial_run *run, size_t first, size_t end)
{
    for (size_t i = first; i < end && !run->result->difference.is_found; i++) {
        if (vw__script_is_growth(run->events[i].action))
            VW__TRY(prepare_growth(run, i));
        else if (vw__script_is_release(run->events[i].action))
            prepare_release(run, i);
    }
    return VW_OK;
}

/* Limits the device for a request that failed, so that it reports the recorded free bytes whatever
 * the request does first; and for one that the driver refused at first, so that ours refuses it
 * too. */
static vw_status limit_device(trial_run *run, size_t index, bool *is_limited)
{
    const vw__verify_assumption *assumption = run->trial->assumption;
    const vw__script_op *op = &run->script->ops[index];
    uint64_t capacity_bytes = 0;
    while (run->next_refusal < assumption->refusal_count &&
           assumption->refusals[run->next_refusal].op < index)
        run->next_refusal++;
    *is_limited = true;
    if (op->kind == VW__SCRIPT_OOM)
        capacity_bytes = run->held_bytes + run->events[op->end_event - 1].address;
    else if (run->next_refusal < assumption->refusal_count &&
             assumption->refusals[run->next_refusal].op == index)
        capacity_bytes = assumption->refusals[run->next_refusal].capacity_bytes;
    else
        *is_limited = false;
    return *is_limited ? vw_device_set_capacity(run->player.device, capacity_bytes) : VW_OK;
}

/* Returns whether the operation waited for all streams: it gave memory back, or failed. */
static bool waits_for_streams(const trial_run *run, const vw__script_op *op)
{
    if (op->kind == VW__SCRIPT_OOM)
        return true;
    for (size_t i = op->first_event; op->kind == VW__SCRIPT_ALLOC && i < op->end_event; i++)
        if (vw__script_is_release(run->events[i].action))
            return true;
    return false;
}

/* Returns whether this free was found complete in the middle of a request, after memory was given
 * back. */
static bool is_after_release(const trial_run *run, const vw__script_op *op)
{
    for (size_t i = op->first_event; i-- > 0;) {
        unsigned action = run->events[i].action;
        if (action != VW_ACTION_FREE_COMPLETED && !vw__script_is_remark(action))
            return vw__script_is_release(action);
    }
    return false;
}

/* Returns whether the operation after this free waits for it. An empty_cache() waits for all, and
 * the last one is left to it; a request waits once it has found no room. The allocator itself must
 * complete the free then. */
static bool is_completed_by_waiting(trial_run *run, size_t index)
{
    const vw__script *script = run->script;
    const vw__script_op *op = &script->ops[index];
    size_t owner = index + 1;
    if (op->first_event != op->end_event)
        return false;
    while (owner < script->op_count && script->ops[owner].kind == VW__SCRIPT_COMPLETE)
        owner++;
    if (owner == script->op_count)
        return false;
    bool is_last = owner == index + 1;
    if (is_last && script->ops[owner].kind == VW__SCRIPT_TRIM &&
        script->ops[owner].pool == VW__MODEL_DEFAULT_POOL)
        return true;
    bool is_waited_for = is_after_release(run, op) || (run->trial->assumption->is_waited_for &&
                                                       waits_for_streams(run, &script->ops[owner]));
    if (is_waited_for && !is_last)
        run->result->has_unordered_frees = true;
    return is_waited_for;
}

/* ---- operations ------------------------------------------------------------------------------ */

static vw_status compare_oom_text(trial_run *run, const vw__script_op *op)
{
    const vw__expectation *expectation = run->trial->expectation;
    if (expectation == NULL || expectation->oom == NULL || op->kind != VW__SCRIPT_OOM)
        return VW_OK;
    char *recorded = vw__verify_without_processes(expectation->oom);
    char *found = vw__verify_without_processes(vw_last_error());
    vw_status status = recorded != NULL && found != NULL
                           ? VW_OK
                           : vw__fail_host_memory(strlen(expectation->oom), "an error's text");
    if (status == VW_OK && strcmp(recorded, found) != 0) {
        size_t i = 0;
        while (recorded[i] == found[i])
            i++;
        (void)snprintf(run->result->difference.got, sizeof run->result->difference.got,
                       "in the text: \"%.120s\"", found + i);
        vw__verify_note_difference(&run->result->difference, op->end_event - 1,
                                   "The text of the out-of-memory error is not the one expected.",
                                   "in the text: \"%.120s\"", recorded + i);
    }
    vw__host_free(recorded);
    vw__host_free(found);
    return status;
}

/* An operation that could not be played, though its events are the recorded ones, if any. */
static void note_failure(trial_run *run, const vw__script_op *op, vw_status status)
{
    (void)snprintf(run->result->difference.got, sizeof run->result->difference.got, "%s: %.150s",
                   vw_status_message(status), vw_last_error());
    vw__verify_note_difference(&run->result->difference, op->first_event,
                               "What the recording says happened cannot be done.",
                               "an operation that succeeds");
}

static vw_status play_op(trial_run *run, size_t index)
{
    const vw__script_op *op = &run->script->ops[index];
    bool is_limited = false;
    size_t stopped;
    if (op->kind == VW__SCRIPT_COMPLETE && is_completed_by_waiting(run, index))
        return VW_OK;
    VW__TRY(prepare_events(run, op->first_event, op->end_event));
    if (run->result->difference.is_found)
        return VW_OK;
    VW__TRY(limit_device(run, index, &is_limited));
    vw_status status = vw__player_play(&run->player, index, index + 1, &stopped);
    if (status == VW_ERR_HOST_MEMORY || run->lost_events)
        return vw__fail(VW_ERR_HOST_MEMORY, "out of host memory while verifying");
    if (op->first_event != op->end_event)
        compare(run, op->first_event, op->end_event);
    if (!run->result->difference.is_found && status == VW_ERR_OUT_OF_MEMORY)
        VW__TRY(compare_oom_text(run, op));
    else if (!run->result->difference.is_found && status != VW_OK)
        note_failure(run, op, status);
    return is_limited ? vw_device_set_capacity(run->player.device, VW__PLAYER_ENDLESS_BYTES)
                      : VW_OK;
}

/* An event that no operation could be made of, in a trace that begins at the beginning. */
static bool meets_dropped_event(trial_run *run, uint32_t before_event)
{
    uint32_t dropped = run->script->first_dropped_event;
    if (dropped == VW__SCRIPT_BEFORE_RECORDING || dropped >= before_event)
        return false;
    refuse_event(run, dropped,
                 "The trace contradicts itself here: it frees what is not live, or an operation "
                 "that it begins does not end.");
    return true;
}

static vw_status play_ops(trial_run *run)
{
    const vw__script *script = run->script;
    const vw__verify_trial *trial = run->trial;
    size_t i = 0;
    for (; i < script->op_count && !run->result->difference.is_found; i++) {
        const vw__script_op *op = &script->ops[i];
        run->result->first_event = op->first_event;
        run->result->end_event = op->end_event;
        run->result->pool = op->pool;
        if (meets_dropped_event(run, op->first_event))
            break;
        VW__TRY(play_op(run, i));
        if (i % OPS_BETWEEN_LOOKS == 0)
            VW__TRY(vw__player_time_check(trial->time));
        if (i % OPS_BETWEEN_PROGRESS == 0 && trial->progress != NULL &&
            !trial->progress(trial->progress_context,
                             trial->is_first ? (double)i / (double)script->op_count : -1.0))
            return vw__fail(VW_ERR_WRONG_STATE, "verifying was stopped");
    }
    if (!run->result->difference.is_found)
        (void)meets_dropped_event(run, VW__SCRIPT_BEFORE_RECORDING);
    run->result->ops_played = i;
    return VW_OK;
}

/* ---- a trial --------------------------------------------------------------------------------- */

static vw_status begin(trial_run *run)
{
    const vw__verify_assumption *assumption = run->trial->assumption;
    const vw_event_sink sink = {run, listen};
    const vw__player_options options = {.torch_version = run->trial->torch_version,
                                        .conf = run->trial->conf,
                                        .capacity_bytes = UINT64_MAX,
                                        .total_bytes = assumption->total_bytes,
                                        .fraction = 1.0,
                                        .sink = &sink,
                                        .is_unsplit = assumption->is_unsplit,
                                        .trims_alone = true};
    VW__TRY(vw__player_init(&run->player, run->script, &options));
    bool is_limited = assumption->limit_bytes != UINT64_MAX || assumption->has_conf_fraction;
    if (assumption->fraction >= 0.0)
        return vw_pool_set_fraction(run->player.pool, assumption->fraction);
    if (!is_limited || assumption->trusts_conf_fraction)
        return VW_OK;
    return vw_pool_set_fraction(
        run->player.pool, vw__limit_fraction(assumption->limit_bytes, assumption->total_bytes));
}

static vw_status print_summary(const vw_pool *pool, vw__arena *arena, const char **out)
{
    size_t needed = 0;
    vw_status status = vw_pool_summary(pool, false, NULL, 0, &needed);
    if (needed == 0)
        return status; /* else it only says that nothing is not enough room */
    char *page = vw__arena_alloc(arena, needed, 1);
    if (page == NULL)
        return vw__fail_host_memory(needed, "the summary");
    *out = page;
    return vw_pool_summary(pool, false, page, needed, NULL);
}

vw_status vw__verify_trial_run(const vw__verify_trial *trial, vw__verify_trial_result *out)
{
    trial_run run = {.trial = trial,
                     .script = trial->script,
                     .events = trial->script->trace->events,
                     .result = out};
    memset(out, 0, sizeof *out);
    vw__regions_init(&run.regions);
    vw_status status = begin(&run);
    if (status == VW_OK)
        status = play_ops(&run);
    if (status == VW_OK && !out->difference.is_found)
        status = vw_pool_check(run.player.pool);
    if (status == VW_OK && !out->difference.is_found)
        status = trial->summary_arena != NULL
                     ? print_summary(run.player.pool, trial->summary_arena, &out->summary)
                     : vw__verify_end(trial, run.player.pool, out);
    vw__player_deinit(&run.player);
    vw__regions_deinit(&run.regions);
    vw__host_free(run.seen);
    return status;
}
