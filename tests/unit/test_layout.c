/* test_layout.c - how memory lay at any instant, told from events; and recordings cut there. */
#include "analysis/layout.h"

#include <stdio.h>
#include <string.h>

#include "analysis/live_bytes.h"
#include "analysis/script_events.h" /* vw__script_is_growth */
#include "analysis/timeline.h"
#include "model/model_check.h"

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"
#include "support/stored_recordings.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define SEGMENT (20 * MIB)

static vw__layout layout_at(const vw__model *model, const vw__model_trace *trace, size_t instant)
{
    vw__layout layout;
    if (vw__layout_at(model, trace, (uint32_t)instant, &layout) != VW_OK)
        fail_msg("instant %zu: %s", instant, vw_last_error());
    return layout;
}

/* ---- stored recordings ----------------------------------------------------------------------- */

static void check_tiles(const vw__layout *layout)
{
    uint64_t reserved = 0, live = 0, pending = 0, idle = 0, largest = 0;
    for (size_t i = 0; i < layout->segment_count; i++) {
        const vw__layout_segment *segment = &layout->segments[i];
        uint64_t next = segment->address;
        assert_true(i == 0 || segment[-1].address + segment[-1].size_bytes <= segment->address);
        for (size_t b = 0; b < segment->block_count; b++) {
            const vw__layout_block *block = &layout->blocks[segment->first_block + b];
            assert_int_equal(block->address, next);
            assert_true(block->size_bytes > 0);
            next += block->size_bytes;
            if (block->state == VW__LAYOUT_IDLE && block->size_bytes > largest)
                largest = block->size_bytes;
        }
        assert_int_equal(next, segment->address + segment->size_bytes);
        assert_int_equal(segment->size_bytes,
                         segment->live_bytes + segment->pending_bytes + segment->idle_bytes);
        reserved += segment->size_bytes;
        live += segment->live_bytes;
        pending += segment->pending_bytes;
        idle += segment->idle_bytes;
    }
    assert_int_equal(layout->reserved_bytes, reserved);
    assert_int_equal(layout->live_bytes, live);
    assert_int_equal(layout->pending_bytes, pending);
    assert_int_equal(layout->idle_bytes, idle);
    assert_int_equal(layout->largest_idle_bytes, largest);
}

static uint64_t live_at(const vw__timeline *timeline, uint32_t instant)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < timeline->lifetime_count; i++)
        if (vw__lifetime_is_live(&timeline->lifetimes[i], instant))
            bytes += timeline->lifetimes[i].size_bytes;
    return bytes;
}

static void check_against_timeline(const stored_recording *one)
{
    const vw__model *model = one->recording->model;
    const vw__model_trace *trace = &model->traces[0];
    vw__timeline timeline;
    assert_int_equal(vw__timeline_make(model, trace, &timeline), VW_OK);
    for (size_t part = 0; part <= 8; part++) {
        uint32_t instant = (uint32_t)(trace->event_count * part / 8);
        vw__layout layout = layout_at(model, trace, instant);
        check_tiles(&layout);
        assert_int_equal(layout.live_bytes + layout.pending_bytes, live_at(&timeline, instant));
        assert_int_equal(layout.reserved_bytes, vw__timeline_reserved_at(&timeline, instant));
        vw__layout_deinit(&layout);
    }
    vw__timeline_deinit(&timeline);
}

static void blocks_tile_their_segments_and_the_sums_are_the_timelines(void **state)
{
    (void)state;
    each_stored_recording(check_against_timeline);
}

static void check_same(const char *name, const vw__layout *one, const vw__layout *other)
{
    if (one->segment_count != other->segment_count || one->block_count != other->block_count)
        fail_msg("%s: %zu segments and %zu blocks, %zu and %zu the other way", name,
                 one->segment_count, one->block_count, other->segment_count, other->block_count);
    for (size_t i = 0; i < one->segment_count; i++) {
        assert_int_equal(one->segments[i].address, other->segments[i].address);
        assert_int_equal(one->segments[i].size_bytes, other->segments[i].size_bytes);
        assert_int_equal(one->segments[i].stream, other->segments[i].stream);
        assert_int_equal(one->segments[i].is_expandable, other->segments[i].is_expandable);
    }
    for (size_t i = 0; i < one->block_count; i++) {
        assert_int_equal(one->blocks[i].address, other->blocks[i].address);
        assert_int_equal(one->blocks[i].size_bytes, other->blocks[i].size_bytes);
        assert_int_equal(one->blocks[i].state, other->blocks[i].state);
    }
}

