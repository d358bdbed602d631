/* recorder_fixture.c - see recorder_fixture.h. */
#include "support/recorder_fixture.h"

#include "base/byte_buffer.h"
#include "parse/torch_snapshot_read.h"
#include "support/cmocka_here.h"

void vw_test_must(vw_status status)
{
    if (status != VW_OK)
        fail_msg("%s: %s", vw_status_name(status), vw_last_error());
}

void vw_test_recorded_open(vw_test_recorded *r, const vw_recorder_options *options,
                           const vw_test_pool_setup *setup)
{
    vw_test_pool_open(&r->test, setup);
    vw_test_must(vw_recorder_create(options, &r->recorder));
    vw_test_must(vw_recorder_attach(r->recorder, r->test.pool));
}

void vw_test_recorded_open_stacks(vw_test_recorded *r, vw_stacks stacks)
{
    const vw_test_pool_setup setup = {.capacity_bytes = 100 * VW_TEST_MIB};
    const vw_recorder_options options = {.struct_size = sizeof options, .stacks = stacks};
    vw_test_recorded_open(r, &options, &setup);
}

void vw_test_recorded_close(vw_test_recorded *r)
{
    vw_recorder_destroy(r->recorder);
    vw_test_pool_close(&r->test);
}

vw_recorder_counts vw_test_recorded_counts(const vw_test_recorded *r)
{
    vw_recorder_counts counts = {.struct_size = sizeof counts};
    vw_test_must(vw_recorder_get_counts(r->recorder, &counts));
    return counts;
}

vw_device_ptr vw_test_recorded_alloc(vw_test_recorded *r, uint64_t size_bytes, uint64_t tag)
{
    const vw_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = size_bytes, .tag = tag};
    vw_device_ptr address;
    vw_test_must(vw_alloc_with(r->test.pool, &request, &address));
    return address;
}

uint64_t vw_test_recorded_tag(vw_test_recorded *r, uint32_t line)
{
    const vw_stack_frame frames[2] = {{"forward", "model.py", 7}, {"main", "train.py", line}};
    uint64_t tag;
    vw_test_must(vw_recorder_add_stack(r->recorder, frames, 2, &tag));
    return tag;
}

bool vw_test_append(void *buffer, const void *bytes, size_t size_bytes)
{
    vw__append_bytes(buffer, bytes, size_bytes);
    return !vw__byte_buffer_has_failed(buffer);
}

vw__model *vw_test_read_snapshot(const void *bytes, size_t size_bytes)
{
    vw__byte_source *source;
    vw__model *model;
    vw__snapshot_encoding encoding;
    vw_test_must(vw__byte_source_open_memory(bytes, size_bytes, NULL, &source));
    vw_test_must(vw__snapshot_read(source, 0, &model, &encoding));
    vw__byte_source_close(source);
    return model;
}

vw__model *vw_test_recorded_read(vw_test_recorded *r)
{
    vw__byte_buffer file;
    vw__byte_buffer_init(&file);
    vw_test_must(vw_recorder_write_to(r->recorder, r->test.pool, vw_test_append, &file));
    vw__model *model = vw_test_read_snapshot(file.bytes, file.size_bytes);
    vw__byte_buffer_deinit(&file);
    return model;
}

const vw__model_event *vw_test_event_at(const vw__model *model, size_t index)
{
    assert_true(model->trace_count != 0 && index < model->traces[0].event_count);
    return &model->traces[0].events[index];
}
