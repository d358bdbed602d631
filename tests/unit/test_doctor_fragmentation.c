/* test_doctor_fragmentation.c - idle memory: where it lies, who keeps it, what would not have it;
 * and recipes that would hurt. */
#include "doctor/doctor.h"

#include <stdio.h>

#include "doctor/settings.h"

#include "support/cmocka_here.h"
#include "support/doctor_case.h"
#include "support/hand_made_recording.h"
#include "support/host_memory_sweep.h"
#include "support/small_model.h"
#include "support/stored_recordings.h"

#define A UINT64_C(0x7f0000000000)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* Looks at it, and returns the finding, or NULL. */
static vw__diagnosis_finding *examine(doctor_case *made, const vw_recording *recording,
                                      uint64_t card_bytes)
{
    doctor_case_open(made, recording, card_bytes);
    if (vw__doctor_fragmentation(&made->input, &made->facts, &made->result) != VW_OK)
        fail_msg("%s", vw_last_error());
    assert_false(made->draft.has_failed);
    return vw__diagnosis_find(&made->draft, "fragmentation");
}

static bool has_evidence(const vw__diagnosis_finding *finding, const char *words)
{
    for (size_t i = 0; i < finding->evidence_count; i++)
        if (has_words(finding->evidence[i], words))
            return true;
    return false;
}

static bool has_warning(const vw__diagnosis_draft *draft, const char *words)
{
    for (size_t i = 0; i < draft->finding_count; i++)
        if (strcmp(draft->findings[i]->kind, "warning") == 0 &&
            has_words(draft->findings[i]->title, words))
            return true;
    return false;
}

/* Replayed remedies come by bytes, but for an engine of our own, which is the last of them. */
static void check_order(const vw__diagnosis_finding *finding)
{
    uint64_t last_bytes = UINT64_MAX;
    for (size_t i = 0; i < finding->remedy_count; i++) {
        const vw_remedy *remedy = &finding->remedies[i];
        if (remedy->basis != VW_BASIS_REPLAYED)
            continue;
        assert_true(last_bytes != 0);
        if (has_words(remedy->action, "vramwise's allocator")) {
            last_bytes = 0;
            continue;
        }
        assert_true(remedy->saves_bytes <= last_bytes);
        last_bytes = remedy->saves_bytes;
    }
}

/* ---- recordings of PyTorch's ----------------------------------------------------------------- */

