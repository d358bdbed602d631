/* playback.c - fills a model from what a pool reports. */
#include "plan/playback.h"

#include <string.h>

#include "analysis/recording.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/whole_file.h"
#include "export/torch_snapshot_write.h"
#include "model/model_torch.h"

enum { VERSION = 211, EVENT_US = 100 };
#define VERSION_TEXT "2.11"
#define DEVICE_BYTES (UINT64_C(1) << 45)

/* ---- events ---------------------------------------------------------------------------------- */

/* A tag is a context plus one. */
static uint32_t context_of(uint64_t tag)
{
    return tag == 0 ? VW__MODEL_NO_CONTEXT : (uint32_t)(tag - 1);
}

static int64_t next_time_us(const vw__playback *playback)
{
    return EVENT_US * (int64_t)vw__model_builder_event_count(playback->builder);
}

static vw_status add_event(vw__playback *playback, const vw_memory_event *event)
{
    size_t index;
    vw__model_event made = {
        .address = event->address,
        .size_bytes = event->size_bytes,
        .time_us = next_time_us(playback),
        .context = context_of(event->tag),
        .note = VW__MODEL_NO_NOTE,
        .pool = VW__MODEL_UNKNOWN_POOL,
        .action = (uint8_t)event->action,
    };
    VW__TRY(vw__model_add_stream(playback->builder, event->stream, &made.stream));
    return vw__model_add_event(playback->builder, &made, &index);
}

static void notice(void *context, const vw_memory_event *event)
{
    vw__playback *playback = context;
    if (playback->status == VW_OK)
        playback->status = add_event(playback, event);
}

/* ---- requests -------------------------------------------------------------------------------- */

vw_status vw__playback_add_frame(vw__playback *playback, const char *file, uint32_t line,
                                 const char *function, uint32_t *id)
{
    vw__model_frame frame = {.line = line};
    VW__TRY(vw__model_add_string(playback->builder, function, strlen(function), &frame.name));
    VW__TRY(vw__model_add_string(playback->builder, file, strlen(file), &frame.filename));
    return vw__model_add_frame(playback->builder, &frame, id);
}

vw_status vw__playback_alloc(vw__playback *playback, uint64_t size_bytes, uint32_t stack,
                             vw_device_ptr *address)
{
    uint32_t context;
    VW__TRY(vw__model_begin_context(playback->builder, stack, &context));
    const vw_alloc_request order = {
        .struct_size = sizeof order, .size_bytes = size_bytes, .tag = (uint64_t)context + 1};
    vw_status status = vw_alloc_with(playback->pool, &order, address);
    if (status == VW_ERR_OUT_OF_MEMORY || status == VW_ERR_TOO_LARGE)
        return vw__fail(VW_ERR_UNSUPPORTED, "the plan needs more than a device could have");
    return status == VW_OK ? playback->status : status;
}

vw_status vw__playback_free(vw__playback *playback, vw_device_ptr address)
{
    VW__TRY(vw_free(playback->pool, address));
    return playback->status;
}

static vw_status annotate(vw__playback *playback, const char *name, int64_t time_us, bool is_start)
{
    vw__model_annotation annotation = {.time_us = time_us, .is_start = is_start};
    VW__TRY(vw__model_add_string(playback->builder, name, strlen(name), &annotation.name));
    return vw__model_add_annotation(playback->builder, &annotation);
}

vw_status vw__playback_begin(vw__playback *playback, const char *name)
{
    return annotate(playback, name, next_time_us(playback), true);
}

vw_status vw__playback_end(vw__playback *playback, const char *name)
{
    return annotate(playback, name, next_time_us(playback) - EVENT_US, false);
}

/* ---- the end --------------------------------------------------------------------------------- */

static bool add_block(void *context, const vw_segment_info *segment, const vw_block_info *block)
{
    vw__playback *playback = context;
    size_t index;
    const vw__model_block made = {
        .address = block->address,
        .size_bytes = block->size_bytes,
        .requested_bytes = block->requested_bytes,
        .context = context_of(block->tag),
        .state = (uint8_t)block->state,
    };
    (void)segment;
    playback->status = vw__model_add_block(playback->builder, &made, &index);
    return playback->status == VW_OK;
}

