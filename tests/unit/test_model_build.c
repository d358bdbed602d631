/* test_model_build.c - what repeats is stored once, what must be kept apart is, and limits hold. */
#include "model/model_build.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "base/host_memory.h"

#define LIMIT_BYTES ((size_t)64 << 20)

static vw__model_builder *new_builder(size_t limit_bytes)
{
    vw__model_builder *builder = NULL;
    assert_int_equal(vw__model_builder_create(limit_bytes, &builder), VW_OK);
    return builder;
}

static uint32_t string_id(vw__model_builder *builder, const char *text)
{
    uint32_t id;
    assert_int_equal(vw__model_add_string(builder, text, strlen(text), &id), VW_OK);
    return id;
}

static uint32_t frame_id(vw__model_builder *builder, const char *name, uint32_t line)
{
    vw__model_frame frame = {string_id(builder, name), string_id(builder, "train.py"), line};
    uint32_t id;
    assert_int_equal(vw__model_add_frame(builder, &frame, &id), VW_OK);
    return id;
}

static uint32_t stack_id(vw__model_builder *builder, const uint32_t *frames, size_t count)
{
    uint32_t id;
    assert_int_equal(vw__model_add_stack(builder, frames, count, &id), VW_OK);
    return id;
}

static vw__model_event event_at(uint64_t address)
{
    return (vw__model_event){
        .address = address,
        .size_bytes = 512,
        .time_us = VW__MODEL_UNKNOWN_TIME,
        .context = VW__MODEL_NO_CONTEXT,
        .note = VW__MODEL_NO_NOTE,
        .pool = VW__MODEL_UNKNOWN_POOL,
    };
}

static size_t add_event(vw__model_builder *builder, uint64_t address)
{
    vw__model_event event = event_at(address);
    size_t index = SIZE_MAX;
    assert_int_equal(vw__model_add_event(builder, &event, &index), VW_OK);
    return index;
}

static void add_segment(vw__model_builder *builder, int device, uint64_t address)
{
    vw__model_segment segment = {
        .address = address,
        .total_bytes = 512,
        .context = VW__MODEL_NO_CONTEXT,
        .device = device,
        .pool = VW__MODEL_UNKNOWN_POOL,
    };
    assert_int_equal(vw__model_add_segment(builder, &segment), VW_OK);
}

static vw__model *finished(vw__model_builder *builder)
{
    vw__model *model = NULL;
    assert_int_equal(vw__model_finish(builder, &model), VW_OK);
    assert_non_null(model);
    return model;
}

/* ---- what is stored once --------------------------------------------------------------------- */

static void an_empty_builder_makes_an_empty_model_with_the_fixed_entries(void **state)
{
    (void)state;
    vw__model *model = finished(new_builder(LIMIT_BYTES));
    assert_int_equal(model->stack_count, 1);
    assert_int_equal(model->stacks[VW__MODEL_EMPTY_STACK].count, 0);
    assert_int_equal(model->pool_count, 1);
    assert_int_equal(model->stream_count, 1);
    assert_int_equal(model->streams[0], 0);
    assert_int_equal(model->trace_count, 0);
    assert_int_equal(model->segment_count, 0);
    assert_int_equal(model->settings.conf, VW__MODEL_NO_STRING);
    assert_int_equal(model->settings.max_split_size, -1);
    assert_null(vw__model_trace_of(model, 0));
    assert_string_equal(vw__model_string(model, VW__MODEL_NO_STRING), "");
    assert_int_equal(vw__model_stack_of(model, VW__MODEL_NO_CONTEXT).count, 0);
    vw__model_destroy(model);
}

