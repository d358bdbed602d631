/* stats.c - what is in a recording, device by device.
 *
 * Most of it is counting. What takes thought lives elsewhere: lifetimes and peaks in timeline.c,
 * who holds what in moment.c and attribution.c, steps in steps.c, PyTorch's own summary in
 * stats_summary.c. This file makes one pass over the events of a device for what is left, and says
 * in words what a reader of the numbers should know.
 *
 * Strings of a result are the recording's or its arena's. */
#include "vramwise/analysis.h" /* vw_recording_stats_make */

#include <inttypes.h>
#include <limits.h>
#include <stdint.h> /* SIZE_MAX */
#include <string.h>

#include "analysis/attribution.h"
#include "analysis/moment.h"
#include "analysis/recording.h"
#include "analysis/result.h"
#include "analysis/stats_summary.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"
#include "base/checked_math.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"

enum { MOST_DEVICES = 129 }; /* PyTorch numbers them with a signed byte; and the host */

typedef struct stats_work {
    const vw__model *model;
    vw_stats_options options;
    size_t most_usages; /* vw__moment_of_instant() */
    vw__attribution attribution;
    vw__arena *arena; /* the result's */
    const char *torch_version;
    vw__notes warnings;
} stats_work;

/* ---- the end, by the segments ---------------------------------------------------------------- */

static vw_status count_segment(const vw__model *model, const vw__model_segment *segment,
                               vw_device_stats *stats)
{
    stats->segment_count++;
    stats->block_count += segment->block_count;
    stats->expandable_segment_count += segment->is_expandable;
    if (!vw__add_u64(stats->reserved_bytes, segment->total_bytes, &stats->reserved_bytes) ||
        !vw__add_u64(stats->allocated_bytes, segment->allocated_bytes, &stats->allocated_bytes) ||
        !vw__add_u64(stats->active_bytes, segment->active_bytes, &stats->active_bytes))
        return vw__fail(VW_ERR_CORRUPT_FILE, "the segments of device %d are larger than any device",
                        segment->device);
    if (segment->requested_bytes == VW__MODEL_UNKNOWN_BYTES)
        stats->requested_bytes = VW_UNKNOWN;
    else if (stats->requested_bytes != VW_UNKNOWN &&
             !vw__add_u64(stats->requested_bytes, segment->requested_bytes,
                          &stats->requested_bytes))
        return vw__fail(VW_ERR_CORRUPT_FILE, "the requests of device %d are larger than any device",
                        segment->device);
    for (size_t b = 0; b < segment->block_count; b++) {
        const vw__model_block *block = &model->blocks[segment->first_block + b];
        if (block->state == VW_BLOCK_FREE && block->size_bytes > stats->largest_free_block_bytes)
            stats->largest_free_block_bytes = block->size_bytes;
    }
    return VW_OK;
}

/* ---- the events ------------------------------------------------------------------------------ */

static void count_event(const vw__model *model, const vw__model_event *event, size_t index,
                        vw_device_stats *stats)
{
    if (event->action <= VW_ACTION_OOM)
        stats->action_counts[event->action]++;
    else
        stats->other_event_count++;
    if (event->action == VW_ACTION_ALLOC && vw__model_stack_of(model, event->context).count == 0)
        stats->stackless_count++;
    if (event->action == VW_ACTION_OOM && !stats->has_oom) {
        stats->has_oom = true;
        stats->oom_event = index;
        stats->oom_tried_bytes = event->size_bytes;
        stats->oom_device_free_bytes = event->address;
    }
}

static void count_times(const vw__model_trace *trace, vw_device_stats *stats)
{
    stats->first_time_us = stats->last_time_us = VW__MODEL_UNKNOWN_TIME;
    if (trace == NULL || trace->event_count == 0)
        return;
    stats->first_time_us = trace->events[0].time_us;
    stats->last_time_us = trace->events[trace->event_count - 1].time_us;
}

/* The streams and private pools of the model that a device uses. */
typedef struct device_places {
    bool *has_stream; /* owned, with what follows */
    bool *has_pool;
} device_places;

