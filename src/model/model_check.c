/* model_check.c - one pass over everything; tables first, since the rest relies on them.
 *
 * There are many events, and reading them all takes time. If their bounds are known and within the
 * tables, every event is; otherwise a pass finds the one that is not.
 *
 * Refused is what is impossible: memory in two places at once, a block outside its segment, an
 * index outside its table, a sum that contradicts its parts. What is only unusual (no blocks, no
 * events, times that go backwards) passes: recordings come from many versions and many programs. */
#include "model/model_check.h"

#include <inttypes.h>

#include "base/checked_math.h" /* vw__add_u64 */
#include "base/error.h"

/* ---- tables ---------------------------------------------------------------------------------- */

static bool is_string(const vw__model *model, uint32_t id)
{
    return id == VW__MODEL_NO_STRING || id < vw__string_table_count(&model->strings);
}

static bool is_context(const vw__model *model, uint32_t context)
{
    return context == VW__MODEL_NO_CONTEXT || context < model->context_count;
}

static vw_status check_frames(const vw__model *model)
{
    for (size_t i = 0; i < model->frame_count; i++)
        if (!is_string(model, model->frames[i].name) ||
            !is_string(model, model->frames[i].filename))
            return vw__fail(VW_ERR_CORRUPT_FILE, "frame %zu: no such string", i);
    for (size_t i = 0; i < model->frame_id_count; i++)
        if (model->frame_ids[i] >= model->frame_count)
            return vw__fail(VW_ERR_CORRUPT_FILE, "a stack has frame %" PRIu32 " of %zu",
                            model->frame_ids[i], model->frame_count);
    return VW_OK;
}

static vw_status check_stacks(const vw__model *model)
{
    if (model->stack_count == 0 || model->stacks[VW__MODEL_EMPTY_STACK].count != 0)
        return vw__fail(VW_ERR_CORRUPT_FILE, "the first stack is not the empty one");
    for (size_t i = 0; i < model->stack_count; i++) {
        vw__model_stack stack = model->stacks[i];
        if (stack.first > model->frame_id_count ||
            stack.count > model->frame_id_count - stack.first)
            return vw__fail(VW_ERR_CORRUPT_FILE, "stack %zu reaches past the frames", i);
    }
    for (size_t i = 0; i < model->context_count; i++)
        if (model->contexts[i] >= model->stack_count)
            return vw__fail(VW_ERR_CORRUPT_FILE, "context %zu has stack %" PRIu32 " of %zu", i,
                            model->contexts[i], model->stack_count);
    return VW_OK;
}

static vw_status check_other_tables(const vw__model *model)
{
    for (size_t i = 0; i < model->note_count; i++) {
        const vw__model_note *note = &model->notes[i];
        if (!is_string(model, note->action) || !is_string(model, note->compile_context) ||
            !is_string(model, note->user_metadata) || note->forward_stack >= model->stack_count)
            return vw__fail(VW_ERR_CORRUPT_FILE, "note %zu: no such string or stack", i);
    }
    if (model->pool_count == 0 || model->pools[VW__MODEL_DEFAULT_POOL].first != 0 ||
        model->pools[VW__MODEL_DEFAULT_POOL].second != 0)
        return vw__fail(VW_ERR_CORRUPT_FILE, "the first pool is not the default one");
    for (size_t i = 0; i < model->annotation_count; i++)
        if (!is_string(model, model->annotations[i].name))
            return vw__fail(VW_ERR_CORRUPT_FILE, "annotation %zu: no such string", i);
    const vw__model_settings *settings = &model->settings;
    if (!is_string(model, settings->conf) || !is_string(model, settings->engine))
        return vw__fail(VW_ERR_CORRUPT_FILE, "settings: no such string");
    for (size_t i = 0; i < settings->entry_count; i++)
        if (!is_string(model, settings->entries[i].key) ||
            !is_string(model, settings->entries[i].value))
            return vw__fail(VW_ERR_CORRUPT_FILE, "setting %zu: no such string", i);
    return VW_OK;
}

/* ---- traces ---------------------------------------------------------------------------------- */

static vw_status bad_event(const vw__model *model, size_t index)
{
    const vw__model_event *event = &model->events[index];
    return vw__fail(VW_ERR_CORRUPT_FILE,
                    "event %zu: action %u, context %" PRIu32 ", note %" PRIu32
                    ", stream %u or pool %u is not in its table",
                    index, (unsigned)event->action, event->context, event->note,
                    (unsigned)event->stream, (unsigned)event->pool);
}

