/* test_torch_snapshot_pickle.c - what only pickles have: parts that are shared, and so identity.
 *
 * The pickles are written here, instruction by instruction, with just enough of protocol 2. */
#include "parse/torch_snapshot_read.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "base/byte_buffer.h"
#include "base/host_memory.h"

/* ---- writing a pickle ------------------------------------------------------------------------ */

static void begin(vw__byte_buffer *pickle)
{
    vw__byte_buffer_init(pickle);
    vw__append_bytes(pickle, "\x80\x02", 2);
}

static void text(vw__byte_buffer *pickle, const char *string)
{
    vw__append_u8(pickle, 'X');
    vw__append_u32_le(pickle, (uint32_t)strlen(string));
    vw__append_text(pickle, string);
}

static void number(vw__byte_buffer *pickle, uint32_t value)
{
    vw__append_u8(pickle, 'J');
    vw__append_u32_le(pickle, value);
}

static void op(vw__byte_buffer *pickle, const char *instructions)
{
    vw__append_text(pickle, instructions);
}

static void remember(vw__byte_buffer *pickle, uint8_t place)
{
    op(pickle, "q");
    vw__append_u8(pickle, place);
}

static void recall(vw__byte_buffer *pickle, uint8_t place)
{
    op(pickle, "h");
    vw__append_u8(pickle, place);
}

static void field(vw__byte_buffer *pickle, const char *key, uint32_t value)
{
    text(pickle, key);
    number(pickle, value);
}

static void word(vw__byte_buffer *pickle, const char *key, const char *value)
{
    text(pickle, key);
    text(pickle, value);
}

/* A trace entry whose frames are what `frames` writes; it stays open for more fields. */
static void begin_entry(vw__byte_buffer *pickle, const char *action, uint32_t address)
{
    op(pickle, "}(");
    word(pickle, "action", action);
    field(pickle, "addr", address);
    field(pickle, "size", 512);
}

static void one_frame(vw__byte_buffer *pickle)
{
    op(pickle, "}(");
    word(pickle, "name", "f");
    word(pickle, "filename", "a.py");
    field(pickle, "line", 1);
    op(pickle, "u");
}

static vw_status read_pickle(const vw__byte_buffer *pickle, size_t size_bytes, vw__model **model)
{
    vw__byte_source *source;
    vw__snapshot_encoding encoding = VW__SNAPSHOT_ENCODING_JSON;
    vw_status status =
        vw__byte_source_open_memory(vw__byte_buffer_text(pickle), size_bytes, NULL, &source);
    if (status != VW_OK)
        return status;
    status = vw__snapshot_read(source, 64 << 20, model, &encoding);
    vw__byte_source_close(source);
    if (status == VW_OK)
        assert_int_equal(encoding, VW__SNAPSHOT_ENCODING_PICKLE);
    return status;
}

static vw__model *model_of(vw__byte_buffer *pickle)
{
    vw__model *model = NULL;
    if (read_pickle(pickle, vw__byte_buffer_size(pickle), &model) != VW_OK)
        fail_msg("%s", vw_last_error());
    vw__byte_buffer_deinit(pickle);
    return model;
}

/* ---- identity -------------------------------------------------------------------------------- */

/* Five entries: two share a list of frames, the third has an equal one of its own, the last two
 * share an empty one. */
static void write_shared_frames(vw__byte_buffer *pickle)
{
    begin(pickle);
    op(pickle, "}(");
    text(pickle, "device_traces");
    op(pickle, "](](");
    begin_entry(pickle, "segment_alloc", 512);
    text(pickle, "frames");
    op(pickle, "]");
    remember(pickle, 1);
    op(pickle, "(");
    one_frame(pickle);
    op(pickle, "eu");
    begin_entry(pickle, "alloc", 512);
    text(pickle, "frames");
    recall(pickle, 1);
    op(pickle, "u");
    begin_entry(pickle, "alloc", 1024);
    text(pickle, "frames");
    op(pickle, "](");
    one_frame(pickle);
    op(pickle, "eu");
    begin_entry(pickle, "alloc", 1536);
    text(pickle, "frames");
    op(pickle, "]");
    remember(pickle, 2);
    op(pickle, "u");
    begin_entry(pickle, "free_requested", 1536);
    text(pickle, "frames");
    recall(pickle, 2);
    op(pickle, "u");
    op(pickle, "ee");
    text(pickle, "segments");
    op(pickle, "](}(");
    field(pickle, "address", 512);
    field(pickle, "total_size", 512);
    text(pickle, "frames");
    recall(pickle, 1);
    text(pickle, "segment_pool_id");
    number(pickle, 7);
    number(pickle, 8);
    op(pickle, "\x86"); /* TUPLE2 */
    text(pickle, "blocks");
    op(pickle, "](}(");
    field(pickle, "size", 512);
    word(pickle, "state", "inactive");
    op(pickle, "ueueu.");
}

