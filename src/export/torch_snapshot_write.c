/* torch_snapshot_write.c - PyTorch's dicts, key by key, in the order in which it writes them.
 *
 * The one oddity worth knowing: a segment or block without a context has an empty list under
 * `frames`, an event without one has no such key. And a segment's `frames` stand before its blocks
 * if they are that empty list, behind them otherwise (PyTorch fills stacks in last). */
#include "export/torch_snapshot_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>  /* snprintf */
#include <stdlib.h> /* strtoll, strtoull */
#include <string.h>

#include "base/c_locale.h"
#include "base/error.h"
#include "base/host_memory.h"

#define KEY_LIST(X)                                                                                \
    X(action)                                                                                      \
    X(active_size)                                                                                 \
    X(addr)                                                                                        \
    X(address)                                                                                     \
    X(allocated_size)                                                                              \
    X(allocator_settings)                                                                          \
    X(blocks)                                                                                      \
    X(compile_context)                                                                             \
    X(device)                                                                                      \
    X(device_free)                                                                                 \
    X(device_traces)                                                                               \
    X(external_annotations)                                                                        \
    X(filename)                                                                                    \
    X(forward_frames)                                                                              \
    X(frames)                                                                                      \
    X(host_segments)                                                                               \
    X(host_traces)                                                                                 \
    X(is_expandable)                                                                               \
    X(line)                                                                                        \
    X(moved_bytes)                                                                                 \
    X(moved_handles)                                                                               \
    X(name)                                                                                        \
    X(pool_id)                                                                                     \
    X(requested_size)                                                                              \
    X(segment_pool_id)                                                                             \
    X(segment_type)                                                                                \
    X(segments)                                                                                    \
    X(size)                                                                                        \
    X(spilled_bytes)                                                                               \
    X(stage)                                                                                       \
    X(state)                                                                                       \
    X(stream)                                                                                      \
    X(time_us)                                                                                     \
    X(total_size)                                                                                  \
    X(user_metadata)                                                                               \
    X(wait_us)

/* Keys, and the words that stand for values. */
typedef enum word {
#define WORD_OF_KEY(key) KEY_##key,
    KEY_LIST(WORD_OF_KEY)
#undef WORD_OF_KEY
        WORD_ACTIVE_ALLOCATED,
    WORD_ACTIVE_PENDING_FREE,
    WORD_INACTIVE,
    WORD_LARGE,
    WORD_SMALL,
    WORD_START,
    WORD_END,
    WORD_NOT_AVAILABLE,
    WORD_NOTHING,
    WORD_FIRST_ACTION,
    WORD_COUNT = WORD_FIRST_ACTION + VW__MODEL_ACTION_KINDS,
} word;

static const char *text_of_word(word which)
{
    static const char *const texts[WORD_FIRST_ACTION] = {
#define TEXT_OF_KEY(key) #key,
        KEY_LIST(TEXT_OF_KEY)
#undef TEXT_OF_KEY
            [WORD_ACTIVE_ALLOCATED] = "active_allocated",
        [WORD_ACTIVE_PENDING_FREE] = "active_pending_free",
        [WORD_INACTIVE] = "inactive",
        [WORD_LARGE] = "large",
        [WORD_SMALL] = "small",
        [WORD_START] = "START",
        [WORD_END] = "END",
        [WORD_NOT_AVAILABLE] = "N/A",
        [WORD_NOTHING] = "",
    };
    return which < WORD_FIRST_ACTION ? texts[which]
                                     : vw__model_action_name((unsigned)(which - WORD_FIRST_ACTION));
}

/* What was written before: number in the memo + 1, 0 for not yet. */
typedef struct writer {
    const vw__model *model;
    vw__export_pickle pickle;
    uint32_t words[WORD_COUNT];
    uint32_t *strings;
    uint32_t *frames;
    uint32_t *contexts;
} writer;

/* ---- values that repeat ---------------------------------------------------------------------- */

/* true: fetched, nothing is left to do. */
static bool fetch_known(writer *w, uint32_t memo)
{
    if (memo == 0)
        return false;
    vw__export_pickle_fetch(&w->pickle, memo - 1);
    return true;
}

