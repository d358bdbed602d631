/* test_replay.c - one script under many settings and on many cards. */
#include "analysis/replay.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/hand_made_recording.h"
#include "support/hand_made_script.h"
#include "support/host_memory_sweep.h"

#define EXPANDABLE "expandable_segments:True"

static hand_made_script hand; /* large, and one at a time */

static hr__replay_work work_on_hand(void)
{
    return (hr__replay_work){.script = hand.script, .torch_version = "2.11"};
}

static hr_replay_result run_on(hr__card card, const char *conf)
{
    hr__replay_work work = work_on_hand();
    hr_replay_result result = {.policy = "conf"};
    assert_int_equal(hr__replay_run(&work, conf, card, false, NULL, &result), HR_OK);
    return result;
}

/* ---- one run --------------------------------------------------------------------------------- */

static void a_run_without_end_completes_and_counts(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    hand_alloc(&hand, 1, 10 * MIB + 1);
    hand_free(&hand, 0);
    hand_alloc(&hand, 2, 20 * MIB);
    hr_replay_result result = run_on(hr__card_without_end(), "");
    assert_true(result.is_complete);
    assert_false(result.has_oom);
    assert_int_equal(result.card_bytes, HR_UNKNOWN);
    assert_int_equal(result.events_done, 5);
    assert_int_equal(result.peak_reserved_bytes, 42 * MIB);
    assert_int_equal(result.peak_live_bytes, 40 * MIB + 512);
    assert_true(result.ratio > 1.04 && result.ratio < 1.06);
    assert_int_equal(result.calls.alloc, 2);
    assert_int_equal(result.calls.map, 0);
    assert_int_equal(result.retries, 0);
    assert_string_equal(result.policy, "conf");
    assert_int_equal(result.smallest_card_bytes, HR_UNKNOWN);
    assert_true(result.device_ns >= 2 * 45000);
    assert_true(result.longest_stall_ns >= 45000 && result.longest_stall_ns < result.device_ns);
}

static void an_expandable_run_maps_pages(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    hr_replay_result result = run_on(hr__card_without_end(), EXPANDABLE);
    assert_int_equal(result.calls.alloc, 0);
    assert_int_equal(result.calls.create, 2);
    assert_int_equal(result.calls.map, 2);
    assert_int_equal(result.peak_reserved_bytes, 40 * MIB);
}

static void a_request_that_was_served_and_is_not_ends_the_run(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    hand_free(&hand, 0);
    hand_alloc(&hand, 1, 20 * MIB);
    hand_alloc(&hand, 2, 50 * MIB + 1);
    hand_free(&hand, 1);
    hr_replay_result result = run_on(hr__card_of(64 * MIB), "");
    assert_false(result.is_complete);
    assert_true(result.has_oom);
    assert_int_equal(result.oom_event, 4);
    assert_int_equal(result.events_done, 4);
    assert_int_equal(result.oom_tried_bytes, 52 * MIB);
    assert_int_equal(result.oom_allocated_bytes, 20 * MIB);
    assert_int_equal(result.oom_reserved_bytes, 30 * MIB);
    assert_int_equal(result.peak_live_bytes, 30 * MIB); /* its own, not the script's */
    assert_int_equal(result.peak_reserved_bytes, 30 * MIB);
    assert_int_equal(result.retries, 1);
}

static void what_was_live_before_the_recording_may_be_too_much_already(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    hand.ops[0].first_event = hand.ops[0].end_event = HR__BEFORE_RECORDING;
    hr_replay_result result = run_on(hr__card_of(20 * MIB), "");
    assert_true(result.has_oom);
    assert_int_equal(result.oom_event, HR_UNKNOWN);
    assert_int_equal(result.events_done, 0);
    assert_int_equal(result.peak_live_bytes, 0);
}

