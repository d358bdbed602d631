/* test_tune.c - which setting is found for which card. */
#include "settings/tune.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/hand_made_recording.h"
#include "support/host_memory_sweep.h"
#include "support/progress_log.h"

#define MIB (UINT64_C(1) << 20)

static const uint64_t base = UINT64_C(0x7e0000000000);

/* Sizes that grow by 2 MiB each round: every free block is a little too small for what comes next,
 * while the last one is still live. Plain segments pile up; expandable ones grow. */
static void record_growing_program(hand_made_recording *recording)
{
    enum { ROUNDS = 12 };
    uint64_t address = base, last_address = 0, last_bytes = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t size_bytes = (40 + 2 * i) * MIB;
        record_new(recording, address, size_bytes, size_bytes);
        if (last_bytes != 0)
            record_free(recording, last_address, last_bytes);
        last_address = address;
        last_bytes = size_bytes;
        address -= 128 * MIB;
    }
    record_free(recording, last_address, last_bytes);
}

static vw_tune_options on_card(uint64_t card_bytes)
{
    return (vw_tune_options){
        .struct_size = sizeof(vw_tune_options),
        .card_bytes = card_bytes,
        .torch_version = "2.11",
        .device = VW_BUSIEST_DEVICE,
    };
}

static const vw_replay_result *find(const vw_tune_report *report, const char *conf)
{
    for (size_t i = 0; i < report->tried_count; i++)
        if (strcmp(report->tried[i].conf, conf) == 0)
            return &report->tried[i];
    return NULL;
}

static const vw_replay_result *find_policy(const vw_tune_report *report, const char *policy)
{
    for (size_t i = 0; i < report->tried_count; i++)
        if (strcmp(report->tried[i].policy, policy) == 0)
            return &report->tried[i];
    return NULL;
}

static bool says(const char *const *texts, size_t count, const char *part)
{
    for (size_t i = 0; i < count; i++)
        if (strstr(texts[i], part) != NULL)
            return true;
    return false;
}

static vw_tune_report *tune(const vw_recording *recording, vw_tune_options options)
{
    vw_tune_report *report = NULL;
    if (vw_recording_tune(recording, &options, &report) != VW_OK)
        fail_msg("%s", vw_last_error());
    return report;
}

/* Each is better than the next. */
static void settings_are_put_in_the_order_that_the_top_of_the_source_states(void **state)
{
    (void)state;
    static const vw__tune_work tuning = {.card_bytes = 3200 * MIB, .slow_ns = 1000};
    static const vw_replay_result in_order[] = {
        {.policy = "conf", .conf = "a:1", .is_complete = true, .peak_reserved_bytes = 2000 * MIB},
        {.policy = "conf", .conf = "", .is_complete = true, .peak_reserved_bytes = 2101 * MIB},
        {.policy = "conf",
         .conf = "a:1,b:2",
         .is_complete = true,
         .peak_reserved_bytes = 1999 * MIB + MIB * 3},
        {.policy = "conf",
         .conf = "",
         .is_complete = true,
         .peak_reserved_bytes = 1000 * MIB,
         .device_ns = 1001},
        {.policy = "conf",
         .conf = "",
         .is_complete = true,
         .peak_reserved_bytes = 900 * MIB,
         .retries = 1},
        {.policy = "conf",
         .conf = "c:3",
         .is_complete = true,
         .peak_reserved_bytes = 900 * MIB,
         .retries = 1},
        {.policy = "conf",
         .conf = "",
         .is_complete = true,
         .peak_reserved_bytes = 900 * MIB,
         .retries = 2},
        {.policy = "conf", .conf = "d:4", .events_done = 100, .peak_reserved_bytes = 800 * MIB},
        {.policy = "conf", .conf = "", .events_done = 99, .peak_reserved_bytes = 700 * MIB},
        {.policy = "conf", .conf = "", .events_done = 99, .peak_reserved_bytes = 701 * MIB},
    };
    enum { COUNT = sizeof in_order / sizeof in_order[0] };
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < COUNT; j++) {
            const vw__tune_candidate first = {.result = in_order[i]},
                                     second = {.result = in_order[j]};
            assert_int_equal(vw__tune_is_better(&tuning, &first, &second), i < j);
        }
    }
}