static void equal_things_have_one_id_and_different_ones_two(void **state)
{
    (void)state;
    vw__model_builder *builder = new_builder(LIMIT_BYTES);
    uint32_t outer = frame_id(builder, "main", 1), inner = frame_id(builder, "step", 2);
    assert_int_equal(frame_id(builder, "main", 1), outer);
    assert_int_not_equal(frame_id(builder, "main", 2), outer);

    const uint32_t one_way[] = {inner, outer}, other_way[] = {outer, inner};
    uint32_t stack = stack_id(builder, one_way, 2);
    assert_int_equal(stack_id(builder, one_way, 2), stack);
    assert_int_not_equal(stack_id(builder, other_way, 2), stack);
    assert_int_not_equal(stack_id(builder, one_way, 1), stack);
    assert_int_equal(stack_id(builder, NULL, 0), VW__MODEL_EMPTY_STACK);

    uint16_t streams[3], pools[3];
    assert_int_equal(vw__model_add_stream(builder, 7, &streams[0]), VW_OK);
    assert_int_equal(vw__model_add_stream(builder, 8, &streams[1]), VW_OK);
    assert_int_equal(vw__model_add_stream(builder, 7, &streams[2]), VW_OK);
    assert_int_equal(streams[0], streams[2]);
    assert_int_not_equal(streams[0], streams[1]);
    assert_int_equal(vw__model_add_pool(builder, (vw_private_id){0, 1}, &pools[0]), VW_OK);
    assert_int_equal(vw__model_add_pool(builder, (vw_private_id){1, 0}, &pools[1]), VW_OK);
    assert_int_equal(vw__model_add_pool(builder, (vw_private_id){0, 0}, &pools[2]), VW_OK);
    assert_int_not_equal(pools[0], pools[1]);
    assert_int_equal(pools[2], VW__MODEL_DEFAULT_POOL);

    vw__model_note note = {VW__MODEL_NO_STRING, string_id(builder, "1/0"), VW__MODEL_NO_STRING,
                           stack};
    uint32_t notes[3];
    assert_int_equal(vw__model_add_note(builder, &note, &notes[0]), VW_OK);
    assert_int_equal(vw__model_add_note(builder, &note, &notes[1]), VW_OK);
    note.forward_stack = VW__MODEL_EMPTY_STACK;
    assert_int_equal(vw__model_add_note(builder, &note, &notes[2]), VW_OK);
    assert_int_equal(notes[0], notes[1]);
    assert_int_not_equal(notes[0], notes[2]);

    vw__model *model = finished(builder);
    vw__model_stack found = model->stacks[stack];
    assert_int_equal(found.count, 2);
    const vw__model_frame *innermost = &model->frames[model->frame_ids[found.first]];
    assert_string_equal(vw__model_string(model, innermost->name), "step");
    assert_string_equal(vw__model_string(model, innermost->filename), "train.py");
    assert_int_equal(innermost->line, 2);
    vw__model_destroy(model);
}

static void ten_thousand_frames_are_all_found_again(void **state)
{
    (void)state;
    vw__model_builder *builder = new_builder(LIMIT_BYTES);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(frame_id(builder, "f", i), i);
    for (uint32_t i = 0; i < 10000; i++)
        assert_int_equal(frame_id(builder, "f", i), i);
    vw__model_builder_destroy(builder);
}

static void two_captures_of_one_stack_are_two_contexts(void **state)
{
    (void)state;
    vw__model_builder *builder = new_builder(LIMIT_BYTES);
    const uint32_t frames[] = {frame_id(builder, "main", 1)};
    uint32_t stack = stack_id(builder, frames, 1), contexts[2];
    assert_int_equal(vw__model_begin_context(builder, stack, &contexts[0]), VW_OK);
    assert_int_equal(vw__model_begin_context(builder, stack, &contexts[1]), VW_OK);
    assert_int_not_equal(contexts[0], contexts[1]);
    vw__model *model = finished(builder);
    assert_int_equal(vw__model_stack_of(model, contexts[1]).count, 1);
    assert_int_equal(vw__model_stack_of(model, contexts[0]).first,
                     vw__model_stack_of(model, contexts[1]).first);
    vw__model_destroy(model);
}

/* ---- traces and segments --------------------------------------------------------------------- */