static vw_status check_events(const vw__model *model)
{
    for (size_t i = 0; i < model->event_count; i++) {
        const vw__model_event *event = &model->events[i];
        /* One branch for the usual case: there are many of these. */
        bool is_sound =
            (event->action < VW__MODEL_ACTION_KINDS) & is_context(model, event->context) &
            ((event->note == VW__MODEL_NO_NOTE) | (event->note < model->note_count)) &
            (event->stream < model->stream_count) &
            ((event->pool == VW__MODEL_UNKNOWN_POOL) | (event->pool < model->pool_count));
        if (!is_sound)
            return bad_event(model, i);
    }
    return VW_OK;
}

/* The host comes after every device. */
static unsigned device_rank(int device)
{
    return (unsigned)device;
}

static bool are_within(const vw__model_event_bounds *bounds, const vw__model *model)
{
    return bounds->highest_action < VW__MODEL_ACTION_KINDS &&
           bounds->context_end <= model->context_count && bounds->note_end <= model->note_count &&
           bounds->highest_stream < model->stream_count && bounds->pool_end <= model->pool_count;
}

static vw_status check_traces(const vw__model *model)
{
    for (size_t i = 0; i < model->trace_count; i++) {
        const vw__model_trace *trace = &model->traces[i];
        size_t first = trace->event_count != 0 ? (size_t)(trace->events - model->events) : 0;
        if (first > model->event_count || trace->event_count > model->event_count - first)
            return vw__fail(VW_ERR_CORRUPT_FILE, "trace %zu reaches past the events", i);
        if (trace->device < VW__MODEL_HOST_DEVICE)
            return vw__fail(VW_ERR_CORRUPT_FILE, "trace %zu: no device %d", i, trace->device);
        if (i != 0 && device_rank(model->traces[i - 1].device) >= device_rank(trace->device))
            return vw__fail(VW_ERR_CORRUPT_FILE,
                            "device %d has two traces, or traces are not in the devices' order",
                            trace->device);
    }
    return VW_OK;
}

/* ---- segments -------------------------------------------------------------------------------- */

typedef struct block_sums {
    uint64_t live_bytes;
    uint64_t active_bytes; /* live or pending */
} block_sums;

static vw_status check_block(const vw__model *model, const vw__model_segment *segment,
                             size_t number, uint64_t expected_address, uint64_t end)
{
    const vw__model_block *block = &model->blocks[segment->first_block + number];
    if (block->address != expected_address) {
        if (block->address < expected_address && number != 0)
            return vw__fail(VW_ERR_CORRUPT_FILE,
                            "segment %#" PRIx64
                            ": blocks %zu and %zu overlap: one ends at %#" PRIx64
                            ", the next begins at %#" PRIx64,
                            segment->address, number - 1, number, expected_address, block->address);
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "segment %#" PRIx64 ": block %zu begins at %#" PRIx64 ", where %#" PRIx64
                        " was expected",
                        segment->address, number, block->address, expected_address);
    }
    if (block->size_bytes > end - expected_address)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "segment %#" PRIx64 ": block %zu of %" PRIu64
                        " bytes reaches past the end, "
                        "%#" PRIx64,
                        segment->address, number, block->size_bytes, end);
    if (block->state > VW_BLOCK_FREE || !is_context(model, block->context))
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "segment %#" PRIx64 ": block %zu: state %u or context %" PRIu32
                        " is not in its table",
                        segment->address, number, (unsigned)block->state, block->context);
    return VW_OK;
}

