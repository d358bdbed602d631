/* test_timeline.c - the promises made at the top of timeline.c. */
#include "analysis/timeline.h"

#include <stdlib.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"

#define A UINT64_C(0x7f0000000000)
#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

static vw__timeline timeline_of(const vw__model *model)
{
    vw__timeline timeline;
    assert_int_equal(vw__timeline_make(model, vw__model_trace_of(model, 0), &timeline), VW_OK);
    return timeline;
}

/* The bytes live at an instant, by the lifetimes. */
static uint64_t live_at(const vw__timeline *timeline, uint32_t instant)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < timeline->lifetime_count; i++)
        if (vw__lifetime_is_live(&timeline->lifetimes[i], instant))
            sum += timeline->lifetimes[i].size_bytes;
    return sum;
}

static void requests_count_rounded_up_until_their_free_has_completed(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    uint32_t c = small_model_context(&small, "f train.py 1");
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, c);
    small_model_alloc(&small, A, 1, c);         /* 512 */
    small_model_alloc(&small, A + 512, 513, c); /* 1024 */
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A + 512, 513, c);
    small_model_alloc(&small, A + 2048, 2048, c); /* the peak: all three */
    small_model_event(&small, VW_ACTION_FREE_COMPLETED, A + 512, 513, c);
    small_model_alloc(&small, A + 512, 100, c);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 1, c);
    vw__model *model = small_model_finish(&small);
    vw__timeline timeline = timeline_of(model);

    assert_int_equal(timeline.peak_live_bytes, 512 + 1024 + 2048);
    assert_int_equal(timeline.peak_instant, 5);
    assert_int_equal(live_at(&timeline, 5), timeline.peak_live_bytes);
    assert_int_equal(live_at(&timeline, 6), 512 + 2048);
    assert_int_equal(live_at(&timeline, 7), 512 + 2048 + 512);
    assert_int_equal(timeline.initial_count, 0);
    assert_false(timeline.is_truncated);
    assert_int_equal(timeline.contradiction_count, 0);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

static void the_first_of_equal_peaks_is_the_peak(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    size_t first = small_model_alloc(&small, A, 4096, VW__MODEL_NO_CONTEXT);
    small_model_free(&small, A, 4096, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 4096, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 4096, VW__MODEL_NO_CONTEXT);
    vw__model *model = small_model_finish(&small);
    vw__timeline timeline = timeline_of(model);
    assert_int_equal(timeline.peak_instant, first + 1);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

/* The ring kept the end only: a block freed later, one live at the end, one not seen at all. */
static vw__model *cut_trace(uint32_t *freed_context, uint32_t *kept_context)
{
    small_model small;
    small_model_begin(&small);
    *freed_context = small_model_context(&small, "freed train.py 1");
    *kept_context = small_model_context(&small, "kept train.py 2");
    uint32_t c = small_model_context(&small, "f train.py 3");
    small_model_alloc(&small, A + 4 * KIB, 512, c);
    small_model_free(&small, A + 4 * KIB, 512, c);
    small_model_free(&small, A + 8 * KIB, 1000, *freed_context);
    small_model_event(&small, VW_ACTION_SEGMENT_FREE, A + 10 * MIB, 20 * MIB, c);
    small_model_alloc(&small, A + 4 * KIB, 512, c);
    small_model_free(&small, A + 4 * KIB, 512, c);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 3000, *kept_context);
    return small_model_finish(&small);
}

