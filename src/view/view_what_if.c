/* view_what_if.c - see view_what_if.h. */
#include "view/view_what_if.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analysis/replay_line.h"
#include "analysis/script_events.h" /* vw__script_is_growth, vw__script_is_release */
#include "base/error.h"
#include "settings/setting_table.h"

enum { POLICY_COUNT = 3 }; /* native, expandable, vramwise: the rows that are for the page */

static const char *policy_name(size_t index)
{
    return vw__setting_row_for(VW__SETTING_FOR_VIEW, index)->policy;
}

/* ---- too much -------------------------------------------------------------------------------- */

enum { MOST_STREAMS = 1024, MOST_HELD = 65536 };

static bool has_too_many_streams(const vw__model_trace *trace)
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

/* Compares the most with the fewest held: how many were held before the trace is unknown. */
static bool holds_too_many(const vw__model_trace *trace)
{
    int64_t held = 0, fewest = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        unsigned action = trace->events[i].action;
        held += vw__script_is_growth(action);
        held -= vw__script_is_release(action);
        fewest = held < fewest ? held : fewest;
        if (held - fewest > MOST_HELD)
            return true;
    }
    return false;
}

const char *vw__view_what_if_is_too_much(const vw__model_trace *trace)
{
    if (has_too_many_streams(trace))
        return "it has more than 1,024 streams, which takes too long to replay";
    return holds_too_many(trace)
               ? "more than 65,536 segments were held at once, which takes too long to replay"
               : NULL;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void write_result(const vw__replay_line *line, vw__json *json)
{
    const vw_replay_result *result = &line->result;
    vw__json_begin_object(json, NULL);
    vw__json_text(json, "policy", result->policy);
    vw__json_text(json, "conf", result->conf != NULL ? result->conf : "");
    vw__json_known(json, "card_bytes", result->card_bytes);
    vw__json_boolean(json, "is_complete", result->is_complete);
    vw__json_unsigned(json, "peak_reserved_bytes", result->peak_reserved_bytes);
    vw__json_unsigned(json, "peak_live_bytes", result->peak_live_bytes);
    vw__json_double(json, "ratio", result->ratio);
    vw__json_unsigned(json, "retries", result->retries);
    vw__json_unsigned(json, "device_ns", result->device_ns);
    vw__json_known(json, "oom_instant", result->has_oom ? result->oom_event + 1 : VW_UNKNOWN);
    vw__json_unsigned(json, "points", line->count);
    vw__json_end_object(json);
}

static vw_status write_line(const vw__replay_line *line, size_t number, vw__view_columns *columns)
{
    char name[32];
    snprintf(name, sizeof name, "what_if.%zu.instant", number);
    VW__TRY(vw__view_columns_add(columns, name, VW__VIEW_ARRAY(line->instants, line->count)));
    snprintf(name, sizeof name, "what_if.%zu.bytes", number);
    return vw__view_columns_add(columns, name, VW__VIEW_ARRAY(line->bytes, line->count));
}

/* ---- what came of each policy ---------------------------------------------------------------- */

typedef struct policy_line {
    vw__replay_line line;                /* where `reason` is empty */
    char reason[VW__ERROR_DETAIL_BYTES]; /* why it cannot be replayed */
} policy_line;

typedef struct what_if_work {
    const vw_recording *recording;
    int device;
    const char *torch_version;
    vw__view_progress *progress;
    policy_line made[POLICY_COUNT];
    size_t count; /* of lines */
} what_if_work;

static void free_lines(what_if_work *work)
{
    for (size_t i = 0; i < POLICY_COUNT; i++)
        vw__replay_line_deinit(&work->made[i].line);
}

static vw_status make_some(what_if_work *work, size_t first, size_t count, vw__replay_line *lines)
{
    const char *policies[POLICY_COUNT];
    for (size_t i = 0; i < count; i++)
        policies[i] = policy_name(first + i);
    return vw__replay_lines_make(work->recording, work->device, work->torch_version, policies,
                                 count, VW__VIEW_MOST_POINTS, vw__view_progress_pass,
                                 work->progress, lines);
}

static bool is_final(const what_if_work *work, vw_status status)
{
    return status == VW_ERR_HOST_MEMORY || work->progress->is_stopped;
}

/* Each by itself: what one policy cannot do (a setting that the version does not have yet, say) is
 * left out, and the others stay. */
static vw_status make_each(what_if_work *work)
{
    double share = work->progress->share;
    work->progress->share = 0;
    for (size_t i = 0; i < POLICY_COUNT; i++) {
        policy_line *made = &work->made[i];
        VW__TRY(vw__view_progress_next(work->progress, share / POLICY_COUNT));
        vw_status status = make_some(work, i, 1, &made->line);
        if (is_final(work, status))
            return status;
        if (status == VW_OK)
            work->count++;
        else
            snprintf(made->reason, sizeof made->reason, "%s", vw_last_error());
    }
    return VW_OK;
}

/* All side by side; where that fails, for a reason of one or of all. */
static vw_status make_all(what_if_work *work)
{
    vw__replay_line lines[POLICY_COUNT];
    vw_status status = make_some(work, 0, POLICY_COUNT, lines);
    if (is_final(work, status))
        return status;
    if (status != VW_OK)
        return make_each(work);
    for (size_t i = 0; i < POLICY_COUNT; i++)
        work->made[i].line = lines[i];
    work->count = POLICY_COUNT;
    return VW_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_left_out(const what_if_work *work, vw__json *json)
{
    vw__json_begin_array(json, "what_if_left_out");
    for (size_t i = 0; i < POLICY_COUNT && work->count != 0; i++) {
        if (work->made[i].reason[0] == '\0')
            continue;
        vw__json_begin_object(json, NULL);
        vw__json_text(json, "policy", policy_name(i));
        vw__json_text(json, "reason", work->made[i].reason);
        vw__json_end_object(json);
    }
    vw__json_end_array(json);
}

static vw_status write_lines(const what_if_work *work, const char *reason,
                             vw__view_columns *columns, vw__json *json)
{
    size_t number = 0;
    vw__json_begin_array(json, "what_if");
    for (size_t i = 0; i < POLICY_COUNT && reason == NULL; i++) {
        const vw__replay_line *line = &work->made[i].line;
        if (work->made[i].reason[0] != '\0')
            continue;
        VW__TRY(write_line(line, number++, columns));
        write_result(line, json);
    }
    vw__json_end_array(json);
    write_left_out(work, json);
    vw__json_text(json, "what_if_reason", reason);
    return VW_OK;
}

vw_status vw__view_what_if_write(const vw_recording *recording, int device,
                                 const char *torch_version, const char *reason,
                                 vw__view_progress *progress, vw__view_columns *columns,
                                 vw__json *json)
{
    what_if_work work = {.recording = recording,
                         .device = device,
                         .torch_version = torch_version,
                         .progress = progress};
    vw_status status = reason == NULL ? make_all(&work) : VW_OK;
    if (reason == NULL && work.count == 0)
        reason = work.made[0].reason;
    if (status == VW_OK)
        status = write_lines(&work, reason, columns, json);
    free_lines(&work);
    return status;
}
