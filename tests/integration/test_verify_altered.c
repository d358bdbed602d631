/* test_verify_altered.c - what verify notices, and what it must not take for a difference.
 *
 * A comparison that finds no difference proves something only if it would have found one. So the
 * stored recordings are verified with one thing changed, and each change must be noticed; and with
 * parts missing, which must never be taken for a difference. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/cmocka_here.h"
#include "support/stored_recordings.h"
#include "support/stress_run.h"

enum { ALTERED_EVENTS_PER_RECORDING = 12 };

/* The altered thing must be noticed: as a difference, or because the file contradicts itself. */
static void must_be_noticed(const stored_recording *one, const char *json_path, const char *what,
                            size_t where)
{
    const vw_verify_options options = {.struct_size = sizeof options, .expect_path = json_path};
    vw_verify_result *result = NULL;
    vw_status status = vw_recording_verify(one->recording, &options, &result);
    if (status == VW_OK && result->is_exact)
        fail_msg("%s: %s %zu was altered and nobody noticed", one->name, what, where);
    if (status != VW_OK)
        assert_int_equal(status, VW_ERR_CORRUPT_FILE);
    else
        assert_true(result->first_difference != NULL &&
                    result->first_difference->expected[0] != '\0' &&
                    result->first_difference->got[0] != '\0' &&
                    result->first_difference->explanation[0] != '\0');
    vw_verify_result_free(result);
}

static void must_come_out_alone(const stored_recording *one)
{
    if (!comes_out_again(one, NULL))
        fail_msg("%s", one->name);
}

/* ---- altered --------------------------------------------------------------------------------- */

/* Models are read-only to everyone else. */
static vw__model_event *events_of(const stored_recording *one)
{
    return (vw__model_event *)(uintptr_t)one->recording->model->traces[0].events;
}

static void alter_addresses(const stored_recording *one)
{
    vw__model_event *events = events_of(one);
    size_t count = one->recording->model->traces[0].event_count;
    size_t step = count / vw_test_rounds(ALTERED_EVENTS_PER_RECORDING) + 1;
    for (size_t i = step / 2; i < count; i += step) {
        if (events[i].action == VW_ACTION_OOM || events[i].action == VW_ACTION_SNAPSHOT)
            continue; /* free bytes of the device, and nothing: input */
        events[i].address ^= 512;
        must_be_noticed(one, NULL, "the address of event", i);
        events[i].address ^= 512;
    }
}

static void an_altered_address_is_noticed(void **state)
{
    (void)state;
    each_stored_recording(alter_addresses);
}

static void alter_first_segment_events(const stored_recording *one)
{
    vw__model_event *events = events_of(one);
    bool has_been_altered[VW__MODEL_ACTION_KINDS] = {false};
    if (one->recording->model->stream_count < 2)
        return;
    for (size_t i = 0; i < one->recording->model->traces[0].event_count; i++) {
        vw__model_event *event = &events[i];
        if (event->action < VW_ACTION_SEGMENT_ALLOC || event->action > VW_ACTION_SEGMENT_UNMAP ||
            has_been_altered[event->action])
            continue;
        has_been_altered[event->action] = true;
        event->size_bytes += 512;
        must_be_noticed(one, NULL, "the size of event", i);
        event->size_bytes -= 512;
        uint16_t stream = event->stream;
        event->stream = (uint16_t)((stream + 1U) % one->recording->model->stream_count);
        must_be_noticed(one, NULL, "the stream of event", i);
        event->stream = stream;
    }
}

static void an_altered_segment_event_is_noticed(void **state)
{
    (void)state;
    each_stored_recording(alter_first_segment_events);
}

static void alter_sizes_of_requests(const stored_recording *one)
{
    vw__model_event *events = events_of(one);
    size_t count = one->recording->model->traces[0].event_count;
    for (size_t i = count / 3; i < count; i += count / 3) {
        if (events[i].action != VW_ACTION_ALLOC)
            continue;
        events[i].size_bytes += 512;
        must_be_noticed(one, NULL, "the size of event", i);
        events[i].size_bytes -= 512;
    }
}

