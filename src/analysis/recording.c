/* recording.c - opening a recording, and what its fields say about the PyTorch that wrote it.
 *
 * No snapshot states its version, and the rules of the allocator differ by version. The fields show
 * it: each was added in some release and is written by every later one, so a field that is there
 * bounds the version from below and one that is missing bounds it from above. A field can only be
 * missing where it could have been: events have times since 2.2, but a file without events has no
 * times in any version. So every bound names what must be there for an absence to count.
 *
 * Fields that contradict each other (a file cut by hand, or written by another program) give no
 * range at all; the rules are then those of the engine's default version.
 *
 * What we did not do: guess further inside a range, by the settings' text or the stacks' file
 * names. Within a range the newest version is taken, since recent recordings are opened most often;
 * and 2.11 before newer ones, since its rules are the ones proven on recordings.
 * */
#include "analysis/recording.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "analysis/reading_limit.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/struct_size.h"
#include "engine/torch/torch_versions.h"

/* ---- versions -------------------------------------------------------------------------------- */

typedef struct known_version {
    int number; /* as in torch_versions.h */
    const char *text;
} known_version;

static const known_version known_versions[] = {
    {106, "1.6"},  {107, "1.7"},  {108, "1.8"},  {109, "1.9"},  {110, "1.10"}, {111, "1.11"},
    {112, "1.12"}, {113, "1.13"}, {200, "2.0"},  {201, "2.1"},  {202, "2.2"},  {203, "2.3"},
    {204, "2.4"},  {205, "2.5"},  {206, "2.6"},  {207, "2.7"},  {208, "2.8"},  {209, "2.9"},
    {210, "2.10"}, {211, "2.11"}, {212, "2.12"}, {213, "2.13"}, {214, "2.14"}, {215, "2.15"},
};

enum { KNOWN_VERSION_COUNT = sizeof known_versions / sizeof known_versions[0] };

_Static_assert(VW__TORCH_OLDEST_VERSION == 106 && VW__TORCH_LAST_1_VERSION == 113 &&
                   VW__TORCH_NEWEST_VERSION == 215,
               "known_versions must have a line for every version of the engine");

/* `number` must be one of the engine's. */
static const char *version_text(int number)
{
    for (size_t i = 0; i < KNOWN_VERSION_COUNT; i++)
        if (known_versions[i].number == number)
            return known_versions[i].text;
    VW_ASSERT(number == VW__TORCH_NEWEST_VERSION); /* every version of the engine has a line */
    return NULL;
}

typedef struct version_range {
    int oldest, newest;
} version_range;

/* Version `first` brought a field. If it is there, the file is no older; if it is missing where it
 * could be, the file is from `before` or earlier. */
static void narrow(version_range *range, bool could_be_there, bool is_there, int first, int before)
{
    if (is_there && range->oldest < first)
        range->oldest = first;
    if (!is_there && could_be_there && range->newest > before)
        range->newest = before;
}

static bool any_event(const vw__model *model)
{
    for (size_t i = 0; i < model->trace_count; i++)
        if (model->traces[i].event_count != 0)
            return true;
    return false;
}

static bool any_requested_size(const vw__model *model)
{
    for (size_t i = 0; i < model->segment_count; i++)
        if (model->segments[i].requested_bytes != VW__MODEL_UNKNOWN_BYTES)
            return true;
    return false;
}

