/* test_view.c - whole views of small recordings, read back by another reader. */
#include "vramwise/view.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/recording.h"
#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/made_up_run.h"
#include "support/read_view.h"
#include "support/small_model.h"
#include "view/view_what_if.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)

/* ---- recordings ------------------------------------------------------------------------------ */

/* Two steps of one line each and a segment, on `device`. */
static void write_trace(small_model *small, int device)
{
    uint32_t weights = small_model_context(small, "init model.py 3;main train.py 10");
    uint32_t work = small_model_context(small, "forward model.py 7;main train.py 12");
    small_model_event(small, VW_ACTION_SEGMENT_ALLOC, A, 20 * MIB, weights);
    small_model_alloc(small, A, 8 * MIB, weights);
    for (uint64_t i = 0; i < 2; i++) {
        small_model_alloc(small, A + 8 * MIB, 4 * MIB, work);
        small_model_free(small, A + 8 * MIB, 4 * MIB, work);
    }
    small_model_end_trace(small, device);
    small_model_segment(small, device, A, 20 * MIB, 8 * MIB, weights);
}

static vw_recording recording_of(small_model *small)
{
    return (vw_recording){.model = small_model_finish(small)};
}

static vw_recording small_recording(void)
{
    small_model small;
    small_model_begin(&small);
    small_model_set_features(&small);
    write_trace(&small, 0);
    return recording_of(&small);
}

typedef struct made_view {
    vw_view *view;
    read_view read;
} made_view;

static void make_by_rules_of(const vw_recording *recording, const vw_recording *other,
                             const char *torch_version, made_view *out)
{
    const vw_view_options options = {.struct_size = sizeof options,
                                     .file = "a.pickle",
                                     .other_file = "b.pickle",
                                     .torch_version = torch_version};
    size_t size_bytes;
    vw_status status = vw_view_make(recording, other, &options, &out->view);
    if (status != VW_OK)
        print_error("%s\n", vw_last_error());
    assert_int_equal(status, VW_OK);
    const void *bytes = vw_view_data(out->view, &size_bytes);
    read_view_open(&out->read, bytes, size_bytes);
}

