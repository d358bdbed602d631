/* test_replay_recordings.c - vw_recording_replay(): which runs are made of a recording, on which
 * card, with which addresses, and what is said about them. */
#include "analysis/replay.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/comma_locale.h"
#include "support/hand_made_recording.h"
#include "support/host_memory_sweep.h"
#include "support/progress_log.h"

#define MIB (UINT64_C(1) << 20)
#define EXPANDABLE "expandable_segments:True"

static const uint64_t base = UINT64_C(0x7f0000000000);

/* A program that fills 60 MiB in two segments, frees and fills again. */
static void record_small_program(hand_made_recording *recording)
{
    record_new(recording, base, 40 * MIB, 40 * MIB);
    record_new(recording, base + 64 * MIB, 20 * MIB, 20 * MIB);
    record_free(recording, base, 40 * MIB);
    record_event(recording, VW_ACTION_ALLOC, base, 30 * MIB);
    record_free(recording, base, 30 * MIB);
    record_free(recording, base + 64 * MIB, 20 * MIB);
}

static vw_replay_options plain_options(void)
{
    return (vw_replay_options){.struct_size = sizeof(vw_replay_options),
                               .torch_version = "2.11",
                               .device = VW_BUSIEST_DEVICE};
}

static bool has_note(const vw_replay_report *report, const char *part)
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
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    record_conf(&recording, "garbage_collection_threshold:0.8");
    assert_int_equal(vw_recording_replay(record_end(&recording), &options, &report), VW_OK);
    assert_int_equal(report->result_count, 4);
    assert_string_equal(report->results[0].policy, "recorded");
    assert_string_equal(report->results[0].conf, "garbage_collection_threshold:0.8");
    assert_string_equal(report->results[1].policy, "native");
    assert_string_equal(report->results[2].policy, "expandable");
    assert_string_equal(report->results[3].policy, "vramwise");
    assert_string_equal(report->results[3].conf, "");
    assert_int_equal(report->event_count, 11);
    assert_int_equal(report->peak_live_bytes, 60 * MIB);
    assert_int_equal(report->recorded_oom_event, VW_UNKNOWN);
    assert_int_equal(report->results[1].peak_reserved_bytes, 60 * MIB);
    vw_replay_report_free(report);
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
        vw_replay_report *report = NULL;
        vw_replay_options options = plain_options();
        record_begin(&recording);
        record_small_program(&recording);
        record_conf(&recording, confs[i]);
        assert_int_equal(vw_recording_replay(record_end(&recording), &options, &report), VW_OK);
        assert_int_equal(report->result_count, 3);
        assert_string_equal(report->results[0].policy, "recorded");
        assert_string_equal(report->results[1].policy, others[i]);
        assert_string_equal(report->results[2].policy, "vramwise");
        vw_replay_report_free(report);
        record_dispose(&recording);
    }
}

static void unknown_settings_are_taken_for_the_defaults_and_said_to_be(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    assert_int_equal(vw_recording_replay(record_end(&recording), &options, &report), VW_OK);
    assert_string_equal(report->results[0].conf, "");
    assert_true(has_note(report, "does not tell its settings"));
    vw_replay_report_free(report);
    record_dispose(&recording);
}

static void values_without_a_string_are_made_into_one(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    vw__model_settings *settings = vw__model_builder_settings(recording.builder);
    settings->is_known = true;
    settings->is_expandable = true;
    settings->max_split_size = (int64_t)(128 * MIB);
    settings->garbage_collection_threshold = 0.75;
    assert_int_equal(vw_recording_replay(record_end(&recording), &options, &report), VW_OK);
    assert_string_equal(
        report->results[0].conf,
        "expandable_segments:True,max_split_size_mb:128,garbage_collection_threshold:0.75");
    vw_replay_report_free(report);
    record_dispose(&recording);
}

static void an_option_string_is_made_with_points_in_every_locale(void **state)
{
    comma_locale_enter();
    values_without_a_string_are_made_into_one(state);
    comma_locale_leave();
}

