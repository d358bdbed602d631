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
static const char *why_no_what_if(const hr__view_run_order *order, int device)
{
    const hr__model_trace *busiest;
    if (order->without_what_if)
        return "no replays were asked for";
    if (hr__recording_trace(order->recording->model, HR_BUSIEST_DEVICE, &busiest) != HR_OK)
        return "the recording has no trace to replay";
    return busiest->device != device ? "only the device with the most events is replayed" : NULL;
}

static hr_status write_device(const hr__view_run_order *order, size_t number,
                              const hr__view_device_order *common)
{
    hr__view_device_order device = *common;
    device.what_if_reason = why_no_what_if(order, common->stats->device);
    hr__view_columns_prefix(order->columns, "r%zu.d%zu.", order->number, number);
    return hr__view_device_write(&device);
}

static hr_status write_devices(const hr__view_run_order *order, const hr_recording_stats *stats,
                               hr__view_device_order *common)
{
    size_t count = stats->device_count;
    hr__json_begin_array(order->json, "devices");
    for (size_t i = 0; i < count; i++) {
        HR__TRY(
            hr__view_progress_next(order->progress, order->share * devices_share / (double)count));
        common->stats = &stats->devices[i];
        HR__TRY(write_device(order, i, common));
    }
    hr__json_end_array(order->json);
    return HR_OK;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void write_categories(hr__json *json)
{
    hr__json_begin_array(json, "categories");
    for (unsigned i = 0; i < HR__CATEGORY_COUNT; i++)
        hr__json_text(json, NULL, hr__category_name((hr__category)i));
    hr__json_end_array(json);
}

static hr_status write_stacks(const hr__view_run_order *order, hr__view_stacks *stacks)
{
    hr__view_columns_prefix(order->columns, "r%zu.", order->number);
    HR__TRY(hr__view_stacks_write(stacks, order->columns));
    hr__json_unsigned(order->json, "stack_count", stacks->stack_count);
    hr__json_unsigned(order->json, "frame_count", stacks->frame_count);
    return HR_OK;
}

static hr_status write_run(const hr__view_run_order *order, const hr_recording_stats *stats,
                           hr__attribution *attribution, hr__view_stacks *stacks)
{
    hr_memory_numbers numbers;
    hr__json_text(order->json, "file", order->file);
    HR__TRY(hr__view_report_stats(stats, order->file, order->json));
    HR__TRY(hr__view_progress_next(order->progress, order->share * doctor_share));
    HR__TRY(hr__view_report_doctor(order->recording, order->file, order->torch_version, order->json,
                                   &numbers));
    write_categories(order->json);
    HR__TRY(hr__attribution_init(attribution, order->recording->model));
    HR__TRY(hr__view_stacks_init(stacks, attribution));
    hr__view_device_order common = {.recording = order->recording,
                                    .attribution = attribution,
                                    .numbers = &numbers,
                                    .torch_version = order->torch_version,
                                    .stacks = stacks,
                                    .progress = order->progress,
                                    .columns = order->columns,
                                    .json = order->json};
    HR__TRY(write_devices(order, stats, &common));
    return write_stacks(order, stacks);
}

hr_status hr__view_run_write(const hr__view_run_order *order)
{
    const hr_stats_options options = {.struct_size = sizeof options,
                                      .torch_version = order->torch_version,
                                      .most_usages = MOST_USAGES};
    hr_recording_stats *stats = NULL;
    hr__attribution attribution = {.model = NULL};
    hr__view_stacks stacks = {.attribution = NULL};
    order->progress->base = (double)order->number * order->share;
    order->progress->share = 0;
    HR__TRY(hr__view_progress_next(order->progress, order->share * stats_share));
    HR__TRY(hr_recording_stats_make(order->recording, &options, &stats));
    hr__json_begin_object(order->json, NULL);
    hr_status status = write_run(order, stats, &attribution, &stacks);
    hr__json_end_object(order->json);
    hr__view_stacks_deinit(&stacks);
    hr__attribution_deinit(&attribution);
    hr_recording_stats_free(stats);
    return status;
}
