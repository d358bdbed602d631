/* test_doctor_recording.c - which finding becomes the verdict, and what is then left unsaid. */
#include "vramwise/doctor.h"

#include <string.h>

#include "support/cmocka_here.h"
#include "support/hand_made_recording.h"
#include "support/made_up_run.h"
#include "support/stored_recordings.h"

static vw_diagnosis *diagnose(const char *name, uint64_t card_bytes)
{
    char path[512];
    vw_doctor_options options = {.struct_size = sizeof options, .card_bytes = card_bytes};
    vw_diagnosis *diagnosis = NULL;
    (void)snprintf(path, sizeof path, STORED_RECORDINGS "/%s" STORED_ENDING, name);
    if (vw_doctor_file(path, &options, &diagnosis) != VW_OK)
        fail_msg("%s: %s", name, vw_last_error());
    return diagnosis;
}

static bool has_reason(const vw_diagnosis *diagnosis, const char *words)
{
    for (size_t i = 0; i < diagnosis->reasoning_count; i++)
        if (strstr(diagnosis->reasoning[i], words) != NULL)
            return true;
    return false;
}

static void a_limit_is_named_with_its_range_and_how_to_raise_it(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = diagnose("oom_genuine.native", 0);
    const vw_finding *first = &diagnosis->findings[0];
    assert_int_equal(diagnosis->verdict, VW_VERDICT_CAPPED);
    assert_string_equal(first->kind, "capped");
    assert_non_null(strstr(first->evidence[0], "the most that was granted"));
    assert_non_null(strstr(first->remedies[0].how, "set_per_process_memory_fraction"));
    assert_int_equal(first->remedies[0].saves_bytes, diagnosis->numbers.free_bytes);
    assert_true(finding_of(diagnosis, "peak")->remedy_count > 2);
    vw_diagnosis_free(diagnosis);
}

static void one_request_too_large_is_named_with_the_line_that_asked(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = diagnose("doctor/oom_too_large", 0);
    const vw_finding *first = &diagnosis->findings[0];
    assert_int_equal(diagnosis->verdict, VW_VERDICT_TOO_LARGE);
    assert_int_equal(diagnosis->confidence, VW_CONFIDENCE_LOW); /* the limit is an estimate */
    assert_true(has_reason(diagnosis, "the verdict would be capped"));
    assert_string_equal(first->kind, "too-large");
    assert_string_equal(first->where[0], "doctor_limits.py:90 oom_too_large");
    assert_non_null(strstr(diagnosis->sentence, "doctor_limits.py:90"));
    assert_true(first->remedy_count >= 2);
    vw_diagnosis_free(diagnosis);
}

static void what_a_leak_holds_is_not_offered_a_second_time(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = diagnose("doctor/leak_until_oom_no_stacks", 0);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    assert_null(finding_of(diagnosis, "fragmentation"));
    assert_int_equal(finding_of(diagnosis, "peak")->remedy_count, 0);
    vw_diagnosis_free(diagnosis);
}

/* Thirty steps, each of which keeps `kept_bytes`, on a card of which 60 GiB are free; then a
 * request for `tried_bytes` is refused. */
static vw_diagnosis *diagnose_at_a_limit(uint64_t kept_bytes, uint64_t tried_bytes)
{
    enum { STEPS = 30 };
    uint64_t next = UINT64_C(0x7f0000000000);
    hand_made_recording hand;
    vw_diagnosis *diagnosis = NULL;
    record_begin(&hand);
    uint64_t batch = next;
    record_event(&hand, VW_ACTION_SEGMENT_ALLOC, batch, 64 * RUN_MIB);
    for (int i = 0; i < STEPS; i++) {
        record_event(&hand, VW_ACTION_ALLOC, batch, 64 * RUN_MIB);
        next += UINT64_C(1) << 30;
        if (kept_bytes != 0)
            record_new(&hand, next, kept_bytes, kept_bytes);
        record_free(&hand, batch, 64 * RUN_MIB);
        record_step_end(&hand);
    }
    record_event(&hand, VW_ACTION_ALLOC, batch, 64 * RUN_MIB);
    record_event(&hand, VW_ACTION_OOM, UINT64_C(60) << 30, tried_bytes);
    assert_int_equal(vw_doctor_recording(record_end(&hand), NULL, &diagnosis), VW_OK);
    record_dispose(&hand);
    return diagnosis;
}

