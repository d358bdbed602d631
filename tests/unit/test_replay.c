/* test_replay.c - one script under many settings, and the smallest card for it. */
#include "analysis/replay.h"

#include <string.h>

#include "base/clock.h"
#include "support/cmocka_here.h"
#include "support/hand_made_script.h"
#include "support/progress_log.h"

#define EXPANDABLE "expandable_segments:True"

static hand_made_script hand; /* large, and one at a time */

static vw__replay_work work_on_hand(void)
{
    return (vw__replay_work){.script = hand.script, .torch_version = "2.11"};
}

static vw_replay_result run_on(vw__replay_card card, const char *conf)
{
    vw__replay_work work = work_on_hand();
    vw_replay_result result = {.policy = "conf"};
    assert_int_equal(
        vw__replay_run(&work, vw__policy_torch_setting(conf), card, false, NULL, &result), VW_OK);
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
    vw_replay_result result = run_on(vw__replay_card_without_end(), "");
    assert_true(result.is_complete);
    assert_false(result.has_oom);
    assert_int_equal(result.card_bytes, VW_UNKNOWN);
    assert_int_equal(result.events_done, 5);
    assert_int_equal(result.peak_reserved_bytes, 42 * MIB);
    assert_int_equal(result.peak_live_bytes, 40 * MIB + 512);
    assert_true(result.ratio > 1.04 && result.ratio < 1.06);
    assert_int_equal(result.calls.alloc, 2);
    assert_int_equal(result.calls.map, 0);
    assert_int_equal(result.retries, 0);
    assert_string_equal(result.policy, "conf");
    assert_int_equal(result.smallest_card_bytes, VW_UNKNOWN);
    assert_true(result.device_ns >= 2 * 45000);
    assert_true(result.longest_stall_ns >= 45000 && result.longest_stall_ns < result.device_ns);
}

static void an_expandable_run_maps_pages(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    vw_replay_result result = run_on(vw__replay_card_without_end(), EXPANDABLE);
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
    vw_replay_result result = run_on(vw__replay_card_of(64 * MIB), "");
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
    hand.ops[0].first_event = hand.ops[0].end_event = VW__SCRIPT_BEFORE_RECORDING;
    vw_replay_result result = run_on(vw__replay_card_of(20 * MIB), "");
    assert_true(result.has_oom);
    assert_int_equal(result.oom_event, VW_UNKNOWN);
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
    vw_replay_result result = run_on(vw__replay_card_of(40 * MIB), "");
    assert_false(result.is_complete);
    assert_true(result.has_oom);
    assert_false(result.is_past_recorded_oom);
    assert_int_equal(result.oom_event, 1);
    assert_int_equal(result.oom_tried_bytes, 30 * MIB);
    assert_int_equal(result.events_done, 6);
    vw_replay_result larger = run_on(vw__replay_card_of(64 * MIB), "");
    assert_true(larger.is_complete);
    assert_true(larger.is_past_recorded_oom);
    assert_int_equal(result.peak_live_bytes, 20 * MIB);
    assert_int_equal(larger.peak_live_bytes, 60 * MIB); /* with what it served, for a moment */
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
        assert_int_equal(run_on(vw__replay_card_of(sizes[i]), "").is_complete, is_enough);
        assert_int_equal(run_on(vw__replay_card_of(sizes[i]), EXPANDABLE).is_complete, is_enough);
        assert_int_equal(run_on(vw__replay_card_with_limit(sizes[i] / 2), "").is_complete,
                         is_enough);
        assert_int_equal(run_on(vw__replay_card_of(sizes[i]), "").card_bytes, sizes[i]);
    }
}

static void a_trial_ends_with_the_first_request_that_is_not_served(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_oom(&hand, 30 * MIB);
    hand_alloc(&hand, 0, 12 * MIB);
    vw__replay_work work = work_on_hand();
    vw_replay_result result = {.policy = NULL};
    assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                    vw__replay_card_of(20 * MIB), true, NULL, &result),
                     VW_OK);
    assert_true(result.has_oom);
    assert_int_equal(result.events_done, 0);
    assert_int_equal(result.peak_reserved_bytes, 0);
}

/* A clock of the processor that runs on by `leap_ns` whenever it is looked at. */
static uint64_t thread_now_ns, leap_ns;