static void make(const vw_recording *recording, const vw_recording *other, made_view *out)
{
    make_by_rules_of(recording, other, NULL, out);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void dispose(made_view *made)
{
    read_view_close(&made->read);
    vw_view_free(made->view);
}

/* ---- what is in it --------------------------------------------------------------------------- */

static void blocks_pieces_and_lines_are_those_of_the_trace(void **state)
{
    (void)state;
    vw_recording recording = small_recording();
    made_view made;
    read_blocks blocks;
    read_pieces pieces;
    make(&recording, NULL, &made);
    const json_t *device = read_view_device(&made.read, 0, 0);
    assert_true(read_view_is(device, "has_trace"));
    assert_true(read_view_is(device, "has_addresses"));
    assert_int_equal(read_view_number(device, "event_count"), 8);
    assert_int_equal(read_view_number(device, "peak_live_bytes"), 12 * MIB);
    assert_int_equal(read_view_number(device, "peak_instant"), 3);
    assert_int_equal(read_view_number(device, "peak_reserved_bytes"), 20 * MIB);
    read_blocks_of(&made.read, 0, 0, &blocks);
    read_pieces_of(&made.read, 0, 0, &pieces);
    assert_int_equal(blocks.count, 3);
    assert_int_equal(blocks.end[0], VIEW_NONE);
    assert_int_equal(blocks.begin[1], 3);
    assert_int_equal(blocks.freed[1], 4);
    assert_int_equal(blocks.end[1], 5);
    assert_int_equal(blocks.address[2], A + 8 * MIB);
    assert_int_equal(blocks.stack[1], blocks.stack[2]);
    assert_int_equal(read_blocks_at(&blocks, 3), 12 * MIB);
    assert_int_equal(pieces.count, 1);
    assert_int_equal(read_pieces_at(&pieces, 8), 20 * MIB);
    assert_true(json_is_null(json_object_get(made.read.header, "diff")));
    read_blocks_free(&blocks);
    read_pieces_free(&pieces);
    dispose(&made);
    vw__model_destroy(recording.model);
}

static json_t *strings_of(const read_view *view)
{
    size_t count;
    uint64_t *letters = read_view_column(view, "r0.strings", &count);
    char *text = calloc(count + 1, 1);
    for (size_t i = 0; i < count; i++)
        text[i] = (char)letters[i];
    json_t *strings = json_loads(text, 0, NULL);
    free(text);
    free(letters);
    assert_true(json_is_array(strings));
    return strings;
}

static uint64_t value_of(const read_view *view, const char *name, size_t index)
{
    size_t count;
    uint64_t *values = read_view_column(view, name, &count);
    assert_true(index < count);
    uint64_t value = values[index];
    free(values);
    return value;
}

/* Of the stack of block 1: the frame at a place in it. */
static void stacks_lead_to_frames_and_frames_to_strings(void **state)
{
    (void)state;
    vw_recording recording = small_recording();
    made_view made;
    make(&recording, NULL, &made);
    const read_view *view = &made.read;
    json_t *strings = strings_of(view);
    uint64_t stack = value_of(view, "r0.d0.block.stack", 1);
    uint64_t first = value_of(view, "r0.stack.first", stack);
    assert_int_equal(value_of(view, "r0.stack.first", stack + 1), first + 2);
    uint64_t frame = value_of(view, "r0.stack.frames", first);
    const char *function =
        json_string_value(json_array_get(strings, value_of(view, "r0.frame.function", frame)));
    const char *file =
        json_string_value(json_array_get(strings, value_of(view, "r0.frame.file", frame)));
    assert_string_equal(function, "forward");
    assert_string_equal(file, "model.py");
    assert_int_equal(value_of(view, "r0.frame.line", frame), 7);
    assert_int_equal(value_of(view, "r0.frame.users", frame), 1);
    assert_int_equal(value_of(view, "r0.stack.where", stack), 0);
    assert_int_equal(read_view_number(read_view_run(view, 0), "stack_count"), 2);
    assert_int_equal(read_view_number(read_view_run(view, 0), "frame_count"), 4);
    json_decref(strings);
    dispose(&made);
    vw__model_destroy(recording.model);
}

/* Written out, they would be as many times as large as there are devices. */
static void stacks_are_not_spelled_out_in_the_reports(void **state)
{
    (void)state;
    vw_recording recording = small_recording();
    made_view made;
    make(&recording, NULL, &made);
    const json_t *stats = json_object_get(read_view_run(&made.read, 0), "stats");
    const json_t *device = json_array_get(json_object_get(stats, "devices"), 0);
    const json_t *peak = json_object_get(device, "peak"), *end = json_object_get(device, "end");
    assert_int_equal(read_view_number(peak, "live_bytes"), 12 * MIB);
    assert_true(json_array_size(json_object_get(peak, "categories")) > 0);
    assert_true(json_is_array(json_object_get(peak, "usages")));
    assert_int_equal(json_array_size(json_object_get(peak, "usages")), 0);
    assert_int_equal(json_array_size(json_object_get(end, "usages")), 0);
    dispose(&made);
    vw__model_destroy(recording.model);
}

static void text_that_is_no_utf8_becomes_some(void **state)
{
    (void)state;
    small_model small;
    made_view made;
    small_model_begin(&small);
    small_model_set_features(&small);
    uint32_t context = small_model_context(&small, "f\xff\xfe<script> \"tr\xc3in.py\" 3");
    small_model_alloc(&small, A, 512, context);
    small_model_end_trace(&small, 0);
    vw_recording recording = recording_of(&small);
    make(&recording, NULL, &made);
    json_t *strings = strings_of(&made.read);
    assert_int_equal(json_array_size(strings), 2);
    json_decref(strings);
    dispose(&made);
    vw__model_destroy(recording.model);
}

static void other_allocators_have_their_lines(void **state)
{
    (void)state;
    vw_recording recording = small_recording();
    made_view made;
    make(&recording, NULL, &made);
    const json_t *device = read_view_device(&made.read, 0, 0);
    assert_int_equal(json_array_size(json_object_get(device, "what_if")), 3);
    assert_true(json_is_null(json_object_get(device, "what_if_reason")));
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        const json_t *line = json_array_get(json_object_get(device, "what_if"), i);
        size_t count, byte_count;
        uint64_t most = 0;
        snprintf(name, sizeof name, "r0.d0.what_if.%zu.instant", i);
        uint64_t *instants = read_view_column(&made.read, name, &count);
        snprintf(name, sizeof name, "r0.d0.what_if.%zu.bytes", i);
        uint64_t *bytes = read_view_column(&made.read, name, &byte_count);
        assert_int_equal(count, byte_count);
        assert_int_equal(count, read_view_number(line, "points"));
        assert_int_equal(instants[0], 0);
        for (size_t k = 0; k < count; k++)
            most = bytes[k] > most ? bytes[k] : most;
        assert_int_equal(most, read_view_number(line, "peak_reserved_bytes"));
        free(instants);
        free(bytes);
    }
    dispose(&made);
    vw__model_destroy(recording.model);
}

