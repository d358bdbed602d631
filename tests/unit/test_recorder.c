/* test_recorder.c - what a recorder keeps, and what it does when it cannot. */
#include "headroom/recording.h"

#include "base/byte_buffer.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/recorder_fixture.h"

static const hr_stack_frame two_frames[2] = {{"forward", "model.py", 7}, {NULL, NULL, 0}};

static uint64_t ten_past(void)
{
    return 10;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void events_are_kept_in_order_with_all_they_say(void **state)
{
    (void)state;
    static const hr__clock clock = {ten_past, ten_past};
    hr_test_recorded r;
    hr__clock_replace(&clock);
    hr_test_recorded_open_stacks(&r, HR_STACKS_NONE);
    hr_device_ptr address;
    hr_test_must(hr_alloc(r.test.pool, 1000, 0x77, &address));
    hr_test_must(hr_free(r.test.pool, address));
    hr__clock_replace(NULL);
    hr__model *model = hr_test_recorded_read(&r);
    static const hr_action actions[] = {HR_ACTION_SEGMENT_ALLOC, HR_ACTION_ALLOC,
                                        HR_ACTION_FREE_REQUESTED, HR_ACTION_FREE_COMPLETED};
    assert_int_equal(model->traces[0].event_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const hr__model_event *event = hr_test_event_at(model, i);
        assert_int_equal(event->action, actions[i]);
        assert_int_equal(event->address, address);
        assert_int_equal(event->size_bytes, i == 0 ? 2 * HR_TEST_MIB : 1000);
        assert_int_equal(event->time_us, 10);
        assert_int_equal(model->streams[event->stream], 0x77);
    }
    assert_int_equal(model->segment_count, 1);
    assert_int_equal(model->segments[0].total_bytes, 2 * HR_TEST_MIB);
    hr__model_destroy(model);
    hr_test_recorded_close(&r);
}

static void the_newest_are_kept_and_the_rest_is_counted(void **state)
{
    (void)state;
    hr_test_recorded r;
    hr_test_recorded_open(
        &r, &(hr_recorder_options){.struct_size = sizeof(hr_recorder_options), .max_entries = 5},
        NULL);
    assert_true(hr_test_recorded_counts(&r).is_complete);
    hr_device_ptr address = HR_NULL;
    for (uint64_t i = 1; i <= 4; i++) {
        hr_test_must(hr_alloc(r.test.pool, i, 0, &address));
        hr_test_must(hr_free(r.test.pool, address));
    }
    hr_recorder_counts counts = hr_test_recorded_counts(&r);
    assert_int_equal(counts.seen_count, 1 + 4 * 3);
    assert_int_equal(counts.kept_count, 5);
    assert_int_equal(counts.overwritten_count, 8);
    assert_int_equal(counts.lost_count, 0);
    assert_false(counts.is_complete);
    hr__model *model = hr_test_recorded_read(&r);
    assert_int_equal(model->traces[0].event_count, 5);
    assert_int_equal(hr_test_event_at(model, 0)->size_bytes, 3);
    assert_int_equal(hr_test_event_at(model, 4)->size_bytes, 4);
    hr__model_destroy(model);
    hr_test_recorded_close(&r);
}

static void clearing_forgets_events_and_begins_anew_only_with_an_empty_pool(void **state)
{
    (void)state;
    hr_test_recorded r;
    hr_test_recorded_open_stacks(&r, HR_STACKS_NONE);
    hr_device_ptr address = hr_test_alloc(&r.test, 1000);
    hr_test_must(hr_recorder_clear(r.recorder));
    assert_int_equal(hr_test_recorded_counts(&r).seen_count, 0);
    assert_false(hr_test_recorded_counts(&r).is_complete);
    hr_test_recorded_close(&r);

    hr_test_recorded_open_stacks(&r, HR_STACKS_NONE);
    address = hr_test_alloc(&r.test, 1000);
    hr_test_free(&r.test, address);
    hr_test_trim(&r.test);
    hr_test_must(hr_recorder_clear(r.recorder));
    assert_true(hr_test_recorded_counts(&r).is_complete);
    hr_test_recorded_close(&r);
}

static void a_snapshot_shows_in_later_ones_only(void **state)
{
    (void)state;
    hr_test_recorded r;
    hr_test_recorded_open_stacks(&r, HR_STACKS_NONE);
    hr_test_alloc(&r.test, 1000);
    hr__model *first = hr_test_recorded_read(&r), *second = hr_test_recorded_read(&r);
    assert_int_equal(first->traces[0].event_count, 2);
    assert_int_equal(second->traces[0].event_count, 3);
    assert_int_equal(hr_test_event_at(second, 2)->action, HR_ACTION_SNAPSHOT);
    assert_int_equal(hr_test_event_at(second, 2)->size_bytes, 1024);
    hr__model_destroy(first);
    hr__model_destroy(second);
    hr_test_recorded_close(&r);
}

static void a_pool_that_holds_nothing_can_be_written(void **state)
{
    (void)state;
    hr_test_recorded r;
    hr_test_recorded_open_stacks(&r, HR_STACKS_NONE);
    hr__model *model = hr_test_recorded_read(&r);
    assert_int_equal(model->segment_count, 0);
    assert_int_equal(model->traces[0].event_count, 0);
    hr__model_destroy(model);
    hr_test_recorded_close(&r);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static void a_recorder_listens_to_one_pool_and_writes_that_one(void **state)
{
    (void)state;
    hr_test_recorded r, other;
    hr_test_recorded_open_stacks(&r, HR_STACKS_NONE);
    hr_test_recorded_open_stacks(&other, HR_STACKS_NONE);
    hr__byte_buffer file;
    hr__byte_buffer_init(&file);
    assert_int_equal(hr_recorder_attach(r.recorder, other.test.pool), HR_ERR_WRONG_STATE);
    assert_int_equal(hr_recorder_write_to(r.recorder, other.test.pool, hr_test_append, &file),
                     HR_ERR_WRONG_STATE);
    assert_int_equal(file.size_bytes, 0);
    hr_test_must(hr_recorder_detach(r.recorder));
    assert_int_equal(hr_recorder_detach(r.recorder), HR_ERR_WRONG_STATE);
    hr_test_alloc(&r.test, 1000); /* nobody listens */
    assert_int_equal(hr_test_recorded_counts(&r).seen_count, 0);
    hr_test_must(hr_recorder_attach(r.recorder, r.test.pool));
    assert_false(hr_test_recorded_counts(&r).is_complete); /* the pool was in use already */
    hr_test_recorded_close(&other);
    hr_test_recorded_close(&r);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    hr_recorder *recorder = NULL;
    hr_recorder_options options = {.struct_size = sizeof options};
    hr_test_recorded r;
    uint64_t tag = 5;
    assert_int_equal(hr_recorder_create(NULL, NULL), HR_ERR_INVALID_ARGUMENT);
    options.most_frames = HR_RECORDER_MOST_FRAMES + 1;
    assert_int_equal(hr_recorder_create(&options, &recorder), HR_ERR_INVALID_ARGUMENT);
    options.most_frames = HR_RECORDER_MOST_FRAMES;
    options.stacks = (hr_stacks)3;
    assert_int_equal(hr_recorder_create(&options, &recorder), HR_ERR_INVALID_ARGUMENT);
    options.stacks = HR_STACKS_NONE;
    options.struct_size = 1;
    assert_int_equal(hr_recorder_create(&options, &recorder), HR_ERR_INVALID_ARGUMENT);
    assert_null(recorder);
    hr_recorder_destroy(NULL);

    hr_test_recorded_open_stacks(&r, HR_STACKS_BACKTRACE);
    assert_int_equal(hr_recorder_add_stack(r.recorder, two_frames, 2, &tag), HR_ERR_WRONG_STATE);
    assert_int_equal(hr_recorder_add_stack(r.recorder, NULL, 1, &tag), HR_ERR_INVALID_ARGUMENT);
    assert_int_equal(tag, 5);
    assert_int_equal(hr_recorder_write(r.recorder, r.test.pool, NULL), HR_ERR_INVALID_ARGUMENT);
    assert_int_equal(hr_recorder_write_to(r.recorder, r.test.pool, NULL, NULL),
                     HR_ERR_INVALID_ARGUMENT);
    hr_test_recorded_close(&r);
}

static void older_programs_get_the_counts_they_know(void **state)
{
    (void)state;
    hr_test_recorded r;
    hr_test_recorded_open_stacks(&r, HR_STACKS_NONE);
    hr_test_alloc(&r.test, 1000);
    hr_recorder_counts counts = {.kept_count = 77};
    counts.struct_size = offsetof(hr_recorder_counts, kept_count);
    hr_test_must(hr_recorder_get_counts(r.recorder, &counts));
    assert_int_equal(counts.seen_count, 2);
    assert_int_equal(counts.kept_count, 77);
    assert_int_equal(counts.struct_size, offsetof(hr_recorder_counts, kept_count));
    hr_test_recorded_close(&r);
}

/* ---- no host memory -------------------------------------------------------------------------- */

static void an_allocation_does_not_fail_because_it_is_recorded(void **state)
{
    (void)state;
    hr_test_recorded r;
    hr_test_recorded_open_stacks(&r, HR_STACKS_BACKTRACE);
    hr_device_ptr address = hr_test_alloc(&r.test, 1000);
    hr_test_must(
        hr_free(r.test.pool, address)); /* cached from now on: the pool needs no host memory */
    hr_test_must(hr_recorder_detach(r.recorder));
    hr_test_must(hr_recorder_attach(r.recorder, r.test.pool));
    uint64_t before = hr__host_memory_get_use().call_count;
    for (uint64_t nth = 1; nth <= 4; nth++) {
        hr__host_memory_fail_at(nth);
        hr_test_must(hr_alloc(r.test.pool, 1000, 0, &address));
        hr_test_must(hr_free(r.test.pool, address));
        hr__host_memory_fail_at(0);
    }
    assert_true(hr__host_memory_get_use().call_count > before); /* something did fail */
    assert_int_equal(hr_test_recorded_counts(&r).seen_count, 4 * 3);
    hr_test_recorded_close(&r);
}

static void an_event_that_finds_no_room_at_all_is_counted(void **state)
{
    (void)state;
    hr_test_recorded r;
    hr_device_ptr address;
    hr_test_pool_open(&r.test, NULL);
    address = hr_test_alloc(&r.test, 1000);
    hr_test_must(hr_recorder_create(NULL, &r.recorder));
    hr_test_must(hr_recorder_attach(r.recorder, r.test.pool));
    hr__host_memory_fail_at(1);
    hr_test_must(
        hr_free(r.test.pool, address)); /* free_requested is lost, free_completed is kept */
    hr_recorder_counts counts = hr_test_recorded_counts(&r);
    assert_int_equal(counts.seen_count, 2);
    assert_int_equal(counts.lost_count, 1);
    assert_int_equal(counts.kept_count, 1);
    hr_test_recorded_close(&r);
}

/* Everything, with any one allocation failing. */
static bool record_and_write(void *context)
{
    hr_recorder_options options = {.struct_size = sizeof options,
                                   .stacks = *(const hr_stacks *)context};
    hr_recorder *recorder = NULL;
    hr_device *device = NULL;
    hr_pool *pool = NULL;
    hr__byte_buffer file;
    hr__byte_buffer_init(&file);
    bool is_done = hr_simulated_device_create(NULL, &device) == HR_OK &&
                   hr_pool_create(device, NULL, &pool) == HR_OK &&
                   hr_recorder_create(&options, &recorder) == HR_OK &&
                   hr_recorder_attach(recorder, pool) == HR_OK;
    for (int i = 0; i < 100 && is_done; i++) {
        hr_alloc_request request = {.struct_size = sizeof request, .size_bytes = 5000};
        hr_device_ptr address;
        if (options.stacks == HR_STACKS_CALLER)
            assert_int_equal(hr_recorder_add_stack(recorder, two_frames, 2, &request.tag), HR_OK);
        is_done = hr_alloc_with(pool, &request, &address) == HR_OK;
    }
    if (is_done)
        hr_recorder_note_spill(recorder, &(hr_spill_report){.moved_bytes = 1, .moved_handles = 1});
    is_done = is_done && hr_recorder_write_to(recorder, pool, hr_test_append, &file) == HR_OK;
    hr__byte_buffer_deinit(&file);
    hr_recorder_destroy(recorder);
    hr_pool_destroy(pool);
    hr_device_destroy(device);
    return is_done;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    for (hr_stacks stacks = HR_STACKS_NONE; stacks <= HR_STACKS_CALLER; stacks++)
        hr_test_sweep_host_memory(record_and_write, &stacks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_kept_in_order_with_all_they_say),
        cmocka_unit_test(the_newest_are_kept_and_the_rest_is_counted),
        cmocka_unit_test(clearing_forgets_events_and_begins_anew_only_with_an_empty_pool),
        cmocka_unit_test(a_snapshot_shows_in_later_ones_only),
        cmocka_unit_test(a_pool_that_holds_nothing_can_be_written),
        cmocka_unit_test(a_recorder_listens_to_one_pool_and_writes_that_one),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(older_programs_get_the_counts_they_know),
        cmocka_unit_test(an_allocation_does_not_fail_because_it_is_recorded),
        cmocka_unit_test(an_event_that_finds_no_room_at_all_is_counted),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
