/* test_script.c - what the program asked for, concluded from events written by hand. */
#include "analysis/script.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"

#define MIB (UINT64_C(1) << 20)
#define SEGMENT (UINT64_C(0x10) << 20)
#define OTHER_SEGMENT (UINT64_C(0x40) << 20)

enum { MOST_EVENTS = 64, MOST_SEGMENTS = 4, CAPTURE_STREAM = 1 };

/* A model whose tables are arrays in a test. */
typedef struct hand_model {
    vw__model model;
    vw__model_trace trace;
    vw__model_event events[MOST_EVENTS];
    vw__model_segment segments[MOST_SEGMENTS];
    vw__model_block blocks[MOST_SEGMENTS];
    vw_stream streams[2];
    vw_private_id pools[3];
} hand_model;

static void begin(hand_model *hand)
{
    memset(hand, 0, sizeof *hand);
    hand->streams[CAPTURE_STREAM] = 0x5000;
    hand->pools[1] = (vw_private_id){0, 1};
    hand->pools[2] = (vw_private_id){0, 2};
    hand->model.streams = hand->streams;
    hand->model.stream_count = 2;
    hand->model.pools = hand->pools;
    hand->model.pool_count = 3;
    hand->model.traces = &hand->trace;
    hand->model.trace_count = 1;
    hand->model.segments = hand->segments;
    hand->model.blocks = hand->blocks;
    hand->model.features.has_contexts = hand->model.features.has_identity = true;
    hand->trace.events = hand->events;
}

static vw__model_event *add(hand_model *hand, unsigned action, uint64_t address,
                            uint64_t size_bytes, uint32_t context)
{
    assert_true(hand->trace.event_count < MOST_EVENTS);
    vw__model_event *event = &hand->events[hand->trace.event_count++];
    *event = (vw__model_event){.address = address,
                               .size_bytes = size_bytes,
                               .context = context,
                               .pool = VW__MODEL_UNKNOWN_POOL,
                               .action = (uint8_t)action};
    return event;
}

static void add_free(hand_model *hand, uint64_t address, uint64_t size_bytes)
{
    (void)add(hand, VW_ACTION_FREE_REQUESTED, address, size_bytes, 0);
    (void)add(hand, VW_ACTION_FREE_COMPLETED, address, size_bytes, 0);
}

/* A segment at the end with one block of all its size. */
static vw__model_segment *add_segment(hand_model *hand, uint64_t address, uint64_t size_bytes,
                                      vw_block_state state)
{
    size_t i = hand->model.segment_count++;
    hand->segments[i] = (vw__model_segment){
        .address = address, .total_bytes = size_bytes, .first_block = i, .block_count = 1};
    hand->blocks[i] = (vw__model_block){.address = address,
                                        .size_bytes = size_bytes,
                                        .requested_bytes = size_bytes - 100,
                                        .state = (uint8_t)state};
    hand->model.block_count = hand->model.segment_count;
    return &hand->segments[i];
}

static void make(const hand_model *hand, vw__script *script)
{
    if (vw__script_make(&hand->model, &hand->trace, script) != VW_OK)
        fail_msg("%s", vw_last_error());
}

/* The kinds of all operations, a letter each. */
static void assert_kinds(const vw__script *script, const char *expected)
{
    static const char letters[] = {
        [VW__SCRIPT_ALLOC] = 'a',    [VW__SCRIPT_FREE] = 'f',  [VW__SCRIPT_FREE_LATER] = 'l',
        [VW__SCRIPT_COMPLETE] = 'c', [VW__SCRIPT_OOM] = 'o',   [VW__SCRIPT_TRIM] = 't',
        [VW__SCRIPT_SNAPSHOT] = 'n', [VW__SCRIPT_SCOPE] = 's', [VW__SCRIPT_RELEASE] = 'r'};
    char found[MOST_EVENTS * 2] = "";
    for (size_t i = 0; i < script->op_count && i + 1 < sizeof found; i++)
        found[i] = letters[script->ops[i].kind];
    assert_string_equal(found, expected);
}

/* ---- requests and frees ---------------------------------------------------------------------- */

