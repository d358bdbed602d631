/* rank_recording.c - what a rank's recording comes to: figures, a verdict, lines and settings. */
#include <math.h>
#include <string.h>

#include "analysis/recording.h"
#include "analysis/steps.h"
#include "analysis/timeline.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "doctor/step_trend.h"
#include "ranks/rank_name.h"
#include "ranks/rank_parts.h"

enum {
    MOST_USAGES = 512, /* stacks at the peak, the largest: the others hold next to nothing */
};

/* ---- the device ------------------------------------------------------------------------------ */

static bool is_busier(const hr_device_stats *one, const hr_device_stats *other)
{
    if (one->event_count != other->event_count)
        return one->event_count > other->event_count;
    return one->reserved_bytes > other->reserved_bytes;
}

/* A rank uses one card: the one with the most events. NULL: none was used. */
static const hr_device_stats *device_of(const hr_recording_stats *stats)
{
    const hr_device_stats *busiest = NULL;
    for (size_t i = 0; i < stats->device_count; i++)
        if (stats->devices[i].device >= 0 &&
            (busiest == NULL || is_busier(&stats->devices[i], busiest)))
            busiest = &stats->devices[i];
    return busiest;
}

static void note_peaks(const hr_device_stats *device, hr__account *account)
{
    hr_rank *rank = &account->shown;
    rank->device = device->device;
    rank->event_count = device->event_count;
    if (device->event_count != 0) {
        rank->basis = HR_RANK_BASIS_TRACE;
        rank->peak_live_bytes = device->peak.live_bytes;
        rank->peak_reserved_bytes = device->peak_reserved_bytes;
        rank->step_count = device->step_count != 0 ? device->step_count : HR_UNKNOWN;
    } else {
        rank->basis = HR_RANK_BASIS_END;
        rank->peak_live_bytes = device->end.live_bytes;
        rank->peak_reserved_bytes = device->reserved_bytes;
    }
    account->last_time_us = device->last_time_us;
}

static void note_failure(const hr_recording *recording, const hr_device_stats *device,
                         hr__account *account)
{
    hr_rank *rank = &account->shown;
    const hr__model_trace *trace;
    if (!device->has_oom)
        return;
    rank->ran_out = true;
    rank->tried_bytes = device->oom_tried_bytes;
    if (hr__recording_trace(recording->model, device->device, &trace) == HR_OK &&
        device->oom_event < trace->event_count)
        rank->time_us = trace->events[device->oom_event].time_us;
}

/* ---- growth ---------------------------------------------------------------------------------- */

hr_status hr__growth_per_step(const double *steps, const double *bytes, size_t count, bool is_peak,
                              double *out)
{
    hr__trend trend;
    HR__TRY(hr__step_trend_find(steps, bytes, count, is_peak, &trend));
    if (trend.kind == HR__TREND_TOO_SHORT)
        *out = NAN;
    else
        *out = trend.kind == HR__TREND_GROWS ? trend.bytes_per_step : 0;
    return HR_OK;
}

/* Live bytes where each step ends. */
static hr_status growth_at(const hr__steps *steps, const int64_t *live, double *out)
{
    double *numbers = hr__host_alloc_zeroed(steps->end_count, 2 * sizeof *numbers);
    if (numbers == NULL)
        return hr__fail_host_memory(steps->end_count * 2 * sizeof *numbers, "the steps of a rank");
    double *bytes = numbers + steps->end_count;
    for (size_t i = 0; i < steps->end_count; i++) {
        numbers[i] = (double)i;
        bytes[i] = (double)live[steps->ends[i]];
    }
    hr_status status = hr__growth_per_step(numbers, bytes, steps->end_count, false, out);
    hr__host_free(numbers);
    return status;
}

static hr_status find_growth(const hr_recording *recording, int device, double *out)
{
    const hr__model_trace *trace;
    hr__timeline timeline;
    hr__steps steps;
    HR__TRY(hr__recording_trace(recording->model, device, &trace));
    HR__TRY(hr__timeline_make(recording->model, trace, &timeline));
    hr_status status = hr__steps_find(recording->model, trace, &steps);
    if (status == HR_OK) {
        int64_t *live = hr__timeline_live_line(&timeline);
        status = live != NULL ? growth_at(&steps, live, out)
                              : hr__fail_host_memory(trace->event_count * sizeof *live,
                                                     "the live bytes of a rank");
        hr__host_free(live);
        hr__steps_deinit(&steps);
    }
    hr__timeline_deinit(&timeline);
    return status;
}

/* ---- lines of the program -------------------------------------------------------------------- */

static const hr_frame *place_of(const hr_usage *usage)
{
    if (usage->where != NULL)
        return usage->where;
    return usage->frame_count > 0 ? &usage->frames[0] : NULL;
}

static void write_key(hr__byte_buffer *key, const hr_usage *usage)
{
    const hr_frame *place = place_of(usage);
    hr__byte_buffer_clear(key);
    hr__append_u8(key, place != NULL);
    if (place == NULL) {
        hr__append_text(key, usage->category);
        return;
    }
    hr__append_bytes(key, place->file, strlen(place->file) + 1);
    hr__append_bytes(key, place->function, strlen(place->function) + 1);
    hr__append_u32_le(key, place->line);
}

static hr_status keep_site(hr__ranks_work *work, const hr_usage *usage, hr__site *out)
{
    const hr_frame *place = place_of(usage);
    *out = (hr__site){NULL, usage->category};
    if (place == NULL)
        return HR_OK;
    hr_frame *frame = hr__arena_alloc(work->arena, sizeof *frame, _Alignof(hr_frame));
    if (frame == NULL)
        return hr__fail_host_memory(sizeof *frame, "a line of the program");
    frame->line = place->line;
    HR__TRY(hr__ranks_keep(work, place->file, &frame->file));
    HR__TRY(hr__ranks_keep(work, place->function, &frame->function));
    out->where = frame;
    return HR_OK;
}

