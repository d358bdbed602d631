/* small_model.c - see small_model.h. */
#include "support/small_model.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"

enum { MOST_FRAMES = 64, MOST_NAME_BYTES = 200, LIMIT_BYTES = 64 << 20 };

void small_model_begin(small_model *small)
{
    uint16_t id;
    *small = (small_model){.time_us = 1000, .us_between = 10};
    assert_int_equal(vw__model_builder_create(LIMIT_BYTES, &small->builder), VW_OK);
    assert_int_equal(vw__model_add_stream(small->builder, 0, &id), VW_OK);
    assert_int_equal(id, 0);
}

static uint32_t add_frame(small_model *small, const char *text)
{
    char function[MOST_NAME_BYTES], file[MOST_NAME_BYTES];
    vw__model_frame frame = {0};
    uint32_t id;
    assert_int_equal(sscanf(text, "%199s %199s %u", function, file, &frame.line), 3);
    assert_int_equal(vw__model_add_string(small->builder, function, strlen(function), &frame.name),
                     VW_OK);
    assert_int_equal(vw__model_add_string(small->builder, file, strlen(file), &frame.filename),
                     VW_OK);
    assert_int_equal(vw__model_add_frame(small->builder, &frame, &id), VW_OK);
    return id;
}

uint32_t small_model_context(small_model *small, const char *stack)
{
    uint32_t frames[MOST_FRAMES], stack_id, context;
    size_t count = 0;
    while (*stack != '\0') {
        assert_true(count < MOST_FRAMES);
        frames[count++] = add_frame(small, stack);
        const char *end = strchr(stack, ';');
        stack = end != NULL ? end + 1 : "";
    }
    assert_int_equal(vw__model_add_stack(small->builder, frames, count, &stack_id), VW_OK);
    assert_int_equal(vw__model_begin_context(small->builder, stack_id, &context), VW_OK);
    return context;
}

size_t small_model_event(small_model *small, unsigned action, uint64_t address, uint64_t size_bytes,
                         uint32_t context)
{
    vw__model_event event = {
        .address = address,
        .size_bytes = size_bytes,
        .time_us = small->time_us,
        .context = context,
        .note = VW__MODEL_NO_NOTE,
        .pool = VW__MODEL_UNKNOWN_POOL,
        .action = (uint8_t)action,
    };
    size_t index;
    assert_int_equal(vw__model_add_event(small->builder, &event, &index), VW_OK);
    small->time_us += small->us_between;
    return small->event_count++;
}

size_t small_model_alloc(small_model *small, uint64_t address, uint64_t size_bytes,
                         uint32_t context)
{
    return small_model_event(small, VW_ACTION_ALLOC, address, size_bytes, context);
}

size_t small_model_free(small_model *small, uint64_t address, uint64_t size_bytes, uint32_t context)
{
    small_model_event(small, VW_ACTION_FREE_REQUESTED, address, size_bytes, context);
    return small_model_event(small, VW_ACTION_FREE_COMPLETED, address, size_bytes, context);
}

void small_model_end_trace(small_model *small, int device)
{
    assert_int_equal(
        vw__model_add_trace(small->builder, device, small->first_event, small->event_count), VW_OK);
    small->first_event += small->event_count;
    small->event_count = 0;
}

static size_t add_block(small_model *small, uint64_t address, uint64_t size_bytes,
                        uint64_t requested_bytes, vw_block_state state, uint32_t context)
{
    vw__model_block block = {
        .address = address,
        .size_bytes = size_bytes,
        .requested_bytes = requested_bytes,
        .context = context,
        .state = (uint8_t)state,
    };
    size_t index;
    assert_int_equal(vw__model_add_block(small->builder, &block, &index), VW_OK);
    return index;
}

void small_model_segment(small_model *small, int device, uint64_t address, uint64_t total_bytes,
                         uint64_t live_bytes, uint32_t context)
{
    uint64_t block_bytes = (live_bytes + 511) / 512 * 512;
    vw__model_segment segment = {
        .address = address,
        .total_bytes = total_bytes,
        .allocated_bytes = block_bytes,
        .active_bytes = block_bytes,
        .requested_bytes = live_bytes,
        .context = VW__MODEL_NO_CONTEXT,
        .device = device,
        .is_large = true,
    };
    size_t first = SIZE_MAX;
    if (live_bytes != 0) {
        first = add_block(small, address, block_bytes, live_bytes, VW_BLOCK_LIVE, context);
        segment.block_count++;
    }
    if (total_bytes > block_bytes) {
        size_t index = add_block(small, address + block_bytes, total_bytes - block_bytes, 0,
                                 VW_BLOCK_FREE, VW__MODEL_NO_CONTEXT);
        first = first != SIZE_MAX ? first : index;
        segment.block_count++;
    }
    segment.first_block = first;
    assert_int_equal(vw__model_add_segment(small->builder, &segment), VW_OK);
}

void small_model_annotate(small_model *small, const char *name, int device, bool is_start,
                          int64_t time_us)
{
    vw__model_annotation annotation = {.time_us = time_us, .device = device, .is_start = is_start};
    assert_int_equal(vw__model_add_string(small->builder, name, strlen(name), &annotation.name),
                     VW_OK);
    assert_int_equal(vw__model_add_annotation(small->builder, &annotation), VW_OK);
}

void small_model_move(small_model *small, int device, bool is_return, vw__model_move move)
{
    const char *name = is_return ? VW_RETURN_ANNOTATION : VW_SPILL_ANNOTATION;
    vw__model_annotation annotation = {
        .time_us = small->time_us, .device = device, .is_start = true, .move = move};
    assert_int_equal(vw__model_add_string(small->builder, name, strlen(name), &annotation.name),
                     VW_OK);
    assert_int_equal(vw__model_add_annotation(small->builder, &annotation), VW_OK);
    small_model_annotate(small, name, device, false, small->time_us);
}

void small_model_set_features(small_model *small)
{
    *vw__model_builder_features(small->builder) = (vw__model_features){
        .has_traces = true,
        .has_block_addresses = true,
        .has_times = true,
        .has_settings = true,
        .has_annotations = true,
        .has_compile_context = true,
        .has_stream_reuse = true,
        .has_user_metadata = true,
        .has_identity = true,
    };
}

vw__model *small_model_finish(small_model *small)
{
    vw__model *model = NULL;
    vw_status status = vw__model_finish(small->builder, &model);
    if (status != VW_OK)
        print_error("%s\n", vw_last_error());
    assert_int_equal(status, VW_OK);
    small->builder = NULL;
    return model;
}