static void a_slot_is_used_again_once_its_block_is_freed(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 1000, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT + 1024, 512, 1);
    add_free(&hand, SEGMENT, 1000);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 600, 2);
    add_segment(&hand, SEGMENT, 2 * MIB, VW_BLOCK_LIVE);
    make(&hand, &script);
    assert_kinds(&script, "aafa");
    assert_int_equal(script.slot_count, 2);
    assert_int_equal(script.ops[3].slot, script.ops[0].slot);
    assert_int_equal(script.ops[0].first_event, 0); /* its segment with it */
    assert_int_equal(script.ops[0].end_event, 2);
    assert_int_equal(script.ops[2].end_event - script.ops[2].first_event, 2);
    assert_int_equal(script.peak_live_bytes, 1024 + 512); /* on the grid of 512 bytes */
    assert_int_equal(script.peak_event, 2);               /* and not when it came back to that */
    assert_false(script.is_truncated);
    assert_true(script.has_end_state);
    vw__script_deinit(&script);
}

static void a_free_that_completes_later_waits_for_a_stream_of_its_own(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT + 512, 512, 1);
    (void)add(&hand, VW_ACTION_FREE_REQUESTED, SEGMENT, 512, 0);
    (void)add(&hand, VW_ACTION_FREE_REQUESTED, SEGMENT + 512, 512, 0);
    (void)add(&hand, VW_ACTION_FREE_COMPLETED, SEGMENT + 512, 512, 0);
    (void)add(&hand, VW_ACTION_FREE_COMPLETED, SEGMENT, 512, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 1024, 2);
    add_segment(&hand, SEGMENT, 2 * MIB, VW_BLOCK_LIVE);
    make(&hand, &script);
    assert_kinds(&script, "aalfca");
    assert_int_equal(script.user_count, 1);
    assert_int_equal(script.ops[4].user, script.ops[2].user);
    assert_int_equal(script.ops[5].first_event, 6); /* the completion is the request's to find */
    assert_int_equal(script.ops[5].end_event, 8);
    assert_int_equal(script.peak_live_bytes, 1024);
    vw__script_deinit(&script);
}

static void snapshots_and_failures_are_kept_and_remarks_are_not(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
    (void)add(&hand, VW__MODEL_ACTION_ANNOTATE, SEGMENT, 512, 7);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 0);
    (void)add(&hand, VW_ACTION_SNAPSHOT, 0, 512, VW__MODEL_NO_CONTEXT);
    (void)add(&hand, VW__MODEL_ACTION_OTHER, 0, 0, VW__MODEL_NO_CONTEXT);
    (void)add(&hand, VW_ACTION_OOM, 77 * MIB, 80 * MIB, 1);
    add_segment(&hand, SEGMENT, 2 * MIB, VW_BLOCK_LIVE);
    make(&hand, &script);
    assert_kinds(&script, "ano");
    assert_int_equal(script.ops[2].size_bytes, 80 * MIB);
    assert_int_equal(script.dropped_event_count, 0);
    vw__script_deinit(&script);
}

static void an_alloc_on_a_live_block_is_refused(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script = {.op_count = 99};
    begin(&hand);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 1);
    assert_int_equal(vw__script_make(&hand.model, &hand.trace, &script), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "event 2"));
    assert_int_equal(script.op_count, 99);
}

/* ---- releases -------------------------------------------------------------------------------- */

/* A block comes and goes, its segment is given back, and a larger request takes another one. */
static void add_release(hand_model *hand, uint32_t release_context, uint32_t request_context)
{
    (void)add(hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 20 * MIB, 0);
    (void)add(hand, VW_ACTION_ALLOC, SEGMENT, 15 * MIB, 0);
    add_free(hand, SEGMENT, 15 * MIB);
    (void)add(hand, VW_ACTION_SEGMENT_FREE, SEGMENT, 20 * MIB, release_context);
    (void)add(hand, VW_ACTION_SEGMENT_ALLOC, OTHER_SEGMENT, 30 * MIB, request_context);
    (void)add(hand, VW_ACTION_ALLOC, OTHER_SEGMENT, 30 * MIB, request_context);
    (void)add_segment(hand, OTHER_SEGMENT, 30 * MIB, VW_BLOCK_LIVE);
}

