/* test_replay_line.c - reserved bytes over a run that was made with another allocator. */
#include "analysis/replay_line.h"

#include <string.h>

#include "analysis/timeline.h"
#include "support/cmocka_here.h"
#include "support/hand_made_recording.h"
#include "support/host_memory_sweep.h"
#include "support/progress_log.h"
#include "support/stored_recordings.h"

#define MIB (UINT64_C(1) << 20)

enum { MANY_POINTS = 1 << 20, POLICIES = 4 };

static const char *const policies[POLICIES] = {"recorded", "native", "expandable", "vramwise"};
static const uint64_t base = UINT64_C(0x7f0000000000);

static uint64_t highest(const vw__replay_line *line)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < line->count; i++)
        bytes = line->bytes[i] > bytes ? line->bytes[i] : bytes;
    return bytes;
}

static uint64_t bytes_at(const vw__replay_line *line, uint32_t instant)
{
    size_t i = 0;
    while (i + 1 < line->count && line->instants[i + 1] <= instant)
        i++;
    return line->bytes[i];
}

static void assert_is_a_line(const vw__replay_line *line, size_t most_points, size_t event_count)
{
    assert_true(line->count >= 1 && line->count <= most_points);
    assert_int_equal(line->instants[0], 0);
    for (size_t i = 1; i < line->count; i++)
        assert_true(line->instants[i - 1] < line->instants[i]);
    assert_true(line->instants[line->count - 1] <= event_count);
    assert_true(highest(line) == line->result.peak_reserved_bytes);
}

/* A program that takes two segments, gives one back and takes it again. */
static void record_program(hand_made_recording *recording)
{
    record_begin(recording);
    record_new(recording, base, 40 * MIB, 40 * MIB);                 /* instants 1, 2 */
    record_new(recording, base + 64 * MIB, 20 * MIB, 20 * MIB);      /* 3, 4 */
    record_free(recording, base, 40 * MIB);                          /* 5, 6 */
    record_event(recording, VW_ACTION_SEGMENT_FREE, base, 40 * MIB); /* 7: empty_cache() */
    record_event(recording, VW_ACTION_SNAPSHOT, 0, 0);               /* 8 */
    record_free(recording, base + 64 * MIB, 20 * MIB);               /* 9, 10 */
    record_new(recording, base, 40 * MIB, 30 * MIB);                 /* 11, 12 */
    record_free(recording, base, 30 * MIB);                          /* 13, 14 */
    record_conf(recording, "");
}

static void instants_are_those_behind_the_recordings_events(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw__replay_line line;
    record_program(&recording);
    assert_int_equal(vw__replay_lines_make(record_end(&recording), VW_BUSIEST_DEVICE, "2.11",
                                           &policies[1], 1, MANY_POINTS, NULL, NULL, &line),
                     VW_OK);
    assert_is_a_line(&line, MANY_POINTS, 14);
    assert_int_equal(bytes_at(&line, 0), 0);
    assert_int_equal(bytes_at(&line, 1), 0); /* the request's events end at instant 2 */
    assert_int_equal(bytes_at(&line, 2), 40 * MIB);
    assert_int_equal(bytes_at(&line, 3), 40 * MIB);
    assert_int_equal(bytes_at(&line, 4), 60 * MIB);
    assert_int_equal(bytes_at(&line, 6), 60 * MIB);
    assert_int_equal(bytes_at(&line, 7), 20 * MIB);
    assert_int_equal(bytes_at(&line, 11), 20 * MIB);
    assert_int_equal(bytes_at(&line, 12), 50 * MIB);
    assert_int_equal(bytes_at(&line, 14), 50 * MIB);
    assert_string_equal(line.result.policy, "native");
    assert_string_equal(line.result.conf, "");
    vw__replay_line_deinit(&line);
    record_dispose(&recording);
}

static void what_is_there_before_the_recording_is_at_instant_0(void **state)
{
    (void)state;
    stored_recording one;
    partial_recording part;
    vw__timeline timeline;
    vw__replay_line line;
    open_stored("streams.native.pickle.xz", &one);
    size_t event_count = one.recording->model->traces[0].event_count;
    make_partial(&one, event_count / 2, event_count, &part);
    assert_int_equal(vw__timeline_make(&part.model, &part.model.traces[0], &timeline), VW_OK);
    assert_true(timeline.initial_live_bytes != 0);
    assert_int_equal(vw__replay_lines_make(&part.recording, VW_BUSIEST_DEVICE, NULL, &policies[1],
                                           1, MANY_POINTS, NULL, NULL, &line),
                     VW_OK);
    assert_is_a_line(&line, MANY_POINTS, event_count - event_count / 2);
    assert_true(line.bytes[0] >= timeline.initial_live_bytes);
    vw__replay_line_deinit(&line);
    vw__timeline_deinit(&timeline);
    vw_recording_close(one.recording);
}