static void an_altered_request_is_noticed(void **state)
{
    (void)state;
    each_stored_recording(alter_sizes_of_requests);
}

static void alter_end_state(const stored_recording *one)
{
    const vw__model *model = one->recording->model;
    size_t block_index = model->block_count / 2, segment_index = model->segment_count - 1;
    vw__model_block *block = (vw__model_block *)(uintptr_t)&model->blocks[block_index];
    vw__model_segment *segment = (vw__model_segment *)(uintptr_t)&model->segments[segment_index];

    block->requested_bytes++;
    must_be_noticed(one, NULL, "the requested bytes of block", block_index);
    block->requested_bytes--;
    block->state = block->state == VW_BLOCK_FREE ? VW_BLOCK_LIVE : VW_BLOCK_FREE;
    must_be_noticed(one, NULL, "the state of block", block_index);
    block->state = block->state == VW_BLOCK_FREE ? VW_BLOCK_LIVE : VW_BLOCK_FREE;

    segment->is_large = !segment->is_large;
    must_be_noticed(one, NULL, "the kind of segment", segment_index);
    segment->is_large = !segment->is_large;
    segment->block_count--;
    must_be_noticed(one, NULL, "the number of blocks of segment", segment_index);
    segment->block_count++;
    segment->address += 2 << 20;
    must_be_noticed(one, NULL, "the address of segment", segment_index);
    segment->address -= 2 << 20;
}

static void put_altered_block_back(const stored_recording *one)
{
    const vw__model *model = one->recording->model;
    vw__model_block *block = (vw__model_block *)(uintptr_t)&model->blocks[model->block_count / 2];
    uint8_t was = block->state;
    alter_end_state(one);
    block->state = was; /* pending, perhaps */
    must_come_out_alone(one);
}

static void an_altered_ending_is_noticed(void **state)
{
    (void)state;
    each_stored_recording(put_altered_block_back);
}

static void verify_with(const stored_recording *one, const json_t *said, const char *what)
{
    char path[] = "/tmp/vramwise-expect-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(json_dumpfd(said, file, 0), 0);
    must_be_noticed(one, path, what, 0);
    assert_int_equal(close(file), 0);
    assert_int_equal(unlink(path), 0);
}

static void alter_expectation(const stored_recording *one)
{
    json_t *said = json_load_file(one->json_path, 0, NULL);
    json_t *stats = json_object_get(said, "stats");
    json_t *peak = json_object_get(stats, "allocated_bytes.all.peak");
    json_t *summary = json_object_get(said, "summary"), *text = json_object_get(said, "oom");

    assert_int_equal(json_integer_set(peak, json_integer_value(peak) + 1), 0);
    verify_with(one, said, "a statistic");
    assert_int_equal(json_integer_set(peak, json_integer_value(peak) - 1), 0);

    json_object_set_new(stats, "no.such.statistic", json_integer(0));
    verify_with(one, said, "the set of statistics");
    json_object_del(stats, "no.such.statistic");

    char *altered = strdup(json_string_value(summary));
    assert_non_null(altered);
    *strrchr(altered, '=') = '-';
    json_object_set_new(said, "summary", json_string(altered));
    verify_with(one, said, "the summary");
    free(altered);

    if (text != NULL) {
        altered = strdup(json_string_value(text));
        assert_non_null(altered);
        altered[strlen(altered) - 1] ^= 1;
        json_object_del(said, "summary");
        json_object_set_new(said, "oom", json_string(altered));
        verify_with(one, said, "the text of the oom");
        free(altered);
    }
    json_decref(said);
}

static void an_altered_expectation_is_noticed(void **state)
{
    (void)state;
    each_stored_recording(alter_expectation);
}