static void a_release_with_the_capture_of_the_next_request_is_its_own(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    add_release(&hand, 5, 5);
    make(&hand, &script);
    assert_kinds(&script, "afa");
    assert_int_equal(script.ops[2].first_event, 4);
    assert_false(script.has_guessed_releases);
    vw__script_deinit(&script);
}

static void a_release_with_another_capture_or_none_is_an_empty_cache(void **state)
{
    (void)state;
    static const uint32_t contexts[] = {4, VW__MODEL_NO_CONTEXT};
    for (size_t i = 0; i < 2; i++) {
        hand_model hand;
        vw__script script;
        begin(&hand);
        add_release(&hand, contexts[i], 5);
        make(&hand, &script);
        assert_kinds(&script, "afta");
        assert_int_equal(script.ops[2].end_event - script.ops[2].first_event, 1);
        vw__script_deinit(&script);
    }
}

static void without_stacks_it_is_the_requests_unless_told_otherwise(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    const uint32_t trims[] = {4};
    const vw__script_guide guide = {.flips = trims, .flip_count = 1};
    begin(&hand);
    hand.model.features.has_contexts = false;
    add_release(&hand, VW__MODEL_NO_CONTEXT, VW__MODEL_NO_CONTEXT);
    make(&hand, &script);
    assert_kinds(&script, "afa");
    assert_true(script.has_guessed_releases);
    vw__script_deinit(&script);
    assert_int_equal(vw__script_make_guided(&hand.model, &hand.trace, &guide, &script), VW_OK);
    assert_kinds(&script, "afta");
    vw__script_deinit(&script);
}

static void without_stacks_a_release_at_the_end_is_an_empty_cache(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    hand.model.features.has_contexts = false;
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 20 * MIB, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 15 * MIB, 0);
    add_free(&hand, SEGMENT, 15 * MIB);
    (void)add(&hand, VW_ACTION_SEGMENT_FREE, SEGMENT, 20 * MIB, VW__MODEL_NO_CONTEXT);
    make(&hand, &script);
    assert_kinds(&script, "aft");
    assert_false(script.has_guessed_releases);
    assert_true(script.has_end_state); /* nothing is left, and no segment is there */
    vw__script_deinit(&script);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void what_was_live_before_the_trace_is_requested_first_by_rising_address(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    add_free(&hand, OTHER_SEGMENT, 3 * MIB);
    (void)add(&hand, VW_ACTION_ALLOC, OTHER_SEGMENT, 2 * MIB, 1);
    add_free(&hand, OTHER_SEGMENT, 2 * MIB);
    add_segment(&hand, SEGMENT, 2 * MIB, VW_BLOCK_LIVE);
    add_segment(&hand, OTHER_SEGMENT, 20 * MIB, VW_BLOCK_FREE);
    make(&hand, &script);
    assert_true(script.is_truncated);
    assert_kinds(&script, "aafaf");
    assert_int_equal(script.initial_count, 2);
    assert_int_equal(script.ops[0].size_bytes, 2 * MIB - 100); /* as requested, by the end state */
    assert_int_equal(script.ops[1].size_bytes, 3 * MIB);       /* by its free */
    assert_int_equal(script.ops[0].first_event, VW__SCRIPT_BEFORE_RECORDING);
    assert_int_equal(script.initial_live_bytes, 5 * MIB);
    assert_int_equal(script.peak_live_bytes, 5 * MIB);
    assert_int_equal(script.peak_event, VW__SCRIPT_BEFORE_RECORDING);
    assert_int_equal(script.dropped_event_count, 0);
    vw__script_deinit(&script);
}

static void a_free_of_nothing_is_no_cut_where_all_memory_is_accounted_for(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 0);
    (void)add(&hand, VW_ACTION_FREE_REQUESTED, SEGMENT + 512, 512, 0);
    add_segment(&hand, SEGMENT, 2 * MIB, VW_BLOCK_LIVE);
    make(&hand, &script);
    assert_kinds(&script, "a");
    assert_false(script.is_truncated);
    assert_int_equal(script.dropped_event_count, 1);
    assert_int_equal(script.first_dropped_event, 2);
    vw__script_deinit(&script);
}

static void a_trace_that_ends_inside_a_request_loses_only_that(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 0);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, OTHER_SEGMENT, 20 * MIB, 1);
    make(&hand, &script);
    assert_kinds(&script, "a");
    assert_false(script.has_end_state);
    assert_int_equal(script.first_dropped_event, VW__SCRIPT_BEFORE_RECORDING);
    vw__script_deinit(&script);
}