static version_range range_of(const vw__model *model)
{
    const vw__model_features *features = &model->features;
    version_range range = {VW__TORCH_OLDEST_VERSION, VW__TORCH_NEWEST_VERSION};
    bool is_dict = !features->is_bare_list; /* a bare list is what memory_snapshot() returns, of
                                               any version: it says nothing by itself */
    bool has_segments = model->segment_count != 0;
    bool has_blocks = model->block_count != 0;
    bool has_events = any_event(model);

    narrow(&range, false, is_dict, 200, 113);
    narrow(&range, has_segments, any_requested_size(model), 200, 113);
    narrow(&range, has_blocks, features->has_block_addresses, 201, 200);
    narrow(&range, has_events, features->has_times, 202, 201);
    narrow(&range, is_dict, features->has_settings, 203, 202);
    narrow(&range, is_dict, features->has_annotations, 205, 204);
    narrow(&range, has_events, features->has_compile_context, 208, 207);
    narrow(&range, features->has_settings, features->has_stream_reuse, 209, 208);
    narrow(&range, has_events, features->has_user_metadata, 210, 209);
    narrow(&range, has_events, features->has_pool_ids, 212, 211);
    narrow(&range, features->has_settings, features->has_max_cached_size, 213, 212);
    narrow(&range, is_dict, features->has_host_traces, 214, 213);
    if (features->has_block_history) { /* 1.13 brought it, 2.1 took it away */
        narrow(&range, false, true, 113, 112);
        narrow(&range, true, false, 201, 200);
    }
    return range;
}

void vw__recording_version_range(const vw__model *model, const char **oldest, const char **newest)
{
    version_range range = range_of(model);
    bool is_possible = range.oldest <= range.newest;
    *oldest = is_possible ? version_text(range.oldest) : NULL;
    *newest = is_possible ? version_text(range.newest) : NULL;
}

static int default_version(const vw__model *model)
{
    version_range range = range_of(model);
    if (range.oldest > range.newest)
        return VW__TORCH_DEFAULT_VERSION;
    bool fits = range.oldest <= VW__TORCH_DEFAULT_VERSION;
    return fits && range.newest > VW__TORCH_DEFAULT_VERSION ? VW__TORCH_DEFAULT_VERSION
                                                            : range.newest;
}

vw_status vw__recording_version(const vw__model *model, const char *wanted, const char **out)
{
    if (wanted == NULL) {
        *out = version_text(default_version(model));
        return VW_OK;
    }
    int number = 0;
    vw__torch_rules rules;
    VW__TRY(vw__torch_parse_version(wanted, &number));
    if (number < VW__TORCH_OLDEST_VERSION || number > VW__TORCH_NEWEST_VERSION)
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "the rules of PyTorch %.40s are not known: those of %s to %s are", wanted,
                        version_text(VW__TORCH_OLDEST_VERSION),
                        version_text(VW__TORCH_NEWEST_VERSION));
    VW__TRY(vw__torch_rules_for(number, &rules)); /* there is no 1.14 */
    *out = version_text(rules.version);
    return VW_OK;
}

/* ---- settings -------------------------------------------------------------------------------- */

static bool has_mappings(const vw__model *model)
{
    for (size_t i = 0; i < model->trace_count; i++)
        for (size_t k = 0; k < model->traces[i].event_count; k++)
            if (model->traces[i].events[k].action == VW_ACTION_SEGMENT_MAP)
                return true;
    return false;
}

/* Leaves out values that no option can set: PyTorch did not write those. */
static void append_values(const vw__model_settings *settings, vw__byte_buffer *out)
{
    const char *comma = "";
    if (settings->is_expandable) {
        vw__append_text(out, "expandable_segments:True");
        comma = ",";
    }
    if (settings->max_split_size > 0 && settings->max_split_size >> 20 < INT32_MAX) {
        vw__append_format(out, "%smax_split_size_mb:%" PRId64, comma,
                          settings->max_split_size >> 20);
        comma = ",";
    }
    if (settings->garbage_collection_threshold > 0.0 &&
        settings->garbage_collection_threshold < 1.0)
        vw__append_format(out, "%sgarbage_collection_threshold:%.17g", comma,
                          settings->garbage_collection_threshold);
}

const char *vw__recording_conf_text(const vw__model *model)
{
    const vw__model_settings *settings = &model->settings;
    bool is_recorded = settings->is_known && settings->conf != VW__MODEL_NO_STRING;
    return is_recorded ? vw__model_string(model, settings->conf) : NULL;
}