static void see_place(const device_places *places, uint16_t stream, uint16_t pool)
{
    places->has_stream[stream] = true;
    if (pool != VW__MODEL_UNKNOWN_POOL)
        places->has_pool[pool] = true;
}

static void count_places(const vw__model *model, const device_places *places,
                         vw_device_stats *stats)
{
    for (size_t i = 0; i < model->stream_count; i++)
        stats->stream_count += places->has_stream[i];
    for (size_t i = VW__MODEL_DEFAULT_POOL + 1; i < model->pool_count; i++)
        stats->private_pool_count += places->has_pool[i];
}

/* One pass over the events, one over the segments. */
static vw_status count_device(const vw__model *model, const vw__model_trace *trace,
                              vw_device_stats *stats)
{
    size_t size_bytes = model->stream_count + model->pool_count;
    device_places places = {.has_stream = vw__host_alloc_zeroed(size_bytes, sizeof(bool))};
    if (places.has_stream == NULL)
        return vw__fail_host_memory(size_bytes, "the streams of a trace");
    places.has_pool = places.has_stream + model->stream_count;

    for (size_t i = 0; trace != NULL && i < trace->event_count; i++) {
        const vw__model_event *event = &trace->events[i];
        count_event(model, event, i, stats);
        if (event->action != VW_ACTION_SNAPSHOT) /* on stream 0 by convention */
            see_place(&places, event->stream, event->pool);
    }
    vw_status status = VW_OK;
    for (size_t i = 0; i < model->segment_count && status == VW_OK; i++) {
        const vw__model_segment *segment = &model->segments[i];
        if (segment->device != stats->device)
            continue;
        see_place(&places, segment->stream, segment->pool);
        status = count_segment(model, segment, stats);
    }
    count_places(model, &places, stats);
    vw__host_free(places.has_stream);
    return status;
}

/* ---- memory that went to the host's ---------------------------------------------------------- */

static vw_status count_move(const vw__model_move *move, bool is_return, vw_recorded_spill *spill)
{
    uint64_t *bytes = is_return ? &spill->returned_bytes : &spill->all_spilled_bytes;
    uint64_t before_bytes = move->spilled_bytes; /* it came from there */
    if (!vw__add_u64(*bytes, move->moved_bytes, bytes) ||
        !vw__add_u64(spill->wait_us, move->wait_us, &spill->wait_us) ||
        (is_return && !vw__add_u64(before_bytes, move->moved_bytes, &before_bytes)))
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "the annotations \"%s\" and \"%s\" add up to more than any host has",
                        VW_SPILL_ANNOTATION, VW_RETURN_ANNOTATION);
    spill->spills += !is_return;
    spill->returns += is_return;
    spill->peak_spilled_bytes = vw__max_u64(spill->peak_spilled_bytes, before_bytes);
    spill->end_spilled_bytes = move->spilled_bytes;
    return VW_OK;
}

static vw_status count_spill(const vw__model *model, int device, vw_recorded_spill *spill)
{
    for (size_t i = 0; i < model->annotation_count; i++) {
        const vw__model_annotation *annotation = &model->annotations[i];
        bool is_return;
        if (annotation->device == device && annotation->is_start &&
            vw__model_is_move(model, annotation, &is_return))
            VW__TRY(count_move(&annotation->move, is_return, spill));
    }
    return VW_OK;
}

/* ---- over the trace -------------------------------------------------------------------------- */

/* The event after which an instant comes; the first one for the beginning. */
static uint64_t event_of(uint32_t instant)
{
    return instant != 0 ? instant - 1 : 0;
}