static void a_request_that_fails_again_is_noted_and_the_script_goes_on(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 20 * MIB);
    hand_oom(&hand, 30 * MIB);
    hand_oom(&hand, 40 * MIB);
    hand_free(&hand, 0);
    hand_alloc(&hand, 0, 12 * MIB);
    hr_replay_result result = run_on(hr__card_of(40 * MIB), "");
    assert_false(result.is_complete);
    assert_true(result.has_oom);
    assert_false(result.is_past_recorded_oom);
    assert_int_equal(result.oom_event, 1);
    assert_int_equal(result.oom_tried_bytes, 30 * MIB);
    assert_int_equal(result.events_done, 6);
    hr_replay_result larger = run_on(hr__card_of(64 * MIB), "");
    assert_true(larger.is_complete);
    assert_true(larger.is_past_recorded_oom);
}

static void a_card_of_any_size_can_be_asked_for(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {
        1, 2 * MIB, UINT64_C(1) << 40, UINT64_C(1) << 45, UINT64_C(1) << 62, UINT64_MAX - 1};
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bool is_enough = sizes[i] > 40 * MIB;
        assert_int_equal(run_on(hr__card_of(sizes[i]), "").is_complete, is_enough);
        assert_int_equal(run_on(hr__card_of(sizes[i]), EXPANDABLE).is_complete, is_enough);
        assert_int_equal(run_on(hr__card_with_limit(sizes[i] / 2), "").is_complete, is_enough);
        assert_int_equal(run_on(hr__card_of(sizes[i]), "").card_bytes, sizes[i]);
    }
}

static void a_trial_ends_with_the_first_request_that_is_not_served(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_oom(&hand, 30 * MIB);
    hand_alloc(&hand, 0, 12 * MIB);
    hr__replay_work work = work_on_hand();
    hr_replay_result result = {.policy = NULL};
    assert_int_equal(hr__replay_run(&work, "", hr__card_of(20 * MIB), true, NULL, &result), HR_OK);
    assert_true(result.has_oom);
    assert_int_equal(result.events_done, 0);
    assert_int_equal(result.peak_reserved_bytes, 0);
}

static void late_frees_count_as_live_until_they_complete(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 20 * MIB);
    hand_free_later(&hand, 0, 0);
    hand_alloc(&hand, 1, 20 * MIB);
    hand_complete(&hand, 0);
    hand_alloc(&hand, 2, 12 * MIB);
    hand_alloc(&hand, 3, 100 * MIB);
    hr_replay_result result = run_on(hr__card_of(64 * MIB), "");
    assert_true(result.has_oom);
    assert_int_equal(result.peak_live_bytes, 40 * MIB);
}

static void empty_cache_is_called_before_the_operations_named(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    hand_free(&hand, 0);
    hand_alloc(&hand, 0, 20 * MIB);
    hr__replay_work work = work_on_hand();
    size_t trims[] = {0, 2, 3};
    hr_replay_result result = {.policy = NULL};
    assert_int_equal(hr__replay_run(&work, "", hr__card_without_end(), false, NULL, &result),
                     HR_OK);
    assert_int_equal(result.calls.alloc, 1);
    work.trims = trims;
    work.trim_count = 3;
    assert_int_equal(hr__replay_run(&work, "", hr__card_without_end(), false, NULL, &result),
                     HR_OK);
    assert_int_equal(result.calls.alloc, 2);
    assert_int_equal(result.calls.free, 1);
    assert_int_equal(result.trims, 3);
}

static void a_limit_of_the_process_lets_garbage_be_collected(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 60 * MIB);
    hand_free(&hand, 0);
    hand_alloc(&hand, 0, 70 * MIB);
    const char *conf = "garbage_collection_threshold:0.5";
    hr_replay_result limited = run_on(hr__card_with_limit(100 * MIB), conf);
    assert_true(limited.is_complete);
    assert_int_equal(limited.card_bytes, 100 * MIB);
    assert_int_equal(limited.retries, 0); /* collected in time */
    hr_replay_result sized = run_on(hr__card_of(100 * MIB), conf);
    assert_true(sized.is_complete);
    assert_int_equal(sized.retries, 1); /* PyTorch does not collect without a fraction */
    hr_replay_result refused = run_on(hr__card_with_limit(70 * MIB - 1), "");
    assert_true(refused.has_oom);
}