static void a_run_that_reserves_far_more_than_it_uses_has_the_finding(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    open_stored("train_eval_phases.native.pickle.xz", &stored);
    vw__diagnosis_finding *finding = examine(&made, stored.recording, 0);
    assert_non_null(finding);
    vw__layout layout;
    assert_int_equal(vw__layout_at(made.facts.model, made.facts.trace,
                                   made.facts.timeline.peak_reserved_instant, &layout),
                     VW_OK);
    assert_int_equal(finding->bytes, layout.idle_bytes);
    vw__layout_deinit(&layout);
    assert_true(finding->where_count > 0);
    assert_true(has_words(finding->where[0], "train.py:"));
    const vw_remedy *expandable = find_remedy(finding, "expandable_segments:True");
    assert_non_null(expandable);
    assert_ptr_equal(expandable, &finding->remedies[0]); /* it gives back most here */
    assert_int_equal(expandable->basis, VW_BASIS_REPLAYED);
    assert_true(expandable->saves_bytes > made.facts.timeline.peak_reserved_bytes / 3);
    assert_true(has_words(expandable->how, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"));
    assert_non_null(find_remedy(finding, "empty the cache between phases, never inside the loop"));
    check_order(finding);
    assert_true(has_evidence(finding, "max_split_size_mb:"));
    assert_true(has_warning(&made.draft, "max_split_size_mb:128"));
    assert_null(find_remedy(finding, "max_split_size_mb"));
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

static void runs_that_use_what_they_reserve_have_neither_finding_nor_warning(void **state)
{
    static const char *const names[] = {"leak_hook.native", "leak_loss.expand",
                                        "eval_with_grad.native", "eval_with_grad.expand"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char name[128];
        stored_recording stored;
        doctor_case made;
        (void)snprintf(name, sizeof name, "%s%s", names[i], STORED_ENDING);
        open_stored(name, &stored);
        assert_null(examine(&made, stored.recording, 0));
        assert_int_equal(made.draft.finding_count, 0);
        doctor_case_close(&made);
        vw_recording_close(stored.recording);
    }
}

static void a_setting_that_made_it_worse_is_to_be_dropped(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    open_stored("unet_buckets.split128.pickle.xz", &stored);
    vw__diagnosis_finding *finding = examine(&made, stored.recording, 0);
    assert_non_null(finding);
    const vw_remedy *drop = find_remedy(finding, "drop \"max_split_size_mb:128\"");
    assert_non_null(drop);
    assert_true(drop->saves_bytes > 0);
    assert_true(has_words(drop->how, "unset PYTORCH_CUDA_ALLOC_CONF"));
    const vw_remedy *expandable = find_remedy(finding, "expandable_segments:True");
    assert_non_null(expandable);
    assert_true(has_words(expandable->how, "# instead of max_split_size_mb:128"));
    assert_false(has_warning(&made.draft, "max_split_size_mb:128")); /* it is what it has */
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

static void at_a_failure_the_pieces_and_what_holds_them_are_named(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    open_stored("oom_fragmented.native.pickle.xz", &stored);
    vw__diagnosis_finding *finding = examine(&made, stored.recording, 0);
    const vw_memory_numbers *numbers = &made.facts.failure.numbers;
    assert_non_null(finding);
    assert_int_equal(finding->bytes, numbers->reserved_bytes - numbers->allocated_bytes);
    assert_true(has_words(finding->title, "700 MiB were refused"));
    assert_true(has_evidence(finding, "cannot be released: each still holds one live block"));
    assert_true(finding->where_count > 0);
    assert_true(has_words(finding->where[0], "train.py:172"));
    assert_non_null(find_remedy(finding, "to the host and back"));
    assert_ptr_equal(find_remedy(finding, "to the host and back"), &finding->remedies[0]);
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

static void a_failure_for_want_of_memory_is_not_called_fragmentation(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    open_stored("oom_genuine.native.pickle.xz", &stored);
    assert_null(examine(&made, stored.recording, 0));
    doctor_case_close(&made);
    assert_null(examine(&made, stored.recording, 8 * GIB));
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

/* ---- by hand --------------------------------------------------------------------------------- */

enum { PINNED_SEGMENTS = 8 };

/* In each step a large block comes and goes, and leaves a small one at the end of its segment; the
 * next one is larger than what is left. */
static vw__model *make_pinned(void)
{
    small_model small;
    small_model_begin(&small);
    uint32_t work = small_model_context(&small, "work train.py 20");
    uint32_t kept = small_model_context(&small, "keep train.py 10");
    for (uint64_t i = 0; i < PINNED_SEGMENTS; i++) {
        uint64_t address = A - i * 100 * MIB, size = (20 + 4 * i) * MIB;
        small_model_event(&small, VW_ACTION_SEGMENT_ALLOC, address, size, work);
        small_model_alloc(&small, address, size - 2 * MIB, work);
        small_model_alloc(&small, address + size - 2 * MIB, 2 * MIB, kept);
        small_model_free(&small, address, size - 2 * MIB, work);
    }
    small_model_end_trace(&small, 0);
    small_model_set_features(&small);
    return small_model_finish(&small);
}

static void the_line_of_the_blocks_that_hold_segments_comes_first(void **state)
{
    (void)state;
    vw__model *model = make_pinned();
    vw__layout_view view; /* with the segments that the trace ends with */
    assert_int_equal(
        vw__layout_view_make(model, &model->traces[0], model->traces[0].event_count, &view), VW_OK);
    const vw_recording recording = {.model = &view.model};
    doctor_case made;
    vw__diagnosis_finding *finding = examine(&made, &recording, 0);
    assert_non_null(finding);
    assert_true(finding->where_count > 0);
    assert_string_equal(finding->where[0], "train.py:10 keep");
    assert_true(has_evidence(finding, " are partly used, with "));
    doctor_case_close(&made);
    vw__layout_view_deinit(&view);
    vw__model_destroy(model);
}

static void a_request_that_would_have_fit_in_few_idle_bytes_gets_a_finding(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    record_begin(&hand);
    for (uint64_t i = 0; i < 24; i++)
        record_new(&hand, A + i * 40 * MIB, 40 * MIB, 40 * MIB);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t address = A + GIB + i * 22 * MIB;
        record_event(&hand, VW_ACTION_SEGMENT_ALLOC, address, 22 * MIB);
        record_event(&hand, VW_ACTION_ALLOC, address, 20 * MIB);
        record_event(&hand, VW_ACTION_ALLOC, address + 20 * MIB, 2 * MIB);
        record_free(&hand, address, 20 * MIB);
    }
    record_event(&hand, VW_ACTION_OOM, GIB, 30 * MIB);
    vw__diagnosis_finding *finding = examine(&made, record_end(&hand), 0);
    assert_non_null(finding);
    assert_int_equal(finding->bytes, 40 * MIB);
    assert_true(has_words(finding->title, "would have fit in the 40.0 MiB"));
    assert_true(has_words(finding->title, "10.0 MiB would have remained"));
    doctor_case_close(&made);
    record_dispose(&hand);
}

/* Steps that need the same memory each time, and a request at the end that is too much. */
static void record_even_steps(hand_made_recording *hand)
{
    record_event(hand, VW_ACTION_SEGMENT_ALLOC, A, 200 * MIB);
    for (int i = 0; i < 20; i++) {
        record_event(hand, VW_ACTION_ALLOC, A, 200 * MIB);
        record_free(hand, A, 200 * MIB);
        record_step_end(hand);
    }
    record_event(hand, VW_ACTION_ALLOC, A, 200 * MIB);
    record_event(hand, VW_ACTION_OOM, 300 * MIB, 400 * MIB);
}

static void an_empty_cache_in_every_step_that_gives_nothing_back_is_warned_of(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    record_begin(&hand);
    record_even_steps(&hand);
    assert_null(examine(&made, record_end(&hand), 0));
    assert_true(has_warning(&made.draft, "empty_cache() in every step"));
    doctor_case_close(&made);
    record_dispose(&hand);
}

static void without_a_layout_nothing_is_claimed(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    record_begin(&hand);
    record_free(&hand, A, 512);
    record_event(&hand, VW_ACTION_OOM, GIB, 30 * MIB);
    assert_null(examine(&made, record_end(&hand), 0));
    assert_true(made.facts.failure.has_happened);
    assert_true(made.facts.failure.numbers.reserved_bytes == VW_UNKNOWN);
    doctor_case_close(&made);
    record_dispose(&hand);
}

/* ---- settings -------------------------------------------------------------------------------- */

static void settings_are_replayed_and_the_recorded_one_comes_out_as_recorded(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    vw__doctor_tried_settings tried;
    open_stored("train_eval_phases.native.pickle.xz", &stored);
    doctor_case_open(&made, stored.recording, 0);
    assert_int_equal(
        vw__doctor_try_settings(&made.input, &made.facts, VW__DOCTOR_FOR_REMEDIES, &tried), VW_OK);
    assert_false(tried.is_as_failed);
    assert_true(tried.card_bytes == VW_UNKNOWN);
    assert_int_equal(tried.tried[0].kind, VW__SETTING_RECORDED);
    assert_int_equal(tried.tried[0].peak_reserved_bytes, made.facts.timeline.peak_reserved_bytes);
    bool has_kind[VW__SETTING_KINDS] = {false};
    for (size_t i = 0; i < tried.count; i++) {
        has_kind[tried.tried[i].kind] = true;
        assert_true(tried.tried[i].peak_reserved_bytes >= made.facts.peak_bytes);
    }
    assert_true(has_kind[VW__SETTING_EXPANDABLE]);
    assert_true(has_kind[VW__SETTING_MAX_SPLIT]);
    assert_true(has_kind[VW__SETTING_TRIM_PHASES]);
    assert_true(has_kind[VW__SETTING_VRAMWISE]);
    assert_false(has_kind[VW__SETTING_TRIM_STEPS]); /* for runs that failed */
    assert_false(has_kind[VW__SETTING_DEFAULTS]);   /* they are what was recorded */
    assert_false(has_kind[VW__SETTING_COLLECTION]); /* there is no limit to count from */
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

static void what_cannot_be_replayed_has_no_settings_and_is_no_failure(void **state)
{
    (void)state;
    hand_made_recording hand;
    doctor_case made;
    vw__doctor_tried_settings tried;
    record_begin(&hand);
    record_new(&hand, A, 20 * MIB, 4 * MIB);
    record_event(&hand, VW_ACTION_ALLOC, A, 4 * MIB); /* where a block is live */
    doctor_case_open(&made, record_end(&hand), 0);
    assert_int_equal(
        vw__doctor_try_settings(&made.input, &made.facts, VW__DOCTOR_FOR_REMEDIES, &tried), VW_OK);
    assert_int_equal(tried.count, 0);
    doctor_case_close(&made);
    record_dispose(&hand);
}

static void at_a_failure_everything_is_tried_under_the_limit_that_refused_it(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    vw__doctor_tried_settings tried;
    open_stored("oom_fragmented.native.pickle.xz", &stored);
    doctor_case_open(&made, stored.recording, 0);
    assert_int_equal(
        vw__doctor_try_settings(&made.input, &made.facts, VW__DOCTOR_FOR_REMEDIES, &tried), VW_OK);
    assert_true(tried.is_as_failed);
    assert_true(tried.is_limited);
    assert_int_equal(tried.card_bytes, made.facts.failure.limit_least_bytes);
    for (size_t i = 0; i < tried.count; i++)
        assert_true(tried.tried[i].peak_reserved_bytes <= tried.card_bytes);
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

/* As `vramwise replay` says: expandable segments fail under that limit too. */
static void a_setting_that_fails_under_the_limit_is_no_remedy(void **state)
{
    (void)state;
    stored_recording stored;
    doctor_case made;
    open_stored("oom_fragmented.native.pickle.xz", &stored);
    vw_replay_report *report = NULL;
    assert_int_equal(vw_recording_replay(stored.recording, NULL, &report), VW_OK);
    vw__diagnosis_finding *finding = examine(&made, stored.recording, 0);
    assert_non_null(finding);
    for (size_t i = 0; i < report->result_count; i++) {
        const vw_replay_result *result = &report->results[i];
        bool is_engine = strcmp(result->policy, "vramwise") == 0;
        if (strcmp(result->policy, "recorded") == 0)
            continue;
        const vw_remedy *remedy =
            find_remedy(finding, is_engine ? "vramwise's allocator" : result->conf);
        assert_int_equal(remedy != NULL, result->is_complete);
        if (remedy != NULL)
            assert_int_equal(remedy->enough, VW_ENOUGH_YES);
    }
    assert_null(find_remedy(finding, "expandable_segments:True"));
    vw_replay_report_free(report);
    doctor_case_close(&made);
    vw_recording_close(stored.recording);
}

/* Remedies of results that a replay might have. */
static vw__diagnosis_finding *remedies_of(doctor_case *made,
                                          const vw__doctor_tried_setting *results, size_t count,
                                          bool has_failed)
{
    vw__doctor_tried_settings tried = {.count = count,
                                       .recorded_conf = "max_split_size_mb:256",
                                       .is_as_failed = has_failed,
                                       .is_limited = has_failed,
                                       .card_bytes = has_failed ? 10 * GIB : VW_UNKNOWN,
                                       .wanted_bytes = has_failed ? 11 * GIB : 0};
    memset(made, 0, sizeof *made);
    vw__diagnosis_init(&made->draft, VW_SOURCE_RECORDING);
    made->result.draft = &made->draft;
    made->facts.failure.has_happened = has_failed;
    made->facts.failure.event = 100;
    memcpy(tried.tried, results, count * sizeof *results);
    vw__diagnosis_finding *finding =
        vw__diagnosis_add(&made->draft, "fragmentation", VW_UNKNOWN, "made up");
    vw__doctor_add_setting_remedies(&made->facts, &made->result, &tried, finding);
    return finding;
}

static void
at_a_failure_what_serves_the_request_is_a_remedy_and_enough_if_it_completes(void **state)
{
    const vw__doctor_tried_setting results[] = {
        {.kind = VW__SETTING_RECORDED,
         .conf = "",
         .oom_event = 100,
         .peak_reserved_bytes = 10 * GIB},
        {.kind = VW__SETTING_MAX_SPLIT,
         .conf = "max_split_size_mb:128",
         .oom_event = 40,
         .peak_reserved_bytes = 8 * GIB},
        {.kind = VW__SETTING_ROUNDUP,
         .conf = "roundup_power2_divisions:8",
         .oom_event = 200,
         .is_served = true,
         .peak_reserved_bytes = 9 * GIB},
        {.kind = VW__SETTING_EXPANDABLE,
         .conf = "expandable_segments:True",
         .oom_event = VW_UNKNOWN,
         .is_served = true,
         .is_complete = true,
         .peak_reserved_bytes = 10 * GIB},
    };
    doctor_case made;
    (void)state;
    vw__diagnosis_finding *finding = remedies_of(&made, results, 4, true);
    assert_int_equal(finding->remedy_count, 2);
    assert_true(has_words(finding->remedies[0].action, "expandable_segments:True: the request"));
    assert_int_equal(finding->remedies[0].enough, VW_ENOUGH_YES);
    assert_int_equal(finding->remedies[0].saves_bytes, GIB);
    assert_true(has_words(finding->remedies[1].action, "a later one is not"));
    assert_int_equal(finding->remedies[1].enough, VW_ENOUGH_NO);
    assert_true(has_evidence(finding, "max_split_size_mb:128 fails at event 40"));
    vw__diagnosis_deinit(&made.draft);
}

static void an_option_gets_no_credit_for_what_the_defaults_do_as_well(void **state)
{
    const vw__doctor_tried_setting results[] = {
        {.kind = VW__SETTING_RECORDED, .conf = "", .peak_reserved_bytes = 10 * GIB},
        {.kind = VW__SETTING_DEFAULTS, .conf = "", .peak_reserved_bytes = 5 * GIB},
        {.kind = VW__SETTING_ROUNDUP,
         .conf = "roundup_power2_divisions:8",
         .peak_reserved_bytes = 6 * GIB},
        {.kind = VW__SETTING_MAX_SPLIT,
         .conf = "max_split_size_mb:512",
         .peak_reserved_bytes = 4 * GIB},
    };
    doctor_case made;
    (void)state;
    vw__diagnosis_finding *finding = remedies_of(&made, results, 4, false);
    assert_int_equal(finding->remedy_count, 2);
    assert_true(has_words(finding->remedies[0].action, "max_split_size_mb:512"));
    assert_true(has_words(finding->remedies[1].action, "drop \"max_split_size_mb:256\""));
    vw__diagnosis_deinit(&made.draft);
}

/* A setting that can be typed comes first, however much less another allocator reserves. */
static void an_engine_of_our_own_is_named_last_and_only_for_what_no_setting_does(void **state)
{
    vw__doctor_tried_setting results[] = {
        {.kind = VW__SETTING_RECORDED, .conf = "", .peak_reserved_bytes = 10 * GIB},
        {.kind = VW__SETTING_EXPANDABLE,
         .conf = "expandable_segments:True",
         .peak_reserved_bytes = 8 * GIB},
        {.kind = VW__SETTING_VRAMWISE, .conf = "", .peak_reserved_bytes = 5 * GIB},
    };
    doctor_case made;
    (void)state;
    vw__diagnosis_finding *finding = remedies_of(&made, results, 3, false);
    assert_int_equal(finding->remedy_count, 2);
    assert_true(has_words(finding->remedies[0].action, "expandable_segments:True"));
    assert_true(has_words(finding->remedies[1].action, "vramwise's allocator"));
    assert_int_equal(finding->remedies[1].saves_bytes, 5 * GIB);
    assert_int_equal(finding->remedies[1].basis, VW_BASIS_REPLAYED);
    assert_true(has_words(finding->remedies[1].cost, "a restart"));
    assert_true(has_words(finding->remedies[1].how, "vramwise run --allocator vramwise"));
    vw__diagnosis_deinit(&made.draft);

    results[2].peak_reserved_bytes = 8 * GIB - GIB / 8; /* hardly better */
    finding = remedies_of(&made, results, 3, false);
    assert_int_equal(finding->remedy_count, 1);
    vw__diagnosis_deinit(&made.draft);

    results[2].is_served = results[2].is_complete = true; /* but it alone goes through */
    finding = remedies_of(&made, results, 3, true);
    assert_int_equal(finding->remedy_count, 1);
    assert_true(has_words(finding->remedies[0].action, "the request that failed is then served"));
    vw__diagnosis_deinit(&made.draft);

    results[1].is_served = results[1].is_complete = true; /* now both do */
    finding = remedies_of(&made, results, 3, true);
    assert_int_equal(finding->remedy_count, 1);
    vw__diagnosis_deinit(&made.draft);
}

/* ---- host memory ----------------------------------------------------------------------------- */

static bool examine_again(void *context)
{
    doctor_case made;
    bool is_done = doctor_case_try_open(&made, context, 0) &&
                   vw__doctor_find_failure(&made.input, &made.facts, &made.result) == VW_OK &&
                   vw__doctor_fragmentation(&made.input, &made.facts, &made.result) == VW_OK &&
                   !made.draft.has_failed;
    doctor_case_close(&made);
    return is_done;
}

static void every_lack_of_host_memory_is_reported(void **state)
{
    (void)state;
    hand_made_recording hand;
    vw__model *model = make_pinned();
    vw__layout_view view;
    assert_int_equal(
        vw__layout_view_make(model, &model->traces[0], model->traces[0].event_count, &view), VW_OK);
    vw_recording recording = {.model = &view.model};
    assert_true(examine_again(&recording)); /* the registry of devices is made once */
    vw_test_sweep_host_memory(examine_again, &recording);
    vw__layout_view_deinit(&view);
    vw__model_destroy(model);
    record_begin(&hand);
    record_even_steps(&hand);
    (void)record_end(&hand);
    vw_test_sweep_host_memory(examine_again, &hand.recording);
    record_dispose(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_reserves_far_more_than_it_uses_has_the_finding),
        cmocka_unit_test(runs_that_use_what_they_reserve_have_neither_finding_nor_warning),
        cmocka_unit_test(a_setting_that_made_it_worse_is_to_be_dropped),
        cmocka_unit_test(at_a_failure_the_pieces_and_what_holds_them_are_named),
        cmocka_unit_test(a_failure_for_want_of_memory_is_not_called_fragmentation),
        cmocka_unit_test(the_line_of_the_blocks_that_hold_segments_comes_first),
        cmocka_unit_test(a_request_that_would_have_fit_in_few_idle_bytes_gets_a_finding),
        cmocka_unit_test(an_empty_cache_in_every_step_that_gives_nothing_back_is_warned_of),
        cmocka_unit_test(without_a_layout_nothing_is_claimed),
        cmocka_unit_test(settings_are_replayed_and_the_recorded_one_comes_out_as_recorded),
        cmocka_unit_test(what_cannot_be_replayed_has_no_settings_and_is_no_failure),
        cmocka_unit_test(at_a_failure_everything_is_tried_under_the_limit_that_refused_it),
        cmocka_unit_test(a_setting_that_fails_under_the_limit_is_no_remedy),
        cmocka_unit_test(
            at_a_failure_what_serves_the_request_is_a_remedy_and_enough_if_it_completes),
        cmocka_unit_test(an_option_gets_no_credit_for_what_the_defaults_do_as_well),
        cmocka_unit_test(an_engine_of_our_own_is_named_last_and_only_for_what_no_setting_does),
        cmocka_unit_test(every_lack_of_host_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