static vw_status check_blocks(const vw__model *model, const vw__model_segment *segment)
{
    block_sums sums = {0, 0};
    uint64_t next = segment->address, end = segment->address + segment->total_bytes;
    if (segment->block_count == 0)
        return VW_OK; /* the file has none */
    for (size_t i = 0; i < segment->block_count; i++) {
        const vw__model_block *block = &model->blocks[segment->first_block + i];
        VW__TRY(check_block(model, segment, i, next, end));
        next += block->size_bytes; /* within `end`: checked */
        sums.live_bytes += block->state == VW_BLOCK_LIVE ? block->size_bytes : 0;
        sums.active_bytes += block->state != VW_BLOCK_FREE ? block->size_bytes : 0;
    }
    if (segment->device == VW__MODEL_HOST_DEVICE)
        return VW_OK;
    if (next != end)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "segment %#" PRIx64 ": its blocks are %" PRIu64
                        " bytes together, its total_size is %" PRIu64,
                        segment->address, next - segment->address, segment->total_bytes);
    if (sums.live_bytes != segment->allocated_bytes || sums.active_bytes != segment->active_bytes)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "segment %#" PRIx64 ": allocated_size is %" PRIu64
                        " and active_size %" PRIu64 ", but its blocks make %" PRIu64
                        " and %" PRIu64,
                        segment->address, segment->allocated_bytes, segment->active_bytes,
                        sums.live_bytes, sums.active_bytes);
    return VW_OK;
}

static vw_status check_segment(const vw__model *model, size_t index)
{
    const vw__model_segment *segment = &model->segments[index];
    uint64_t end;
    if (!vw__add_u64(segment->address, segment->total_bytes, &end))
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "segment %#" PRIx64 ": %" PRIu64
                        " bytes reach past the end of all addresses",
                        segment->address, segment->total_bytes);
    if (segment->device < VW__MODEL_HOST_DEVICE)
        return vw__fail(VW_ERR_CORRUPT_FILE, "segment %#" PRIx64 ": no device %d", segment->address,
                        segment->device);
    if (segment->allocated_bytes > segment->active_bytes ||
        segment->active_bytes > segment->total_bytes)
        return vw__fail(VW_ERR_CORRUPT_FILE,
                        "segment %#" PRIx64 ": allocated_size %" PRIu64 ", active_size %" PRIu64
                        " and total_size %" PRIu64 " do not rise",
                        segment->address, segment->allocated_bytes, segment->active_bytes,
                        segment->total_bytes);
    if (!is_context(model, segment->context) || segment->stream >= model->stream_count ||
        (segment->pool != VW__MODEL_UNKNOWN_POOL && segment->pool >= model->pool_count))
        return vw__fail(
            VW_ERR_CORRUPT_FILE,
            "segment %#" PRIx64 ": context %" PRIu32 ", stream %u or pool %u is not in its table",
            segment->address, segment->context, (unsigned)segment->stream, (unsigned)segment->pool);
    if (segment->first_block > model->block_count ||
        segment->block_count > model->block_count - segment->first_block)
        return vw__fail(VW_ERR_CORRUPT_FILE, "segment %#" PRIx64 " reaches past the blocks",
                        segment->address);
    return VW_OK;
}

/* A segment of no bytes has an address too. */
static bool begins_behind(const vw__model_segment *segment, const vw__model_segment *previous)
{
    return segment->address > previous->address &&
           segment->address - previous->address >= previous->total_bytes;
}

static vw_status check_segments(const vw__model *model)
{
    size_t free_blocks = model->block_count; /* that no segment has yet */
    for (size_t i = 0; i < model->segment_count; i++) {
        const vw__model_segment *segment = &model->segments[i];
        VW__TRY(check_segment(model, i));
        if (segment->block_count > free_blocks)
            return vw__fail(VW_ERR_CORRUPT_FILE,
                            "segment %#" PRIx64 ": some of its blocks are another segment's",
                            segment->address);
        free_blocks -= segment->block_count;
        VW__TRY(check_blocks(model, segment));
        if (i == 0)
            continue;
        const vw__model_segment *previous = &model->segments[i - 1];
        if (previous->device != segment->device) {
            if (device_rank(previous->device) > device_rank(segment->device))
                return vw__fail(VW_ERR_CORRUPT_FILE, "segments are not in the devices' order");
            continue;
        }
        if (!begins_behind(segment, previous))
            return vw__fail(
                VW_ERR_CORRUPT_FILE,
                "device %d: segments %#" PRIx64 " (%" PRIu64 " bytes) and %#" PRIx64 " overlap",
                segment->device, previous->address, previous->total_bytes, segment->address);
    }
    return VW_OK;
}

vw_status vw__model_check(const vw__model *model, const vw__model_event_bounds *bounds)
{
    VW__TRY(check_frames(model));
    VW__TRY(check_stacks(model));
    VW__TRY(check_other_tables(model));
    VW__TRY(check_traces(model));
    if (bounds == NULL || !are_within(bounds, model))
        VW__TRY(check_events(model));
    return check_segments(model);
}