static void a_limit_is_held_to_the_byte(void **state)
{
    (void)state;
    static const char *const versions[] = {"1.8", "2.9", "2.11", "2.15"};
    hand_begin(&hand);
    hand_alloc(&hand, 0, 70 * MIB);
    for (size_t i = 0; i < 4; i++) {
        hr__replay_work work = work_on_hand();
        hr_replay_result result = {.policy = NULL};
        work.torch_version = versions[i];
        assert_int_equal(
            hr__replay_run(&work, "", hr__card_with_limit(70 * MIB), false, NULL, &result), HR_OK);
        assert_true(result.is_complete);
        assert_int_equal(
            hr__replay_run(&work, "", hr__card_with_limit(70 * MIB - 1), false, NULL, &result),
            HR_OK);
        assert_false(result.is_complete);
    }
}

static void a_recording_that_claims_the_impossible_is_refused(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 1000);
    hand_alloc(&hand, 1, UINT64_C(1) << 60);
    hr__replay_work work = work_on_hand();
    hr_replay_result result = {.policy = "untouched"};
    assert_int_equal(hr__replay_run(&work, "", hr__card_without_end(), false, NULL, &result),
                     HR_ERR_CORRUPT_FILE);
    assert_non_null(strstr(hr_last_error(), "event 1"));
    assert_non_null(strstr(hr_last_error(), "1152921504606846976"));
    assert_string_equal(result.policy, "untouched");
    assert_int_equal(result.events_done, 0);
}

static void a_request_that_failed_may_have_been_of_any_size(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_oom(&hand, UINT64_MAX);
    hand_alloc(&hand, 0, 1000);
    hr_replay_result result = run_on(hr__card_without_end(), "");
    assert_true(result.has_oom);
    assert_int_equal(result.oom_tried_bytes, UINT64_MAX);
    assert_int_equal(result.events_done, 2);
}

static void a_setting_that_cannot_be_used_is_named(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 1000);
    hr__replay_work work = work_on_hand();
    hr_replay_result result = {.policy = NULL};
    assert_int_equal(
        hr__replay_run(&work, "max_splat:1", hr__card_without_end(), false, NULL, &result),
        HR_ERR_BAD_SETTING);
    assert_non_null(strstr(hr_last_error(), "\"max_splat:1\""));
    assert_non_null(strstr(hr_last_error(), "Unrecognized key"));
}

typedef struct progress_log {
    double last;
    size_t calls;
    size_t stop_at;
} progress_log;

static bool log_progress(void *context, double done)
{
    progress_log *log = context;
    assert_true(done >= log->last && done <= 1.0);
    log->last = done;
    return ++log->calls != log->stop_at;
}

static void a_run_that_is_stopped_says_so(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 1000);
    hr__replay_work work = work_on_hand();
    hr_replay_result result = {.policy = NULL};
    progress_log log = {.stop_at = 0};
    hr__replay_progress progress = {log_progress, &log, 0.25, 0.5};
    assert_int_equal(hr__replay_run(&work, "", hr__card_without_end(), false, &progress, &result),
                     HR_OK);
    assert_true(log.last == 0.75);
    log = (progress_log){.stop_at = 1};
    assert_int_equal(hr__replay_run(&work, "", hr__card_without_end(), false, &progress, &result),
                     HR_ERR_WRONG_STATE);
}

/* ---- the smallest card ----------------------------------------------------------------------- */

static uint64_t smallest_card(const char *conf)
{
    hr__replay_work work = work_on_hand();
    uint64_t bytes = 0;
    assert_int_equal(hr__replay_smallest_card(&work, conf, NULL, &bytes), HR_OK);
    return bytes;
}

/* Live memory in pieces that do not fit each other, so that the answer is not obvious. */
static void churn(void)
{
    uint32_t random = 12345;
    bool is_live[16] = {false};
    for (size_t i = 0; i < 400; i++) {
        random = random * 1664525u + 1013904223u;
        uint32_t slot = random >> 28;
        if (is_live[slot])
            hand_free(&hand, slot);
        else
            hand_alloc(&hand, slot, (random >> 8) % (90 * MIB) + 1);
        is_live[slot] = !is_live[slot];
    }
}

