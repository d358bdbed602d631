/* report_stats.c - what is in a recording: the peak first, then where it came from, then each
 * device with its largest users. */
#include "vramwise/report.h"

#include <string.h>

#include "report/report_fields.h"

/* ---- the fields; vramwise-stats(1) names them -------------------------------------------------
 */

static void append_place(vw__byte_buffer *cell, const void *object)
{
    const vw_usage *usage = object;
    vw__report_append_place(cell, usage->where, usage->frames, usage->frame_count,
                            usage->has_stack ? "(no Python frame)" : "(no stack)");
}

#define USAGE(kind, key, member) VW__REPORT_FIELD(kind, vw_usage, key, member)
static const vw__report_field category_list[] = {
    {USAGE(TEXT, "category", category), VW__REPORT_COLUMN(3, NAME, "at the peak, by category")},
    {USAGE(BYTES, "bytes", bytes), VW__REPORT_COLUMN(1, NUMBER, "bytes")},
    {USAGE(COUNT, "blocks", block_count), VW__REPORT_COLUMN(2, NUMBER, "blocks")},
    {USAGE(BYTES, "largest_bytes", largest_bytes)},
};
static const vw__report_fields category_fields = VW__REPORT_FIELDS(vw_usage, category_list);

static const vw__report_field usage_list[] = {
    {USAGE(TEXT, "category", category), VW__REPORT_COLUMN(3, WORD, "category")},
    {USAGE(BYTES, "bytes", bytes), VW__REPORT_COLUMN(1, NUMBER, "bytes")},
    {USAGE(COUNT, "blocks", block_count), VW__REPORT_COLUMN(2, NUMBER, "blocks")},
    {USAGE(BYTES, "largest_bytes", largest_bytes)},
    {USAGE(BOOLEAN, "has_stack", has_stack)},
    {USAGE(PLACE, "where", where), VW__REPORT_COLUMN(4, PLACE, "where"), .append = append_place},
    {USAGE(FRAMES, "frames", frames), VW__REPORT_COUNTED(vw_usage, frame_count)},
};
static const vw__report_fields usage_fields = VW__REPORT_FIELDS(vw_usage, usage_list);

#define MOMENT(kind, key, member) VW__REPORT_FIELD(kind, vw_moment, key, member)
static const vw__report_field moment_list[] = {
    {MOMENT(COUNT, "event", event)},
    {MOMENT(INTEGER, "time_us", time_us)},
    {MOMENT(BYTES, "live_bytes", live_bytes)},
    {MOMENT(BYTES, "reserved_bytes", reserved_bytes)},
    {MOMENT(COUNT, "blocks", block_count)},
    {MOMENT(OBJECTS, "categories", categories), VW__REPORT_COUNTED(vw_moment, category_count),
     .fields = &category_fields},
    {MOMENT(FIRST_OBJECTS, "usages", usages), VW__REPORT_COUNTED(vw_moment, usage_count),
     .fields = &usage_fields},
};
static const vw__report_fields moment_fields = VW__REPORT_FIELDS(vw_moment, moment_list);

#define SPILL(kind, key, member) VW__REPORT_FIELD(kind, vw_recorded_spill, key, member)
static const vw__report_field spill_list[] = {
    {SPILL(COUNT, "spills", spills)},
    {SPILL(BYTES, "all_spilled_bytes", all_spilled_bytes)},
    {SPILL(BYTES, "peak_spilled_bytes", peak_spilled_bytes)},
    {SPILL(BYTES, "end_spilled_bytes", end_spilled_bytes)},
    {SPILL(COUNT, "returns", returns)},
    {SPILL(BYTES, "returned_bytes", returned_bytes)},
    {SPILL(COUNT, "wait_us", wait_us)},
};
static const vw__report_fields spill_fields = VW__REPORT_FIELDS(vw_recorded_spill, spill_list);

#define DEVICE(kind, key, member) VW__REPORT_FIELD(kind, vw_device_stats, key, member)
static const vw__report_field oom_list[] = {
    {DEVICE(COUNT, "event", oom_event)},
    {DEVICE(BYTES, "tried_bytes", oom_tried_bytes)},
    {DEVICE(BYTES, "free_bytes", oom_device_free_bytes)},
};
static const vw__report_fields oom_fields = VW__REPORT_FIELDS(vw_device_stats, oom_list);

VW__REPORT_CONDITION(has_oom, vw_device_stats, has_oom)

