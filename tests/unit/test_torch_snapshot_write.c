/* test_torch_snapshot_write.c - what is written reads back as the same model.
 *
 * A model with one of everything is made by hand, written, and read by torch_snapshot_read. Real
 * recordings (in the folder that VRAMWISE_CORPUS names, where it is set) go through the same. The
 * ids of strings, frames and contexts may change on the way; what they stand for, and which events
 * share a context, may not. */
#include "export/torch_snapshot_write.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_buffer.h"
#include "base/host_memory.h"
#include "parse/torch_snapshot_read.h"
#include "model/model_build.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

/* ---- writing and reading --------------------------------------------------------------------- */

static bool append(void *context, const void *bytes, size_t size_bytes)
{
    vw__append_bytes(context, bytes, size_bytes);
    return !vw__byte_buffer_has_failed(context);
}

static bool refuse(void *context, const void *bytes, size_t size_bytes)
{
    (void)context;
    (void)bytes;
    (void)size_bytes;
    return false;
}

static vw_status write_model(const vw__model *model, vw__byte_buffer *file)
{
    vw__byte_buffer_init(file);
    return vw__export_snapshot(model, &(vw__export_pickle_sink){file, append});
}

static vw_status read_source(vw__byte_source *source, vw__model **model)
{
    vw__snapshot_encoding encoding;
    vw_status status = vw__snapshot_read(source, 0, model, &encoding);
    vw__byte_source_close(source);
    return status;
}