static void the_smallest_card_completes_and_2_mib_less_do_not(void **state)
{
    (void)state;
    static const char *const confs[] = {"", EXPANDABLE, "max_split_size_mb:64"};
    hand_begin(&hand);
    churn();
    for (size_t i = 0; i < 3; i++) {
        uint64_t bytes = smallest_card(confs[i]);
        assert_int_equal(bytes % (2 * MIB), 0);
        assert_true(bytes >= hand.script.peak_live_bytes);
        assert_true(bytes <= run_on(hr__card_without_end(), confs[i]).peak_reserved_bytes);
        assert_true(run_on(hr__card_of(bytes), confs[i]).is_complete);
        assert_false(run_on(hr__card_of(bytes - 2 * MIB), confs[i]).is_complete);
    }
}

static void the_smallest_card_may_be_the_peak_of_live_bytes(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 40 * MIB);
    hand_alloc(&hand, 1, 24 * MIB);
    assert_int_equal(smallest_card(""), 64 * MIB);
}

static void the_smallest_card_serves_what_failed_in_the_recording_too(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 40 * MIB);
    hand_oom(&hand, 30 * MIB);
    assert_int_equal(smallest_card(""), 70 * MIB);
}

/* Short of memory, a request waits for other streams: their blocks are then free sooner. */
static void late_frees_can_make_the_smallest_card_less_than_the_peak_of_live_bytes(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 40 * MIB);
    hand_free_later(&hand, 0, 0);
    hand_alloc(&hand, 1, 42 * MIB);
    hand_complete(&hand, 0);
    assert_int_equal(hand.script.peak_live_bytes, 82 * MIB);
    assert_int_equal(smallest_card(""), 42 * MIB);
}

static void nothing_needs_a_card_of_2_mib(void **state)
{
    (void)state;
    hand_begin(&hand);
    assert_int_equal(smallest_card(""), 2 * MIB);
}

static void no_card_is_the_smallest_for_what_none_can_serve(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, UINT64_C(1) << 50);
    assert_int_equal(smallest_card(""), HR_UNKNOWN);
}

/* ---- recordings ------------------------------------------------------------------------------ */

static const uint64_t base = UINT64_C(0x7f0000000000);

/* A program that fills 60 MiB in two segments, frees and fills again. */
static void record_small_program(hand_made_recording *recording)
{
    record_new(recording, base, 40 * MIB, 40 * MIB);
    record_new(recording, base + 64 * MIB, 20 * MIB, 20 * MIB);
    record_free(recording, base, 40 * MIB);
    record_event(recording, HR_ACTION_ALLOC, base, 30 * MIB);
    record_free(recording, base, 30 * MIB);
    record_free(recording, base + 64 * MIB, 20 * MIB);
}

static hr_replay_options plain_options(void)
{
    return (hr_replay_options){.struct_size = sizeof(hr_replay_options),
                               .torch_version = "2.11",
                               .device = HR_BUSIEST_DEVICE};
}

static bool has_note(const hr_replay_report *report, const char *part)
{
    for (size_t i = 0; i < report->note_count; i++)
        if (strstr(report->notes[i], part) != NULL)
            return true;
    return false;
}

static void each_setting_is_replayed_once_by_default(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    record_conf(&recording, "garbage_collection_threshold:0.8");
    assert_int_equal(hr_recording_replay(record_end(&recording), &options, &report), HR_OK);
    assert_int_equal(report->result_count, 3);
    assert_string_equal(report->results[0].policy, "recorded");
    assert_string_equal(report->results[0].conf, "garbage_collection_threshold:0.8");
    assert_string_equal(report->results[1].policy, "native");
    assert_string_equal(report->results[2].policy, "expandable");
    assert_int_equal(report->event_count, 11);
    assert_int_equal(report->peak_live_bytes, 60 * MIB);
    assert_int_equal(report->recorded_oom_event, HR_UNKNOWN);
    assert_int_equal(report->results[1].peak_reserved_bytes, 60 * MIB);
    hr_replay_report_free(report);
    record_dispose(&recording);
}

