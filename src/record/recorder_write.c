/* recorder_write.c - a recording as a memory model, and the model written to a function, an open
 * file or a new file, which appears under its name only when it is complete.
 *
 * Captures become contexts, addresses and ids become frames with names. The model gets the features
 * of the PyTorch version whose rules the pool follows: readers tell the version by the keys of a
 * snapshot, and replay with another version's rules would differ.
 *
 * Only what the picture refers to is named: a recorder that has seen ten thousand stacks and keeps
 * the last hundred events names the frames of those. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/host_memory.h"
#include "base/whole_file.h"
#include "export/torch_snapshot_write.h"
#include "model/model_build.h"
#include "model/model_torch.h"
#include "pool/pool.h" /* whose version, which device */
#include "record/picture.h"

typedef struct maker {
    vw_recorder *recorder;
    vw__model_builder *builder;
    vw__address_map contexts; /* capture -> context + 1 */
    uint32_t *stacks;         /* by the recorder's id: the model's; UINT32_MAX = not yet */
    uint32_t stack_count;     /* of the recorder, the empty one included */
    bool has_pool_ids;
    vw_status setting_status; /* of the first setting that failed */
} maker;

/* ---- stacks ---------------------------------------------------------------------------------- */

static vw_status add_frame(maker *m, const char *name, const char *file, uint32_t line,
                           uint32_t *id)
{
    vw__model_frame frame = {.line = line};
    VW__TRY(vw__model_add_string(m->builder, name, strlen(name), &frame.name));
    VW__TRY(vw__model_add_string(m->builder, file, strlen(file), &frame.filename));
    return vw__model_add_frame(m->builder, &frame, id);
}

/* Strings never move: only the lookup needs the lock. */
static const char *string_of(vw_recorder *recorder, uint32_t id)
{
    vw__mutex_lock(&recorder->stack_lock);
    const char *bytes = vw__string_table_get(&recorder->stack_table.strings, id).bytes;
    vw__mutex_unlock(&recorder->stack_lock);
    return bytes;
}

/* Adds the frame at word `*at` of a stack: one word if it is an address, two if the caller gave it.
 */
static vw_status add_next_frame(maker *m, const uint64_t *words, size_t *at, uint32_t *id)
{
    uint64_t first = words[(*at)++];
    if (m->recorder->stacks == VW_STACKS_CALLER)
        return add_frame(m, string_of(m->recorder, (uint32_t)(first >> 32)),
                         string_of(m->recorder, (uint32_t)first), (uint32_t)words[(*at)++], id);
    char name[VW__CALL_STACK_NAME_BYTES];
    const char *file;
    vw__call_stack_name(first, name, &file);
    return add_frame(m, name, file, 0, id);
}

static vw_status add_stack(maker *m, uint32_t id, uint32_t *out)
{
    vw__mutex_lock(&m->recorder->stack_lock);
    vw__stack_table_entry entry = vw__stack_table_get(&m->recorder->stack_table, id);
    vw__mutex_unlock(&m->recorder->stack_lock);
    uint32_t frame_ids[VW_RECORDER_MOST_FRAMES];
    size_t frame_count = 0;
    for (size_t at = 0; at < entry.word_count;) /* the empty stack has no words at all */
        VW__TRY(add_next_frame(m, entry.words, &at, &frame_ids[frame_count++]));
    return vw__model_add_stack(m->builder, frame_ids, frame_count, out);
}

static vw_status context_of(maker *m, uint64_t capture, uint32_t *context)
{
    *context = VW__MODEL_NO_CONTEXT;
    if (capture == VW__CAPTURE_NONE)
        return VW_OK;
    uintptr_t known = (uintptr_t)vw__address_map_get(&m->contexts, capture);
    if (known != 0) {
        *context = (uint32_t)(known - 1);
        return VW_OK;
    }
    uint32_t stack = vw__capture_stack(capture);
    if (stack >= m->stack_count)
        return VW_OK; /* a number that looks like a tag of ours, and is none */
    if (m->stacks[stack] == UINT32_MAX)
        VW__TRY(add_stack(m, stack, &m->stacks[stack]));
    if (!vw__address_map_reserve(&m->contexts, 1))
        return vw__fail_host_memory(sizeof capture, "the contexts of a recording");
    VW__TRY(vw__model_begin_context(m->builder, m->stacks[stack], context));
    vw__address_map_insert(&m->contexts, capture, (void *)((uintptr_t)*context + 1));
    return VW_OK;
}

