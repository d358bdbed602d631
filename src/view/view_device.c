/* view_device.c - the parts of one device, made, written and thrown away one device at a time. */
#include "view/view_device.h"

#include <stdio.h>

#include "analysis/recording.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/human_units.h"
#include "doctor/diagnosis.h"
#include "doctor/doctor.h"
#include "view/view_blocks.h"
#include "view/view_growth.h"
#include "view/view_lines.h"
#include "view/view_marks.h"
#include "view/view_pieces.h"
#include "view/view_what_if.h"

/* All parts start empty and are freed together, also on failure. */
typedef struct device_parts {
    const vw__model *model;
    const vw__model_trace *trace; /* NULL: no events */
    vw__timeline timeline;        /* with a trace */
    vw__steps steps;              /* the same */
    vw__view_places places;
    vw__view_blocks blocks;
    vw__view_pieces pieces;
    vw__view_reserved reserved;
    vw__view_times times;
    vw__view_marks marks;
    vw__view_growth growth;
} device_parts;

/* ---- making ---------------------------------------------------------------------------------- */

/* The doctor examines the busiest device, and the others where that one is healthy. It names the
 * first that is not. */
static bool is_of_device(const vw_diagnosis *diagnosis, int device)
{
    return diagnosis != NULL && diagnosis->numbers.device >= 0 && /* -1: not said */
           diagnosis->numbers.device == device;
}

/* Asks the doctor about this device, where the verdict on the recording is about another one and
 * says nothing about this. Whatever fails but for host memory leaves `*out` NULL. */
static vw_status diagnose_device(const vw__view_device_order *order, const device_parts *parts,
                                 vw_diagnosis **out)
{
    const int device = order->stats->device;
    const vw_doctor_options options = {.struct_size = sizeof options,
                                       .torch_version = order->torch_version};
    if (parts->trace == NULL || device == VW__MODEL_HOST_DEVICE || order->diagnosis == NULL ||
        order->diagnosis->verdict == VW_VERDICT_HEALTHY || is_of_device(order->diagnosis, device))
        return VW_OK;
    vw_status status = vw__doctor_device(order->recording, device, &options, out);
    return status == VW_ERR_HOST_MEMORY ? status : VW_OK;
}

/* The stacks that leak on the device. */
static vw__view_leaks find_leaks(const vw__view_device_order *order)
{
    vw__view_leaks found = {.number_of = order->stacks->number_of};
    if (is_of_device(order->diagnosis, order->stats->device)) {
        found.growth = *vw__diagnosis_growth(order->diagnosis);
        if (!found.growth.is_known)
            found.reason = "there are too few steps before the end of what the doctor judges";
    } else if (order->diagnosis == NULL || order->diagnosis->verdict != VW_VERDICT_HEALTHY) {
        found.reason = "the doctor's verdict is not about this device";
    }
    return found;
}

static vw_status make_from_trace(const vw__view_device_order *order, device_parts *parts)
{
    VW__TRY(vw__timeline_make(parts->model, parts->trace, &parts->timeline));
    VW__TRY(vw__steps_find_in(&parts->timeline, order->attribution, &parts->steps));
    VW__TRY(
        vw__view_blocks_of_trace(&parts->timeline, order->stacks, &parts->places, &parts->blocks));
    VW__TRY(vw__view_pieces_of_trace(&parts->timeline, &parts->pieces));
    VW__TRY(vw__view_reserved_make(&parts->timeline, &parts->reserved));
    VW__TRY(vw__view_times_make(parts->trace, &parts->times));
    VW__TRY(vw__view_marks_find(parts->model, parts->trace, &parts->marks));
    const vw__view_leaks leaks = find_leaks(order);
    return vw__view_growth_make(&parts->blocks, order->stacks->stack_count, &parts->steps, &leaks,
                                &parts->growth);
}

static vw_status make_from_end(const vw__view_device_order *order, device_parts *parts)
{
    int device = order->stats->device;
    parts->growth.reason = "the recording has no trace of this device";
    VW__TRY(vw__view_blocks_of_end(parts->model, device, order->stacks, &parts->places,
                                   &parts->blocks));
    VW__TRY(vw__view_pieces_of_end(parts->model, device, &parts->pieces));
    return vw__view_reserved_constant(order->stats->reserved_bytes, &parts->reserved);
}