static void a_kind_of_event_that_was_not_recorded_is_done_without(void **state)
{
    (void)state;
    for (unsigned kind = VW_ACTION_FREE_REQUESTED; kind <= VW_ACTION_FREE_COMPLETED; kind++) {
        hand_model hand;
        vw__script script;
        begin(&hand);
        (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
        for (size_t i = 0; i < 16; i++) {
            (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 0);
            (void)add(&hand, kind, SEGMENT, 512, 0);
        }
        add_segment(&hand, SEGMENT, 2 * MIB, VW_BLOCK_FREE);
        make(&hand, &script);
        assert_kinds(&script, "afafafafafafafafafafafafafafafaf");
        assert_int_equal(script.lacks_free_requested, kind == VW_ACTION_FREE_COMPLETED);
        assert_int_equal(script.lacks_free_completed, kind == VW_ACTION_FREE_REQUESTED);
        assert_int_equal(script.dropped_event_count, 0);
        vw__script_deinit(&script);
    }
}

/* ---- private pools --------------------------------------------------------------------------- */

static void a_request_belongs_to_the_pool_of_the_segment_it_lies_in(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 0);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, OTHER_SEGMENT, 2 * MIB, 1);
    (void)add(&hand, VW_ACTION_ALLOC, OTHER_SEGMENT, 512, 1);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT + 512, 512, 2);
    add_segment(&hand, SEGMENT, 2 * MIB, VW_BLOCK_LIVE);
    add_segment(&hand, OTHER_SEGMENT, 2 * MIB, VW_BLOCK_LIVE)->pool = 2;
    make(&hand, &script);
    assert_kinds(&script, "asasa");
    assert_int_equal(script.ops[1].pool, 2);
    assert_int_equal(script.ops[2].pool, 2);
    assert_int_equal(script.ops[3].pool, 0);
    assert_false(script.has_guessed_pools);
    vw__script_deinit(&script);
}

/* Two captures on one stream: of the first only a released segment is left to tell. */
static void a_run_on_a_capture_stream_whose_segments_are_gone_gets_a_pool_of_its_own(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 0);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, OTHER_SEGMENT, 2 * MIB, 1);
    add(&hand, VW_ACTION_ALLOC, OTHER_SEGMENT, 512, 1)->stream = CAPTURE_STREAM;
    (void)add(&hand, VW_ACTION_FREE_REQUESTED, OTHER_SEGMENT, 512, 1);
    (void)add(&hand, VW_ACTION_FREE_COMPLETED, OTHER_SEGMENT, 512, 1);
    (void)add(&hand, VW_ACTION_SEGMENT_FREE, OTHER_SEGMENT, 2 * MIB, VW__MODEL_NO_CONTEXT);
    (void)add(&hand, VW_ACTION_ALLOC, SEGMENT + 512, 512, 2);
    (void)add(&hand, VW_ACTION_SEGMENT_ALLOC, OTHER_SEGMENT + 4 * MIB, 2 * MIB, 3);
    add(&hand, VW_ACTION_ALLOC, OTHER_SEGMENT + 4 * MIB, 512, 3)->stream = CAPTURE_STREAM;
    add_segment(&hand, SEGMENT, 2 * MIB, VW_BLOCK_LIVE);
    vw__model_segment *kept = add_segment(&hand, OTHER_SEGMENT + 4 * MIB, 2 * MIB, VW_BLOCK_LIVE);
    kept->pool = 1;
    kept->stream = CAPTURE_STREAM;
    make(&hand, &script);
    assert_kinds(&script, "asafsrtasa");
    assert_true(script.has_guessed_pools);
    assert_int_equal(script.pool_count, 4);
    assert_int_equal(script.ops[1].pool, 3);
    assert_int_equal(script.ops[5].pool, 3); /* released before the trim that empties it */
    assert_int_equal(script.ops[8].pool, 1);
    assert_true(script.pools[3].first == 1 && script.pools[3].second == 0);
    vw__script_deinit(&script);
}