static void recorded_settings_of_another_version_are_left_out_and_said_to_be(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    static const vw_replay_run recorded = {.policy = "recorded"};
    record_begin(&recording);
    record_small_program(&recording);
    record_conf(&recording, "expandable_segments:True");
    const vw_recording *opened = record_end(&recording);
    options.torch_version = "2.0";
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_OK);
    assert_int_equal(report->result_count, 2);
    assert_string_equal(report->results[0].policy, "native");
    assert_string_equal(report->results[1].policy, "vramwise"); /* whatever the version */
    assert_true(has_note(report, "cannot be used with PyTorch 2.0"));
    assert_true(has_note(report, "PyTorch 2.0 has no expandable segments"));
    vw_replay_report_free(report);
    options.runs = &recorded;
    options.run_count = 1;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_ERR_BAD_SETTING);
    record_dispose(&recording);
}

static void policies_that_are_not_there_are_refused_with_those_that_are(void **state)
{
    (void)state;
    static const char *const names[] = {"torch", "vramwise:loose", "", "Native"};
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    const vw_recording *opened = record_end(&recording);
    options.run_count = 1;
    for (size_t i = 0; i < 4; i++) {
        const vw_replay_run run = {.policy = names[i]};
        options.runs = &run;
        assert_int_equal(vw_recording_replay(opened, &options, &report), VW_ERR_INVALID_ARGUMENT);
        assert_non_null(strstr(vw_last_error(), "native, expandable, recorded, vramwise, "
                                                "vramwise:rescue, vramwise:tight, or conf"));
    }
    const vw_replay_run without_conf = {.policy = "conf"};
    options.runs = &without_conf;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_ERR_INVALID_ARGUMENT);
    options.run_count = 0;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_ERR_INVALID_ARGUMENT);
    assert_null(report);
    record_dispose(&recording);
}

static void engines_of_our_own_are_policies_without_an_option_string(void **state)
{
    (void)state;
    static const vw_replay_run runs[] = {{.policy = "vramwise:tight"},
                                         {.policy = "vramwise"},
                                         {.policy = "vramwise:rescue", .conf = "not looked at"}};
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    options.runs = runs;
    options.run_count = 3;
    options.find_smallest_card = true;
    assert_int_equal(vw_recording_replay(record_end(&recording), &options, &report), VW_OK);
    for (size_t i = 0; i < 3; i++) {
        const vw_replay_result *result = &report->results[i];
        assert_string_equal(result->policy, runs[i].policy);
        assert_string_equal(result->conf, "");
        assert_true(result->is_complete);
        assert_int_equal(result->smallest_card_bytes, 60 * MIB);
        assert_int_equal(result->settled_duration_ns, 8000000); /* events 2 to 10, 1 ms apart */
    }
    vw_replay_report_free(report);
    record_dispose(&recording);
}

static void recorded_is_the_engine_that_made_the_recording(void **state)
{
    static const struct {
        const char *engine, *policies[4];
        size_t count;
    } cases[] = {
        {"vramwise", {"vramwise", "native", "expandable"}, 3},
        {"torch", {"recorded", "expandable", "vramwise"}, 3},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hand_made_recording recording;
        vw_replay_report *all = NULL, *asked = NULL;
        const vw_replay_run recorded = {.policy = "recorded"}, vramwise = {.policy = "vramwise"};
        const vw_replay_run both[] = {recorded, vramwise};
        vw_replay_options options = plain_options();
        record_begin(&recording);
        record_small_program(&recording);
        record_conf(&recording, "");
        record_engine(&recording, cases[i].engine);
        assert_int_equal(vw_recording_replay(record_end(&recording), &options, &all), VW_OK);
        assert_int_equal(all->result_count, cases[i].count);
        for (size_t k = 0; k < cases[i].count; k++)
            assert_string_equal(all->results[k].policy, cases[i].policies[k]);
        options.runs = both;
        options.run_count = 2;
        assert_int_equal(vw_recording_replay(&recording.recording, &options, &asked), VW_OK);
        const vw_replay_result *own = &asked->results[0], *paged = &asked->results[1];
        bool is_ours = strcmp(cases[i].engine, "vramwise") == 0;
        assert_string_equal(own->policy, cases[i].policies[0]);
        assert_int_equal(own->calls.create == paged->calls.create, is_ours);
        assert_int_equal(has_note(asked, "made with engine vramwise"), is_ours);
        vw_replay_report_free(asked);
        vw_replay_report_free(all);
        record_dispose(&recording);
    }
}