vw_status vw__recording_conf(const vw__model *model, vw__byte_buffer *out)
{
    const vw__model_settings *settings = &model->settings;
    if (vw__recording_conf_text(model) != NULL)
        vw__append_text(out, vw__recording_conf_text(model));
    else if (settings->is_known)
        append_values(settings, out);
    else if (has_mappings(model))
        vw__append_text(out, "expandable_segments:True");
    return vw__byte_buffer_has_failed(out) ? vw__fail_host_memory(256, "an option string") : VW_OK;
}

vw_status vw__recording_read_conf(const char *torch_version, const char *conf,
                                  vw__torch_settings *out)
{
    int number = 0;
    vw__torch_rules rules;
    vw__torch_settings settings;
    VW__TRY(vw__torch_parse_version(torch_version, &number));
    VW__TRY(vw__torch_rules_for(number, &rules));
    vw__torch_settings_init(&settings);
    vw_status status =
        vw__torch_settings_apply(&settings, &rules, conf, VW__TORCH_SETTINGS_LIKE_TORCH);
    if (status == VW_OK)
        *out = settings;
    else
        vw__torch_settings_deinit(&settings);
    return status;
}

vw_status vw__recording_settings(const vw__model *model, const char *wanted_version,
                                 vw__torch_settings *out)
{
    const char *version = NULL;
    vw__byte_buffer conf;
    VW__TRY(vw__recording_version(model, wanted_version, &version));
    vw__byte_buffer_init(&conf);
    vw_status status = vw__recording_conf(model, &conf);
    if (status == VW_OK)
        status = vw__recording_read_conf(version, vw__byte_buffer_text(&conf), out);
    vw__byte_buffer_deinit(&conf);
    if (status == VW_OK || status == VW_ERR_HOST_MEMORY)
        return status;
    return vw__recording_read_conf(version, "", out);
}

/* ---- whose it is ----------------------------------------------------------------------------- */

static bool is_python(const char *file)
{
    size_t length = strlen(file);
    return length >= 3 && strcmp(file + length - 3, ".py") == 0;
}

const char *vw__recording_launch_gate(const vw__model *model)
{
    const vw__model_settings *settings = &model->settings;
    for (size_t i = 0; i < settings->entry_count; i++)
        if (strcmp(vw__model_string(model, settings->entries[i].key), VW__MODEL_LAUNCH_GATE_KEY) ==
            0)
            return vw__model_string(model, settings->entries[i].value);
    return NULL;
}

bool vw__recording_is_of_a_pool(const vw__model *model)
{
    if (model->settings.engine == VW__MODEL_NO_STRING || vw__recording_launch_gate(model) != NULL)
        return false;
    for (size_t i = 0; i < model->frame_count; i++)
        if (is_python(vw__model_string(model, model->frames[i].filename)))
            return false;
    return true;
}

/* ---- the trace to work on -------------------------------------------------------------------- */

static const vw__model_trace *busiest_trace(const vw__model *model)
{
    const vw__model_trace *busiest = NULL;
    for (size_t i = 0; i < model->trace_count; i++) {
        const vw__model_trace *trace = &model->traces[i];
        if (trace->device == VW__MODEL_HOST_DEVICE || trace->event_count == 0)
            continue;
        if (busiest == NULL || trace->event_count > busiest->event_count)
            busiest = trace;
    }
    return busiest;
}

/* Returns whether the recording has that device, with or without events. */
static bool has_device(const vw__model *model, int device)
{
    for (size_t i = 0; i < model->segment_count; i++)
        if (model->segments[i].device == device)
            return true;
    return vw__model_trace_of(model, device) != NULL;
}

