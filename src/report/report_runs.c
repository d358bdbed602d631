/* report_runs.c - one row, or one object, for each run of a replay. */
#include "report/report_runs.h"

#include <math.h> /* NAN, isnan */
#include <stdio.h>
#include <string.h>

#include "analysis/policies.h"

void hr__append_setting(hr__byte_buffer *buffer, const hr_replay_result *result)
{
    const bool has_conf = result->conf != NULL && result->conf[0] != '\0';
    if (strcmp(result->policy, "conf") == 0 && has_conf)
        hr__append_text(buffer, result->conf);
    else if (strcmp(result->policy, "recorded") == 0 && has_conf)
        hr__append_format(buffer, "recorded (%s)", result->conf);
    else
        hr__append_text(buffer, result->policy);
}

bool hr__run_is_headroom(const hr_replay_result *result)
{
    return hr__policy_is_headroom(result->policy);
}

/* Of the recorded time after the first quarter of the events, in the driver; NAN = not known. */
static double settled_share(const hr_replay_result *result)
{
    if (result->settled_device_ns == HR_UNKNOWN || result->settled_duration_ns == HR_UNKNOWN ||
        result->settled_duration_ns == 0)
        return NAN;
    return (double)result->settled_device_ns / (double)result->settled_duration_ns;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void add_run(hr__table *table, const hr_replay_result *result)
{
    hr__byte_buffer setting;
    hr__byte_buffer_init(&setting);
    hr__append_setting(&setting, result);
    hr__table_row(table, result->is_complete ? HR__STYLE_PLAIN : HR__STYLE_RED);
    hr__table_cell(table, hr__byte_buffer_text(&setting));
    hr__table_cell(table, result->is_complete ? "completed" : "out of memory");
    hr__table_cell(table, hr__size_text(result->peak_reserved_bytes).text);
    hr__table_cell(table, hr__ratio_text(result->ratio).text);
    hr__table_cell(table, hr__count_text(result->retries).text);
    hr__table_cell(table, hr__duration_text(result->device_ns).text);
    hr__table_cell(table, result->smallest_card_bytes == HR_UNKNOWN
                              ? ""
                              : hr__size_text(result->smallest_card_bytes).text);
    if (setting.has_failed)
        table->rows.has_failed = true;
    hr__byte_buffer_deinit(&setting);
}

void hr__report_run_oom(hr__report *report, const hr_replay_result *result)
{
    hr__byte_buffer setting;
    hr__byte_buffer_init(&setting);
    hr__append_setting(&setting, result);
    if (setting.has_failed)
        report->buffer.has_failed = true;
    const uint64_t idle_bytes = result->oom_reserved_bytes >= result->oom_allocated_bytes
                                    ? result->oom_reserved_bytes - result->oom_allocated_bytes
                                    : 0;
    hr__report_say(report, HR__STYLE_PLAIN,
                   "%s: out of memory at event %s: %s asked of the device, %s reserved, %s of it "
                   "idle",
                   hr__byte_buffer_text(&setting), hr__count_text(result->oom_event).text,
                   hr__size_text(result->oom_tried_bytes).text,
                   hr__size_text(result->oom_reserved_bytes).text, hr__size_text(idle_bytes).text);
    hr__byte_buffer_deinit(&setting);
}

void hr__report_run_moves(hr__report *report, const hr_replay_result *result)
{
    const double share = settled_share(result);
    hr__text copied = {"nothing"}, settled = {""};
    if (result->copied_bytes != 0)
        copied = hr__size_text(result->copied_bytes);
    if (!isnan(share) && result->spills == 0) /* else it is what was spilled that takes the time */
        snprintf(settled.text, sizeof settled.text, ", %.12s %% of the time once settled",
                 hr__ratio_text(100 * share).text);
    hr__report_say(report, HR__STYLE_PLAIN,
                   "%s: %s of free memory moved, %s copied; in the driver at most %s at a time%s",
                   result->policy, hr__size_text(result->moved_bytes).text, copied.text,
                   hr__duration_text(result->longest_stall_ns).text, settled.text);
}

void hr__report_run_spills(hr__report *report, const hr_replay_result *result)
{
    if (result->spills == 0) {
        hr__report_say(report, HR__STYLE_PLAIN, "%s: nothing was spilled", result->policy);
        return;
    }
    hr__text step = {"what a step costs is not known"}, came_back = {"nothing came back"};
    if (result->step_cost_ns != HR_UNKNOWN)
        snprintf(step.text, sizeof step.text, "about %.20s longer %s",
                 hr__duration_text(result->step_cost_ns).text,
                 result->is_step_cost_settled ? "a step" : "in each of the first steps");
    if (result->returns != 0)
        snprintf(came_back.text, sizeof came_back.text, "%.20s came back in %.20s",
                 hr__size_text(result->returned_bytes).text, hr__count_text(result->returns).text);
    hr__report_say(report, HR__STYLE_PLAIN,
                   "%s: at most %s spilled to %s of host memory (%s in %s, %s), which took %s; %s",
                   result->policy, hr__size_text(result->peak_spilled_bytes).text,
                   hr__size_text(result->peak_host_bytes).text,
                   hr__size_text(result->all_spilled_bytes).text,
                   hr__counted_text(result->spills, "time").text, came_back.text,
                   hr__duration_text(result->spill_wait_ns).text, step.text);
}

void hr__report_runs(hr__report *report, const hr_replay_result *results, size_t result_count,
                     size_t most_rows)
{
    static const hr__column columns[] = {
        {"setting", HR__COLUMN_NAME},    {"result", HR__COLUMN_WORD},
        {"reserved", HR__COLUMN_NUMBER}, {"ratio", HR__COLUMN_NUMBER},
        {"retries", HR__COLUMN_NUMBER},  {"driver", HR__COLUMN_NUMBER},
        {"needs", HR__COLUMN_NUMBER},
    };
    hr__table table;
    hr__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < result_count && i < most_rows; i++)
        add_run(&table, &results[i]);
    hr__table_end(&table, report);
    if (result_count > most_rows)
        hr__report_say(report, HR__STYLE_FAINT, "and %s more",
                       hr__count_text(result_count - most_rows).text);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_calls(hr__json *json, const hr_replay_calls *calls)
{
    hr__json_begin_object(json, "device_calls");
    hr__json_unsigned(json, "alloc", calls->alloc);
    hr__json_unsigned(json, "free", calls->free);
    hr__json_unsigned(json, "create", calls->create);
    hr__json_unsigned(json, "release", calls->release);
    hr__json_unsigned(json, "map", calls->map);
    hr__json_unsigned(json, "unmap", calls->unmap);
    hr__json_unsigned(json, "set_access", calls->set_access);
    hr__json_end_object(json);
}

static void json_oom(hr__json *json, const hr_replay_result *result)
{
    if (!result->has_oom) {
        hr__json_null(json, "oom");
        return;
    }
    hr__json_begin_object(json, "oom");
    hr__json_known(json, "event", result->oom_event);
    hr__json_unsigned(json, "tried_bytes", result->oom_tried_bytes);
    hr__json_unsigned(json, "reserved_bytes", result->oom_reserved_bytes);
    hr__json_unsigned(json, "allocated_bytes", result->oom_allocated_bytes);
    hr__json_end_object(json);
}

static void json_spills(hr__json *json, const hr_replay_result *result)
{
    hr__json_unsigned(json, "spilled_bytes", result->peak_spilled_bytes);
    hr__json_unsigned(json, "spills", result->spills);
    hr__json_unsigned(json, "all_spilled_bytes", result->all_spilled_bytes);
    hr__json_unsigned(json, "returns", result->returns);
    hr__json_unsigned(json, "returned_bytes", result->returned_bytes);
    hr__json_unsigned(json, "host_bytes", result->peak_host_bytes);
    hr__json_double(json, "spill_wait_us", (double)result->spill_wait_ns / 1000);
    hr__json_double(json, "step_cost_us",
                    result->step_cost_ns != HR_UNKNOWN ? (double)result->step_cost_ns / 1000 : NAN);
    hr__json_boolean(json, "step_cost_settled", result->is_step_cost_settled);
}

void hr__json_run(hr__json *json, const char *key, const hr_replay_result *result)
{
    if (result == NULL) {
        hr__json_null(json, key);
        return;
    }
    hr__json_begin_object(json, key);
    hr__json_text(json, "policy", result->policy);
    hr__json_text(json, "conf", result->conf);
    hr__json_known(json, "card_bytes", result->card_bytes);
    hr__json_boolean(json, "completed", result->is_complete);
    hr__json_unsigned(json, "events_done", result->events_done);
    hr__json_unsigned(json, "peak_reserved_bytes", result->peak_reserved_bytes);
    hr__json_unsigned(json, "peak_live_bytes", result->peak_live_bytes);
    hr__json_unsigned(json, "peak_allocated_bytes", result->peak_allocated_bytes);
    hr__json_double(json, "ratio", result->ratio);
    hr__json_unsigned(json, "retries", result->retries);
    hr__json_unsigned(json, "trims", result->trims);
    json_oom(json, result);
    hr__json_boolean(json, "past_recorded_oom", result->is_past_recorded_oom);
    json_calls(json, &result->calls);
    hr__json_double(json, "device_us", (double)result->device_ns / 1000);
    hr__json_double(json, "longest_stall_us", (double)result->longest_stall_ns / 1000);
    hr__json_known(json, "smallest_card_bytes", result->smallest_card_bytes);
    hr__json_double(
        json, "settled_device_us",
        result->settled_device_ns != HR_UNKNOWN ? (double)result->settled_device_ns / 1000 : NAN);
    hr__json_double(json, "settled_share", settled_share(result));
    hr__json_unsigned(json, "moved_bytes", result->moved_bytes);
    hr__json_unsigned(json, "copied_bytes", result->copied_bytes);
    json_spills(json, result);
    hr__json_end_object(json);
}

void hr__json_runs(hr__json *json, const char *key, const hr_replay_result *results,
                   size_t result_count)
{
    hr__json_begin_array(json, key);
    for (size_t i = 0; i < result_count; i++)
        hr__json_run(json, NULL, &results[i]);
    hr__json_end_array(json);
}