static void the_card_of_a_recording_that_filled_its_device_is_what_it_had_there(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_new(&recording, base, 40 * MIB, 40 * MIB);
    record_event(&recording, VW_ACTION_OOM, 12 * MIB, 16 * MIB);
    assert_int_equal(vw_recording_replay(record_end(&recording), &options, &report), VW_OK);
    assert_int_equal(report->results[0].card_bytes, 52 * MIB);
    assert_int_equal(report->recorded_oom_event, 2);
    assert_true(report->results[0].has_oom);
    assert_int_equal(report->results[0].oom_event, 2);
    assert_int_equal(report->results[0].events_done, 3);
    assert_true(has_note(report, "No card was named"));
    vw_replay_report_free(report);
    options.card_bytes = 56 * MIB;
    assert_int_equal(vw_recording_replay(&recording.recording, &options, &report), VW_OK);
    assert_true(report->results[0].is_complete);
    assert_true(report->results[0].is_past_recorded_oom);
    assert_false(has_note(report, "No card was named"));
    vw_replay_report_free(report);
    record_dispose(&recording);
}

static void the_limit_of_a_recording_that_was_refused_early_is_what_was_served(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_new(&recording, base, 40 * MIB, 40 * MIB);
    record_new(&recording, base + 64 * MIB, 20 * MIB, 2 * MIB);
    record_event(&recording, VW_ACTION_OOM, UINT64_C(100) << 30, 30 * MIB);
    assert_int_equal(vw_recording_replay(record_end(&recording), &options, &report), VW_OK);
    assert_int_equal(report->results[0].card_bytes, 60 * MIB);
    assert_true(report->results[0].has_oom);
    assert_int_equal(report->results[0].oom_event, 4);
    assert_true(has_note(report, "set_per_process_memory_fraction"));
    vw_replay_report_free(report);
    record_dispose(&recording);
}

/* PyTorch holds the whole request against its limit, though the segment grows by less. */
static void an_expandable_request_proves_more_than_it_grew_by(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_event(&recording, VW_ACTION_SEGMENT_MAP, base, 40 * MIB);
    record_event(&recording, VW_ACTION_ALLOC, base, 22 * MIB);
    record_event(&recording, VW_ACTION_SEGMENT_MAP, base + 40 * MIB, 20 * MIB);
    record_event(&recording, VW_ACTION_ALLOC, base + 22 * MIB, 30 * MIB);
    record_event(&recording, VW_ACTION_OOM, UINT64_C(100) << 30, 30 * MIB);
    record_conf(&recording, EXPANDABLE);
    assert_int_equal(vw_recording_replay(record_end(&recording), &options, &report), VW_OK);
    assert_int_equal(report->results[0].card_bytes, 70 * MIB);
    assert_int_equal(report->results[0].oom_event, 4);
    assert_int_equal(report->results[0].peak_reserved_bytes, 60 * MIB);
    vw_replay_report_free(report);
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
    record_event(recording, VW_ACTION_ALLOC, second_address, 20 * MIB);
    record_free(recording, base, 40 * MIB);
    record_event(recording, VW_ACTION_ALLOC, base, 20 * MIB);
    record_free(recording, second_address, 20 * MIB);
    record_event(recording, VW_ACTION_ALLOC, second_address, 60 * MIB);
}

static uint64_t peak_of(const vw_recording *recording, const vw_replay_run *run)
{
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    options.runs = run;
    options.run_count = 1;
    if (vw_recording_replay(recording, &options, &report) != VW_OK)
        fail_msg("%s", vw_last_error());
    assert_true(report->results[0].is_complete);
    uint64_t peak_bytes = report->results[0].peak_reserved_bytes;
    vw_replay_report_free(report);
    return peak_bytes;
}

static const vw_replay_run recorded_run = {.policy = "recorded"};
static const vw_replay_run other_run = {.policy = "conf", .conf = "expandable_segments:False"};