static vw_status add_segment(vw__playback *playback, const vw_segment_info *segment)
{
    vw__model_segment made = {
        .address = segment->address,
        .total_bytes = segment->total_bytes,
        .allocated_bytes = segment->allocated_bytes,
        .active_bytes = segment->active_bytes,
        .requested_bytes = segment->requested_bytes,
        .first_block = playback->block_count,
        .block_count = segment->block_count,
        .context = context_of(segment->tag),
        .is_large = segment->is_large,
        .is_expandable = segment->is_expandable,
    };
    playback->block_count += segment->block_count;
    VW__TRY(vw__model_add_stream(playback->builder, segment->stream, &made.stream));
    VW__TRY(vw__model_add_pool(playback->builder, segment->private_id, &made.pool));
    return vw__model_add_segment(playback->builder, &made);
}

static bool walk_segment(void *context, const vw_segment_info *segment)
{
    vw__playback *playback = context;
    playback->status = add_segment(playback, segment);
    return playback->status == VW_OK;
}

static void add_setting(void *context, const char *key, const char *value)
{
    vw__playback *playback = context;
    if (playback->status == VW_OK)
        playback->status = vw__model_add_conf(playback->builder, key, value);
}

static vw_status add_end(vw__playback *playback)
{
    const vw_walker walker = {playback, walk_segment, add_block};
    VW__TRY(vw_pool_walk(playback->pool, &walker, false));
    VW__TRY(playback->status);
    VW__TRY(vw_pool_walk_conf(playback->pool, add_setting, playback));
    VW__TRY(playback->status);
    return vw__model_add_trace(playback->builder, 0, 0,
                               vw__model_builder_event_count(playback->builder));
}

vw_status vw__playback_finish(vw__playback *playback, const char *made_up, vw__model **out)
{
    VW__TRY(vw__playback_end(playback, made_up));
    VW__TRY(add_end(playback));
    VW__TRY(vw__model_finish(playback->builder, out));
    playback->builder = NULL;
    return VW_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

vw_status vw__playback_start(vw__playback *playback, size_t memory_limit_bytes, const char *made_up)
{
    const vw_simulated_options device = {.struct_size = sizeof device,
                                         .capacity_bytes = DEVICE_BYTES};
    const vw_pool_options pool = {
        .struct_size = sizeof pool, .conf = "", .torch_version = VERSION_TEXT, .is_unlisted = true};
    const vw_event_sink sink = {playback, notice};
    *playback = (vw__playback){.status = VW_OK};
    VW__TRY(vw__model_builder_create(memory_limit_bytes, &playback->builder));
    vw__model_features *features = vw__model_builder_features(playback->builder);
    *features = vw__model_features_of(VERSION);
    features->has_contexts = true;
    VW__TRY(vw_simulated_device_create(&device, &playback->device));
    VW__TRY(vw_pool_create(playback->device, &pool, &playback->pool));
    VW__TRY(vw_pool_set_sink(playback->pool, &sink));
    return vw__playback_begin(playback, made_up);
}

void vw__playback_deinit(vw__playback *playback)
{
    vw__model_builder_destroy(playback->builder);
    vw_pool_destroy(playback->pool);
    vw_device_destroy(playback->device);
    memset(playback, 0, sizeof *playback);
}

vw_status vw__playback_open(vw__model *model, vw_recording **out)
{
    vw_recording *opened = vw__host_alloc_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        vw__model_destroy(model);
        return vw__fail_host_memory(sizeof *opened, "a recording");
    }
    opened->model = model;
    *out = opened;
    return VW_OK;
}

static vw_status write_model(void *context, int file_descriptor)
{
    vw__file_output file = {file_descriptor, 0};
    vw_status status =
        vw__export_snapshot(context, &(vw__export_pickle_sink){&file, vw__file_output_write});
    if (file.error != 0)
        return vw__fail(VW_ERR_FILE, "cannot write the planned step: %s", strerror(file.error));
    return status;
}

vw_status vw__playback_write(const vw__model *model, const char *path)
{
    return vw__whole_file_write(path, write_model, (void *)model);
}
