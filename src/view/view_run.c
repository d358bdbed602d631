/* view_run.c - one recording: the reports, then its devices, then the stacks they refer to. */
#include "view/view_run.h"

#include <stdint.h>

#include "vramwise/report.h"

#include "analysis/attribution.h"
#include "analysis/recording.h"
#include "base/error.h"
#include "view/view_device.h"
#include "view/view_stacks.h"

/* Shares of the progress: about how long each takes. */
static const double stats_share = 0.15, doctor_share = 0.2, devices_share = 0.65;

/* ---- what the other commands say, as JSON -------------------------------------------------------
 */

/* Where a report is put. */
typedef struct report_place {
    const char *key;
    vw__json *json;
    size_t wanted_bytes; /* of the header, with the report */
} report_place;

/* A report comes in one piece; it goes into the header without the end of its line. */
static bool put(void *context, const char *bytes, size_t size_bytes)
{
    report_place *place = context;
    place->wanted_bytes = vw__byte_buffer_size(place->json->buffer) + size_bytes;
    while (size_bytes > 0 && bytes[size_bytes - 1] == '\n')
        size_bytes--;
    vw__json_ready(place->json, place->key, bytes, size_bytes);
    return !vw__byte_buffer_has_failed(place->json->buffer);
}

/* Returns what became of a report that was put: only a lack of host memory refuses it. */
static vw_status outcome(vw_status status, const report_place *place)
{
    if (status == VW_ERR_FILE && vw__byte_buffer_has_failed(place->json->buffer))
        return vw__fail_host_memory(place->wanted_bytes, "the reports of a view");
    return status;
}

static vw_report_form form_of(const char *file, const char *other_file)
{
    return (vw_report_form){.struct_size = sizeof(vw_report_form),
                            .is_json = true,
                            .most_rows = SIZE_MAX,
                            .file = file,
                            .other_file = other_file};
}

/* A failure that only means that there is nothing to show: null, and why. */
static vw_status put_reason(vw_status status, const char *key, const char *reason_key,
                            vw__json *json)
{
    if (status == VW_ERR_HOST_MEMORY)
        return status;
    vw__json_null(json, key);
    vw__json_text(json, reason_key, vw_last_error());
    return VW_OK;
}

static vw_status write_stats(const vw_recording_stats *stats, const char *file, vw__json *json)
{
    report_place place = {.key = "stats", .json = json};
    const vw_report_form form = form_of(file, NULL);
    const vw_output output = {&place, put};
    return outcome(vw_report_stats(stats, &form, &output), &place);
}

/* `*out`: the diagnosis, the caller's to free, or NULL. Fails only for lack of host memory. */
static vw_status write_doctor(const vw_recording *recording, const char *file,
                              const char *torch_version, vw__json *json, vw_diagnosis **out)
{
    report_place place = {.key = "doctor", .json = json};
    const vw_report_form form = form_of(file, NULL);
    const vw_output output = {&place, put};
    const vw_doctor_options options = {.struct_size = sizeof options,
                                       .torch_version = torch_version};
    *out = NULL;
    vw_status status = vw_doctor_recording(recording, &options, out);
    if (status != VW_OK)
        return put_reason(status, "doctor", "doctor_reason", json);
    status = outcome(vw_report_doctor(*out, &form, &output), &place);
    vw__json_null(json, "doctor_reason");
    return status;
}

vw_status vw__view_report_diff(const vw_recording *before, const vw_recording *after,
                               const char *file, const char *other_file, vw__json *json)
{
    report_place place = {.key = "diff", .json = json};
    const vw_report_form form = form_of(file, other_file);
    const vw_output output = {&place, put};
    vw_diff_report *report = NULL;
    if (after == NULL) {
        vw__json_null(json, "diff");
        vw__json_null(json, "diff_reason");
        return VW_OK;
    }
    vw_status status = vw_recordings_diff(before, after, &report);
    if (status != VW_OK)
        return put_reason(status, "diff", "diff_reason", json);
    status = outcome(vw_report_diff(report, &form, &output), &place);
    vw__json_null(json, "diff_reason");
    vw_diff_report_free(report);
    return status;
}

vw_status vw__view_report_ranks(const vw_ranks_report *report, const char *folder, vw__json *json)
{
    report_place place = {.key = "ranks", .json = json};
    const vw_report_form form = form_of(folder, NULL);
    const vw_output output = {&place, put};
    return outcome(vw_report_ranks(report, &form, &output), &place);
}