/* ---- against the replay and against itself --------------------------------------------------- */

static void assert_same_result(const vw_replay_result *a, const vw_replay_result *b)
{
    assert_string_equal(a->policy, b->policy);
    assert_string_equal(a->conf, b->conf);
    assert_int_equal(a->is_complete, b->is_complete);
    assert_true(a->peak_reserved_bytes == b->peak_reserved_bytes);
    assert_true(a->peak_live_bytes == b->peak_live_bytes);
    assert_true(a->events_done == b->events_done);
    assert_true(a->retries == b->retries);
    assert_true(a->device_ns == b->device_ns);
    assert_true(a->longest_stall_ns == b->longest_stall_ns);
    assert_memory_equal(&a->calls, &b->calls, sizeof a->calls);
}

/* As replay makes them on a card without end. */
static vw_replay_report *replay_endless(const vw_recording *recording)
{
    vw_replay_run runs[POLICIES];
    vw_replay_report *report = NULL;
    for (size_t i = 0; i < POLICIES; i++)
        runs[i] = (vw_replay_run){.policy = policies[i]};
    const vw_replay_options options = {
        .struct_size = sizeof options,
        .runs = runs,
        .run_count = POLICIES,
        .card_bytes = VW_UNKNOWN,
        .device = VW_BUSIEST_DEVICE,
    };
    assert_int_equal(vw_recording_replay(recording, &options, &report), VW_OK);
    return report;
}

static void lines_of_recordings_have_the_replays_peaks(void **state)
{
    (void)state;
    static const char *const names[] = {"streams.native.pickle.xz", "graphs.native.pickle.xz"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        stored_recording one;
        vw__replay_line lines[POLICIES];
        open_stored(names[n], &one);
        vw_replay_report *report = replay_endless(one.recording);
        assert_int_equal(vw__replay_lines_make(one.recording, VW_BUSIEST_DEVICE, NULL, policies,
                                               POLICIES, MANY_POINTS, NULL, NULL, lines),
                         VW_OK);
        for (size_t i = 0; i < POLICIES; i++) {
            assert_is_a_line(&lines[i], MANY_POINTS, (size_t)report->event_count);
            assert_same_result(&lines[i].result, &report->results[i]);
            vw__replay_line_deinit(&lines[i]);
        }
        vw_replay_report_free(report);
        vw_recording_close(one.recording);
    }
}

/* Each point of a thinned line is the highest of what the whole line has in its span. */
static void assert_is_thinned(const vw__replay_line *thin, const vw__replay_line *whole,
                              size_t span_count, size_t event_count)
{
    for (size_t span = 0; span < span_count; span++) {
        uint32_t start = (uint32_t)(span * (event_count + 1) / span_count);
        uint32_t end = (uint32_t)((span + 1) * (event_count + 1) / span_count);
        uint64_t bytes = bytes_at(whole, start);
        for (size_t i = 0; i < whole->count; i++)
            if (whole->instants[i] >= start && whole->instants[i] < end && whole->bytes[i] > bytes)
                bytes = whole->bytes[i];
        assert_true(bytes_at(thin, start) == bytes);
        assert_true(bytes_at(thin, end - 1) == bytes);
    }
}

static void a_thinned_line_keeps_its_peaks(void **state)
{
    (void)state;
    static const size_t points[] = {1, 2, 7, 64};
    stored_recording one;
    vw__replay_line whole[POLICIES];
    open_stored("streams.native.pickle.xz", &one);
    size_t event_count = one.recording->model->traces[0].event_count;
    assert_int_equal(vw__replay_lines_make(one.recording, VW_BUSIEST_DEVICE, NULL, policies,
                                           POLICIES, MANY_POINTS, NULL, NULL, whole),
                     VW_OK);
    size_t thinned_count = 0;
    for (size_t p = 0; p < sizeof points / sizeof points[0]; p++) {
        vw__replay_line thin[POLICIES];
        assert_int_equal(vw__replay_lines_make(one.recording, VW_BUSIEST_DEVICE, NULL, policies,
                                               POLICIES, points[p], NULL, NULL, thin),
                         VW_OK);
        for (size_t i = 0; i < POLICIES; i++) {
            assert_is_a_line(&thin[i], points[p], event_count);
            if (whole[i].count > points[p]) {
                assert_is_thinned(&thin[i], &whole[i], points[p], event_count);
                thinned_count++;
            }
            vw__replay_line_deinit(&thin[i]);
        }
    }
    assert_true(thinned_count >= POLICIES); /* at least those of one point */
    for (size_t i = 0; i < POLICIES; i++)
        vw__replay_line_deinit(&whole[i]);
    vw_recording_close(one.recording);
}

