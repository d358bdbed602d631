/* view_what_if.c - see view_what_if.h. */
#include "view/view_what_if.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/replay_line.h"
#include "analysis/script_parts.h" /* hr__is_growth, hr__is_release */
#include "base/error.h"

static const char *const policies[] = {"native", "expandable", "headroom"};
enum { POLICY_COUNT = sizeof policies / sizeof policies[0] };

/* ---- too much -------------------------------------------------------------------------------- */

enum { MOST_STREAMS = 1024, MOST_HELD = 65536 };

static bool has_too_many_streams(const hr__model_trace *trace)
{
    bool is_seen[UINT16_MAX + 1] = {false};
    size_t count = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        bool *is_this_seen = &is_seen[trace->events[i].stream];
        count += !*is_this_seen;
        *is_this_seen = true;
    }
    return count > MOST_STREAMS;
}

/* Between the fewest and the most, whatever was held before. */
static bool holds_too_many(const hr__model_trace *trace)
{
    int64_t held = 0, fewest = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        unsigned action = trace->events[i].action;
        held += hr__is_growth(action);
        held -= hr__is_release(action);
        fewest = held < fewest ? held : fewest;
        if (held - fewest > MOST_HELD)
            return true;
    }
    return false;
}

const char *hr__view_what_if_is_too_much(const hr__model_trace *trace)
{
    if (has_too_many_streams(trace))
        return "it has more than 1,024 streams, which takes too long to replay";
    return holds_too_many(trace)
               ? "more than 65,536 segments were held at once, which takes too long to replay"
               : NULL;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void write_result(const hr__replay_line *line, hr__json *json)
{
    const hr_replay_result *result = &line->result;
    hr__json_begin_object(json, NULL);
    hr__json_text(json, "policy", result->policy);
    hr__json_text(json, "conf", result->conf != NULL ? result->conf : "");
    hr__json_boolean(json, "is_complete", result->is_complete);
    hr__json_unsigned(json, "peak_reserved_bytes", result->peak_reserved_bytes);
    hr__json_unsigned(json, "peak_live_bytes", result->peak_live_bytes);
    hr__json_double(json, "ratio", result->ratio);
    hr__json_unsigned(json, "retries", result->retries);
    hr__json_unsigned(json, "device_ns", result->device_ns);
    hr__json_known(json, "oom_instant", result->has_oom ? result->oom_event + 1 : HR_UNKNOWN);
    hr__json_unsigned(json, "points", line->count);
    hr__json_end_object(json);
}

static hr_status write_line(const hr__replay_line *line, size_t number, hr__view_columns *columns)
{
    char name[32];
    snprintf(name, sizeof name, "what_if.%zu.instant", number);
    HR__TRY(hr__view_columns_add(columns, name, HR__VIEW_ARRAY(line->instants, line->count)));
    snprintf(name, sizeof name, "what_if.%zu.bytes", number);
    return hr__view_columns_add(columns, name, HR__VIEW_ARRAY(line->bytes, line->count));
}

/* ---- what came of each policy ---------------------------------------------------------------- */

typedef struct policy_line {
    hr__replay_line line;                /* where `reason` is empty */
    char reason[HR__ERROR_DETAIL_BYTES]; /* why there is none */
} policy_line;

typedef struct what_if_work {
    const hr_recording *recording;
    int device;
    const char *torch_version;
    hr__view_progress *progress;
    policy_line made[POLICY_COUNT];
    size_t count; /* of lines */
} what_if_work;

static void free_lines(what_if_work *work)
{
    for (size_t i = 0; i < POLICY_COUNT; i++)
        hr__replay_line_deinit(&work->made[i].line);
}

static hr_status make_some(what_if_work *work, size_t first, size_t count, hr__replay_line *lines)
{
    return hr__replay_lines_make(work->recording, work->device, work->torch_version,
                                 policies + first, count, HR__VIEW_MOST_POINTS,
                                 hr__view_progress_pass, work->progress, lines);
}

static bool is_final(const what_if_work *work, hr_status status)
{
    return status == HR_ERR_HOST_MEMORY || work->progress->is_stopped;
}

/* Each by itself: what one policy cannot do (a setting that the version does not have yet, say) is
 * left out, and the others stay. */
static hr_status make_each(what_if_work *work)
{
    double share = work->progress->share;
    work->progress->share = 0;
    for (size_t i = 0; i < POLICY_COUNT; i++) {
        policy_line *made = &work->made[i];
        HR__TRY(hr__view_progress_next(work->progress, share / POLICY_COUNT));
        hr_status status = make_some(work, i, 1, &made->line);
        if (is_final(work, status))
            return status;
        if (status == HR_OK)
            work->count++;
        else
            snprintf(made->reason, sizeof made->reason, "%s", hr_last_error());
    }
    return HR_OK;
}

/* All side by side; where that fails, for a reason of one or of all. */
static hr_status make_all(what_if_work *work)
{
    hr__replay_line lines[POLICY_COUNT];
    hr_status status = make_some(work, 0, POLICY_COUNT, lines);
    if (is_final(work, status))
        return status;
    if (status != HR_OK)
        return make_each(work);
    for (size_t i = 0; i < POLICY_COUNT; i++)
        work->made[i].line = lines[i];
    work->count = POLICY_COUNT;
    return HR_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_left_out(const what_if_work *work, hr__json *json)
{
    hr__json_begin_array(json, "what_if_left_out");
    for (size_t i = 0; i < POLICY_COUNT && work->count != 0; i++) {
        if (work->made[i].reason[0] == '\0')
            continue;
        hr__json_begin_object(json, NULL);
        hr__json_text(json, "policy", policies[i]);
        hr__json_text(json, "reason", work->made[i].reason);
        hr__json_end_object(json);
    }
    hr__json_end_array(json);
}

static hr_status write_lines(const what_if_work *work, const char *reason,
                             hr__view_columns *columns, hr__json *json)
{
    size_t number = 0;
    hr__json_begin_array(json, "what_if");
    for (size_t i = 0; i < POLICY_COUNT && reason == NULL; i++) {
        const hr__replay_line *line = &work->made[i].line;
        if (work->made[i].reason[0] != '\0')
            continue;
        HR__TRY(write_line(line, number++, columns));
        write_result(line, json);
    }
    hr__json_end_array(json);
    write_left_out(work, json);
    hr__json_text(json, "what_if_reason", reason);
    return HR_OK;
}

hr_status hr__view_what_if_write(const hr_recording *recording, int device,
                                 const char *torch_version, const char *reason,
                                 hr__view_progress *progress, hr__view_columns *columns,
                                 hr__json *json)
{
    what_if_work work = {.recording = recording,
                         .device = device,
                         .torch_version = torch_version,
                         .progress = progress};
    hr_status status = reason == NULL ? make_all(&work) : HR_OK;
    if (reason == NULL && work.count == 0)
        reason = work.made[0].reason;
    if (status == HR_OK)
        status = write_lines(&work, reason, columns, json);
    free_lines(&work);
    return status;
}
