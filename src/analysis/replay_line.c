/* replay_line.c - see replay_line.h.
 *
 * A run reports where reserved bytes change, by the operation of the script; the events of that
 * operation give the instant. All changes are kept while the run is made: only its end shows
 * whether they are too many. They are few, since each is a call of the device.
 *
 * Operations of the same instant (those from before the recording, and frees that a request found
 * complete) make one point, the highest of them. A peak that comes and goes within one operation is
 * the point of its instant, and the line comes down one instant later, so that no peak is lost. */
#include "analysis/replay_line.h"

#include <string.h>

#include "analysis/array.h"
#include "analysis/recording.h"
#include "analysis/replay.h"
#include "base/checked_math.h" /* vw__max_u64 */
#include "base/error.h"
#include "base/host_memory.h"

typedef struct line_point {
    uint64_t bytes;
    uint32_t instant;
} line_point;

/* A line while its run is made. */
typedef struct line_draft {
    const vw__script *script;
    vw__replay_listener listener; /* its context is this draft */
    line_point *points;           /* owned; instants rise; the first is at 0 */
    size_t count, capacity;
    uint64_t after_bytes; /* reserved after the last point's instant */
    bool is_out_of_memory;
} line_draft;

/* ---- listening ------------------------------------------------------------------------------- */

static void add_point(line_draft *draft, uint32_t instant, uint64_t bytes)
{
    if (vw__array_make_room(&draft->points, &draft->capacity, draft->count, sizeof *draft->points,
                            "a line of reserved bytes") != VW_OK)
        draft->is_out_of_memory = true;
    else
        draft->points[draft->count++] = (line_point){bytes, instant};
}

static void begin_line(void *context)
{
    line_draft *draft = context;
    draft->count = 0;
    draft->after_bytes = 0;
    add_point(draft, 0, 0);
}

/* Ends a peak that did not last, if there is an instant for that before `next_instant`. */
static void come_down(line_draft *draft, uint32_t next_instant)
{
    const line_point *last = &draft->points[draft->count - 1];
    if (last->bytes != draft->after_bytes && last->instant + 1 < next_instant)
        add_point(draft, last->instant + 1, draft->after_bytes);
}

static void follow_line(void *context, size_t op, uint64_t highest_bytes, uint64_t bytes)
{
    line_draft *draft = context;
    uint32_t end_event = draft->script->ops[op].end_event;
    uint32_t instant = end_event == VW__SCRIPT_BEFORE_RECORDING ? 0 : end_event;
    if (draft->is_out_of_memory)
        return;
    line_point *last = &draft->points[draft->count - 1];
    if (instant <= last->instant) {
        last->bytes = vw__max_u64(last->bytes, highest_bytes);
    } else {
        come_down(draft, instant);
        add_point(draft, instant, highest_bytes);
    }
    draft->after_bytes = bytes;
}

/* ---- fewer points ---------------------------------------------------------------------------- */

/* The first instant of span `span`, of `span_count` that share `instant_count`; both are below
 * 2^32. */
static uint32_t span_start(size_t span, size_t span_count, size_t instant_count)
{
    return (uint32_t)((uint64_t)span * instant_count / span_count);
}

static void keep_point(vw__replay_line *line, uint32_t instant, uint64_t bytes)
{
    if (line->count != 0 && line->bytes[line->count - 1] == bytes)
        return;
    line->instants[line->count] = instant;
    line->bytes[line->count++] = bytes;
}

static void thin_out(const line_draft *draft, size_t span_count, vw__replay_line *line)
{
    size_t instant_count = draft->script->trace->event_count + 1;
    size_t next = 0;
    uint64_t bytes = 0;
    for (size_t span = 0; span < span_count; span++) {
        uint32_t start = span_start(span, span_count, instant_count);
        uint32_t end = span_start(span + 1, span_count, instant_count);
        if (next < draft->count && draft->points[next].instant == start)
            bytes = draft->points[next++].bytes; /* what was before ends where the span begins */
        uint64_t highest_bytes = bytes;
        for (; next < draft->count && draft->points[next].instant < end; next++) {
            bytes = draft->points[next].bytes;
            highest_bytes = vw__max_u64(highest_bytes, bytes);
        }
        keep_point(line, start, highest_bytes);
    }
}

static vw_status finish_line(line_draft *draft, size_t most_points, vw__replay_line *line)
{
    size_t event_count = draft->script->trace->event_count;
    if (!draft->is_out_of_memory)
        come_down(draft, (uint32_t)event_count + 1); /* fewer than 2^32 - 2 */
    if (draft->is_out_of_memory)
        return vw__fail_host_memory(draft->count * sizeof *draft->points,
                                    "a line of reserved bytes");
    size_t room = draft->count < most_points ? draft->count : most_points;
    line->instants = vw__host_alloc(room * sizeof *line->instants);
    line->bytes = vw__host_alloc(room * sizeof *line->bytes);
    if (line->instants == NULL || line->bytes == NULL)
        return vw__fail_host_memory(room * (sizeof *line->instants + sizeof *line->bytes),
                                    "a line of reserved bytes");
    if (draft->count > most_points)
        thin_out(draft, most_points, line);
    else
        for (size_t i = 0; i < draft->count; i++)
            keep_point(line, draft->points[i].instant, draft->points[i].bytes);
    return VW_OK;
}