/* 1.13 has no expandable segments: one policy less, and the others keep their numbers. */
static void a_policy_that_cannot_be_replayed_is_left_out_alone(void **state)
{
    (void)state;
    vw_recording recording = small_recording();
    made_view made;
    make_by_rules_of(&recording, NULL, "1.13", &made);
    const json_t *device = read_view_device(&made.read, 0, 0);
    const json_t *lines = json_object_get(device, "what_if");
    const json_t *left_out = json_object_get(device, "what_if_left_out");
    assert_int_equal(json_array_size(lines), 2);
    assert_true(json_is_null(json_object_get(device, "what_if_reason")));
    assert_string_equal(text_of(json_array_get(lines, 0), "policy"), "native");
    assert_string_equal(text_of(json_array_get(lines, 1), "policy"), "vramwise");
    assert_int_equal(json_array_size(left_out), 1);
    assert_string_equal(text_of(json_array_get(left_out, 0), "policy"), "expandable");
    assert_non_null(strstr(text_of(json_array_get(left_out, 0), "reason"), "1.13"));
    assert_true(read_view_has(&made.read, "r0.d0.what_if.1.instant"));
    assert_false(read_view_has(&made.read, "r0.d0.what_if.2.instant"));
    dispose(&made);
    vw__model_destroy(recording.model);
}

enum { MOST_STREAMS = 1024, MOST_HELD = 65536 };

static void more_streams_than_any_program_has_are_not_replayed(void **state)
{
    (void)state;
    static vw__model_event events[2 * (MOST_STREAMS + 1)];
    vw__model_trace trace = {.events = events, .event_count = 2 * MOST_STREAMS};
    for (size_t i = 0; i < 2 * (MOST_STREAMS + 1); i++)
        events[i] = (vw__model_event){.action = VW_ACTION_ALLOC, .stream = (uint16_t)(i / 2)};
    assert_null(vw__view_what_if_is_too_much(&trace));
    trace.event_count++;
    assert_non_null(vw__view_what_if_is_too_much(&trace));
}

static void more_segments_than_any_program_holds_are_not_replayed(void **state)
{
    (void)state;
    static vw__model_event events[2 * MOST_HELD + 2];
    vw__model_trace trace = {.events = events, .event_count = 2 * MOST_HELD};
    for (size_t i = 0; i < 2 * MOST_HELD + 2; i++)
        events[i].action = i < MOST_HELD ? VW_ACTION_SEGMENT_UNMAP : VW_ACTION_SEGMENT_MAP;
    assert_null(vw__view_what_if_is_too_much(&trace));
    trace.event_count++; /* those from before count as well */
    assert_non_null(vw__view_what_if_is_too_much(&trace));
    for (size_t i = 0; i < 2 * MOST_HELD + 2; i++)
        events[i].action = i % 2 == 0 ? VW_ACTION_SEGMENT_ALLOC : VW_ACTION_SEGMENT_FREE;
    trace.event_count = 2 * MOST_HELD + 2; /* many, but one at a time */
    assert_null(vw__view_what_if_is_too_much(&trace));
}

/* ---- several devices, several recordings, none ----------------------------------------------- */

static void devices_stand_in_the_order_of_stats_the_host_last(void **state)
{
    (void)state;
    small_model small;
    made_view made;
    small_model_begin(&small);
    small_model_set_features(&small);
    write_trace(&small, 0);
    write_trace(&small, 3);
    write_trace(&small, -1);
    small_model_segment(&small, 5, A, 2 * MIB, 512, VW__MODEL_NO_CONTEXT);
    vw_recording recording = recording_of(&small);
    make(&recording, NULL, &made);
    static const int expected[] = {0, 3, 5, -1};
    for (size_t i = 0; i < 4; i++) {
        const json_t *device = read_view_device(&made.read, 0, i);
        assert_int_equal(json_integer_value(json_object_get(device, "device")), expected[i]);
        assert_int_equal(read_view_is(device, "has_trace"), expected[i] != 5);
        assert_int_equal(json_array_size(json_object_get(device, "what_if")), i == 0 ? 3 : 0);
        assert_int_equal(json_is_null(json_object_get(device, "what_if_reason")), i == 0);
    }
    assert_int_equal(read_view_number(read_view_device(&made.read, 0, 2), "block_count"), 1);
    assert_int_equal(value_of(&made.read, "r0.d2.reserved.bytes", 0), 2 * MIB);
    dispose(&made);
    vw__model_destroy(recording.model);
}

