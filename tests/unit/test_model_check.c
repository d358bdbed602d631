/* test_model_check.c - a sound model passes; each way of breaking it is found and named.
 *
 * Every test starts from the same sound model, in plain arrays of the test's own, and breaks one
 * thing. */
#include "model/model_check.h"

#include <string.h>

#include "support/cmocka_here.h"

enum { FRAME_COUNT = 2, BLOCK_COUNT = 5, SEGMENT_COUNT = 3, EVENT_COUNT = 2 };

typedef struct fixture {
    vw__model model;
    vw__model_frame frames[FRAME_COUNT];
    uint32_t frame_ids[2];
    vw__model_stack stacks[2];
    uint32_t contexts[1];
    vw__model_note notes[1];
    vw_stream streams[1];
    vw_private_id pools[1];
    vw__model_event events[EVENT_COUNT];
    vw__model_trace traces[2];
    vw__model_segment segments[SEGMENT_COUNT];
    vw__model_block blocks[BLOCK_COUNT];
    vw__model_annotation annotations[1];
    vw__model_setting settings[1];
} fixture;

/* Device 0: 4096 bytes at 0x1000 as live, pending, free; 1024 at 0x2000 as one live block. The
 * host: 1000 bytes at 0x1000, of which its block has 800. */
static void make_segments(fixture *f)
{
    f->blocks[0] = (vw__model_block){0x1000, 512, 500, 0, VW_BLOCK_LIVE};
    f->blocks[1] =
        (vw__model_block){0x1200, 1536, 1500, VW__MODEL_NO_CONTEXT, VW_BLOCK_PENDING_FREE};
    f->blocks[2] = (vw__model_block){0x1800, 2048, 0, VW__MODEL_NO_CONTEXT, VW_BLOCK_FREE};
    f->blocks[3] = (vw__model_block){0x2000, 1024, 1, VW__MODEL_NO_CONTEXT, VW_BLOCK_LIVE};
    f->blocks[4] = (vw__model_block){0x1000, 800, 800, VW__MODEL_NO_CONTEXT, VW_BLOCK_LIVE};
    f->segments[0] = (vw__model_segment){
        .address = 0x1000,
        .total_bytes = 4096,
        .allocated_bytes = 512,
        .active_bytes = 2048,
        .block_count = 3,
        .context = 0,
        .pool = VW__MODEL_UNKNOWN_POOL,
    };
    f->segments[1] = (vw__model_segment){
        .address = 0x2000,
        .total_bytes = 1024,
        .allocated_bytes = 1024,
        .active_bytes = 1024,
        .first_block = 3,
        .block_count = 1,
        .context = VW__MODEL_NO_CONTEXT,
    };
    f->segments[2] = (vw__model_segment){
        .address = 0x1000,
        .total_bytes = 1000,
        .first_block = 4,
        .block_count = 1,
        .context = VW__MODEL_NO_CONTEXT,
        .device = VW__MODEL_HOST_DEVICE,
    };
}

static void make_events(fixture *f)
{
    f->events[0] = (vw__model_event){.context = 0, .note = 0, .action = VW_ACTION_ALLOC};
    f->events[1] = (vw__model_event){
        .context = VW__MODEL_NO_CONTEXT,
        .note = VW__MODEL_NO_NOTE,
        .pool = VW__MODEL_UNKNOWN_POOL,
        .action = VW__MODEL_ACTION_OTHER,
    };
    f->traces[0] = (vw__model_trace){f->events, 1, 0};
    f->traces[1] = (vw__model_trace){f->events + 1, 1, VW__MODEL_HOST_DEVICE};
}

