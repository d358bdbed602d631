/* recorder_fixture.c - see recorder_fixture.h. */
#include "support/recorder_fixture.h"

#include "base/byte_buffer.h"
#include "format/torch_snapshot_read.h"
#include "support/cmocka_here.h"

void hr_test_must(hr_status status)
{
    if (status != HR_OK)
        fail_msg("%s: %s", hr_status_name(status), hr_last_error());
}

void hr_test_recorded_open(hr_test_recorded *r, const hr_recorder_options *options,
                           const hr_test_pool_setup *setup)
{
    hr_test_pool_open(&r->test, setup);
    hr_test_must(hr_recorder_create(options, &r->recorder));
    hr_test_must(hr_recorder_attach(r->recorder, r->test.pool));
}

void hr_test_recorded_open_stacks(hr_test_recorded *r, hr_stacks stacks)
{
    const hr_test_pool_setup setup = {.capacity_bytes = 100 * HR_TEST_MIB};
    const hr_recorder_options options = {.struct_size = sizeof options, .stacks = stacks};
    hr_test_recorded_open(r, &options, &setup);
}

void hr_test_recorded_close(hr_test_recorded *r)
{
    hr_recorder_destroy(r->recorder);
    hr_test_pool_close(&r->test);
}

hr_recorder_counts hr_test_recorded_counts(const hr_test_recorded *r)
{
    hr_recorder_counts counts = {.struct_size = sizeof counts};
    hr_test_must(hr_recorder_get_counts(r->recorder, &counts));
    return counts;
}

hr_device_ptr hr_test_recorded_alloc(hr_test_recorded *r, uint64_t size_bytes, uint64_t tag)
{
    const hr_alloc_request request = {
        .struct_size = sizeof request, .size_bytes = size_bytes, .tag = tag};
    hr_device_ptr address;
    hr_test_must(hr_alloc_with(r->test.pool, &request, &address));
    return address;
}

uint64_t hr_test_recorded_tag(hr_test_recorded *r, uint32_t line)
{
    const hr_stack_frame frames[2] = {{"forward", "model.py", 7}, {"main", "train.py", line}};
    uint64_t tag;
    hr_test_must(hr_recorder_add_stack(r->recorder, frames, 2, &tag));
    return tag;
}

bool hr_test_append(void *buffer, const void *bytes, size_t size_bytes)
{
    hr__append_bytes(buffer, bytes, size_bytes);
    return !hr__byte_buffer_has_failed(buffer);
}

hr__model *hr_test_read_snapshot(const void *bytes, size_t size_bytes)
{
    hr__byte_source *source;
    hr__model *model;
    hr__snapshot_encoding encoding;
    hr_test_must(hr__byte_source_open_memory(bytes, size_bytes, NULL, &source));
    hr_test_must(hr__torch_snapshot_read(source, 0, &model, &encoding));
    hr__byte_source_close(source);
    return model;
}

hr__model *hr_test_recorded_read(hr_test_recorded *r)
{
    hr__byte_buffer file;
    hr__byte_buffer_init(&file);
    hr_test_must(hr_recorder_write_to(r->recorder, r->test.pool, hr_test_append, &file));
    hr__model *model = hr_test_read_snapshot(file.bytes, file.size_bytes);
    hr__byte_buffer_deinit(&file);
    return model;
}

const hr__model_event *hr_test_event_at(const hr__model *model, size_t index)
{
    assert_true(model->trace_count != 0 && index < model->traces[0].event_count);
    return &model->traces[0].events[index];
}