/* Steps that keep `kept_bytes` each. */
static void write_leak(made_up_run *run, int device, unsigned step_count, uint64_t kept_bytes)
{
    for (unsigned step = 0; step < step_count; step++) {
        run_step(run, 2 * MIB);
        (void)run_alloc(run, kept_bytes, run->keeper);
    }
    small_model_end_trace(&run->small, device);
    run->has_gradients = run->has_state = false;
}

/* What the stacks of a device leak in a step, together. */
static uint64_t leaked_on(const made_view *made, const char *column)
{
    size_t count;
    uint64_t sum = 0, *per_step = read_view_column(&made->read, column, &count);
    for (size_t i = 0; i < count; i++)
        sum += per_step[i];
    free(per_step);
    return sum;
}

static void each_device_has_leaks_of_its_own_whichever_the_verdict_is_about(void **state)
{
    (void)state;
    made_up_run run;
    made_view made;
    run_begin(&run, true);
    write_leak(&run, 0, 40, 3 * MIB); /* busier: the verdict is about it */
    write_leak(&run, 1, 20, 5 * MIB);
    run.recording.model = small_model_finish(&run.small);
    make(&run.recording, NULL, &made);
    const json_t *doctor = json_object_get(read_view_run(&made.read, 0), "doctor");
    assert_string_equal(text_of(doctor, "verdict"), "leak");
    assert_int_equal(read_view_number(json_object_get(doctor, "numbers"), "device"), 0);
    for (size_t i = 0; i < 2; i++)
        assert_null(text_of(read_view_device(&made.read, 0, i), "growth_reason"));
    assert_int_equal(leaked_on(&made, "r0.d0.growth.bytes_per_step"), 3 * MIB);
    assert_int_equal(leaked_on(&made, "r0.d1.growth.bytes_per_step"), 5 * MIB);
    dispose(&made);
    vw__model_destroy(run.recording.model);
}

static void two_recordings_are_two_runs_and_their_difference(void **state)
{
    (void)state;
    vw_recording recording = small_recording(), other = small_recording();
    made_view made;
    make(&recording, &other, &made);
    assert_int_equal(json_array_size(json_object_get(made.read.header, "runs")), 2);
    assert_string_equal(json_string_value(json_object_get(read_view_run(&made.read, 1), "file")),
                        "b.pickle");
    assert_true(json_is_object(json_object_get(made.read.header, "diff")));
    assert_true(read_view_has(&made.read, "r1.d0.block.begin"));
    dispose(&made);
    vw__model_destroy(recording.model);
    vw__model_destroy(other.model);
}

static void an_empty_recording_has_a_view_without_devices(void **state)
{
    (void)state;
    small_model small;
    made_view made;
    small_model_begin(&small);
    vw_recording recording = recording_of(&small);
    make(&recording, NULL, &made);
    const json_t *run = read_view_run(&made.read, 0);
    assert_int_equal(json_array_size(json_object_get(run, "devices")), 0);
    assert_true(json_is_null(json_object_get(run, "doctor")) !=
                json_is_null(json_object_get(run, "doctor_reason")));
    dispose(&made);
    vw__model_destroy(recording.model);
}