static hr_status find_site(hr__ranks_work *work, const hr_usage *usage, hr__byte_buffer *key,
                           uint32_t *site)
{
    hr__site_table *table = &work->sites;
    uint32_t before = table->keys.count;
    write_key(key, usage);
    if (before == table->capacity) {
        size_t wanted = table->capacity == 0 ? 64 : table->capacity * 2;
        hr__site *larger = hr__host_realloc(table->sites, wanted * sizeof *larger);
        if (larger == NULL)
            return hr__fail_host_memory(wanted * sizeof *larger, "the lines of the program");
        table->sites = larger;
        table->capacity = wanted;
    }
    if (hr__byte_buffer_has_failed(key) ||
        !hr__string_table_add(&table->keys, hr__byte_buffer_text(key), hr__byte_buffer_size(key),
                              site))
        return hr__fail_host_memory(hr__byte_buffer_size(key), "a line of the program");
    return *site == before ? keep_site(work, usage, &table->sites[*site]) : HR_OK;
}

/* Stacks of one line are one. */
static hr_status add_usages(hr__ranks_work *work, const hr_moment *peak, hr__site_bytes *sites,
                            hr__byte_buffer *key, size_t *count)
{
    for (size_t i = 0; i < peak->usage_count; i++) {
        uint32_t site;
        size_t place = 0;
        HR__TRY(find_site(work, &peak->usages[i], key, &site));
        while (place < *count && sites[place].site != site)
            place++;
        if (place == *count)
            sites[(*count)++] = (hr__site_bytes){site, 0};
        sites[place].bytes += peak->usages[i].bytes;
    }
    return HR_OK;
}

static hr_status note_sites(hr__ranks_work *work, const hr_moment *peak, hr__account *account)
{
    hr__byte_buffer key;
    hr__site_bytes *sites = hr__arena_alloc_array(work->arena, peak->usage_count, sizeof *sites,
                                                  _Alignof(hr__site_bytes));
    if (sites == NULL)
        return hr__fail_host_memory(peak->usage_count * sizeof *sites, "the lines of a rank");
    hr__byte_buffer_init(&key);
    hr_status status = add_usages(work, peak, sites, &key, &account->site_count);
    hr__byte_buffer_deinit(&key);
    account->sites = sites;
    return status;
}

/* ---- settings -------------------------------------------------------------------------------- */

static hr_status add_setting(hr__ranks_work *work, hr_setting *settings, size_t *count,
                             const char *key, const char *value)
{
    if (value == NULL)
        return HR_OK;
    HR__TRY(hr__ranks_keep(work, key, &settings[*count].key));
    HR__TRY(hr__ranks_keep(work, value, &settings[*count].value));
    ++*count;
    return HR_OK;
}

#define CONF_KEY "PYTORCH_CUDA_ALLOC_CONF"

/* Most files have the option string among the settings, as well as by itself. */
static bool has_conf_among(const hr_recording_stats *stats)
{
    for (size_t i = 0; i < stats->setting_count; i++)
        if (strcmp(stats->settings[i].key, CONF_KEY) == 0)
            return true;
    return false;
}

static hr_status note_settings(hr__ranks_work *work, const hr_recording_stats *stats,
                               hr__account *account)
{
    size_t most = stats->setting_count + 1;
    hr_setting *settings =
        hr__arena_alloc_array(work->arena, most, sizeof *settings, _Alignof(hr_setting));
    if (settings == NULL)
        return hr__fail_host_memory(most * sizeof *settings, "the settings of a rank");
    account->settings = settings;
    HR__TRY(hr__ranks_keep(work, stats->conf, &account->shown.conf));
    if (!has_conf_among(stats))
        HR__TRY(add_setting(work, settings, &account->setting_count, CONF_KEY, stats->conf));
    for (size_t i = 0; i < stats->setting_count; i++)
        HR__TRY(add_setting(work, settings, &account->setting_count, stats->settings[i].key,
                            stats->settings[i].value));
    return HR_OK;
}

/* ---- the account ----------------------------------------------------------------------------- */

static hr_status fill_account(hr__ranks_work *work, const hr_recording *recording,
                              const hr_recording_stats *stats, hr__account *account)
{
    const hr_device_stats *device = device_of(stats);
    hr_diagnosis *diagnosis = NULL;
    HR__TRY(note_settings(work, stats, account));
    if (device != NULL) {
        note_peaks(device, account);
        note_failure(recording, device, account);
        HR__TRY(note_sites(work, &device->peak, account));
        if (device->step_count >= HR__TREND_FEWEST_POINTS)
            HR__TRY(find_growth(recording, device->device, &account->shown.growth_bytes_per_step));
    }
    HR__TRY(hr_doctor_recording(recording, &work->doctor, &diagnosis));
    return hr__account_take_diagnosis(work, account, diagnosis);
}

hr_status hr__account_recording(hr__ranks_work *work, const hr_recording *recording,
                                const char *path, hr__account *account)
{
    const hr_stats_options options = {.struct_size = sizeof options,
                                      .torch_version = work->options->torch_version,
                                      .most_usages = MOST_USAGES,
                                      .without_summary = true};
    hr_recording_stats *stats;
    account->is_recording = true;
    account->shown.recording = path;
    account->shown.file_count = 1;
    account->shown.ran_out = hr__is_failure_name(path);
    HR__TRY(hr_recording_stats_make(recording, &options, &stats));
    hr_status status = fill_account(work, recording, stats, account);
    hr_recording_stats_free(stats);
    return status;
}