/* ---- events, segments, blocks ---------------------------------------------------------------- */

static vw_status add_event(maker *m, const vw__record_event *event)
{
    vw__model_event made = {
        .address = event->address,
        .size_bytes = event->size_bytes,
        .time_us = vw__model_builder_features(m->builder)->has_times ? (int64_t)event->time_us
                                                                     : VW__MODEL_UNKNOWN_TIME,
        .note = VW__MODEL_NO_NOTE,
        .pool = VW__MODEL_UNKNOWN_POOL,
        .action = (uint8_t)event->action,
    };
    size_t index;
    VW__TRY(context_of(m, event->capture, &made.context));
    VW__TRY(vw__model_add_stream(m->builder, event->stream, &made.stream));
    if (m->has_pool_ids)
        VW__TRY(vw__model_add_pool(m->builder, event->private_id, &made.pool));
    return vw__model_add_event(m->builder, &made, &index);
}

static vw_status add_block(maker *m, const vw__picture_block *block, size_t *index)
{
    vw__model_block made = {
        .address = block->info.address,
        .size_bytes = block->info.size_bytes,
        .requested_bytes = block->info.requested_bytes,
        .state = (uint8_t)block->info.state,
    };
    VW__TRY(context_of(m, block->capture, &made.context));
    return vw__model_add_block(m->builder, &made, index);
}

static vw_status add_segment(maker *m, const vw__picture_segment *segment, int device,
                             size_t first_block)
{
    const vw_segment_info *info = &segment->info;
    vw__model_segment made = {
        .address = info->address,
        .total_bytes = info->total_bytes,
        .allocated_bytes = info->allocated_bytes,
        .active_bytes = info->active_bytes,
        .requested_bytes = info->requested_bytes,
        .first_block = first_block,
        .block_count = info->block_count,
        .device = device,
        .is_large = info->is_large,
        .is_expandable = info->is_expandable,
    };
    VW__TRY(context_of(m, segment->capture, &made.context));
    VW__TRY(vw__model_add_stream(m->builder, info->stream, &made.stream));
    VW__TRY(vw__model_add_pool(m->builder, info->private_id, &made.pool));
    return vw__model_add_segment(m->builder, &made);
}

static vw_status add_all(maker *m, const vw__picture *picture, int device)
{
    for (size_t i = 0; i < picture->event_count; i++)
        VW__TRY(add_event(m, &picture->events[i]));
    VW__TRY(vw__model_add_trace(m->builder, device, 0, picture->event_count));
    size_t index = 0;
    for (size_t i = 0; i < picture->block_count; i++)
        VW__TRY(add_block(m, &picture->blocks[i], &index));
    size_t first_block = 0;
    for (size_t i = 0; i < picture->segment_count; i++) {
        VW__TRY(add_segment(m, &picture->segments[i], device, first_block));
        first_block += picture->segments[i].info.block_count;
    }
    return VW_OK;
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* Adds a span of length 0, with the numbers at its start: PyTorch's annotations come in pairs. */
static vw_status add_move(maker *m, const vw__record_move *move, int device)
{
    const vw_spill_report *report = &move->report;
    const char *name = report->is_return ? VW_RETURN_ANNOTATION : VW_SPILL_ANNOTATION;
    vw__model_annotation annotation = {
        .time_us = (int64_t)move->time_us,
        .device = device,
        .is_start = true,
        .move = {report->moved_bytes, report->moved_handles, report->spilled_bytes,
                 report->wait_ns / 1000},
    };
    VW__TRY(vw__model_add_string(m->builder, name, strlen(name), &annotation.name));
    VW__TRY(vw__model_add_annotation(m->builder, &annotation));
    annotation.is_start = false;
    annotation.move = (vw__model_move){.moved_handles = 0};
    return vw__model_add_annotation(m->builder, &annotation);
}

/* ---- settings and features ------------------------------------------------------------------- */

static void add_setting(void *context, const char *key, const char *value)
{
    maker *m = context;
    if (m->setting_status == VW_OK)
        m->setting_status = vw__model_add_conf(m->builder, key, value);
}

/* Leaves out sizes that mean "no limit". */
static void add_size(maker *m, const char *key, uint64_t size_bytes)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, size_bytes);
    if (size_bytes <= INT64_MAX)
        add_setting(m, key, text);
}