static void write_word(writer *w, word which)
{
    if (fetch_known(w, w->words[which]))
        return;
    const char *text = text_of_word(which);
    vw__export_pickle_text(&w->pickle, text, strlen(text));
    w->words[which] = vw__export_pickle_memoize(&w->pickle) + 1;
}

static void write_string(writer *w, uint32_t id)
{
    if (id == VW__MODEL_NO_STRING) {
        write_word(w, WORD_NOTHING);
        return;
    }
    if (fetch_known(w, w->strings[id]))
        return;
    vw__string string = vw__string_table_get(&w->model->strings, id);
    vw__export_pickle_text(&w->pickle, string.bytes, string.size_bytes);
    w->strings[id] = vw__export_pickle_memoize(&w->pickle) + 1;
}

static void write_unsigned(writer *w, word key, uint64_t number)
{
    write_word(w, key);
    vw__export_pickle_unsigned(&w->pickle, number);
}

static void write_pool(writer *w, word key, uint16_t pool)
{
    vw_private_id id = w->model->pools[pool];
    write_word(w, key);
    vw__export_pickle_unsigned(&w->pickle, id.first);
    vw__export_pickle_unsigned(&w->pickle, id.second);
    vw__export_pickle_pair(&w->pickle);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void write_frame(writer *w, uint32_t id)
{
    if (fetch_known(w, w->frames[id]))
        return;
    const vw__model_frame *frame = &w->model->frames[id];
    vw__export_pickle_begin_dict(&w->pickle);
    write_word(w, KEY_name);
    write_string(w, frame->name);
    write_word(w, KEY_filename);
    write_string(w, frame->filename);
    write_unsigned(w, KEY_line, frame->line);
    vw__export_pickle_end_dict(&w->pickle);
    w->frames[id] = vw__export_pickle_memoize(&w->pickle) + 1;
}

/* The list of a context, which is the same object wherever that context occurs. */
static void write_frames(writer *w, uint32_t context)
{
    write_word(w, KEY_frames);
    vw__export_pickle_list list;
    if (context == VW__MODEL_NO_CONTEXT) {
        vw__export_pickle_begin_list(&w->pickle, &list);
        vw__export_pickle_end_list(&w->pickle, &list);
        return;
    }
    if (fetch_known(w, w->contexts[context]))
        return;
    vw__model_stack stack = vw__model_stack_of(w->model, context);
    vw__export_pickle_begin_list(&w->pickle, &list);
    for (uint32_t i = 0; i < stack.count; i++) {
        vw__export_pickle_next_item(&w->pickle, &list);
        write_frame(w, w->model->frame_ids[stack.first + i]);
    }
    vw__export_pickle_end_list(&w->pickle, &list);
    w->contexts[context] = vw__export_pickle_memoize(&w->pickle) + 1;
}

static void write_forward_frames(writer *w, uint32_t stack_id)
{
    vw__model_stack stack = w->model->stacks[stack_id];
    vw__export_pickle_list list;
    write_word(w, KEY_forward_frames);
    vw__export_pickle_begin_list(&w->pickle, &list);
    for (uint32_t i = 0; i < stack.count; i++) {
        vw__export_pickle_next_item(&w->pickle, &list);
        write_string(w, w->model->frames[w->model->frame_ids[stack.first + i]].name);
    }
    vw__export_pickle_end_list(&w->pickle, &list);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void write_block(writer *w, const vw__model_block *block)
{
    static const word states[] = {
        [VW_BLOCK_LIVE] = WORD_ACTIVE_ALLOCATED,
        [VW_BLOCK_PENDING_FREE] = WORD_ACTIVE_PENDING_FREE,
        [VW_BLOCK_FREE] = WORD_INACTIVE,
    };
    VW_ASSERT(block->state < sizeof states / sizeof *states);
    vw__export_pickle_begin_dict(&w->pickle);
    write_unsigned(w, KEY_address, block->address);
    write_unsigned(w, KEY_size, block->size_bytes);
    if (block->requested_bytes != VW__MODEL_UNKNOWN_BYTES)
        write_unsigned(w, KEY_requested_size, block->requested_bytes);
    write_word(w, KEY_state);
    write_word(w, states[block->state]);
    write_frames(w, block->context);
    vw__export_pickle_end_dict(&w->pickle);
}

static void write_segment(writer *w, const vw__model_segment *segment)
{
    vw__export_pickle_begin_dict(&w->pickle);
    write_word(w, KEY_device);
    vw__export_pickle_integer(&w->pickle, segment->device);
    write_unsigned(w, KEY_address, segment->address);
    write_unsigned(w, KEY_total_size, segment->total_bytes);
    write_unsigned(w, KEY_allocated_size, segment->allocated_bytes);
    write_unsigned(w, KEY_active_size, segment->active_bytes);
    if (segment->requested_bytes != VW__MODEL_UNKNOWN_BYTES)
        write_unsigned(w, KEY_requested_size, segment->requested_bytes);
    write_unsigned(w, KEY_stream, w->model->streams[segment->stream]);
    write_word(w, KEY_segment_type);
    write_word(w, segment->is_large ? WORD_LARGE : WORD_SMALL);
    if (segment->pool != VW__MODEL_UNKNOWN_POOL)
        write_pool(w, KEY_segment_pool_id, segment->pool);
    write_word(w, KEY_is_expandable);
    vw__export_pickle_boolean(&w->pickle, segment->is_expandable);
    if (segment->context == VW__MODEL_NO_CONTEXT)
        write_frames(w, VW__MODEL_NO_CONTEXT);

    vw__export_pickle_list blocks;
    write_word(w, KEY_blocks);
    vw__export_pickle_begin_list(&w->pickle, &blocks);
    for (size_t i = 0; i < segment->block_count; i++) {
        vw__export_pickle_next_item(&w->pickle, &blocks);
        write_block(w, &w->model->blocks[segment->first_block + i]);
    }
    vw__export_pickle_end_list(&w->pickle, &blocks);
    if (segment->context != VW__MODEL_NO_CONTEXT)
        write_frames(w, segment->context);
    vw__export_pickle_end_dict(&w->pickle);
}

static void write_segments(writer *w, word key, bool is_host)
{
    const vw__model *model = w->model;
    vw__export_pickle_list list;
    write_word(w, key);
    vw__export_pickle_begin_list(&w->pickle, &list);
    for (size_t i = 0; i < model->segment_count; i++) {
        if ((model->segments[i].device == VW__MODEL_HOST_DEVICE) != is_host)
            continue;
        vw__export_pickle_next_item(&w->pickle, &list);
        write_segment(w, &model->segments[i]);
    }
    vw__export_pickle_end_list(&w->pickle, &list);
}

/* ---- traces ---------------------------------------------------------------------------------- */

static void write_event(writer *w, const vw__model_event *event)
{
    static const vw__model_note no_note = {VW__MODEL_NO_STRING, VW__MODEL_NO_STRING,
                                           VW__MODEL_NO_STRING, VW__MODEL_EMPTY_STACK};
    const vw__model *model = w->model;
    const vw__model_features *features = &model->features;
    const vw__model_note *note =
        event->note != VW__MODEL_NO_NOTE ? &model->notes[event->note] : &no_note;
    vw__export_pickle_begin_dict(&w->pickle);
    write_word(w, KEY_action);
    if (event->action == VW__MODEL_ACTION_OTHER)
        write_string(w, note->action);
    else
        write_word(w, (word)(WORD_FIRST_ACTION + event->action));
    write_unsigned(w, event->action == VW_ACTION_OOM ? KEY_device_free : KEY_addr, event->address);
    write_unsigned(w, KEY_size, event->size_bytes);
    write_unsigned(w, KEY_stream, model->streams[event->stream]);
    if (event->time_us != VW__MODEL_UNKNOWN_TIME) {
        write_word(w, KEY_time_us);
        vw__export_pickle_integer(&w->pickle, event->time_us);
    }
    if (features->has_compile_context) {
        write_word(w, KEY_compile_context);
        if (note->compile_context != VW__MODEL_NO_STRING)
            write_string(w, note->compile_context);
        else
            write_word(w, WORD_NOT_AVAILABLE);
    }
    if (features->has_user_metadata) {
        write_word(w, KEY_user_metadata);
        write_string(w, note->user_metadata);
    }
    if (event->pool != VW__MODEL_UNKNOWN_POOL)
        write_pool(w, KEY_pool_id, event->pool);
    if (event->context != VW__MODEL_NO_CONTEXT)
        write_frames(w, event->context);
    if (note->forward_stack != VW__MODEL_EMPTY_STACK)
        write_forward_frames(w, note->forward_stack);
    vw__export_pickle_end_dict(&w->pickle);
}

static void write_trace(writer *w, const vw__model_trace *trace)
{
    vw__export_pickle_list list;
    vw__export_pickle_begin_list(&w->pickle, &list);
    for (size_t i = 0; trace != NULL && i < trace->event_count; i++) {
        vw__export_pickle_next_item(&w->pickle, &list);
        write_event(w, &trace->events[i]);
    }
    vw__export_pickle_end_list(&w->pickle, &list);
}

/* One list for each device up to the last, by number: a device without a trace has an empty one. */
static void write_device_traces(writer *w)
{
    int device_count = 0;
    for (size_t i = 0; i < w->model->trace_count; i++)
        if (w->model->traces[i].device >= device_count)
            device_count = w->model->traces[i].device + 1;
    vw__export_pickle_list list;
    write_word(w, KEY_device_traces);
    vw__export_pickle_begin_list(&w->pickle, &list);
    for (int device = 0; device < device_count; device++) {
        vw__export_pickle_next_item(&w->pickle, &list);
        write_trace(w, vw__model_trace_of(w->model, device));
    }
    vw__export_pickle_end_list(&w->pickle, &list);
}

static void write_host_traces(writer *w)
{
    const vw__model_trace *trace = vw__model_trace_of(w->model, VW__MODEL_HOST_DEVICE);
    vw__export_pickle_list list;
    write_word(w, KEY_host_traces);
    vw__export_pickle_begin_list(&w->pickle, &list);
    for (size_t i = 0; trace != NULL && i < trace->event_count; i++) {
        vw__export_pickle_next_item(&w->pickle, &list);
        write_event(w, &trace->events[i]);
    }
    vw__export_pickle_end_list(&w->pickle, &list);
}

/* ---- settings and annotations ---------------------------------------------------------------- */

/* "1: 0, 2: 4 ...", whatever stands between the numbers. */
static void write_divisions(writer *w, const char *text)
{
    vw__export_pickle_begin_dict(&w->pickle);
    for (;;) {
        const char *key = text + strcspn(text, "0123456789");
        size_t key_bytes = strspn(key, "0123456789");
        const char *value = key + key_bytes;
        value += strcspn(value, "0123456789");
        if (*value == '\0')
            break;
        vw__export_pickle_text(&w->pickle, key, key_bytes);
        vw__export_pickle_unsigned(&w->pickle, strtoull(value, NULL, 10));
        text = value + strspn(value, "0123456789");
    }
    vw__export_pickle_end_dict(&w->pickle);
}

/* Settings are kept as text for people; this finds the type again. */
static void write_setting_value(writer *w, const char *key, const char *text)
{
    char *end;
    errno = 0;
    long long integer = strtoll(text, &end, 10);
    bool is_integer = end != text && *end == '\0' && errno == 0;
    double number = vw__c_locale_strtod(text, &end);
    bool is_number = end != text && *end == '\0';
    if (strcmp(key, "roundup_power2_divisions") == 0)
        write_divisions(w, text);
    else if (strcmp(text, "True") == 0 || strcmp(text, "true") == 0)
        vw__export_pickle_boolean(&w->pickle, true);
    else if (strcmp(text, "False") == 0 || strcmp(text, "false") == 0)
        vw__export_pickle_boolean(&w->pickle, false);
    else if (is_number && strcmp(key, "garbage_collection_threshold") == 0)
        vw__export_pickle_float(&w->pickle, number);
    else if (is_integer)
        vw__export_pickle_integer(&w->pickle, integer);
    else if (is_number)
        vw__export_pickle_float(&w->pickle, number);
    else
        vw__export_pickle_text(&w->pickle, text, strlen(text));
}

static void write_settings(writer *w)
{
    static const char conf_key[] = "PYTORCH_CUDA_ALLOC_CONF";
    const vw__model *model = w->model;
    write_word(w, KEY_allocator_settings);
    vw__export_pickle_begin_dict(&w->pickle);
    for (size_t i = 0; i < model->settings.entry_count; i++) {
        const vw__model_setting *entry = &model->settings.entries[i];
        const char *key = vw__model_string(model, entry->key);
        write_string(w, entry->key);
        if (strcmp(key, conf_key) == 0)
            write_string(w, entry->value); /* text, whatever it looks like */
        else
            write_setting_value(w, key, vw__model_string(model, entry->value));
    }
    vw__export_pickle_end_dict(&w->pickle);
}

/* As text: PyTorch's annotations are pairs of strings. */
static void write_count(writer *w, word key, uint64_t count)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRIu64, count);
    write_word(w, key);
    vw__export_pickle_text(&w->pickle, text, (size_t)length);
}