static vw_status fill_from_timeline(stats_work *work, const vw__timeline *timeline,
                                    vw_device_stats *stats)
{
    stats->is_truncated = timeline->is_truncated;
    stats->initial_live_bytes = timeline->initial_live_bytes;
    stats->initial_block_count = timeline->initial_count;
    if (timeline->is_reserved_known) {
        stats->peak_reserved_bytes = timeline->peak_reserved_bytes;
        stats->peak_reserved_event = event_of(timeline->peak_reserved_instant);
    }
    VW__TRY(vw__moment_of_instant(timeline, timeline->peak_instant, &work->attribution,
                                  work->most_usages, work->arena, &stats->peak));

    vw__steps steps;
    VW__TRY(vw__steps_find_in(timeline, &work->attribution, &steps));
    stats->step_count = steps.end_count;
    vw__steps_deinit(&steps);
    return VW_OK;
}

static void warn_of_trace(stats_work *work, const vw__timeline *timeline,
                          const vw_device_stats *stats)
{
    uint64_t alloc_count = stats->action_counts[VW_ACTION_ALLOC];
    if (timeline->is_truncated)
        vw__notes_add(&work->warnings,
                      "Device %d: the trace does not begin at the first allocation (the ring kept "
                      "only the last %" PRIu64 " events, or recording began late): what was "
                      "allocated before shows only if it was freed later or is live at the end.",
                      stats->device, stats->event_count);
    if (!timeline->is_reserved_known)
        vw__notes_add(
            &work->warnings,
            "Device %d: the segment events do not add up to the segments at the end, some "
            "were not recorded: how much was reserved when is not known.",
            stats->device);
    if (timeline->contradiction_count != 0)
        vw__notes_add(&work->warnings,
                      "Device %d: %zu allocations are at the address of a live block, so frees are "
                      "missing from the trace: live bytes are an upper bound.",
                      stats->device, timeline->contradiction_count);
    if (stats->stackless_count == alloc_count && alloc_count != 0)
        vw__notes_add(&work->warnings,
                      "Device %d: no allocation has a stack: who holds the memory is not known. "
                      "Record with _record_memory_history(context=\"alloc\").",
                      stats->device);
    if (stats->other_event_count != 0)
        vw__notes_add(&work->warnings,
                      "Device %d: %" PRIu64 " events are no allocations, frees or segments, and "
                      "were only counted.",
                      stats->device, stats->other_event_count);
}

static vw_status fill_from_trace(stats_work *work, const vw__model_trace *trace,
                                 vw_device_stats *stats)
{
    vw__timeline timeline;
    VW__TRY(vw__timeline_make(work->model, trace, &timeline));
    vw_status status = fill_from_timeline(work, &timeline, stats);
    warn_of_trace(work, &timeline, stats);
    vw__timeline_deinit(&timeline);
    return status;
}

/* ---- one device ------------------------------------------------------------------------------ */

/* The reason why there is no summary, if that is known at once; else NULL. */
static const char *why_no_summary(const stats_work *work, const vw__model_trace *trace, int device)
{
    if (work->options.without_summary)
        return "it was not asked for";
    if (device == VW__MODEL_HOST_DEVICE)
        return "PyTorch has none of pinned host memory";
    if (trace == NULL || trace->event_count == 0)
        return "the recording has no trace to replay";
    return NULL;
}

static vw_status fill_all_but_summary(stats_work *work, const vw__model_trace *trace,
                                      vw_device_stats *stats)
{
    bool has_events = trace != NULL && trace->event_count != 0;
    stats->event_count = has_events ? trace->event_count : 0;
    stats->peak_reserved_bytes = VW_UNKNOWN;
    stats->peak_reserved_event = VW_UNKNOWN;
    count_times(trace, stats);
    VW__TRY(count_device(work->model, trace, stats));
    VW__TRY(count_spill(work->model, stats->device, &stats->spill));
    VW__TRY(vw__moment_of_end(&work->attribution, trace, stats->device, work->most_usages,
                              work->arena, &stats->end));
    stats->peak = stats->end; /* the most that is known without a trace */
    return has_events ? fill_from_trace(work, trace, stats) : VW_OK;
}

/* The summary is replayed on another thread meanwhile. That the trace was cut may show only here,
 * and makes a summary worthless. */
