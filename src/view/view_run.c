/* view_run.c - one recording: the reports, then its devices, then the stacks they refer to. */
#include "view/view_run.h"

#include "analysis/attribution.h"
#include "analysis/recording.h"
#include "base/error.h"
#include "view/view_device.h"
#include "view/view_reports.h"
#include "view/view_stacks.h"

/* Of a moment in the statistics, each with all its frames: the page adds the others up itself. */
enum { MOST_USAGES = 100 };

/* Shares of the progress: about how long each takes. */
static const double stats_share = 0.15, doctor_share = 0.2, devices_share = 0.65;

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
    VW__TRY(vw__view_report_stats(stats, order->file, order->json));
    VW__TRY(vw__view_progress_next(order->progress, order->share * doctor_share));
    VW__TRY(vw__view_report_doctor(order->recording, order->file, order->torch_version, order->json,
                                   diagnosis));
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
    const vw_stats_options options = {.struct_size = sizeof options,
                                      .torch_version = order->torch_version,
                                      .most_usages = MOST_USAGES};
    vw_recording_stats *stats = NULL;
    vw_diagnosis *diagnosis = NULL;
    vw__attribution attribution = {.model = NULL};
    vw__view_stacks stacks = {.attribution = NULL};
    order->progress->base = (double)order->number * order->share;
    order->progress->share = 0;
    VW__TRY(vw__view_progress_next(order->progress, order->share * stats_share));
    VW__TRY(vw_recording_stats_make(order->recording, &options, &stats));
    vw__json_begin_object(order->json, NULL);
    vw_status status = write_run(order, stats, &attribution, &stacks, &diagnosis);
    vw__json_end_object(order->json);
    vw__view_stacks_deinit(&stacks);
    vw__attribution_deinit(&attribution);
    vw_diagnosis_free(diagnosis);
    vw_recording_stats_free(stats);
    return status;
}