/* ---- devices --------------------------------------------------------------------------------- */

/* Only the busiest device is replayed: the others have little to show for it. */
static const char *why_no_what_if(const vw__view_run_order *order, int device)
{
    const vw__model_trace *busiest;
    if (order->without_what_if)
        return "no replays were asked for";
    if (vw__recording_trace(order->recording->model, VW_BUSIEST_DEVICE, &busiest) != VW_OK)
        return "the recording has no trace to replay";
    return busiest->device != device ? "only the device with the most events is replayed" : NULL;
}

static vw_status write_device(const vw__view_run_order *order, size_t number,
                              const vw__view_device_order *common)
{
    vw__view_device_order device = *common;
    device.what_if_reason = why_no_what_if(order, common->stats->device);
    vw__view_columns_prefix(order->columns, "r%zu.d%zu.", order->number, number);
    return vw__view_device_write(&device);
}

static vw_status write_devices(const vw__view_run_order *order, const vw_recording_stats *stats,
                               vw__view_device_order *common)
{
    size_t count = stats->device_count;
    vw__json_begin_array(order->json, "devices");
    for (size_t i = 0; i < count; i++) {
        VW__TRY(
            vw__view_progress_next(order->progress, order->share * devices_share / (double)count));
        common->stats = &stats->devices[i];
        VW__TRY(write_device(order, i, common));
    }
    vw__json_end_array(order->json);
    return VW_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void write_categories(vw__json *json)
{
    vw__json_begin_array(json, "categories");
    for (unsigned i = 0; i < VW__CATEGORY_COUNT; i++)
        vw__json_text(json, NULL, vw__category_name((vw__category)i));
    vw__json_end_array(json);
}

static vw_status write_stacks(const vw__view_run_order *order, vw__view_stacks *stacks)
{
    vw__view_columns_prefix(order->columns, "r%zu.", order->number);
    VW__TRY(vw__view_stacks_write(stacks, order->columns));
    vw__json_unsigned(order->json, "stack_count", stacks->stack_count);
    vw__json_unsigned(order->json, "frame_count", stacks->frame_count);
    return VW_OK;
}

static vw_status write_run(const vw__view_run_order *order, const vw_recording_stats *stats,
                           vw__attribution *attribution, vw__view_stacks *stacks,
                           vw_diagnosis **diagnosis)
{
    vw__json_text(order->json, "file", order->file);
    VW__TRY(write_stats(stats, order->file, order->json));
    VW__TRY(vw__view_progress_next(order->progress, order->share * doctor_share));
    VW__TRY(
        write_doctor(order->recording, order->file, order->torch_version, order->json, diagnosis));
    write_categories(order->json);
    VW__TRY(vw__attribution_init(attribution, order->recording->model));
    VW__TRY(vw__view_stacks_init(stacks, attribution));
    vw__view_device_order common = {.recording = order->recording,
                                    .attribution = attribution,
                                    .diagnosis = *diagnosis,
                                    .torch_version = order->torch_version,
                                    .stacks = stacks,
                                    .progress = order->progress,
                                    .columns = order->columns,
                                    .json = order->json};
    VW__TRY(write_devices(order, stats, &common));
    return write_stacks(order, stacks);
}

vw_status vw__view_run_write(const vw__view_run_order *order)
{
    vw_recording_stats *stats = NULL;
    vw_diagnosis *diagnosis = NULL;
    vw__attribution attribution = {.model = NULL};
    vw__view_stacks stacks = {.attribution = NULL};
    order->progress->base = (double)order->number * order->share;
    order->progress->share = 0;
    VW__TRY(vw__view_progress_next(order->progress, order->share * stats_share));
    /* The page adds up the usages of any moment by itself. */
    VW__TRY(vw__recording_totals_make(order->recording, order->torch_version, &stats));
    vw__json_begin_object(order->json, NULL);
    vw_status status = write_run(order, stats, &attribution, &stacks, &diagnosis);
    vw__json_end_object(order->json);
    vw__view_stacks_deinit(&stacks);
    vw__attribution_deinit(&attribution);
    vw_diagnosis_free(diagnosis);
    vw_recording_stats_free(stats);
    return status;
}