/* ---- what can go wrong ----------------------------------------------------------------------- */

static void assert_refused(const vw_recording *recording, const char *version, const char *policy,
                           vw_status expected)
{
    const char *const both[] = {"native", policy};
    vw__replay_line lines[2];
    assert_int_equal(vw__replay_lines_make(recording, VW_BUSIEST_DEVICE, version, both, 2,
                                           MANY_POINTS, NULL, NULL, lines),
                     expected);
    for (size_t i = 0; i < 2; i++) {
        assert_null(lines[i].instants);
        assert_null(lines[i].bytes);
        assert_null(lines[i].conf);
    }
}

static void refusals_are_those_of_the_replay(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw__replay_line line;
    record_begin(&recording);
    record_new(&recording, base, 40 * MIB, 40 * MIB);
    record_conf(&recording, "no_such_option:1");
    const vw_recording *made = record_end(&recording);
    assert_refused(made, "2.11", "nobody", VW_ERR_INVALID_ARGUMENT);
    assert_refused(made, "2.11", "conf", VW_ERR_INVALID_ARGUMENT);
    assert_refused(made, "9.99", "native", VW_ERR_INVALID_ARGUMENT);
    assert_refused(made, "2.11", "recorded", VW_ERR_BAD_SETTING);
    assert_refused(made, NULL, "recorded", VW_ERR_CORRUPT_FILE);
    assert_int_equal(
        vw__replay_lines_make(made, VW_BUSIEST_DEVICE, NULL, policies, 1, 0, NULL, NULL, &line),
        VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(
        vw__replay_lines_make(made, VW_BUSIEST_DEVICE, NULL, policies, 0, 1, NULL, NULL, &line),
        VW_ERR_INVALID_ARGUMENT);
    record_dispose(&recording);
}

static void progress_rises_to_the_end_and_can_stop_it(void **state)
{
    (void)state;
    stored_recording one;
    vw__replay_line lines[POLICIES];
    progress_log log = {.calls = 0}, stopped = {.stop_at = 1};
    open_stored("streams.native.pickle.xz", &one);
    assert_int_equal(vw__replay_lines_make(one.recording, VW_BUSIEST_DEVICE, NULL, policies,
                                           POLICIES, 64, log_progress, &log, lines),
                     VW_OK);
    assert_true(log.last == 1.0);
    for (size_t i = 0; i < POLICIES; i++)
        vw__replay_line_deinit(&lines[i]);
    assert_int_equal(vw__replay_lines_make(one.recording, VW_BUSIEST_DEVICE, NULL, policies,
                                           POLICIES, 64, log_progress, &stopped, lines),
                     VW_ERR_WRONG_STATE);
    vw_recording_close(one.recording);
}

static bool make_one_line(void *context)
{
    vw__replay_line line;
    vw_status status = vw__replay_lines_make(context, VW_BUSIEST_DEVICE, "2.11", &policies[1], 1, 4,
                                             NULL, NULL, &line);
    if (status == VW_OK)
        vw__replay_line_deinit(&line);
    return status == VW_OK;
}

static void no_failure_of_host_memory_leaves_anything(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_program(&recording);
    (void)record_end(&recording);
    assert_true(make_one_line(&recording.recording));
    vw_test_sweep_host_memory(make_one_line, &recording.recording);
    record_dispose(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instants_are_those_behind_the_recordings_events),
        cmocka_unit_test(what_is_there_before_the_recording_is_at_instant_0),
        cmocka_unit_test(lines_of_recordings_have_the_replays_peaks),
        cmocka_unit_test(a_thinned_line_keeps_its_peaks),
        cmocka_unit_test(refusals_are_those_of_the_replay),
        cmocka_unit_test(progress_rises_to_the_end_and_can_stop_it),
        cmocka_unit_test(no_failure_of_host_memory_leaves_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