static void one_list_of_frames_is_one_context_and_equal_lists_are_two(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    write_shared_frames(&pickle);
    vw__model *model = model_of(&pickle);
    const vw__model_event *events = model->traces[0].events;
    assert_int_equal(model->traces[0].event_count, 5);
    assert_int_equal(events[0].context, events[1].context);
    assert_int_not_equal(events[1].context, events[2].context);
    assert_int_equal(model->contexts[events[1].context], model->contexts[events[2].context]);
    assert_int_equal(vw__model_stack_of(model, events[0].context).count, 1);
    assert_true(model->features.has_identity);
    assert_int_equal(model->frame_count, 1);
    vw__model_destroy(model);
}

static void an_empty_list_is_a_context_with_the_empty_stack(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    write_shared_frames(&pickle);
    vw__model *model = model_of(&pickle);
    const vw__model_event *events = model->traces[0].events;
    assert_int_not_equal(events[3].context, VW__MODEL_NO_CONTEXT);
    assert_int_equal(events[3].context, events[4].context);
    assert_int_equal(model->contexts[events[3].context], VW__MODEL_EMPTY_STACK);
    vw__model_destroy(model);
}

static void segments_share_contexts_with_events_and_have_pools_as_tuples(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    write_shared_frames(&pickle);
    vw__model *model = model_of(&pickle);
    assert_int_equal(model->segments[0].context, model->traces[0].events[0].context);
    assert_int_equal(model->pools[model->segments[0].pool].first, 7);
    assert_int_equal(model->pools[model->segments[0].pool].second, 8);
    vw__model_destroy(model);
}

/* ---- parts that are shared oddly ------------------------------------------------------------- */

/* Entries 1, 2, 3 in the order of the file; device 0 has them as 1, 3, 2, and device 1 as 1, 2. */
static void entries_that_are_shared_or_out_of_order_are_copied(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    begin(&pickle);
    op(&pickle, "}(");
    text(&pickle, "others"); /* unknown, but read first */
    op(&pickle, "](");
    for (uint8_t i = 1; i <= 3; i++) {
        begin_entry(&pickle, "alloc", i);
        op(&pickle, "u");
        remember(&pickle, i);
    }
    op(&pickle, "e");
    text(&pickle, "device_traces");
    op(&pickle, "](](");
    recall(&pickle, 1), recall(&pickle, 3), recall(&pickle, 2);
    op(&pickle, "e](");
    recall(&pickle, 1), recall(&pickle, 2);
    op(&pickle, "eeu.");
    vw__model *model = model_of(&pickle);
    assert_int_equal(model->trace_count, 2);
    assert_int_equal(model->traces[0].event_count, 3);
    assert_int_equal(model->traces[0].events[0].address, 1);
    assert_int_equal(model->traces[0].events[1].address, 3);
    assert_int_equal(model->traces[0].events[2].address, 2);
    assert_int_equal(model->traces[1].event_count, 2);
    assert_int_equal(model->traces[1].events[0].address, 1);
    assert_int_equal(model->traces[1].events[1].address, 2);
    vw__model_destroy(model);
}

