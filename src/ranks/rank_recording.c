/* rank_recording.c - what a rank's recording comes to: figures, a verdict, lines and settings. */
#include <string.h>

#include "analysis/recording.h"
#include "base/byte_buffer.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "ranks/rank_name.h"
#include "ranks/rank_parts.h"

enum {
    MOST_USAGES = 512, /* stacks at the peak, the largest: the others hold next to nothing */
};

/* ---- the device ------------------------------------------------------------------------------ */

static bool is_busier(const vw_device_stats *one, const vw_device_stats *other)
{
    if (one->event_count != other->event_count)
        return one->event_count > other->event_count;
    return one->reserved_bytes > other->reserved_bytes;
}

/* A rank uses one card: the one with the most events. NULL: none was used. */
static const vw_device_stats *device_of(const vw_recording_stats *stats)
{
    const vw_device_stats *busiest = NULL;
    for (size_t i = 0; i < stats->device_count; i++)
        if (stats->devices[i].device >= 0 &&
            (busiest == NULL || is_busier(&stats->devices[i], busiest)))
            busiest = &stats->devices[i];
    return busiest;
}

static void note_peaks(const vw_device_stats *device, vw__account *account)
{
    vw_rank *rank = &account->shown;
    rank->device = device->device;
    rank->event_count = device->event_count;
    if (device->event_count != 0) {
        rank->basis = VW_RANK_BASIS_TRACE;
        rank->peak_live_bytes = device->peak.live_bytes;
        rank->peak_reserved_bytes = device->peak_reserved_bytes;
        rank->step_count = device->step_count != 0 ? device->step_count : VW_UNKNOWN;
    } else {
        rank->basis = VW_RANK_BASIS_END;
        rank->peak_live_bytes = device->end.live_bytes;
        rank->peak_reserved_bytes = device->reserved_bytes;
    }
    account->last_time_us = device->last_time_us;
}

static void note_failure(const vw_recording *recording, const vw_device_stats *device,
                         vw__account *account)
{
    vw_rank *rank = &account->shown;
    const vw__model_trace *trace;
    if (!device->has_oom)
        return;
    rank->ran_out = true;
    rank->tried_bytes = device->oom_tried_bytes;
    if (vw__recording_trace(recording->model, device->device, &trace) == VW_OK &&
        device->oom_event < trace->event_count)
        rank->time_us = trace->events[device->oom_event].time_us;
}

/* ---- lines of the program -------------------------------------------------------------------- */

static const vw_frame *place_of(const vw_usage *usage)
{
    if (usage->where != NULL)
        return usage->where;
    return usage->frame_count > 0 ? &usage->frames[0] : NULL;
}

static void write_key(vw__byte_buffer *key, const vw_usage *usage)
{
    const vw_frame *place = place_of(usage);
    vw__byte_buffer_clear(key);
    vw__append_u8(key, place != NULL);
    if (place == NULL) {
        vw__append_text(key, usage->category);
        return;
    }
    vw__append_bytes(key, place->file, strlen(place->file) + 1);
    vw__append_bytes(key, place->function, strlen(place->function) + 1);
    vw__append_u32_le(key, place->line);
}

static vw_status keep_site(vw__ranks_work *work, const vw_usage *usage, vw__site *out)
{
    const vw_frame *place = place_of(usage);
    *out = (vw__site){NULL, usage->category};
    if (place == NULL)
        return VW_OK;
    vw_frame *frame = vw__arena_alloc(work->arena, sizeof *frame, _Alignof(vw_frame));
    if (frame == NULL)
        return vw__fail_host_memory(sizeof *frame, "a line of the program");
    frame->line = place->line;
    VW__TRY(vw__ranks_keep(work, place->file, &frame->file));
    VW__TRY(vw__ranks_keep(work, place->function, &frame->function));
    out->where = frame;
    return VW_OK;
}

static vw_status find_site(vw__ranks_work *work, const vw_usage *usage, vw__byte_buffer *key,
                           uint32_t *site)
{
    vw__site_table *table = &work->sites;
    uint32_t before = table->keys.count;
    write_key(key, usage);
    if (before == table->capacity) {
        size_t wanted = table->capacity == 0 ? 64 : table->capacity * 2;
        vw__site *larger = vw__host_realloc(table->sites, wanted * sizeof *larger);
        if (larger == NULL)
            return vw__fail_host_memory(wanted * sizeof *larger, "the lines of the program");
        table->sites = larger;
        table->capacity = wanted;
    }
    if (vw__byte_buffer_has_failed(key) ||
        !vw__string_table_add(&table->keys, vw__byte_buffer_text(key), vw__byte_buffer_size(key),
                              site))
        return vw__fail_host_memory(vw__byte_buffer_size(key), "a line of the program");
    return *site == before ? keep_site(work, usage, &table->sites[*site]) : VW_OK;
}