static void write_move(writer *w, const vw__model_move *move)
{
    if (move->moved_handles == 0)
        return;
    write_count(w, KEY_moved_bytes, move->moved_bytes);
    write_count(w, KEY_moved_handles, move->moved_handles);
    write_count(w, KEY_spilled_bytes, move->spilled_bytes);
    write_count(w, KEY_wait_us, move->wait_us);
}

static void write_annotations(writer *w)
{
    const vw__model *model = w->model;
    vw__export_pickle_list list;
    write_word(w, KEY_external_annotations);
    vw__export_pickle_begin_list(&w->pickle, &list);
    for (size_t i = 0; i < model->annotation_count; i++) {
        const vw__model_annotation *annotation = &model->annotations[i];
        vw__export_pickle_next_item(&w->pickle, &list);
        vw__export_pickle_begin_dict(&w->pickle);
        write_word(w, KEY_stage);
        write_word(w, annotation->is_start ? WORD_START : WORD_END);
        write_word(w, KEY_name);
        write_string(w, annotation->name);
        write_move(w, &annotation->move);
        write_word(w, KEY_device);
        vw__export_pickle_integer(&w->pickle, annotation->device);
        if (annotation->time_us != VW__MODEL_UNKNOWN_TIME) {
            write_word(w, KEY_time_us);
            vw__export_pickle_integer(&w->pickle, annotation->time_us);
        }
        vw__export_pickle_end_dict(&w->pickle);
    }
    vw__export_pickle_end_list(&w->pickle, &list);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void write_snapshot(writer *w)
{
    const vw__model_features *features = &w->model->features;
    vw__export_pickle_begin_dict(&w->pickle);
    write_segments(w, KEY_segments, false);
    write_device_traces(w);
    if (features->has_settings)
        write_settings(w);
    if (features->has_annotations)
        write_annotations(w);
    if (features->has_host_traces) {
        write_segments(w, KEY_host_segments, true);
        write_host_traces(w);
    }
    vw__export_pickle_end_dict(&w->pickle);
}

vw_status vw__export_snapshot(const vw__model *model, const vw__export_pickle_sink *sink)
{
    writer w = {.model = model};
    size_t string_count = vw__string_table_count(&model->strings);
    w.strings = vw__host_alloc_zeroed(string_count, sizeof *w.strings);
    w.frames = vw__host_alloc_zeroed(model->frame_count, sizeof *w.frames);
    w.contexts = vw__host_alloc_zeroed(model->context_count, sizeof *w.contexts);
    vw_status status;
    if (w.strings == NULL || w.frames == NULL || w.contexts == NULL)
        status = vw__fail_host_memory((string_count + model->frame_count + model->context_count) *
                                          sizeof *w.strings,
                                      "writing a snapshot");
    else
        status = vw__export_pickle_init(&w.pickle, sink);
    if (status == VW_OK) {
        write_snapshot(&w);
        status = vw__export_pickle_finish(&w.pickle);
    }
    vw__export_pickle_deinit(&w.pickle);
    vw__host_free(w.strings);
    vw__host_free(w.frames);
    vw__host_free(w.contexts);
    return status;
}