static void traces_are_runs_of_one_list_and_sorted_by_device_with_the_host_last(void **state)
{
    (void)state;
    vw__model_builder *builder = new_builder(LIMIT_BYTES);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(add_event(builder, i), i);
    assert_int_equal(vw__model_builder_event(builder, 999)->address, 999);
    assert_int_equal(vw__model_builder_event_count(builder), 1000);
    assert_int_equal(vw__model_add_trace(builder, VW__MODEL_HOST_DEVICE, 0, 10), VW_OK);
    assert_int_equal(vw__model_add_trace(builder, 1, 10, 990), VW_OK);
    assert_int_equal(vw__model_add_trace(builder, 0, 1000, 0), VW_OK);
    assert_int_equal(vw__model_add_trace(builder, 2, 0, 1001), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw__model_add_trace(builder, 2, SIZE_MAX, 2), VW_ERR_INVALID_ARGUMENT);
    vw__model *model = finished(builder);
    assert_int_equal(model->trace_count, 3);
    assert_int_equal(model->traces[0].device, 0);
    assert_int_equal(model->traces[0].event_count, 0);
    assert_int_equal(model->traces[1].device, 1);
    assert_int_equal(model->traces[1].events[0].address, 10);
    assert_int_equal(model->traces[1].events[989].address, 999);
    assert_ptr_equal(vw__model_trace_of(model, VW__MODEL_HOST_DEVICE), &model->traces[2]);
    vw__model_destroy(model);
}

static void two_traces_of_a_device_are_refused_and_the_builder_stays(void **state)
{
    (void)state;
    vw__model_builder *builder = new_builder(LIMIT_BYTES);
    vw__model *model = NULL;
    assert_int_equal(vw__model_add_trace(builder, 3, 0, 0), VW_OK);
    assert_int_equal(vw__model_add_trace(builder, 3, 0, 0), VW_OK);
    assert_int_equal(vw__model_finish(builder, &model), VW_ERR_CORRUPT_FILE);
    assert_null(model);
    assert_non_null(strstr(vw_last_error(), "device 3"));
    add_event(builder, 1); /* it is still there */
    vw__model_builder_destroy(builder);
}

static void segments_come_out_by_device_and_address_whatever_their_order(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    vw__model_builder *builder = new_builder(LIMIT_BYTES);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t shuffled = i * 1237 % COUNT; /* no common divisor: a permutation */
        add_segment(builder, (int)(shuffled % 4) - 1, 0x10000 + shuffled * 512);
    }
    vw__model *model = finished(builder);
    assert_int_equal(model->segment_count, COUNT);
    for (size_t i = 1; i < COUNT; i++) {
        const vw__model_segment *a = &model->segments[i - 1], *b = &model->segments[i];
        assert_true((unsigned)a->device < (unsigned)b->device ||
                    (a->device == b->device && a->address < b->address));
    }
    assert_int_equal(model->segments[COUNT - 1].device, VW__MODEL_HOST_DEVICE);
    vw__model_destroy(model);
}

static void settings_annotations_and_features_are_handed_over(void **state)
{
    (void)state;
    vw__model_builder *builder = new_builder(LIMIT_BYTES);
    assert_int_equal(vw__model_add_setting(builder, "max_split_size", "-1"), VW_OK);
    assert_int_equal(vw__model_add_setting(builder, "expandable_segments", "True"), VW_OK);
    vw__model_builder_settings(builder)->is_known = true;
    vw__model_builder_features(builder)->has_times = true;
    vw__model_annotation annotation = {.time_us = 7, .name = string_id(builder, "step")};
    assert_int_equal(vw__model_add_annotation(builder, &annotation), VW_OK);
    vw__model_ignore_field(builder, "new_in_3_0!", 10);
    vw__model_ignore_field(builder, "another", 7);
    vw__model *model = finished(builder);
    assert_int_equal(model->settings.entry_count, 2);
    assert_string_equal(vw__model_string(model, model->settings.entries[1].key),
                        "expandable_segments");
    assert_string_equal(vw__model_string(model, model->settings.entries[1].value), "True");
    assert_true(model->settings.is_known);
    assert_true(model->features.has_times);
    assert_int_equal(model->annotation_count, 1);
    assert_int_equal(model->ignored_field_count, 2);
    assert_string_equal(model->first_ignored_field, "new_in_3_0");
    vw__model_destroy(model);
}