static void settings_that_come_to_the_same_are_one(void **state)
{
    (void)state;
    static const char *const confs[] = {"", "expandable_segments:False",
                                        "pinned_use_background_threads:True",
                                        " expandable_segments : True"};
    static const char *const others[] = {"expandable", "expandable", "expandable", "native"};
    for (size_t i = 0; i < 4; i++) {
        hand_made_recording recording;
        hr_replay_report *report = NULL;
        hr_replay_options options = plain_options();
        record_begin(&recording);
        record_small_program(&recording);
        record_conf(&recording, confs[i]);
        assert_int_equal(hr_recording_replay(record_end(&recording), &options, &report), HR_OK);
        assert_int_equal(report->result_count, 2);
        assert_string_equal(report->results[0].policy, "recorded");
        assert_string_equal(report->results[1].policy, others[i]);
        hr_replay_report_free(report);
        record_dispose(&recording);
    }
}

static void unknown_settings_are_taken_for_the_defaults_and_said_to_be(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    assert_int_equal(hr_recording_replay(record_end(&recording), &options, &report), HR_OK);
    assert_string_equal(report->results[0].conf, "");
    assert_true(has_note(report, "does not tell its settings"));
    hr_replay_report_free(report);
    record_dispose(&recording);
}

static void values_without_a_string_are_made_into_one(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    hr__model_settings *settings = hr__model_builder_settings(recording.builder);
    settings->is_known = true;
    settings->is_expandable = true;
    settings->max_split_size = (int64_t)(128 * MIB);
    settings->garbage_collection_threshold = 0.75;
    assert_int_equal(hr_recording_replay(record_end(&recording), &options, &report), HR_OK);
    assert_string_equal(
        report->results[0].conf,
        "expandable_segments:True,max_split_size_mb:128,garbage_collection_threshold:0.75");
    hr_replay_report_free(report);
    record_dispose(&recording);
}

static void recorded_settings_of_another_version_are_left_out_and_said_to_be(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    static const hr_replay_run recorded = {.policy = "recorded"};
    record_begin(&recording);
    record_small_program(&recording);
    record_conf(&recording, "expandable_segments:True");
    const hr_recording *opened = record_end(&recording);
    options.torch_version = "2.0";
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_OK);
    assert_int_equal(report->result_count, 1);
    assert_string_equal(report->results[0].policy, "native");
    assert_true(has_note(report, "cannot be used with PyTorch 2.0"));
    assert_true(has_note(report, "PyTorch 2.0 has no expandable segments"));
    hr_replay_report_free(report);
    options.runs = &recorded;
    options.run_count = 1;
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_ERR_BAD_SETTING);
    record_dispose(&recording);
}

static void policies_that_are_not_there_are_refused_with_those_that_are(void **state)
{
    (void)state;
    static const char *const names[] = {"torch", "headroom:tight", "", "Native"};
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    const hr_recording *opened = record_end(&recording);
    options.run_count = 1;
    for (size_t i = 0; i < 4; i++) {
        const hr_replay_run run = {.policy = names[i]};
        options.runs = &run;
        assert_int_equal(hr_recording_replay(opened, &options, &report), HR_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(hr_last_error(), "native, expandable, recorded"));
        assert_int_equal(strstr(hr_last_error(), "no paged engine yet") != NULL, i == 1);
    }
    const hr_replay_run without_conf = {.policy = "conf"};
    options.runs = &without_conf;
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_ERR_INVALID_ARGUMENT);
    options.run_count = 0;
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_ERR_INVALID_ARGUMENT);
    assert_null(report);
    record_dispose(&recording);
}

