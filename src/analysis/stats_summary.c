/* stats_summary.c - the replay behind the summary.
 *
 * One run, under the recorded settings, with the segments at the addresses that the driver gave
 * them. What the pool tells its listener is held against the trace as it comes; if every event to
 * the last is the recorded one, the pool's counters are PyTorch's, and the page is printed from
 * them. At the first that is not, there is no page: nearly PyTorch's numbers would be worse than
 * none.
 *
 * What we did not do: try what verify.c tries before it speaks of a difference (a limit found by
 * halving, releases of unknown cause, pools that are not split). Statistics are asked for often and
 * must be quick; whoever wants to know why there is no page runs verify.
 *
 * It is most of the work of stats and needs nothing of the rest, so it can run beside it, on a
 * thread of its own. All it shares with the other thread is the model, which nobody changes; the
 * page and the words of a failure are handed over when it is waited for.
 *
 * Of hundreds of thousands of events a few hundred take memory from the device or give it back.
 * The script has picked them out, and what has to do with the device looks at those. */
#include "analysis/stats_summary.h"

#include <stdio.h>
#include <string.h>

#include "analysis/player.h"
#include "analysis/recording.h" /* vw__recording_conf */
#include "analysis/regions.h"
#include "analysis/script.h"
#include "analysis/script_events.h"  /* vw__is_growth, vw__is_release, vw__is_remark */
#include "analysis/limit_evidence.h" /* vw__limit_evidence, vw__total_memory_guess */
#include "base/error.h"
#include "base/host_memory.h"

enum {
    SLICE_OPS = 4096,      /* played at a time: they stay in the cache, and a difference ends it */
    THREAD_EVENTS = 16384, /* with fewer a thread costs more than it saves */
};

/* The events of a trace that take memory from the device or give it back. */
typedef struct segment_events {
    vw__model_event *events; /* owned; as in the trace */
    const uint32_t *places;  /* the script's: where they are in it */
    size_t count;
    bool has_refusals; /* a release, or an oom: a request may have met a limit */
} segment_events;

typedef struct summary_run {
    const vw__model_trace *trace;
    const segment_events *segments;
    vw__player player;
    vw__regions regions;
    size_t next_event;       /* of the trace: what the pool must tell next */
    size_t prepared_segment; /* the device knows the addresses of growths before it */
    bool is_different;
} summary_run;

/* ---- segment events -------------------------------------------------------------------------- */

static vw_status copy_segment_events(const vw__script *script, segment_events *segments)
{
    *segments = (segment_events){.places = script->segment_events,
                                 .count = script->segment_event_count,
                                 .has_refusals = script->has_ooms};
    size_t size_bytes = segments->count * sizeof *segments->events;
    segments->events = vw__host_alloc(size_bytes);
    if (segments->events == NULL)
        return vw__fail_host_memory(size_bytes, "the segments of a trace");
    for (size_t i = 0; i < segments->count; i++) {
        segments->events[i] = script->trace->events[segments->places[i]];
        segments->has_refusals =
            segments->has_refusals || vw__is_release(segments->events[i].action);
    }
    return VW_OK;
}

/* ---- listening ------------------------------------------------------------------------------- */

static bool is_same_event(const vw__model_event *recorded, const vw_memory_event *seen)
{
    if (recorded->action != seen->action || recorded->size_bytes != seen->size_bytes)
        return false;
    return seen->action == VW_ACTION_OOM || recorded->address == seen->address;
}

static void skip_remarks(summary_run *run)
{
    while (run->next_event < run->trace->event_count &&
           vw__is_remark(run->trace->events[run->next_event].action))
        run->next_event++;
}

static void listen(void *context, const vw_memory_event *seen)
{
    summary_run *run = context;
    skip_remarks(run);
    if (run->next_event == run->trace->event_count ||
        !is_same_event(&run->trace->events[run->next_event], seen))
        run->is_different = true;
    else
        run->next_event++;
}

/* ---- playing --------------------------------------------------------------------------------- */