static uint64_t leap(void)
{
    return thread_now_ns += leap_ns;
}

static uint64_t stand_still(void)
{
    return 0;
}

static vw_status run_by_leaps(uint64_t ns)
{
    static const vw__clock leaping = {stand_still, stand_still, leap};
    vw__replay_work work = work_on_hand();
    vw_replay_result result = {.policy = "conf"};
    leap_ns = ns;
    vw__clock_replace(&leaping);
    vw_status status = vw__replay_run(&work, vw__policy_torch_setting(""),
                                      vw__replay_card_without_end(), false, NULL, &result);
    vw__clock_replace(NULL);
    return status;
}

static void a_replay_that_takes_too_long_is_given_up(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 20 * MIB);
    hand_alloc(&hand, 1, 20 * MIB);
    assert_int_equal(run_by_leaps(UINT64_C(1000000000)), VW_OK);
    assert_int_equal(run_by_leaps(UINT64_C(60000000000)), VW_ERR_UNSUPPORTED);
    assert_non_null(
        strstr(vw_last_error(), "the replay took more than 10 s for 2 operations, and was given"));
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
    vw_replay_result result = run_on(vw__replay_card_of(64 * MIB), "");
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
    vw__replay_work work = work_on_hand();
    size_t trims[] = {0, 2, 3};
    vw_replay_result result = {.policy = NULL};
    assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                    vw__replay_card_without_end(), false, NULL, &result),
                     VW_OK);
    assert_int_equal(result.calls.alloc, 1);
    work.trims = trims;
    work.trim_count = 3;
    assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                    vw__replay_card_without_end(), false, NULL, &result),
                     VW_OK);
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
    vw_replay_result limited = run_on(vw__replay_card_with_limit(100 * MIB), conf);
    assert_true(limited.is_complete);
    assert_int_equal(limited.card_bytes, 100 * MIB);
    assert_int_equal(limited.retries, 0); /* collected in time */
    vw_replay_result sized = run_on(vw__replay_card_of(100 * MIB), conf);
    assert_true(sized.is_complete);
    assert_int_equal(sized.retries, 1); /* PyTorch does not collect without a fraction */
    vw_replay_result refused = run_on(vw__replay_card_with_limit(70 * MIB - 1), "");
    assert_true(refused.has_oom);
}

static void a_limit_is_held_to_the_byte(void **state)
{
    (void)state;
    static const char *const versions[] = {"1.8", "2.9", "2.11", "2.15"};
    hand_begin(&hand);
    hand_alloc(&hand, 0, 70 * MIB);
    for (size_t i = 0; i < 4; i++) {
        vw__replay_work work = work_on_hand();
        vw_replay_result result = {.policy = NULL};
        work.torch_version = versions[i];
        assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                        vw__replay_card_with_limit(70 * MIB), false, NULL, &result),
                         VW_OK);
        assert_true(result.is_complete);
        assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                        vw__replay_card_with_limit(70 * MIB - 1), false, NULL,
                                        &result),
                         VW_OK);
        assert_false(result.is_complete);
    }
}

static void a_recording_that_claims_the_impossible_is_refused(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 1000);
    hand_alloc(&hand, 1, UINT64_C(1) << 60);
    vw__replay_work work = work_on_hand();
    vw_replay_result result = {.policy = "untouched"};
    assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                    vw__replay_card_without_end(), false, NULL, &result),
                     VW_ERR_CORRUPT_FILE);
    assert_non_null(strstr(vw_last_error(), "event 1"));
    assert_non_null(strstr(vw_last_error(), "1152921504606846976"));
    assert_string_equal(result.policy, "untouched");
    assert_int_equal(result.events_done, 0);
}

static void a_request_that_failed_may_have_been_of_any_size(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_oom(&hand, UINT64_MAX);
    hand_alloc(&hand, 0, 1000);
    vw_replay_result result = run_on(vw__replay_card_without_end(), "");
    assert_true(result.has_oom);
    assert_int_equal(result.oom_tried_bytes, UINT64_MAX);
    assert_int_equal(result.events_done, 2);
}

