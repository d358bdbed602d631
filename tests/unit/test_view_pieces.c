/* test_view_pieces.c - the promises made at the top of view_pieces.c. */
#include "view/view_pieces.h"

#include <stdlib.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define NONE VW__MODEL_NO_CONTEXT

typedef struct fixture {
    vw__model *model;
    vw__timeline timeline;
    vw__view_pieces pieces;
} fixture;

static void make(fixture *made, small_model *small)
{
    made->model = small_model_finish(small);
    assert_int_equal(
        vw__timeline_make(made->model, vw__model_trace_of(made->model, 0), &made->timeline), VW_OK);
    assert_int_equal(vw__view_pieces_of_trace(&made->timeline, &made->pieces), VW_OK);
}

static void dispose(fixture *made)
{
    vw__view_pieces_deinit(&made->pieces);
    vw__timeline_deinit(&made->timeline);
    vw__model_destroy(made->model);
}

static bool is_held(const vw__view_piece *piece, uint32_t instant)
{
    return piece->begin <= instant && instant < piece->end;
}

/* At every instant: nothing twice, and the sum is what the timeline says. */
static void assert_pieces_hold(const fixture *made)
{
    const vw__view_pieces *pieces = &made->pieces;
    uint32_t last = (uint32_t)made->timeline.trace->event_count;
    assert_true(made->timeline.is_reserved_known);
    for (uint32_t instant = 0; instant <= last; instant++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < pieces->count; i++) {
            const vw__view_piece *one = &pieces->pieces[i];
            if (!is_held(one, instant))
                continue;
            sum += one->size_bytes;
            for (size_t j = i + 1; j < pieces->count; j++) {
                const vw__view_piece *other = &pieces->pieces[j];
                assert_false(is_held(other, instant) &&
                             one->address < other->address + other->size_bytes &&
                             other->address < one->address + one->size_bytes);
            }
        }
        assert_int_equal(sum, vw__timeline_reserved_at(&made->timeline, instant));
    }
    for (size_t i = 1; i < pieces->count; i++)
        assert_true(pieces->pieces[i - 1].begin <= pieces->pieces[i].begin);
}

static void assert_piece(const vw__view_piece *piece, uint64_t address, uint64_t size_bytes,
                         uint32_t begin, uint32_t end)
{
    assert_int_equal(piece->address, address);
    assert_int_equal(piece->size_bytes, size_bytes);
    assert_int_equal(piece->begin, begin);
    assert_int_equal(piece->end, end);
}

static void segments_are_pieces_from_their_alloc_to_their_free(void **state)
{
    (void)state;
    small_model small;
    fixture made;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A + 20 * MIB, 20 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_FREE, A + 20 * MIB, 20 * MIB, NONE);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 0, NONE);
    make(&made, &small);
    assert_int_equal(made.pieces.count, 2);
    assert_piece(&made.pieces.pieces[0], A + 20 * MIB, 20 * MIB, 1, 3);
    assert_piece(&made.pieces.pieces[1], A, 2 * MIB, 2, VW__VIEW_NONE);
    assert_int_not_equal(made.pieces.pieces[0].segment, made.pieces.pieces[1].segment);
    assert_int_equal(made.pieces.pieces[0].pool, VW__MODEL_UNKNOWN_POOL);
    assert_int_equal(made.pieces.pieces[1].pool, VW__MODEL_DEFAULT_POOL); /* as the file says */
    assert_pieces_hold(&made);
    dispose(&made);
}

static void what_is_left_of_a_mapping_is_another_piece_of_the_same_segment(void **state)
{
    (void)state;
    small_model small;
    fixture made;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_MAP, A, 20 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_MAP, A + 20 * MIB, 20 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A + 10 * MIB, 20 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A, 10 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A + 30 * MIB, 10 * MIB, NONE);
    small_model_end_trace(&small, 0);
    make(&made, &small);
    const vw__view_piece *pieces = made.pieces.pieces;
    assert_int_equal(made.pieces.count, 4);
    assert_piece(&pieces[0], A, 20 * MIB, 1, 3);
    assert_piece(&pieces[1], A + 20 * MIB, 20 * MIB, 2, 3);
    assert_piece(&pieces[2], A, 10 * MIB, 3, 4);
    assert_piece(&pieces[3], A + 30 * MIB, 10 * MIB, 3, 5);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pieces[i].segment, pieces[0].segment);
        assert_int_equal(pieces[i].is_expandable, 1);
    }
    assert_pieces_hold(&made);
    dispose(&made);
}

/* The first events are missing: what was held follows from the segments in the file. */
static void a_cut_trace_is_followed_back_from_its_end(void **state)
{
    (void)state;
    small_model small;
    fixture made;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_FREE, A + 50 * MIB, 20 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A + 100 * MIB, 2 * MIB, NONE);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 512, NONE);
    small_model_segment(&small, 0, A + 100 * MIB, 2 * MIB, 512, NONE);
    make(&made, &small);
    assert_int_equal(made.pieces.count, 3);
    assert_piece(&made.pieces.pieces[0], A, 2 * MIB, 0, VW__VIEW_NONE);
    assert_piece(&made.pieces.pieces[1], A + 50 * MIB, 20 * MIB, 0, 1);
    assert_piece(&made.pieces.pieces[2], A + 100 * MIB, 2 * MIB, 2, VW__VIEW_NONE);
    assert_pieces_hold(&made);
    dispose(&made);
}