static void a_list_of_entries_in_two_traces_is_refused(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    vw__model *model = NULL;
    begin(&pickle);
    op(&pickle, "}(");
    text(&pickle, "device_traces");
    op(&pickle, "](]");
    remember(&pickle, 0);
    op(&pickle, "(");
    begin_entry(&pickle, "alloc", 7);
    op(&pickle, "u");
    begin_entry(&pickle, "alloc", 8);
    op(&pickle, "ue");
    recall(&pickle, 0);
    op(&pickle, "eu.");
    assert_int_equal(read_pickle(&pickle, vw__byte_buffer_size(&pickle), &model),
                     VW_ERR_CORRUPT_FILE);
    assert_string_equal(vw_last_error(),
                        "device_traces: item 1: expected the list of a device's trace entries, "
                        "found the entries of another trace");
    vw__byte_buffer_deinit(&pickle);
}

/* Lists without entries may be one object: they add nothing. */
static void an_empty_list_may_be_the_trace_of_many_devices(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    begin(&pickle);
    op(&pickle, "}(");
    text(&pickle, "device_traces");
    op(&pickle, "](]");
    remember(&pickle, 0);
    recall(&pickle, 0);
    recall(&pickle, 0);
    op(&pickle, "eu.");
    vw__model *model = model_of(&pickle);
    assert_int_equal(model->trace_count, 3);
    assert_int_equal(model->event_count, 0);
    vw__model_destroy(model);
}

static void begin_segment(vw__byte_buffer *pickle, uint32_t address)
{
    op(pickle, "}(");
    field(pickle, "address", address);
    field(pickle, "total_size", 512);
    text(pickle, "blocks");
}

static void write_free_block(vw__byte_buffer *pickle)
{
    op(pickle, "}(");
    field(pickle, "size", 512);
    word(pickle, "state", "inactive");
    op(pickle, "u");
}

static void a_list_of_blocks_in_two_segments_is_refused(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    vw__model *model = NULL;
    begin(&pickle);
    op(&pickle, "](");
    begin_segment(&pickle, 512);
    op(&pickle, "]");
    remember(&pickle, 0);
    op(&pickle, "(");
    write_free_block(&pickle);
    op(&pickle, "eu");
    begin_segment(&pickle, 4096);
    recall(&pickle, 0);
    op(&pickle, "ue.");
    assert_int_equal(read_pickle(&pickle, vw__byte_buffer_size(&pickle), &model),
                     VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "segment 1: blocks: expected a list of blocks, found "
                                            "the blocks of another segment"));
    vw__byte_buffer_deinit(&pickle);
}

/* The second one's block has the address that the first one's segment gave it. */
static void a_block_in_two_segments_is_copied_and_then_found_misplaced(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    vw__model *model = NULL;
    begin(&pickle);
    op(&pickle, "](");
    begin_segment(&pickle, 512);
    op(&pickle, "](");
    write_free_block(&pickle);
    remember(&pickle, 0);
    op(&pickle, "eu");
    begin_segment(&pickle, 4096);
    op(&pickle, "](");
    recall(&pickle, 0);
    op(&pickle, "eue.");
    assert_int_equal(read_pickle(&pickle, vw__byte_buffer_size(&pickle), &model),
                     VW_ERR_CORRUPT_FILE);
    assert_string_equal(vw_last_error(),
                        "segment 0x1000: block 0 begins at 0x200, where 0x1000 was expected");
    vw__byte_buffer_deinit(&pickle);
}

/* Of no bytes, so that its copies would not overlap. */
static void a_segment_that_is_listed_twice_is_refused(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    vw__model *model = NULL;
    begin(&pickle);
    op(&pickle, "](}(");
    field(&pickle, "address", 512);
    field(&pickle, "total_size", 0);
    text(&pickle, "blocks");
    op(&pickle, "](}(");
    field(&pickle, "size", 0);
    word(&pickle, "state", "inactive");
    op(&pickle, "ueu");
    remember(&pickle, 0);
    recall(&pickle, 0);
    op(&pickle, "e.");
    assert_int_equal(read_pickle(&pickle, vw__byte_buffer_size(&pickle), &model),
                     VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), ": item 1: this segment was listed before"));
    vw__byte_buffer_deinit(&pickle);
}