/* What a reader cannot conclude from the recording: the card, and the limit of the pool. */
static vw_status add_pool(maker *m, const vw_pool *pool)
{
    vw_pool_stats stats = {.struct_size = sizeof stats};
    VW__TRY(vw_pool_get_stats(pool, &stats));
    add_setting(m, VW__MODEL_ENGINE_KEY, pool->engine_name);
    add_size(m, VW__MODEL_DEVICE_BYTES_KEY, pool->device->properties.total_bytes);
    add_size(m, VW__MODEL_LIMIT_BYTES_KEY, stats.limit_bytes);
    return m->setting_status;
}

static vw_status fill(maker *m, const vw__picture *picture, const vw_pool *pool)
{
    vw__model_features *features = vw__model_builder_features(m->builder);
    *features = vw__model_features_of(pool->wording.version);
    m->has_pool_ids = features->has_pool_ids;
    if (features->has_settings) {
        VW__TRY(vw_pool_walk_conf(pool, add_setting, m));
        VW__TRY(add_pool(m, pool));
    }
    const int device = pool->device->properties.index;
    VW__TRY(add_all(m, picture, device));
    for (size_t i = 0; i < picture->move_count && features->has_annotations; i++)
        VW__TRY(add_move(m, &picture->moves[i], device));
    for (size_t i = 0; i < picture->event_count && !features->has_contexts; i++)
        features->has_contexts = picture->events[i].capture != VW__CAPTURE_NONE;
    return VW_OK;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* VW_ERR_HOST_MEMORY; VW_ERR_UNSUPPORTED: more streams or private pools than a model can name. */
static vw_status make_model(const vw__picture *picture, const vw_pool *pool, vw__model **out)
{
    maker m = {.recorder = picture->recorder};
    vw__address_map_init(&m.contexts);
    vw__mutex_lock(&m.recorder->stack_lock);
    m.stack_count = m.recorder->stack_table.count + 1;
    vw__mutex_unlock(&m.recorder->stack_lock);
    m.stacks = vw__host_alloc(m.stack_count * sizeof *m.stacks);
    if (m.stacks == NULL)
        return vw__fail_host_memory(m.stack_count * sizeof *m.stacks, "the stacks of a recording");
    for (uint32_t i = 0; i < m.stack_count; i++)
        m.stacks[i] = UINT32_MAX;

    vw_status status = vw__model_builder_create(SIZE_MAX, &m.builder);
    if (status == VW_OK)
        status = fill(&m, picture, pool);
    if (status == VW_OK)
        status = vw__model_finish(m.builder, out);
    if (status != VW_OK)
        vw__model_builder_destroy(m.builder);
    vw__host_free(m.stacks);
    vw__address_map_deinit(&m.contexts);
    return status;
}

/* ---- writing --------------------------------------------------------------------------------- */

vw_status vw_recorder_write_to(vw_recorder *recorder, vw_pool *pool, vw_recorder_output output,
                               void *context)
{
    VW__TRY(vw__recorder_enter(recorder));
    if (output == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "expected a function to write with");
    vw__picture picture;
    vw__model *model = NULL;
    VW__TRY(vw__picture_take(recorder, pool, &picture));
    vw_status status = make_model(&picture, pool, &model);
    vw__picture_deinit(&picture);
    if (status == VW_OK)
        status = vw__export_snapshot(model, &(vw__export_pickle_sink){context, output});
    vw__model_destroy(model);
    return status;
}

vw_status vw_recorder_write_fd(vw_recorder *recorder, vw_pool *pool, int file_descriptor)
{
    vw__file_output file = {file_descriptor, 0};
    vw_status status = vw_recorder_write_to(recorder, pool, vw__file_output_write, &file);
    if (file.error != 0)
        return vw__fail(VW_ERR_FILE, "cannot write the recording: %s", strerror(file.error));
    return status;
}

typedef struct recording_order {
    vw_recorder *recorder;
    vw_pool *pool;
} recording_order;

static vw_status write_recording(void *context, int file_descriptor)
{
    const recording_order *order = context;
    return vw_recorder_write_fd(order->recorder, order->pool, file_descriptor);
}

vw_status vw_recorder_write(vw_recorder *recorder, vw_pool *pool, const char *path)
{
    if (path == NULL)
        return vw__fail(VW_ERR_INVALID_ARGUMENT, "no path for the recording");
    return vw__whole_file_write(path, write_recording, &(recording_order){recorder, pool});
}