static void the_card_of_a_recording_that_filled_its_device_is_what_it_had_there(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    record_begin(&recording);
    record_new(&recording, base, 40 * MIB, 40 * MIB);
    record_event(&recording, HR_ACTION_OOM, 12 * MIB, 16 * MIB);
    assert_int_equal(hr_recording_replay(record_end(&recording), &options, &report), HR_OK);
    assert_int_equal(report->results[0].card_bytes, 52 * MIB);
    assert_int_equal(report->recorded_oom_event, 2);
    assert_true(report->results[0].has_oom);
    assert_int_equal(report->results[0].oom_event, 2);
    assert_int_equal(report->results[0].events_done, 3);
    assert_true(has_note(report, "No card was named"));
    hr_replay_report_free(report);
    options.card_bytes = 56 * MIB;
    assert_int_equal(hr_recording_replay(&recording.recording, &options, &report), HR_OK);
    assert_true(report->results[0].is_complete);
    assert_true(report->results[0].is_past_recorded_oom);
    assert_false(has_note(report, "No card was named"));
    hr_replay_report_free(report);
    record_dispose(&recording);
}

static void the_limit_of_a_recording_that_was_refused_early_is_what_was_served(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    record_begin(&recording);
    record_new(&recording, base, 40 * MIB, 40 * MIB);
    record_new(&recording, base + 64 * MIB, 20 * MIB, 2 * MIB);
    record_event(&recording, HR_ACTION_OOM, UINT64_C(100) << 30, 30 * MIB);
    assert_int_equal(hr_recording_replay(record_end(&recording), &options, &report), HR_OK);
    assert_int_equal(report->results[0].card_bytes, 60 * MIB);
    assert_true(report->results[0].has_oom);
    assert_int_equal(report->results[0].oom_event, 4);
    assert_true(has_note(report, "set_per_process_memory_fraction"));
    hr_replay_report_free(report);
    record_dispose(&recording);
}

/* PyTorch holds the whole request against its limit, though the segment grows by less. */
static void an_expandable_request_proves_more_than_it_grew_by(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    record_begin(&recording);
    record_event(&recording, HR_ACTION_SEGMENT_MAP, base, 40 * MIB);
    record_event(&recording, HR_ACTION_ALLOC, base, 22 * MIB);
    record_event(&recording, HR_ACTION_SEGMENT_MAP, base + 40 * MIB, 20 * MIB);
    record_event(&recording, HR_ACTION_ALLOC, base + 22 * MIB, 30 * MIB);
    record_event(&recording, HR_ACTION_OOM, UINT64_C(100) << 30, 30 * MIB);
    record_conf(&recording, EXPANDABLE);
    assert_int_equal(hr_recording_replay(record_end(&recording), &options, &report), HR_OK);
    assert_int_equal(report->results[0].card_bytes, 70 * MIB);
    assert_int_equal(report->results[0].oom_event, 4);
    assert_int_equal(report->results[0].peak_reserved_bytes, 60 * MIB);
    hr_replay_report_free(report);
    record_dispose(&recording);
}

/* Two free blocks of 40 MiB, one of them beside a live one; the lower is taken. If that is the one
 * that stands alone, 60 MiB are free in one piece later on; else they are not. PyTorch was given
 * rising addresses here, and ours fall. */
static void record_address_game(hand_made_recording *recording, uint64_t second_address,
                                uint64_t first_segment_bytes)
{
    record_new(recording, base, first_segment_bytes, 40 * MIB);
    record_new(recording, second_address, 60 * MIB, 60 * MIB);
    record_free(recording, second_address, 60 * MIB);
    record_event(recording, HR_ACTION_ALLOC, second_address, 20 * MIB);
    record_free(recording, base, 40 * MIB);
    record_event(recording, HR_ACTION_ALLOC, base, 20 * MIB);
    record_free(recording, second_address, 20 * MIB);
    record_event(recording, HR_ACTION_ALLOC, second_address, 60 * MIB);
}

static uint64_t peak_of(const hr_recording *recording, const hr_replay_run *run)
{
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    options.runs = run;
    options.run_count = 1;
    if (hr_recording_replay(recording, &options, &report) != HR_OK)
        fail_msg("%s", hr_last_error());
    assert_true(report->results[0].is_complete);
    uint64_t peak_bytes = report->results[0].peak_reserved_bytes;
    hr_replay_report_free(report);
    return peak_bytes;
}