static vw__layout_reading read_whole(const vw__model *model, const vw__model_trace *trace)
{
    vw__layout_reading reading;
    assert_int_equal(vw__layout_read(model, trace, &reading), VW_OK);
    return reading;
}

/* Without its first third a trace can only be read backwards. */
static void check_backwards(const stored_recording *one)
{
    const vw__model *model = one->recording->model;
    const vw__model_trace *whole = &model->traces[0];
    size_t first = whole->event_count / 3, instant = whole->event_count / 2;
    const vw__model_trace rest = {whole->events + first, whole->event_count - first, whole->device};
    assert_true(read_whole(model, whole).begins_at_nothing);
    assert_false(read_whole(model, &rest).begins_at_nothing);
    vw__layout forwards = layout_at(model, whole, instant);
    vw__layout backwards = layout_at(model, &rest, instant - first);
    check_same(one->name, &forwards, &backwards);
    vw__layout_deinit(&forwards);
    vw__layout_deinit(&backwards);
}

static void forwards_and_backwards_give_the_same(void **state)
{
    (void)state;
    each_stored_recording(check_backwards);
}

static void check_end(const stored_recording *one)
{
    const vw__model *model = one->recording->model;
    const vw__model_trace *whole = &model->traces[0];
    assert_true(read_whole(model, whole).end_fits);
    for (size_t part = 1; part < 8; part++) {
        const vw__model_trace cut = {whole->events, whole->event_count * part / 8, whole->device};
        const vw__layout_reading reading = read_whole(model, &cut);
        assert_true(reading.begins_at_nothing);
        if (reading.end_fits)
            fail_msg("%s: cut at %zu of 8 it still fits", one->name, part);
    }
}

static void the_segments_of_a_file_fit_its_own_trace_and_no_shorter_one(void **state)
{
    (void)state;
    each_stored_recording(check_end);
}

/* A snapshot is never taken in the middle of a request: behind the next alloc. */
static size_t end_of_request(const vw__model_trace *trace, size_t event)
{
    while (event < trace->event_count && trace->events[event].action != VW_ACTION_ALLOC)
        event++;
    return event < trace->event_count ? event + 1 : event;
}

static void check_cuts(const stored_recording *one)
{
    const vw__model *model = one->recording->model;
    const vw__model_trace *whole = &model->traces[0];
    for (size_t tenth = 1; tenth <= 9; tenth++) {
        vw__layout_view view;
        size_t end = end_of_request(whole, whole->event_count * tenth / 10);
        if (vw__layout_view_make(model, whole, end, &view) != VW_OK ||
            vw__model_check(&view.model, NULL) != VW_OK)
            fail_msg("%s, %zu events: %s", one->name, end, vw_last_error());
        vw_recording recording = {.model = &view.model};
        const stored_recording cut = {.name = one->name, .recording = &recording};
        vw_verify_result *result = verify_recording(&cut, NULL, NULL);
        bool is_exact = is_complete_match(result);
        if (!is_exact)
            print_first_difference(one->name, result);
        vw_verify_result_free(result);
        vw__layout_view_deinit(&view);
        assert_true(is_exact);
    }
}

static void a_recording_cut_anywhere_is_what_pytorch_would_have_written(void **state)
{
    (void)state;
    each_stored_recording(check_cuts);
}

/* ---- by hand --------------------------------------------------------------------------------- */

/* Two segments: in the first a block that stays, one that is freed and one that is pending. */
static vw__model *make_small(void)
{
    small_model small;
    small_model_begin(&small);
    uint32_t kept = small_model_context(&small, "keep train.py 10");
    uint32_t gone = small_model_context(&small, "work train.py 20");
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, SEGMENT, kept);
    small_model_alloc(&small, A, 2 * MIB, kept);
    small_model_alloc(&small, A + 2 * MIB, 3 * MIB - 100, gone);
    small_model_alloc(&small, A + 5 * MIB, 4 * MIB, gone);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A + 2 * SEGMENT, SEGMENT, gone);
    small_model_free(&small, A + 2 * MIB, 3 * MIB - 100, gone);
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A + 5 * MIB, 4 * MIB, gone);
    small_model_event(&small, VW_ACTION_SEGMENT_FREE, A + 2 * SEGMENT, SEGMENT, gone);
    small_model_event(&small, VW_ACTION_FREE_COMPLETED, A + 5 * MIB, 4 * MIB, gone);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, SEGMENT, 2 * MIB, kept);
    small_model_set_features(&small);
    return small_model_finish(&small);
}