static vw__model *read_bytes(const vw__byte_buffer *file)
{
    vw__byte_source *source;
    vw__model *model = NULL;
    assert_int_equal(vw__byte_source_open_memory(file->bytes, file->size_bytes, NULL, &source),
                     VW_OK);
    if (read_source(source, &model) != VW_OK)
        fail_msg("cannot be read back: %s", vw_last_error());
    return model;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void same_string(const vw__model *a, uint32_t a_id, const vw__model *b, uint32_t b_id)
{
    assert_string_equal(vw__model_string(a, a_id), vw__model_string(b, b_id));
}

static void same_stack(const vw__model *a, vw__model_stack a_stack, const vw__model *b,
                       vw__model_stack b_stack)
{
    assert_int_equal(a_stack.count, b_stack.count);
    for (uint32_t i = 0; i < a_stack.count; i++) {
        const vw__model_frame *a_frame = &a->frames[a->frame_ids[a_stack.first + i]];
        const vw__model_frame *b_frame = &b->frames[b->frame_ids[b_stack.first + i]];
        same_string(a, a_frame->name, b, b_frame->name);
        same_string(a, a_frame->filename, b, b_frame->filename);
        assert_int_equal(a_frame->line, b_frame->line);
    }
}

/* Contexts must correspond one to one: `pairs` maps a's to b's, as far as they were met. */
typedef struct comparison {
    const vw__model *a, *b;
    uint32_t *pairs;
    uint32_t *back;
} comparison;

static void same_context(comparison *c, uint32_t a, uint32_t b)
{
    if (a == VW__MODEL_NO_CONTEXT) {
        assert_true(b == VW__MODEL_NO_CONTEXT);
        return;
    }
    assert_true(b != VW__MODEL_NO_CONTEXT);
    if (c->pairs[a] == VW__MODEL_NO_CONTEXT && c->back[b] == VW__MODEL_NO_CONTEXT) {
        c->pairs[a] = b;
        c->back[b] = a;
        same_stack(c->a, vw__model_stack_of(c->a, a), c->b, vw__model_stack_of(c->b, b));
    }
    assert_int_equal(c->pairs[a], b);
    assert_int_equal(c->back[b], a);
}

/* Of a segment or block, where PyTorch writes an empty list for want of a context. */
static void same_late_context(comparison *c, uint32_t a, uint32_t b)
{
    if (a == VW__MODEL_NO_CONTEXT)
        assert_int_equal(vw__model_stack_of(c->b, b).count, 0);
    else
        same_context(c, a, b);
}

static void same_pool(const comparison *c, uint16_t a, uint16_t b)
{
    assert_int_equal(a == VW__MODEL_UNKNOWN_POOL, b == VW__MODEL_UNKNOWN_POOL);
    if (a != VW__MODEL_UNKNOWN_POOL)
        assert_memory_equal(&c->a->pools[a], &c->b->pools[b], sizeof(vw_private_id));
}

static void same_note(const comparison *c, uint32_t a, uint32_t b)
{
    assert_int_equal(a == VW__MODEL_NO_NOTE, b == VW__MODEL_NO_NOTE);
    if (a == VW__MODEL_NO_NOTE)
        return;
    const vw__model_note *a_note = &c->a->notes[a], *b_note = &c->b->notes[b];
    same_string(c->a, a_note->action, c->b, b_note->action);
    same_string(c->a, a_note->compile_context, c->b, b_note->compile_context);
    same_string(c->a, a_note->user_metadata, c->b, b_note->user_metadata);
    same_stack(c->a, c->a->stacks[a_note->forward_stack], c->b,
               c->b->stacks[b_note->forward_stack]);
}

static void same_event(comparison *c, const vw__model_event *a, const vw__model_event *b)
{
    assert_int_equal(a->action, b->action);
    assert_int_equal(a->address, b->address);
    assert_int_equal(a->size_bytes, b->size_bytes);
    assert_int_equal(a->time_us, b->time_us);
    assert_int_equal(c->a->streams[a->stream], c->b->streams[b->stream]);
    same_pool(c, a->pool, b->pool);
    same_context(c, a->context, b->context);
    same_note(c, a->note, b->note);
}

static void same_segment(comparison *c, const vw__model_segment *a, const vw__model_segment *b)
{
    assert_int_equal(a->address, b->address);
    assert_int_equal(a->total_bytes, b->total_bytes);
    assert_int_equal(a->allocated_bytes, b->allocated_bytes);
    assert_int_equal(a->active_bytes, b->active_bytes);
    assert_int_equal(a->requested_bytes, b->requested_bytes);
    assert_int_equal(a->device, b->device);
    assert_int_equal(a->is_large, b->is_large);
    assert_int_equal(a->is_expandable, b->is_expandable);
    assert_int_equal(c->a->streams[a->stream], c->b->streams[b->stream]);
    same_pool(c, a->pool, b->pool);
    same_late_context(c, a->context, b->context);
    assert_int_equal(a->block_count, b->block_count);
    for (size_t i = 0; i < a->block_count; i++) {
        const vw__model_block *a_block = &c->a->blocks[a->first_block + i];
        const vw__model_block *b_block = &c->b->blocks[b->first_block + i];
        assert_int_equal(a_block->address, b_block->address);
        assert_int_equal(a_block->size_bytes, b_block->size_bytes);
        assert_int_equal(a_block->requested_bytes, b_block->requested_bytes);
        assert_int_equal(a_block->state, b_block->state);
        same_late_context(c, a_block->context, b_block->context);
    }
}

static void same_settings(const vw__model *a, const vw__model *b)
{
    assert_int_equal(a->settings.is_known, b->settings.is_known);
    same_string(a, a->settings.conf, b, b->settings.conf);
    assert_int_equal(a->settings.max_split_size, b->settings.max_split_size);
    assert_true(a->settings.garbage_collection_threshold ==
                b->settings.garbage_collection_threshold);
    assert_int_equal(a->settings.is_expandable, b->settings.is_expandable);
    assert_int_equal(a->settings.entry_count, b->settings.entry_count);
    for (size_t i = 0; i < a->settings.entry_count; i++) {
        same_string(a, a->settings.entries[i].key, b, b->settings.entries[i].key);
        same_string(a, a->settings.entries[i].value, b, b->settings.entries[i].value);
    }
}

static uint32_t *no_contexts(size_t count)
{
    uint32_t *contexts = malloc(count * sizeof *contexts + 1);
    assert_non_null(contexts);
    for (size_t i = 0; i < count; i++)
        contexts[i] = VW__MODEL_NO_CONTEXT;
    return contexts;
}

static void same_model(const vw__model *a, const vw__model *b)
{
    comparison c = {a, b, no_contexts(a->context_count), no_contexts(b->context_count)};
    assert_int_equal(a->trace_count, b->trace_count);
    for (size_t i = 0; i < a->trace_count; i++) {
        assert_int_equal(a->traces[i].device, b->traces[i].device);
        assert_int_equal(a->traces[i].event_count, b->traces[i].event_count);
        for (size_t k = 0; k < a->traces[i].event_count; k++)
            same_event(&c, &a->traces[i].events[k], &b->traces[i].events[k]);
    }
    assert_int_equal(a->segment_count, b->segment_count);
    for (size_t i = 0; i < a->segment_count; i++)
        same_segment(&c, &a->segments[i], &b->segments[i]);
    assert_int_equal(a->annotation_count, b->annotation_count);
    for (size_t i = 0; i < a->annotation_count; i++) {
        assert_int_equal(a->annotations[i].time_us, b->annotations[i].time_us);
        assert_int_equal(a->annotations[i].device, b->annotations[i].device);
        assert_int_equal(a->annotations[i].is_start, b->annotations[i].is_start);
        same_string(a, a->annotations[i].name, b, b->annotations[i].name);
        assert_memory_equal(&a->annotations[i].move, &b->annotations[i].move,
                            sizeof a->annotations[i].move);
    }
    same_settings(a, b);
    assert_memory_equal(&a->features, &b->features, sizeof a->features);
    assert_int_equal(b->ignored_field_count, 0);
    free(c.pairs);
    free(c.back);
}

/* ---- a model with one of everything ---------------------------------------------------------- */

static void add(vw_status status)
{
    if (status != VW_OK)
        fail_msg("%s", vw_last_error());
}

static uint32_t string(vw__model_builder *builder, const char *text)
{
    uint32_t id;
    add(vw__model_add_string(builder, text, strlen(text), &id));
    return id;
}

static uint32_t frame(vw__model_builder *builder, const char *name, const char *file, uint32_t line)
{
    uint32_t id;
    vw__model_frame made = {string(builder, name), string(builder, file), line};
    add(vw__model_add_frame(builder, &made, &id));
    return id;
}

static void add_events(vw__model_builder *builder, const uint32_t contexts[3], bool has_pool_ids)
{
    uint32_t note, forward, forward_frames[2];
    vw__model_frame forward_frame = {string(builder, "mul"), VW__MODEL_NO_STRING, 0};
    add(vw__model_add_frame(builder, &forward_frame, &forward_frames[0]));
    forward_frame.name = string(builder, "add");
    add(vw__model_add_frame(builder, &forward_frame, &forward_frames[1]));
    add(vw__model_add_stack(builder, forward_frames, 2, &forward));
    vw__model_note rich = {VW__MODEL_NO_STRING, string(builder, "0/1"), string(builder, "mine"),
                           forward};
    add(vw__model_add_note(builder, &rich, &note));
    uint16_t stream, pool, default_pool = VW__MODEL_UNKNOWN_POOL;
    add(vw__model_add_stream(builder, UINT64_C(0x55d000001230), &stream));
    add(vw__model_add_pool(builder, (vw_private_id){0, 7}, &pool));
    if (!has_pool_ids)
        pool = VW__MODEL_UNKNOWN_POOL;
    else
        default_pool = VW__MODEL_DEFAULT_POOL;
    vw__model_event events[] = {
        {0x7f0000000000,
         2 << 20,
         1000,
         contexts[0],
         VW__MODEL_NO_NOTE,
         0,
         default_pool,
         VW_ACTION_SEGMENT_ALLOC,
         {0}},
        {0x7f0000000000,
         100,
         1001,
         contexts[0],
         VW__MODEL_NO_NOTE,
         0,
         default_pool,
         VW_ACTION_ALLOC,
         {0}},
        {0x7f0000000200, 600, 1002, contexts[1], note, stream, pool, VW_ACTION_ALLOC, {0}},
        {0x7f0000000200,
         600,
         1003,
         VW__MODEL_NO_CONTEXT,
         VW__MODEL_NO_NOTE,
         stream,
         pool,
         VW_ACTION_FREE_REQUESTED,
         {0}},
        {UINT64_C(3) << 30,
         1024,
         1004,
         contexts[2],
         VW__MODEL_NO_NOTE,
         0,
         default_pool,
         VW_ACTION_OOM,
         {0}},
        {0,
         612,
         1005,
         VW__MODEL_NO_CONTEXT,
         VW__MODEL_NO_NOTE,
         0,
         default_pool,
         VW_ACTION_SNAPSHOT,
         {0}},
    };
    size_t index;
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        add(vw__model_add_event(builder, &events[i], &index));
    vw__model_note odd_note = {string(builder, "worker_oom"), VW__MODEL_NO_STRING,
                               VW__MODEL_NO_STRING, VW__MODEL_EMPTY_STACK};
    vw__model_event odd = events[1];
    odd.action = VW__MODEL_ACTION_OTHER;
    add(vw__model_add_note(builder, &odd_note, &odd.note));
    add(vw__model_add_event(builder, &odd, &index));
    add(vw__model_add_trace(builder, 0, 0, 0));
    add(vw__model_add_trace(builder, 1, 0, index + 1));
}

static void add_segments(vw__model_builder *builder, const uint32_t contexts[3])
{
    const vw__model_block blocks[] = {
        {0x7f0000000000, 512, 100, contexts[0], VW_BLOCK_LIVE},
        {0x7f0000000200, 1024, 600, contexts[1], VW_BLOCK_PENDING_FREE},
        {0x7f0000000600, (2 << 20) - 1536, 0, VW__MODEL_NO_CONTEXT, VW_BLOCK_FREE},
        {0x7f0010000000, 20 << 20, 0, VW__MODEL_NO_CONTEXT, VW_BLOCK_FREE},
    };
    size_t index;
    uint16_t pool;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        add(vw__model_add_block(builder, &blocks[i], &index));
    add(vw__model_add_pool(builder, (vw_private_id){0, 7}, &pool));
    vw__model_segment small = {
        .address = 0x7f0000000000,
        .total_bytes = 2 << 20,
        .allocated_bytes = 512,
        .active_bytes = 1536,
        .requested_bytes = 700,
        .block_count = 3,
        .context = contexts[0],
        .device = 1,
        .pool = pool,
    };
    vw__model_segment large = {
        .address = 0x7f0010000000,
        .total_bytes = 20 << 20,
        .first_block = 3,
        .block_count = 1,
        .context = VW__MODEL_NO_CONTEXT,
        .device = 1,
        .is_large = true,
        .is_expandable = true,
    };
    add(vw__model_add_segment(builder, &small));
    add(vw__model_add_segment(builder, &large));
}

static void add_settings(vw__model_builder *builder)
{
    static const char *const entries[][2] = {
        {"PYTORCH_CUDA_ALLOC_CONF", "1"}, /* text, though it looks like a number */
        {"max_split_size", "134217728"},
        {"garbage_collection_threshold", "0.6"},
        {"expandable_segments", "True"},
        {"pinned_num_register_threads", "-1"},
        {"graph_capture_record_stream_reuse", "False"},
        {"something", "2.5"},
        {"roundup_power2_divisions", "[1:0,2:4,32768:8]"},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        add(vw__model_add_setting(builder, entries[i][0], entries[i][1]));
    vw__model_settings *settings = vw__model_builder_settings(builder);
    settings->is_known = true;
    settings->conf = string(builder, "1");
    settings->max_split_size = 134217728;
    settings->garbage_collection_threshold = 0.6;
    settings->is_expandable = true;
}

static vw__model *one_of_everything(bool has_pool_ids)
{
    vw__model_builder *builder;
    add(vw__model_builder_create(1 << 30, &builder));
    uint32_t frames[] = {frame(builder, "forward", "train.py", 12),
                         frame(builder, "caf\xc3\xa9", "/a b/\"c\".py", 0),
                         frame(builder, "main", "train.py", 99999)};
    uint32_t stack, contexts[3];
    add(vw__model_add_stack(builder, frames, 3, &stack));
    add(vw__model_begin_context(builder, stack, &contexts[0]));
    add(vw__model_begin_context(builder, stack, &contexts[1])); /* equal, and not the same */
    add(vw__model_begin_context(builder, VW__MODEL_EMPTY_STACK, &contexts[2]));
    add_events(builder, contexts, has_pool_ids);
    add_segments(builder, contexts);
    add_settings(builder);
    vw__model_annotation annotation = {1001, string(builder, "step#1"), 1, true, {0}};
    add(vw__model_add_annotation(builder, &annotation));
    annotation.is_start = false;
    annotation.time_us = 1006;
    add(vw__model_add_annotation(builder, &annotation));
    annotation.move = (vw__model_move){UINT64_MAX, 2, 0, 12};
    add(vw__model_add_annotation(builder, &annotation));
    *vw__model_builder_features(builder) = (vw__model_features){
        .has_traces = true,
        .has_block_addresses = true,
        .has_times = true,
        .has_settings = true,
        .has_annotations = true,
        .has_compile_context = true,
        .has_stream_reuse = true,
        .has_user_metadata = true,
        .has_pool_ids = has_pool_ids,
        .has_contexts = true,
        .has_identity = true,
    };
    vw__model *model;
    add(vw__model_finish(builder, &model));
    return model;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void round_trip(const vw__model *model)
{
    vw__byte_buffer file;
    add(write_model(model, &file));
    vw__model *back = read_bytes(&file);
    same_model(model, back);
    vw__model_destroy(back);
    vw__byte_buffer_deinit(&file);
}

static void a_model_reads_back_equal(void **state)
{
    (void)state;
    for (int has_pool_ids = 0; has_pool_ids <= 1; has_pool_ids++) {
        vw__model *model = one_of_everything(has_pool_ids != 0);
        round_trip(model);
        vw__model_destroy(model);
    }
}

static vw__model *nothing(vw__model_features features)
{
    vw__model_builder *builder;
    vw__model *model;
    add(vw__model_builder_create(1 << 20, &builder));
    *vw__model_builder_features(builder) = features;
    vw__model_builder_settings(builder)->is_known = features.has_settings;
    add(vw__model_finish(builder, &model));
    return model;
}

static void a_model_without_anything_reads_back_equal(void **state)
{
    (void)state;
    vw__model *oldest = nothing((vw__model_features){.has_traces = true, .has_identity = true});
    vw__model *newest = nothing((vw__model_features){.has_traces = true,
                                                     .has_settings = true,
                                                     .has_annotations = true,
                                                     .has_host_traces = true,
                                                     .has_identity = true});
    round_trip(oldest);
    round_trip(newest);
    vw__model_destroy(oldest);
    vw__model_destroy(newest);
}

static void host_memory_has_lists_of_its_own(void **state)
{
    (void)state;
    vw__model_builder *builder;
    size_t index;
    vw__model *model;
    add(vw__model_builder_create(1 << 20, &builder));
    vw__model_event event = {
        4096, 512, 5, VW__MODEL_NO_CONTEXT, VW__MODEL_NO_NOTE, 0, 0, VW_ACTION_ALLOC, {0}};
    vw__model_block block = {4096, 512, 500, VW__MODEL_NO_CONTEXT, VW_BLOCK_LIVE};
    add(vw__model_add_event(builder, &event, &index));
    add(vw__model_add_trace(builder, VW__MODEL_HOST_DEVICE, 0, 1));
    add(vw__model_add_block(builder, &block, &index));
    add(vw__model_add_segment(builder, &(vw__model_segment){.address = 4096,
                                                            .total_bytes = 512,
                                                            .allocated_bytes = 512,
                                                            .active_bytes = 512,
                                                            .requested_bytes = 500,
                                                            .block_count = 1,
                                                            .context = VW__MODEL_NO_CONTEXT,
                                                            .device = VW__MODEL_HOST_DEVICE}));
    *vw__model_builder_features(builder) = (vw__model_features){.has_traces = true,
                                                                .has_block_addresses = true,
                                                                .has_times = true,
                                                                .has_pool_ids = true,
                                                                .has_host_traces = true,
                                                                .has_identity = true};
    add(vw__model_finish(builder, &model));
    round_trip(model);
    vw__model_destroy(model);
}

static void a_sink_that_refuses_is_reported(void **state)
{
    (void)state;
    vw__model *model = one_of_everything(true);
    assert_int_equal(vw__export_snapshot(model, &(vw__export_pickle_sink){NULL, refuse}),
                     VW_ERR_FILE);
    vw__model_destroy(model);
}

static bool write_it(void *context)
{
    vw__byte_buffer file;
    vw_status status = write_model(context, &file);
    vw__byte_buffer_deinit(&file);
    return status == VW_OK;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    vw__model *model = one_of_everything(true);
    vw_test_sweep_host_memory(write_it, model);
    vw__model_destroy(model);
}

static void real_recordings_read_back_equal(void **state)
{
    (void)state;
    const char *folder = getenv("VRAMWISE_CORPUS");
    DIR *directory = folder != NULL ? opendir(folder) : NULL;
    if (directory == NULL)
        skip(); /* VRAMWISE_CORPUS names no folder */
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[4096];
        vw__byte_source *source;
        vw__model *model = NULL;
        if (strstr(entry->d_name, ".pickle") == NULL || strncmp(entry->d_name, "oom_", 4) != 0)
            continue; /* a dozen of them, of every kind */
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        add(vw__byte_source_open(path, NULL, &source));
        add(read_source(source, &model));
        round_trip(model);
        vw__model_destroy(model);
        count++;
    }
    closedir(directory);
    assert_true(count != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_reads_back_equal),
        cmocka_unit_test(a_model_without_anything_reads_back_equal),
        cmocka_unit_test(host_memory_has_lists_of_its_own),
        cmocka_unit_test(a_sink_that_refuses_is_reported),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(real_recordings_read_back_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
