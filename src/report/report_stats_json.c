/* report_stats_json.c - the statistics as one object; docs/man/headroom-stats.1.scd names its
 * fields. */
#include "report/report_stats.h"

#include "export/json_write.h"
#include "report/report_frames.h"

static void json_time(hr__json *json, const char *key, int64_t time_us)
{
    if (time_us == INT64_MIN)
        hr__json_null(json, key);
    else
        hr__json_integer(json, key, time_us);
}

static void json_usage(hr__json *json, const hr_usage *usage, bool has_frames)
{
    hr__json_begin_object(json, NULL);
    hr__json_text(json, "category", usage->category);
    hr__json_unsigned(json, "bytes", usage->bytes);
    hr__json_unsigned(json, "blocks", usage->block_count);
    hr__json_unsigned(json, "largest_bytes", usage->largest_bytes);
    if (has_frames) {
        hr__json_boolean(json, "has_stack", usage->has_stack);
        hr__json_frames(json, usage->where, usage->frames, usage->frame_count);
    }
    hr__json_end_object(json);
}

static void json_moment(hr__json *json, const char *key, const hr_moment *moment, size_t most_rows)
{
    hr__json_begin_object(json, key);
    hr__json_known(json, "event", moment->event);
    json_time(json, "time_us", moment->time_us);
    hr__json_unsigned(json, "live_bytes", moment->live_bytes);
    hr__json_known(json, "reserved_bytes", moment->reserved_bytes);
    hr__json_unsigned(json, "blocks", moment->block_count);
    hr__json_begin_array(json, "categories");
    for (size_t i = 0; i < moment->category_count; i++)
        json_usage(json, &moment->categories[i], false);
    hr__json_end_array(json);
    hr__json_begin_array(json, "usages");
    for (size_t i = 0; i < moment->usage_count && i < most_rows; i++)
        json_usage(json, &moment->usages[i], true);
    hr__json_end_array(json);
    hr__json_end_object(json);
}

static void json_actions(hr__json *json, const hr_device_stats *device)
{
    static const char *const names[] = {
#define NAME(upper, lower) [HR_ACTION_##upper] = #lower,
        HR_ACTION_LIST(NAME)
#undef NAME
    };
    hr__json_begin_object(json, "actions");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        hr__json_unsigned(json, names[i], device->action_counts[i]);
    hr__json_unsigned(json, "other", device->other_event_count);
    hr__json_end_object(json);
}

static void json_oom(hr__json *json, const hr_device_stats *device)
{
    if (!device->has_oom) {
        hr__json_null(json, "oom");
        return;
    }
    hr__json_begin_object(json, "oom");
    hr__json_unsigned(json, "event", device->oom_event);
    hr__json_unsigned(json, "tried_bytes", device->oom_tried_bytes);
    hr__json_known(json, "free_bytes", device->oom_device_free_bytes);
    hr__json_end_object(json);
}

static void json_spill(hr__json *json, const hr_recorded_spill *spill)
{
    if (spill->spills + spill->returns == 0) {
        hr__json_null(json, "spill");
        return;
    }
    hr__json_begin_object(json, "spill");
    hr__json_unsigned(json, "spills", spill->spills);
    hr__json_unsigned(json, "all_spilled_bytes", spill->all_spilled_bytes);
    hr__json_unsigned(json, "peak_spilled_bytes", spill->peak_spilled_bytes);
    hr__json_unsigned(json, "end_spilled_bytes", spill->end_spilled_bytes);
    hr__json_unsigned(json, "returns", spill->returns);
    hr__json_unsigned(json, "returned_bytes", spill->returned_bytes);
    hr__json_unsigned(json, "wait_us", spill->wait_us);
    hr__json_end_object(json);
}

static void json_device(hr__json *json, const hr_device_stats *device, size_t most_rows)
{
    hr__json_begin_object(json, NULL);
    hr__json_integer(json, "device", device->device);
    hr__json_unsigned(json, "events", device->event_count);
    json_actions(json, device);
    json_time(json, "first_time_us", device->first_time_us);
    json_time(json, "last_time_us", device->last_time_us);
    hr__json_unsigned(json, "streams", device->stream_count);
    hr__json_unsigned(json, "private_pools", device->private_pool_count);
    hr__json_unsigned(json, "steps", device->step_count);
    hr__json_boolean(json, "truncated", device->is_truncated);
    hr__json_unsigned(json, "initial_live_bytes", device->initial_live_bytes);
    hr__json_unsigned(json, "initial_blocks", device->initial_block_count);
    hr__json_unsigned(json, "stackless_allocs", device->stackless_count);
    hr__json_unsigned(json, "segments", device->segment_count);
    hr__json_unsigned(json, "expandable_segments", device->expandable_segment_count);
    hr__json_unsigned(json, "blocks", device->block_count);
    hr__json_unsigned(json, "reserved_bytes", device->reserved_bytes);
    hr__json_unsigned(json, "allocated_bytes", device->allocated_bytes);
    hr__json_unsigned(json, "active_bytes", device->active_bytes);
    hr__json_known(json, "requested_bytes", device->requested_bytes);
    hr__json_unsigned(json, "largest_free_block_bytes", device->largest_free_block_bytes);
    hr__json_known(json, "peak_reserved_bytes", device->peak_reserved_bytes);
    hr__json_known(json, "peak_reserved_event", device->peak_reserved_event);
    json_oom(json, device);
    json_spill(json, &device->spill);
    json_moment(json, "peak", &device->peak, most_rows);
    json_moment(json, "end", &device->end, most_rows);
    hr__json_text(json, "summary", device->summary);
    hr__json_text(json, "summary_reason", device->summary_reason);
    hr__json_end_object(json);
}

void hr__stats_json(hr__report *report, const hr_recording_stats *stats)
{
    hr__json json;
    hr__json_init(&json, &report->buffer);
    hr__json_begin_object(&json, NULL);
    hr__json_unsigned(&json, "schema", 1);
    hr__json_text(&json, "file", report->form.file);
    hr__json_text(&json, "encoding", stats->encoding);
    hr__json_text(&json, "compression", stats->compression);
    hr__json_unsigned(&json, "file_bytes", stats->file_bytes);
    hr__json_unsigned(&json, "uncompressed_bytes", stats->uncompressed_bytes);
    hr__json_unsigned(&json, "model_bytes", stats->model_bytes);
    hr__json_text(&json, "oldest_version", stats->oldest_version);
    hr__json_text(&json, "newest_version", stats->newest_version);
    hr__json_text(&json, "conf", stats->conf);
    hr__json_begin_object(&json, "settings");
    for (size_t i = 0; i < stats->setting_count; i++)
        hr__json_text(&json, stats->settings[i].key, stats->settings[i].value);
    hr__json_end_object(&json);
    hr__json_unsigned(&json, "stacks", stats->stack_count);
    hr__json_unsigned(&json, "frames", stats->frame_count);
    hr__json_unsigned(&json, "annotations", stats->annotation_count);
    hr__json_unsigned(&json, "unknown_fields", stats->unknown_field_count);
    hr__json_text(&json, "first_unknown_field", stats->first_unknown_field);
    hr__json_begin_array(&json, "devices");
    for (size_t i = 0; i < stats->device_count; i++)
        json_device(&json, &stats->devices[i], report->form.most_rows);
    hr__json_end_array(&json);
    hr__json_texts(&json, "warnings", stats->warnings, stats->warning_count);
    hr__json_end_object(&json);
    hr__append_text(&report->buffer, "\n");
}
