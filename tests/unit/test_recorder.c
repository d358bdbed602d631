/* test_recorder.c - what a recorder keeps, and what it does when it cannot. */
#include "vramwise/recording.h"

#include <sys/wait.h>
#include <unistd.h>

#include "base/byte_buffer.h"
#include "base/clock.h"
#include "base/host_memory.h"
#include "record/recorder.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/recorder_fixture.h"

static const vw_stack_frame two_frames[2] = {{"forward", "model.py", 7}, {NULL, NULL, 0}};

static uint64_t ten_past(void)
{
    return 10;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void events_are_kept_in_order_with_all_they_say(void **state)
{
    (void)state;
    static const vw__clock clock = {ten_past, ten_past, NULL};
    vw_test_recorded r;
    vw__clock_replace(&clock);
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    vw_device_ptr address;
    vw_test_must(vw_alloc(r.test.pool, 1000, 0x77, &address));
    vw_test_must(vw_free(r.test.pool, address));
    vw__clock_replace(NULL);
    vw__model *model = vw_test_recorded_read(&r);
    static const vw_action actions[] = {VW_ACTION_SEGMENT_ALLOC, VW_ACTION_ALLOC,
                                        VW_ACTION_FREE_REQUESTED, VW_ACTION_FREE_COMPLETED};
    assert_int_equal(model->traces[0].event_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const vw__model_event *event = vw_test_event_at(model, i);
        assert_int_equal(event->action, actions[i]);
        assert_int_equal(event->address, address);
        assert_int_equal(event->size_bytes, i == 0 ? 2 * VW_TEST_MIB : 1000);
        assert_int_equal(event->time_us, 10);
        assert_int_equal(model->streams[event->stream], 0x77);
    }
    assert_int_equal(model->segment_count, 1);
    assert_int_equal(model->segments[0].total_bytes, 2 * VW_TEST_MIB);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void the_newest_are_kept_and_the_rest_is_counted(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open(
        &r, &(vw_recorder_options){.struct_size = sizeof(vw_recorder_options), .max_entries = 5},
        NULL);
    assert_true(vw_test_recorded_counts(&r).is_complete);
    vw_device_ptr address = VW_NULL;
    for (uint64_t i = 1; i <= 4; i++) {
        vw_test_must(vw_alloc(r.test.pool, i, 0, &address));
        vw_test_must(vw_free(r.test.pool, address));
    }
    vw_recorder_counts counts = vw_test_recorded_counts(&r);
    assert_int_equal(counts.seen_count, 1 + 4 * 3);
    assert_int_equal(counts.kept_count, 5);
    assert_int_equal(counts.overwritten_count, 8);
    assert_int_equal(counts.lost_count, 0);
    assert_false(counts.is_complete);
    vw__model *model = vw_test_recorded_read(&r);
    assert_int_equal(model->traces[0].event_count, 5);
    assert_int_equal(vw_test_event_at(model, 0)->size_bytes, 3);
    assert_int_equal(vw_test_event_at(model, 4)->size_bytes, 4);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void clearing_forgets_events_and_begins_anew_only_with_an_empty_pool(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    vw_device_ptr address = vw_test_alloc(&r.test, 1000);
    vw_test_must(vw_recorder_clear(r.recorder));
    assert_int_equal(vw_test_recorded_counts(&r).seen_count, 0);
    assert_false(vw_test_recorded_counts(&r).is_complete);
    vw_test_recorded_close(&r);

    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    address = vw_test_alloc(&r.test, 1000);
    vw_test_free(&r.test, address);
    vw_test_trim(&r.test);
    vw_test_must(vw_recorder_clear(r.recorder));
    assert_true(vw_test_recorded_counts(&r).is_complete);
    vw_test_recorded_close(&r);
}

static void a_snapshot_shows_in_later_ones_only(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    vw_test_alloc(&r.test, 1000);
    vw__model *first = vw_test_recorded_read(&r), *second = vw_test_recorded_read(&r);
    assert_int_equal(first->traces[0].event_count, 2);
    assert_int_equal(second->traces[0].event_count, 3);
    assert_int_equal(vw_test_event_at(second, 2)->action, VW_ACTION_SNAPSHOT);
    assert_int_equal(vw_test_event_at(second, 2)->size_bytes, 1024);
    vw__model_destroy(first);
    vw__model_destroy(second);
    vw_test_recorded_close(&r);
}

static void a_pool_that_holds_nothing_can_be_written(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    vw__model *model = vw_test_recorded_read(&r);
    assert_int_equal(model->segment_count, 0);
    assert_int_equal(model->traces[0].event_count, 0);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

/* ---- misuse ---------------------------------------------------------------------------------- */

static void a_recorder_listens_to_one_pool_and_writes_that_one(void **state)
{
    (void)state;
    vw_test_recorded r, other;
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    vw_test_recorded_open_stacks(&other, VW_STACKS_NONE);
    vw__byte_buffer file;
    vw__byte_buffer_init(&file);
    assert_int_equal(vw_recorder_attach(r.recorder, other.test.pool), VW_ERR_WRONG_STATE);
    assert_int_equal(vw_recorder_write_to(r.recorder, other.test.pool, vw_test_append, &file),
                     VW_ERR_WRONG_STATE);
    assert_int_equal(file.size_bytes, 0);
    vw_test_must(vw_recorder_detach(r.recorder));
    assert_int_equal(vw_recorder_detach(r.recorder), VW_ERR_WRONG_STATE);
    vw_test_alloc(&r.test, 1000); /* nobody listens */
    assert_int_equal(vw_test_recorded_counts(&r).seen_count, 0);
    vw_test_must(vw_recorder_attach(r.recorder, r.test.pool));
    assert_false(vw_test_recorded_counts(&r).is_complete); /* the pool was in use already */
    vw_test_recorded_close(&other);
    vw_test_recorded_close(&r);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    vw_recorder *recorder = NULL;
    vw_recorder_options options = {.struct_size = sizeof options};
    vw_test_recorded r;
    uint64_t tag = 5;
    assert_int_equal(vw_recorder_create(NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    options.most_frames = VW_RECORDER_MOST_FRAMES + 1;
    assert_int_equal(vw_recorder_create(&options, &recorder), VW_ERR_INVALID_ARGUMENT);
    options.most_frames = VW_RECORDER_MOST_FRAMES;
    options.stacks = (vw_stacks)3;
    assert_int_equal(vw_recorder_create(&options, &recorder), VW_ERR_INVALID_ARGUMENT);
    options.stacks = VW_STACKS_NONE;
    options.struct_size = 1;
    assert_int_equal(vw_recorder_create(&options, &recorder), VW_ERR_INVALID_ARGUMENT);
    assert_null(recorder);
    vw_recorder_destroy(NULL);

    vw_test_recorded_open_stacks(&r, VW_STACKS_BACKTRACE);
    assert_int_equal(vw_recorder_add_stack(r.recorder, two_frames, 2, &tag), VW_ERR_WRONG_STATE);
    assert_int_equal(vw_recorder_add_stack(r.recorder, NULL, 1, &tag), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(tag, 5);
    assert_int_equal(vw_recorder_write(r.recorder, r.test.pool, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_recorder_write_to(r.recorder, r.test.pool, NULL, NULL),
                     VW_ERR_INVALID_ARGUMENT);
    vw_test_recorded_close(&r);
}

static void older_programs_get_the_counts_they_know(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    vw_test_alloc(&r.test, 1000);
    vw_recorder_counts counts = {.kept_count = 77};
    counts.struct_size = offsetof(vw_recorder_counts, kept_count);
    vw_test_must(vw_recorder_get_counts(r.recorder, &counts));
    assert_int_equal(counts.seen_count, 2);
    assert_int_equal(counts.kept_count, 77);
    assert_int_equal(counts.struct_size, offsetof(vw_recorder_counts, kept_count));
    vw_test_recorded_close(&r);
}

/* ---- no host memory -------------------------------------------------------------------------- */

static void an_allocation_does_not_fail_because_it_is_recorded(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_BACKTRACE);
    vw_device_ptr address = vw_test_alloc(&r.test, 1000);
    vw_test_must(
        vw_free(r.test.pool, address)); /* cached from now on: the pool needs no host memory */
    vw_test_must(vw_recorder_detach(r.recorder));
    vw_test_must(vw_recorder_attach(r.recorder, r.test.pool));
    uint64_t before = vw__host_memory_get_use().call_count;
    for (uint64_t nth = 1; nth <= 4; nth++) {
        vw__host_memory_fail_at(nth);
        vw_test_must(vw_alloc(r.test.pool, 1000, 0, &address));
        vw_test_must(vw_free(r.test.pool, address));
        vw__host_memory_fail_at(0);
    }
    assert_true(vw__host_memory_get_use().call_count > before); /* something did fail */
    assert_int_equal(vw_test_recorded_counts(&r).seen_count, 4 * 3);
    vw_test_recorded_close(&r);
}

static void an_event_that_finds_no_room_at_all_is_counted(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_device_ptr address;
    vw_test_pool_open(&r.test, NULL);
    address = vw_test_alloc(&r.test, 1000);
    vw_test_must(vw_recorder_create(NULL, &r.recorder));
    vw_test_must(vw_recorder_attach(r.recorder, r.test.pool));
    vw__host_memory_fail_at(1);
    vw_test_must(
        vw_free(r.test.pool, address)); /* free_requested is lost, free_completed is kept */
    vw_recorder_counts counts = vw_test_recorded_counts(&r);
    assert_int_equal(counts.seen_count, 2);
    assert_int_equal(counts.lost_count, 1);
    assert_int_equal(counts.kept_count, 1);
    vw_test_recorded_close(&r);
}

/* Everything, with any one allocation failing. */
static bool record_and_write(void *context)
{
    vw_recorder_options options = {.struct_size = sizeof options,
                                   .stacks = *(const vw_stacks *)context};
    vw_recorder *recorder = NULL;
    vw_device *device = NULL;
    vw_pool *pool = NULL;
    vw__byte_buffer file;
    vw__byte_buffer_init(&file);
    bool is_done = vw_simulated_device_create(NULL, &device) == VW_OK &&
                   vw_pool_create(device, NULL, &pool) == VW_OK &&
                   vw_recorder_create(&options, &recorder) == VW_OK &&
                   vw_recorder_attach(recorder, pool) == VW_OK;
    for (int i = 0; i < 100 && is_done; i++) {
        vw_alloc_request request = {.struct_size = sizeof request, .size_bytes = 5000};
        vw_device_ptr address;
        if (options.stacks == VW_STACKS_CALLER)
            assert_int_equal(vw_recorder_add_stack(recorder, two_frames, 2, &request.tag), VW_OK);
        is_done = vw_alloc_with(pool, &request, &address) == VW_OK;
    }
    if (is_done)
        vw_recorder_note_spill(recorder, &(vw_spill_report){.moved_bytes = 1, .moved_handles = 1});
    is_done = is_done && vw_recorder_write_to(recorder, pool, vw_test_append, &file) == VW_OK;
    vw__byte_buffer_deinit(&file);
    vw_recorder_destroy(recorder);
    vw_pool_destroy(pool);
    vw_device_destroy(device);
    return is_done;
}

static void who_is_no_longer_the_listener_cannot_be_written(void **state)
{
    (void)state;
    for (int is_replaced = 0; is_replaced < 2; is_replaced++) {
        vw_test_recorded r;
        vw_recorder *successor = NULL;
        vw__byte_buffer file;
        vw__byte_buffer_init(&file);
        vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
        vw_test_recorded_alloc(&r, 512, 0);
        vw_test_must(vw_recorder_create(NULL, &successor));
        vw_test_must(is_replaced ? vw_recorder_attach(successor, r.test.pool)
                                 : vw_pool_set_sink(r.test.pool, NULL));
        vw_test_recorded_alloc(&r, 512, 0);
        assert_int_equal(vw_recorder_write_to(r.recorder, r.test.pool, vw_test_append, &file),
                         VW_ERR_WRONG_STATE);
        assert_int_equal(file.size_bytes, 0);
        vw__byte_buffer_deinit(&file);
        vw_recorder_destroy(successor);
        vw_test_recorded_close(&r);
    }
}

static void the_end_of_one_that_was_replaced_leaves_its_successor_listening(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_NONE);
    vw_recorder *replaced = r.recorder;
    vw_test_must(vw_recorder_create(NULL, &r.recorder));
    vw_test_must(vw_recorder_attach(r.recorder, r.test.pool));
    vw_recorder_destroy(replaced);
    vw_test_recorded_alloc(&r, 512, 0);
    assert_int_equal(vw_test_recorded_counts(&r).seen_count, 2); /* the segment, and the block */
    vw_test_recorded_close(&r);
}

/* The fork found another thread in the middle of a call. */
static void in_a_child_nothing_waits_for_the_parents_recorder(void **state)
{
    (void)state;
    vw_test_recorded r;
    int ended = 0;
    vw_test_recorded_open_stacks(&r, VW_STACKS_CALLER);
    vw__mutex_lock(&r.recorder->lock);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        vw_recorder_counts counts = {.struct_size = sizeof counts};
        uint64_t tag;
        alarm(20);
        vw__mutex_unlock(&r.recorder->lock); /* this thread may take it; no other will give it */
        vw__mutex_lock(&r.recorder->stack_lock);
        bool is_refused =
            vw_recorder_detach(r.recorder) == VW_ERR_WRONG_PROCESS &&
            vw_recorder_attach(r.recorder, r.test.pool) == VW_ERR_WRONG_PROCESS &&
            vw_recorder_clear(r.recorder) == VW_ERR_WRONG_PROCESS &&
            vw_recorder_get_counts(r.recorder, &counts) == VW_ERR_WRONG_PROCESS &&
            vw_recorder_add_stack(r.recorder, two_frames, 2, &tag) == VW_ERR_WRONG_PROCESS &&
            vw_recorder_write_fd(r.recorder, r.test.pool, 1) == VW_ERR_WRONG_PROCESS;
        vw_recorder_note_spill(r.recorder, &(vw_spill_report){.moved_bytes = 1});
        vw_recorder_destroy(r.recorder);
        _exit(is_refused ? 0 : 1);
    }
    vw__mutex_unlock(&r.recorder->lock);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
    vw_test_recorded_close(&r);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    for (vw_stacks stacks = VW_STACKS_NONE; stacks <= VW_STACKS_CALLER; stacks++)
        vw_test_sweep_host_memory(record_and_write, &stacks);
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
        cmocka_unit_test(who_is_no_longer_the_listener_cannot_be_written),
        cmocka_unit_test(the_end_of_one_that_was_replaced_leaves_its_successor_listening),
        cmocka_unit_test(in_a_child_nothing_waits_for_the_parents_recorder),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