/* ---- the runs -------------------------------------------------------------------------------- */

typedef struct lines_call {
    const vw__replay_work *work;
    vw__replay_card card;
    bool is_version_asked_for;
    vw__replay_line *lines;
    line_draft *drafts;   /* owned */
    vw__replay_job *jobs; /* owned */
    size_t count;
} lines_call;

static vw_status name_line(lines_call *call, size_t i, const char *policy)
{
    const char *conf = NULL;
    vw__replay_line *line = &call->lines[i];
    VW__TRY(vw__replay_name_run(call->work, policy, NULL, &line->result.policy, &conf));
    VW__TRY(vw__replay_check_recorded(call->work, policy, call->is_version_asked_for));
    size_t conf_bytes = strlen(conf) + 1;
    line->conf = vw__host_alloc(conf_bytes);
    if (line->conf == NULL)
        return vw__fail_host_memory(conf_bytes, "an option string");
    memcpy(line->conf, conf, conf_bytes);
    call->drafts[i].script = &call->work->script;
    call->drafts[i].listener = (vw__replay_listener){begin_line, follow_line, &call->drafts[i]};
    call->jobs[i] = (vw__replay_job){.setting = vw__policy_setting(line->result.policy, line->conf),
                                     .card = call->card,
                                     .listener = &call->drafts[i].listener,
                                     .result = &line->result};
    return VW_OK;
}

static vw_status make_lines(lines_call *call, const char *const *policies, size_t most_points,
                            const vw__replay_progress *progress)
{
    for (size_t i = 0; i < call->count; i++)
        VW__TRY(name_line(call, i, policies[i]));
    VW__TRY(vw__replay_work_off(call->work, call->jobs, call->count, 0, progress));
    for (size_t i = 0; i < call->count; i++)
        VW__TRY(finish_line(&call->drafts[i], most_points, &call->lines[i]));
    const vw__replay_progress all = {progress->progress, progress->context, 1.0, 0.0};
    return vw__replay_tell(&all, 0.0);
}

static vw_status prepare_and_make(lines_call *call, const char *const *policies, size_t most_points,
                                  const vw__replay_progress *progress)
{
    vw_status status = VW_OK;
    call->drafts = vw__host_alloc_zeroed(call->count, sizeof *call->drafts);
    call->jobs = vw__host_alloc_zeroed(call->count, sizeof *call->jobs);
    if (call->drafts == NULL || call->jobs == NULL)
        status = vw__fail_host_memory(call->count * (sizeof *call->drafts + sizeof *call->jobs),
                                      "the runs of a replay");
    else
        status = make_lines(call, policies, most_points, progress);
    for (size_t i = 0; i < call->count && call->drafts != NULL; i++)
        vw__host_free(call->drafts[i].points);
    vw__host_free(call->drafts);
    vw__host_free(call->jobs);
    return status;
}

vw_status vw__replay_lines_make(const vw_recording *recording, int device,
                                const char *torch_version, const char *const *policies,
                                size_t policy_count, size_t most_points, vw_progress progress,
                                void *progress_context, vw__replay_line *lines)
{
    vw__replay_work work;
    const vw__replay_progress told = {progress, progress_context, 0.0, 1.0};
    if (policy_count == 0 || most_points == 0)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "%zu policies and %zu points: at least one of each is expected",
                        policy_count, most_points);
    memset(lines, 0, policy_count * sizeof *lines);
    vw_status status = vw__replay_work_init(&work, recording->model, torch_version, device, NULL);
    if (status == VW_OK) {
        vw__replay_recorded_card recorded;
        lines_call call = {.work = &work,
                           .is_version_asked_for = torch_version != NULL,
                           .lines = lines,
                           .count = policy_count};
        status = vw__replay_recorded_card_find(&work, &recorded);
        if (status == VW_OK) {
            call.card = vw__replay_card_as_recorded(&recorded);
            status = prepare_and_make(&call, policies, most_points, &told);
        }
        vw__replay_work_deinit(&work);
    }
    for (size_t i = 0; i < policy_count && status != VW_OK; i++)
        vw__replay_line_deinit(&lines[i]);
    return status;
}

void vw__replay_line_deinit(vw__replay_line *line)
{
    vw__host_free(line->instants);
    vw__host_free(line->bytes);
    vw__host_free(line->conf);
    *line = (vw__replay_line){.count = 0};
}