static bool has_spill(const void *object)
{
    const vw_recorded_spill *spill = &((const vw_device_stats *)object)->spill;
    return spill->spills + spill->returns != 0;
}

static void json_actions(vw__report *report, vw__json *json, const char *key, const void *object)
{
    const vw_device_stats *device = object;
    static const char *const names[] = {
#define NAME(upper, lower) [VW_ACTION_##upper] = #lower,
        VW_ACTION_LIST(NAME)
#undef NAME
    };
    (void)report;
    vw__json_begin_object(json, key);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        vw__json_unsigned(json, names[i], device->action_counts[i]);
    vw__json_unsigned(json, "other", device->other_event_count);
    vw__json_end_object(json);
}

static const vw__report_field device_list[] = {
    {DEVICE(INTEGER, "device", device)},
    {DEVICE(COUNT, "events", event_count)},
    {.key = "actions", .write = json_actions},
    {DEVICE(INTEGER, "first_time_us", first_time_us)},
    {DEVICE(INTEGER, "last_time_us", last_time_us)},
    {DEVICE(COUNT, "streams", stream_count)},
    {DEVICE(COUNT, "private_pools", private_pool_count)},
    {DEVICE(COUNT, "steps", step_count)},
    {DEVICE(BOOLEAN, "truncated", is_truncated)},
    {DEVICE(BYTES, "initial_live_bytes", initial_live_bytes)},
    {DEVICE(COUNT, "initial_blocks", initial_block_count)},
    {DEVICE(COUNT, "stackless_allocs", stackless_count)},
    {DEVICE(COUNT, "segments", segment_count)},
    {DEVICE(COUNT, "expandable_segments", expandable_segment_count)},
    {DEVICE(COUNT, "blocks", block_count)},
    {DEVICE(BYTES, "reserved_bytes", reserved_bytes)},
    {DEVICE(BYTES, "allocated_bytes", allocated_bytes)},
    {DEVICE(BYTES, "active_bytes", active_bytes)},
    {DEVICE(BYTES, "requested_bytes", requested_bytes)},
    {DEVICE(BYTES, "largest_free_block_bytes", largest_free_block_bytes)},
    {DEVICE(BYTES, "peak_reserved_bytes", peak_reserved_bytes)},
    {DEVICE(COUNT, "peak_reserved_event", peak_reserved_event)},
    {.key = "oom", .kind = VW__REPORT_FIELD_OBJECT, .fields = &oom_fields, .is_known = has_oom},
    {DEVICE(OBJECT, "spill", spill), .fields = &spill_fields, .is_known = has_spill},
    {DEVICE(OBJECT, "peak", peak), .fields = &moment_fields},
    {DEVICE(OBJECT, "end", end), .fields = &moment_fields},
    {DEVICE(TEXT, "summary", summary)},
    {DEVICE(TEXT, "summary_reason", summary_reason)},
};
static const vw__report_fields device_fields = VW__REPORT_FIELDS(vw_device_stats, device_list);

static void json_settings(vw__report *report, vw__json *json, const char *key, const void *object)
{
    const vw_recording_stats *stats = object;
    (void)report;
    vw__json_begin_object(json, key);
    for (size_t i = 0; i < stats->setting_count; i++)
        vw__json_text(json, stats->settings[i].key, stats->settings[i].value);
    vw__json_end_object(json);
}

#define STATS(kind, key, member) VW__REPORT_FIELD(kind, vw_recording_stats, key, member)
static const vw__report_field stats_list[] = {
    {.key = "file", .kind = VW__REPORT_FIELD_FILE},
    {STATS(TEXT, "encoding", encoding)},
    {STATS(TEXT, "compression", compression)},
    {STATS(BYTES, "file_bytes", file_bytes)},
    {STATS(BYTES, "uncompressed_bytes", uncompressed_bytes)},
    {STATS(BYTES, "model_bytes", model_bytes)},
    {STATS(TEXT, "oldest_version", oldest_version)},
    {STATS(TEXT, "newest_version", newest_version)},
    {STATS(TEXT, "conf", conf)},
    {.key = "settings", .write = json_settings},
    {STATS(COUNT, "stacks", stack_count)},
    {STATS(COUNT, "frames", frame_count)},
    {STATS(COUNT, "annotations", annotation_count)},
    {STATS(COUNT, "unknown_fields", unknown_field_count)},
    {STATS(TEXT, "first_unknown_field", first_unknown_field)},
    {STATS(OBJECTS, "devices", devices), VW__REPORT_COUNTED(vw_recording_stats, device_count),
     .fields = &device_fields},
    {STATS(TEXTS, "warnings", warnings), VW__REPORT_COUNTED(vw_recording_stats, warning_count)},
};
static const vw__report_fields stats_fields = VW__REPORT_FIELDS(vw_recording_stats, stats_list);