/* Tells the device where the segments lie that the events before `end` begin. */
static vw_status prepare_events(summary_run *run, size_t end)
{
    const segment_events *segments = run->segments;
    for (; run->prepared_segment < segments->count && segments->places[run->prepared_segment] < end;
         run->prepared_segment++) {
        const vw__model_event *event = &segments->events[run->prepared_segment];
        const vw__region *region;
        vw__region was;
        bool is_new = false, is_gone;
        if (vw__is_growth(event->action))
            VW__TRY(vw__regions_take(&run->regions, event->address, event->size_bytes,
                                     event->action == VW_ACTION_SEGMENT_MAP, &region, &is_new));
        else
            run->is_different =
                run->is_different || !vw__regions_give_back(&run->regions, event->address,
                                                            event->size_bytes, &was, &is_gone);
        if (!is_new)
            continue;
        vw_status status = vw_simulated_dictate_address(run->player.device, event->address);
        if (status == VW_ERR_HOST_MEMORY)
            return status;
        run->is_different = run->is_different || status != VW_OK;
    }
    return VW_OK;
}

/* The first operation in [first, end) that the device must be prepared for: it has the next segment
 * event, or comes behind one that no operation has. `end` if there is none. */
static size_t next_segment_op(const summary_run *run, size_t first, size_t end)
{
    const vw__script_op *ops = run->player.script->ops;
    if (run->prepared_segment == run->segments->count)
        return end;
    uint32_t place = run->segments->places[run->prepared_segment];
    while (first < end &&
           (ops[first].first_event == VW__BEFORE_RECORDING || ops[first].end_event <= place))
        first++;
    return first;
}

static vw_status play(summary_run *run)
{
    const vw__script *script = run->player.script;
    size_t next = 0;
    while (next < script->op_count && !run->is_different) {
        size_t left = script->op_count - next, stopped;
        size_t end = next_segment_op(run, next, next + (left < SLICE_OPS ? left : SLICE_OPS));
        if (end == next) {
            VW__TRY(prepare_events(run, script->ops[next].end_event));
            end = next + 1;
        }
        vw_status status = vw__player_play(&run->player, next, end, &stopped);
        if (status == VW_ERR_HOST_MEMORY)
            return status;
        bool is_recorded_oom =
            status == VW_ERR_OUT_OF_MEMORY && script->ops[stopped].kind == VW__SCRIPT_OOM;
        run->is_different = run->is_different || (status != VW_OK && !is_recorded_oom);
        next = status == VW_OK ? end : stopped + 1;
    }
    skip_remarks(run);
    run->is_different = run->is_different || run->next_event != run->trace->event_count;
    return VW_OK;
}

/* ---- the limit ------------------------------------------------------------------------------- */

/* The card, and a fraction of it that gives the limit which the trace shows; 1 where it shows none.
 */
static vw_status find_fraction(const vw__script *script, const segment_events *segments,
                               vw__player_options *options)
{
    const vw__model_trace few = {.events = segments->events,
                                 .event_count = segments->count,
                                 .device = script->trace->device};
    const vw__script reservations = {.model = script->model, .trace = &few};
    options->fraction = 1.0;
    VW__TRY(vw__total_memory_guess(&reservations, &options->total_bytes));
    if (!segments->has_refusals)
        return VW_OK; /* no request met a limit */

    vw__limit_evidence evidence;
    VW__TRY(vw__limit_evidence_find(script, options->torch_version, options->conf,
                                    options->total_bytes, &evidence));
    if (evidence.below_bytes != UINT64_MAX)
        options->fraction = vw__fraction_for_limit(evidence.at_least_bytes, options->total_bytes);
    vw__limit_evidence_deinit(&evidence);
    return VW_OK;
}

/* ---- the page -------------------------------------------------------------------------------- */

static vw_status print_page(const summary_run *run, vw__arena *arena, const char **summary)
{
    size_t needed = 0;
    vw_status status = vw_pool_summary(run->player.pool, false, NULL, 0, &needed);
    if (needed == 0)
        return status; /* else it only says that nothing is not enough room */
    char *page = vw__arena_alloc(arena, needed, 1);
    if (page == NULL)
        return vw__fail_host_memory(needed, "the summary");
    status = vw_pool_summary(run->player.pool, false, page, needed, NULL);
    if (status == VW_OK)
        *summary = page;
    return status;
}