/* A list of 1000 forward frames in 1000 entries: walked once, not a million times. */
static void a_shared_list_of_forward_frames_is_walked_once(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    vw__byte_buffer pickle;
    begin(&pickle);
    op(&pickle, "}(");
    text(&pickle, "device_traces");
    op(&pickle, "](](");
    for (int i = 0; i < COUNT; i++) {
        begin_entry(&pickle, "alloc", 512);
        text(&pickle, "forward_frames");
        if (i == 0) {
            op(&pickle, "]");
            remember(&pickle, 0);
            op(&pickle, "(");
            for (int frame = 0; frame < COUNT; frame++)
                text(&pickle, frame % 2 != 0 ? "odd" : "even");
            op(&pickle, "e");
        } else {
            recall(&pickle, 0);
        }
        op(&pickle, "u");
    }
    op(&pickle, "eeu.");
    vw__model *model = model_of(&pickle);
    assert_int_equal(model->event_count, COUNT);
    assert_int_equal(model->note_count, 1);
    assert_int_equal(model->stacks[model->notes[0].forward_stack].count, COUNT);
    assert_int_equal(model->frame_id_count, COUNT);
    vw__model_destroy(model);
}

static void other_values_are_refused_by_kind(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\x80\x02N.", "found None"},
        {"\x80\x02K\x05.", "found an integer"},
        {"\x80\x02)", ""},
        {"\x80\x02X\x01", ""},
        {"\x80\x02"
         "cos\nsystem\n.",
         "os"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw__byte_buffer pickle;
        vw__model *model = NULL;
        vw__byte_buffer_init(&pickle);
        op(&pickle, cases[i][0]);
        assert_int_equal(read_pickle(&pickle, vw__byte_buffer_size(&pickle), &model),
                         VW_ERR_CORRUPT_FILE);
        if (strstr(vw_last_error(), cases[i][1]) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", vw_last_error(), cases[i][1]);
        vw__byte_buffer_deinit(&pickle);
    }
}

/* ---- damage and want of memory --------------------------------------------------------------- */

static void a_pickle_cut_short_is_refused_at_every_length(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    write_shared_frames(&pickle);
    uint64_t before_bytes = vw__host_memory_get_use().in_use_bytes;
    for (size_t length = 0; length < vw__byte_buffer_size(&pickle); length++) {
        vw__model *model = NULL;
        assert_int_equal(read_pickle(&pickle, length, &model), VW_ERR_CORRUPT_FILE);
        assert_null(model);
    }
    assert_int_equal(vw__host_memory_get_use().in_use_bytes, before_bytes);
    vw__byte_buffer_deinit(&pickle);
}

static bool read_and_destroy(void *context)
{
    const vw__byte_buffer *pickle = context;
    vw__model *model;
    if (read_pickle(pickle, vw__byte_buffer_size(pickle), &model) != VW_OK)
        return false;
    vw__model_destroy(model);
    return true;
}

static void every_failing_allocation_is_survived_and_nothing_leaks(void **state)
{
    (void)state;
    vw__byte_buffer pickle;
    write_shared_frames(&pickle);
    vw_test_sweep_host_memory(read_and_destroy, &pickle);
    vw__byte_buffer_deinit(&pickle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_list_of_frames_is_one_context_and_equal_lists_are_two),
        cmocka_unit_test(an_empty_list_is_a_context_with_the_empty_stack),
        cmocka_unit_test(segments_share_contexts_with_events_and_have_pools_as_tuples),
        cmocka_unit_test(entries_that_are_shared_or_out_of_order_are_copied),
        cmocka_unit_test(a_list_of_entries_in_two_traces_is_refused),
        cmocka_unit_test(an_empty_list_may_be_the_trace_of_many_devices),
        cmocka_unit_test(a_list_of_blocks_in_two_segments_is_refused),
        cmocka_unit_test(a_block_in_two_segments_is_copied_and_then_found_misplaced),
        cmocka_unit_test(a_segment_that_is_listed_twice_is_refused),
        cmocka_unit_test(a_shared_list_of_forward_frames_is_walked_once),
        cmocka_unit_test(other_values_are_refused_by_kind),
        cmocka_unit_test(a_pickle_cut_short_is_refused_at_every_length),
        cmocka_unit_test(every_failing_allocation_is_survived_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