/* ---- the file -------------------------------------------------------------------------------- */

/* "[1:0,2:0]": a table in which nothing is set. */
static bool is_table_of_zeros(const char *value)
{
    if (value[0] != '[' && value[0] != '{')
        return false;
    for (const char *colon = strchr(value, ':'); colon != NULL; colon = strchr(colon + 1, ':')) {
        const char *number = colon + 1;
        number += strspn(number, " ");
        size_t digits = strspn(number, "0.");
        if (digits == 0 || strchr(",]} ", number[digits]) == NULL)
            return false;
    }
    return true;
}

/* Returns whether it has PyTorch's default, by the value's text: off, unlimited, or nothing. */
static bool is_default_setting(const vw_setting *setting)
{
    static const char *const defaults[] = {"",      "0",    "0.0", "False",
                                           "false", "None", "-1",  "18446744073709551615"};
    if (strcmp(setting->key, "pinned_num_register_threads") == 0)
        return strcmp(setting->value, "1") == 0;
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        if (strcmp(setting->value, defaults[i]) == 0)
            return true;
    return is_table_of_zeros(setting->value);
}

/* The device with the most events; by bytes if there are no events; NULL without devices. */
static const vw_device_stats *busiest_of(const vw_recording_stats *stats)
{
    const vw_device_stats *busiest = NULL;
    for (size_t i = 0; i < stats->device_count; i++) {
        const vw_device_stats *device = &stats->devices[i];
        if (busiest == NULL || device->event_count > busiest->event_count ||
            (device->event_count == busiest->event_count &&
             device->reserved_bytes > busiest->reserved_bytes))
            busiest = device;
    }
    return busiest;
}

static void say_answer(vw__report *report, const vw_recording_stats *stats)
{
    const vw_device_stats *device = busiest_of(stats);
    const char *file = report->form.file != NULL ? report->form.file : "recording";
    if (device == NULL)
        vw__report_say(report, VW__REPORT_STYLE_BOLD, "%s: nothing was allocated", file);
    else if (device->event_count == 0)
        vw__report_say(report, VW__REPORT_STYLE_BOLD, "%s: %s allocated and %s reserved; no trace",
                       file, vw__report_size(device->allocated_bytes).text,
                       vw__report_size(device->reserved_bytes).text);
    else
        vw__report_say(report, VW__REPORT_STYLE_BOLD,
                       "%s: at most %s live, at most %s reserved, in %s", file,
                       vw__report_size(device->peak.live_bytes).text,
                       vw__report_size(device->peak_reserved_bytes).text,
                       vw__report_counted(device->event_count, "event").text);
}

static void say_file(vw__report *report, const vw_recording_stats *stats)
{
    if (strcmp(stats->compression, "plain") == 0)
        vw__report_fact(report, "file", "%s, %s", stats->encoding,
                        vw__report_size(stats->file_bytes).text);
    else
        vw__report_fact(report, "file", "%s, %s with %s, %s without", stats->encoding,
                        vw__report_size(stats->file_bytes).text, stats->compression,
                        vw__report_size(stats->uncompressed_bytes).text);
    const char *oldest = stats->oldest_version, *newest = stats->newest_version;
    if (oldest != NULL && newest != NULL && strcmp(oldest, newest) != 0)
        vw__report_fact(report, "written by", "PyTorch %s to %s, by its fields", oldest, newest);
    else if (oldest != NULL || newest != NULL)
        vw__report_fact(report, "written by", "PyTorch %s, by its fields",
                        newest != NULL ? newest : oldest);
    else
        vw__report_fact(report, "written by", "an unknown version of PyTorch");
    if (stats->frame_count == 0)
        vw__report_fact(report, "stacks", "none");
    else
        vw__report_fact(report, "stacks", "%s, made of %s",
                        vw__report_count(stats->stack_count).text,
                        vw__report_counted(stats->frame_count, "frame").text);
}