/* Frees are missing: blocks overlap, and no allocator could have done that. */
static void a_trace_that_cannot_be_replayed_says_so(void **state)
{
    (void)state;
    small_model small;
    made_view made;
    small_model_begin(&small);
    small_model_set_features(&small);
    small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, A, 20 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 4 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_alloc(&small, A, 8 * MIB, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    vw_recording recording = recording_of(&small);
    make(&recording, NULL, &made);
    const json_t *device = read_view_device(&made.read, 0, 0);
    assert_int_equal(json_array_size(json_object_get(device, "what_if")), 0);
    assert_true(json_is_string(json_object_get(device, "what_if_reason")));
    assert_false(read_view_is(device, "is_reserved_known"));
    dispose(&made);
    vw__model_destroy(recording.model);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    vw_recording recording = small_recording();
    vw_view *view = NULL;
    const vw_view_options unknown = {.struct_size = sizeof unknown, .torch_version = "0.4"};
    const vw_view_options short_options = {.struct_size = 4};
    assert_int_equal(vw_view_make(NULL, NULL, NULL, &view), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_view_make(&recording, NULL, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_view_make(&recording, NULL, &unknown, &view), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_view_make(&recording, NULL, &short_options, &view),
                     VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_view_write_page(NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_null(view);
    vw__model_destroy(recording.model);
}

static void sizes_beyond_any_device_are_refused(void **state)
{
    (void)state;
    small_model small;
    vw_view *view = NULL;
    small_model_begin(&small);
    for (uint64_t i = 0; i < 4; i++)
        small_model_alloc(&small, A + 512 * i, UINT64_C(1) << 61, VW__MODEL_NO_CONTEXT);
    small_model_end_trace(&small, 0);
    vw_recording recording = recording_of(&small);
    assert_int_equal(vw_view_make(&recording, NULL, NULL, &view), VW_ERR_CORRUPT_FILE);
    assert_null(view);
    vw__model_destroy(recording.model);
}

typedef struct stopper {
    int calls_left;
    double last;
    bool has_fallen;
} stopper;

static bool count_down(void *context, double done)
{
    stopper *told = context;
    told->has_fallen = told->has_fallen || done < told->last;
    told->last = done;
    return told->calls_left-- > 0;
}

/* How often it is called while replays run side by side depends on the machine. */
static void progress_rises_to_one_and_may_stop_it_anywhere(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    vw_recording recording = small_recording();
    vw_status status = VW_ERR_WRONG_STATE;
    int allowed = 0;
    for (; status != VW_OK && allowed < MANY; allowed++) {
        stopper told = {.calls_left = allowed};
        const vw_view_options options = {
            .struct_size = sizeof options, .progress = count_down, .progress_context = &told};
        vw_view *view = NULL;
        status = vw_view_make(&recording, NULL, &options, &view);
        bool was_refused = told.calls_left < 0;
        assert_int_equal(status, was_refused ? VW_ERR_WRONG_STATE : VW_OK);
        assert_false(told.has_fallen);
        assert_true(was_refused || told.last == 1.0);
        vw_view_free(view);
    }
    assert_true(allowed > 3 && allowed < MANY);
    vw__model_destroy(recording.model);
}

static bool make_one(void *context)
{
    const vw_recording *recording = context;
    vw_view *view = NULL;
    vw_status status = vw_view_make(recording, recording, NULL, &view);
    vw_view_free(view);
    if (status != VW_OK)
        assert_null(strstr(vw_last_error(), " 0 bytes for a report"));
    return status == VW_OK;
}

static void every_lack_of_host_memory_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    vw_recording recording = small_recording();
    vw_test_sweep_host_memory(make_one, &recording);
    vw__model_destroy(recording.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_pieces_and_lines_are_those_of_the_trace),
        cmocka_unit_test(stacks_lead_to_frames_and_frames_to_strings),
        cmocka_unit_test(stacks_are_not_spelled_out_in_the_reports),
        cmocka_unit_test(text_that_is_no_utf8_becomes_some),
        cmocka_unit_test(other_allocators_have_their_lines),
        cmocka_unit_test(a_policy_that_cannot_be_replayed_is_left_out_alone),
        cmocka_unit_test(more_streams_than_any_program_has_are_not_replayed),
        cmocka_unit_test(more_segments_than_any_program_holds_are_not_replayed),
        cmocka_unit_test(devices_stand_in_the_order_of_stats_the_host_last),
        cmocka_unit_test(each_device_has_leaks_of_its_own_whichever_the_verdict_is_about),
        cmocka_unit_test(two_recordings_are_two_runs_and_their_difference),
        cmocka_unit_test(an_empty_recording_has_a_view_without_devices),
        cmocka_unit_test(a_trace_that_cannot_be_replayed_says_so),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(sizes_beyond_any_device_are_refused),
        cmocka_unit_test(progress_rises_to_one_and_may_stop_it_anywhere),
        cmocka_unit_test(every_lack_of_host_memory_is_reported_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
