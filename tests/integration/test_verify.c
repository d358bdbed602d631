/* test_verify.c - PyTorch's recordings come out of our engine again, event by event.
 *
 * tests/data/recordings is always verified; the environment variable VRAMWISE_CORPUS may name a
 * folder of more, NAME.pickle.xz with NAME.json beside it. That a difference would be found is
 * test_verify_altered.c's business. */
#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cmocka_here.h"
#include "support/host_memory_sweep.h"
#include "support/stored_recordings.h"

#define CARD_BYTES 150109880320.0

enum { CORPUS_PROCESSES = 2 };

/* ---- as they are ----------------------------------------------------------------------------- */

static void must_come_out_with_expectation(const stored_recording *one)
{
    if (!comes_out_again(one, one->json_path))
        fail_msg("%s", one->name);
}

static void every_recording_comes_out_again_with_statistics_summary_and_text(void **state)
{
    (void)state;
    each_stored_recording(must_come_out_with_expectation);
}

static void must_come_out_alone(const stored_recording *one)
{
    if (!comes_out_again(one, NULL))
        fail_msg("%s", one->name);
}

static void every_recording_comes_out_again_from_the_file_alone(void **state)
{
    (void)state;
    each_stored_recording(must_come_out_alone);
}

static void limit_must_be_in_the_interval(const stored_recording *one)
{
    json_t *said = json_load_file(one->json_path, 0, NULL);
    const json_t *cap = json_object_get(said, "cap_gib");
    vw_verify_result *result = verify_recording(one, NULL, NULL);
    if (cap != NULL) {
        double gib = 1073741824.0;
        uint64_t limit = (uint64_t)(json_number_value(cap) * gib / CARD_BYTES * CARD_BYTES);
        if (result->limit_at_least_bytes > limit || result->limit_below_bytes <= limit)
            fail_msg("%s: %" PRIu64 " is not in [%" PRIu64 ", %" PRIu64 ")", one->name, limit,
                     result->limit_at_least_bytes, result->limit_below_bytes);
    }
    vw_verify_result_free(result);
    json_decref(said);
}

static void the_limit_lies_in_the_interval_that_the_events_prove(void **state)
{
    (void)state;
    each_stored_recording(limit_must_be_in_the_interval);
}

/* ---- devices, versions, refusals ------------------------------------------------------------- */

static void all_devices_are_verified(void **state)
{
    (void)state;
    stored_recording one;
    open_stored("graphs.native" STORED_ENDING, &one);
    /* The same memory on a second device, and what the host did. */
    const vw__model *model = one.recording->model;
    vw__model whole = *model;
    vw__model_trace traces[3] = {model->traces[0], model->traces[0], model->traces[0]};
    traces[1].device = 1;
    traces[2].device = VW__MODEL_HOST_DEVICE;
    vw__model_segment *segments = calloc(model->segment_count * 2, sizeof *segments);
    assert_non_null(segments);
    memcpy(segments, model->segments, model->segment_count * sizeof *segments);
    memcpy(segments + model->segment_count, model->segments,
           model->segment_count * sizeof *segments);
    for (size_t i = 0; i < model->segment_count; i++)
        segments[model->segment_count + i].device = 1;
    whole.traces = traces;
    whole.trace_count = 3;
    whole.segments = segments;
    whole.segment_count *= 2;
    vw_recording recording = *one.recording;
    recording.model = &whole;
    stored_recording both = {.name = "two devices", .recording = &recording};

    vw_verify_result *result = verify_recording(&both, NULL, NULL);
    assert_true(is_complete_match(result));
    assert_int_equal(result->event_count, 2 * model->traces[0].event_count);
    assert_int_equal(result->end_segments_recorded, whole.segment_count);
    bool is_host_listed = false;
    for (size_t i = 0; i < result->unverifiable_count; i++)
        is_host_listed = is_host_listed || strstr(result->unverifiable[i], "host") != NULL;
    assert_true(is_host_listed);
    vw_verify_result_free(result);

    segments[model->segment_count].is_large = !segments[model->segment_count].is_large;
    result = verify_recording(&both, NULL, NULL);
    assert_non_null(result->first_difference);
    assert_int_equal(result->first_difference->device, 1);
    assert_true(result->first_difference->event == VW_UNKNOWN);
    vw_verify_result_free(result);
    free(segments);
    vw_recording_close(one.recording);
}

