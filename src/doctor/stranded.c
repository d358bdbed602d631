/* stranded.c - memory that is held and not used, and that nobody else may use.
 *
 * PyTorch keeps freed memory for the stream it was asked for on, and a private pool's memory for
 * that pool; and a block that another stream was told to work on (record_stream) waits for that
 * stream after the program has freed it. On one stream, without pools, all of it would serve the
 * next request.
 *
 * How much is that? Idle bytes on other streams are no answer: the same program on one stream would
 * have idle bytes too. So the program is replayed as if it had one stream and its frees were
 * complete at once, and what it reserves less is what is stranded. Memory of private pools stays
 * out of that for a run that did not fail: a graph's pool is there to be nobody else's. At a
 * failure the question is whether the request would have been served, and there pools count.
 *
 * The verdict is for a run that failed for this reason: what the request could use was too little,
 * what others kept was enough, and with one stream and one pool it is served. A run that did not
 * fail is stranded from an eighth of its reserved peak on: that is worth a few lines of code.
 *
 * Our own engine lets a free page serve any stream. What it reserves is replayed as well, for a run
 * that did not fail; for one that did, settings.c does so. */
#include <inttypes.h>

#include "doctor/doctor.h"
#include "doctor/settings.h" /* VW__DOCTOR_ENGINE_ACTION */
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "settings/trials.h"

#define MUCH_STRANDED_BYTES (UINT64_C(64) << 20)
enum { MUCH_STRANDED_SHARE = 8, MOST_LANES = 32, MOST_LANES_SHOWN = 4 };

/* What one stream has in one pool, at the instant that is looked at. */
typedef struct lane {
    uint64_t live_bytes, pending_bytes, idle_bytes;
    uint64_t unused_bytes; /* idle, in segments that are wholly idle */
    uint16_t stream, pool;
} lane;

/* The program, rewritten and replayed on the card of the case's trials. */
typedef struct variant {
    uint64_t reserved_bytes; /* at most */
    bool is_complete;
    bool is_replayed; /* else it would be the same as one of the others */
} variant;

typedef struct stranding {
    vw__layout layout;
    vw__layout_view view; /* the same segments, with their pools */
    bool has_view;
    lane lanes[MOST_LANES]; /* what does not fit in is added to the last */
    size_t lane_count;
    size_t own;              /* the lane of the request that failed; else with the most live */
    uint64_t others_bytes;   /* idle or pending, of other lanes */
    uint64_t private_bytes;  /* of them, in private pools */
    uint64_t captured_bytes; /* of these, pending: freed while a graph was captured */
    uint64_t unused_bytes;   /* of them, in segments that are wholly idle */
    bool has_several_streams, has_late_frees;
    bool is_replayed;
    bool is_served;          /* one stream, one pool: the request that failed */
    uint64_t recorded_bytes; /* that the program reserves as it is; wanted to, where it failed */
    variant one_stream, no_waiting, together;
    uint64_t vramwise_bytes; /* by our own engine, streams and all; of a run that did not fail */
} stranding;

/* ---- is there anything to look at? ----------------------------------------------------------- */

/* A free that is not complete at once had to wait for another stream. */
static bool has_late_frees(const vw__model_trace *trace)
{
    bool has_completions = false;
    size_t late_count = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        has_completions = has_completions || event->action == VW_ACTION_FREE_COMPLETED;
        if (event->action != VW_ACTION_FREE_REQUESTED || i + 1 == trace->event_count)
            continue;
        late_count +=
            event[1].action != VW_ACTION_FREE_COMPLETED || event[1].address != event->address;
    }
    return has_completions && late_count != 0;
}