static void say_settings(vw__report *report, const vw_recording_stats *stats)
{
    bool is_default = true;
    if (stats->conf == NULL && stats->setting_count == 0) {
        vw__report_fact(report, "settings", "not recorded");
        return;
    }
    if (stats->conf != NULL && stats->conf[0] != '\0') {
        vw__report_fact(report, "settings", "%s", stats->conf);
        is_default = false;
    }
    for (size_t i = 0; i < stats->setting_count; i++) {
        const vw_setting *setting = &stats->settings[i];
        if (strcmp(setting->key, "PYTORCH_CUDA_ALLOC_CONF") == 0 || is_default_setting(setting))
            continue;
        vw__report_fact(report, is_default ? "settings" : "", "%s = %s", setting->key,
                        setting->value);
        is_default = false;
    }
    if (is_default)
        vw__report_fact(report, "settings", "PyTorch's defaults");
}

/* ---- one device ------------------------------------------------------------------------------ */

/* Times come from the file and may be any two numbers. */
static void say_time(vw__report *report, const vw_device_stats *device)
{
    if (device->first_time_us == INT64_MIN || device->last_time_us < device->first_time_us)
        return;
    const uint64_t span_us = (uint64_t)device->last_time_us - (uint64_t)device->first_time_us;
    if (span_us <= UINT64_MAX / 1000)
        vw__report_fact(report, "time", "%s", vw__report_duration(span_us * 1000).text);
}

static void say_events(vw__report *report, const vw_device_stats *device)
{
    const uint64_t *counts = device->action_counts;
    const uint64_t segment_count = counts[VW_ACTION_SEGMENT_ALLOC] +
                                   counts[VW_ACTION_SEGMENT_FREE] + counts[VW_ACTION_SEGMENT_MAP] +
                                   counts[VW_ACTION_SEGMENT_UNMAP];
    if (device->event_count == 0) {
        vw__report_fact(report, "events", "none: history was not recorded");
        return;
    }
    vw__report_fact(report, "events", "%s: %s, %s completed, %s",
                    vw__report_count(device->event_count).text,
                    vw__report_counted(counts[VW_ACTION_ALLOC], "alloc").text,
                    vw__report_counted(counts[VW_ACTION_FREE_COMPLETED], "free").text,
                    vw__report_counted(segment_count, "segment event").text);
    say_time(report, device);
    vw__report_fact(report, "streams", "%s%s%s", vw__report_count(device->stream_count).text,
                    device->private_pool_count > 0 ? ", and " : "",
                    device->private_pool_count > 0
                        ? vw__report_counted(device->private_pool_count, "private pool").text
                        : "");
    if (device->step_count > 0)
        vw__report_fact(report, "steps", "%s", vw__report_count(device->step_count).text);
    if (device->is_truncated)
        vw__report_fact(report, "before", "%s in %s were live when the trace begins",
                        vw__report_size(device->initial_live_bytes).text,
                        vw__report_counted(device->initial_block_count, "block").text);
    vw__report_fact(report, "peak live", "%s in %s, at event %s",
                    vw__report_size(device->peak.live_bytes).text,
                    vw__report_counted(device->peak.block_count, "block").text,
                    vw__report_count(device->peak.event).text);
    if (device->peak_reserved_bytes != VW_UNKNOWN)
        vw__report_fact(report, "peak reserved", "%s, at event %s",
                        vw__report_size(device->peak_reserved_bytes).text,
                        vw__report_count(device->peak_reserved_event).text);
    if (device->has_oom)
        vw__report_fact(
            report, "out of memory", "at event %s: %s refused, with %s free on the device",
            vw__report_count(device->oom_event).text, vw__report_size(device->oom_tried_bytes).text,
            vw__report_size(device->oom_device_free_bytes).text);
}

/* "1.98 GiB in host memory at most, in 13 moves; 512 MiB came back". */
static void say_spill(vw__report *report, const vw_recorded_spill *spill)
{
    if (spill->spills + spill->returns == 0)
        return;
    vw__report_fact(report, "spilled", "%s in host memory at most, in %s; %s came back",
                    vw__report_size(spill->peak_spilled_bytes).text,
                    vw__report_counted(spill->spills, "move").text,
                    spill->returns > 0 ? vw__report_size(spill->returned_bytes).text : "nothing");
}

static void say_end(vw__report *report, const vw_device_stats *device)
{
    vw__report_fact(report, "at the end", "%s reserved in %s and %s%s%s",
                    vw__report_size(device->reserved_bytes).text,
                    vw__report_counted(device->segment_count, "segment").text,
                    vw__report_counted(device->block_count, "block").text,
                    device->expandable_segment_count > 0 ? ", expandable: " : "",
                    device->expandable_segment_count > 0
                        ? vw__report_count(device->expandable_segment_count).text
                        : "");
    vw__report_fact(report, "", "%s allocated, %s active, %s asked for",
                    vw__report_size(device->allocated_bytes).text,
                    vw__report_size(device->active_bytes).text,
                    vw__report_size(device->requested_bytes).text);
    vw__report_fact(report, "", "%s in the largest free block",
                    vw__report_size(device->largest_free_block_bytes).text);
}

