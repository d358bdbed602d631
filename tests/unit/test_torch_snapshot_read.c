/* test_torch_snapshot_read.c - every shape that a snapshot had since 1.6, and what is said about
 * files that are none.
 *
 * Snapshots are written as JSON with ' for ", which takes the same way as a pickle from the first
 * dict on; what only pickles have is in test_torch_snapshot_pickle.c. */
#include "parse/torch_snapshot_read.h"

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "base/host_memory.h"

/* ---- reading --------------------------------------------------------------------------------- */

static vw_status read_bytes(const void *bytes, size_t size_bytes, size_t limit_bytes,
                            vw__model **model)
{
    vw__byte_source *source;
    vw__snapshot_encoding encoding;
    vw_status status = vw__byte_source_open_memory(bytes, size_bytes, NULL, &source);
    if (status != VW_OK)
        return status;
    status = vw__snapshot_read(source, limit_bytes, model, &encoding);
    vw__byte_source_close(source);
    return status;
}

static vw_status read_json(const char *text, vw__model **model)
{
    char *json = strdup(text);
    for (char *at = json; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    vw_status status = read_bytes(json, strlen(json), 0, model);
    free(json);
    return status;
}

static vw__model *model_of(const char *text)
{
    vw__model *model = NULL;
    if (read_json(text, &model) != VW_OK)
        fail_msg("%s", vw_last_error());
    return model;
}

static void assert_says(const char *words)
{
    if (strstr(vw_last_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", vw_last_error(), words);
}

static void assert_refused(const char *text, const char *words)
{
    vw__model *model = NULL;
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    assert_int_equal(read_json(text, &model), VW_ERR_CORRUPT_FILE);
    assert_null(model);
    assert_says(words);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before_bytes);
}

/* ---- shapes, from the oldest on -------------------------------------------------------------- */

static void a_bare_list_of_1_12_has_addresses_counted_from_the_segment(void **state)
{
    (void)state;
    vw__model *model =
        model_of("[{'device': 0, 'address': 4096, 'total_size': 2048, 'allocated_size': 512,"
                 "  'active_size': 1536, 'segment_type': 'small', 'blocks': ["
                 "   {'size': 512, 'state': 'active_allocated'},"
                 "   {'size': 1024, 'state': 'active_awaiting_free'},"
                 "   {'size': 512, 'state': 'inactive'}]}]");
    assert_true(model->features.is_bare_list);
    assert_false(model->features.has_traces);
    assert_false(model->features.has_block_addresses);
    assert_false(model->features.has_identity);
    assert_int_equal(model->segment_count, 1);
    assert_int_equal(model->block_count, 3);
    assert_int_equal(model->blocks[1].address, 4096 + 512);
    assert_int_equal(model->blocks[2].address, 4096 + 1536);
    assert_int_equal(model->blocks[1].state, VW_BLOCK_PENDING_FREE);
    assert_true(model->blocks[0].requested_bytes == VW__MODEL_UNKNOWN_BYTES);
    assert_true(model->segments[0].requested_bytes == VW__MODEL_UNKNOWN_BYTES);
    assert_int_equal(model->segments[0].pool, VW__MODEL_UNKNOWN_POOL);
    assert_int_equal(model->streams[model->segments[0].stream], 0);
    assert_false(model->segments[0].is_large);
    assert_false(model->settings.is_known);
    vw__model_destroy(model);
}

static void what_1_13_keeps_in_a_blocks_history_is_found(void **state)
{
    (void)state;
    vw__model *model =
        model_of("[{'device': 0, 'address': 4096, 'total_size': 1024, 'stream': 77, 'blocks': ["
                 "   {'size': 512, 'state': 'active_allocated', 'history': ["
                 "     {'addr': 4096, 'real_size': 300, 'frames': "
                 "        [{'name': 'f', 'filename': 'a.py', 'line': 3}]},"
                 "     {'addr': 4096, 'real_size': 10, 'cpp_frames': []}]},"
                 "   {'size': 512, 'state': 'inactive', 'history': []}]}]");
    assert_true(model->features.has_block_history);
    assert_int_equal(model->blocks[0].requested_bytes, 300);
    assert_int_equal(vw__model_stack_of(model, model->blocks[0].context).count, 1);
    assert_true(model->blocks[1].requested_bytes == VW__MODEL_UNKNOWN_BYTES);
    assert_int_equal(model->blocks[1].context, VW__MODEL_NO_CONTEXT);
    assert_int_equal(model->streams[model->segments[0].stream], 77);
    assert_int_equal(model->segments[0].allocated_bytes, 512); /* from the blocks */
    assert_int_equal(model->segments[0].active_bytes, 512);
    assert_int_equal(model->ignored_field_count, 1);
    assert_string_equal(model->first_ignored_field, "cpp_frames");
    vw__model_destroy(model);
}

static void a_block_of_2_0_has_both_requested_size_and_history(void **state)
{
    (void)state;
    vw__model *model = model_of(
        "{'segments': [{'device': 0, 'address': 4096, 'total_size': 512, 'requested_size': 400,"
        "   'blocks': [{'size': 512, 'requested_size': 400, 'state': 'active_allocated',"
        "               'history': [{'addr': 4096, 'real_size': 399, 'frames': []}]}]}],"
        " 'device_traces': [[{'action': 'alloc', 'addr': 4096, 'size': 400, 'stream': 0}]]}");
    assert_int_equal(model->blocks[0].requested_bytes, 400);
    assert_int_equal(model->blocks[0].context, 0);
    assert_int_equal(vw__model_stack_of(model, 0).count, 0);
    assert_true(model->features.has_traces);
    assert_false(model->features.has_times);
    assert_true(model->traces[0].events[0].time_us == VW__MODEL_UNKNOWN_TIME);
    vw__model_destroy(model);
}

static const char of_2_11[] =
    "{'segments': [{'device': 0, 'address': 140071801978880, 'total_size': 2097152,"
    "   'allocated_size': 1024, 'active_size': 1024, 'requested_size': 900, 'stream': 0,"
    "   'segment_type': 'large', 'segment_pool_id': [0, 1], 'is_expandable': true, 'frames': [],"
    "   'blocks': ["
    "     {'address': 140071801978880, 'size': 1024, 'requested_size': 900,"
    "      'state': 'active_allocated', 'frames': ["
    "         {'name': 'forward', 'filename': 'model.py', 'line': 12},"
    "         {'name': '<module>', 'filename': 'train.py', 'line': 3}]},"
    "     {'address': 140071801979904, 'size': 2096128, 'requested_size': 0,"
    "      'state': 'inactive', 'frames': []}]}],"
    " 'device_traces': [["
    "   {'action': 'segment_map', 'addr': 140071801978880, 'size': 2097152, 'stream': 0,"
    "    'time_us': 1794704143679056, 'compile_context': 'N/A', 'user_metadata': '', 'frames': []},"
    "   {'action': 'alloc', 'addr': 140071801978880, 'size': 900, 'stream': 9,"
    "    'time_us': 1794704143679060, 'compile_context': '0/1', 'user_metadata': 'epoch 3'},"
    "   {'action': 'oom', 'device_free': 12345, 'size': 1024, 'stream': 0, 'time_us': 7}]],"
    " 'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': 'expandable_segments:True',"
    "   'max_split_size': -1, 'garbage_collection_threshold': 0.6, 'expandable_segments': true,"
    "   'pinned_num_register_threads': 1, 'graph_capture_record_stream_reuse': false,"
    "   'roundup_power2_divisions': {'1': 0, '2': 4}},"
    " 'external_annotations': ["
    "   {'name': 'step', 'stage': 'START', 'device': 0, 'time_us': 5},"
    "   {'name': 'step', 'stage': 'END', 'device': 1, 'time_us': 6}]}";

static void the_segments_of_2_11_are_read_field_by_field(void **state)
{
    (void)state;
    vw__model *model = model_of(of_2_11);
    const vw__model_segment *segment = &model->segments[0];
    assert_int_equal(segment->address, 140071801978880);
    assert_int_equal(segment->total_bytes, 2097152);
    assert_int_equal(segment->allocated_bytes, 1024);
    assert_int_equal(segment->requested_bytes, 900);
    assert_true(segment->is_large);
    assert_true(segment->is_expandable);
    assert_int_equal(model->pools[segment->pool].first, 0);
    assert_int_equal(model->pools[segment->pool].second, 1);
    assert_int_not_equal(segment->context, VW__MODEL_NO_CONTEXT);
    const vw__model_block *blocks = model->blocks + segment->first_block;
    assert_int_equal(segment->block_count, 2);
    vw__model_stack stack = vw__model_stack_of(model, blocks[0].context);
    assert_int_equal(stack.count, 2);
    const vw__model_frame *frame = &model->frames[model->frame_ids[stack.first]];
    assert_string_equal(vw__model_string(model, frame->name), "forward");
    assert_string_equal(vw__model_string(model, frame->filename), "model.py");
    assert_int_equal(frame->line, 12);
    assert_int_equal(blocks[1].state, VW_BLOCK_FREE);
    assert_int_equal(blocks[1].requested_bytes, 0);
    assert_true(model->features.has_block_addresses);
    vw__model_destroy(model);
}

static void the_trace_of_2_11_is_read_field_by_field(void **state)
{
    (void)state;
    vw__model *model = model_of(of_2_11);
    assert_int_equal(model->trace_count, 1);
    const vw__model_event *events = model->traces[0].events;
    assert_int_equal(model->traces[0].event_count, 3);
    assert_int_equal(events[0].action, VW_ACTION_SEGMENT_MAP);
    assert_int_equal(events[0].time_us, 1794704143679056);
    assert_int_equal(events[0].note, VW__MODEL_NO_NOTE); /* "N/A" and "" are nothing */
    assert_int_not_equal(events[0].context, VW__MODEL_NO_CONTEXT);
    assert_int_equal(events[1].address, 140071801978880);
    assert_int_equal(events[1].size_bytes, 900);
    assert_int_equal(model->streams[events[1].stream], 9);
    assert_int_equal(events[1].context, VW__MODEL_NO_CONTEXT);
    assert_int_equal(events[1].pool, VW__MODEL_UNKNOWN_POOL);
    const vw__model_note *note = &model->notes[events[1].note];
    assert_string_equal(vw__model_string(model, note->compile_context), "0/1");
    assert_string_equal(vw__model_string(model, note->user_metadata), "epoch 3");
    assert_int_equal(note->action, VW__MODEL_NO_STRING);
    assert_int_equal(events[2].action, VW_ACTION_OOM);
    assert_int_equal(events[2].address, 12345);
    assert_int_equal(events[2].stream, events[0].stream);
    assert_true(model->features.has_times);
    assert_true(model->features.has_compile_context);
    assert_true(model->features.has_user_metadata);
    assert_true(model->features.has_contexts);
    assert_false(model->features.has_pool_ids);
    assert_int_equal(model->ignored_field_count, 0);
    vw__model_destroy(model);
}

static void settings_are_kept_as_numbers_and_as_text_in_their_order(void **state)
{
    (void)state;
    vw__model *model = model_of(of_2_11);
    const vw__model_settings *settings = &model->settings;
    assert_true(settings->is_known);
    assert_string_equal(vw__model_string(model, settings->conf), "expandable_segments:True");
    assert_int_equal(settings->max_split_size, -1);
    assert_true(settings->garbage_collection_threshold == 0.6);
    assert_true(settings->is_expandable);
    static const char *const texts[] = {
        "expandable_segments:True", "-1", "0.6", "True", "1", "False", "[1:0,2:4]"};
    assert_int_equal(settings->entry_count, 7);
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(vw__model_string(model, settings->entries[i].value), texts[i]);
    assert_string_equal(vw__model_string(model, settings->entries[6].key),
                        "roundup_power2_divisions");
    assert_true(model->features.has_settings);
    assert_true(model->features.has_stream_reuse);
    assert_false(model->features.has_max_cached_size);
    vw__model_destroy(model);
}

static void annotations_keep_the_files_order(void **state)
{
    (void)state;
    vw__model *model = model_of(of_2_11);
    assert_true(model->features.has_annotations);
    assert_int_equal(model->annotation_count, 2);
    assert_true(model->annotations[0].is_start);
    assert_false(model->annotations[1].is_start);
    assert_int_equal(model->annotations[1].device, 1);
    assert_int_equal(model->annotations[1].time_us, 6);
    assert_string_equal(vw__model_string(model, model->annotations[1].name), "step");
    vw__model_destroy(model);
}

static void memory_that_left_is_an_annotation_with_numbers_as_text(void **state)
{
    (void)state;
    vw__model *model = model_of("{'segments': [], 'external_annotations': ["
                                " {'name': 'vramwise spill', 'stage': 'START', 'device': 0,"
                                "  'time_us': 5, 'moved_bytes': '536870912', 'moved_handles': '3',"
                                "  'spilled_bytes': '18446744073709551615', 'wait_us': 7},"
                                " {'name': 'vramwise spill', 'stage': 'END', 'device': 0,"
                                "  'time_us': 5},"
                                " {'name': 'vramwise return', 'stage': 'START', 'device': 0,"
                                "  'time_us': 5, 'moved_handles': '1'},"
                                " {'name': 'mine', 'stage': 'START', 'device': 0,"
                                "  'time_us': 5, 'moved_handles': '1'}]}");
    const vw__model_annotation *annotations = model->annotations;
    const vw__model_move *move = &annotations[0].move;
    bool is_return;
    assert_int_equal(model->ignored_field_count, 0);
    assert_int_equal(move->moved_bytes, 536870912);
    assert_int_equal(move->moved_handles, 3);
    assert_true(move->spilled_bytes == UINT64_MAX);
    assert_int_equal(move->wait_us, 7);
    assert_true(vw__model_is_move(model, &annotations[0], &is_return));
    assert_false(is_return);
    assert_false(vw__model_is_move(model, &annotations[1], &is_return));
    assert_true(vw__model_is_move(model, &annotations[2], &is_return));
    assert_true(is_return);
    assert_false(vw__model_is_move(model, &annotations[3], &is_return));
    vw__model_destroy(model);
}

static void of_2_14_pools_forward_frames_annotate_and_host_memory_are_read(void **state)
{
    (void)state;
    vw__model *model = model_of(
        "{'segments': [], 'device_traces': [[], ["
        "   {'action': 'annotate', 'addr': 512, 'size': 8, 'stream': 0, 'pool_id': [3, 4],"
        "    'user_metadata': 'weights', 'frames': [], 'forward_frames': ['outer', 'inner']},"
        "   {'action': 'defragment', 'stream': 0}]],"
        " 'host_segments': [{'device': -1, 'address': 512, 'total_size': 1024, 'stream': 0,"
        "    'allocated_size': 700, 'active_size': 700, 'segment_type': 'small',"
        "    'blocks': [{'address': 512, 'size': 700, 'state': 'active_allocated'}]}],"
        " 'host_traces': [[{'action': 'alloc', 'addr': 512, 'size': 700, 'stream': 0}]],"
        " 'allocator_settings': {'max_cached_size': -1}}");
    assert_int_equal(model->trace_count, 3);
    assert_int_equal(model->traces[0].event_count, 0);
    const vw__model_event *events = vw__model_trace_of(model, 1)->events;
    assert_int_equal(events[0].action, VW__MODEL_ACTION_ANNOTATE);
    assert_int_equal(model->pools[events[0].pool].first, 3);
    assert_int_equal(model->pools[events[0].pool].second, 4);
    const vw__model_note *note = &model->notes[events[0].note];
    assert_string_equal(vw__model_string(model, note->user_metadata), "weights");
    vw__model_stack stack = model->stacks[note->forward_stack];
    assert_int_equal(stack.count, 2);
    const vw__model_frame *frame = &model->frames[model->frame_ids[stack.first]];
    assert_string_equal(vw__model_string(model, frame->name), "outer");
    assert_int_equal(frame->filename, VW__MODEL_NO_STRING);
    assert_int_equal(events[1].action, VW__MODEL_ACTION_OTHER);
    assert_string_equal(vw__model_string(model, model->notes[events[1].note].action), "defragment");
    assert_int_equal(vw__model_trace_of(model, VW__MODEL_HOST_DEVICE)->event_count, 1);
    assert_int_equal(model->segments[0].device, VW__MODEL_HOST_DEVICE);
    assert_true(model->features.has_pool_ids);
    assert_true(model->features.has_host_traces);
    assert_true(model->features.has_max_cached_size);
    vw__model_destroy(model);
}

/* A name of `size` bytes, and what comes of it. `ending` is at its end. */
static char *name_read_back(size_t size_bytes, const char *ending)
{
    static char text[4 * VW__SNAPSHOT_NAME_BYTES], name[2 * VW__SNAPSHOT_NAME_BYTES];
    memset(name, 'n', size_bytes);
    memcpy(name + size_bytes - strlen(ending), ending, strlen(ending) + 1);
    snprintf(text, sizeof text,
             "{'segments': [], 'device_traces': [[{'action': 'snapshot', 'stream': 0, 'frames': "
             "[{'name': '%s', 'filename': 'a.py', 'line': 1}]}]]}",
             name);
    vw__model *model = model_of(text);
    snprintf(name, sizeof name, "%s", vw__model_string(model, model->frames[0].name));
    vw__model_destroy(model);
    return name;
}

static void names_are_cut_to_a_length_and_characters_stay_whole(void **state)
{
    enum { MOST = VW__SNAPSHOT_NAME_BYTES };
    (void)state;
    assert_int_equal(strlen(name_read_back(MOST, "end")), MOST);
    assert_string_equal(name_read_back(MOST, "end") + MOST - 3, "end");
    assert_int_equal(strlen(name_read_back(MOST + 1, "end")), MOST);
    assert_string_equal(name_read_back(MOST + 1, "end") + MOST - 5, "nn...");
    /* "€" is three bytes: the cut is behind the first of two, and one byte into the second. */
    assert_string_equal(name_read_back(MOST + 1, "\xE2\x82\xAC\xE2\x82\xAC!") + MOST - 7,
                        "n\xE2\x82\xAC...");
    assert_string_equal(name_read_back(MOST + 1, "\xE2\x82\xAC\xE2\x82\xAC!!") + MOST - 8,
                        "n\xE2\x82\xAC...");
}

/* The entry, behind others that are alike, is read as it is alone. */
static void assert_same_behind(const char *usual, const char *entry)
{
    char text[2048];
    snprintf(text, sizeof text, "{'segments': [], 'device_traces': [[%s]]}", entry);
    vw__model *alone = model_of(text);
    snprintf(text, sizeof text, "{'segments': [], 'device_traces': [[%s, %s, %s, %s]]}", usual,
             usual, entry, usual);
    vw__model *behind = model_of(text);
    assert_int_equal(behind->trace_count, 1);
    assert_int_equal(behind->traces[0].event_count, 4);
    const vw__model_event *events = behind->traces[0].events;
    assert_memory_equal(&events[0], &events[1], offsetof(vw__model_event, context));
    assert_memory_equal(&events[0], &events[3], offsetof(vw__model_event, context));
    vw__model_event expected = alone->traces[0].events[0], found = events[2];
    assert_int_equal(found.address, expected.address);
    assert_int_equal(found.size_bytes, expected.size_bytes);
    assert_int_equal(found.time_us, expected.time_us);
    assert_int_equal(found.action, expected.action);
    assert_int_equal(found.context == VW__MODEL_NO_CONTEXT,
                     expected.context == VW__MODEL_NO_CONTEXT);
    assert_int_equal(vw__model_stack_of(behind, found.context).count,
                     vw__model_stack_of(alone, expected.context).count);
    assert_int_equal(behind->streams[found.stream], alone->streams[expected.stream]);
    assert_int_equal(found.pool == VW__MODEL_UNKNOWN_POOL, expected.pool == VW__MODEL_UNKNOWN_POOL);
    if (found.pool != VW__MODEL_UNKNOWN_POOL)
        assert_memory_equal(&behind->pools[found.pool], &alone->pools[expected.pool],
                            sizeof(vw_private_id));
    assert_int_equal(found.note == VW__MODEL_NO_NOTE, expected.note == VW__MODEL_NO_NOTE);
    if (found.note != VW__MODEL_NO_NOTE)
        assert_string_equal(vw__model_string(behind, behind->notes[found.note].user_metadata),
                            vw__model_string(alone, alone->notes[expected.note].user_metadata));
    assert_int_equal(behind->ignored_field_count, alone->ignored_field_count);
    vw__model_destroy(alone);
    vw__model_destroy(behind);
}

static void an_unusual_entry_among_usual_ones_is_read_as_it_is_alone(void **state)
{
    (void)state;
    static const char usual[] = "{'action': 'alloc', 'addr': 4096, 'size': 512, 'stream': 5,"
                                " 'time_us': 77, 'compile_context': 'N/A', 'user_metadata': ''}";
    static const char *const entries[] = {
        usual,
        "{'action': 'segment_map', 'addr': 0, 'size': 0, 'stream': 6, 'time_us': 0,"
        " 'compile_context': 'N/A', 'user_metadata': ''}",
        "{'action': 'alloc', 'addr': -4096, 'size': 512, 'stream': -1, 'time_us': -77,"
        " 'compile_context': 'N/A', 'user_metadata': ''}",
        "{'action': 'alloc', 'addr': 9223372036854775807, 'size': 18014398509481984,"
        " 'stream': 18014398509481983, 'time_us': -9223372036854775807,"
        " 'compile_context': 'N/A', 'user_metadata': ''}",
        "{'action': 'alloc', 'addr': 4096, 'size': 512, 'stream': 5, 'time_us': null,"
        " 'compile_context': null, 'user_metadata': null}",
        "{'action': 'alloc', 'addr': 4096, 'size': 512, 'stream': 5, 'time_us': 77,"
        " 'compile_context': '0/0', 'user_metadata': 'mine'}",
        "{'action': 'thing', 'addr': 4096, 'size': 512, 'stream': 5, 'time_us': 77,"
        " 'compile_context': 'N/A', 'user_metadata': ''}",
        "{'action': 'size', 'addr': 4096, 'size': 512, 'stream': 5, 'time_us': 77,"
        " 'compile_context': 'N/A', 'user_metadata': ''}",
        "{'action': 'alloc', 'size': 4096, 'addr': 512, 'stream': 5, 'time_us': 77,"
        " 'compile_context': 'N/A', 'user_metadata': ''}",
        "{'action': 'alloc', 'addr': 4096, 'size': 512, 'stream': 5, 'time_us': 77,"
        " 'compile_context': 'N/A', 'more': ''}",
        "{'action': 'oom', 'device_free': 4096, 'size': 512, 'stream': 5, 'time_us': 77,"
        " 'compile_context': 'N/A', 'user_metadata': ''}",
        "{'action': 'alloc', 'addr': 4096, 'size': 512, 'stream': 5, 'time_us': 77,"
        " 'frames': [{'name': 'f', 'filename': 'a.py', 'line': 3}], 'pool_id': [1, 2]}",
        "{'action': 'alloc', 'addr': 4096, 'size': 512, 'stream': 5, 'time_us': 77,"
        " 'frames': [], 'pool_id': [0, 0]}",
        "{'action': 'alloc', 'addr': 4096, 'size': 512, 'stream': 5}",
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        for (size_t j = 0; j < sizeof entries / sizeof *entries; j++)
            if (strstr(entries[i], "'more'") == NULL) /* would count more than once */
                assert_same_behind(entries[i], entries[j]);
    assert_refused("{'segments': [], 'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 2,"
                   " 'stream': 0, 'time_us': 1}, {'action': 'alloc', 'addr': 1, 'size': -2,"
                   " 'stream': 0, 'time_us': 1}]]}",
                   "trace entry 1: size: expected an integer that is not negative");
}

static void segments_of_several_devices_are_sorted(void **state)
{
    (void)state;
    vw__model *model = model_of(
        "{'segments': ["
        "  {'device': 1, 'address': 512, 'total_size': 512, 'allocated_size': 0, 'active_size': 0},"
        "  {'device': 0, 'address': 2048, 'total_size': 512, 'allocated_size': 0, 'active_size': "
        "0},"
        "  {'device': 0, 'address': 512, 'total_size': 512, 'allocated_size': 0, 'active_size': 0}"
        "]}");
    assert_int_equal(model->segments[0].address, 512);
    assert_int_equal(model->segments[1].address, 2048);
    assert_int_equal(model->segments[2].device, 1);
    assert_int_equal(model->segments[2].block_count, 0);
    assert_false(model->features.has_traces);
    vw__model_destroy(model);
}

static void a_list_wrapped_by_pytorchs_viewer_script_is_read(void **state)
{
    (void)state;
    vw__model *model = model_of("{'segments': [], 'traces': []}");
    assert_false(model->features.has_traces);
    assert_int_equal(model->trace_count, 0);
    vw__model_destroy(model);
    model = model_of("{'segments': [], 'traces': [[{'action': 'snapshot'}]]}");
    assert_int_equal(model->traces[0].event_count, 1);
    vw__model_destroy(model);
}

static void none_counts_as_missing_and_unknown_fields_are_counted(void **state)
{
    (void)state;
    vw__model *model = model_of(
        "{'segments': [], 'colour': 1, 'allocator_settings': null, 'device_traces': [["
        "  {'action': 'alloc', 'addr': -4096, 'size': 1, 'time_us': null, 'frames': null,"
        "   'mood': 'good', 'frames': [{'name': 'f', 'filename': 'a', 'line': -1, 'fx': 1}]}]]}");
    assert_int_equal(model->ignored_field_count, 3);
    assert_string_equal(model->first_ignored_field, "fx");      /* the innermost is read first */
    assert_true(model->events[0].address == UINT64_MAX - 4095); /* PyTorch writes it signed */
    assert_true(model->events[0].time_us == VW__MODEL_UNKNOWN_TIME);
    assert_int_equal(model->frames[0].line, 0);
    assert_false(model->settings.is_known);
    vw__model_destroy(model);
}

static void empty_snapshots_are_snapshots(void **state)
{
    (void)state;
    static const char *const texts[] = {"[]", "{'segments': []}", "{'device_traces': []}",
                                        " \n\t{'segments': [], 'device_traces': []}",
                                        "\xEF\xBB\xBF[]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        vw__model *model = model_of(texts[i]);
        assert_int_equal(model->segment_count + model->trace_count, 0);
        vw__model_destroy(model);
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

#define SEGMENT_WITH(fields) "[{'address': 512, 'total_size': 512" fields "}]"
#define BLOCK_WITH(fields) "[{'address': 512, 'total_size': 512, 'blocks': [{" fields "}]}]"
#define ENTRY_WITH(fields)                                                                         \
    "{'device_traces': [[{'action': 'alloc', 'addr': 1, 'size': 1}, {" fields "}]]}"

static void a_field_of_the_wrong_type_is_named_with_what_was_expected_and_found(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"[{'address': 512, 'total_size': 'big'}]",
         "segment 0: total_size: expected an integer that is not negative, found the string "
         "\"big\""},
        {"[{'address': 512, 'total_size': -1}]", "segment 0: total_size"},
        {"[{'address': [], 'total_size': 1}]",
         "segment 0: address: expected an integer, found a list"},
        {"[{'total_size': 1}]", "segment 0: address is missing"},
        {SEGMENT_WITH(""), "segment 0: allocated_size is missing"},
        {SEGMENT_WITH(", 'allocated_size': 0"), "segment 0: active_size is missing"},
        {SEGMENT_WITH(", 'device': -7"), "device: expected the number of a device"},
        {SEGMENT_WITH(", 'stream': 1.5"), "stream: expected an integer, found a float"},
        {SEGMENT_WITH(", 'segment_type': 'huge'"),
         "expected large or small, found the string \"huge\""},
        {SEGMENT_WITH(", 'segment_pool_id': [1]"), "segment_pool_id: expected two integers"},
        {SEGMENT_WITH(", 'segment_pool_id': [1, 2, 3]"), "segment_pool_id: expected two integers"},
        {SEGMENT_WITH(", 'segment_pool_id': [1, 'x']"), "segment_pool_id: expected two integers"},
        {SEGMENT_WITH(", 'is_expandable': 1"), "is_expandable: expected True or False"},
        {SEGMENT_WITH(", 'frames': 'none'"),
         "segment 0: frames: expected a list of frames, found a string"},
        {SEGMENT_WITH(", 'frames': [1]"), "segment 0: frames: item 0: expected a frame"},
        {SEGMENT_WITH(", 'blocks': 3"), "segment 0: blocks: expected a list of blocks"},
        {SEGMENT_WITH(", 'blocks': [{}]"),
         "segment 0: blocks: item 0: expected a block (a dict with size and state), found a dict"},
        {BLOCK_WITH("'size': 512, 'state': 'lost'"),
         "block 0: state: expected active_allocated, active_pending_free or inactive, found the "
         "string \"lost\""},
        {BLOCK_WITH("'size': null, 'state': 'inactive'"), "expected a block"},
        {BLOCK_WITH("'size': 512, 'state': 'inactive', 'requested_size': {}"),
         "block 0: requested_size"},
        {BLOCK_WITH("'size': 512, 'state': 'inactive', 'history': [7]"),
         "block 0: history: item 0"},
        {BLOCK_WITH("'size': 512, 'state': 'inactive', 'history': 7"),
         "block 0: history: expected a list"},
        {ENTRY_WITH("'action': 7"), "trace entry 1: action: expected a string"},
        {ENTRY_WITH("'action': 'alloc', 'size': 1"), "trace entry 1: addr is missing"},
        {ENTRY_WITH("'action': 'oom', 'device_free': 1"), "trace entry 1: size is missing"},
        {ENTRY_WITH("'action': 'alloc', 'addr': 1, 'size': true"), "trace entry 1: size: expected"},
        {ENTRY_WITH("'action': 'snapshot', 'time_us': 'now'"),
         "trace entry 1: time_us: expected an integer"},
        {ENTRY_WITH("'action': 'snapshot', 'user_metadata': {}"),
         "trace entry 1: user_metadata: expected a string"},
        {ENTRY_WITH("'action': 'snapshot', 'forward_frames': [1]"),
         "trace entry 1: forward_frames: item 0: expected a string"},
        {ENTRY_WITH("'action': 'snapshot', 'forward_frames': 1"),
         "trace entry 1: forward_frames: expected a list"},
        {ENTRY_WITH("'action': 'snapshot', 'frames': [{'filename': 7, 'line': 1}]"),
         "frame 0: filename: expected a string"},
        {ENTRY_WITH("'action': 'snapshot', 'frames': [{'filename': 'a', 'line': 4294967296}]"),
         "frame 0: line: expected the number of a line"},
        {"{'segments': {}}", "segments: expected a list, found a dict"},
        {"{'segments': [1]}", "segments: item 0: expected a segment (a dict with total_size and "
                              "blocks), found an integer"},
        {"{'device_traces': {}}", "device_traces: expected a list, found a dict"},
        {"{'device_traces': [{'action': 'snapshot'}]}",
         "device_traces: item 0: expected the list of a device's trace entries, found a trace "
         "entry"},
        {"{'device_traces': [[{'filename': 'a', 'line': 1}]]}",
         "device_traces: item 0: expected a trace entry (a dict with action), found a frame"},
        {"{'segments': [], 'host_traces': [7]}", "host_traces: item 0"},
        {"{'segments': [], 'external_annotations': [7]}",
         "external_annotations: item 0: expected an annotation"},
        {"{'segments': [], 'external_annotations': [{'stage': 'MIDDLE'}]}",
         "annotation 0: stage: expected START or END"},
        {"{'segments': [], 'external_annotations': [{'stage': 'END', 'moved_bytes': '12 MiB'}]}",
         "annotation 0: moved_bytes: expected an integer that is not negative, found the string "
         "\"12 MiB\""},
        {"{'segments': [], 'external_annotations': [{'stage': 'END', 'wait_us': ''}]}",
         "annotation 0: wait_us: expected an integer that is not negative"},
        {"{'segments': [], 'external_annotations': [{'stage': 'END',"
         " 'spilled_bytes': '18446744073709551616'}]}",
         "annotation 0: spilled_bytes: expected an integer that is not negative"},
        {"{'segments': [], 'allocator_settings': 7}",
         "allocator_settings: expected a dict, found an integer"},
        {"{'segments': [], 'allocator_settings': {'max_split_size': 'x'}}",
         "allocator_settings: max_split_size: expected an integer"},
        {"{'segments': [], 'allocator_settings': {'garbage_collection_threshold': 'x'}}",
         "allocator_settings: garbage_collection_threshold: expected a number"},
        {"{'segments': [], 'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': 1}}",
         "PYTORCH_CUDA_ALLOC_CONF: expected a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(cases[i][0], cases[i][1]);
}

static void contradictory_sizes_are_refused(void **state)
{
    (void)state;
    assert_refused(BLOCK_WITH("'address': 513, 'size': 512, 'state': 'inactive'"),
                   "block 0 begins at 0x201");
    assert_refused(BLOCK_WITH("'size': 18, 'state': 'inactive'"), "18 bytes together");
    assert_refused(SEGMENT_WITH(", 'allocated_size': 9, 'active_size': 9, 'blocks': [{'size': 512,"
                                "'state': 'inactive'}]"),
                   "allocated_size is 9");
    assert_refused("[{'address': 512, 'total_size': 512, 'allocated_size': 0, 'active_size': 0},"
                   " {'address': 800, 'total_size': 512, 'allocated_size': 0, 'active_size': 0}]",
                   "overlap");
}

static void other_values_are_refused_by_kind(void **state)
{
    (void)state;
    assert_refused("{}", "not a memory snapshot: a dict of 0 keys");
    assert_refused("{'a': 1}", "not a memory snapshot: a dict of 1 key, ");
    assert_refused("{'a': 1, 'b': 2}", "not a memory snapshot: a dict of 2 keys");
    assert_refused("['a']", "not a memory snapshot: item 0: expected a segment");
    assert_refused("{'action': 'snapshot'}", "found a trace entry");
}

static void other_file_types_are_detected_by_their_first_bytes(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size_bytes;
        const char *words;
    } cases[] = {
        {"", 0, "the file is empty; expected what torch.cuda.memory._dump_snapshot() writes"},
        {" \n ", 3, "white space"},
        {"PK\003\004....", 8, "a zip archive, as torch.save() writes"},
        {"<!DOCTYPE html>", 15, "HTML or XML that begins \"<!DOCTYPE html>\""},
        {"Traceback (most recent call last):", 34, "text that begins \"Traceback (most recent c\""},
        {"\001\002\003\004", 4, "a binary file that begins with the bytes 01 02 03 04"},
        {"\x7f"
         "ELF\002\001\001",
         7, "a binary file that begins with the bytes 7f 45 4c 46"},
        {"{\"segments\": [}", 15, "JSON, line 1, column 15"},
        {"[1", 2, "JSON, line 1"},
        {"{\"segments\": []} []", 19,
         "JSON, line 1, column 18: expected the end of the file, found '['"},
        {"\x80\x04", 2, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__model *model = NULL;
        assert_int_equal(read_bytes(cases[i].bytes, cases[i].size_bytes, 0, &model),
                         VW_ERR_CORRUPT_FILE);
        assert_says(cases[i].words);
    }
}

static void the_memory_limit_is_kept(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static char json[64 + COUNT * 40];
    char *at = json + sprintf(json, "{\"device_traces\":[[");
    for (int i = 0; i < COUNT; i++)
        at += sprintf(at, "%s{\"action\":\"snapshot\"}", i != 0 ? "," : "");
    at += sprintf(at, "]]}");
    vw__model *model = NULL;
    size_t size_bytes = (size_t)(at - json);
    assert_int_equal(read_bytes(json, size_bytes, 1 << 20, &model), VW_ERR_UNSUPPORTED);
    assert_int_equal(read_bytes(json, size_bytes, 200, &model), VW_ERR_UNSUPPORTED);
    assert_int_equal(read_bytes(json, size_bytes, 64 << 20, &model), VW_OK);
    assert_int_equal(model->event_count, COUNT);
    vw__model_destroy(model);
}

static bool read_and_destroy(void *context)
{
    vw__model *model;
    if (read_json(context, &model) != VW_OK)
        return false;
    vw__model_destroy(model);
    return true;
}

static void every_failing_allocation_is_survived_and_nothing_leaks(void **state)
{
    (void)state;
    char text[sizeof of_2_11];
    memcpy(text, of_2_11, sizeof text);
    vw_test_sweep_host_memory(read_and_destroy, text);
}

/* ---- real recordings ------------------------------------------------------------------------- */

/* The number that follows "key": in a JSON text. */
static uint64_t number_in(const char *json, const char *key)
{
    const char *at = strstr(json, key);
    assert_non_null(at);
    return strtoull(at + strlen(key), NULL, 10);
}

static char *text_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

/* What torch's own statistics said when the recording was taken. */
static void compare_with_statistics(const vw__model *model, const char *path)
{
    char *json = text_of(path);
    uint64_t reserved_bytes = 0, allocated_bytes = 0, active_bytes = 0;
    for (size_t i = 0; i < model->segment_count; i++) {
        reserved_bytes += model->segments[i].total_bytes;
        allocated_bytes += model->segments[i].allocated_bytes;
        active_bytes += model->segments[i].active_bytes;
    }
    assert_int_equal(reserved_bytes, number_in(json, "\"reserved_bytes.all.current\":"));
    assert_int_equal(allocated_bytes, number_in(json, "\"allocated_bytes.all.current\":"));
    assert_int_equal(active_bytes, number_in(json, "\"active_bytes.all.current\":"));
    assert_int_equal(model->event_count, number_in(json, "\"events\":"));
    free(json);
}

/* The largest recording has 662,000 events. */
enum { MOST_MODEL_BYTES = 45000000 };

static void read_recording(const char *folder, const char *name, size_t stem_bytes)
{
    char path[4096];
    vw__byte_source *source;
    vw__model *model;
    vw__snapshot_encoding encoding;
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(vw__byte_source_open(path, NULL, &source), VW_OK);
    if (vw__snapshot_read(source, 0, &model, &encoding) != VW_OK)
        fail_msg("%s: %s", name, vw_last_error());
    vw__byte_source_close(source);
    assert_int_equal(encoding, VW__SNAPSHOT_ENCODING_PICKLE);
    uint64_t held_bytes = vw__host_memory_get_use().in_use_bytes - before_bytes;
    assert_in_range(held_bytes, 1, MOST_MODEL_BYTES);
    assert_in_range(vw__model_size_bytes(model), held_bytes * 9 / 10, held_bytes * 11 / 10);
    assert_int_equal(model->ignored_field_count, 0);
    snprintf(path, sizeof path, "%s/%.*s.json", folder, (int)stem_bytes, name);
    compare_with_statistics(model, path);
    vw__model_destroy(model);
}

static void every_recording_of_the_corpus_is_read_and_agrees_with_torchs_statistics(void **state)
{
    (void)state;
    const char *folder = getenv("VRAMWISE_CORPUS");
    if (folder == NULL) {
        print_message("VRAMWISE_CORPUS is not set\n");
        skip();
    }
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    size_t count = 0;
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        const char *ending = strstr(entry->d_name, ".pickle.xz");
        if (ending == NULL)
            continue;
        read_recording(folder, entry->d_name, (size_t)(ending - entry->d_name));
        count++;
    }
    closedir(entries);
    assert_true(count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bare_list_of_1_12_has_addresses_counted_from_the_segment),
        cmocka_unit_test(what_1_13_keeps_in_a_blocks_history_is_found),
        cmocka_unit_test(a_block_of_2_0_has_both_requested_size_and_history),
        cmocka_unit_test(the_segments_of_2_11_are_read_field_by_field),
        cmocka_unit_test(the_trace_of_2_11_is_read_field_by_field),
        cmocka_unit_test(settings_are_kept_as_numbers_and_as_text_in_their_order),
        cmocka_unit_test(annotations_keep_the_files_order),
        cmocka_unit_test(memory_that_left_is_an_annotation_with_numbers_as_text),
        cmocka_unit_test(of_2_14_pools_forward_frames_annotate_and_host_memory_are_read),
        cmocka_unit_test(names_are_cut_to_a_length_and_characters_stay_whole),
        cmocka_unit_test(an_unusual_entry_among_usual_ones_is_read_as_it_is_alone),
        cmocka_unit_test(segments_of_several_devices_are_sorted),
        cmocka_unit_test(a_list_wrapped_by_pytorchs_viewer_script_is_read),
        cmocka_unit_test(none_counts_as_missing_and_unknown_fields_are_counted),
        cmocka_unit_test(empty_snapshots_are_snapshots),
        cmocka_unit_test(a_field_of_the_wrong_type_is_named_with_what_was_expected_and_found),
        cmocka_unit_test(contradictory_sizes_are_refused),
        cmocka_unit_test(other_values_are_refused_by_kind),
        cmocka_unit_test(other_file_types_are_detected_by_their_first_bytes),
        cmocka_unit_test(the_memory_limit_is_kept),
        cmocka_unit_test(every_failing_allocation_is_survived_and_nothing_leaks),
        cmocka_unit_test(every_recording_of_the_corpus_is_read_and_agrees_with_torchs_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