static bool has_several_streams(const vw__model_trace *trace)
{
    const vw__model_event *first = NULL;
    for (size_t i = 0; i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        if (event->action != VW_ACTION_ALLOC)
            continue;
        if (first != NULL && first->stream != event->stream)
            return true;
        first = event;
    }
    return false;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static size_t lane_of(stranding *found, uint16_t stream, uint16_t pool)
{
    for (size_t i = 0; i < found->lane_count; i++)
        if (found->lanes[i].stream == stream && found->lanes[i].pool == pool)
            return i;
    if (found->lane_count == MOST_LANES)
        return MOST_LANES - 1;
    found->lanes[found->lane_count] = (lane){.stream = stream, .pool = pool};
    return found->lane_count++;
}

/* Segments of unknown pool are taken for the default pool's. */
static uint16_t pool_of(const stranding *found, size_t segment)
{
    uint16_t pool = found->view.segments[segment].pool;
    return pool != VW__MODEL_UNKNOWN_POOL ? pool : VW__MODEL_DEFAULT_POOL;
}

static void choose_own_lane(const vw__doctor_facts *facts, stranding *found)
{
    const vw__doctor_failure *failure = &facts->failure;
    if (failure->has_happened && failure->event < facts->trace->event_count) {
        const vw__model_event *event = &facts->trace->events[failure->event];
        uint16_t pool =
            event->pool != VW__MODEL_UNKNOWN_POOL ? event->pool : VW__MODEL_DEFAULT_POOL;
        found->own = lane_of(found, event->stream, pool);
        return;
    }
    for (size_t i = 1; i < found->lane_count; i++)
        if (found->lanes[i].live_bytes > found->lanes[found->own].live_bytes)
            found->own = i;
}

static vw_status look_at(const vw__doctor_facts *facts, uint32_t instant, stranding *found)
{
    VW__TRY(vw__layout_at(facts->model, facts->trace, instant, &found->layout));
    VW__TRY(vw__layout_view_make(facts->model, facts->trace, instant, &found->view));
    found->has_view = true;
    for (size_t i = 0; i < found->layout.segment_count; i++) {
        const vw__layout_segment *segment = &found->layout.segments[i];
        lane *its = &found->lanes[lane_of(found, segment->stream, pool_of(found, i))];
        its->live_bytes += segment->live_bytes;
        its->pending_bytes += segment->pending_bytes;
        its->idle_bytes += segment->idle_bytes;
        its->unused_bytes += segment->idle_bytes == segment->size_bytes ? segment->size_bytes : 0;
    }
    choose_own_lane(facts, found);
    for (size_t i = 0; i < found->lane_count; i++) {
        const lane *other = &found->lanes[i];
        uint64_t kept_bytes = other->idle_bytes + other->pending_bytes;
        if (i == found->own)
            continue;
        found->others_bytes += kept_bytes;
        found->unused_bytes += other->unused_bytes;
        if (other->pool != VW__MODEL_DEFAULT_POOL) {
            found->private_bytes += kept_bytes;
            found->captured_bytes += other->pending_bytes;
        }
    }
    return VW_OK;
}

static void forget(stranding *found)
{
    vw__layout_deinit(&found->layout);
    if (found->has_view)
        vw__layout_view_deinit(&found->view);
}

/* ---- the program, rewritten ------------------------------------------------------------------ */

typedef struct rewriting {
    bool has_one_stream;
    bool has_no_waiting; /* frees are complete at once */
    bool has_one_pool;
} rewriting;

/* A snapshot does nothing in a replay: it takes the place of what is left out, so that operations
 * keep their numbers. */
static void rewrite(vw__script_op *op, rewriting as, uint16_t stream)
{
    bool is_request = op->kind == VW__SCRIPT_ALLOC || op->kind == VW__SCRIPT_OOM;
    if (as.has_one_pool) {
        if (op->kind == VW__SCRIPT_SCOPE || op->kind == VW__SCRIPT_RELEASE)
            op->kind = VW__SCRIPT_SNAPSHOT;
        op->pool = VW__MODEL_DEFAULT_POOL;
    }
    if (as.has_one_stream && is_request && op->pool == VW__MODEL_DEFAULT_POOL)
        op->stream = stream;
    if (as.has_no_waiting && op->kind == VW__SCRIPT_FREE_LATER)
        op->kind = VW__SCRIPT_FREE;
    if (as.has_no_waiting && op->kind == VW__SCRIPT_COMPLETE)
        op->kind = VW__SCRIPT_SNAPSHOT;
}

static vw_status run_rewritten(const vw__replay_work *work, rewriting as, vw__replay_card card,
                               vw_replay_result *out)
{
    vw__replay_work rewritten = *work; /* shares everything but the operations */
    const vw__script *script = &work->script;
    uint16_t stream = 0;
    rewritten.followed_count = 0;
    if (as.has_one_pool)
        rewritten.is_unsplit = NULL;
    rewritten.script.ops = vw__host_alloc_zeroed(script->op_count, sizeof *script->ops);
    if (rewritten.script.ops == NULL)
        return vw__fail_host_memory(script->op_count * sizeof *script->ops, "a rewritten program");
    for (size_t i = script->op_count; i-- > 0;)
        if (script->ops[i].kind == VW__SCRIPT_ALLOC)
            stream = script->ops[i].stream;
    for (size_t i = 0; i < script->op_count; i++) {
        rewritten.script.ops[i] = script->ops[i];
        rewrite(&rewritten.script.ops[i], as, stream);
    }
    vw_status status =
        vw__replay_run(&rewritten, vw__replay_recorded_setting(work), card, false, NULL, out);
    vw__host_free(rewritten.script.ops);
    return status;
}

/* ---- replaying ------------------------------------------------------------------------------- */

static vw_status run_variant(const vw__doctor_facts *facts, rewriting as, variant *out)
{
    vw_replay_result result = {.policy = NULL};
    VW__TRY(run_rewritten(&facts->trials->work, as, facts->trials->card, &result));
    *out = (variant){result.peak_reserved_bytes, result.is_complete, true};
    return VW_OK;
}

/* For the remedies: what one change without the other does. Where there is nothing to the other, it
 * does the same as both. */
static vw_status run_parts(const vw__doctor_facts *facts, stranding *found)
{
    const rewriting one_stream = {true, false, false}, no_waiting = {false, true, false};
    const rewriting together = {true, true, false};
    if (!found->together.is_replayed)
        VW__TRY(run_variant(facts, together, &found->together));
    found->one_stream = found->no_waiting = found->together;
    if (found->has_late_frees)
        VW__TRY(run_variant(facts, one_stream, &found->one_stream));
    if (found->has_several_streams)
        VW__TRY(run_variant(facts, no_waiting, &found->no_waiting));
    return VW_OK;
}

/* Is the request served that failed? */
static vw_status replay_failure(const vw__doctor_facts *facts, stranding *found)
{
    const rewriting all = {true, true, true};
    vw_replay_result result = {.policy = NULL};
    uint64_t wanted_bytes;
    const vw_memory_numbers *numbers = &facts->failure.numbers;
    if (!facts->trials->is_card_known)
        return VW_OK;
    VW__TRY(run_rewritten(&facts->trials->work, all, facts->trials->card, &result));
    found->is_served = vw__doctor_is_served(facts, &result);
    found->recorded_bytes =
        vw__add_u64(numbers->reserved_bytes, numbers->tried_bytes, &wanted_bytes) ? wanted_bytes
                                                                                  : 0;
    return VW_OK;
}

static vw_status replay_run(const vw__doctor_facts *facts, stranding *found)
{
    const rewriting together = {true, true, false};
    vw_replay_result recorded;
    VW__TRY(vw__trials_try(facts->trials, NULL, &recorded));
    VW__TRY(run_variant(facts, together, &found->together));
    found->recorded_bytes = recorded.peak_reserved_bytes;
    return VW_OK;
}

/* What cannot be replayed is not judged. */
static vw_status replay(const vw__doctor_input *input, vw__doctor_facts *facts, stranding *found)
{
    VW__TRY(vw__doctor_open_trials(input, facts));
    if (facts->trials == NULL)
        return VW_OK;
    vw_status status =
        facts->failure.has_happened ? replay_failure(facts, found) : replay_run(facts, found);
    found->is_replayed = status == VW_OK;
    return vw__trials_are_impossible(status) ? VW_OK : status;
}

/* Replays what each remedy would do. */
static vw_status replay_remedies(const vw__doctor_facts *facts, stranding *found)
{
    vw_replay_result result;
    VW__TRY(run_parts(facts, found));
    if (facts->failure.has_happened)
        return VW_OK; /* settings.c tries our own engine */
    VW__TRY(vw__trials_try(facts->trials, vw__setting_row_of(VW__SETTING_VRAMWISE), &result));
    found->vramwise_bytes = result.peak_reserved_bytes;
    return VW_OK;
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static void judge_failure(const vw__doctor_facts *facts, vw__doctor_result *result,
                          const stranding *found)
{
    uint64_t tried_bytes = facts->failure.numbers.tried_bytes;
    const lane *own = &found->lanes[found->own];
    result->stranded_bytes = found->others_bytes;
    result->is_stranded = found->lane_count != 0 && found->is_replayed && found->is_served &&
                          found->others_bytes >= tried_bytes && own->idle_bytes < tried_bytes;
}

static void judge_run(vw__doctor_result *result, const stranding *found)
{
    uint64_t together_bytes = found->together.reserved_bytes;
    if (!found->is_replayed || together_bytes >= found->recorded_bytes)
        return;
    result->stranded_bytes = found->recorded_bytes - together_bytes;
    result->is_stranded = result->stranded_bytes >= MUCH_STRANDED_BYTES &&
                          result->stranded_bytes >= found->recorded_bytes / MUCH_STRANDED_SHARE;
}

/* ---- the finding ----------------------------------------------------------------------------- */

/* Lines whose blocks wait for other streams, or hold other lanes' idle memory. */
static vw_status add_places(const vw__doctor_facts *facts, const stranding *found,
                            vw__diagnosis_finding *finding)
{
    const vw__layout *layout = &found->layout;
    size_t stack_count = facts->model->stack_count;
    uint64_t *weights = vw__host_alloc_zeroed(stack_count, sizeof *weights);
    if (weights == NULL)
        return vw__fail_host_memory(stack_count * sizeof *weights, "stranded bytes by stack");
    for (size_t i = 0; i < layout->segment_count; i++) {
        const vw__layout_segment *segment = &layout->segments[i];
        const lane *own = &found->lanes[found->own];
        bool is_own = segment->stream == own->stream && pool_of(found, i) == own->pool;
        if (!is_own && segment->context != VW__MODEL_NO_CONTEXT)
            weights[facts->model->contexts[segment->context]] += segment->idle_bytes;
        for (size_t b = 0; b < segment->block_count; b++) {
            const vw__layout_block *block = &layout->blocks[segment->first_block + b];
            if (block->state == VW__LAYOUT_PENDING && block->context != VW__MODEL_NO_CONTEXT)
                weights[facts->model->contexts[block->context]] += block->size_bytes;
        }
    }
    vw__doctor_add_places(facts, weights, VW__DOCTOR_PLACES_APART, finding);
    vw__host_free(weights);
    return VW_OK;
}

static const char *lane_name(const vw__doctor_facts *facts, vw__doctor_result *result,
                             const lane *one)
{
    const vw__model *model = facts->model;
    vw_private_id id = model->pools[one->pool];
    vw_stream stream = model->streams[one->stream];
    const char *name = stream == 0 ? "the default stream"
                                   : vw__diagnosis_text(result->draft, "stream %#" PRIx64, stream);
    if (one->pool == VW__MODEL_DEFAULT_POOL)
        return name;
    return vw__diagnosis_text(result->draft, "%s, private pool (%" PRIu64 ", %" PRIu64 ")", name,
                              id.first, id.second);
}

/* Those that keep most to themselves first. */
static void sort_lanes(stranding *found)
{
    for (size_t i = 1; i < found->lane_count; i++) {
        lane moved = found->lanes[i];
        size_t at = i;
        for (; at > 0 && found->lanes[at - 1].idle_bytes + found->lanes[at - 1].pending_bytes <
                             moved.idle_bytes + moved.pending_bytes;
             at--)
            found->lanes[at] = found->lanes[at - 1];
        found->lanes[at] = moved;
    }
}

/* At a failure other lanes' idle and waiting bytes are what the finding is about, and its parts. */
static void add_lanes(const vw__doctor_facts *facts, vw__doctor_result *result, stranding *found,
                      vw__diagnosis_finding *finding)
{
    const lane own = found->lanes[found->own];
    sort_lanes(found); /* found->own means nothing from here on */
    for (size_t i = 0; i < found->lane_count; i++) {
        const lane *one = &found->lanes[i];
        const char *name = lane_name(facts, result, one);
        uint64_t kept_bytes = one->idle_bytes + one->pending_bytes;
        bool is_own = one->stream == own.stream && one->pool == own.pool;
        if (i < MOST_LANES_SHOWN)
            vw__diagnosis_evidence(finding, "On %s: %s live, %s idle, %s waiting.", name,
                                   VW__DOCTOR_SIZE(one->live_bytes),
                                   VW__DOCTOR_SIZE(one->idle_bytes),
                                   VW__DOCTOR_SIZE(one->pending_bytes));
        if (facts->failure.has_happened && !is_own && kept_bytes != 0)
            vw__diagnosis_part(finding, name, kept_bytes);
    }
}

/* At a failure only what serves all requests gives anything back. */
static uint64_t saved_bytes(const vw__doctor_facts *facts, const stranding *found,
                            const variant *with)
{
    if (facts->failure.has_happened && !with->is_complete)
        return 0;
    return found->recorded_bytes > with->reserved_bytes
               ? found->recorded_bytes - with->reserved_bytes
               : 0;
}

typedef struct stream_remedy {
    const char *action, *cost, *how;
} stream_remedy;

static const stream_remedy wait_instead = {
    "instead of record_stream(), wait for the other stream, then free the tensor",
    "the stream waits where x is let go",
    "torch.cuda.current_stream().wait_stream(side)  # not x.record_stream(side)\n"
    "del x  # its memory serves the next request"};
static const stream_remedy ask_elsewhere = {
    "allocate on the stream that uses the memory last, and write into it from the other",
    "a few lines",
    "out = torch.empty_like(x)  # on the current stream\n"
    "side.wait_stream(torch.cuda.current_stream())\n"
    "with torch.cuda.stream(side):\n"
    "    torch.add(x, 1, out=out)\n"
    "torch.cuda.current_stream().wait_stream(side)"};
static const stream_remedy use_one_stream = {
    "run that work on one stream, without record_stream()", "copies and kernels no longer overlap",
    "with torch.cuda.stream(side):  # leave this line out\n"
    "    y = work(x)"};

/* What gives back nearly as much as giving streams up, and lets work overlap, comes first. */
static void add_stream_remedies(const vw__doctor_facts *facts, const stranding *found,
                                vw__diagnosis_finding *finding)
{
    uint64_t together = saved_bytes(facts, found, &found->together);
    const struct {
        const stream_remedy *words;
        const variant *with;
        bool is_possible;
    } all[] = {
        {&wait_instead, &found->no_waiting, found->has_late_frees},
        {&ask_elsewhere, &found->one_stream, found->has_several_streams},
        {&use_one_stream, &found->together, true},
        {&wait_instead, &found->no_waiting, found->has_late_frees},
        {&ask_elsewhere, &found->one_stream, found->has_several_streams},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        uint64_t saved = saved_bytes(facts, found, all[i].with);
        bool is_first = all[i].words == &use_one_stream || i < 2;
        bool is_nearly = all[i].words == &use_one_stream || saved >= together - together / 10;
        if (!all[i].is_possible || saved == 0 || is_first != is_nearly)
            continue;
        vw__diagnosis_remedy(finding, all[i].words->action, vw__diagnosis_saves(saved),
                             VW_BASIS_REPLAYED, all[i].words->cost, all[i].words->how);
        vw__diagnosis_enough(finding, vw__doctor_enough(facts, all[i].with->is_complete));
    }
}

/* Behind what can be done with PyTorch's own allocator. */
static void add_vramwise(const vw__doctor_facts *facts, const stranding *found,
                         vw__diagnosis_finding *finding)
{
    uint64_t vramwise_bytes = found->vramwise_bytes;
    bool is_of_a_pool = vw__recording_is_of_a_pool(facts->model);
    if (vramwise_bytes != 0 && found->recorded_bytes > vramwise_bytes &&
        found->recorded_bytes - vramwise_bytes >= MUCH_STRANDED_BYTES)
        vw__diagnosis_remedy(finding, VW__DOCTOR_ENGINE_ACTION,
                             vw__diagnosis_saves(found->recorded_bytes - vramwise_bytes),
                             VW_BASIS_REPLAYED,
                             is_of_a_pool ? VW__DOCTOR_ENGINE_POOL_COST : VW__DOCTOR_ENGINE_COST,
                             is_of_a_pool ? VW__DOCTOR_ENGINE_POOL_HOW : VW__DOCTOR_ENGINE_HOW);
}

static void add_remedies(const vw__doctor_facts *facts, const stranding *found,
                         vw__diagnosis_finding *finding)
{
    add_stream_remedies(facts, found, finding);
    if (vw__remedy_is_empty_cache_worth_it(found->unused_bytes, found->recorded_bytes))
        vw__diagnosis_remedy(
            finding, "empty the cache once the other stream's work is over, never inside the loop",
            vw__diagnosis_saves(found->unused_bytes), VW_BASIS_MEASURED,
            vw__remedy_of(VW__REMEDY_EMPTY_CACHE)->cost,
            "torch.cuda.synchronize()\ntorch.cuda.empty_cache()");
    if (found->private_bytes != 0)
        vw__diagnosis_known_remedy(finding, VW__REMEDY_SHARED_GRAPH_POOL, NULL,
                                   (vw__diagnosis_savings){0, found->private_bytes}, VW_BASIS_RULE);
    if (found->captured_bytes != 0)
        vw__diagnosis_remedy(finding, "let a capture reuse what other streams are done with",
                             (vw__diagnosis_savings){0, found->captured_bytes}, VW_BASIS_RULE,
                             "a restart; PyTorch 2.9",
                             vw__diagnosis_text(finding->draft,
                                                "export %s=graph_capture_record_stream_reuse:True",
                                                finding->draft->settings_variable));
    add_vramwise(facts, found, finding);
}

static const char *outcome_of(const vw__doctor_facts *facts, vw__doctor_result *result,
                              const variant *with)
{
    if (facts->failure.has_happened && !with->is_complete)
        return "it fails";
    return vw__diagnosis_size(result->draft, with->reserved_bytes);
}

static vw_status add_finding(const vw__doctor_facts *facts, vw__doctor_result *result,
                             stranding *found)
{
    vw__diagnosis_name(result->draft, "stranded", result->stranded_bytes);
    vw__diagnosis_finding *finding =
        facts->failure.has_happened
            ? vw__diagnosis_add(result->draft, "stranded", result->stranded_bytes,
                                "$stranded were kept for other streams or private pools when "
                                "$tried were refused.")
            : vw__diagnosis_add(result->draft, "stranded", result->stranded_bytes,
                                "$stranded of the %s reserved serve only to keep streams apart.",
                                VW__DOCTOR_SIZE(found->recorded_bytes));
    VW__TRY(add_places(facts, found, finding));
    vw__diagnosis_evidence(
        finding,
        "Replayed: %s %s; with one stream %s, with frees that need not wait %s, with both %s.",
        VW__DOCTOR_SIZE(found->recorded_bytes),
        facts->failure.has_happened ? "were wanted when it failed"
                                    : "are reserved at most as it is",
        outcome_of(facts, result, &found->one_stream),
        outcome_of(facts, result, &found->no_waiting), outcome_of(facts, result, &found->together));
    if (found->private_bytes != 0)
        vw__diagnosis_evidence(finding, "%s of it lie in private pools, which nobody else may use.",
                               VW__DOCTOR_SIZE(found->private_bytes));
    add_remedies(facts, found, finding);
    add_lanes(facts, result, found, finding);
    return VW_OK;
}

/* ---- together -------------------------------------------------------------------------------- */

static vw_status examine(const vw__doctor_input *input, vw__doctor_facts *facts,
                         vw__doctor_result *result, uint32_t instant, stranding *found)
{
    VW__TRY(look_at(facts, instant, found));
    if (facts->failure.has_happened && found->others_bytes < facts->failure.numbers.tried_bytes)
        return VW_OK;
    VW__TRY(replay(input, facts, found));
    if (facts->failure.has_happened)
        judge_failure(facts, result, found);
    else
        judge_run(result, found);
    if (!result->is_stranded)
        return VW_OK;
    VW__TRY(replay_remedies(facts, found));
    return add_finding(facts, result, found);
}

vw_status vw__doctor_stranded(const vw__doctor_input *input, vw__doctor_facts *facts,
                              vw__doctor_result *result)
{
    uint32_t instant = facts->failure.has_happened ? facts->failure.instant
                                                   : facts->timeline.peak_reserved_instant;
    bool has_pools = facts->failure.has_happened && facts->model->pool_count > 1;
    if (!facts->failure.has_happened && !facts->timeline.is_reserved_known)
        return VW_OK;
    bool has_streams = has_several_streams(facts->trace), has_late = has_late_frees(facts->trace);
    if ((!has_streams && !has_late && !has_pools) || !vw__doctor_can_replay(facts))
        return VW_OK;
    stranding *found = vw__host_alloc_zeroed(1, sizeof *found);
    if (found == NULL)
        return vw__fail_host_memory(sizeof *found, "stranded memory");
    found->has_several_streams = has_streams;
    found->has_late_frees = has_late;
    vw_status status = examine(input, facts, result, instant, found);
    forget(found);
    vw__host_free(found);
    return status == VW_ERR_UNSUPPORTED ? VW_OK : status; /* nobody knows how memory lay */
}
