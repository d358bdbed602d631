/* view_device.c - the parts of one device, made, written and thrown away one device at a time. */
#include "view/view_device.h"

#include <stdio.h>

#include "analysis/recording.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/human_units.h"
#include "view/view_blocks.h"
#include "view/view_growth.h"
#include "view/view_lines.h"
#include "view/view_marks.h"
#include "view/view_pieces.h"
#include "view/view_places.h"
#include "view/view_what_if.h"

/* Everything is empty from the start, and freed whatever becomes of it. */
typedef struct device_parts {
    const hr__model *model;
    const hr__model_trace *trace; /* NULL: no events */
    hr__timeline timeline;        /* with a trace */
    hr__steps steps;              /* the same */
    hr__view_places places;
    hr__view_blocks blocks;
    hr__view_pieces pieces;
    hr__view_reserved reserved;
    hr__view_times times;
    hr__view_marks marks;
    hr__view_growth growth;
} device_parts;

/* ---- making ---------------------------------------------------------------------------------- */

static hr_status make_from_trace(const hr__view_device_order *order, device_parts *parts)
{
    HR__TRY(hr__timeline_make(parts->model, parts->trace, &parts->timeline));
    HR__TRY(hr__steps_find_in(&parts->timeline, order->attribution, &parts->steps));
    HR__TRY(
        hr__view_blocks_of_trace(&parts->timeline, order->stacks, &parts->places, &parts->blocks));
    HR__TRY(hr__view_pieces_of_trace(&parts->timeline, &parts->pieces));
    HR__TRY(hr__view_reserved_make(&parts->timeline, &parts->reserved));
    HR__TRY(hr__view_times_make(parts->trace, &parts->times));
    HR__TRY(hr__view_marks_find(parts->model, parts->trace, &parts->marks));
    return hr__view_growth_make(&parts->blocks, order->stacks->stack_count, &parts->steps,
                                &parts->growth);
}

static hr_status make_from_end(const hr__view_device_order *order, device_parts *parts)
{
    int device = order->stats->device;
    parts->growth.reason = "the recording has no trace of this device";
    HR__TRY(hr__view_blocks_of_end(parts->model, device, order->stacks, &parts->places,
                                   &parts->blocks));
    HR__TRY(hr__view_pieces_of_end(parts->model, device, &parts->pieces));
    return hr__view_reserved_constant(order->stats->reserved_bytes, &parts->reserved);
}

static hr_status make_parts(const hr__view_device_order *order, device_parts *parts)
{
    HR__TRY(hr__view_places_init(&parts->places, parts->model));
    return parts->trace != NULL ? make_from_trace(order, parts) : make_from_end(order, parts);
}

static void free_parts(device_parts *parts)
{
    hr__view_growth_deinit(&parts->growth);
    hr__view_marks_deinit(&parts->marks);
    hr__view_times_deinit(&parts->times);
    hr__view_reserved_deinit(&parts->reserved);
    hr__view_pieces_deinit(&parts->pieces);
    hr__view_blocks_deinit(&parts->blocks);
    hr__view_places_deinit(&parts->places);
    hr__steps_deinit(&parts->steps);
    hr__timeline_deinit(&parts->timeline);
}

/* ---- the limit ------------------------------------------------------------------------------- */

typedef struct device_limit {
    uint64_t bytes; /* HR_UNKNOWN */
    char text[160];
} device_limit;

static void set_limit(device_limit *limit, uint64_t bytes, const char *format)
{
    char size[HR__SIZE_TEXT_BYTES];
    limit->bytes = bytes;
    snprintf(limit->text, sizeof limit->text, "%s %s", hr__format_size(bytes, size), format);
}

/* What the doctor concluded; else what was reserved and free when a request failed. */
static device_limit find_limit(const hr__view_device_order *order, const device_parts *parts)
{
    const hr_memory_numbers *numbers = order->numbers;
    const hr_device_stats *stats = order->stats;
    device_limit limit = {.bytes = HR_UNKNOWN};
    uint64_t room_bytes;
    bool is_of_device = numbers->device == stats->device && numbers->device >= 0; /* -1: not said */
    if (is_of_device && numbers->allowed_bytes != HR_UNKNOWN) {
        set_limit(&limit, numbers->allowed_bytes, "were allowed, by what was granted and refused");
    } else if (is_of_device && numbers->total_bytes != HR_UNKNOWN) {
        set_limit(&limit, numbers->total_bytes, "are on the card");
    } else if (parts->trace != NULL && stats->has_oom && parts->timeline.is_reserved_known) {
        uint64_t reserved_bytes =
            hr__timeline_reserved_at(&parts->timeline, (uint32_t)stats->oom_event);
        if (hr__add_u64(reserved_bytes, stats->oom_device_free_bytes, &room_bytes) &&
            room_bytes != HR_UNKNOWN)
            set_limit(&limit, room_bytes, "were reserved or free when a request failed");
    }
    return limit;
}

/* ---- the object ------------------------------------------------------------------------------ */