static int set_up(void **state)
{
    static fixture f;
    vw__model *model = &f.model;
    uint32_t id = 0;
    memset(&f, 0, sizeof f);
    vw__arena_init(&model->arena, VW__ARENA_NO_LIMIT);
    vw__string_table_init(&model->strings, &model->arena, 10, 1000);
    if (!vw__string_table_add(&model->strings, "step", 4, &id))
        return -1;
    f.frames[1].name = VW__MODEL_NO_STRING;
    f.frame_ids[0] = 1;
    f.stacks[1].count = 2;
    f.contexts[0] = 1;
    f.notes[0].action = VW__MODEL_NO_STRING;
    make_events(&f);
    make_segments(&f);
    model->frames = f.frames, model->frame_count = FRAME_COUNT;
    model->frame_ids = f.frame_ids, model->frame_id_count = 2;
    model->stacks = f.stacks, model->stack_count = 2;
    model->contexts = f.contexts, model->context_count = 1;
    model->notes = f.notes, model->note_count = 1;
    model->streams = f.streams, model->stream_count = 1;
    model->pools = f.pools, model->pool_count = 1;
    model->events = f.events, model->event_count = EVENT_COUNT;
    model->traces = f.traces, model->trace_count = 2;
    model->segments = f.segments, model->segment_count = SEGMENT_COUNT;
    model->blocks = f.blocks, model->block_count = BLOCK_COUNT;
    model->annotations = f.annotations, model->annotation_count = 1;
    model->settings.entries = f.settings, model->settings.entry_count = 1;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    vw__arena_deinit(&f->model.arena);
    return 0;
}

/* Both checks, which must agree. */
static vw_status check(const vw__model *model)
{
    vw__model_event_bounds bounds = {0};
    for (size_t i = 0; i < model->event_count; i++)
        vw__model_event_bounds_add(&bounds, &model->events[i]);
    vw_status status = vw__model_check(model, NULL);
    assert_int_equal(vw__model_check(model, &bounds), status);
    return status;
}