static void recorded_settings_get_the_recorded_addresses(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_address_game(&recording, base + 128 * MIB, 40 * MIB);
    const vw_recording *opened = record_end(&recording);
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
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_new(&recording, base, 40 * MIB, 40 * MIB);
    record_free(&recording, base, 40 * MIB);
    for (size_t step = 0; step < 4; step++) {
        record_step_end(&recording);
        record_event(&recording, VW_ACTION_ALLOC, base, 40 * MIB);
        record_free(&recording, base, 40 * MIB);
    }
    const vw_recording *opened = record_end(&recording);
    options.empty_cache = VW_EMPTY_CACHE_STEPS;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_OK);
    assert_int_equal(report->step_count, 4);
    assert_int_equal(report->results[0].trims, 4);
    assert_int_equal(report->results[0].calls.alloc, 5);
    assert_true(has_note(report, "4 calls of empty_cache()"));
    vw_replay_report_free(report);
    options.empty_cache_every = 3;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_OK);
    assert_int_equal(report->results[0].trims, 1);
    vw_replay_report_free(report);
    options.empty_cache_every = UINT64_MAX;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_OK);
    assert_int_equal(report->results[0].trims, 0);
    vw_replay_report_free(report);
    record_dispose(&recording);
}

/* The engine is the one in people's jobs: the first recorded call gives everything back, the others
 * nothing, since the program takes it again; on a card that is nearly full, all do. */
static void calls_in_a_loop_cost_engine_vramwise_one(void **state)
{
    enum { CALLS = 6, BLOCKS = 8 };
    static const vw_replay_run runs[] = {{.policy = "vramwise"}};
    (void)state;
    hand_made_recording recording;
    uint64_t releases[2];
    record_begin(&recording);
    record_new(&recording, base, 512 * MIB, 512 * MIB);
    for (size_t call = 0; call < CALLS; call++) {
        for (size_t i = 1; i <= BLOCKS; i++)
            record_new(&recording, base + i * 1024 * MIB, 400 * MIB, 400 * MIB);
        for (size_t i = 1; i <= BLOCKS; i++)
            record_free(&recording, base + i * 1024 * MIB, 400 * MIB);
        for (size_t i = 1; i <= BLOCKS; i++)
            record_event(&recording, VW_ACTION_SEGMENT_FREE, base + i * 1024 * MIB, 400 * MIB);
        record_event(&recording, VW_ACTION_SNAPSHOT, 0, 0); /* no request gave it back */
    }
    const vw_recording *opened = record_end(&recording);
    for (int is_full = 0; is_full < 2; is_full++) {
        vw_replay_report *report = NULL;
        vw_replay_options options = plain_options();
        options.runs = runs;
        options.run_count = 1;
        options.card_bytes = is_full ? 3800 * MIB : UINT64_C(80) << 30;
        assert_int_equal(vw_recording_replay(opened, &options, &report), VW_OK);
        assert_true(report->results[0].is_complete);
        releases[is_full] = report->results[0].calls.release;
        assert_true(report->results[0].calls.create >= releases[is_full]);
        vw_replay_report_free(report);
    }
    assert_true(releases[0] > 8);
    print_message("%llu and %llu handles given back\n", (unsigned long long)releases[0],
                  (unsigned long long)releases[1]);
    assert_true(releases[1] >= (CALLS - 1) * releases[0]);
    record_dispose(&recording);
}

static void empty_cache_behind_steps_that_are_not_there_is_refused(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_small_program(&recording);
    const vw_recording *opened = record_end(&recording);
    options.empty_cache = VW_EMPTY_CACHE_STEPS;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_ERR_UNSUPPORTED);
    options.empty_cache = VW_EMPTY_CACHE_PHASES;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_ERR_UNSUPPORTED);
    record_dispose(&recording);
}

/* 40 MiB are freed, and given back by an empty_cache() if the program makes one; then 50 MiB more
 * are needed. */
static const vw_recording *record_program(hand_made_recording *recording, bool has_call)
{
    record_begin(recording);
    record_new(recording, base, 40 * MIB, 40 * MIB);
    record_new(recording, base + 64 * MIB, 20 * MIB, 20 * MIB);
    record_free(recording, base, 40 * MIB);
    if (has_call)
        record_event(recording, VW_ACTION_SEGMENT_FREE, base, 40 * MIB);
    record_free(recording, base + 64 * MIB, 20 * MIB);
    record_event(recording, VW_ACTION_ALLOC, base + 64 * MIB, 20 * MIB);
    record_new(recording, base + 128 * MIB, 50 * MIB, 50 * MIB);
    return record_end(recording);
}