static void a_setting_that_cannot_be_used_is_named(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 1000);
    vw__replay_work work = work_on_hand();
    vw_replay_result result = {.policy = NULL};
    assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting("max_splat:1"),
                                    vw__replay_card_without_end(), false, NULL, &result),
                     VW_ERR_BAD_SETTING);
    assert_non_null(strstr(vw_last_error(), "\"max_splat:1\""));
    assert_non_null(strstr(vw_last_error(), "Unrecognized key"));
}

static void a_run_that_is_stopped_says_so(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 1000);
    vw__replay_work work = work_on_hand();
    vw_replay_result result = {.policy = NULL};
    progress_log log = {.stop_at = 0};
    vw__replay_progress progress = {log_progress, &log, 0.25, 0.5};
    assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                    vw__replay_card_without_end(), false, &progress, &result),
                     VW_OK);
    assert_true(log.last == 0.75);
    log = (progress_log){.stop_at = 1};
    assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                    vw__replay_card_without_end(), false, &progress, &result),
                     VW_ERR_WRONG_STATE);
}

static void driver_time_counts_as_settled_after_a_quarter_of_the_events(void **state)
{
    (void)state;
    hand_begin(&hand);
    for (uint32_t i = 0; i < 4; i++)
        hand_alloc(&hand, i, 20 * MIB);
    vw_replay_result result = run_on(vw__replay_card_without_end(), "");
    assert_int_equal(result.settled_device_ns, result.device_ns / 4 * 3);
    assert_int_equal(result.settled_duration_ns, VW_UNKNOWN); /* no times */
    hand_time(&hand, 1000);
    result = run_on(vw__replay_card_without_end(), "");
    assert_int_equal(result.settled_duration_ns, 2000000);
    assert_int_equal(result.settled_device_ns, result.device_ns / 4 * 3);
    assert_int_equal(result.moved_bytes, 0);
    assert_int_equal(result.copied_bytes, 0);
}

static void a_run_that_ends_early_has_settled_up_to_there_or_never(void **state)
{
    (void)state;
    hand_begin(&hand);
    for (uint32_t i = 0; i < 8; i++)
        hand_alloc(&hand, i, 20 * MIB);
    hand_time(&hand, 1000);
    vw_replay_result result = run_on(vw__replay_card_of(110 * MIB), "");
    assert_int_equal(result.events_done, 5);
    assert_int_equal(result.settled_duration_ns, 2000000);
    result = run_on(vw__replay_card_of(30 * MIB), "");
    assert_int_equal(result.events_done, 1);
    assert_int_equal(result.settled_device_ns, VW_UNKNOWN);
    assert_int_equal(result.settled_duration_ns, VW_UNKNOWN);
}

/* A trim before the operation at which a run has settled is counted as settled. */
static void settled_driver_time_has_the_calls_of_empty_cache_that_were_put_in(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 20 * MIB);
    hand_free(&hand, 0); /* events 1 and 2 of 12 */
    for (uint32_t i = 1; i < 4; i++) {
        hand_alloc(&hand, i, 20 * MIB);
        hand_free(&hand, i);
    }
    vw__replay_work work = work_on_hand();
    size_t trims[] = {2, 4};
    vw_replay_result result = {.policy = NULL};
    work.trims = trims;
    work.trim_count = 2;
    assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                    vw__replay_card_without_end(), false, NULL, &result),
                     VW_OK);
    assert_int_equal(result.calls.free, 2);
    assert_int_equal(result.calls.alloc, 3);
    uint64_t take_ns = result.device_ns - result.settled_device_ns; /* the first alone */
    assert_true(take_ns >= 45000 && take_ns < 50000);
}

/* ---- engines of our own ---------------------------------------------------------------------- */

static const vw__replay_setting engines[] = {{.engine = "vramwise", .conf = ""},
                                             {.engine = "vramwise:rescue", .conf = ""},
                                             {.engine = "vramwise:tight", .conf = ""}};