/* Two segments that are gone in the end, the second given back behind the first. */
static void add_two_that_go(hand_model *hand)
{
    (void)add(hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0);
    (void)add(hand, VW_ACTION_ALLOC, SEGMENT, 512, 0);
    (void)add(hand, VW_ACTION_SEGMENT_ALLOC, OTHER_SEGMENT, 2 * MIB, 1);
    (void)add(hand, VW_ACTION_ALLOC, OTHER_SEGMENT, 1024, 1);
    add_free(hand, SEGMENT, 512);
    add_free(hand, OTHER_SEGMENT, 1024);
    (void)add(hand, VW_ACTION_SEGMENT_FREE, SEGMENT, 2 * MIB, VW__MODEL_NO_CONTEXT);
    (void)add(hand, VW_ACTION_SEGMENT_FREE, OTHER_SEGMENT, 2 * MIB, VW__MODEL_NO_CONTEXT);
}

static void make_with_hints(const hand_model *hand, const vw__script_pool_hint *hints, size_t count,
                            vw__script *script)
{
    const vw__script_guide guide = {.hints = hints, .hint_count = count};
    assert_int_equal(vw__script_make_guided(&hand->model, &hand->trace, &guide, script), VW_OK);
}

static void a_hinted_segment_gets_a_private_pool_that_is_released_where_it_goes(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    const vw__script_pool_hint second = {.event = 2, .group = 1};
    begin(&hand);
    add_two_that_go(&hand);
    make(&hand, &script);
    assert_kinds(&script, "aafft");
    assert_false(script.has_hinted_pools);
    vw__script_deinit(&script);

    make_with_hints(&hand, &second, 1, &script);
    assert_kinds(&script, "asaffsrt");
    assert_true(script.has_hinted_pools);
    assert_int_equal(script.pool_count, 4);
    assert_int_equal(script.ops[0].pool, 0);
    assert_int_equal(script.ops[2].pool, 3);
    assert_int_equal(script.ops[6].pool, 3); /* released */
    assert_int_equal(script.ops[7].pool, 0); /* and both went in one empty_cache() */
    vw__script_deinit(&script);
}

static void memory_of_the_default_pool_behind_a_private_ones_went_in_another_call(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    const vw__script_pool_hint first = {.event = 0, .group = 1};
    begin(&hand);
    add_two_that_go(&hand);
    make_with_hints(&hand, &first, 1, &script);
    assert_kinds(&script, "sasaffrtt");
    assert_int_equal(script.ops[7].pool, 3); /* a MemPool's end */
    assert_int_equal(script.ops[7].end_event - script.ops[7].first_event, 1);
    assert_int_equal(script.ops[8].pool, 0); /* an empty_cache() */
    vw__script_deinit(&script);
}

static void hints_of_one_group_share_a_pool_and_those_on_record_stay(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    const vw__script_pool_hint both[] = {{.event = 0, .group = 1}, {.event = 2, .group = 1}};
    const vw__script_pool_hint apart[] = {{.event = 0, .group = 1}, {.event = 2, .group = 2}};
    begin(&hand);
    add_two_that_go(&hand);
    make_with_hints(&hand, both, 2, &script);
    assert_int_equal(script.pool_count, 4);
    assert_int_equal(script.ops[script.op_count - 1].pool, 3);
    vw__script_deinit(&script);
    make_with_hints(&hand, apart, 2, &script);
    assert_int_equal(script.pool_count, 5);
    assert_int_equal(script.ops[script.op_count - 1].pool, 0); /* of more than one */
    vw__script_deinit(&script);
    hand.events[0].pool = hand.events[1].pool = 1;
    make_with_hints(&hand, both, 2, &script);
    assert_int_equal(script.ops[1].pool, 1);
    vw__script_deinit(&script);
}

static void a_pool_may_be_unsplit_if_every_block_begins_a_segment(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    bool is_possible = false;
    const vw__script_pool_hint both[] = {{.event = 0, .group = 1}, {.event = 2, .group = 1}};
    begin(&hand);
    add_two_that_go(&hand);
    make_with_hints(&hand, both, 2, &script);
    assert_int_equal(vw__script_may_be_unsplit(&script, 3, &is_possible), VW_OK);
    assert_true(is_possible);
    assert_int_equal(vw__script_may_be_unsplit(&script, 0, &is_possible), VW_OK);
    assert_false(is_possible); /* the default pool never is */
    vw__script_deinit(&script);
    hand.events[3].address += 512;
    hand.events[6].address += 512;
    hand.events[7].address += 512;
    make_with_hints(&hand, both, 2, &script);
    assert_int_equal(vw__script_may_be_unsplit(&script, 3, &is_possible), VW_OK);
    assert_false(is_possible);
    vw__script_deinit(&script);
}