static void assert_same_memory(const vw_replay_report *a, const vw_replay_report *b)
{
    assert_int_equal(a->result_count, b->result_count);
    for (size_t i = 0; i < a->result_count; i++) {
        const vw_replay_result *one = &a->results[i], *other = &b->results[i];
        assert_string_equal(one->policy, other->policy);
        assert_int_equal(one->peak_reserved_bytes, other->peak_reserved_bytes);
        assert_int_equal(one->peak_live_bytes, other->peak_live_bytes);
        assert_int_equal(one->smallest_card_bytes, other->smallest_card_bytes);
        assert_int_equal(one->device_ns, other->device_ns);
        assert_memory_equal(&one->calls, &other->calls, sizeof one->calls);
    }
}

static void recorded_calls_of_empty_cache_can_be_left_out(void **state)
{
    (void)state;
    hand_made_recording with_call, without_call;
    vw_replay_report *never = NULL, *free_of_calls = NULL, *as_recorded = NULL;
    vw_replay_options options = plain_options();
    const vw_recording *opened = record_program(&with_call, true);
    options.find_smallest_card = true;
    assert_int_equal(vw_recording_replay(opened, &options, &as_recorded), VW_OK);
    assert_int_equal(
        vw_recording_replay(record_program(&without_call, false), &options, &free_of_calls), VW_OK);
    options.empty_cache = VW_EMPTY_CACHE_NEVER;
    assert_int_equal(vw_recording_replay(opened, &options, &never), VW_OK);
    assert_int_equal(as_recorded->results[0].peak_reserved_bytes, 70 * MIB);
    assert_int_equal(as_recorded->results[0].calls.free, 1);
    assert_int_equal(never->results[0].peak_reserved_bytes, 110 * MIB);
    assert_int_equal(never->results[0].calls.free, 0);
    assert_same_memory(never, free_of_calls);
    for (size_t i = 0; i < never->result_count; i++)
        assert_int_equal(never->results[i].trims, 0); /* none was put in */
    assert_int_equal(never->event_count, as_recorded->event_count);
    assert_int_equal(never->results[0].events_done, as_recorded->results[0].events_done);
    assert_true(has_note(never, "1 call of empty_cache() that gave memory back was left out"));
    assert_false(has_note(as_recorded, "left out"));
    vw_replay_report_free(never);
    vw_replay_report_free(free_of_calls);
    vw_replay_report_free(as_recorded);
    record_dispose(&with_call);
    record_dispose(&without_call);
}

/* From its beginning, like one with calls added. */
static void a_run_that_leaves_calls_out_gets_made_up_addresses(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *never = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_address_game(&recording, base + 128 * MIB, 40 * MIB);
    record_free(&recording, base + 128 * MIB, 60 * MIB);
    record_event(&recording, VW_ACTION_SEGMENT_FREE, base + 128 * MIB, 60 * MIB);
    const vw_recording *opened = record_end(&recording);
    assert_int_equal(peak_of(opened, &recorded_run), 100 * MIB);
    options.runs = &recorded_run;
    options.run_count = 1;
    options.empty_cache = VW_EMPTY_CACHE_NEVER;
    assert_int_equal(vw_recording_replay(opened, &options, &never), VW_OK);
    assert_int_equal(never->results[0].peak_reserved_bytes, 160 * MIB);
    vw_replay_report_free(never);
    record_dispose(&recording);
}

/* The recorded addresses too: 160 MiB are reserved with others. */
static void without_calls_of_empty_cache_leaving_them_out_changes_nothing(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *never = NULL, *as_recorded = NULL;
    vw_replay_options options = plain_options();
    record_begin(&recording);
    record_address_game(&recording, base + 128 * MIB, 40 * MIB);
    const vw_recording *opened = record_end(&recording);
    assert_int_equal(vw_recording_replay(opened, &options, &as_recorded), VW_OK);
    options.empty_cache = VW_EMPTY_CACHE_NEVER;
    assert_int_equal(vw_recording_replay(opened, &options, &never), VW_OK);
    assert_int_equal(never->results[0].peak_reserved_bytes, 100 * MIB);
    assert_same_memory(never, as_recorded);
    assert_true(has_note(never, "0 calls of empty_cache()"));
    vw_replay_report_free(never);
    vw_replay_report_free(as_recorded);
    record_dispose(&recording);
}