static void growth_up_to_a_limit_is_a_leak_and_the_limit_is_named(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = diagnose_at_a_limit(20 * RUN_MIB, 20 * RUN_MIB);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_LEAK);
    assert_non_null(strstr(diagnosis->sentence, "; 20.0 MiB then did not fit under a limit of "
                                                "about 67"));
    assert_true(has_reason(diagnosis, "a limit was set, and all requests agree with one between "
                                      "664 MiB"));
    assert_true(has_reason(diagnosis, "is what it grew up to"));
    vw_diagnosis_free(diagnosis);
}

static void a_sudden_request_beyond_a_limit_is_capped_whether_something_grows_or_not(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = diagnose_at_a_limit(2 * RUN_MIB, 100 * RUN_MIB);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_CAPPED);
    assert_non_null(finding_of(diagnosis, "leak")); /* beside it */
    assert_non_null(finding_of(diagnosis, "capped"));
    vw_diagnosis_free(diagnosis);
    diagnosis = diagnose_at_a_limit(0, 20 * RUN_MIB);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_CAPPED);
    assert_null(finding_of(diagnosis, "leak"));
    vw_diagnosis_free(diagnosis);
}

static void stranded_memory_is_not_called_fragmented_as_well(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = diagnose("doctor/oom_stranded_on_a_stream", 0);
    const vw_finding *first = &diagnosis->findings[0];
    bool has_setting = false;
    assert_int_equal(diagnosis->verdict, VW_VERDICT_STRANDED);
    assert_string_equal(first->kind, "stranded");
    assert_null(finding_of(diagnosis, "fragmentation"));
    for (size_t i = 0; i < first->remedy_count; i++)
        has_setting = has_setting || strstr(first->remedies[i].action, "expandable") != NULL;
    assert_true(has_setting); /* replayed: it serves the request */
    vw_diagnosis_free(diagnosis);
}

static void what_stays_between_holes_can_be_moved_together(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = diagnose("doctor/fragmented_loading", 0);
    const vw_finding *first = &diagnosis->findings[0];
    assert_int_equal(diagnosis->verdict, VW_VERDICT_FRAGMENTATION);
    assert_non_null(strstr(first->remedies[0].action, "to the host and back"));
    assert_true(first->remedies[0].saves_bytes >= diagnosis->numbers.tried_bytes);
    vw_diagnosis_free(diagnosis);
}

static void parts_never_exceed_their_finding(void **state)
{
    (void)state;
    static const char *const names[] = {"oom_fragmented.native", "oom_fragmented.pow2",
                                        "train_eval_phases.native",
                                        "doctor/fragmented_interleaved"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        vw_diagnosis *diagnosis = diagnose(names[i], 0);
        const vw_finding *finding = finding_of(diagnosis, "fragmentation");
        uint64_t sum = 0;
        assert_non_null(finding);
        for (size_t k = 0; k < finding->part_count; k++)
            sum += finding->parts[k].bytes;
        assert_true(sum <= finding->bytes);
        vw_diagnosis_free(diagnosis);
    }
}

static void a_run_that_did_not_fail_shows_where_most_was_alive(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = diagnose("train_eval_phases.native", 0);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_HEALTHY);
    assert_int_equal(diagnosis->error_count, 0);
    assert_int_equal(diagnosis->numbers.tried_bytes, VW_UNKNOWN);
    assert_true(diagnosis->numbers.allocated_bytes <= diagnosis->numbers.reserved_bytes);
    assert_int_equal(diagnosis->numbers.allocated_bytes, finding_of(diagnosis, "peak")->bytes);
    vw_diagnosis_free(diagnosis);
}