static vw_status make_parts(const vw__view_device_order *order, device_parts *parts)
{
    VW__TRY(vw__view_places_init(&parts->places, parts->model));
    return parts->trace != NULL ? make_from_trace(order, parts) : make_from_end(order, parts);
}

static void free_parts(device_parts *parts)
{
    vw__view_growth_deinit(&parts->growth);
    vw__view_marks_deinit(&parts->marks);
    vw__view_times_deinit(&parts->times);
    vw__view_reserved_deinit(&parts->reserved);
    vw__view_pieces_deinit(&parts->pieces);
    vw__view_blocks_deinit(&parts->blocks);
    vw__view_places_deinit(&parts->places);
    vw__steps_deinit(&parts->steps);
    vw__timeline_deinit(&parts->timeline);
}

/* ---- the limit ------------------------------------------------------------------------------- */

typedef struct device_limit {
    uint64_t bytes; /* VW_UNKNOWN */
    char text[160];
} device_limit;

static void set_limit(device_limit *limit, uint64_t bytes, const char *format)
{
    char size[VW__HUMAN_SIZE_BYTES];
    limit->bytes = bytes;
    snprintf(limit->text, sizeof limit->text, "%s %s", vw__human_size(bytes, size), format);
}

/* What the doctor concluded; else what was reserved and free when a request failed. */
static device_limit find_limit(const vw__view_device_order *order, const device_parts *parts)
{
    const vw_device_stats *stats = order->stats;
    device_limit limit = {.bytes = VW_UNKNOWN};
    uint64_t room_bytes, allowed_bytes = VW_UNKNOWN, total_bytes = VW_UNKNOWN;
    if (is_of_device(order->diagnosis, stats->device)) {
        allowed_bytes = order->diagnosis->numbers.allowed_bytes;
        total_bytes = order->diagnosis->numbers.total_bytes;
    }
    if (allowed_bytes != VW_UNKNOWN) {
        set_limit(&limit, allowed_bytes, "were allowed, by what was granted and refused");
    } else if (total_bytes != VW_UNKNOWN) {
        set_limit(&limit, total_bytes, "are on the card");
    } else if (parts->trace != NULL && stats->has_oom && parts->timeline.is_reserved_known) {
        uint64_t reserved_bytes =
            vw__timeline_reserved_at(&parts->timeline, (uint32_t)stats->oom_event);
        if (vw__add_u64(reserved_bytes, stats->oom_device_free_bytes, &room_bytes) &&
            room_bytes != VW_UNKNOWN)
            set_limit(&limit, room_bytes, "were reserved or free when a request failed");
    }
    return limit;
}

/* ---- the object ------------------------------------------------------------------------------ */

static void write_times(const vw__view_times *times, vw__json *json)
{
    if (times->first_us != VW__MODEL_UNKNOWN_TIME)
        vw__json_integer(json, "first_time_us", times->first_us);
    else
        vw__json_null(json, "first_time_us");
    vw__json_unsigned(json, "time_every", times->every);
}

static void write_peaks(const device_parts *parts, vw__json *json)
{
    const vw__timeline *timeline = &parts->timeline;
    bool has_trace = parts->trace != NULL, is_known = has_trace && timeline->is_reserved_known;
    vw__json_unsigned(json, "peak_live_bytes",
                      has_trace ? timeline->peak_live_bytes : parts->blocks.first_bytes);
    vw__json_unsigned(json, "peak_instant", has_trace ? timeline->peak_instant : 0);
    vw__json_known(json, "peak_reserved_bytes",
                   is_known ? timeline->peak_reserved_bytes : VW_UNKNOWN);
    vw__json_known(json, "peak_reserved_instant",
                   is_known ? timeline->peak_reserved_instant : VW_UNKNOWN);
}