static void every_mode_of_engine_vramwise_is_run(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    hand_alloc_on(&hand, 1, 10 * MIB, 1);
    hand_free(&hand, 0);
    hand_alloc_on(&hand, 2, 20 * MIB, 1);
    vw__replay_work work = work_on_hand();
    for (size_t i = 0; i < 3; i++) {
        vw_replay_result result = {.policy = "vramwise"};
        assert_int_equal(
            vw__replay_run(&work, engines[i], vw__replay_card_without_end(), false, NULL, &result),
            VW_OK);
        assert_true(result.is_complete);
        assert_string_equal(result.conf, "");
        assert_int_equal(result.events_done, 5);
        assert_int_equal(result.calls.alloc, 0); /* mapped, not taken */
        assert_true(result.calls.map > 0);
        assert_true(result.peak_reserved_bytes >= result.peak_live_bytes);
    }
}

/* The recording's addresses are PyTorch's: dictated ones would be refused by this device. */
static void engine_vramwise_does_not_follow_the_recording(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    hand.events[0] = (vw__model_event){.action = VW_ACTION_SEGMENT_ALLOC, .address = 1};
    vw__replay_followed_op followed[] = {{.op = 0, .reserved_bytes = 30 * MIB}};
    char recorded_conf[] = "";
    vw__replay_work work = work_on_hand();
    vw_replay_result result = {.policy = "vramwise"};
    size_t followed_length = 1;
    work.recorded_conf = recorded_conf;
    work.followed = followed;
    work.followed_count = 1;
    assert_int_equal(
        vw__replay_follow_length(&work, vw__replay_card_without_end(), &followed_length, NULL),
        VW_OK);
    assert_int_equal(followed_length, 0); /* else nothing is proved here */
    assert_int_equal(
        vw__replay_run(&work, engines[0], vw__replay_card_without_end(), false, NULL, &result),
        VW_OK);
    assert_true(result.is_complete);
}

static void how_far_a_recording_is_followed_is_asked_with_its_calls_of_empty_cache(void **state)
{
    (void)state;
    hand_begin(&hand);
    hand_alloc(&hand, 0, 30 * MIB);
    hand_free(&hand, 0);
    hand_add(&hand, VW__SCRIPT_TRIM, 1);
    hand.events[0] = (vw__model_event){
        .action = VW_ACTION_SEGMENT_ALLOC, .address = 4096 * MIB, .size_bytes = 30 * MIB};
    hand.events[3] = (vw__model_event){
        .action = VW_ACTION_SEGMENT_FREE, .address = 4096 * MIB, .size_bytes = 30 * MIB};
    vw__replay_followed_op followed[] = {{.op = 0, .reserved_bytes = 30 * MIB}, {.op = 2}};
    char recorded_conf[] = "";
    vw__replay_work work = work_on_hand();
    vw_replay_result result = {.policy = NULL};
    size_t followed_length = 0;
    work.recorded_conf = recorded_conf;
    work.followed = followed;
    work.followed_count = 2;
    work.skips_empty_cache = true;
    assert_int_equal(vw__replay_run(&work, vw__policy_torch_setting(""),
                                    vw__replay_card_without_end(), false, NULL, &result),
                     VW_OK);
    assert_true(result.is_complete);
    assert_int_equal(result.calls.free, 0);
    assert_int_equal(result.events_done, 4);
    assert_int_equal(
        vw__replay_follow_length(&work, vw__replay_card_without_end(), &followed_length, NULL),
        VW_OK);
    assert_int_equal(followed_length, 2);
}

/* ---- the smallest card ----------------------------------------------------------------------- */

static uint64_t smallest_card(const char *conf)
{
    vw__replay_work work = work_on_hand();
    vw__replay_smallest smallest;
    assert_int_equal(
        vw__replay_smallest_card(&work, vw__policy_torch_setting(conf), NULL, &smallest), VW_OK);
    assert_true(smallest.first_bytes <= smallest.bytes);
    return smallest.bytes;
}

/* Live memory in pieces that do not fit each other, so that the answer is not obvious. */
static void churn(uint32_t random)
{
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
    churn(12345);
    for (size_t i = 0; i < 3; i++) {
        uint64_t bytes = smallest_card(confs[i]);
        assert_int_equal(bytes % (2 * MIB), 0);
        assert_true(bytes >= hand.script.peak_live_bytes);
        assert_true(bytes <= run_on(vw__replay_card_without_end(), confs[i]).peak_reserved_bytes);
        assert_true(run_on(vw__replay_card_of(bytes), confs[i]).is_complete);
        assert_false(run_on(vw__replay_card_of(bytes - 2 * MIB), confs[i]).is_complete);
    }
}