static void on_a_smaller_card_the_failure_is_the_replays(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = diagnose("train_eval_phases.native", UINT64_C(4) << 30);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_GENUINE);
    assert_int_equal(diagnosis->numbers.total_bytes, UINT64_C(4) << 30);
    assert_int_equal(diagnosis->error_count, 0); /* none was recorded */
    assert_true(has_reason(diagnosis, "Replayed on a card of 4.00 GiB"));
    assert_string_equal(diagnosis->sentence,
                        "Genuine: 3.57 GiB are alive, and there is no room for 590 MiB more.");
    vw_diagnosis_free(diagnosis);
}

static void segments_without_a_history_tell_little_and_say_what_would(void **state)
{
    (void)state;
    static const char bare[] = "[{\"device\": 0, \"address\": 140000000000000, \"total_size\": "
                               "2097152, \"allocated_size\": 512, \"active_size\": 512, "
                               "\"segment_type\": \"small\", \"blocks\": [{\"size\": 512, "
                               "\"state\": \"active_allocated\"}, {\"size\": 2096640, \"state\": "
                               "\"inactive\"}]}]";
    vw_recording *recording = NULL;
    vw_diagnosis *diagnosis = NULL;
    assert_int_equal(vw_recording_open_memory(bare, strlen(bare), NULL, &recording), VW_OK);
    assert_int_equal(vw_doctor_recording(recording, NULL, &diagnosis), VW_OK);
    assert_int_equal(diagnosis->verdict, VW_VERDICT_UNKNOWN);
    assert_int_equal(diagnosis->numbers.reserved_bytes, 2 * RUN_MIB);
    assert_non_null(strstr(diagnosis->findings[0].remedies[0].how, "--record run.pickle"));
    vw_diagnosis_free(diagnosis);
    vw_recording_close(recording);
}

static void an_allocator_of_our_own_is_named_with_its_gate(void **state)
{
    (void)state;
    vw_diagnosis *diagnosis = NULL;
    hand_made_recording hand;
    record_begin(&hand);
    record_new(&hand, RUN_MIB, 4 * RUN_MIB, 4 * RUN_MIB);
    record_engine(&hand, "vramwise");
    assert_int_equal(vw__model_add_setting(hand.builder, VW__MODEL_LAUNCH_GATE_KEY, "armed"),
                     VW_OK);
    const vw_recording *recording = record_end(&hand);
    assert_false(vw__recording_is_of_a_pool(recording->model));
    assert_int_equal(vw_doctor_recording(recording, NULL, &diagnosis), VW_OK);
    assert_true(has_reason(diagnosis, "The allocator was vramwise, its launch gate armed."));
    vw_diagnosis_free(diagnosis);
    record_dispose(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_is_named_with_its_range_and_how_to_raise_it),
        cmocka_unit_test(an_allocator_of_our_own_is_named_with_its_gate),
        cmocka_unit_test(one_request_too_large_is_named_with_the_line_that_asked),
        cmocka_unit_test(what_a_leak_holds_is_not_offered_a_second_time),
        cmocka_unit_test(growth_up_to_a_limit_is_a_leak_and_the_limit_is_named),
        cmocka_unit_test(a_sudden_request_beyond_a_limit_is_capped_whether_something_grows_or_not),
        cmocka_unit_test(stranded_memory_is_not_called_fragmented_as_well),
        cmocka_unit_test(what_stays_between_holes_can_be_moved_together),
        cmocka_unit_test(parts_never_exceed_their_finding),
        cmocka_unit_test(a_run_that_did_not_fail_shows_where_most_was_alive),
        cmocka_unit_test(on_a_smaller_card_the_failure_is_the_replays),
        cmocka_unit_test(segments_without_a_history_tell_little_and_say_what_would),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