static void expandable_segments_are_found_where_they_alone_fit_without_retries(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_growing_program(&recording);
    record_conf(&recording, "");
    vw_tune_report *report = tune(record_end(&recording), on_card(260 * MIB));
    assert_true(report->is_possible);
    assert_true(report->fits);
    assert_int_equal(report->peak_live_bytes, 122 * MIB);
    assert_string_equal(report->best->policy, "expandable");
    assert_string_equal(report->best->conf, "expandable_segments:True");
    assert_ptr_equal(report->best, &report->tried[0]);
    assert_int_equal(report->best->retries, 0);
    assert_string_equal(report->recorded->policy, "recorded");
    assert_true(report->recorded->is_complete);
    assert_int_not_equal(report->recorded->retries, 0);
    assert_int_equal(report->card_bytes, 260 * MIB);
    vw_tune_report_free(report);
    record_dispose(&recording);
}

static void the_variable_is_the_one_that_the_version_reads(void **state)
{
    static const struct {
        const char *conf, *version, *variable;
    } rows[] = {
        {"", NULL, "PYTORCH_CUDA_ALLOC_CONF"}, /* no recording says which version it is */
        {"", "2.9", "PYTORCH_CUDA_ALLOC_CONF"},
        {"", "2.12", "PYTORCH_ALLOC_CONF"},
        {"max_split_size_mb:128", "2.12", "PYTORCH_CUDA_ALLOC_CONF"}, /* it may be the one set */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hand_made_recording recording;
        record_begin(&recording);
        record_growing_program(&recording);
        record_conf(&recording, rows[i].conf);
        vw_tune_options options = on_card(260 * MIB);
        options.torch_version = rows[i].version;
        vw_tune_report *report = tune(record_end(&recording), options);
        assert_string_equal(report->variable, rows[i].variable);
        vw_tune_report_free(report);
        record_dispose(&recording);
    }
}

static void settings_that_complete_come_before_those_that_do_not(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_growing_program(&recording);
    vw_tune_report *report = tune(record_end(&recording), on_card(140 * MIB));
    bool has_ended = false, has_failure = false;
    for (size_t i = 0; i < report->tried_count; i++) {
        has_ended |= !report->tried[i].is_complete;
        has_failure |= !report->tried[i].is_complete;
        assert_true(report->tried[i].is_complete != has_ended);
    }
    assert_true(has_failure); /* else nothing was put in order */
    vw_tune_report_free(report);
    record_dispose(&recording);
}