/* All that was there before is given back, and the file has no segment left. */
static void a_cut_trace_may_end_with_nothing(void **state)
{
    (void)state;
    small_model small;
    fixture made;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A, 2 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A + 2 * MIB, 4 * MIB, NONE);
    small_model_end_trace(&small, 0);
    make(&made, &small);
    assert_int_equal(made.pieces.count, 2);
    assert_piece(&made.pieces.pieces[0], A, 2 * MIB, 0, 1);
    assert_piece(&made.pieces.pieces[1], A + 2 * MIB, 4 * MIB, 0, 2);
    assert_pieces_hold(&made);
    dispose(&made);
}

static size_t count_pieces(small_model *small)
{
    fixture made;
    small_model_end_trace(small, 0);
    make(&made, small);
    size_t count = made.pieces.count;
    dispose(&made);
    return count;
}

static void events_that_contradict_each_other_give_no_pieces(void **state)
{
    (void)state;
    small_model small;

    small_model_begin(&small); /* taken twice */
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 20 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A + 10 * MIB, 20 * MIB, NONE);
    assert_int_equal(count_pieces(&small), 0);

    small_model_begin(&small); /* half of a plain segment */
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 20 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_FREE, A, 10 * MIB, NONE);
    assert_int_equal(count_pieces(&small), 0);

    small_model_begin(&small); /* across a gap */
    small_model_event(&small, VW_ACTION_SEGMENT_MAP, A, 4 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_MAP, A + 6 * MIB, 2 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A, 6 * MIB, NONE);
    assert_int_equal(count_pieces(&small), 0);

    small_model_begin(&small); /* past the end of all addresses */
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, UINT64_MAX - MIB, 2 * MIB, NONE);
    assert_int_equal(count_pieces(&small), 0);
}

enum { PAGES = 40 };

static void write_random_pages(small_model *small, bool is_mapped[PAGES], int event_count)
{
    for (int i = 0; i < event_count; i++) {
        size_t first = (size_t)(rand() % PAGES), end = first;
        bool was_mapped = is_mapped[first];
        while (end < PAGES && is_mapped[end] == was_mapped && rand() % 4 != 0)
            is_mapped[end++] = !was_mapped;
        if (end > first)
            small_model_event(small, was_mapped ? VW_ACTION_SEGMENT_UNMAP : VW_ACTION_SEGMENT_MAP,
                              A + first * 2 * MIB, (end - first) * 2 * MIB, NONE);
    }
}

static void random_mappings_add_up_at_every_instant(void **state)
{
    (void)state;
    srand(3);
    for (int round = 0; round < 20; round++) {
        small_model small;
        fixture made;
        bool is_mapped[PAGES] = {false};
        small_model_begin(&small);
        write_random_pages(&small, is_mapped, 120);
        for (size_t i = 0; i < PAGES; i++) /* nothing is left: the file has no segments */
            if (is_mapped[i])
                small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A + i * 2 * MIB, 2 * MIB, NONE);
        small_model_end_trace(&small, 0);
        make(&made, &small);
        assert_true(made.pieces.count > 20);
        assert_pieces_hold(&made);

        vw__model_trace cut = *made.timeline.trace; /* the same, without its beginning */
        cut.events += 40;
        cut.event_count -= 40;
        fixture second = {.model = made.model};
        assert_int_equal(vw__timeline_make(made.model, &cut, &second.timeline), VW_OK);
        assert_int_equal(vw__view_pieces_of_trace(&second.timeline, &second.pieces), VW_OK);
        assert_true(second.pieces.count > 10);
        assert_pieces_hold(&second);
        vw__view_pieces_deinit(&second.pieces);
        vw__timeline_deinit(&second.timeline);
        dispose(&made);
    }
}

static bool make_pieces(void *context)
{
    const vw__timeline *timeline = context;
    vw__view_pieces pieces = {.pieces = NULL};
    bool is_made = vw__view_pieces_of_trace(timeline, &pieces) == VW_OK;
    vw__view_pieces_deinit(&pieces);
    return is_made;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    small_model small;
    fixture made;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A, 2 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_MAP, A + 4 * MIB, 6 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A + 6 * MIB, 2 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A + 4 * MIB, 2 * MIB, NONE);
    small_model_event(&small, VW_ACTION_SEGMENT_UNMAP, A + 8 * MIB, 2 * MIB, NONE);
    small_model_end_trace(&small, 0);
    make(&made, &small);
    assert_int_equal(made.pieces.count, 4);
    vw_test_sweep_host_memory(make_pieces, &made.timeline);
    dispose(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(segments_are_pieces_from_their_alloc_to_their_free),
        cmocka_unit_test(what_is_left_of_a_mapping_is_another_piece_of_the_same_segment),
        cmocka_unit_test(a_cut_trace_is_followed_back_from_its_end),
        cmocka_unit_test(a_cut_trace_may_end_with_nothing),
        cmocka_unit_test(events_that_contradict_each_other_give_no_pieces),
        cmocka_unit_test(random_mappings_add_up_at_every_instant),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