static void live_pending_and_idle_are_told_apart(void **state)
{
    (void)state;
    vw__model *model = make_small();
    vw__layout layout = layout_at(model, &model->traces[0], 8); /* behind free_requested */
    check_tiles(&layout);
    assert_int_equal(layout.segment_count, 2);
    assert_int_equal(layout.live_bytes, 2 * MIB);
    assert_int_equal(layout.pending_bytes, 4 * MIB);
    assert_int_equal(layout.idle_bytes, 2 * SEGMENT - 6 * MIB);
    assert_int_equal(layout.largest_idle_bytes, SEGMENT);
    assert_int_equal(layout.segments[0].block_count, 4);
    assert_int_equal(layout.blocks[0].state, VW__LAYOUT_LIVE);
    assert_int_equal(layout.blocks[1].state, VW__LAYOUT_IDLE);
    assert_int_equal(layout.blocks[1].size_bytes, 3 * MIB);
    assert_int_equal(layout.blocks[2].state, VW__LAYOUT_PENDING);
    assert_int_equal(layout.blocks[2].requested_bytes, 4 * MIB);
    assert_string_equal(
        vw__model_string(
            model,
            model
                ->frames[model
                             ->frame_ids[vw__model_stack_of(model, layout.blocks[2].context).first]]
                .name),
        "work");
    vw__layout_deinit(&layout);
    vw__model_destroy(model);
}

static void before_the_first_event_and_after_the_last_is_what_there_is(void **state)
{
    (void)state;
    vw__model *model = make_small();
    vw__layout layout = layout_at(model, &model->traces[0], 0);
    assert_int_equal(layout.segment_count, 0);
    assert_int_equal(layout.reserved_bytes, 0);
    vw__layout_deinit(&layout);
    layout = layout_at(model, &model->traces[0], 1000); /* as the end */
    assert_int_equal(layout.reserved_bytes, SEGMENT);
    assert_int_equal(layout.live_bytes, 2 * MIB);
    vw__layout_deinit(&layout);
    vw__model_destroy(model);
}

static void a_file_with_more_than_its_trace_made_began_before_it(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    uint32_t stack = small_model_context(&small, "main train.py 1");
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, SEGMENT, stack);
    small_model_alloc(&small, A, MIB * 2, stack);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, SEGMENT, 2 * MIB, stack);
    small_model_segment(&small, 0, A + 2 * SEGMENT, SEGMENT, 8 * MIB, stack);
    small_model_set_features(&small);
    vw__model *model = small_model_finish(&small);
    assert_false(read_whole(model, &model->traces[0]).begins_at_nothing);
    vw__layout layout = layout_at(model, &model->traces[0], 0);
    assert_int_equal(layout.reserved_bytes, SEGMENT); /* what was there before */
    assert_int_equal(layout.live_bytes, 8 * MIB);
    vw__layout_deinit(&layout);
    vw__model_destroy(model);
}

static void with_neither_a_beginning_nor_segments_nothing_is_claimed(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_free(&small, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    vw__model *model = small_model_finish(&small);
    vw__layout layout;
    vw__layout_view view;
    assert_int_equal(vw__layout_at(model, &model->traces[0], 1, &layout), VW_ERR_UNSUPPORTED);
    assert_int_equal(vw__layout_view_make(model, &model->traces[0], 1, &view), VW_ERR_UNSUPPORTED);
    vw__model_destroy(model);
}

static void segments_that_contradict_a_late_trace_are_not_believed(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_free(&small, A, 512, VW__MODEL_NO_CONTEXT); /* not from nothing */
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A + 4 * SEGMENT, SEGMENT,
                      VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, SEGMENT, 0, VW__MODEL_NO_CONTEXT); /* and not that one */
    vw__model *model = small_model_finish(&small);
    vw__layout layout;
    assert_int_equal(vw__layout_at(model, &model->traces[0], 1, &layout), VW_ERR_UNSUPPORTED);
    vw__model_destroy(model);
}