static void the_rules_of_another_version_differ_and_the_reason_is_said(void **state)
{
    (void)state;
    stored_recording one;
    open_stored("oom_varlen.pow2" STORED_ENDING, &one);
    vw_verify_result *result = verify_recording(&one, NULL, "2.13");
    assert_false(result->is_exact);
    assert_string_equal(result->torch_version, "2.13");
    assert_non_null(strstr(result->first_difference->explanation, "2.13"));
    assert_non_null(strstr(result->first_difference->explanation, "2.10 to 2.11"));
    assert_true(result->placements_matched > 0 &&
                result->placements_matched < result->placements_recorded);
    vw_verify_result_free(result);
    vw_recording_close(one.recording);

    open_stored("oom_fragmented.expand" STORED_ENDING, &one);
    result = verify_recording(&one, NULL, "2.0"); /* has no such option */
    assert_false(result->is_exact);
    assert_non_null(strstr(result->first_difference->expected, "expandable_segments"));
    vw_verify_result_free(result);

    const vw_verify_options options = {.struct_size = sizeof options, .torch_version = "9"};
    result = NULL;
    assert_int_equal(vw_recording_verify(one.recording, &options, &result),
                     VW_ERR_INVALID_ARGUMENT);
    assert_null(result);
    vw_recording_close(one.recording);
}

static void a_recording_without_a_trace_is_refused_with_advice(void **state)
{
    (void)state;
    stored_recording one;
    partial_recording bare;
    vw_verify_result *result = NULL;
    open_stored("graphs.native" STORED_ENDING, &one);
    make_partial(&one, 0, 0, &bare);
    assert_int_equal(vw_recording_verify(&bare.recording, NULL, &result), VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "_record_memory_history"));
    assert_int_equal(vw_recording_verify(NULL, NULL, &result), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_recording_verify(one.recording, NULL, NULL), VW_ERR_INVALID_ARGUMENT);
    assert_null(result);
    vw_verify_result_free(NULL);
    vw_recording_close(one.recording);
}

static void an_expectation_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "[]",
                                        "{\"stats\": 1}",
                                        "{\"stats\": {\"a\": \"b\"}}",
                                        "{\"summary\": 1}",
                                        "{\"cap_gib\": -1}",
                                        "{\"total_bytes\": 0}",
                                        "{\"no_split_pools\": [[1]]}",
                                        "{\"conf\": \"a\", \"conf\": \"b\"}",
                                        "{\"total_bytes\": 1.5}",
                                        "{\"stats\": {\"a\": 9223372036854775808}}"};
    stored_recording one;
    open_stored("graphs.native" STORED_ENDING, &one);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char path[] = "/tmp/vramwise-expect-XXXXXX";
        int file = mkstemp(path);
        assert_true(file >= 0);
        assert_int_equal(write(file, wrong[i], strlen(wrong[i])), strlen(wrong[i]));
        assert_int_equal(close(file), 0);
        const vw_verify_options options = {.struct_size = sizeof options, .expect_path = path};
        vw_verify_result *result = NULL;
        assert_int_equal(vw_recording_verify(one.recording, &options, &result),
                         VW_ERR_CORRUPT_FILE);
        assert_null(result);
        assert_int_equal(unlink(path), 0);
    }
    const vw_verify_options options = {.struct_size = sizeof options,
                                       .expect_path = "/nonexistent/a.json"};
    vw_verify_result *result = NULL;
    assert_int_equal(vw_recording_verify(one.recording, &options, &result), VW_ERR_FILE);
    vw_recording_close(one.recording);
}