static void actions_have_the_names_that_pytorch_writes(void **state)
{
    (void)state;
    assert_string_equal(vw__model_action_name(VW_ACTION_ALLOC), "alloc");
    assert_string_equal(vw__model_action_name(VW_ACTION_SEGMENT_UNMAP), "segment_unmap");
    assert_string_equal(vw__model_action_name(VW_ACTION_OOM), "oom");
    assert_string_equal(vw__model_action_name(VW__MODEL_ACTION_ANNOTATE), "annotate");
    assert_string_equal(vw__model_action_name(VW__MODEL_ACTION_OTHER), "other");
    assert_string_equal(vw__model_action_name(1000), "other");
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void memory_beyond_the_limit_is_refused_and_what_was_there_is_kept(void **state)
{
    (void)state;
    enum { SMALL_LIMIT = 1 << 20 };
    vw__model_builder *builder = new_builder(SMALL_LIMIT);
    vw__model_event event = event_at(0);
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    vw_status status = VW_OK;
    size_t count = 0, index;
    while (status == VW_OK && count < 1000000) {
        status = vw__model_add_event(builder, &event, &index);
        count += status == VW_OK;
    }
    assert_int_equal(status, VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "events"));
    assert_true(vw__host_memory_get_use().in_use_bytes - before_bytes <= SMALL_LIMIT);
    assert_int_equal(vw__model_builder_event_count(builder), count);
    vw__model *model = finished(builder);
    assert_int_equal(model->event_count, count);
    vw__model_destroy(model);
}

static void strings_beyond_the_limit_are_refused(void **state)
{
    (void)state;
    vw__model_builder *builder = new_builder(1 << 20);
    char text[1000];
    vw_status status = VW_OK;
    uint32_t id = 0;
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 2000 && status == VW_OK; i++) {
        snprintf(text, 12, "%d", i);
        status = vw__model_add_string(builder, text, sizeof text, &id);
    }
    assert_int_equal(status, VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "strings"));
    vw__model_builder_destroy(builder);
}

static void streams_beyond_16_bits_are_refused(void **state)
{
    (void)state;
    vw__model_builder *builder = new_builder(LIMIT_BYTES);
    uint16_t id = 0;
    vw_status status = VW_OK;
    uint64_t stream = 0;
    for (; status == VW_OK && stream < 70000; stream++)
        status = vw__model_add_stream(builder, stream, &id);
    assert_int_equal(status, VW_ERR_UNSUPPORTED);
    assert_non_null(strstr(vw_last_error(), "65535 streams"));
    assert_int_equal(vw__model_add_stream(builder, 65534, &id), VW_OK);
    assert_int_equal(id, 65534);
    vw__model_builder_destroy(builder);
}

static void a_finished_model_holds_what_it_says(void **state)
{
    (void)state;
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    vw__model_builder *builder = new_builder(LIMIT_BYTES);
    for (uint64_t i = 0; i < 100000; i++)
        add_event(builder, i);
    vw__model *model = finished(builder);
    uint64_t held_bytes = vw__host_memory_get_use().in_use_bytes - before_bytes;
    assert_in_range(held_bytes, 100000 * sizeof(vw__model_event), 100000 * 41);
    assert_in_range(vw__model_size_bytes(model), held_bytes * 95 / 100, held_bytes * 105 / 100);
    vw__model_destroy(model);
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before_bytes);
}

/* ---- no host memory -------------------------------------------------------------------------- */