static void every_setting_is_tried_once(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_growing_program(&recording);
    record_conf(&recording, "roundup_power2_divisions:8");
    vw_tune_report *report = tune(record_end(&recording), on_card(1024 * MIB));
    for (size_t i = 0; i < report->tried_count; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(strcmp(report->tried[i].conf, report->tried[j].conf) != 0 ||
                        strcmp(report->tried[i].policy, report->tried[j].policy) != 0);
    assert_string_equal(find(report, "roundup_power2_divisions:8")->policy, "recorded");
    assert_string_equal(find(report, "")->policy, "native");
    assert_non_null(find(report, "max_split_size_mb:32"));
    assert_null(find(report, "max_split_size_mb:64")); /* no request is as large */
    assert_non_null(find(report, "expandable_segments:True,roundup_power2_divisions:16"));
    assert_true(says(report->notes, report->note_count, "complete on this card already"));
    vw_tune_report_free(report);
    record_dispose(&recording);
}

static void more_live_than_the_card_has_is_said_at_once(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_growing_program(&recording);
    vw_tune_report *report = tune(record_end(&recording), on_card(100 * MIB));
    assert_false(report->is_possible);
    assert_false(report->fits);
    assert_int_equal(report->tried_count, 3); /* recorded (the defaults), expandable, vramwise */
    assert_true(says(report->notes, report->note_count, "No setting can help"));
    assert_true(says(report->notes, report->note_count, "(vramwise replay --spill)"));
    assert_true(says(report->notes, report->note_count, "122 MiB are live"));
    assert_true(report->best->events_done >= report->tried[1].events_done);
    vw_tune_report_free(report);
    record_dispose(&recording);
}

/* Two blocks that wait for a stream and a third: live by the count, but not needed at once. */
static void what_only_waits_for_other_streams_does_not_make_it_impossible(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_new(&recording, base, 40 * MIB, 40 * MIB);
    record_event(&recording, VW_ACTION_FREE_REQUESTED, base, 40 * MIB);
    record_new(&recording, base - 64 * MIB, 40 * MIB, 40 * MIB);
    record_event(&recording, VW_ACTION_FREE_REQUESTED, base - 64 * MIB, 40 * MIB);
    record_event(&recording, VW_ACTION_FREE_COMPLETED, base, 40 * MIB);
    record_event(&recording, VW_ACTION_FREE_COMPLETED, base - 64 * MIB, 40 * MIB);
    record_event(&recording, VW_ACTION_ALLOC, base, 40 * MIB);
    vw_tune_report *report = tune(record_end(&recording), on_card(60 * MIB));
    assert_int_equal(report->peak_live_bytes, 80 * MIB);
    assert_true(report->is_possible);
    assert_true(report->fits);
    vw_tune_report_free(report);
    record_dispose(&recording);
}

/* Large blocks that are not split: each round needs a new one. */
static void a_recommended_setting_that_is_worse_is_warned_of(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_new(&recording, base, 400 * MIB, 400 * MIB);
    record_free(&recording, base, 400 * MIB);
    record_event(&recording, VW_ACTION_ALLOC, base, 200 * MIB);
    record_event(&recording, VW_ACTION_ALLOC, base + 200 * MIB, 200 * MIB);
    vw_tune_report *report = tune(record_end(&recording), on_card(4096 * MIB));
    assert_true(says(report->warnings, report->warning_count,
                     "max_split_size_mb:128 would reserve 2.0 times as much"));
    assert_false(says(report->warnings, report->warning_count, "max_split_size_mb:512"));
    vw_tune_report_free(report);
    report = tune(&recording.recording, on_card(410 * MIB));
    assert_true(report->fits);
    vw_tune_report_free(report);
    record_dispose(&recording);
}

static void options_that_a_version_has_not_are_not_tried(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_growing_program(&recording);
    const vw_recording *opened = record_end(&recording);
    vw_tune_options options = on_card(1024 * MIB);
    options.torch_version = "1.9"; /* no option string at all */
    vw_tune_report *report = tune(opened, options);
    assert_int_equal(report->tried_count, 2); /* the defaults, and vramwise, of no version */
    vw_tune_report_free(report);
    options.torch_version = "2.0";
    report = tune(opened, options);
    assert_null(find(report, "expandable_segments:True"));
    assert_non_null(find(report, "max_split_size_mb:32"));
    assert_non_null(find(report, "garbage_collection_threshold:0.8"));
    vw_tune_report_free(report);
    options.torch_version = "2.10";
    report = tune(opened, options);
    assert_non_null(find(report, "expandable_segments:True"));
    assert_null(find(report, "garbage_collection_threshold:0.8"));
    assert_non_null(
        find(report, "garbage_collection_threshold:0.8,per_process_memory_fraction:0.99"));
    vw_tune_report_free(report);
    record_dispose(&recording);
}

/* However little an engine of our own reserves: it completes, or it does not, and then it counts
 * how far it came. */
static void engines_of_our_own_come_behind_what_pytorch_completes_with(void **state)
{
    (void)state;
    static const vw__tune_work tuning = {.card_bytes = 3200 * MIB, .slow_ns = 1000};
    static const vw__tune_candidate in_order[] = {
        {.kind = VW__SETTING_EXPANDABLE,
         .result = {.policy = "expandable",
                    .conf = "a:1",
                    .is_complete = true,
                    .peak_reserved_bytes = 2000 * MIB}},
        {.kind = VW__SETTING_DEFAULTS,
         .result = {.policy = "native",
                    .conf = "",
                    .is_complete = true,
                    .peak_reserved_bytes = 2100 * MIB,
                    .device_ns = 5000,
                    .retries = 3}},
        {.kind = VW__SETTING_VRAMWISE,
         .result = {.policy = "vramwise",
                    .conf = "",
                    .is_complete = true,
                    .peak_reserved_bytes = 1000 * MIB}},
        {.kind = VW__SETTING_VRAMWISE,
         .result = {.policy = "vramwise",
                    .conf = "",
                    .is_complete = true,
                    .peak_reserved_bytes = 1001 * MIB}},
        {.kind = VW__SETTING_VRAMWISE,
         .result = {.policy = "vramwise", .conf = "", .events_done = 100}},
        {.kind = VW__SETTING_DEFAULTS,
         .result = {.policy = "native", .conf = "", .events_done = 99}},
        {.kind = VW__SETTING_VRAMWISE,
         .result = {.policy = "vramwise", .conf = "", .events_done = 99}},
    };
    enum { COUNT = sizeof in_order / sizeof in_order[0] };
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < COUNT; j++)
            assert_int_equal(vw__tune_is_better(&tuning, &in_order[i], &in_order[j]), i < j);
}