static vw_status fill_device_with_summary(stats_work *work, const vw__model_trace *trace,
                                          vw_device_stats *stats)
{
    vw__stats_summary_job job;
    vw__stats_summary_job_begin(&job, work->model, trace, work->torch_version);
    vw_status status = fill_all_but_summary(work, trace, stats);
    if (status == VW_OK && stats->is_truncated)
        stats->summary_reason = VW__STATS_SUMMARY_CUT;
    else if (status == VW_OK)
        status = vw__stats_summary_job_finish(&job, work->arena, &stats->summary,
                                              &stats->summary_reason);
    vw__stats_summary_job_deinit(&job);
    return status;
}

static vw_status fill_device(stats_work *work, int device, vw_device_stats *stats)
{
    const vw__model_trace *trace = vw__model_trace_of(work->model, device);
    stats->device = device;
    stats->summary_reason = why_no_summary(work, trace, device);
    return stats->summary_reason != NULL ? fill_all_but_summary(work, trace, stats)
                                         : fill_device_with_summary(work, trace, stats);
}

/* ---- all devices ----------------------------------------------------------------------------- */

/* The next device after `device` that has events or segments; the host is the last, INT_MAX the
 * end. Devices are few: looking through everything once for each is cheap. */
static int next_device(const vw__model *model, int device)
{
    int next = INT_MAX;
    bool has_host = false;
    if (device == VW__MODEL_HOST_DEVICE)
        return INT_MAX;
    for (size_t i = 0; i < model->trace_count; i++) {
        int other = model->traces[i].device;
        if (model->traces[i].event_count == 0)
            continue;
        has_host = has_host || other == VW__MODEL_HOST_DEVICE;
        if (other > device && other != VW__MODEL_HOST_DEVICE && other < next)
            next = other;
    }
    for (size_t i = 0; i < model->segment_count; i++) {
        int other = model->segments[i].device;
        has_host = has_host || other == VW__MODEL_HOST_DEVICE;
        if (other > device && other != VW__MODEL_HOST_DEVICE && other < next)
            next = other;
    }
    return next == INT_MAX && has_host ? VW__MODEL_HOST_DEVICE : next;
}