/* ---- parts missing --------------------------------------------------------------------------- */

static void must_not_differ(const stored_recording *one, const char *what, bool is_whole)
{
    vw_verify_result *result = verify_recording(one, NULL, NULL);
    if (!result->is_exact) {
        print_first_difference(one->name, result);
        fail_msg("%s, %s: a difference where there is none", one->name, what);
    }
    if (is_whole && result->placements_matched != result->placements_recorded)
        fail_msg("%s, %s: not everything was compared", one->name, what);
    vw_verify_result_free(result);
}

static void drop_beginning(const stored_recording *one)
{
    partial_recording cut;
    size_t count = one->recording->model->traces[0].event_count;
    for (size_t part = 1; part < 10; part += 2) {
        make_partial(one, count * part / 10, count, &cut);
        vw_verify_result *result = verify_recording(&cut.stored, NULL, NULL);
        if (!result->is_exact)
            print_first_difference(one->name, result);
        assert_true(result->is_exact);
        assert_true(result->unverifiable_count > 0);
        assert_int_equal(result->placements_recorded, 0);
        vw_verify_result_free(result);
    }
}

static void a_cut_beginning_is_no_difference(void **state)
{
    (void)state;
    each_stored_recording(drop_beginning);
}

static bool has_private_pools(const stored_recording *one)
{
    return one->recording->model->pool_count > 1;
}

static void drop_end(const stored_recording *one)
{
    partial_recording cut;
    size_t count = one->recording->model->traces[0].event_count;
    make_partial(one, 0, count * 9 / 10, &cut);
    cut.model.segment_count = 0;
    /* Which requests were a private pool's, only segments would tell. */
    must_not_differ(&cut.stored, "without the end", !has_private_pools(one));
    make_partial(one, count / 3, count * 9 / 10, &cut);
    cut.model.segment_count = 0;
    must_not_differ(&cut.stored, "the middle", false);
}

static void a_cut_end_is_no_difference(void **state)
{
    (void)state;
    each_stored_recording(drop_end);
}

static void drop_stacks(const stored_recording *one)
{
    partial_recording bare;
    make_partial(one, 0, one->recording->model->traces[0].event_count, &bare);
    bare.model.features.has_contexts = false;
    must_not_differ(&bare.stored, "without stacks", true);
}

static void missing_stacks_are_no_difference(void **state)
{
    (void)state;
    each_stored_recording(drop_stacks);
}

static void alter_cut_trace(const stored_recording *one)
{
    partial_recording cut;
    vw__model_event *events = events_of(one);
    size_t count = one->recording->model->traces[0].event_count, altered = 0;
    make_partial(one, count / 2, count, &cut);
    for (size_t i = count / 2; i < count && altered < 4; i++) {
        if (events[i].action != VW_ACTION_SEGMENT_ALLOC &&
            events[i].action != VW_ACTION_SEGMENT_MAP)
            continue; /* whether a release was where it says, only what took the memory knows */
        events[i].address ^= 512;
        must_be_noticed(&cut.stored, NULL, "the address of event", i);
        events[i].address ^= 512;
        altered++;
    }
}

static void an_altered_segment_event_is_noticed_even_in_a_cut_trace(void **state)
{
    (void)state;
    each_stored_recording(alter_cut_trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_altered_address_is_noticed),
        cmocka_unit_test(an_altered_segment_event_is_noticed),
        cmocka_unit_test(an_altered_request_is_noticed),
        cmocka_unit_test(an_altered_ending_is_noticed),
        cmocka_unit_test(an_altered_expectation_is_noticed),
        cmocka_unit_test(a_cut_beginning_is_no_difference),
        cmocka_unit_test(a_cut_end_is_no_difference),
        cmocka_unit_test(missing_stacks_are_no_difference),
        cmocka_unit_test(an_altered_segment_event_is_noticed_even_in_a_cut_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
