/* test_recorder_contexts.c - which events share a context, and what stack it has.
 *
 * Recordings are written to memory and read back by the reader of files, so that what is compared
 * is what a user of the file sees. */
#include "vramwise/recording.h"

#include "support/cmocka_here.h"
#include "support/recorder_fixture.h"

static const vw__model_frame *frame_of(const vw__model *model, uint32_t context, uint32_t index)
{
    vw__model_stack stack = vw__model_stack_of(model, context);
    assert_true(index < stack.count);
    return &model->frames[model->frame_ids[stack.first + index]];
}

static void requests_at_one_place_share_a_stack_and_not_a_context(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_CALLER);
    vw_device_ptr address = vw_test_recorded_alloc(&r, 1000, vw_test_recorded_tag(&r, 3));
    vw_test_recorded_alloc(&r, 1000, vw_test_recorded_tag(&r, 3));
    vw_test_must(vw_free(r.test.pool, address));
    assert_int_equal(vw_test_recorded_counts(&r).stack_count, 1);
    vw__model *model = vw_test_recorded_read(&r);
    /* segment_alloc, alloc; alloc; free_requested, free_completed */
    uint32_t first = vw_test_event_at(model, 0)->context,
             second = vw_test_event_at(model, 2)->context;
    assert_int_equal(vw_test_event_at(model, 1)->context, first);
    assert_int_equal(vw_test_event_at(model, 3)->context, first);
    assert_int_equal(vw_test_event_at(model, 4)->context, first);
    assert_int_not_equal(second, first);
    assert_int_equal(model->contexts[first], model->contexts[second]);
    const vw__model_frame *frame = frame_of(model, second, 1);
    assert_string_equal(vw__model_string(model, frame->name), "main");
    assert_string_equal(vw__model_string(model, frame->filename), "train.py");
    assert_int_equal(frame->line, 3);
    assert_int_equal(frame_of(model, second, 0)->line, 7);
    assert_int_equal(model->blocks[1].context, second);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void a_segment_has_the_context_of_the_request_that_made_it(void **state)
{
    (void)state;
    for (vw_stacks stacks = VW_STACKS_BACKTRACE; stacks <= VW_STACKS_CALLER; stacks++) {
        vw_test_recorded r;
        vw_test_recorded_open_stacks(&r, stacks);
        vw_test_recorded_alloc(&r, 60 * VW_TEST_MIB,
                               stacks == VW_STACKS_CALLER ? vw_test_recorded_tag(&r, 1) : 0);
        vw__model *model = vw_test_recorded_read(&r);
        uint32_t context = vw_test_event_at(model, 0)->context;
        assert_true(vw__model_stack_of(model, context).count >= 2);
        assert_int_equal(vw_test_event_at(model, 1)->context, context);
        assert_int_equal(model->segments[0].context, context);
        assert_int_equal(model->blocks[0].context, context);
        vw__model_destroy(model);
        vw_test_recorded_close(&r);
    }
}

/* 60 MiB are made and given back by a trim; made again, and given back by a request that needs more
 * than there is. */
static void release_in_both_ways(vw_test_recorded *r, bool is_tagged)
{
    vw_device_ptr address =
        vw_test_recorded_alloc(r, 60 * VW_TEST_MIB, is_tagged ? vw_test_recorded_tag(r, 1) : 0);
    vw_test_must(vw_free(r->test.pool, address));
    vw_test_must(vw_pool_trim(r->test.pool));
    address =
        vw_test_recorded_alloc(r, 60 * VW_TEST_MIB, is_tagged ? vw_test_recorded_tag(r, 2) : 0);
    vw_test_must(vw_free(r->test.pool, address));
    vw_test_recorded_alloc(r, 80 * VW_TEST_MIB, is_tagged ? vw_test_recorded_tag(r, 3) : 0);
}

static void what_a_trim_gives_back_shares_no_context_with_the_next_request(void **state)
{
    (void)state;
    for (vw_stacks stacks = VW_STACKS_NONE; stacks <= VW_STACKS_CALLER; stacks++) {
        vw_test_recorded r;
        vw_test_recorded_open_stacks(&r, stacks);
        release_in_both_ways(&r, stacks == VW_STACKS_CALLER);
        vw__model *model = vw_test_recorded_read(&r);
        /* 0 segment_alloc 1 alloc 2 3 free 4 segment_free | 5 segment_alloc 6 alloc 7 8 free
         * 9 segment_free 10 segment_alloc 11 alloc */
        assert_int_equal(model->traces[0].event_count, 12);
        assert_int_equal(vw_test_event_at(model, 4)->action, VW_ACTION_SEGMENT_FREE);
        assert_int_equal(vw_test_event_at(model, 9)->action, VW_ACTION_SEGMENT_FREE);
        uint32_t first = vw_test_event_at(model, 1)->context,
                 second = vw_test_event_at(model, 6)->context;
        uint32_t third = vw_test_event_at(model, 11)->context;
        assert_true(first != VW__MODEL_NO_CONTEXT && second != VW__MODEL_NO_CONTEXT);
        assert_true(first != second && second != third && first != third);
        assert_int_equal(vw_test_event_at(model, 0)->context, first);
        assert_int_equal(vw_test_event_at(model, 5)->context, second);
        assert_int_not_equal(vw_test_event_at(model, 4)->context, second);
        assert_int_equal(vw_test_event_at(model, 9)->context, third);
        assert_int_equal(vw_test_event_at(model, 10)->context, third);
        vw__model_destroy(model);
        vw_test_recorded_close(&r);
    }
}