/* Whatever a file claims, blocks are cut so that they tile. */
static void blocks_that_overlap_are_cut_where_the_next_begins(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, SEGMENT, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 8 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A + 4 * MIB, SEGMENT - 4 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A + SEGMENT - 512, 100, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    vw__model *model = small_model_finish(&small);
    vw__layout layout = layout_at(model, &model->traces[0], 4);
    vw__layout_view view;
    check_tiles(&layout);
    assert_int_equal(layout.live_bytes, SEGMENT);
    assert_int_equal(layout.blocks[0].size_bytes, 4 * MIB);
    assert_int_equal(vw__layout_view_make(model, &model->traces[0], 4, &view), VW_OK);
    assert_int_equal(vw__model_check(&view.model, NULL), VW_OK);
    vw__layout_view_deinit(&view);
    vw__layout_deinit(&layout);
    vw__model_destroy(model);
}

/* PyTorch 2.10 can be told to leave kinds of event out. */
static void without_completions_a_free_ends_where_it_is_requested(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, SEGMENT, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 4 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    vw__model *model = small_model_finish(&small);
    vw__layout layout = layout_at(model, &model->traces[0], 4);
    assert_int_equal(layout.live_bytes, 4 * MIB);
    assert_int_equal(layout.pending_bytes, 0);
    vw__layout_deinit(&layout);
    vw__model_destroy(model);
}

static void a_view_has_nothing_of_a_later_time(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, SEGMENT, VW__MODEL_NO_CONTEXT);
    small_model_annotate(&small, "early", 0, true, small.time_us - 5);
    small_model_alloc(&small, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_annotate(&small, "late", 0, true, small.time_us + 5);
    small_model_free(&small, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    vw__model *model = small_model_finish(&small);
    vw__layout_view view;
    assert_int_equal(vw__layout_view_make(model, &model->traces[0], 2, &view), VW_OK);
    assert_int_equal(view.model.trace_count, 1);
    assert_ptr_equal(view.model.traces, &view.trace);
    assert_int_equal(view.model.event_count, 2);
    assert_int_equal(view.model.annotation_count, 1);
    assert_int_equal(view.model.segment_count, 1);
    assert_int_equal(view.segments[0].allocated_bytes, 2 * MIB);
    assert_int_equal(vw__layout_view_make(model, &model->traces[0], 5, &view),
                     VW_ERR_INVALID_ARGUMENT); /* there are four; the view is as before */
    assert_int_equal(view.model.event_count, 2);
    vw__layout_view_deinit(&view);
    vw__model_destroy(model);
}

/* ---- host memory ----------------------------------------------------------------------------- */

static bool make_everything(void *context)
{
    const vw__model *model = context;
    const vw__model_trace *whole = &model->traces[0];
    const vw__model_trace late = {whole->events + 6, whole->event_count - 6, whole->device};
    vw__layout layout;
    vw__layout_view view;
    vw__layout_reading reading;
    if (vw__layout_read(model, whole, &reading) != VW_OK ||
        vw__layout_at(model, whole, 8, &layout) != VW_OK)
        return false;
    vw__layout_deinit(&layout);
    if (vw__layout_at(model, &late, 1, &layout) != VW_OK)
        return false;
    vw__layout_deinit(&layout);
    if (vw__layout_view_make(model, whole, 8, &view) != VW_OK)
        return false;
    vw__layout_view_deinit(&view);
    return true;
}

static void every_lack_of_host_memory_is_reported(void **state)
{
    (void)state;
    vw__model *model = make_small();
    vw_test_sweep_host_memory(make_everything, model);
    vw__model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_tile_their_segments_and_the_sums_are_the_timelines),
        cmocka_unit_test(forwards_and_backwards_give_the_same),
        cmocka_unit_test(the_segments_of_a_file_fit_its_own_trace_and_no_shorter_one),
        cmocka_unit_test(a_recording_cut_anywhere_is_what_pytorch_would_have_written),
        cmocka_unit_test(live_pending_and_idle_are_told_apart),
        cmocka_unit_test(before_the_first_event_and_after_the_last_is_what_there_is),
        cmocka_unit_test(a_file_with_more_than_its_trace_made_began_before_it),
        cmocka_unit_test(with_neither_a_beginning_nor_segments_nothing_is_claimed),
        cmocka_unit_test(segments_that_contradict_a_late_trace_are_not_believed),
        cmocka_unit_test(blocks_that_overlap_are_cut_where_the_next_begins),
        cmocka_unit_test(without_completions_a_free_ends_where_it_is_requested),
        cmocka_unit_test(a_view_has_nothing_of_a_later_time),
        cmocka_unit_test(every_lack_of_host_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