/* What was live, largest first; the last row sums up the rest. */
static void say_moment(vw__report *report, const char *title, const vw_moment *moment)
{
    vw__report_table table;
    uint64_t rest_bytes = moment->live_bytes, rest_count = moment->block_count;
    if (moment->usage_count == 0)
        return;
    vw__report_blank(report);
    vw__report_say(report, VW__REPORT_STYLE_BOLD, "%s", title);
    vw__report_fields_table(&table, &usage_fields);
    for (size_t i = 0; i < moment->usage_count && i < report->form.most_rows; i++) {
        const vw_usage *usage = &moment->usages[i];
        vw__report_fields_row(&table, VW__REPORT_STYLE_PLAIN, &usage_fields, usage);
        if (report->form.has_stacks)
            vw__report_table_frames(&table, usage->frames, usage->frame_count);
        rest_bytes -= usage->bytes < rest_bytes ? usage->bytes : rest_bytes;
        rest_count -= usage->block_count < rest_count ? usage->block_count : rest_count;
    }
    if (rest_bytes > 0) {
        vw__report_table_row(&table, VW__REPORT_STYLE_PLAIN);
        vw__report_table_cell(&table, vw__report_size(rest_bytes).text);
        vw__report_table_cell(&table, vw__report_count(rest_count).text);
        vw__report_table_cell(&table, "");
        vw__report_table_cell(&table, "(all others)");
    }
    vw__report_table_end(&table, report);
}

static void say_categories(vw__report *report, const vw_moment *moment)
{
    if (moment->category_count == 0)
        return;
    vw__report_blank(report);
    vw__report_fields_rows(report, &category_fields, moment->categories, moment->category_count);
}

static size_t longest_line_of(const char *text)
{
    size_t longest = 0;
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        if (length > longest)
            longest = length;
        text += length + (text[length] == '\n');
    }
    return longest;
}

/* PyTorch's table has a fixed width, and is left out where it would be wrapped. */
static void say_summary(vw__report *report, const vw_device_stats *device)
{
    if (device->summary == NULL && device->summary_reason == NULL)
        return;
    vw__report_blank(report);
    if (device->summary == NULL) {
        vw__report_say(report, VW__REPORT_STYLE_PLAIN, "No memory_summary(): %s",
                       device->summary_reason);
        return;
    }
    const size_t columns = longest_line_of(device->summary);
    if (columns > report->form.width_columns) {
        vw__report_say(report, VW__REPORT_STYLE_PLAIN,
                       "memory_summary() needs %zu columns, and the window has %u", columns,
                       report->form.width_columns);
        return;
    }
    for (const char *line = device->summary; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        vw__report_line(report, line, length);
        line += length + (line[length] == '\n');
    }
}

static void say_device(vw__report *report, const vw_device_stats *device)
{
    vw__report_blank(report);
    if (device->device < 0)
        vw__report_say(report, VW__REPORT_STYLE_BOLD, "Pinned host memory");
    else
        vw__report_say(report, VW__REPORT_STYLE_BOLD, "Device %d", device->device);
    say_events(report, device);
    say_spill(report, &device->spill);
    say_end(report, device);
    if (device->event_count > 0) {
        say_moment(report, "Largest at the peak", &device->peak);
        say_categories(report, &device->peak);
    }
    say_moment(report, "Largest at the end", &device->end);
    say_summary(report, device);
}

static void say_stats(vw__report *report, const void *content)
{
    const vw_recording_stats *stats = content;
    say_answer(report, stats);
    vw__report_blank(report);
    say_file(report, stats);
    say_settings(report, stats);
    for (size_t i = 0; i < stats->device_count; i++)
        say_device(report, &stats->devices[i]);
    if (stats->warning_count > 0)
        vw__report_blank(report);
    vw__report_list(report, VW__REPORT_STYLE_YELLOW, "warning", stats->warnings,
                    stats->warning_count);
}

vw_status vw_report_stats(const vw_recording_stats *stats, const vw_report_form *form,
                          const vw_output *output)
{
    static const vw__report_kind kind = {"recording", say_stats, &stats_fields,
                                         "devices.peak.usages"};
    return vw__report_as(&kind, stats, form, output);
}