static void what_an_untagged_request_gives_back_has_its_context(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_CALLER);
    vw_device_ptr address =
        vw_test_recorded_alloc(&r, 60 * VW_TEST_MIB, vw_test_recorded_tag(&r, 1));
    vw_test_must(vw_free(r.test.pool, address));
    vw_test_recorded_alloc(&r, 80 * VW_TEST_MIB, 0);
    vw__model *model = vw_test_recorded_read(&r);
    /* 0 segment_alloc 1 alloc 2 3 free | 4 segment_free 5 segment_alloc 6 alloc */
    uint32_t first = vw_test_event_at(model, 0)->context;
    uint32_t second = vw_test_event_at(model, 6)->context;
    assert_true(second != VW__MODEL_NO_CONTEXT && second != first);
    assert_int_equal(vw_test_event_at(model, 4)->action, VW_ACTION_SEGMENT_FREE);
    assert_int_equal(vw_test_event_at(model, 4)->context, second);
    assert_int_equal(vw_test_event_at(model, 5)->context, second);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void what_a_trim_gives_back_shows_who_made_it_or_who_asked(void **state)
{
    (void)state;
    for (vw_stacks stacks = VW_STACKS_NONE; stacks <= VW_STACKS_CALLER; stacks++) {
        vw_test_recorded r;
        vw_test_recorded_open_stacks(&r, stacks);
        release_in_both_ways(&r, stacks == VW_STACKS_CALLER);
        vw__model *model = vw_test_recorded_read(&r);
        uint32_t first = vw_test_event_at(model, 1)->context;
        uint32_t trim = vw_test_event_at(model, 4)->context;
        if (stacks == VW_STACKS_NONE)
            assert_int_equal(trim, VW__MODEL_NO_CONTEXT);
        else if (stacks == VW_STACKS_CALLER)
            assert_int_equal(trim, first);
        else
            assert_true(trim != first && vw__model_stack_of(model, trim).count >= 2);
        vw__model_destroy(model);
        vw_test_recorded_close(&r);
    }
}

/* ---- a request in the middle of another ------------------------------------------------------ */

static struct {
    vw_pool *pool;
    vw_status (*take)(void *context, uint64_t size_bytes, vw_device_ptr *out);
    int call_count;
    vw_status status;
} other;

/* The second call is that of the retry, after memory was given back; the pool's lock is dropped. */
static vw_status interrupted_take(void *context, uint64_t size_bytes, vw_device_ptr *out)
{
    vw_device_ptr address;
    if (++other.call_count == 2)
        other.status = vw_alloc(other.pool, 1000, 7, &address);
    return other.take(context, size_bytes, out);
}