static bool build_a_bit_of_everything(vw__model_builder *builder)
{
    uint32_t name, frame, stack, context, note;
    uint16_t stream, pool;
    size_t index;
    for (uint32_t i = 0; i < 100; i++) {
        char text[16];
        snprintf(text, sizeof text, "name %u", i);
        if (vw__model_add_string(builder, text, strlen(text), &name) != VW_OK)
            return false;
        vw__model_note words = {VW__MODEL_NO_STRING, name, name, VW__MODEL_EMPTY_STACK};
        vw__model_frame place = {name, name, i};
        vw__model_event event = event_at(i);
        vw__model_block block = {
            .address = i * 512, .size_bytes = 512, .context = VW__MODEL_NO_CONTEXT};
        vw__model_annotation annotation = {.name = name};
        vw__model_segment segment = {.address = 512 * (uint64_t)(100 - i),
                                     .total_bytes = 512,
                                     .context = VW__MODEL_NO_CONTEXT};
        if (vw__model_add_frame(builder, &place, &frame) != VW_OK ||
            vw__model_add_stack(builder, &frame, 1, &stack) != VW_OK ||
            vw__model_begin_context(builder, stack, &context) != VW_OK ||
            vw__model_add_note(builder, &words, &note) != VW_OK ||
            vw__model_add_stream(builder, i, &stream) != VW_OK ||
            vw__model_add_pool(builder, (vw_private_id){i, i}, &pool) != VW_OK ||
            vw__model_add_event(builder, &event, &index) != VW_OK ||
            vw__model_add_block(builder, &block, &index) != VW_OK ||
            vw__model_add_segment(builder, &segment) != VW_OK ||
            vw__model_add_annotation(builder, &annotation) != VW_OK ||
            vw__model_add_setting(builder, text, text) != VW_OK)
            return false;
        vw__model_ignore_field(builder, text, strlen(text));
    }
    return vw__model_add_trace(builder, 0, 0, 100) == VW_OK;
}

static bool build_and_destroy(void *context)
{
    (void)context;
    vw__model_builder *builder;
    vw__model *model;
    if (vw__model_builder_create(LIMIT_BYTES, &builder) != VW_OK)
        return false;
    if (!build_a_bit_of_everything(builder) || vw__model_finish(builder, &model) != VW_OK) {
        vw__model_builder_destroy(builder);
        return false;
    }
    vw__model_destroy(model);
    return true;
}

static void every_failing_allocation_is_survived_and_nothing_leaks(void **state)
{
    (void)state;
    vw_test_sweep_host_memory(build_and_destroy, NULL);
}

static void destroying_nothing_does_nothing(void **state)
{
    (void)state;
    vw__model_builder_destroy(NULL);
    vw__model_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_builder_makes_an_empty_model_with_the_fixed_entries),
        cmocka_unit_test(equal_things_have_one_id_and_different_ones_two),
        cmocka_unit_test(ten_thousand_frames_are_all_found_again),
        cmocka_unit_test(two_captures_of_one_stack_are_two_contexts),
        cmocka_unit_test(traces_are_runs_of_one_list_and_sorted_by_device_with_the_host_last),
        cmocka_unit_test(two_traces_of_a_device_are_refused_and_the_builder_stays),
        cmocka_unit_test(segments_come_out_by_device_and_address_whatever_their_order),
        cmocka_unit_test(settings_annotations_and_features_are_handed_over),
        cmocka_unit_test(actions_have_the_names_that_pytorch_writes),
        cmocka_unit_test(memory_beyond_the_limit_is_refused_and_what_was_there_is_kept),
        cmocka_unit_test(strings_beyond_the_limit_are_refused),
        cmocka_unit_test(streams_beyond_16_bits_are_refused),
        cmocka_unit_test(a_finished_model_holds_what_it_says),
        cmocka_unit_test(every_failing_allocation_is_survived_and_nothing_leaks),
        cmocka_unit_test(destroying_nothing_does_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