static void write_object(const vw__view_device_order *order, const device_parts *parts)
{
    vw__json *json = order->json;
    bool has_trace = parts->trace != NULL;
    const device_limit limit = find_limit(order, parts);
    vw__json_integer(json, "device", order->stats->device);
    vw__json_boolean(json, "has_trace", has_trace);
    vw__json_unsigned(json, "event_count", has_trace ? parts->trace->event_count : 0);
    vw__json_unsigned(json, "block_count", parts->blocks.count);
    vw__json_unsigned(json, "piece_count", parts->pieces.count);
    write_times(&parts->times, json);
    vw__json_boolean(json, "is_reserved_known", !has_trace || parts->timeline.is_reserved_known);
    vw__json_boolean(json, "is_truncated", has_trace && parts->timeline.is_truncated);
    vw__json_boolean(json, "has_addresses", parts->blocks.has_addresses);
    write_peaks(parts, json);
    vw__json_known(json, "limit_bytes", limit.bytes);
    vw__json_text(json, "limit_text", limit.bytes != VW_UNKNOWN ? limit.text : NULL);
    vw__view_places_json(&parts->places, json);
    vw__json_text(json, "steps_basis", parts->steps.basis);
    vw__view_marks_json(&parts->marks, json);
    vw__json_unsigned(json, "growth_samples", parts->growth.sample_count);
    vw__json_unsigned(json, "growth_stacks", parts->growth.stack_count);
    vw__json_text(json, "growth_reason", parts->growth.reason);
}

/* ---- columns --------------------------------------------------------------------------------- */

static vw_status write_columns(const vw__view_device_order *order, device_parts *parts)
{
    vw__view_columns *columns = order->columns;
    const vw__steps *steps = &parts->steps;
    VW__TRY(vw__view_blocks_write(&parts->blocks, columns));
    VW__TRY(vw__view_pieces_write(&parts->pieces, &parts->places, columns));
    VW__TRY(vw__view_lines_write(&parts->reserved, &parts->times, columns));
    VW__TRY(
        vw__view_columns_add(columns, "step.end", VW__VIEW_ARRAY(steps->ends, steps->end_count)));
    VW__TRY(vw__view_columns_add(columns, "phase.end",
                                 VW__VIEW_ARRAY(steps->phase_ends, steps->phase_end_count)));
    return vw__view_growth_write(&parts->growth, columns);
}

/* Why there can be no replay; NULL if there can. */
static const char *why_no_what_if(const vw__view_device_order *order, const device_parts *parts)
{
    if (parts->trace == NULL)
        return "the recording has no trace of this device";
    if (order->stats->device == VW__MODEL_HOST_DEVICE)
        return "pinned host memory is not replayed";
    return order->what_if_reason != NULL ? order->what_if_reason
                                         : vw__view_what_if_is_too_much(parts->trace);
}

static vw_status write_parts(const vw__view_device_order *order, device_parts *parts)
{
    VW__TRY(write_columns(order, parts));
    write_object(order, parts);
    return VW_OK;
}

static vw_status make_and_write_parts(const vw__view_device_order *order, device_parts *parts)
{
    vw__view_device_order judged = *order;
    vw_diagnosis *own = NULL;
    vw_status status = diagnose_device(order, parts, &own);
    if (own != NULL)
        judged.diagnosis = own;
    if (status == VW_OK)
        status = make_parts(&judged, parts);
    if (status == VW_OK)
        status = write_parts(&judged, parts);
    vw_diagnosis_free(own);
    return status;
}

vw_status vw__view_device_write(const vw__view_device_order *order)
{
    const vw__model *model = order->recording->model;
    const vw__model_trace *trace = vw__model_trace_of(model, order->stats->device);
    device_parts parts = {
        .model = model,
        .trace = trace != NULL && trace->event_count != 0 ? trace : NULL,
        .times = {.first_us = VW__MODEL_UNKNOWN_TIME, .every = 1},
        .blocks = {.has_addresses = true},
    };
    const char *reason = why_no_what_if(order, &parts);
    vw__json_begin_object(order->json, NULL);
    vw_status status = make_and_write_parts(order, &parts);
    free_parts(&parts);
    if (status == VW_OK)
        status =
            vw__view_what_if_write(order->recording, order->stats->device, order->torch_version,
                                   reason, order->progress, order->columns, order->json);
    vw__json_end_object(order->json);
    return status;
}