static void a_request_that_another_comes_into_keeps_its_context(void **state)
{
    (void)state;
    for (vw_stacks stacks = VW_STACKS_NONE; stacks <= VW_STACKS_BACKTRACE; stacks++) {
        const vw_recorder_options options = {.struct_size = sizeof options, .stacks = stacks};
        const vw_test_pool_setup setup = {.capacity_bytes = 100 * VW_TEST_MIB,
                                          .conf = "release_lock_on_cudamalloc:True"};
        vw_test_recorded r;
        vw_test_recorded_open(&r, &options, &setup);
        vw_test_free(&r.test, vw_test_alloc(&r.test, 60 * VW_TEST_MIB));
        const vw_device_table *table = r.test.device->table;
        vw_device_table hooked = *table;
        hooked.take = interrupted_take;
        other.pool = r.test.pool;
        other.take = table->take;
        other.call_count = 0;
        r.test.device->table = &hooked;
        vw_test_recorded_alloc(&r, 80 * VW_TEST_MIB, 0);
        r.test.device->table = table;
        vw_test_must(other.status);

        vw__model *model = vw_test_recorded_read(&r);
        /* 4 segment_free | 5 segment_alloc 6 alloc, of the other | 7 segment_alloc 8 alloc */
        uint32_t context = vw_test_event_at(model, 4)->context;
        assert_int_equal(vw_test_event_at(model, 4)->action, VW_ACTION_SEGMENT_FREE);
        assert_int_not_equal(vw_test_event_at(model, 5)->context, context);
        assert_int_equal(vw_test_event_at(model, 6)->context, vw_test_event_at(model, 5)->context);
        assert_int_equal(vw_test_event_at(model, 7)->context, context);
        assert_int_equal(vw_test_event_at(model, 8)->context, context);
        vw__model_destroy(model);
        vw_test_recorded_close(&r);
    }
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void a_backtrace_stays_with_its_block(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_BACKTRACE);
    vw_device_ptr address = vw_test_recorded_alloc(&r, 1000, 0);
    vw_test_recorded_alloc(&r, 1000, 0);
    vw_test_must(vw_free(r.test.pool, address));
    vw__model *model = vw_test_recorded_read(&r);
    uint32_t first = vw_test_event_at(model, 1)->context;
    assert_true(vw__model_stack_of(model, first).count >= 2);
    assert_int_equal(vw_test_event_at(model, 3)->context, first);
    assert_int_equal(vw_test_event_at(model, 4)->context, first);
    assert_int_equal(model->segments[0].context, first);
    assert_int_equal(vw__model_stack_of(model, model->blocks[0].context).count, 0); /* free */
    assert_int_equal(model->blocks[1].context, vw_test_event_at(model, 2)->context);
    assert_string_not_equal(vw__model_string(model, frame_of(model, first, 0)->filename), "");
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void tags_that_are_not_ours_are_left_alone(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open_stacks(&r, VW_STACKS_CALLER);
    vw_test_recorded_tag(&r, 1);
    vw_test_recorded_alloc(&r, 1000, 1);                         /* no serial number */
    vw_test_recorded_alloc(&r, 1000, UINT64_MAX);                /* one that was never given out */
    vw_test_recorded_alloc(&r, 1000, (UINT64_C(2) << 24) + 999); /* a stack that there is not */
    vw__model *model = vw_test_recorded_read(&r);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(vw__model_stack_of(model, vw_test_event_at(model, i)->context).count, 0);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void a_tag_is_no_request_though_both_are_the_first(void **state)
{
    (void)state;
    vw_test_recorded r;
    uint64_t tag;
    vw_test_recorded_open_stacks(&r, VW_STACKS_CALLER);
    vw_test_must(vw_recorder_add_stack(r.recorder, NULL, 0, &tag));
    vw_test_recorded_alloc(&r, 1000, 0);
    vw_test_recorded_alloc(&r, 1000, tag);
    vw__model *model = vw_test_recorded_read(&r);
    assert_int_not_equal(vw_test_event_at(model, 1)->context, vw_test_event_at(model, 2)->context);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void stacks_beyond_their_limit_are_counted_and_empty(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open(&r,
                          &(vw_recorder_options){.struct_size = sizeof(vw_recorder_options),
                                                 .stacks = VW_STACKS_CALLER,
                                                 .most_frames = 1,
                                                 .stack_limit_bytes = 1},
                          NULL);
    vw_test_recorded_alloc(&r, 1000, vw_test_recorded_tag(&r, 1));
    vw_recorder_counts counts = vw_test_recorded_counts(&r);
    assert_int_equal(counts.lost_stack_count, 1);
    assert_int_equal(counts.stack_count, 0);
    vw__model *model = vw_test_recorded_read(&r);
    assert_int_equal(vw_test_event_at(model, 0)->context, vw_test_event_at(model, 1)->context);
    assert_int_equal(vw__model_stack_of(model, vw_test_event_at(model, 1)->context).count, 0);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

static void a_stack_keeps_its_innermost_frames(void **state)
{
    (void)state;
    vw_test_recorded r;
    vw_test_recorded_open(&r,
                          &(vw_recorder_options){.struct_size = sizeof(vw_recorder_options),
                                                 .stacks = VW_STACKS_CALLER,
                                                 .most_frames = 1},
                          NULL);
    vw_test_recorded_alloc(&r, 1000, vw_test_recorded_tag(&r, 1));
    vw__model *model = vw_test_recorded_read(&r);
    uint32_t context = vw_test_event_at(model, 1)->context;
    assert_int_equal(vw__model_stack_of(model, context).count, 1);
    assert_int_equal(frame_of(model, context, 0)->line, 7);
    vw__model_destroy(model);
    vw_test_recorded_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_at_one_place_share_a_stack_and_not_a_context),
        cmocka_unit_test(a_segment_has_the_context_of_the_request_that_made_it),
        cmocka_unit_test(what_a_trim_gives_back_shares_no_context_with_the_next_request),
        cmocka_unit_test(what_an_untagged_request_gives_back_has_its_context),
        cmocka_unit_test(what_a_trim_gives_back_shows_who_made_it_or_who_asked),
        cmocka_unit_test(a_request_that_another_comes_into_keeps_its_context),
        cmocka_unit_test(a_backtrace_stays_with_its_block),
        cmocka_unit_test(tags_that_are_not_ours_are_left_alone),
        cmocka_unit_test(a_tag_is_no_request_though_both_are_the_first),
        cmocka_unit_test(stacks_beyond_their_limit_are_counted_and_empty),
        cmocka_unit_test(a_stack_keeps_its_innermost_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