static const hr_replay_run recorded_run = {.policy = "recorded"};
static const hr_replay_run other_run = {.policy = "conf", .conf = "expandable_segments:False"};

static void recorded_settings_get_the_recorded_addresses(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_address_game(&recording, base + 128 * MIB, 40 * MIB);
    const hr_recording *opened = record_end(&recording);
    assert_int_equal(peak_of(opened, &recorded_run), 100 * MIB);
    assert_int_equal(peak_of(opened, &other_run), 160 * MIB); /* made up */
    record_dispose(&recording);
}

static void addresses_are_made_up_from_where_the_recording_is_left(void **state)
{
    (void)state;
    hand_made_recording recording;
    /* A first segment that is larger than PyTorch would have taken: left at once. */
    record_begin(&recording);
    record_address_game(&recording, base + 128 * MIB, 50 * MIB);
    assert_int_equal(peak_of(record_end(&recording), &recorded_run), 160 * MIB);
    record_dispose(&recording);
    /* A second one inside the first, and at an address that is none: left there. */
    static const uint64_t addresses[] = {MIB, 128 * MIB + 1};
    for (size_t i = 0; i < 2; i++) {
        record_begin(&recording);
        record_address_game(&recording, base + addresses[i], 40 * MIB);
        assert_int_equal(peak_of(record_end(&recording), &recorded_run), 160 * MIB);
        record_dispose(&recording);
    }
}

static void empty_cache_goes_behind_the_steps_that_were_found(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    record_begin(&recording);
    record_new(&recording, base, 40 * MIB, 40 * MIB);
    record_free(&recording, base, 40 * MIB);
    for (size_t step = 0; step < 4; step++) {
        record_step_end(&recording);
        record_event(&recording, HR_ACTION_ALLOC, base, 40 * MIB);
        record_free(&recording, base, 40 * MIB);
    }
    const hr_recording *opened = record_end(&recording);
    options.empty_cache = HR_EMPTY_CACHE_STEPS;
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_OK);
    assert_int_equal(report->step_count, 4);
    assert_int_equal(report->results[0].trims, 4);
    assert_int_equal(report->results[0].calls.alloc, 5);
    assert_true(has_note(report, "4 calls of empty_cache()"));
    hr_replay_report_free(report);
    options.empty_cache_every = 3;
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_OK);
    assert_int_equal(report->results[0].trims, 1);
    hr_replay_report_free(report);
    options.empty_cache_every = UINT64_MAX;
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_OK);
    assert_int_equal(report->results[0].trims, 0);
    hr_replay_report_free(report);
    record_dispose(&recording);
}

static void empty_cache_behind_steps_that_are_not_there_is_refused(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    const hr_recording *opened = record_end(&recording);
    options.empty_cache = HR_EMPTY_CACHE_STEPS;
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_ERR_UNSUPPORTED);
    options.empty_cache = HR_EMPTY_CACHE_PHASES;
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_ERR_UNSUPPORTED);
    record_dispose(&recording);
}

static void progress_rises_to_one_over_all_runs(void **state)
{
    (void)state;
    hand_made_recording recording;
    hr_replay_report *report = NULL;
    hr_replay_options options = plain_options();
    progress_log log = {.stop_at = 0};
    record_begin(&recording);
    record_small_program(&recording);
    const hr_recording *opened = record_end(&recording);
    options.progress = log_progress;
    options.progress_context = &log;
    options.find_smallest_card = true;
    assert_int_equal(hr_recording_replay(opened, &options, &report), HR_OK);
    assert_true(log.last == 1.0);
    assert_int_equal(report->results[0].smallest_card_bytes, 60 * MIB);
    assert_int_equal(report->results[1].smallest_card_bytes, 60 * MIB);
    hr_replay_report_free(report);
    for (size_t stop_at = 1; stop_at <= log.calls; stop_at++) {
        progress_log stopped = {.stop_at = stop_at};
        options.progress_context = &stopped;
        assert_int_equal(hr_recording_replay(opened, &options, &report), HR_ERR_WRONG_STATE);
    }
    record_dispose(&recording);
}

