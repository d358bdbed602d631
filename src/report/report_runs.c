/* report_runs.c - one row, or one object, for each run of a replay. */
#include "report/report_runs.h"

#include <math.h> /* NAN, isnan */
#include <stdio.h>
#include <string.h>

#include "analysis/policies.h"

void vw__append_setting(vw__byte_buffer *buffer, const vw_replay_result *result)
{
    const bool has_conf = result->conf != NULL && result->conf[0] != '\0';
    if (strcmp(result->policy, "conf") == 0 && has_conf)
        vw__append_text(buffer, result->conf);
    else if (strcmp(result->policy, "recorded") == 0 && has_conf)
        vw__append_format(buffer, "recorded (%s)", result->conf);
    else
        vw__append_text(buffer, result->policy);
}

bool vw__run_is_vramwise(const vw_replay_result *result)
{
    return vw__policy_is_vramwise(result->policy);
}

/* Of the recorded time after the first quarter of the events, in the driver; NAN = not known. */
static double settled_share(const vw_replay_result *result)
{
    if (result->settled_device_ns == VW_UNKNOWN || result->settled_duration_ns == VW_UNKNOWN ||
        result->settled_duration_ns == 0)
        return NAN;
    return (double)result->settled_device_ns / (double)result->settled_duration_ns;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void add_run(vw__table *table, const vw_replay_result *result)
{
    vw__byte_buffer setting;
    vw__byte_buffer_init(&setting);
    vw__append_setting(&setting, result);
    vw__table_row(table, result->is_complete ? VW__STYLE_PLAIN : VW__STYLE_RED);
    vw__table_cell(table, vw__byte_buffer_text(&setting));
    vw__table_cell(table, result->is_complete ? "completed" : "out of memory");
    vw__table_cell(table, vw__size_text(result->peak_reserved_bytes).text);
    vw__table_cell(table, vw__ratio_text(result->ratio).text);
    vw__table_cell(table, vw__count_text(result->retries).text);
    vw__table_cell(table, vw__duration_text(result->device_ns).text);
    vw__table_cell(table, result->smallest_card_bytes == VW_UNKNOWN
                              ? ""
                              : vw__size_text(result->smallest_card_bytes).text);
    if (setting.has_failed)
        table->rows.has_failed = true;
    vw__byte_buffer_deinit(&setting);
}

void vw__report_run_oom(vw__report *report, const vw_replay_result *result)
{
    vw__byte_buffer setting;
    vw__byte_buffer_init(&setting);
    vw__append_setting(&setting, result);
    if (setting.has_failed)
        report->buffer.has_failed = true;
    const uint64_t idle_bytes = result->oom_reserved_bytes >= result->oom_allocated_bytes
                                    ? result->oom_reserved_bytes - result->oom_allocated_bytes
                                    : 0;
    vw__report_say(report, VW__STYLE_PLAIN,
                   "%s: out of memory at event %s: %s asked of the device, %s reserved, %s of it "
                   "idle",
                   vw__byte_buffer_text(&setting), vw__count_text(result->oom_event).text,
                   vw__size_text(result->oom_tried_bytes).text,
                   vw__size_text(result->oom_reserved_bytes).text, vw__size_text(idle_bytes).text);
    vw__byte_buffer_deinit(&setting);
}

void vw__report_run_moves(vw__report *report, const vw_replay_result *result)
{
    const double share = settled_share(result);
    vw__text copied = {"nothing"}, settled = {""};
    if (result->copied_bytes != 0)
        copied = vw__size_text(result->copied_bytes);
    if (!isnan(share) && result->spills == 0) /* else it is what was spilled that takes the time */
        snprintf(settled.text, sizeof settled.text, ", %.12s %s the recorded time once settled",
                 share > 1 ? vw__ratio_text(share).text : vw__share_text(share).text,
                 share > 1 ? "times" : "of");
    vw__report_say(report, VW__STYLE_PLAIN,
                   "%s: %s of free memory moved, %s copied; in the driver at most %s at a time%s",
                   result->policy, vw__size_text(result->moved_bytes).text, copied.text,
                   vw__duration_text(result->longest_stall_ns).text, settled.text);
}

void vw__report_run_spills(vw__report *report, const vw_replay_result *result)
{
    if (result->spills == 0) {
        vw__report_say(report, VW__STYLE_PLAIN, "%s: nothing was spilled", result->policy);
        return;
    }
    vw__text step = {"what a step costs is not known"}, came_back = {"nothing came back"};
    if (result->step_cost_ns != VW_UNKNOWN)
        snprintf(step.text, sizeof step.text, "about %.20s longer %s",
                 vw__duration_text(result->step_cost_ns).text,
                 result->is_step_cost_settled ? "a step" : "in each of the first steps");
    if (result->returns != 0)
        snprintf(came_back.text, sizeof came_back.text, "%.20s came back in %.20s",
                 vw__size_text(result->returned_bytes).text, vw__count_text(result->returns).text);
    vw__report_say(report, VW__STYLE_PLAIN,
                   "%s: at most %s spilled to %s of host memory (%s in %s, %s), which took %s; %s",
                   result->policy, vw__size_text(result->peak_spilled_bytes).text,
                   vw__size_text(result->peak_host_bytes).text,
                   vw__size_text(result->all_spilled_bytes).text,
                   vw__counted_text(result->spills, "time").text, came_back.text,
                   vw__duration_text(result->spill_wait_ns).text, step.text);
}

void vw__report_runs(vw__report *report, const vw_replay_result *results, size_t result_count,
                     size_t most_rows)
{
    static const vw__column columns[] = {
        {"setting", VW__COLUMN_NAME},    {"result", VW__COLUMN_WORD},
        {"reserved", VW__COLUMN_NUMBER}, {"ratio", VW__COLUMN_NUMBER},
        {"retries", VW__COLUMN_NUMBER},  {"driver", VW__COLUMN_NUMBER},
        {"needs", VW__COLUMN_NUMBER},
    };
    vw__table table;
    vw__table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < result_count && i < most_rows; i++)
        add_run(&table, &results[i]);
    vw__table_end(&table, report);
    if (result_count > most_rows)
        vw__report_say(report, VW__STYLE_FAINT, "and %s more",
                       vw__count_text(result_count - most_rows).text);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void json_calls(vw__json *json, const vw_replay_calls *calls)
{
    vw__json_begin_object(json, "device_calls");
    vw__json_unsigned(json, "alloc", calls->alloc);
    vw__json_unsigned(json, "free", calls->free);
    vw__json_unsigned(json, "create", calls->create);
    vw__json_unsigned(json, "release", calls->release);
    vw__json_unsigned(json, "map", calls->map);
    vw__json_unsigned(json, "unmap", calls->unmap);
    vw__json_unsigned(json, "set_access", calls->set_access);
    vw__json_end_object(json);
}

static void json_oom(vw__json *json, const vw_replay_result *result)
{
    if (!result->has_oom) {
        vw__json_null(json, "oom");
        return;
    }
    vw__json_begin_object(json, "oom");
    vw__json_known(json, "event", result->oom_event);
    vw__json_unsigned(json, "tried_bytes", result->oom_tried_bytes);
    vw__json_unsigned(json, "reserved_bytes", result->oom_reserved_bytes);
    vw__json_unsigned(json, "allocated_bytes", result->oom_allocated_bytes);
    vw__json_end_object(json);
}

static void json_spills(vw__json *json, const vw_replay_result *result)
{
    vw__json_unsigned(json, "spilled_bytes", result->peak_spilled_bytes);
    vw__json_unsigned(json, "spills", result->spills);
    vw__json_unsigned(json, "all_spilled_bytes", result->all_spilled_bytes);
    vw__json_unsigned(json, "returns", result->returns);
    vw__json_unsigned(json, "returned_bytes", result->returned_bytes);
    vw__json_unsigned(json, "host_bytes", result->peak_host_bytes);
    vw__json_double(json, "spill_wait_us", (double)result->spill_wait_ns / 1000);
    vw__json_double(json, "step_cost_us",
                    result->step_cost_ns != VW_UNKNOWN ? (double)result->step_cost_ns / 1000 : NAN);
    vw__json_boolean(json, "step_cost_settled", result->is_step_cost_settled);
}

void vw__json_run(vw__json *json, const char *key, const vw_replay_result *result)
{
    if (result == NULL) {
        vw__json_null(json, key);
        return;
    }
    vw__json_begin_object(json, key);
    vw__json_text(json, "policy", result->policy);
    vw__json_text(json, "conf", result->conf);
    vw__json_known(json, "card_bytes", result->card_bytes);
    vw__json_boolean(json, "completed", result->is_complete);
    vw__json_unsigned(json, "events_done", result->events_done);
    vw__json_unsigned(json, "peak_reserved_bytes", result->peak_reserved_bytes);
    vw__json_unsigned(json, "peak_live_bytes", result->peak_live_bytes);
    vw__json_unsigned(json, "peak_allocated_bytes", result->peak_allocated_bytes);
    vw__json_double(json, "ratio", result->ratio);
    vw__json_unsigned(json, "retries", result->retries);
    vw__json_unsigned(json, "trims", result->trims);
    json_oom(json, result);
    vw__json_boolean(json, "past_recorded_oom", result->is_past_recorded_oom);
    json_calls(json, &result->calls);
    vw__json_double(json, "device_us", (double)result->device_ns / 1000);
    vw__json_double(json, "longest_stall_us", (double)result->longest_stall_ns / 1000);
    vw__json_known(json, "smallest_card_bytes", result->smallest_card_bytes);
    vw__json_double(
        json, "settled_device_us",
        result->settled_device_ns != VW_UNKNOWN ? (double)result->settled_device_ns / 1000 : NAN);
    vw__json_double(json, "settled_share", settled_share(result));
    vw__json_unsigned(json, "moved_bytes", result->moved_bytes);
    vw__json_unsigned(json, "copied_bytes", result->copied_bytes);
    json_spills(json, result);
    vw__json_end_object(json);
}

void vw__json_runs(vw__json *json, const char *key, const vw_replay_result *results,
                   size_t result_count)
{
    vw__json_begin_array(json, key);
    for (size_t i = 0; i < result_count; i++)
        vw__json_run(json, NULL, &results[i]);
    vw__json_end_array(json);
}