/* Stacks of one line are one. */
static vw_status add_usages(vw__ranks_work *work, const vw_moment *peak, vw__site_bytes *sites,
                            vw__byte_buffer *key, size_t *count)
{
    for (size_t i = 0; i < peak->usage_count; i++) {
        uint32_t site;
        size_t place = 0;
        VW__TRY(find_site(work, &peak->usages[i], key, &site));
        while (place < *count && sites[place].site != site)
            place++;
        if (place == *count)
            sites[(*count)++] = (vw__site_bytes){site, 0};
        sites[place].bytes += peak->usages[i].bytes;
    }
    return VW_OK;
}

static vw_status note_sites(vw__ranks_work *work, const vw_moment *peak, vw__account *account)
{
    vw__byte_buffer key;
    vw__site_bytes *sites = vw__arena_alloc_array(work->arena, peak->usage_count, sizeof *sites,
                                                  _Alignof(vw__site_bytes));
    if (sites == NULL)
        return vw__fail_host_memory(peak->usage_count * sizeof *sites, "the lines of a rank");
    vw__byte_buffer_init(&key);
    vw_status status = add_usages(work, peak, sites, &key, &account->site_count);
    vw__byte_buffer_deinit(&key);
    account->sites = sites;
    return status;
}

/* ---- settings -------------------------------------------------------------------------------- */

static vw_status add_setting(vw__ranks_work *work, vw_setting *settings, size_t *count,
                             const char *key, const char *value)
{
    if (value == NULL)
        return VW_OK;
    VW__TRY(vw__ranks_keep(work, key, &settings[*count].key));
    VW__TRY(vw__ranks_keep(work, value, &settings[*count].value));
    ++*count;
    return VW_OK;
}

#define CONF_KEY "PYTORCH_CUDA_ALLOC_CONF"

/* Most files have the option string among the settings, as well as by itself. */
static bool has_conf_among(const vw_recording_stats *stats)
{
    for (size_t i = 0; i < stats->setting_count; i++)
        if (strcmp(stats->settings[i].key, CONF_KEY) == 0)
            return true;
    return false;
}

static vw_status note_settings(vw__ranks_work *work, const vw_recording_stats *stats,
                               vw__account *account)
{
    size_t most = stats->setting_count + 1;
    vw_setting *settings =
        vw__arena_alloc_array(work->arena, most, sizeof *settings, _Alignof(vw_setting));
    if (settings == NULL)
        return vw__fail_host_memory(most * sizeof *settings, "the settings of a rank");
    account->settings = settings;
    VW__TRY(vw__ranks_keep(work, stats->conf, &account->shown.conf));
    if (!has_conf_among(stats))
        VW__TRY(add_setting(work, settings, &account->setting_count, CONF_KEY, stats->conf));
    for (size_t i = 0; i < stats->setting_count; i++)
        VW__TRY(add_setting(work, settings, &account->setting_count, stats->settings[i].key,
                            stats->settings[i].value));
    return VW_OK;
}

/* ---- the account ----------------------------------------------------------------------------- */

static vw_status fill_account(vw__ranks_work *work, const vw_recording *recording,
                              const vw_recording_stats *stats, vw__account *account)
{
    const vw_device_stats *device = device_of(stats);
    vw_diagnosis *diagnosis = NULL;
    VW__TRY(note_settings(work, stats, account));
    if (device != NULL) {
        note_peaks(device, account);
        note_failure(recording, device, account);
        VW__TRY(note_sites(work, &device->peak, account));
    }
    VW__TRY(vw_doctor_recording(recording, &work->doctor, &diagnosis));
    return vw__account_take_diagnosis(work, account, diagnosis);
}

vw_status vw__account_recording(vw__ranks_work *work, const vw_recording *recording,
                                const char *path, vw__account *account)
{
    const vw_stats_options options = {.struct_size = sizeof options,
                                      .torch_version = work->options->torch_version,
                                      .most_usages = MOST_USAGES,
                                      .without_summary = true};
    vw_recording_stats *stats;
    account->is_recording = true;
    account->shown.recording = path;
    account->shown.file_count = 1;
    account->shown.ran_out = vw__is_failure_name(path);
    VW__TRY(vw_recording_stats_make(recording, &options, &stats));
    vw_status status = fill_account(work, recording, stats, account);
    vw_recording_stats_free(stats);
    return status;
}