static void write_times(const hr__view_times *times, hr__json *json)
{
    if (times->first_us != HR__UNKNOWN_TIME)
        hr__json_integer(json, "first_time_us", times->first_us);
    else
        hr__json_null(json, "first_time_us");
    hr__json_unsigned(json, "time_every", times->every);
}

static void write_peaks(const device_parts *parts, hr__json *json)
{
    const hr__timeline *timeline = &parts->timeline;
    bool has_trace = parts->trace != NULL, is_known = has_trace && timeline->is_reserved_known;
    hr__json_unsigned(json, "peak_live_bytes",
                      has_trace ? timeline->peak_live_bytes : parts->blocks.first_bytes);
    hr__json_unsigned(json, "peak_instant", has_trace ? timeline->peak_instant : 0);
    hr__json_known(json, "peak_reserved_bytes",
                   is_known ? timeline->peak_reserved_bytes : HR_UNKNOWN);
    hr__json_known(json, "peak_reserved_instant",
                   is_known ? timeline->peak_reserved_instant : HR_UNKNOWN);
}

static void write_object(const hr__view_device_order *order, const device_parts *parts)
{
    hr__json *json = order->json;
    bool has_trace = parts->trace != NULL;
    const device_limit limit = find_limit(order, parts);
    hr__json_integer(json, "device", order->stats->device);
    hr__json_boolean(json, "has_trace", has_trace);
    hr__json_unsigned(json, "event_count", has_trace ? parts->trace->event_count : 0);
    hr__json_unsigned(json, "block_count", parts->blocks.count);
    hr__json_unsigned(json, "piece_count", parts->pieces.count);
    write_times(&parts->times, json);
    hr__json_boolean(json, "is_reserved_known", !has_trace || parts->timeline.is_reserved_known);
    hr__json_boolean(json, "is_truncated", has_trace && parts->timeline.is_truncated);
    hr__json_boolean(json, "has_addresses", parts->blocks.has_addresses);
    write_peaks(parts, json);
    hr__json_known(json, "limit_bytes", limit.bytes);
    hr__json_text(json, "limit_text", limit.bytes != HR_UNKNOWN ? limit.text : NULL);
    hr__view_places_json(&parts->places, json);
    hr__json_text(json, "steps_basis", parts->steps.basis);
    hr__view_marks_json(&parts->marks, json);
    hr__json_unsigned(json, "growth_samples", parts->growth.sample_count);
    hr__json_unsigned(json, "growth_stacks", parts->growth.stack_count);
    hr__json_text(json, "growth_reason", parts->growth.reason);
}

/* ---- columns --------------------------------------------------------------------------------- */

static hr_status write_columns(const hr__view_device_order *order, device_parts *parts)
{
    hr__view_columns *columns = order->columns;
    const hr__steps *steps = &parts->steps;
    HR__TRY(hr__view_blocks_write(&parts->blocks, columns));
    HR__TRY(hr__view_pieces_write(&parts->pieces, &parts->places, columns));
    HR__TRY(hr__view_lines_write(&parts->reserved, &parts->times, columns));
    HR__TRY(
        hr__view_columns_add(columns, "step.end", HR__VIEW_ARRAY(steps->ends, steps->end_count)));
    HR__TRY(hr__view_columns_add(columns, "phase.end",
                                 HR__VIEW_ARRAY(steps->phase_ends, steps->phase_end_count)));
    return hr__view_growth_write(&parts->growth, columns);
}

/* Why there can be no replay; NULL if there can. */
static const char *why_no_what_if(const hr__view_device_order *order, const device_parts *parts)
{
    if (parts->trace == NULL)
        return "the recording has no trace of this device";
    if (order->stats->device == HR__HOST_DEVICE)
        return "pinned host memory is not replayed";
    return order->what_if_reason != NULL ? order->what_if_reason
                                         : hr__view_what_if_is_too_much(parts->trace);
}

static hr_status write_parts(const hr__view_device_order *order, device_parts *parts)
{
    HR__TRY(write_columns(order, parts));
    write_object(order, parts);
    return HR_OK;
}

hr_status hr__view_device_write(const hr__view_device_order *order)
{
    const hr__model *model = order->recording->model;
    const hr__model_trace *trace = hr__model_trace_of(model, order->stats->device);
    device_parts parts = {
        .model = model,
        .trace = trace != NULL && trace->event_count != 0 ? trace : NULL,
        .times = {.first_us = HR__UNKNOWN_TIME, .every = 1},
        .blocks = {.has_addresses = true},
    };
    const char *reason = why_no_what_if(order, &parts);
    hr__json_begin_object(order->json, NULL);
    hr_status status = make_parts(order, &parts);
    if (status == HR_OK)
        status = write_parts(order, &parts);
    free_parts(&parts);
    if (status == HR_OK)
        status =
            hr__view_what_if_write(order->recording, order->stats->device, order->torch_version,
                                   reason, order->progress, order->columns, order->json);
    hr__json_end_object(order->json);
    return status;
}