static void events_that_name_their_pool_are_believed(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    add(&hand, VW_ACTION_SEGMENT_ALLOC, SEGMENT, 2 * MIB, 0)->pool = 1;
    add(&hand, VW_ACTION_ALLOC, SEGMENT, 512, 0)->pool = 1;
    add(&hand, VW_ACTION_OOM, 0, 80 * MIB, 1)->pool = 0;
    (void)add_segment(&hand, SEGMENT, 2 * MIB, VW_BLOCK_LIVE);
    make(&hand, &script);
    assert_kinds(&script, "saso");
    assert_int_equal(script.ops[0].pool, 1);
    assert_int_equal(script.ops[3].pool, 0);
    assert_false(script.has_guessed_pools);
    vw__script_deinit(&script);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static bool make_quietly(void *context)
{
    const hand_model *hand = context;
    vw__script script;
    vw_status status = vw__script_make(&hand->model, &hand->trace, &script);
    if (status == VW_OK)
        vw__script_deinit(&script);
    else
        assert_int_equal(status, VW_ERR_HOST_MEMORY);
    return status == VW_OK;
}

static void every_failure_of_host_memory_is_survived(void **state)
{
    (void)state;
    hand_model hand;
    begin(&hand);
    add_release(&hand, 4, 5);
    hand.segments[0].pool = 1;
    add_free(&hand, SEGMENT, 512);
    add_segment(&hand, OTHER_SEGMENT + 40 * MIB, 2 * MIB, VW_BLOCK_LIVE);
    vw_test_sweep_host_memory(make_quietly, &hand);
}

static void more_events_than_numbers_for_them_are_refused(void **state)
{
    (void)state;
    hand_model hand;
    vw__script script;
    begin(&hand);
    hand.trace.event_count = VW__SCRIPT_BEFORE_RECORDING - 1;
    assert_int_equal(vw__script_make(&hand.model, &hand.trace, &script), VW_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_is_used_again_once_its_block_is_freed),
        cmocka_unit_test(a_free_that_completes_later_waits_for_a_stream_of_its_own),
        cmocka_unit_test(snapshots_and_failures_are_kept_and_remarks_are_not),
        cmocka_unit_test(an_alloc_on_a_live_block_is_refused),
        cmocka_unit_test(a_release_with_the_capture_of_the_next_request_is_its_own),
        cmocka_unit_test(a_release_with_another_capture_or_none_is_an_empty_cache),
        cmocka_unit_test(without_stacks_it_is_the_requests_unless_told_otherwise),
        cmocka_unit_test(without_stacks_a_release_at_the_end_is_an_empty_cache),
        cmocka_unit_test(what_was_live_before_the_trace_is_requested_first_by_rising_address),
        cmocka_unit_test(a_free_of_nothing_is_no_cut_where_all_memory_is_accounted_for),
        cmocka_unit_test(a_trace_that_ends_inside_a_request_loses_only_that),
        cmocka_unit_test(a_kind_of_event_that_was_not_recorded_is_done_without),
        cmocka_unit_test(a_request_belongs_to_the_pool_of_the_segment_it_lies_in),
        cmocka_unit_test(a_run_on_a_capture_stream_whose_segments_are_gone_gets_a_pool_of_its_own),
        cmocka_unit_test(a_hinted_segment_gets_a_private_pool_that_is_released_where_it_goes),
        cmocka_unit_test(memory_of_the_default_pool_behind_a_private_ones_went_in_another_call),
        cmocka_unit_test(hints_of_one_group_share_a_pool_and_those_on_record_stay),
        cmocka_unit_test(a_pool_may_be_unsplit_if_every_block_begins_a_segment),
        cmocka_unit_test(events_that_name_their_pool_are_believed),
        cmocka_unit_test(every_failure_of_host_memory_is_survived),
        cmocka_unit_test(more_events_than_numbers_for_them_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