static void the_smallest_card_is_found_for_engine_vramwise_too(void **state)
{
    (void)state;
    hand_begin(&hand);
    churn(12345);
    vw__replay_work work = work_on_hand();
    for (size_t i = 0; i < 3; i++) {
        vw_replay_result result = {.policy = "vramwise"};
        vw__replay_smallest smallest;
        assert_int_equal(vw__replay_smallest_card(&work, engines[i], NULL, &smallest), VW_OK);
        uint64_t bytes = smallest.bytes;
        assert_int_equal(
            vw__replay_run(&work, engines[i], vw__replay_card_of(bytes), true, NULL, &result),
            VW_OK);
        assert_true(result.is_complete);
        assert_int_equal(vw__replay_run(&work, engines[i], vw__replay_card_of(bytes - 2 * MIB),
                                        true, NULL, &result),
                         VW_OK);
        assert_false(result.is_complete);
    }
}

/* Some program among a few has a card that is enough while a larger one is not. */
static void from_the_smallest_card_on_larger_ones_are_enough_too(void **state)
{
    (void)state;
    unsigned found = 0;
    for (uint32_t seed = 1; seed <= 24; seed++) {
        hand_begin(&hand);
        churn(seed * 7919);
        vw__replay_work work = work_on_hand();
        vw__replay_smallest smallest;
        assert_int_equal(
            vw__replay_smallest_card(&work, vw__policy_torch_setting(""), NULL, &smallest), VW_OK);
        assert_true(run_on(vw__replay_card_of(smallest.first_bytes), "").is_complete);
        for (uint64_t step = 0; step <= 16; step++)
            assert_true(
                run_on(vw__replay_card_of(smallest.bytes + step * 2 * MIB), "").is_complete);
        if (smallest.first_bytes == smallest.bytes)
            continue;
        found++;
        assert_true(smallest.first_bytes < smallest.bytes);
        assert_false(run_on(vw__replay_card_of(smallest.bytes - 2 * MIB), "").is_complete);
    }
    assert_true(found != 0);
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
    assert_int_equal(smallest_card(""), VW_UNKNOWN);
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
        cmocka_unit_test(a_replay_that_takes_too_long_is_given_up),
        cmocka_unit_test(late_frees_count_as_live_until_they_complete),
        cmocka_unit_test(empty_cache_is_called_before_the_operations_named),
        cmocka_unit_test(a_limit_of_the_process_lets_garbage_be_collected),
        cmocka_unit_test(a_limit_is_held_to_the_byte),
        cmocka_unit_test(a_recording_that_claims_the_impossible_is_refused),
        cmocka_unit_test(a_request_that_failed_may_have_been_of_any_size),
        cmocka_unit_test(a_setting_that_cannot_be_used_is_named),
        cmocka_unit_test(a_run_that_is_stopped_says_so),
        cmocka_unit_test(driver_time_counts_as_settled_after_a_quarter_of_the_events),
        cmocka_unit_test(a_run_that_ends_early_has_settled_up_to_there_or_never),
        cmocka_unit_test(settled_driver_time_has_the_calls_of_empty_cache_that_were_put_in),
        cmocka_unit_test(every_mode_of_engine_vramwise_is_run),
        cmocka_unit_test(engine_vramwise_does_not_follow_the_recording),
        cmocka_unit_test(how_far_a_recording_is_followed_is_asked_with_its_calls_of_empty_cache),
        cmocka_unit_test(the_smallest_card_completes_and_2_mib_less_do_not),
        cmocka_unit_test(the_smallest_card_is_found_for_engine_vramwise_too),
        cmocka_unit_test(from_the_smallest_card_on_larger_ones_are_enough_too),
        cmocka_unit_test(the_smallest_card_may_be_the_peak_of_live_bytes),
        cmocka_unit_test(the_smallest_card_serves_what_failed_in_the_recording_too),
        cmocka_unit_test(late_frees_can_make_the_smallest_card_less_than_the_peak_of_live_bytes),
        cmocka_unit_test(nothing_needs_a_card_of_2_mib),
        cmocka_unit_test(no_card_is_the_smallest_for_what_none_can_serve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