static vw_status run_script(const vw__script *script, const segment_events *segments,
                            const char *torch_version, const char *conf, vw__arena *arena,
                            const char **summary, const char **reason)
{
    summary_run run = {.trace = script->trace, .segments = segments};
    vw_event_sink sink = {&run, listen};
    vw__player_options options = {
        .torch_version = torch_version,
        .conf = conf,
        .capacity_bytes = UINT64_MAX,
        .sink = &sink,
    };
    vw__regions_init(&run.regions);
    vw_status status = find_fraction(script, segments, &options);
    if (status == VW_OK)
        status = vw__player_init(&run.player, script, &options);
    if (status == VW_OK) {
        status = play(&run);
        if (status == VW_OK && !run.is_different)
            status = print_page(&run, arena, summary);
        else if (status == VW_OK)
            *reason = "replay does not reproduce the recording at first try; verify says more";
        vw__player_deinit(&run.player);
    } else if (status == VW_ERR_BAD_SETTING) {
        *reason = "the recorded settings cannot be used with the rules of this version";
        status = VW_OK;
    }
    vw__regions_deinit(&run.regions);
    return status;
}

vw_status vw__stats_summary(const vw__model *model, const vw__model_trace *trace,
                            const char *torch_version, vw__arena *arena, const char **summary,
                            const char **reason)
{
    vw__script script;
    vw_status status = vw__script_make(model, trace, &script);
    *summary = NULL;
    *reason = NULL;
    if (status == VW_ERR_CORRUPT_FILE || status == VW_ERR_UNSUPPORTED) {
        *reason = "the trace contradicts itself";
        return VW_OK;
    }
    if (status != VW_OK)
        return status;
    segment_events segments;
    vw__byte_buffer conf;
    vw__byte_buffer_init(&conf);
    status = copy_segment_events(&script, &segments);
    if (status == VW_OK)
        status = vw__recording_conf(model, &conf);
    if (status == VW_OK)
        status = run_script(&script, &segments, torch_version, vw__byte_buffer_text(&conf), arena,
                            summary, reason);
    vw__byte_buffer_deinit(&conf);
    vw__host_free(segments.events);
    vw__script_deinit(&script);
    return status;
}

/* ---- beside the rest ------------------------------------------------------------------------- */

static void *run_job(void *context)
{
    vw__summary_job *job = context;
    job->status = vw__stats_summary(job->model, job->trace, job->torch_version, &job->arena,
                                    &job->summary, &job->reason);
    if (job->status != VW_OK)
        snprintf(job->failure, sizeof job->failure, "%s", vw_last_error());
    return NULL;
}

void vw__summary_job_begin(vw__summary_job *job, const vw__model *model,
                           const vw__model_trace *trace, const char *torch_version)
{
    *job = (vw__summary_job){.model = model, .trace = trace, .torch_version = torch_version};
    vw__arena_init(&job->arena, VW__ARENA_NO_LIMIT);
    if (trace->event_count >= THREAD_EVENTS)
        job->is_running = pthread_create(&job->thread, NULL, run_job, job) == 0;
}

vw_status vw__summary_job_finish(vw__summary_job *job, vw__arena *arena, const char **summary,
                                 const char **reason)
{
    if (!job->is_running)
        return vw__stats_summary(job->model, job->trace, job->torch_version, arena, summary,
                                 reason);
    (void)pthread_join(job->thread, NULL);
    job->is_running = false;
    if (job->status != VW_OK)
        return vw__fail(job->status, "%s", job->failure);
    *reason = job->reason;
    *summary = NULL;
    if (job->summary == NULL)
        return VW_OK;
    *summary = vw__arena_copy(arena, job->summary, strlen(job->summary));
    return *summary != NULL ? VW_OK : vw__fail_host_memory(strlen(job->summary), "the summary");
}

void vw__summary_job_deinit(vw__summary_job *job)
{
    if (job->is_running)
        (void)pthread_join(job->thread, NULL);
    vw__arena_deinit(&job->arena);
    job->is_running = false;
}