static vw_status fill_devices(stats_work *work, vw_recording_stats *stats)
{
    size_t count = 0;
    for (int next = next_device(work->model, INT_MIN); next != INT_MAX;
         next = next_device(work->model, next))
        if (++count > MOST_DEVICES)
            return vw__fail(VW_ERR_CORRUPT_FILE,
                            "expected at most %d devices, found more, the last one being %d",
                            MOST_DEVICES, next);
    vw_device_stats *devices =
        vw__arena_alloc_array(work->arena, count, sizeof *devices, _Alignof(vw_device_stats));
    if (devices == NULL)
        return vw__fail_host_memory(count * sizeof *devices, "statistics of devices");
    int device = INT_MIN;
    for (size_t i = 0; i < count; i++) {
        device = next_device(work->model, device);
        VW__TRY(fill_device(work, device, &devices[i]));
    }
    stats->devices = devices;
    stats->device_count = count;
    return VW_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static vw_status fill_settings(stats_work *work, vw_recording_stats *stats)
{
    const vw__model_settings *settings = &work->model->settings;
    vw_setting *entries = vw__arena_alloc_array(work->arena, settings->entry_count, sizeof *entries,
                                                _Alignof(vw_setting));
    if (entries == NULL)
        return vw__fail_host_memory(settings->entry_count * sizeof *entries, "the settings");
    for (size_t i = 0; i < settings->entry_count; i++) {
        entries[i].key = vw__model_string(work->model, settings->entries[i].key);
        entries[i].value = vw__model_string(work->model, settings->entries[i].value);
    }
    stats->conf = vw__recording_conf_text(work->model);
    stats->settings = entries;
    stats->setting_count = settings->entry_count;
    return VW_OK;
}

static void warn_of_file(stats_work *work, const vw_recording_stats *stats)
{
    if (stats->oldest_version == NULL)
        vw__notes_add(&work->warnings,
                      "The fields of the file fit no version of PyTorch: rules of %s are used.",
                      work->torch_version);
    if (stats->device_count == 0)
        vw__notes_add(&work->warnings, "The recording is empty: no segments, and no events.");
    if (stats->unknown_field_count != 0)
        vw__notes_add(&work->warnings,
                      "%" PRIu64 " fields are not known to this version of vramwise and were left "
                      "out, the first being \"%.100s\".",
                      stats->unknown_field_count,
                      stats->first_unknown_field != NULL ? stats->first_unknown_field : "");
    uint64_t event_count = 0;
    for (size_t i = 0; i < stats->device_count; i++)
        event_count += stats->devices[i].event_count;
    if (stats->device_count != 0 && event_count == 0)
        vw__notes_add(&work->warnings,
                      "The recording has no trace: only the end is known. Call "
                      "torch.cuda.memory._record_memory_history() at the start of the "
                      "program.");
}

static vw_status fill_all(stats_work *work, const vw_recording *recording,
                          vw_recording_stats *stats)
{
    const vw__model *model = work->model;
    VW__TRY(vw__recording_version(model, work->options.torch_version, &work->torch_version));
    VW__TRY(vw__attribution_init(&work->attribution, model));
    if (work->most_usages != VW__MOMENT_NO_USAGES)
        VW__TRY(vw__moment_share_stacks(&work->attribution, work->arena));
    stats->encoding = recording->encoding == VW__SNAPSHOT_ENCODING_JSON ? "json" : "pickle";
    stats->compression = vw__byte_source_packing_name(recording->compression);
    stats->file_bytes = recording->file_bytes;
    stats->uncompressed_bytes = recording->uncompressed_bytes;
    stats->model_bytes = vw__model_size_bytes(model);
    vw__recording_version_range(model, &stats->oldest_version, &stats->newest_version);
    stats->stack_count = model->stack_count;
    stats->frame_count = model->frame_count;
    stats->annotation_count = model->annotation_count;
    stats->unknown_field_count = model->ignored_field_count;
    stats->first_unknown_field = model->first_ignored_field;
    VW__TRY(fill_settings(work, stats));
    VW__TRY(fill_devices(work, stats));
    warn_of_file(work, stats);
    return vw__notes_finish(&work->warnings, &stats->warnings, &stats->warning_count);
}

static vw_status make_stats(const vw_recording *recording, const vw_stats_options *options,
                            size_t most_usages, vw_recording_stats **out)
{
    vw_recording_stats *stats = vw__result_create(sizeof *stats);
    if (stats == NULL)
        return vw__fail_host_memory(sizeof *stats, "statistics");
    stats_work work = {.model = recording->model,
                       .options = *options,
                       .most_usages = most_usages,
                       .arena = vw__result_arena(stats)};
    vw__notes_init(&work.warnings, work.arena);
    vw_status status = fill_all(&work, recording, stats);
    vw__attribution_deinit(&work.attribution);
    if (status == VW_OK)
        *out = stats;
    else
        vw__result_free(stats);
    return status;
}

vw_status vw_recording_stats_make(const vw_recording *recording, const vw_stats_options *options,
                                  vw_recording_stats **out)
{
    vw_stats_options used = {.struct_size = sizeof used};
    if (recording == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "expected a recording and a place for its statistics");
    VW__TRY(VW__STRUCT_IN(vw_stats_options, options, &used));
    const size_t most_usages = used.most_usages != SIZE_MAX ? used.most_usages : 0;
    return make_stats(recording, &used, most_usages, out);
}

vw_status vw__recording_totals_make(const vw_recording *recording, const char *torch_version,
                                    vw_recording_stats **out)
{
    const vw_stats_options options = {.struct_size = sizeof options,
                                      .torch_version = torch_version};
    return make_stats(recording, &options, VW__MOMENT_NO_USAGES, out);
}

void vw_recording_stats_free(vw_recording_stats *stats)
{
    vw__result_free(stats);
}