static void blocks_from_before_a_cut_trace_are_known_by_what_is_left_of_them(void **state)
{
    (void)state;
    uint32_t freed_context, kept_context;
    vw__model *model = cut_trace(&freed_context, &kept_context);
    vw__timeline timeline = timeline_of(model);

    assert_true(timeline.is_truncated);
    assert_int_equal(timeline.initial_count, 2);
    assert_int_equal(timeline.initial_live_bytes, 1024 + 3072);
    assert_int_equal(timeline.peak_live_bytes, 1024 + 3072 + 512);
    assert_int_equal(timeline.peak_instant, 1);
    assert_int_equal(live_at(&timeline, 0), timeline.initial_live_bytes);
    assert_int_equal(live_at(&timeline, (uint32_t)timeline.trace->event_count), 3072);
    bool has_freed = false, has_kept = false;
    for (size_t i = 0; i < timeline.lifetime_count; i++) {
        has_freed = has_freed || timeline.lifetimes[i].context == freed_context;
        has_kept = has_kept || timeline.lifetimes[i].context == kept_context;
    }
    assert_true(has_freed && has_kept);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

static void reserved_bytes_are_anchored_at_the_end(void **state)
{
    (void)state;
    uint32_t freed_context, kept_context;
    vw__model *model = cut_trace(&freed_context, &kept_context);
    vw__timeline timeline = timeline_of(model);
    assert_true(timeline.is_reserved_known);
    assert_int_equal(timeline.initial_reserved_bytes, 22 * MIB);
    assert_int_equal(timeline.peak_reserved_bytes, 22 * MIB);
    assert_int_equal(timeline.peak_reserved_instant, 0);
    assert_int_equal(vw__timeline_reserved_at(&timeline, 0), 22 * MIB);
    assert_int_equal(vw__timeline_reserved_at(&timeline, 5), 22 * MIB);
    assert_int_equal(vw__timeline_reserved_at(&timeline, 6), 2 * MIB);
    assert_int_equal(vw__timeline_reserved_at(&timeline, (uint32_t)timeline.trace->event_count),
                     2 * MIB);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

static void segment_events_that_contradict_the_end_make_reserved_unknown(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 20 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 512,
                        VW__MODEL_NO_CONTEXT); /* 18 MiB went unrecorded */
    vw__model *model = small_model_finish(&small);
    vw__timeline timeline = timeline_of(model);
    assert_false(timeline.is_reserved_known);
    assert_int_equal(vw__timeline_reserved_at(&timeline, 1), VW__MODEL_UNKNOWN_BYTES);
    assert_int_equal(timeline.peak_live_bytes, 512);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

/* context="all": a free shows where it was freed, which says nothing of who allocated. */
static void stacks_of_frees_are_not_taken_for_those_of_requests(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    uint32_t request = small_model_context(&small, "f train.py 1");
    uint32_t release = small_model_context(&small, "g train.py 2");
    small_model_alloc(&small, A, 512, request);
    small_model_free(&small, A, 512, release);
    small_model_free(&small, A + 512, 512, release);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 0, VW__MODEL_NO_CONTEXT);
    vw__model *model = small_model_finish(&small);
    vw__timeline timeline = timeline_of(model);
    assert_int_equal(timeline.lifetime_count, 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(timeline.lifetimes[i].context,
                         timeline.lifetimes[i].begin == 0 ? VW__MODEL_NO_CONTEXT : request);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

static void an_alloc_on_a_live_block_ends_it_and_is_counted(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 4096, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    vw__model *model = small_model_finish(&small);
    vw__timeline timeline = timeline_of(model);
    assert_int_equal(timeline.contradiction_count, 1);
    assert_int_equal(timeline.peak_live_bytes, 4096);
    assert_int_equal(live_at(&timeline, 3), 512);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

static void frees_count_when_requested_where_no_completion_was_recorded(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 4096, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A, 4096, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 0, VW__MODEL_NO_CONTEXT);
    vw__model *model = small_model_finish(&small);
    vw__timeline timeline = timeline_of(model);
    assert_int_equal(live_at(&timeline, 3), 0);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

/* The lifetime that begins at an instant, at an address. */
static const vw__lifetime *lifetime_at(const vw__timeline *timeline, uint32_t begin,
                                       uint64_t address)
{
    for (size_t i = 0; i < timeline->lifetime_count; i++)
        if (timeline->lifetimes[i].begin == begin && timeline->lifetimes[i].address == address)
            return &timeline->lifetimes[i];
    fail_msg("no block begins at %u", begin);
    return NULL;
}

static void a_lifetime_knows_its_address_and_when_its_free_was_requested(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 2 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 512, VW__MODEL_NO_CONTEXT);       /* 2: waits from 4 to 6 */
    small_model_alloc(&small, A + 512, 512, VW__MODEL_NO_CONTEXT); /* 3: waits still */
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A + 512, 512, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_FREE_COMPLETED, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 1024, VW__MODEL_NO_CONTEXT); /* 7: to the end */
    small_model_end_trace(&small, 0);
    vw__model *model = small_model_finish(&small);
    vw__timeline timeline = timeline_of(model);
    const vw__lifetime *waited = lifetime_at(&timeline, 2, A);
    assert_int_equal(waited->freed, 4);
    assert_int_equal(waited->end, 6);
    const vw__lifetime *waits = lifetime_at(&timeline, 3, A + 512);
    assert_int_equal(waits->freed, 5);
    assert_int_equal(waits->end, VW__LIFETIME_TO_THE_END);
    assert_int_equal(lifetime_at(&timeline, 7, A)->freed, VW__LIFETIME_TO_THE_END);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

/* Requested and completed in the trace, completed alone, requested alone and waiting at the end. */
static void of_a_block_from_before_as_well(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A + 4 * MIB, 512, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_FREE_REQUESTED, A, 512, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_FREE_COMPLETED, A + 5 * MIB, 512, VW__MODEL_NO_CONTEXT);
    small_model_event(&small, VW_ACTION_FREE_COMPLETED, A + 4 * MIB, 512, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    small_model_segment(&small, 0, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    vw__model *model = small_model_finish(&small);
    vw__timeline timeline = timeline_of(model);
    assert_int_equal(timeline.lifetime_count, 3);
    assert_int_equal(lifetime_at(&timeline, 0, A + 4 * MIB)->freed, 1);
    assert_int_equal(lifetime_at(&timeline, 0, A + 4 * MIB)->end, 4);
    assert_int_equal(lifetime_at(&timeline, 0, A + 5 * MIB)->freed, 3);
    assert_int_equal(lifetime_at(&timeline, 0, A + 5 * MIB)->end, 3);
    assert_int_equal(lifetime_at(&timeline, 0, A)->freed, 2);
    assert_int_equal(lifetime_at(&timeline, 0, A)->end, VW__LIFETIME_TO_THE_END);
    vw__timeline_deinit(&timeline);
    vw__model_destroy(model);
}

static void sizes_beyond_any_device_are_refused(void **state)
{
    (void)state;
    small_model small;
    small_model_begin(&small);
    for (uint64_t i = 0; i < 4; i++)
        small_model_alloc(&small, A + 512 * i, UINT64_C(1) << 61, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    vw__model *model = small_model_finish(&small);
    vw__timeline timeline = {.peak_live_bytes = 77};
    assert_int_equal(vw__timeline_make(model, vw__model_trace_of(model, 0), &timeline),
                     VW_ERR_CORRUPT_FILE);
    assert_int_equal(timeline.peak_live_bytes, 77);
    vw__model_destroy(model);
}

/* Random traces: the peak against a sum over all instants. */
static void no_instant_has_more_than_the_peak(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 20; round++) {
        small_model small;
        small_model_begin(&small);
        uint64_t live[64] = {0};
        for (int i = 0; i < 400; i++) {
            size_t place = (size_t)(rand() % 64);
            uint64_t address = A + 1 * MIB * place;
            if (live[place] == 0) {
                live[place] = 1 + (uint64_t)rand() % 100000;
                small_model_alloc(&small, address, live[place], VW__MODEL_NO_CONTEXT);
            } else {
                small_model_free(&small, address, live[place], VW__MODEL_NO_CONTEXT);
                live[place] = 0;
            }
        }
        small_model_end_trace(&small, 0);
        vw__model *model = small_model_finish(&small);
        vw__timeline timeline = timeline_of(model);
        assert_int_equal(live_at(&timeline, timeline.peak_instant), timeline.peak_live_bytes);
        for (uint32_t k = 0; k <= timeline.trace->event_count; k++)
            assert_true(live_at(&timeline, k) <= timeline.peak_live_bytes);
        vw__timeline_deinit(&timeline);
        vw__model_destroy(model);
    }
}

static bool make_timeline(void *context)
{
    const vw__model *model = context;
    vw__timeline timeline;
    if (vw__timeline_make(model, vw__model_trace_of(model, 0), &timeline) != VW_OK)
        return false;
    vw__timeline_deinit(&timeline);
    return true;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    uint32_t freed_context, kept_context;
    vw__model *model = cut_trace(&freed_context, &kept_context);
    vw_test_sweep_host_memory(make_timeline, model);
    vw__model_destroy(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_count_rounded_up_until_their_free_has_completed),
        cmocka_unit_test(the_first_of_equal_peaks_is_the_peak),
        cmocka_unit_test(blocks_from_before_a_cut_trace_are_known_by_what_is_left_of_them),
        cmocka_unit_test(reserved_bytes_are_anchored_at_the_end),
        cmocka_unit_test(segment_events_that_contradict_the_end_make_reserved_unknown),
        cmocka_unit_test(stacks_of_frees_are_not_taken_for_those_of_requests),
        cmocka_unit_test(an_alloc_on_a_live_block_ends_it_and_is_counted),
        cmocka_unit_test(frees_count_when_requested_where_no_completion_was_recorded),
        cmocka_unit_test(a_lifetime_knows_its_address_and_when_its_free_was_requested),
        cmocka_unit_test(of_a_block_from_before_as_well),
        cmocka_unit_test(sizes_beyond_any_device_are_refused),
        cmocka_unit_test(no_instant_has_more_than_the_peak),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