static bool stop_at_once(void *context, double done)
{
    (void)done;
    ++*(int *)context;
    return false;
}

static void progress_can_stop_it(void **state)
{
    (void)state;
    stored_recording one;
    int call_count = 0;
    const vw_verify_options options = {
        .struct_size = sizeof options, .progress = stop_at_once, .progress_context = &call_count};
    vw_verify_result *result = NULL;
    open_stored("graphs.native" STORED_ENDING, &one);
    assert_int_equal(vw_recording_verify(one.recording, &options, &result), VW_ERR_WRONG_STATE);
    assert_int_equal(call_count, 1);
    assert_null(result);
    vw_recording_close(one.recording);
}

/* ---- without host memory --------------------------------------------------------------------- */

static bool verify_quietly(void *context)
{
    const stored_recording *one = context;
    const vw_verify_options options = {.struct_size = sizeof options,
                                       .expect_path =
                                           one->json_path[0] != '\0' ? one->json_path : NULL};
    vw_verify_result *result = NULL;
    vw_status status = vw_recording_verify(one->recording, &options, &result);
    bool is_done = status == VW_OK;
    if (!is_done)
        assert_int_equal(status, VW_ERR_HOST_MEMORY);
    else
        assert_true(result->is_exact);
    vw_verify_result_free(result);
    return is_done;
}

static void every_failure_of_host_memory_is_survived(void **state)
{
    (void)state;
    stored_recording one;
    partial_recording cut;
    open_stored("graphs.native" STORED_ENDING, &one);
    vw_test_sweep_host_memory(verify_quietly, &one);
    size_t count = one.recording->model->traces[0].event_count;
    make_partial(&one, count / 3, count, &cut);
    vw_test_sweep_host_memory(verify_quietly, &cut.stored);
    vw_recording_close(one.recording);
}

/* ---- the corpus ------------------------------------------------------------------------------ */

/* In a process of its own: every n-th recording of the folder. Ends with the number that differ. */
static int verify_share(const char *corpus, struct dirent **list, int count, int share)
{
    int bad_count = 0;
    for (int i = share; i < count; i += CORPUS_PROCESSES) {
        stored_recording one;
        open_recording_in(corpus, list[i]->d_name, &one);
        if (!comes_out_again(&one, one.json_path) || !comes_out_again(&one, NULL))
            bad_count++;
        vw_recording_close(one.recording);
    }
    return bad_count;
}

static void every_recording_of_the_corpus_comes_out_again(void **state)
{
    (void)state;
    const char *corpus = getenv("VRAMWISE_CORPUS");
    if (corpus == NULL) {
        print_message("VRAMWISE_CORPUS names no folder of recordings\n");
        skip();
    }
    struct dirent **list;
    int count = scandir(corpus, &list, is_recording_name, alphasort);
    assert_true(count > 0);
    pid_t pids[CORPUS_PROCESSES];
    for (int i = 0; i < CORPUS_PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            _exit(verify_share(corpus, list, count, i));
    }
    for (int i = 0; i < CORPUS_PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    print_message("%d recordings came out again\n", count);
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_recording_comes_out_again_with_statistics_summary_and_text),
        cmocka_unit_test(every_recording_comes_out_again_from_the_file_alone),
        cmocka_unit_test(the_limit_lies_in_the_interval_that_the_events_prove),
        cmocka_unit_test(all_devices_are_verified),
        cmocka_unit_test(the_rules_of_another_version_differ_and_the_reason_is_said),
        cmocka_unit_test(a_recording_without_a_trace_is_refused_with_advice),
        cmocka_unit_test(an_expectation_that_is_none_is_refused),
        cmocka_unit_test(progress_can_stop_it),
        cmocka_unit_test(every_failure_of_host_memory_is_survived),
        cmocka_unit_test(every_recording_of_the_corpus_comes_out_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