static void progress_rises_to_one_over_all_runs(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    progress_log log = {.stop_at = 0};
    record_begin(&recording);
    record_small_program(&recording);
    const vw_recording *opened = record_end(&recording);
    options.progress = log_progress;
    options.progress_context = &log;
    options.find_smallest_card = true;
    assert_int_equal(vw_recording_replay(opened, &options, &report), VW_OK);
    assert_true(log.last == 1.0);
    assert_int_equal(report->results[0].smallest_card_bytes, 60 * MIB);
    assert_int_equal(report->results[1].smallest_card_bytes, 60 * MIB);
    vw_replay_report_free(report);
    for (size_t stop_at = 1; stop_at <= log.calls; stop_at++) {
        progress_log stopped = {.stop_at = stop_at};
        options.progress_context = &stopped;
        assert_int_equal(vw_recording_replay(opened, &options, &report), VW_ERR_WRONG_STATE);
    }
    record_dispose(&recording);
}

static bool replay_everything(void *context)
{
    vw_replay_options options = plain_options();
    vw_replay_report *report = NULL;
    options.find_smallest_card = true;
    options.empty_cache = VW_EMPTY_CACHE_STEPS;
    if (vw_recording_replay(context, &options, &report) != VW_OK)
        return false;
    vw_replay_report_free(report);
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
    record_event(&recording, VW_ACTION_OOM, 2 * MIB, 6 * MIB);
    record_conf(&recording, "expandable_segments:True");
    vw_test_sweep_host_memory(replay_everything, (void *)(uintptr_t)record_end(&recording));
    record_dispose(&recording);
}

/* A recording of a program that allocates at random. */
static void a_smaller_card_that_does_while_a_larger_does_not_is_noted(void **state)
{
    (void)state;
    const vw_replay_run run = {.policy = "native"};
    vw_recording *recording = NULL;
    vw_replay_report *report = NULL;
    vw_replay_options options = plain_options();
    options.runs = &run;
    options.run_count = 1;
    options.find_smallest_card = true;
    assert_int_equal(vw_recording_open(VW_TEST_DATA "/recordings/large_segment.rules.pickle.xz",
                                       NULL, &recording),
                     VW_OK);
    assert_int_equal(vw_recording_replay(recording, &options, &report), VW_OK);
    assert_true(report->results[0].first_card_bytes < report->results[0].smallest_card_bytes);
    assert_true(has_note(report, "not on every one between"));
    vw_replay_report_free(report);
    vw_recording_close(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_smaller_card_that_does_while_a_larger_does_not_is_noted),
        cmocka_unit_test(each_setting_is_replayed_once_by_default),
        cmocka_unit_test(settings_that_come_to_the_same_are_one),
        cmocka_unit_test(unknown_settings_are_taken_for_the_defaults_and_said_to_be),
        cmocka_unit_test(values_without_a_string_are_made_into_one),
        cmocka_unit_test(an_option_string_is_made_with_points_in_every_locale),
        cmocka_unit_test(recorded_settings_of_another_version_are_left_out_and_said_to_be),
        cmocka_unit_test(policies_that_are_not_there_are_refused_with_those_that_are),
        cmocka_unit_test(engines_of_our_own_are_policies_without_an_option_string),
        cmocka_unit_test(recorded_is_the_engine_that_made_the_recording),
        cmocka_unit_test(the_card_of_a_recording_that_filled_its_device_is_what_it_had_there),
        cmocka_unit_test(the_limit_of_a_recording_that_was_refused_early_is_what_was_served),
        cmocka_unit_test(an_expandable_request_proves_more_than_it_grew_by),
        cmocka_unit_test(recorded_settings_get_the_recorded_addresses),
        cmocka_unit_test(addresses_are_made_up_from_where_the_recording_is_left),
        cmocka_unit_test(empty_cache_goes_behind_the_steps_that_were_found),
        cmocka_unit_test(calls_in_a_loop_cost_engine_vramwise_one),
        cmocka_unit_test(empty_cache_behind_steps_that_are_not_there_is_refused),
        cmocka_unit_test(recorded_calls_of_empty_cache_can_be_left_out),
        cmocka_unit_test(a_run_that_leaves_calls_out_gets_made_up_addresses),
        cmocka_unit_test(without_calls_of_empty_cache_leaving_them_out_changes_nothing),
        cmocka_unit_test(progress_rises_to_one_over_all_runs),
        cmocka_unit_test(running_out_of_host_memory_anywhere_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