static void assert_refused(const fixture *f, const char *words)
{
    assert_int_equal(check(&f->model), VW_ERR_CORRUPT_FILE);
    if (strstr(vw_last_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", vw_last_error(), words);
}

static void a_sound_model_passes(void **state)
{
    fixture *f = *state;
    assert_int_equal(check(&f->model), VW_OK);
}

/* Sets one field to a wrong value, sees it refused, sets it back, sees the model accepted. */
#define BREAK(field, wrong, words)                                                                 \
    do {                                                                                           \
        __typeof__(field) right_value = (field);                                                   \
        (field) = (wrong);                                                                         \
        assert_refused(f, words);                                                                  \
        (field) = right_value;                                                                     \
        assert_int_equal(check(&f->model), VW_OK);                                                 \
    } while (0)

static void every_index_must_be_within_its_table(void **state)
{
    fixture *f = *state;
    BREAK(f->frames[0].name, 1, "frame 0");
    BREAK(f->frames[1].filename, 7, "frame 1");
    BREAK(f->frame_ids[1], 2, "frame 2 of 2");
    BREAK(f->stacks[1].first, 1, "stack 1");
    BREAK(f->stacks[1].count, UINT32_MAX, "stack 1");
    BREAK(f->contexts[0], 2, "stack 2 of 2");
    BREAK(f->notes[0].action, 1, "note 0");
    BREAK(f->notes[0].compile_context, 1, "note 0");
    BREAK(f->notes[0].user_metadata, 1, "note 0");
    BREAK(f->notes[0].forward_stack, 2, "note 0");
    BREAK(f->annotations[0].name, 1, "annotation 0");
    BREAK(f->settings[0].key, 1, "setting 0");
    BREAK(f->settings[0].value, 1, "setting 0");
    BREAK(f->model.settings.conf, 1, "settings");
    BREAK(f->events[0].context, 1, "event 0");
    BREAK(f->events[0].note, 1, "event 0");
    BREAK(f->events[0].stream, 1, "stream 1");
    BREAK(f->events[0].pool, 1, "pool 1");
    BREAK(f->events[1].action, VW__MODEL_ACTION_KINDS, "event 1: action 11");
    BREAK(f->segments[0].context, 1, "segment 0x1000");
    BREAK(f->segments[0].stream, 1, "stream 1");
    BREAK(f->segments[0].pool, 1, "pool 1");
    BREAK(f->segments[1].first_block, 5, "past the blocks");
    BREAK(f->segments[1].block_count, SIZE_MAX, "past the blocks");
    BREAK(f->blocks[0].context, 1, "block 0");
    BREAK(f->blocks[0].state, 3, "state 3");
}

static void the_fixed_entries_must_be_first(void **state)
{
    fixture *f = *state;
    BREAK(f->stacks[0].count, 1, "empty one");
    BREAK(f->model.stack_count, 0, "empty one");
    BREAK(f->pools[0].second, 1, "default one");
    BREAK(f->model.pool_count, 0, "default one");
}

static void traces_must_lie_within_the_events_one_for_each_device(void **state)
{
    fixture *f = *state;
    BREAK(f->traces[0].event_count, 3, "trace 0 reaches past");
    BREAK(f->traces[1].event_count, 2, "trace 1 reaches past");
    BREAK(f->traces[0].device, VW__MODEL_HOST_DEVICE, "two traces");
    BREAK(f->traces[0].device, -2, "no device -2");
}

static void blocks_must_tile_their_segment(void **state)
{
    fixture *f = *state;
    BREAK(f->blocks[0].address, 0x1001, "block 0 begins at 0x1001, where 0x1000 was expected");
    BREAK(f->blocks[1].address, 0x1100, "blocks 0 and 1 overlap: one ends at 0x1200");
    BREAK(f->blocks[1].address, 0x1201, "block 1 begins at 0x1201, where 0x1200 was expected");
    BREAK(f->blocks[2].size_bytes, 2049, "block 2 of 2049 bytes reaches past the end, 0x2000");
    BREAK(f->blocks[2].size_bytes, UINT64_MAX, "reaches past the end");
    BREAK(f->blocks[2].size_bytes, 2047, "4095 bytes together, its total_size is 4096");
}

static void a_segment_without_blocks_passes(void **state)
{
    fixture *f = *state;
    f->segments[0].block_count = 0;
    assert_int_equal(check(&f->model), VW_OK);
}

static void sums_must_be_those_of_the_blocks(void **state)
{
    fixture *f = *state;
    BREAK(f->segments[0].allocated_bytes, 511, "allocated_size is 511");
    BREAK(f->segments[0].active_bytes, 2047, "active_size 2047, but its blocks make 512 and 2048");
    BREAK(f->segments[0].allocated_bytes, 2049, "do not rise");
    BREAK(f->segments[0].active_bytes, 4097, "do not rise");
    f->blocks[1].state = VW_BLOCK_LIVE;
    assert_refused(f, "make 2048 and 2048");
}

static void a_host_block_may_be_smaller_than_its_segment_but_not_larger(void **state)
{
    fixture *f = *state;
    f->blocks[4].size_bytes = 1;
    assert_int_equal(check(&f->model), VW_OK);
    f->blocks[4].size_bytes = 1001;
    assert_refused(f, "reaches past the end");
}

static void segments_of_a_device_must_not_overlap_and_must_rise(void **state)
{
    fixture *f = *state;
    f->segments[0].total_bytes += 512;
    f->blocks[2].size_bytes += 512;
    assert_refused(f, "device 0: segments 0x1000 (4608 bytes) and 0x2000 overlap");
    f->segments[1].device = 1; /* another device's may lie anywhere */
    assert_int_equal(check(&f->model), VW_OK);
    f->segments[0].device = 2;
    assert_refused(f, "order");
}

/* Where the second begins, the first ends; all the same they are in one place. */
static void segments_of_no_bytes_have_addresses_of_their_own(void **state)
{
    fixture *f = *state;
    f->segments[0].block_count = 0;
    f->segments[0].total_bytes = f->segments[0].active_bytes = f->segments[0].allocated_bytes = 0;
    assert_int_equal(check(&f->model), VW_OK);
    f->segments[0].address = 0x2000;
    assert_refused(f, "device 0: segments 0x2000 (0 bytes) and 0x2000 overlap");
}

/* On another device its addresses do not overlap. */
static void a_block_belongs_to_one_segment(void **state)
{
    fixture *f = *state;
    f->segments[2] = f->segments[0];
    f->segments[2].device = 1;
    assert_refused(f, "segment 0x1000: some of its blocks are another segment's");
}

static void no_segment_may_reach_past_the_last_address(void **state)
{
    fixture *f = *state;
    BREAK(f->segments[1].total_bytes, UINT64_MAX, "past the end of all addresses");
    BREAK(f->segments[2].device, -2, "no device -2");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(a_sound_model_passes),
        CASE(every_index_must_be_within_its_table),
        CASE(the_fixed_entries_must_be_first),
        CASE(traces_must_lie_within_the_events_one_for_each_device),
        CASE(blocks_must_tile_their_segment),
        CASE(a_segment_without_blocks_passes),
        CASE(sums_must_be_those_of_the_blocks),
        CASE(a_host_block_may_be_smaller_than_its_segment_but_not_larger),
        CASE(segments_of_a_device_must_not_overlap_and_must_rise),
        CASE(segments_of_no_bytes_have_addresses_of_their_own),
        CASE(a_block_belongs_to_one_segment),
        CASE(no_segment_may_reach_past_the_last_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