static void engine_vramwise_is_tried_always(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_growing_program(&recording);
    vw_tune_report *report = tune(record_end(&recording), on_card(260 * MIB));
    const vw_replay_result *vramwise = find_policy(report, "vramwise");
    assert_non_null(vramwise);
    assert_true(vramwise->is_complete);
    assert_string_equal(vramwise->conf, "");
    assert_string_equal(report->best->policy, "expandable");
    vw_tune_report_free(report);
    report = tune(&recording.recording, on_card(100 * MIB)); /* less than is live */
    assert_non_null(find_policy(report, "vramwise"));
    vw_tune_report_free(report);
    record_dispose(&recording);
}

/* Every other block of 2 MiB goes, and then one is asked for that needs what they left: PyTorch's
 * segments hold a live block each, but pages can be had. */
static void a_recording_of_engine_vramwise_is_tried_with_it_once(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_growing_program(&recording);
    record_engine(&recording, "vramwise");
    vw_tune_report *report = tune(record_end(&recording), on_card(1000 * MIB));
    size_t count = 0;
    for (size_t i = 0; i < report->tried_count; i++)
        count += strcmp(report->tried[i].policy, "vramwise") == 0;
    assert_int_equal(count, 1);
    assert_string_equal(report->recorded->policy, "vramwise");
    assert_non_null(find_policy(report, "native"));
    assert_null(find_policy(report, "recorded"));
    vw_tune_report_free(report);
    record_dispose(&recording);
}

static void where_nothing_of_pytorchs_fits_engine_vramwise_is_best(void **state)
{
    (void)state;
    enum { BLOCKS = 40 };
    hand_made_recording recording;
    record_begin(&recording);
    for (uint64_t i = 0; i < BLOCKS; i++)
        record_event(&recording, VW_ACTION_ALLOC, base + i * 4 * MIB, 4 * MIB);
    for (uint64_t i = 0; i < BLOCKS; i += 2)
        record_free(&recording, base + i * 4 * MIB, 4 * MIB);
    record_event(&recording, VW_ACTION_ALLOC, base + 1024 * MIB, BLOCKS / 2 * 4 * MIB);
    vw_tune_report *report = tune(record_end(&recording), on_card(164 * MIB));
    assert_int_equal(report->peak_live_bytes, 160 * MIB);
    assert_true(report->fits);
    assert_string_equal(report->best->policy, "vramwise");
    assert_false(report->recorded->is_complete);
    assert_true(says(report->notes, report->note_count, "No setting of PyTorch's own completes"));
    assert_true(says(report->notes, report->note_count, "--allocator vramwise "));
    vw_tune_report_free(report);
    record_dispose(&recording);
}