vw_status vw__recording_trace(const vw__model *model, int device, const vw__model_trace **out)
{
    const vw__model_trace *busiest = busiest_trace(model);
    if (busiest == NULL)
        return vw__fail(
            VW_ERR_CORRUPT_FILE,
            "expected a trace of events, found %s: call "
            "torch.cuda.memory._record_memory_history() at the start of the program, and "
            "torch.cuda.memory._dump_snapshot() later",
            model->features.is_bare_list ? "the bare list of segments" : "a recording without any");
    if (device == VW_BUSIEST_DEVICE) {
        *out = busiest;
        return VW_OK;
    }
    if (device < 0 || !has_device(model, device))
        return vw__fail(VW_ERR_INVALID_ARGUMENT,
                        "the recording has no device %d; the one with the most events is %d",
                        device, busiest->device);
    const vw__model_trace *trace = vw__model_trace_of(model, device);
    if (trace == NULL || trace->event_count == 0)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "expected a trace of device %d, found no event of it; device %d has "
                        "%zu events",
                        device, busiest->device, busiest->event_count);
    *out = trace;
    return VW_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool tell_progress(void *context, uint64_t read_bytes, uint64_t file_bytes)
{
    const vw__recording_progress *bridge = context;
    double done = file_bytes != 0 ? (double)read_bytes / (double)file_bytes : -1.0;
    return bridge->progress(bridge->context, done > 1.0 ? 1.0 : done);
}

vw__byte_source_options vw__recording_progress_options(vw__recording_progress *bridge)
{
    return (vw__byte_source_options){
        .progress = bridge->progress != NULL ? tell_progress : NULL,
        .progress_context = bridge,
    };
}

/* Reads the whole source. Damage at the end of a compressed file shows only when its last byte is
 * read, so one more byte is read behind the snapshot. */
static vw_status read_source(vw__byte_source *source, uint64_t memory_limit_bytes,
                             vw_recording *recording)
{
    const uint8_t *rest;
    size_t rest_bytes;
    size_t limit_bytes = memory_limit_bytes < SIZE_MAX ? (size_t)memory_limit_bytes : SIZE_MAX;

    VW__TRY(vw__snapshot_read(source, limit_bytes, &recording->model, &recording->encoding));
    recording->uncompressed_bytes = vw__byte_source_offset(source);
    VW__TRY(vw__byte_source_peek(source, 1, &rest, &rest_bytes));
    recording->compression = vw__byte_source_compression(source);
    recording->file_bytes = vw__byte_source_file_bytes(source);
    return VW_OK;
}

vw_status vw__recording_open_source(vw__byte_source *source, uint64_t memory_limit_bytes,
                                    vw_recording **out)
{
    memory_limit_bytes = vw__reading_limit_bytes(memory_limit_bytes);
    vw_recording *recording = vw__host_alloc_zeroed(1, sizeof *recording);
    if (recording == NULL)
        return vw__fail_host_memory(sizeof *recording, "a recording");
    vw_status status = read_source(source, memory_limit_bytes, recording);
    if (status != VW_OK) {
        vw_recording_close(recording);
        return status;
    }
    *out = recording;
    return VW_OK;
}

/* One of `path` and `bytes` is NULL. */
static vw_status open_recording(const char *path, const void *bytes, size_t size_bytes,
                                const vw_open_options *options, vw_recording **out)
{
    vw_open_options used = {.struct_size = sizeof used};
    vw_status status;

    VW__TRY(VW__STRUCT_IN(vw_open_options, options, &used));

    vw__recording_progress bridge = {used.progress, used.progress_context};
    vw__byte_source_options source_options = vw__recording_progress_options(&bridge);
    vw__byte_source *source = NULL;
    status = path != NULL
                 ? vw__byte_source_open(path, &source_options, &source)
                 : vw__byte_source_open_memory(bytes, size_bytes, &source_options, &source);
    if (status == VW_OK)
        status = vw__recording_open_source(source, used.memory_limit_bytes, out);
    vw__byte_source_close(source);
    return status;
}

vw_status vw_recording_open(const char *path, const vw_open_options *options, vw_recording **out)
{
    if (path == NULL || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a path and a place for the recording");
    return open_recording(path, NULL, 0, options, out);
}

vw_status vw_recording_open_memory(const void *bytes, size_t size_bytes,
                                   const vw_open_options *options, vw_recording **out)
{
    if ((bytes == NULL && size_bytes != 0) || out == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected bytes and a place for the recording");
    return open_recording(NULL, bytes != NULL ? bytes : "", size_bytes, options, out);
}

void vw_recording_close(vw_recording *recording)
{
    if (recording == NULL)
        return;
    vw__model_destroy(recording->model);
    vw__host_free(recording);
}
