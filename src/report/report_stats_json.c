/* report_stats_json.c - the statistics as one object; docs/man/vramwise-stats.1.scd names its
 * fields. */
#include "report/report_stats.h"

#include "export/json_write.h"
#include "report/report_frames.h"

static void json_time(vw__json *json, const char *key, int64_t time_us)
{
    if (time_us == INT64_MIN)
        vw__json_null(json, key);
    else
        vw__json_integer(json, key, time_us);
}

static void json_usage(vw__json *json, const vw_usage *usage, bool has_frames)
{
    vw__json_begin_object(json, NULL);
    vw__json_text(json, "category", usage->category);
    vw__json_unsigned(json, "bytes", usage->bytes);
    vw__json_unsigned(json, "blocks", usage->block_count);
    vw__json_unsigned(json, "largest_bytes", usage->largest_bytes);
    if (has_frames) {
        vw__json_boolean(json, "has_stack", usage->has_stack);
        vw__json_frames(json, usage->where, usage->frames, usage->frame_count);
    }
    vw__json_end_object(json);
}

static void json_moment(vw__json *json, const char *key, const vw_moment *moment, size_t most_rows)
{
    vw__json_begin_object(json, key);
    vw__json_known(json, "event", moment->event);
    json_time(json, "time_us", moment->time_us);
    vw__json_unsigned(json, "live_bytes", moment->live_bytes);
    vw__json_known(json, "reserved_bytes", moment->reserved_bytes);
    vw__json_unsigned(json, "blocks", moment->block_count);
    vw__json_begin_array(json, "categories");
    for (size_t i = 0; i < moment->category_count; i++)
        json_usage(json, &moment->categories[i], false);
    vw__json_end_array(json);
    vw__json_begin_array(json, "usages");
    for (size_t i = 0; i < moment->usage_count && i < most_rows; i++)
        json_usage(json, &moment->usages[i], true);
    vw__json_end_array(json);
    vw__json_end_object(json);
}

static void json_actions(vw__json *json, const vw_device_stats *device)
{
    static const char *const names[] = {
#define NAME(upper, lower) [VW_ACTION_##upper] = #lower,
        VW_ACTION_LIST(NAME)
#undef NAME
    };
    vw__json_begin_object(json, "actions");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        vw__json_unsigned(json, names[i], device->action_counts[i]);
    vw__json_unsigned(json, "other", device->other_event_count);
    vw__json_end_object(json);
}

static void json_oom(vw__json *json, const vw_device_stats *device)
{
    if (!device->has_oom) {
        vw__json_null(json, "oom");
        return;
    }
    vw__json_begin_object(json, "oom");
    vw__json_unsigned(json, "event", device->oom_event);
    vw__json_unsigned(json, "tried_bytes", device->oom_tried_bytes);
    vw__json_known(json, "free_bytes", device->oom_device_free_bytes);
    vw__json_end_object(json);
}

static void json_spill(vw__json *json, const vw_recorded_spill *spill)
{
    if (spill->spills + spill->returns == 0) {
        vw__json_null(json, "spill");
        return;
    }
    vw__json_begin_object(json, "spill");
    vw__json_unsigned(json, "spills", spill->spills);
    vw__json_unsigned(json, "all_spilled_bytes", spill->all_spilled_bytes);
    vw__json_unsigned(json, "peak_spilled_bytes", spill->peak_spilled_bytes);
    vw__json_unsigned(json, "end_spilled_bytes", spill->end_spilled_bytes);
    vw__json_unsigned(json, "returns", spill->returns);
    vw__json_unsigned(json, "returned_bytes", spill->returned_bytes);
    vw__json_unsigned(json, "wait_us", spill->wait_us);
    vw__json_end_object(json);
}

static void json_device(vw__json *json, const vw_device_stats *device, size_t most_rows)
{
    vw__json_begin_object(json, NULL);
    vw__json_integer(json, "device", device->device);
    vw__json_unsigned(json, "events", device->event_count);
    json_actions(json, device);
    json_time(json, "first_time_us", device->first_time_us);
    json_time(json, "last_time_us", device->last_time_us);
    vw__json_unsigned(json, "streams", device->stream_count);
    vw__json_unsigned(json, "private_pools", device->private_pool_count);
    vw__json_unsigned(json, "steps", device->step_count);
    vw__json_boolean(json, "truncated", device->is_truncated);
    vw__json_unsigned(json, "initial_live_bytes", device->initial_live_bytes);
    vw__json_unsigned(json, "initial_blocks", device->initial_block_count);
    vw__json_unsigned(json, "stackless_allocs", device->stackless_count);
    vw__json_unsigned(json, "segments", device->segment_count);
    vw__json_unsigned(json, "expandable_segments", device->expandable_segment_count);
    vw__json_unsigned(json, "blocks", device->block_count);
    vw__json_unsigned(json, "reserved_bytes", device->reserved_bytes);
    vw__json_unsigned(json, "allocated_bytes", device->allocated_bytes);
    vw__json_unsigned(json, "active_bytes", device->active_bytes);
    vw__json_known(json, "requested_bytes", device->requested_bytes);
    vw__json_unsigned(json, "largest_free_block_bytes", device->largest_free_block_bytes);
    vw__json_known(json, "peak_reserved_bytes", device->peak_reserved_bytes);
    vw__json_known(json, "peak_reserved_event", device->peak_reserved_event);
    json_oom(json, device);
    json_spill(json, &device->spill);
    json_moment(json, "peak", &device->peak, most_rows);
    json_moment(json, "end", &device->end, most_rows);
    vw__json_text(json, "summary", device->summary);
    vw__json_text(json, "summary_reason", device->summary_reason);
    vw__json_end_object(json);
}

void vw__stats_json(vw__report *report, vw__json *json, const void *content)
{
    const vw_recording_stats *stats = content;
    vw__json_text(json, "file", report->form.file);
    vw__json_text(json, "encoding", stats->encoding);
    vw__json_text(json, "compression", stats->compression);
    vw__json_unsigned(json, "file_bytes", stats->file_bytes);
    vw__json_unsigned(json, "uncompressed_bytes", stats->uncompressed_bytes);
    vw__json_unsigned(json, "model_bytes", stats->model_bytes);
    vw__json_text(json, "oldest_version", stats->oldest_version);
    vw__json_text(json, "newest_version", stats->newest_version);
    vw__json_text(json, "conf", stats->conf);
    vw__json_begin_object(json, "settings");
    for (size_t i = 0; i < stats->setting_count; i++)
        vw__json_text(json, stats->settings[i].key, stats->settings[i].value);
    vw__json_end_object(json);
    vw__json_unsigned(json, "stacks", stats->stack_count);
    vw__json_unsigned(json, "frames", stats->frame_count);
    vw__json_unsigned(json, "annotations", stats->annotation_count);
    vw__json_unsigned(json, "unknown_fields", stats->unknown_field_count);
    vw__json_text(json, "first_unknown_field", stats->first_unknown_field);
    vw__json_begin_array(json, "devices");
    for (size_t i = 0; i < stats->device_count; i++)
        json_device(json, &stats->devices[i], report->form.most_rows);
    vw__json_end_array(json);
    vw__json_texts(json, "warnings", stats->warnings, stats->warning_count);
}