/* Before 2.10 no option sets a fraction, so the program must. Sizes that nothing rounds, and too
 * small for max_split_size_mb: only collecting helps. */
static void garbage_collection_is_tried_with_the_call_it_needs(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_new(&recording, base, 12 * MIB, 12 * MIB);
    record_new(&recording, base - 64 * MIB, 16 * MIB, 16 * MIB);
    record_free(&recording, base, 12 * MIB);
    record_new(&recording, base - 128 * MIB, 24 * MIB, 24 * MIB);
    vw_tune_options options = on_card(42 * MIB);
    options.torch_version = "2.0";
    vw_tune_report *report = tune(record_end(&recording), options);
    assert_string_equal(report->best->conf, "garbage_collection_threshold:0.6");
    assert_int_equal(report->best->retries, 0);
    assert_int_equal(report->recorded->retries, 1);
    assert_true(says(report->notes, report->note_count, "set_per_process_memory_fraction(1.0)"));
    vw_tune_report_free(report);
    options.torch_version = "2.11";
    options.card_bytes = 41 * MIB; /* of which the fraction leaves enough; expandable needs more */
    report = tune(&recording.recording, options);
    assert_string_equal(report->best->conf,
                        "garbage_collection_threshold:0.6,per_process_memory_fraction:0.99");
    assert_true(says(report->notes, report->note_count, "the two options go together"));
    vw_tune_report_free(report);
    record_dispose(&recording);
}

static void recorded_settings_that_cannot_be_used_leave_the_defaults_in_their_place(void **state)
{
    (void)state;
    hand_made_recording recording;
    record_begin(&recording);
    record_growing_program(&recording);
    record_conf(&recording, "no_such_option:1");
    vw_tune_report *report = tune(record_end(&recording), on_card(1024 * MIB));
    assert_string_equal(report->recorded->policy, "native");
    assert_true(says(report->notes, report->note_count, "no_such_option:1"));
    vw_tune_report_free(report);
    record_dispose(&recording);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_tune_report *report = NULL;
    record_begin(&recording);
    record_growing_program(&recording);
    const vw_recording *opened = record_end(&recording);
    vw_tune_options options = on_card(0);
    assert_int_equal(vw_recording_tune(opened, &options, &report), VW_ERR_INVALID_ARGUMENT);
    options = on_card(MIB);
    options.device = 3;
    assert_int_equal(vw_recording_tune(opened, &options, &report), VW_ERR_INVALID_ARGUMENT);
    options = on_card(MIB);
    options.struct_size = 0;
    assert_int_equal(vw_recording_tune(opened, &options, &report), VW_ERR_INVALID_ARGUMENT);
    options = on_card(MIB);
    options.torch_version = "3";
    assert_int_equal(vw_recording_tune(opened, &options, &report), VW_ERR_INVALID_ARGUMENT);
    assert_int_equal(vw_recording_tune(opened, NULL, &report), VW_ERR_INVALID_ARGUMENT);
    assert_null(report);
    vw_tune_report_free(NULL);
    record_dispose(&recording);
}

static void progress_rises_to_one_and_can_stop_it(void **state)
{
    (void)state;
    hand_made_recording recording;
    vw_tune_report *report = NULL;
    progress_log log = {.stop_at = 0};
    record_begin(&recording);
    record_growing_program(&recording);
    const vw_recording *opened = record_end(&recording);
    vw_tune_options options = on_card(260 * MIB);
    options.progress = log_progress;
    options.progress_context = &log;
    vw_tune_report_free(tune(opened, options));
    assert_true(log.last == 1.0);
    log = (progress_log){.stop_at = 1};
    assert_int_equal(vw_recording_tune(opened, &options, &report), VW_ERR_WRONG_STATE);
    assert_non_null(strstr(vw_last_error(), "stopped"));
    record_dispose(&recording);
}