static bool replay_everything(void *context)
{
    hr_replay_options options = plain_options();
    hr_replay_report *report = NULL;
    options.find_smallest_card = true;
    options.empty_cache = HR_EMPTY_CACHE_STEPS;
    if (hr_recording_replay(context, &options, &report) != HR_OK)
        return false;
    hr_replay_report_free(report);
    return true;
}

static void running_out_of_host_memory_anywhere_leaves_nothing_behind(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_new(&recording, base, 4 * MIB, 4 * MIB);
    record_step_end(&recording);
    record_free(&recording, base, 4 * MIB);
    record_event(&recording, HR_ACTION_OOM, 2 * MIB, 6 * MIB);
    record_conf(&recording, "expandable_segments:True");
    hr_test_sweep_host_memory(replay_everything, (void *)(uintptr_t)record_end(&recording));
    record_dispose(&recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_without_end_completes_and_counts),
        cmocka_unit_test(an_expandable_run_maps_pages),
        cmocka_unit_test(a_request_that_was_served_and_is_not_ends_the_run),
        cmocka_unit_test(what_was_live_before_the_recording_may_be_too_much_already),
        cmocka_unit_test(a_request_that_fails_again_is_noted_and_the_script_goes_on),
        cmocka_unit_test(a_card_of_any_size_can_be_asked_for),
        cmocka_unit_test(a_trial_ends_with_the_first_request_that_is_not_served),
        cmocka_unit_test(late_frees_count_as_live_until_they_complete),
        cmocka_unit_test(empty_cache_is_called_before_the_operations_named),
        cmocka_unit_test(a_limit_of_the_process_lets_garbage_be_collected),
        cmocka_unit_test(a_limit_is_held_to_the_byte),
        cmocka_unit_test(a_recording_that_claims_the_impossible_is_refused),
        cmocka_unit_test(a_request_that_failed_may_have_been_of_any_size),
        cmocka_unit_test(a_setting_that_cannot_be_used_is_named),
        cmocka_unit_test(a_run_that_is_stopped_says_so),
        cmocka_unit_test(the_smallest_card_completes_and_2_mib_less_do_not),
        cmocka_unit_test(the_smallest_card_may_be_the_peak_of_live_bytes),
        cmocka_unit_test(the_smallest_card_serves_what_failed_in_the_recording_too),
        cmocka_unit_test(late_frees_can_make_the_smallest_card_less_than_the_peak_of_live_bytes),
        cmocka_unit_test(nothing_needs_a_card_of_2_mib),
        cmocka_unit_test(no_card_is_the_smallest_for_what_none_can_serve),
        cmocka_unit_test(each_setting_is_replayed_once_by_default),
        cmocka_unit_test(settings_that_come_to_the_same_are_one),
        cmocka_unit_test(unknown_settings_are_taken_for_the_defaults_and_said_to_be),
        cmocka_unit_test(values_without_a_string_are_made_into_one),
        cmocka_unit_test(recorded_settings_of_another_version_are_left_out_and_said_to_be),
        cmocka_unit_test(policies_that_are_not_there_are_refused_with_those_that_are),
        cmocka_unit_test(the_card_of_a_recording_that_filled_its_device_is_what_it_had_there),
        cmocka_unit_test(the_limit_of_a_recording_that_was_refused_early_is_what_was_served),
        cmocka_unit_test(an_expandable_request_proves_more_than_it_grew_by),
        cmocka_unit_test(recorded_settings_get_the_recorded_addresses),
        cmocka_unit_test(addresses_are_made_up_from_where_the_recording_is_left),
        cmocka_unit_test(empty_cache_goes_behind_the_steps_that_were_found),
        cmocka_unit_test(empty_cache_behind_steps_that_are_not_there_is_refused),
        cmocka_unit_test(progress_rises_to_one_over_all_runs),
        cmocka_unit_test(running_out_of_host_memory_anywhere_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