static bool tune_it(void *context)
{
    vw_tune_options options = on_card(260 * MIB);
    vw_tune_report *report = NULL;
    if (vw_recording_tune(context, &options, &report) != VW_OK)
        return false;
    vw_tune_report_free(report);
    return true;
}

/* Threads take their memory in any order, so that a sweep hits each place only more or less; what
 * must hold is that nothing is left behind. */
static void running_out_of_host_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    hand_made_recording recording;
    char complaint[160] = "";
    record_begin(&recording);
    record_new(&recording, base, 4 * MIB, 4 * MIB);
    record_free(&recording, base, 4 * MIB);
    const vw_recording *opened = record_end(&recording);
    bool has_fault = vw_test_find_host_memory_fault(tune_it, (void *)(uintptr_t)opened, 3000,
                                                    complaint, sizeof complaint);
    if (has_fault)
        fail_msg("%s", complaint);
    record_dispose(&recording);
}

/* A run that gave memory back between its phases: every setting spends more than a hundredth of the
 * time in the driver, and some three times as much as others. */
static void where_all_are_slow_the_best_is_near_the_quickest(void **state)
{
    (void)state;
    const vw_tune_options options = {.struct_size = sizeof options,
                                     .card_bytes = UINT64_C(6) << 30,
                                     .device = VW_BUSIEST_DEVICE};
    vw_recording *recording = NULL;
    vw_tune_report *report = NULL;
    uint64_t quickest_ns = UINT64_MAX;
    bool has_slower_and_smaller = false;
    assert_int_equal(vw_recording_open(VW_TEST_DATA
                                       "/recordings/train_eval_phases.native.pickle.xz",
                                       NULL, &recording),
                     VW_OK);
    assert_int_equal(vw_recording_tune(recording, &options, &report), VW_OK);
    assert_true(report->fits);
    for (size_t i = 0; i < report->tried_count; i++) {
        const vw_replay_result *result = &report->tried[i];
        if (!result->is_complete || result->retries != 0)
            continue;
        if (result->device_ns < quickest_ns)
            quickest_ns = result->device_ns;
        has_slower_and_smaller = has_slower_and_smaller ||
                                 (result->device_ns > 2 * report->best->device_ns &&
                                  result->peak_reserved_bytes < report->best->peak_reserved_bytes);
    }
    assert_true(has_slower_and_smaller);
    assert_true(report->best->device_ns * 2 <= quickest_ns * 3);
    vw_tune_report_free(report);
    vw_recording_close(recording);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_put_in_the_order_that_the_top_of_the_source_states),
        cmocka_unit_test(expandable_segments_are_found_where_they_alone_fit_without_retries),
        cmocka_unit_test(the_variable_is_the_one_that_the_version_reads),
        cmocka_unit_test(settings_that_complete_come_before_those_that_do_not),
        cmocka_unit_test(every_setting_is_tried_once),
        cmocka_unit_test(more_live_than_the_card_has_is_said_at_once),
        cmocka_unit_test(what_only_waits_for_other_streams_does_not_make_it_impossible),
        cmocka_unit_test(a_recommended_setting_that_is_worse_is_warned_of),
        cmocka_unit_test(options_that_a_version_has_not_are_not_tried),
        cmocka_unit_test(engines_of_our_own_come_behind_what_pytorch_completes_with),
        cmocka_unit_test(engine_vramwise_is_tried_always),
        cmocka_unit_test(a_recording_of_engine_vramwise_is_tried_with_it_once),
        cmocka_unit_test(where_nothing_of_pytorchs_fits_engine_vramwise_is_best),
        cmocka_unit_test(garbage_collection_is_tried_with_the_call_it_needs),
        cmocka_unit_test(recorded_settings_that_cannot_be_used_leave_the_defaults_in_their_place),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(progress_rises_to_one_and_can_stop_it),
        cmocka_unit_test(running_out_of_host_memory_leaves_nothing_behind),
        cmocka_unit_test(where_all_are_slow_the_best_is_near_the_quickest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
